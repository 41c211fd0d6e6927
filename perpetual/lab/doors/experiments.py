"""`lab.experiments`, with the deeds that cross departments attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perpetual.lab.doors.connected import Connected
from perpetual.lab.experiments import Experiments
from perpetual.lab.rights import person_only, withholds
from perpetual.lab.specification import Specification
from perpetual.records import Experiment
from perpetual.toolkit.units import identifier

if TYPE_CHECKING:
    from perpetual.lab.flows import pick as _pick

__all__ = ["ExperimentsDoor"]


class ExperimentsDoor(Connected, Experiments):
    """`lab.experiments`."""

    def propose(
        self,
        hypothesis_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        **specification: Any,
    ) -> Experiment:
        """A new proposed experiment; the other arguments are those of `perpetual.lab.specification.Specification`.

        See `perpetual.lab.flows.propose.propose` for what it raises.
        """
        from perpetual.lab.flows import propose as _propose

        spec = Specification(**specification)
        return _propose.propose(self._desks, hypothesis_id, spec, idempotency_key=idempotency_key, dry_run=dry_run)

    def propose_auto(
        self, count: int, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> list[_pick.Pick]:
        """The `count` replicates that are most worth their cost now, new experiments among them, each explained."""
        from perpetual.lab.flows import pick as _pick

        return _pick.pick(self._desks, count, dry_run=dry_run, idempotency_key=idempotency_key)

    def rebaseline(self, id: str, **options: Any) -> Experiment:
        """A baseline proposed anew under today's code: see `perpetual.lab.flows.rebaseline.rebaseline`."""
        from perpetual.lab.flows.rebaseline import rebaseline as _rebaseline

        return _rebaseline(self._desks, id, **options)

    def approve(self, id: str) -> Experiment:
        """Binds the specification; for a person (a guard rail, see `perpetual.lab.rights`)."""
        return self.approve_all([id])[0]

    def approve_all(self, ids: Sequence[str], *, allowed: bool = False) -> list[Experiment]:
        """Approves each, or none of them if one cannot be.

        Args:
            allowed: a person has let this agent approve, as by `perpetual mcp --allow-approve`.
        """
        from perpetual.lab.flows.code_check import CodeCheck

        if not allowed:
            person_only(self._desks.ctx, "approve")
        ctx = self._desks.ctx
        ctx.trust.require("approving")
        wanted = [*dict.fromkeys(map(identifier, ids))]
        check = CodeCheck(self._desks)
        codes = check.states_of(wanted)
        again = {id for id in wanted if check.is_other(ctx.need("experiment", id))}
        with ctx.store.transaction():
            approved = [self.bind(id, code=codes.get(id), again=id in again) for id in wanted]
        ctx.trust.note(ctx.store.seq())
        return approved

    def differences(self, id: str) -> dict[str, Any] | None:
        """See `perpetual.lab.flows.likeness.differences`: what is new in it beside what was approved like it."""
        from perpetual.lab.flows import likeness as _likeness

        return _likeness.differences(self._desks, id)

    def approval_token(self) -> dict[str, str]:
        """Makes the one-time token that lets one MCP server approve; see `perpetual.lab.tokens.issue`."""
        from perpetual.lab import tokens as _tokens

        return _tokens.issue(self._desks.ctx)

    def redeem(self, token: str | None) -> None:
        """Uses such a token up, or raises; see `perpetual.lab.tokens.redeem`."""
        from perpetual.lab import tokens as _tokens

        _tokens.redeem(self._desks.ctx, token)

    def reject(self, id: str, why: str) -> Experiment:
        """Says no to an experiment that has not run; an agent takes back its own proposals alone (`withdraw`)."""
        if withholds(self._desks.ctx):
            return self.withdraw(id, why=why)
        return super().reject(id, why)

    def reject_all(self, ids: Sequence[str], why: str) -> list[Experiment]:
        """Rejects each for the same reason, or none of them if one cannot be."""
        with self._desks.ctx.store.transaction():
            return [self.reject(id, why) for id in dict.fromkeys(map(identifier, ids))]
