"""Evidence that people and agents add by hand: opinions, manual rows, retractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.errors import Conflict, NotPermitted, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.evidence.confidence import add_evidence, refold
from perpetual.lab.kinds import EVIDENCE, HYPOTHESIS, RUN
from perpetual.lab.ledger.evidence import EvidenceRecords
from perpetual.lab.ledger.hypotheses import STATUSES, HypothesisRecords
from perpetual.lab.permissions import is_agent, withholds
from perpetual.records import Evidence, Hypothesis
from perpetual.toolkit.units import bounded, finite

if TYPE_CHECKING:
    from perpetual.documents.ledger import Fold, Refolded
    from perpetual.lab.bodies import HypothesisBody, NewEvidence
    from perpetual.lab.kinds import EvidenceRow, HypothesisRow, LabTransaction

__all__ = ["judge", "refold_all", "retract", "update"]

_SAY = "say what you hold, and a person decides: perpetual evidence add ID --verdict supports|refutes --why TEXT"


def judge(
    ctx: Context,
    hypothesis_id: str,
    *,
    verdict: str,
    strength: float,
    why: str,
    run_id: str | None,
    idempotency_key: str | None,
) -> Evidence:
    """Returns a new opinion, as `EvidenceLedger.add` says."""
    hypothesis = ctx.need(HYPOTHESIS, hypothesis_id)
    EvidenceRecords(ctx).check_judgement(verdict, strength, bounded(why, "the reason"))
    run = ctx.need(RUN, run_id) if run_id is not None else None
    row: NewEvidence = {"kind": "judged", "verdict": verdict, "strength": strength, "reason": why}
    if run is not None:
        row |= {"run_id": run.id, "experiment_id": run.body["experiment_id"]}
    with ctx.store.transaction() as tx:
        id = ctx.recall(tx, idempotency_key, "evidence")
        if id is None:
            id = add_evidence(ctx, tx, hypothesis.id, row)
            ctx.remember(tx, idempotency_key, "evidence", id)
    return EvidenceRecords(ctx).get(id)


def retract(ctx: Context, evidence_id: str, *, why: str) -> Evidence:
    """Takes a row back by a new row, as `EvidenceLedger.retract` says."""
    if not why.strip():
        raise UsageError("a retraction needs a reason", hint="--why TEXT")
    bounded(why, "the reason")
    with ctx.store.transaction() as tx:
        target = EvidenceRecords(ctx).check_retractable(evidence_id)
        if target.body["kind"] == "measured" or not is_agent(target.body["actor"]):
            _by_person(ctx, f"taking back v{target.id}", _SAY)
        row: NewEvidence = {"kind": "retraction", "target": f"v{target.id}", "reason": why,
               "experiment_id": target.body["experiment_id"], "run_id": target.body["run_id"]}  # fmt: skip
        id = add_evidence(ctx, tx, target.body["hypothesis_id"], row)
        for other in _shared_rows(tx, target):
            more: NewEvidence = {**row, "target": f"v{other.id}", "experiment_id": other.body["experiment_id"]}
            add_evidence(ctx, tx, other.body["hypothesis_id"], more)
    return EvidenceRecords(ctx).get(id)


def _shared_rows(tx: LabTransaction, target: EvidenceRow) -> list[EvidenceRow]:
    """Returns what the same run says of other claims and stands: what is wrong with a run is wrong for all of them."""
    run, is_measured = target.body["run_id"], target.body["kind"] == "measured"
    rows = tx.find(EVIDENCE, run_id=run) if is_measured and run is not None else []
    gone = {row.body.get("target") for row in rows if row.body["kind"] == "retraction"} | {f"v{target.id}"}
    return [row for row in rows if row.body["kind"] == "measured" and f"v{row.id}" not in gone]


def update(
    ctx: Context,
    id: str,
    *,
    statement: str | None = None,
    prior: float | None = None,
    confidence: float | None = None,
    status: str | None = None,
    tags: Sequence[str] | None = None,
    why: str | None = None,
) -> Hypothesis:
    """Changes a hypothesis, as `Hypotheses.update` says."""
    bounded(why or "", "the reason")
    if all(value is None for value in (statement, prior, confidence, status, tags)):
        raise UsageError("nothing to update", hint="--statement, --prior, --confidence, --status or --tag")
    if status is not None and status not in STATUSES:
        raise UsageError(unknown("status", status, STATUSES))
    if confidence is not None and not 0.0 < finite(confidence, "the confidence") < 1.0:
        raise UsageError(f"a confidence lies strictly between 0 and 1, not {confidence:g}")
    if status in ("supported", "refuted"):
        _by_person(ctx, f"deciding that {id} is {status}", _SAY)
    with ctx.store.transaction() as tx:
        parked = {"parked": True, "open": False}.get(status or "")
        if any(value is not None for value in (statement, prior, tags, parked)):
            id = HypothesisRecords(ctx).edit(id, statement=statement, prior=prior, tags=tags, parked=parked).id
        hypothesis = ctx.need(HYPOTHESIS, id)
        row: NewEvidence | None = None
        if confidence is not None:
            row = {"kind": "manual", "log_odds": _shift(hypothesis.body, confidence), "reason": why}
        if status in ("supported", "refuted"):
            word = "support" if status == "supported" else "refute"
            bound = ctx.config.methodology[f"confidence_{word}_threshold"]
            there = hypothesis.body["confidence"]
            reached = there >= bound if status == "supported" else there <= bound
            shift = row["log_odds"] if row else 0.0 if reached else _shift(hypothesis.body, bound)
            row = {"kind": "manual", "log_odds": shift, "verdict": status, "reason": why}
        elif status == "open" and _by_hand(ctx, hypothesis.id):
            _by_person(ctx, f"opening {id} again", _SAY)
            row = {"kind": "manual", "log_odds": row["log_odds"] if row else 0.0, "verdict": "open", "reason": why}
        if row is not None:
            add_evidence(ctx, tx, hypothesis.id, row)
        reached_status = refold(ctx, tx, hypothesis.id)
        if status in ("open", "parked") and reached_status != status:
            raise Conflict(
                f"the evidence says that {hypothesis.id} is {reached_status}",
                hint="retract what is wrong: perpetual evidence retract ID --why TEXT",
            )
    return HypothesisRecords(ctx).get(hypothesis.id)


def _by_person(ctx: Context, deed: str, instead: str) -> None:
    """Raises NotPermitted for an agent: what decides is measured, or a person's word."""
    if withholds(ctx):
        raise NotPermitted(f"{deed} is for a person, and {ctx.actor} is an agent", hint=instead)


