"""Stopping a run early: where its curve and those of complete runs stood at one step, the rung. Floor 2."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, partial
from typing import Literal, NamedTuple

from perpetual.errors import Conflict, NotPermitted, PerpetualError, UsageError
from perpetual.lab.bodies import DesignBody, StoppedBody
from perpetual.lab.context import Context
from perpetual.lab.evidence.early import stopped_runs, where
from perpetual.lab.evidence.stale import parts_of, pooled, root_of
from perpetual.lab.experiments.related import Related
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.experiments import sources_of
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.permissions import is_agent
from perpetual.lab.runs.cancel import kill
from perpetual.lab.runs.measure import histories
from perpetual.records import ENDED
from perpetual.science.stopped import LEAST_COMPLETE
from perpetual.toolkit.units import finite

__all__ = ["Rung", "rung", "stop_early"]

_SAME_LENGTH = 0.01  # complete runs whose last steps differ by a larger share are not of one length
_LOOK_BYTES = 64 * 1024  # of a live run's file, to learn how far it is


class Rung(NamedTuple):
    """Where a live run stands at the rung, and where others did; values are better where larger.

    `sort` says what its runs are: a claim's, a baseline's that an experiment of a claim is compared with, or neither.

    `value` is None until the run has come so far. `complete` and `others` are values at the rung and last values of
    complete runs of the run's own experiment and of its baseline, `stopped` values at the rung of those that were
    stopped, `peers` values at the rung of runs of other experiments that have come so far. `share_done` is how much of
    its steps the run has behind it.
    """

    sort: Literal["claim", "baseline", "plain"]
    step: float
    value: float | None
    share_done: float
    complete: tuple[tuple[float, float], ...]
    stopped: tuple[float, ...]
    others: tuple[tuple[float, float], ...]
    peers: tuple[float, ...]


class _Curves:
    """Last steps of runs that ended, and their values at a step, each read once."""

    def __init__(self, ctx: Context) -> None:
        self.length = cache(partial(_last_step, ctx))
        self.value = cache(partial(_value_at, ctx))


class _Arms(NamedTuple):
    """Runs beside one run: complete ones of its experiment and of its baseline, and stopped ones."""

    own: list[RunRow]
    others: list[RunRow]
    peers: list[RunRow]
    stopped: list[RunRow]
    at_step: dict[str, float]  # of complete runs, as far as it was recorded


def _arms(ctx: Context, experiment: ExperimentRow, metric: str, beside: Sequence[str]) -> _Arms:
    design = experiment.body["design"]
    own = sources_of(ctx, experiment) if design["claim"] is not None else pooled(ctx, root_of(ctx, experiment).id)
    peers = [id for id in beside if id not in own]
    stopped = stopped_runs(ctx, [*own, *peers], metric)
    return _Arms(
        _complete(ctx, own, metric),
        _complete(ctx, parts_of(ctx, design), metric),
        _complete(ctx, peers, metric),
        stopped,
        {id: x for run in stopped for id, x in where(run)["at_step"].items()},
    )


def _metric_of(ctx: Context, run: RunRow) -> tuple[ExperimentRow, str]:
    """Returns a live run's experiment and metric. Raises Conflict, or UsageError where a curve cannot stand for it."""
    if run.body["status"] in ENDED:
        raise Conflict(f"{run.id} is {run.body['status']}; there is nothing to stop", hint=f"perpetual runs {run.id}")
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    metric, related = experiment.body["design"]["metric"], ctx.cached(Related)
    if metric is None or not _has_curve(experiment.body["design"], metric):
        raise UsageError(f"{run.id} measures what no curve can stand for", hint=f"perpetual kill {run.id}")
    owner = ctx.need(EXPERIMENT, experiment.body.get("extends") or experiment.id)
    users = {id for each in (experiment, owner, root_of(ctx, owner)) for id in related.compared_with(each.id)}
    for other in (ctx.need(EXPERIMENT, id) for id in sorted({*users, *owner.body.get("shared_by", ())})):
        design = other.body["design"]
        is_claimed = design["claim"] is not None and other.body["status"] not in ("rejected", "expired")
        if is_claimed and (design.get("runs_of") == owner.id or not _has_curve(design, metric)):
            raise UsageError(f"{other.id} needs more than {run.id}'s curve", hint=f"perpetual experiments {other.id}")
    return experiment, metric


def _has_curve(design: DesignBody, metric: str) -> bool:
    """Returns whether a curve of the metric can stand for a run in a comparison of this design."""
    is_plain = design["kind"] == "gaussian" and not design.get("guards") and not design.get("on_crash")
    return is_plain and design["metric"] == metric


