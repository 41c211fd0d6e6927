"""Running a baseline anew: the same specification under today's code, proposed for a person to approve.

The new experiment's runs are runs of the baseline of another version. A claim is compared with those of its own
version (see `stale`), so that what was measured before stays comparable with what it was measured against.
"""

from __future__ import annotations

from dataclasses import replace

from perpetual.errors import Conflict
from perpetual.lab.context import Context
from perpetual.lab.evidence.confidence import users_of
from perpetual.lab.evidence.stale import root_of
from perpetual.lab.experiments.propose import draft_like, written
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.hypotheses import HypothesisRecords
from perpetual.lab.ledger.specification import Specification
from perpetual.records import Experiment

__all__ = ["rebaseline"]

_LONGEST_TITLE = 120


def rebaseline(
    ctx: Context,
    experiment_id: str,
    *,
    replicates: int | None = None,
    notes: str = "",
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Experiment:
    """Proposes a baseline anew, as `Experiments.rebaseline` says."""
    root = root_of(ctx, ctx.need(EXPERIMENT, experiment_id))
    body = root.body
    if not body["runs"]:
        raise Conflict(f"{root.id} has not run yet", hint=f"perpetual run {root.id} --all")
    if body["command"] is None or "approved_hash" not in body:
        raise Conflict(f"{root.id} has no command that was approved here", hint="propose a baseline: perpetual propose")
    count = body["design"]["replicates"] if replicates is None else replicates
    hypothesis = ctx.need(HYPOTHESIS, body["hypothesis_id"]) if body["hypothesis_id"] else None
    draft = draft_like(body, replicates=count)
    title = f"{root.id} anew: {body['title']}"[:_LONGEST_TITLE]
    spec = replace(Specification(notes=notes, replicates=count), title=title, tags=tuple(body["tags"]))
    with ctx.store.transaction() as tx:
        made = written(ctx, draft, spec, hypothesis, idempotency_key, dry_run)
        if dry_run:
            return made
        renewal, first = ctx.need(EXPERIMENT, made.id), ctx.need(EXPERIMENT, root.id)
        known = first.body.get("renewed_by", [])
        if made.id not in known:
            tx.put(EXPERIMENT, renewal.id, {**renewal.body, "renews": root.id})
            tx.put(EXPERIMENT, root.id, {**first.body, "renewed_by": [*known, made.id]})
            users = [id for id in users_of(ctx, tx, root.id) if HypothesisRecords(ctx).get(id).status == "open"]
            ctx.emit(tx, "baseline_renewed", root.id, {"by": made.id, "hypotheses": users})
    return ExperimentRecords(ctx).get(made.id)
