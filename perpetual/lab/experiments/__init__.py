"""`lab.experiments`: proposals, approvals and designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.specification import Specification
from perpetual.lab.permissions import person_only, withholds
from perpetual.records import Experiment, Listing, Paged
from perpetual.toolkit.units import identifier

if TYPE_CHECKING:
    from perpetual.documents.changes import ExperimentChanges
    from perpetual.documents.ledger import Differences
    from perpetual.lab.experiments.pick import Pick

__all__ = ["Experiments"]


class Experiments(Paged[Experiment]):
    """Experiments: proposed by anyone, approved by a person, run by `lab.runs`."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._records = ctx, ExperimentRecords(ctx)

    def get(self, id: str) -> Experiment:
        """Returns the experiment; raises NotFound, naming the nearest ids."""
        return self._records.get(id)

    def list(
        self,
        *,
        status: str | None = None,
        hypothesis_id: str | None = None,
        tag: str | None = None,
        archived: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Listing[Experiment]:
        """Returns a page of experiments, oldest first; None leaves a filter out, False the archived ones."""
        return self._records.list(
            status=status, hypothesis_id=hypothesis_id, tag=tag, archived=archived, limit=limit, cursor=cursor
        )

    @staticmethod
    def design_of(experiment: Experiment) -> str:
        """Returns what tells a design from others: a hypothesis' experiments of one design pool their runs."""
        return ExperimentRecords.design_of(experiment)

    def propose(
        self,
        hypothesis_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        command: str | None = None,
        title: str | None = None,
        config: Mapping[str, object] | None = None,
        notes: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
        priority: int = 0,
        metric: str | None = None,
        direction: str | None = None,
        mde: float | None = None,
        noise: float | None = None,
        tau: float | None = None,
        baseline: float | str | None = None,
        paired: bool | None = None,
        items: int | None = None,
        baseline_runs: int | None = None,
        guards: Sequence[str] = (),
        stop_rule: str | None = None,
        runs_of: str | None = None,
        kind: str = "gaussian",
        claim: str | None = None,
        on_crash: str | None = None,
        confirmation: bool = False,
        proxy: Mapping[str, object] | None = None,
        proxy_of: str | None = None,
        changes: str | None = None,
        underpowered: bool = False,
        extends: str | None = None,
        replicates: int = 1,
        cost_run_hours: float | None = None,
        gpus: int = 0,
        gpu_memory_bytes: int | None = None,
        cpus: int | None = None,
        wall_s: float | None = None,
        no_output_s: float | None = None,
        memory_bytes: int | None = None,
        nodes: int | None = None,
        scheduler: str | None = None,
        engine: Mapping[str, object] | None = None,
        isolate: bool | None = None,
        needs_artifacts: Sequence[str] = (),
    ) -> Experiment:
        """Proposes an experiment; what its `Specification` leaves out comes from the hypothesis's prediction.

        Raises:
            UsageError: for a bad number, command or combination; (underpowered) for a claim that its noise is known
                to hide, unless `underpowered` allows it.
            Conflict: for a claim that was proposed before with the same specification (named, with its verdict).
        """
        from perpetual.lab.experiments import propose

        spec = Specification(
            command=command, title=title, config=config, notes=notes, cwd=cwd, env=env, tags=tags,
            priority=priority, metric=metric, direction=direction, mde=mde, noise=noise, tau=tau,
            baseline=baseline, paired=paired, items=items, baseline_runs=baseline_runs, guards=guards, kind=kind,
            stop_rule=stop_rule, runs_of=runs_of, claim=claim, on_crash=on_crash, confirmation=confirmation,
            proxy=proxy, proxy_of=proxy_of, changes=changes, underpowered=underpowered, extends=extends,
            replicates=replicates, cost_run_hours=cost_run_hours, gpus=gpus, gpu_memory_bytes=gpu_memory_bytes,
            cpus=cpus, wall_s=wall_s, no_output_s=no_output_s, memory_bytes=memory_bytes, nodes=nodes,
            scheduler=scheduler, engine=engine, isolate=isolate, needs_artifacts=needs_artifacts,
        )  # fmt: skip
        return propose.propose(self._ctx, hypothesis_id, spec, idempotency_key=idempotency_key, dry_run=dry_run)

    def propose_auto(self, count: int, *, dry_run: bool = False, idempotency_key: str | None = None) -> Sequence[Pick]:
        """Returns at most `count` replicates, those most worth their cost first, and proposes the new experiments.

        Raises:
            UsageError: for a count below 1.
        """
        from perpetual.lab.experiments import pick

        return pick.pick(self._ctx, count, dry_run=dry_run, idempotency_key=idempotency_key)

    def rebaseline(
        self,
        id: str,
        *,
        replicates: int | None = None,
        notes: str = "",
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Experiment:
        """Proposes a baseline anew under today's code; it needs approval as any experiment does.

        Args:
            id: the baseline, what extends it, or what has renewed it before.
            replicates: by default as many as the baseline has.

        Raises:
            Conflict: if it has not run yet, or has no command here.
            UsageError: for a number of replicates that makes no sense.
        """
        from perpetual.lab.experiments import rebaseline

        return rebaseline.rebaseline(self._ctx, id, replicates=replicates, notes=notes,
                                     idempotency_key=idempotency_key, dry_run=dry_run)  # fmt: skip

    def approve(self, id: str) -> Experiment:
        """Approves one experiment, as `approve_all` does."""
        return self.approve_all([id])[0]

    def approve_all(self, ids: Sequence[str], *, allowed: bool = False) -> Sequence[Experiment]:
        """Binds the specification of each, or of none if one cannot be: changed by a byte, it is approved again.

        Args:
            allowed: a person has let this agent approve, as by `perpetual mcp --allow-approve`.

        Raises:
            NotPermitted: for an agent, unless `allowed`; see `perpetual.lab.permissions`.
            Conflict: for one that is not proposed, and whose code is as it was approved.
        """
        from perpetual.lab.provenance.code_check import CodeCheck

        if not allowed:
            person_only(self._ctx, "approve")
        ctx = self._ctx
        ctx.trust.require("approving")
        wanted = [*dict.fromkeys(map(identifier, ids))]
        check = CodeCheck(self._ctx)
        codes = check.states_of(wanted)
        again = {id for id in wanted if check.is_other(ctx.need(EXPERIMENT, id))}
        with ctx.store.transaction():
            approved = [self._records.bind(id, code=codes.get(id), again=id in again) for id in wanted]
        ctx.trust.note(ctx.store.seq())
        return approved

    def differences(self, id: str) -> Differences | None:
        """Returns how an experiment differs from the nearest approved one, of its hypothesis or its program.

        Returns:
            `{id, command, cwd, env, config, resources, code}`: the earlier one, its command's words that differ as
            `[{was, now}]`, the folder and the code that was approved as `{was, now}` or null, and of the others each
            name that differs with `{was, now}`; None where nothing like it was approved.
        """
        from perpetual.lab.experiments import likeness

        return likeness.differences(self._ctx, id)

    def approval(self, id: str) -> tuple[str, str | None] | None:
        """Returns the approver of an experiment and the hash of its code then; None where no approval counts here."""
        found = self._ctx.need(EXPERIMENT, id)
        code, by = found.body.get("approved_code"), found.body["approved_by"]
        counts = by is not None and self._ctx.trust.counts(found.id, found.body)
        return (str(by), code["sha256"] if code else None) if counts else None

    def approval_token(self) -> dict[str, str]:
        """Makes the one-time token that lets one MCP server approve, and returns `{token, expires_at}`.

        Raises:
            NotPermitted: where an agent asks for it, and in a held project.
            PerpetualError: (state_not_writable) if the user's state folder cannot be written.
        """
        from perpetual.lab.experiments import approval_tokens

        return approval_tokens.issue(self._ctx)

    def redeem(self, token: str | None) -> None:
        """Uses such a token up; of several servers with the same one the first may approve.

        Raises:
            NotPermitted: where an agent's shell starts the server, in a held project, and for a token that is
                missing, used, expired or for another project.
        """
        from perpetual.lab.experiments import approval_tokens

        approval_tokens.redeem(self._ctx, token)

    def edit(self, id: str, **changes: Unpack[ExperimentChanges]) -> Experiment:
        """Changes fields of `propose` in an experiment that has not run; its approval, if it has one, ends.

        Title, notes, tags and priority are bound by no approval, and may be changed at any time. An agent edits its own
        waiting proposals alone. The event `experiment_edited` says what was, and which approvals ended.

        Raises:
            UsageError: for an unknown field, a value that `propose` refuses, or where nothing changes.
            Conflict: once it has runs, or others rest on what would change.
            NotPermitted: for an agent and another's proposal, or one that is approved.
        """
        from perpetual.lab.experiments import edit

        return edit.edit(self._ctx, id, changes)

    def archive(self, id: str, *, restore: bool = False) -> Experiment:
        """Hides an experiment that has ended from lists, or shows it again; its runs count as before.

        Raises:
            Conflict: for one that may still run.
        """
        from perpetual.lab.ledger.archive import archive

        return self.get(archive(self._ctx, "experiment", id, restore=restore))

    def reject(self, id: str, why: str) -> Experiment:
        """Rejects an experiment that has not run; an agent takes back its own proposals alone (`withdraw`).

        Raises:
            UsageError: without a reason.
            Conflict: once it has runs, or is rejected already.
        """
        if withholds(self._ctx):
            return self.withdraw(id, why=why)
        return self._records.reject(id, why)

    def withdraw(self, id: str, *, why: str) -> Experiment:
        """Takes back a proposal of the caller's own that is not approved; any agent may.

        Raises:
            UsageError: without a reason.
            NotPermitted: for another's proposal, or one that is approved: rejecting those is for a person.
            Conflict: once it is rejected or expired.
        """
        return self._records.withdraw(id, why=why)

    def reject_all(self, ids: Sequence[str], why: str) -> Sequence[Experiment]:
        """Rejects each for the same reason, or none of them if one cannot be."""
        with self._ctx.store.transaction():
            return [self.reject(id, why) for id in dict.fromkeys(map(identifier, ids))]