def _shift(body: HypothesisBody, confidence: float) -> float:
    """Returns the log-odds difference that a manual row keeps, so that it survives later evidence.

    It starts from the folded log odds, not from the confidence shown, which is floored near 0 and 1.
    """
    present: float | None = body.get("log_odds")  # missing before the first fold: the prior stands
    if present is None:
        present = math.log(body["prior"] / (1 - body["prior"]))
    return math.log(confidence / (1 - confidence)) - present


def _by_hand(ctx: Context, hypothesis_id: str) -> bool:
    rows = ctx.store.find(EVIDENCE, hypothesis_id=hypothesis_id, kind="manual")
    return any(row.body.get("verdict") for row in rows)


def refold_all(ctx: Context, *, check: bool = False) -> list[Refolded]:
    """Folds every hypothesis anew and answers those whose stored fold differed; `check` changes nothing."""
    differing: list[Refolded] = []
    for hypothesis in ctx.store.find(HYPOTHESIS):
        try:
            with ctx.store.transaction() as tx:
                stored = ctx.need(HYPOTHESIS, hypothesis.id)  # as it is now: evidence may have come in since
                before = _fold_of(stored)
                refold(ctx, tx, hypothesis.id)
                fresh = tx.get(HYPOTHESIS, hypothesis.id)
                assert fresh is not None
                after = _fold_of(fresh)
                if check:
                    raise _Unchanged
        except _Unchanged:
            pass  # leaving the transaction by an exception is what keeps --check from writing
        if after != before:
            differing.append({"id": hypothesis.id, "stored": before, "folded": after})
    return differing


def _fold_of(hypothesis: HypothesisRow) -> Fold:
    body = hypothesis.body
    return {
        "confidence": body["confidence"],
        "e_support": body["e_support"],
        "e_refute": body["e_refute"],
        "false_alarm_bound": body["false_alarm_bound"],
        "evidence_count": body["evidence_count"],
        "status": body["status"],
    }


class _Unchanged(Exception):
    """No error: it leaves a transaction without writing."""
