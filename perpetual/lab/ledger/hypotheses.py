"""Rows of hypotheses: claims, their tags and predictions. `perpetual.lab.evidence.confidence` folds the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perpetual.errors import Conflict, NotPermitted, UsageError, nearest, unknown
from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS, RUN, HypothesisRow
from perpetual.lab.ledger.tagged import tagged
from perpetual.lab.permissions import withholds
from perpetual.records import Hypothesis, Listing, from_json
from perpetual.records.states import HYPOTHESIS_STATES
from perpetual.toolkit.limits import fits_tags, fits_text
from perpetual.toolkit.units import bounded, counted, finite, identifier

if TYPE_CHECKING:
    from perpetual.lab.bodies import PredictionBody

__all__ = [
    "AGENTS_PRIORS", "DIRECTIONS", "PRIORS", "STATUSES", "HypothesisRecords", "baseline_value", "check_baseline",
    "check_direction", "check_metric", "check_prior", "tags_of",
]  # fmt: skip

STATUSES = HYPOTHESIS_STATES
DIRECTIONS = ("max", "min")
PRIORS = (0.25, 0.75)  # as far from even as prior and opinions together may go
AGENTS_PRIORS = PRIORS  # the same for people and agents
_LONGEST_METRIC = 200  # as measuring takes it


def check_direction(direction: str | None) -> str | None:
    """Returns `max`, `min` or None; raises UsageError for another word."""
    if direction is not None and direction not in DIRECTIONS:
        raise UsageError(unknown("direction", direction, DIRECTIONS), hint="max: more is better; min: less is")
    return direction


def baseline_value(ctx: Context, baseline: float | str | None) -> float | str | None:
    """Returns a number, or the id of an experiment that exists; text that is a number becomes one."""
    if baseline is None:
        return None
    try:
        return finite(float(baseline) if isinstance(baseline, str) else baseline, "the baseline")
    except ValueError:
        named = identifier(str(baseline))
    if named[:1] != "e" or not named[1:].isdecimal():
        raise UsageError(f"the baseline is a number or the id of an experiment, not {baseline!r}", hint="2.31 or e1")
    return ctx.need(EXPERIMENT, named).id


def check_baseline(ctx: Context, baseline_id: str, metric: str) -> None:
    """Raises UsageError if the experiment measures another metric, and its runs have not shown this one."""
    measures = ctx.need(EXPERIMENT, baseline_id).body["design"]["metric"]
    runs = ctx.store.find(RUN, experiment_id=baseline_id) if measures not in (None, metric) else ()
    if measures not in (None, metric) and not any(metric in run.body["metrics"] for run in runs):
        near = nearest(metric, [measures])
        raise UsageError(
            f"{baseline_id} measures {measures}, not {metric}",
            hint=f"did you mean {measures}?" if near else f"--metric {measures}, or another baseline",
        )


def check_metric(metric: str | None) -> str | None:
    """Returns the metric's name without blanks around it; raises UsageError for an empty one."""
    if metric is None:
        return None
    if not metric.strip():
        raise UsageError("the metric needs a name", hint="as the run prints it, e.g. val_loss")
    fits_text(metric, "the metric's name", _LONGEST_METRIC)
    return metric.strip()


def tags_of(tags: Sequence[str]) -> list[str]:
    """Returns the tags in order, each once; an empty one counts as none, so that [""] clears them.

    Raises:
        UsageError: for too many, or one that is too long.
    """
    fits_tags(tags)
    return sorted({tag.strip() for tag in tags} - {""})


class HypothesisRecords:
    """Reads and writes the rows of hypotheses."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def get(self, id: str) -> Hypothesis:
        """Returns the hypothesis; NotFound names the nearest ids."""
        return self.record(self._ctx.need(HYPOTHESIS, id))

    def list(
        self,
        *,
        status: str | None = None,
        tag: str | None = None,
        archived: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Listing[Hypothesis]:
        """Returns a page of hypotheses, oldest first."""
        equals: dict[str, Any] = {} if status is None else {"status": _status(status)}
        page = tagged(self._ctx, HYPOTHESIS, tag, archived=archived, limit=limit, cursor=cursor, **equals)
        return Listing(tuple(self.record(document) for document in page.items), page.next_cursor)

    def edit(
        self,
        id: str,
        *,
        statement: str | None = None,
        prior: float | None = None,
        tags: Sequence[str] | None = None,
        parked: bool | None = None,
        prediction: PredictionBody | None = None,
    ) -> Hypothesis:
        """Changes what a person wrote, or parks it (or takes it back up). Evidence is untouched.

        Raises:
            UsageError: for a prior outside 0.25 to 0.75.
            Conflict: for a new prior once evidence has come in.
            NotPermitted: for an agent's other statement for what was measured.
        """
        with self._ctx.store.transaction() as tx:
            document = self._ctx.need(HYPOTHESIS, id)
            body = dict(document.body)
            changed: dict[str, object] = {}
            if statement is not None:
                changed["statement"] = bounded(" ".join(statement.split()), "the statement")
                if not changed["statement"]:
                    raise UsageError("a hypothesis needs a statement")
                if body["evidence_count"] and changed["statement"] != body["statement"]:
                    self._check_restated(document)
                    changed["restated"] = True
            if prior is not None:
                check_prior(prior)
                if body["evidence_count"]:
                    raise Conflict(
                        f"{document.id} has {counted(document.body['evidence_count'], 'row')} of evidence; "
                        "its prior stands",
                        hint=f"perpetual hypotheses update {document.id} --confidence P adds a manual row instead",
                    )
                changed |= {"prior": prior, "confidence": prior}
            if tags is not None:
                changed["tags"] = tags_of(tags)
            if parked is not None:
                changed["parked"] = parked
            if prediction is not None:
                changed["prediction"] = prediction
            tx.put(HYPOTHESIS, document.id, {**body, **changed}, expect_revision=document.revision)
            was = {name: body.get(name) for name in changed if name != "confidence"}
            self._ctx.emit(tx, "hypothesis_updated", document.id, {**changed, "was": was})
        return self.get(document.id)

    def record(self, document: HypothesisRow) -> Hypothesis:
        """Returns the row as readers see it."""
        body = self._ctx.redaction.shown_record("hypothesis", document.body)
        return from_json(Hypothesis, {**body, "flags": [*body.get("flags", ()), *body.get("cautions", ())]})

    def _check_restated(self, document: HypothesisRow) -> None:
        """Raises NotPermitted for an agent: what was measured was predicted in the old words."""
        if withholds(self._ctx):
            raise NotPermitted(
                f"{document.id} already has {counted(document.body['evidence_count'], 'row')} of evidence; "
                "an agent may not change its statement",
                hint="add what you mean as a hypothesis of its own: perpetual hypotheses add STATEMENT",
            )


def check_prior(prior: float) -> None:
    """Raises UsageError for a prior that is no probability, or surer than runs may be."""
    low, high = PRIORS
    if not 0.0 < finite(prior, "the prior") < 1.0:
        raise UsageError(f"a prior lies strictly between 0 and 1, not {prior:g}", hint=f"{low:g} to {high:g}")
    if not low <= prior <= high:
        raise UsageError(
            f"a prior lies between {low:g} and {high:g}, not {prior:g}",
            hint="a surer belief is decided by runs: name a baseline and an mde",
        )


def _status(word: str) -> str:
    if word not in STATUSES:
        raise UsageError(unknown("status", word, STATUSES))
    return word
