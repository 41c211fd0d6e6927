"""The outlook of a pick: which outcome of one more replicate would decide its hypothesis, computed before it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perpetual.lab.context import Context
from perpetual.lab.evidence import confidence
from perpetual.lab.evidence.stale import baseline_of
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS
from perpetual.lab.ledger.experiments import design_key
from perpetual.records import Experiment, Score, to_json
from perpetual.science.outcomes import explain, outlook
from perpetual.slots.store import Document
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual.lab.bodies import ExperimentBody

__all__ = ["explained"]

_DRAFT = "(draft)"


def explained(ctx: Context, experiment: Experiment, score: Score) -> Score:
    """Returns the score with the outlook added to its reason, where the experiment makes a claim."""
    words = _in_words(ctx, to_json(experiment)) if experiment.hypothesis_id is not None else ""
    return replace(score, reason=f"{score.reason}; {words}") if words else score


def _in_words(ctx: Context, body: ExperimentBody) -> str:
    hypothesis = ctx.need(HYPOTHESIS, body["hypothesis_id"] or "")
    designs, rows, _ = confidence.designs_of(ctx, hypothesis, confidence.rows_of(ctx, hypothesis.id))
    key = design_key(body)
    # Experiments of one design are pooled under the first one's id.
    id = next(
        (
            other.id
            for other in ctx.store.find(EXPERIMENT, hypothesis_id=hypothesis.id)
            if other.id in designs and design_key(other.body) == key
        ),
        _DRAFT,
    )
    if id not in designs:
        draft = Document("experiment", _DRAFT, 0, 0, 0, body)
        values, against = baseline_of(ctx, body["design"])
        seen = confidence.oriented(draft, values, [], against=against)
        if seen is None:
            return ""  # no claim, or a baseline that has not run
        designs = {**designs, _DRAFT: seen[0]}
    methodology = ctx.config.methodology
    config = {
        "support": methodology["confidence_support_threshold"],
        "refute": methodology["confidence_refute_threshold"],
        "verdict": True,
    }
    found = outlook({"id": hypothesis.id, "prior": hypothesis.body["prior"]}, designs, rows, id, config)
    words = explain(found, hypothesis.id, config)
    least = methodology["min_replicates"] - hypothesis.body.get("n_measured", 0) - 1
    decides = found.support is not None or found.refute is not None
    return f"{words}, given {counted(least, 'more run')} like it" if least > 0 and decides else words
