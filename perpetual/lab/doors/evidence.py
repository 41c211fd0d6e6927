"""`lab.evidence`, with the deeds that cross departments attached."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from perpetual.lab.doors.connected import Connected
from perpetual.lab.evidence import EvidenceFold, EvidenceLedger
from perpetual.records import Evidence

if TYPE_CHECKING:
    from perpetual.lab.context import Context
    from perpetual.lab.flows import Desks
    from perpetual.slots.store import Document

__all__ = ["EvidenceDoor", "PartialRecord"]


class EvidenceDoor(Connected, EvidenceLedger):
    """`lab.evidence`."""

    def add(
        self,
        hypothesis_id: str,
        *,
        verdict: str,
        why: str,
        strength: float = 1.0,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Evidence:
        """An opinion, bounded: see `perpetual.lab.flows.judge.judge`."""
        from perpetual.lab.flows import judge as _judge

        return _judge.judge(self._desks, hypothesis_id, verdict=verdict, strength=strength, why=why, run_id=run_id,
                            idempotency_key=idempotency_key)  # fmt: skip

    def retract(self, evidence_id: str, *, why: str) -> Evidence:
        """Takes a row back by a new row."""
        from perpetual.lab.flows import judge as _judge

        return _judge.retract(self._desks, evidence_id, why=why)

    def refold(self, *, check: bool = False) -> list[dict[str, Any]]:
        """Folds every hypothesis anew; answers those whose stored fold differed."""
        from perpetual.lab.flows import judge as _judge

        trust = self._desks.ctx.trust
        with trust.lifted() if check else nullcontext():  # a check locks the store, and writes nothing
            return _judge.refold_all(self._desks, check=check)

    def effects(self, hypothesis_id: str) -> dict[str, dict[str, Any]]:
        """What each design of a hypothesis measured, with its interval, by the experiment whose prediction holds."""
        from perpetual.lab.flows import fold as _fold

        return _fold.effects_of(self._desks, self._desks.ctx.need("hypothesis", hypothesis_id).id)

    def partial_record(self, methodology: Mapping[str, Any]) -> PartialRecord:
        """Returns a part of the record, empty at first, that is folded by itself under that methodology."""
        return PartialRecord(self._desks, methodology)


class PartialRecord:
    """Part of the record, such as all that there was at an earlier time, and what follows from it alone.

    What is in it may be changed between folds. Each list of the record is read once, so later rows are not seen.

    Attributes:
        ids: of the experiments, the ended runs and the rows of evidence in it.
        methodology: every key's value, as `lab.settings.methodology_at` answers them.
    """

    def __init__(self, desks: Desks, methodology: Mapping[str, Any]) -> None:
        self.ids: set[str] = set()
        self.methodology = methodology
        self._all, need = cache(desks.ctx.store.find), cache(desks.ctx.need)
        context = SimpleNamespace(store=SimpleNamespace(find=self._find), config=self, need=need)
        self._desks = desks.seen_by(cast("Context", context))

    def _find(self, kind: str, /, **equals: Any) -> list[Document]:
        mark = "v" if kind == "evidence" else ""
        return [item for item in self._all(kind, **equals) if f"{mark}{item.id}" in self.ids]

    def fold(self, hypothesis_id: str, *, prior: float, parked: bool = False, restated: bool = False) -> EvidenceFold:
        """Returns what this part says of a hypothesis; writes nothing.

        Args:
            hypothesis_id: whose evidence is folded.
            prior: how likely it is before any evidence.
            parked: whether it is parked where the evidence decides nothing.
            restated: whether its statement was changed after evidence had come in, of which a flag warns.

        Raises:
            NotFound: if there is no such hypothesis.
        """
        from perpetual.lab.flows import fold as _fold

        found = self._desks.ctx.need("hypothesis", hypothesis_id)
        hypothesis = replace(found, body={**found.body, "prior": prior, "parked": parked, "restated": restated})
        rows = _fold.rows_of(self._desks, hypothesis.id)
        folded = _fold.folded(self._desks, hypothesis, rows)
        return {**folded, "flags": [*folded["flags"], *_fold.cautioned(self._desks, hypothesis, rows)]}
