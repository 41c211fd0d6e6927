"""`lab.hypotheses`: claims and their confidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from perpetual.errors import Conflict, NotPermitted, UsageError
from perpetual.lab.context import Context
from perpetual.lab.evidence.family import prior_of
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS
from perpetual.lab.ledger.hypotheses import (
    HypothesisRecords,
    baseline_value,
    check_baseline,
    check_direction,
    check_metric,
    check_prior,
    tags_of,
)
from perpetual.lab.permissions import is_same, withholds
from perpetual.lab.redaction import CHECKED
from perpetual.records import Hypothesis, Listing, Paged, Prediction, to_json
from perpetual.toolkit.limits import fits
from perpetual.toolkit.units import bounded, finite

if TYPE_CHECKING:
    from perpetual.lab.bodies import PredictionBody

__all__ = ["Hypotheses"]

_LARGEST_PARAMS = 64 * 1024  # bytes of JSON


class Hypotheses(Paged[Hypothesis]):
    """Claims, and the confidence that their evidence gives them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._records = ctx, HypothesisRecords(ctx)

    def add(
        self,
        statement: str,
        *,
        prior: float | None = None,
        metric: str | None = None,
        direction: str | None = None,
        mde: float | None = None,
        baseline: float | str | None = None,
        params: Mapping[str, object] | None = None,
        tags: Sequence[str] = (),
        created_at: str | None = None,
        idempotency_key: str | None = None,
    ) -> Hypothesis:
        """Adds an open hypothesis.

        Args:
            statement: the claim, in words.
            prior: how likely it is before any evidence, from 0.25 to 0.75; None is what the methodology's `prior` says.
            metric: what its experiments measure, with `direction` ("max" or "min"), `mde` (the smallest
                effect worth having, in the metric's units) and `baseline` (a number or an experiment's id).
            params: a grid of values to try, e.g. `{"lr": [0.1, 0.01]}`.
            tags: words to find it by.
            created_at: when it was first written down, if that was before now (UTC, ISO 8601).
            idempotency_key: the second call with the same key answers the first one's hypothesis.

        Raises:
            UsageError: for an empty statement, an impossible number, or a prior outside 0.25 to 0.75.
        """
        text = bounded(" ".join(statement.split()), "the statement")
        if not text:
            raise UsageError("a hypothesis needs a statement", hint='for example "warm-up lowers val_loss"')
        if prior is not None:
            check_prior(prior)
        prediction = self._predicted(metric, direction, mde, baseline)
        with self._ctx.store.transaction() as tx:
            made = self._ctx.recall(tx, idempotency_key, "hypothesis")
            if made is not None:
                return self._records.get(made)
            is_declared, prior = prior is not None, prior_of(self._ctx) if prior is None else prior
            body = {
                CHECKED: True,
                "statement": text,
                "status": "open",
                "confidence": prior,
                "prior": prior,
                "e_support": 1.0,
                "e_refute": 1.0,
                "false_alarm_bound": 1.0,
                "created_at": created_at or self._ctx.now(),
                "tags": tags_of(tags),
                "evidence_count": 0,
                "prediction": to_json(prediction),
                "params": self._ctx.redactor.value(_grid(params)),
                "created_by": self._ctx.actor,
                "flags": [],
                "parked": False,
            }
            document = tx.create(HYPOTHESIS, body)
            payload = {"statement": text, "prior": prior, "declared": is_declared}
            self._ctx.emit(tx, "hypothesis_added", document.id, payload)
            self._ctx.remember(tx, idempotency_key, "hypothesis", document.id)
        return self._records.record(document)

    def _predicted(
        self, metric: str | None, direction: str | None, mde: float | None, baseline: float | str | None
    ) -> Prediction:
        """Returns the prediction; raises UsageError for an impossible one, as of a metric that its baseline lacks."""
        if mde is not None:
            finite(mde, "mde", above=0.0)
        against = baseline_value(self._ctx, baseline)
        if isinstance(against, str) and metric is not None:
            check_baseline(self._ctx, against, metric.strip())
        return Prediction(check_metric(metric), check_direction(direction), mde, against)

    def get(self, id: str) -> Hypothesis:
        """Returns the hypothesis; raises NotFound, naming the nearest ids."""
        return self._records.get(id)

    def list(
        self,
        *,
        status: str | None = None,
        tag: str | None = None,
        archived: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Listing[Hypothesis]:
        """Returns a page of hypotheses, oldest first; None leaves a filter out, False the archived ones."""
        return self._records.list(status=status, tag=tag, archived=archived, limit=limit, cursor=cursor)

    def edit(
        self,
        id: str,
        *,
        statement: str | None = None,
        metric: str | None = None,
        direction: str | None = None,
        mde: float | None = None,
        baseline: float | str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Hypothesis:
        """Corrects a hypothesis before its evidence; afterwards its tags alone. None leaves a field.

        Raises:
            UsageError: if nothing is to be changed, or for a value that `add` refuses.
            Conflict: once there is evidence, or (for what it predicts) once a claim of it has runs.
            NotPermitted: for an agent and another's hypothesis.
        """
        named = {"metric": metric, "direction": direction, "mde": mde, "baseline": baseline}
        given = {name: value for name, value in named.items() if value is not None}
        if not given and statement is None and tags is None:
            raise UsageError("nothing to edit", hint=f"perpetual edit {id} --metric val_loss")
        with self._ctx.store.transaction() as tx:
            item = self._ctx.need(HYPOTHESIS, id)
            if withholds(self._ctx) and not is_same(self._ctx.actor, item.body["created_by"] or ""):
                raise NotPermitted(f"{item.id} was added by another; editing it is for a person")
            claims = [found for found in tx.find(EXPERIMENT, hypothesis_id=item.id) if found.body["design"]["claim"]]
            ran = [found.id for found in claims if found.body["runs"]]
            if (given or statement is not None) and (item.body["evidence_count"] or (given and ran)):
                what = f"runs of {ran[0]}" if ran else "evidence"
                raise Conflict(f"{item.id} has {what}: only its tags can be edited",
                               hint="add what you mean as another one: perpetual hypotheses add")  # fmt: skip
            predicted: Callable[..., Prediction] = self._predicted
            prediction = predicted(**{**item.body["prediction"], **given}) if given else None
            body = cast("PredictionBody", to_json(prediction)) if prediction else None
            return self._records.edit(item.id, statement=statement, tags=tags, prediction=body)

    def archive(self, id: str, *, restore: bool = False) -> Hypothesis:
        """Hides a hypothesis from lists and brief, or shows it again; an open one is parked by that, and stays parked.

        The record and every figure over all hypotheses go on counting it.

        Raises:
            Conflict: while one of its experiments may run.
        """
        from perpetual.lab.ledger.archive import archive

        with self._ctx.store.transaction():
            id = archive(self._ctx, "hypothesis", id, restore=restore)
            if not restore and self.get(id).status == "open":
                self.update(id, status="parked")
        return self.get(id)

    def count_open(self) -> int:
        """Returns how many hypotheses are open."""
        return self._ctx.store.count("hypothesis", status="open")

    def update(
        self,
        id: str,
        *,
        statement: str | None = None,
        prior: float | None = None,
        confidence: float | None = None,
        status: str | None = None,
        tags: Sequence[str] | None = None,
        why: str | None = None,
    ) -> Hypothesis:
        """Changes a hypothesis; None leaves a field. A confidence or verdict by hand is a manual row of the ledger.

        Raises:
            UsageError: if nothing is to be changed, or a value is impossible.
            Conflict: for a new prior after the first evidence; for `open` while the evidence decides.
            NotPermitted: if an agent would decide by hand, or undo what was decided so.
        """
        from perpetual.lab.evidence import manual

        return manual.update(self._ctx, id, statement=statement, prior=prior, confidence=confidence, status=status,
                             tags=tags, why=why)  # fmt: skip


def _grid(params: Mapping[str, object] | None) -> dict[str, object] | None:
    if params is None:
        return None
    fits(params, "params", _LARGEST_PARAMS)
    found: dict[str, object] = {}
    for name, values in params.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise UsageError(f"params: {name} must be a list of values to try", hint='for example {"lr": [0.1, 0.01]}')
        found[name] = [*values]
    return found
