"""Rows of evidence, which are added and never changed; `perpetual.lab.evidence.confidence` folds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from perpetual.errors import Conflict, NotFound, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.kinds import EVIDENCE, HYPOTHESIS, EvidenceRow, LabTransaction
from perpetual.records import Evidence, Listing, from_json
from perpetual.toolkit.units import finite, identifier

if TYPE_CHECKING:
    from perpetual.science.evidence import Effect

__all__ = ["VERDICTS", "EvidenceFold", "EvidenceRecords"]

VERDICTS = ("supports", "refutes", "inconclusive")


class EvidenceFold(TypedDict):
    """What a hypothesis' evidence amounts to; the meanings are those of `Hypothesis`."""

    confidence: float
    log_odds: float
    e_support: float
    e_refute: float
    false_alarm_bound: float | None
    n_measured: int
    evidence_count: int
    counting: int
    flags: list[str]
    status: str
    needs: str | None
    decided_by: str | None
    sentence: str | None
    more_runs: int | None
    together: Effect | None


class EvidenceRecords:
    """Reads the ledger and writes single rows into an open transaction."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def append(self, tx: LabTransaction, row: Mapping[str, object]) -> str:
        """Adds a row (its hypothesis is refolded by the caller, in the same transaction) and answers its id."""
        number = tx.append(
            EVIDENCE,
            {
                "experiment_id": None,
                "run_id": None,
                "value": None,
                "weight": 1.0,
                "reason": None,
                **row,
                "actor": self._ctx.actor,
                "created_at": self._ctx.now(),
            },
        )
        return f"v{number}"

    def get(self, id: str) -> Evidence:
        """Returns one row, by its id `v3`.

        Raises:
            NotFound: naming how many rows there are.
        """
        document = self._document(id)
        return self._record(document, self._retractions(document.body["hypothesis_id"]))

    def list(
        self, *, hypothesis_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Listing[Evidence]:
        """Returns a page of rows, oldest first."""
        equals: dict[str, Any] = {}
        if hypothesis_id is not None:
            equals["hypothesis_id"] = self._ctx.need(HYPOTHESIS, hypothesis_id).id
        page = self._ctx.store.page(EVIDENCE, limit=limit, cursor=cursor, **equals)
        retracted: dict[str, str] = {}
        for subject in {document.body["hypothesis_id"] for document in page.items}:
            retracted |= self._retractions(subject)
        return Listing(tuple(self._record(document, retracted) for document in page.items), page.next_cursor)

    def check_judgement(self, verdict: str, strength: float, why: str) -> None:
        """Raises UsageError unless this can be a judged row."""
        if verdict not in VERDICTS:
            raise UsageError(unknown("verdict", verdict, VERDICTS))
        if not 0.0 <= finite(strength, "strength") <= 1.0:
            raise UsageError(f"strength lies between 0 and 1, not {strength:g}")
        if not why.strip():
            raise UsageError("a judgement needs a reason", hint="--why TEXT")

    def check_retractable(self, id: str) -> EvidenceRow:
        """Returns the row that a retraction may take back.

        Raises:
            Conflict: if it is taken back already, or is a retraction itself.
        """
        document = self._document(id)
        if document.body["kind"] == "retraction":
            raise Conflict(f"v{document.id} is a retraction; it stands", hint="add evidence instead")
        earlier = self._retractions(document.body["hypothesis_id"]).get(f"v{document.id}")
        if earlier:
            raise Conflict(f"v{document.id} was taken back by {earlier} already")
        return document

    def _document(self, id: str) -> EvidenceRow:
        text = identifier(id)
        found = self._ctx.store.get(EVIDENCE, text[1:]) if text[:1] == "v" and text[1:].isdecimal() else None
        if found is None:
            last = self._ctx.store.count("evidence")
            raise NotFound(f"no evidence {id}", hint=f"the ledger holds v1 to v{last}" if last else "it is empty")
        return found

    def _retractions(self, hypothesis_id: str) -> dict[str, str]:
        rows = self._ctx.store.find(EVIDENCE, hypothesis_id=hypothesis_id, kind="retraction")
        return {row.body["target"]: f"v{row.id}" for row in rows}

    def _record(self, document: EvidenceRow, retracted: Mapping[str, str]) -> Evidence:
        id = f"v{document.id}"
        body = self._ctx.redaction.cleaned("evidence", {**document.body})
        return from_json(Evidence, {**body, "id": id, "retracted_by": retracted.get(id)})
