"""Ending a run early, with where its curve and those of complete runs stood at one step. Floor 2."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from perpetual.errors import Conflict, PerpetualError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.evidence.early import stopped_runs
from perpetual.lab.evidence.stale import parts_of
from perpetual.lab.kinds import EXPERIMENT, RUN, RunRow
from perpetual.lab.ledger.experiments import sources_of
from perpetual.lab.runs.cancel import kill
from perpetual.lab.runs.measure import histories
from perpetual.records import ENDED
from perpetual.science.stopped import LEAST_COMPLETE
from perpetual.toolkit.units import finite

__all__ = ["stop_early"]


def stop_early(ctx: Context, run_id: str, *, step: float, by: str, why: str) -> RunRow:
    """Ends a run as `Runs.stop_early` says."""
    run = ctx.need(RUN, run_id)
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    design = experiment.body["design"]
    metric = design["metric"]
    if run.body["status"] in ENDED:
        raise Conflict(f"{run.id} is {run.body['status']}; there is nothing to stop", hint=f"perpetual runs {run.id}")
    if metric is None or design["kind"] != "gaussian":
        raise UsageError(f"{run.id} measures nothing that a curve can stand for", hint=f"perpetual kill {run.id}")
    finite(step, "the step")
    value = _value_at(ctx, run.id, metric, step)
    if value is None:
        raise UsageError(f"{run.id} has logged no {metric} up to step {step:g}", hint=f"perpetual curves {run.id}")
    own = sources_of(ctx, experiment)
    others = parts_of(ctx, design) if isinstance(design["baseline"], str) else []
    earlier = stopped_runs(ctx, own)
    if earlier and earlier[0].body["stopped"]["step"] != step:
        raise UsageError(f"other runs of {experiment.id} were stopped at step {earlier[0].body['stopped']['step']:g}")
    at_step = {id: x for each in earlier for id, x in each.body["stopped"]["at_step"].items()}
    for id in _complete(ctx, [*own, *others], metric):
        x = None if id in at_step else _value_at(ctx, id, metric, step)
        if x is not None:
            at_step[id] = x
    complete = [id for id in _complete(ctx, own, metric) if id in at_step]
    if design["claim"] is not None and len(complete) < LEAST_COMPLETE:
        raise Conflict(f"{len(complete)} runs of {experiment.id} are complete; one more may be stopped from 2 on")
    return kill(ctx, run.id, stopped={"by": by, "why": why, "step": step, "value": value, "at_step": at_step})


def _complete(ctx: Context, experiment_ids: Iterable[str], metric: str) -> list[str]:
    """Returns the ids of the runs that ended with a value of the metric."""
    return [
        run.id
        for id in experiment_ids
        for run in ctx.store.find(RUN, experiment_id=id, status="done")
        if run.body["metrics"].get(metric) is not None
    ]


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
