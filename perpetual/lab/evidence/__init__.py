"""`lab.evidence`: the ledger of evidence, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeAlias

from perpetual.lab.context import Context
from perpetual.lab.kinds import HYPOTHESIS
from perpetual.lab.ledger.evidence import EvidenceRecords
from perpetual.records import Evidence, Listing, Paged

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect, Refolded
    from perpetual.lab.evidence.partial_record import PartialRecord

__all__ = ["EvidenceLedger"]

Moved: TypeAlias = "list[Refolded]"  # hypotheses with their stored and their new fold


class EvidenceLedger(Paged[Evidence]):
    """The ledger of evidence: rows are added and taken back, never changed."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._records = ctx, EvidenceRecords(ctx)

    def get(self, id: str) -> Evidence:
        """Returns one row, by its id `v3`; raises NotFound, saying how many rows there are."""
        return self._records.get(id)

    def list(
        self, *, hypothesis_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Listing[Evidence]:
        """Returns a page of rows, oldest first; of every hypothesis where `hypothesis_id` is None."""
        return self._records.list(hypothesis_id=hypothesis_id, limit=limit, cursor=cursor)

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
        """Adds an opinion: at most ln 2 of log odds, all of them together at most ln 3. It cannot decide by itself.

        Args:
            verdict: `supports`, `refutes` or `inconclusive`.
            strength: the share of that weight, from 0 to 1.
            run_id: the run that it is about, if it is about one.

        Raises:
            UsageError: for another verdict or strength, or without a reason.
        """
        from perpetual.lab.evidence import manual

        return manual.judge(self._ctx, hypothesis_id, verdict=verdict, strength=strength, why=why, run_id=run_id,
                            idempotency_key=idempotency_key)  # fmt: skip

    def retract(self, evidence_id: str, *, why: str) -> Evidence:
        """Takes a row back by a new row; the old one stays and stops counting.

        Raises:
            UsageError: without a reason.
            Conflict: if it was taken back already.
            NotPermitted: if an agent would take back what was measured, or what a person said.
        """
        from perpetual.lab.evidence import manual

        return manual.retract(self._ctx, evidence_id, why=why)

    def refold(self, *, check: bool = False) -> Moved:
        """Folds every hypothesis anew and returns those whose stored fold differed; `check` changes nothing."""
        from perpetual.lab.evidence import manual

        with self._ctx.trust.lifted() if check else nullcontext():  # a check locks the store, and writes nothing
            return manual.refold_all(self._ctx, check=check)

    def effects(self, hypothesis_id: str) -> dict[str, Effect]:
        """Returns what each design measured, with its interval, by the experiment whose prediction holds."""
        from perpetual.lab.evidence import confidence

        return confidence.effects_of(self._ctx, self._ctx.need(HYPOTHESIS, hypothesis_id).id)

    def partial_record(self, methodology: Mapping[str, object]) -> PartialRecord:
        """Returns a part of the record, empty at first, that is folded by itself under that methodology."""
        from perpetual.lab.evidence.partial_record import PartialRecord

        return PartialRecord(self._ctx, methodology)