def rung(ctx: Context, run_id: str, share: float, beside: Sequence[str] = ()) -> Rung | None:
    """Returns where a live run stands, as `Runs.rung` says."""
    finite(share, "the share", minimum=0.0, maximum=1.0)
    experiment, metric = _metric_of(ctx, run := ctx.need(RUN, run_id))
    arms, curves = _arms(ctx, experiment, metric, beside), ctx.cached(_Curves)
    complete = (*arms.own, *arms.others, *arms.peers)
    lengths = [each for item in complete if (each := curves.length(item.id, metric)) is not None]
    if not lengths or max(lengths) - min(lengths) > _SAME_LENGTH * max(lengths):
        return None
    length = max(lengths)
    stopped = arms.stopped or stopped_runs(ctx, parts_of(ctx, experiment.body["design"]), metric)
    step = where(stopped[0])["step"] if stopped else float(int(share * length))
    last = _last_step(ctx, run.id, metric, _LOOK_BYTES)
    value = None if last is None or last < step else _value_at(ctx, run.id, metric, step)
    sign = -1.0 if experiment.body["design"]["direction"] == "min" else 1.0

    def points(runs: Sequence[RunRow]) -> tuple[tuple[float, float], ...]:
        pairs = [(curves.value(item.id, metric, step), item.body["metrics"][metric]) for item in runs]
        return tuple((sign * x, sign * y) for x, y in pairs if x is not None and y is not None)

    own = [item for item in arms.stopped if item.body["experiment_id"] not in beside]
    peers = [curves.value(item.id, metric, step) for item in arms.peers]
    peers += [where(item)["value"] for item in arms.stopped if item not in own]
    peers += [_value_at(ctx, item.id, metric, step) for item in RunRecords(ctx).live()
              if item.body["experiment_id"] in beside and item.id != run.id]  # fmt: skip
    return Rung(
        _sort(ctx, experiment),
        step,
        None if value is None else sign * value,
        (last or 0.0) / length if length > 0 else 0.0,
        points(arms.own),
        tuple(sign * where(item)["value"] for item in own),
        points(arms.others),
        tuple(sign * x for x in peers if x is not None),
    )


def _sort(ctx: Context, experiment: ExperimentRow) -> Literal["claim", "baseline", "plain"]:
    if experiment.body["design"]["claim"] is not None:
        return "claim"
    users = (ctx.need(EXPERIMENT, id) for id in ctx.cached(Related).compared_with(root_of(ctx, experiment).id))
    return "baseline" if any(each.body["design"]["claim"] is not None for each in users) else "plain"


def stop_early(ctx: Context, run_id: str, *, step: float, by: str, why: str, beside: Sequence[str] = ()) -> RunRow:
    """Ends a run as `Runs.stop_early` says."""
    finite(step, "the step")
    run = ctx.need(RUN, run_id)
    if is_agent(ctx.actor):  # it may have seen more of the curve than the rung, and select by that
        hint = f"perpetual kill {run.id}: it then counts at the worst value seen"
        raise NotPermitted("stopping a run early is for the loop and for persons", hint=hint)
    experiment, metric = _metric_of(ctx, run)
    arms, curves = _arms(ctx, experiment, metric, beside), ctx.cached(_Curves)
    if arms.stopped and (others := where(arms.stopped[0])["step"]) != step:
        raise UsageError(f"other runs of {experiment.id} were stopped at step {others:g}, and not at {step:g}")
    value = _value_at(ctx, run.id, metric, step)
    if value is None:
        raise UsageError(f"{run.id} has no {metric} at step {step:g} yet", hint=f"perpetual curves {run.id}")
    at_step = arms.at_step
    for item in (*arms.own, *arms.others, *arms.peers):
        if (x := at_step.get(item.id, curves.value(item.id, metric, step))) is not None:
            at_step[item.id] = x
    known = sum(item.id in at_step for item in arms.own)
    if not beside and known < LEAST_COMPLETE:
        raise Conflict(f"{known} complete runs of {experiment.id} show {metric} at step {step:g}, 2 are wanted first")
    body: StoppedBody = {"by": by, "why": why, "step": step, "value": value, "at_step": at_step}
    return kill(ctx, run.id, stopped=body)


def _complete(ctx: Context, experiment_ids: Sequence[str], metric: str) -> list[RunRow]:
    """Returns the runs that ended with a value that counts."""
    return [
        run
        for id in experiment_ids
        for run in ctx.store.find(RUN, experiment_id=id, status="done")
        if run.body["metrics"].get(metric) is not None and not (run.body["tainted"] or run.body["chosen_seed"])
    ]


def _last_step(ctx: Context, run_id: str, metric: str, limit_bytes: int | None = None) -> float | None:
    """Returns the last step that a run has logged its metric at; None where it cannot be read, or names no steps."""
    try:
        found = histories(ctx, run_id, [metric], limit_bytes).get(metric)
    except PerpetualError:
        return None
    if found is None or found.axis is None:
        return None
    return max((step for step in found.steps if step is not None), default=None)


def _value_at(ctx: Context, run_id: str, metric: str, step: float) -> float | None:
    """Returns the last value logged up to a step; None where the run has not come so far, or cannot be read."""
    try:
        found = histories(ctx, run_id, [metric]).get(metric)
    except PerpetualError:
        return None
    if found is None or found.axis is None:
        return None
    pairs = sorted((at, n) for n, at in enumerate(found.steps) if at is not None)
    place = bisect_right(pairs, (step, len(found.steps)))
    return found.values[pairs[place - 1][1]] if place and pairs[-1][0] >= step else None
