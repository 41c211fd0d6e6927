"""Collects the curves that ids of runs and experiments name. For the command, the tool and the report.

What is shown is read anew through `lab.runs.curves`: nothing of it is in the record, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.api import NotFound, PerpetualError, Run, UsageError, unknown
from perpetual.toolkit.units import counted, identifier
from perpetual_curves.series import Curve, Mean, mean_of, ordered, summary_of, thinned, trend_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_curves.documents import Curves, CurveSeries, CurveSummary

__all__ = ["MOST_RUNS", "Arm", "Found", "collect", "document_of", "one_metric"]

MOST_RUNS = 200  # of one picture
POINTS = 400  # of one series in a document
_LIST_BYTES = 64 * 1024  # of a run's files, to learn the names of its metrics
_NAMED = 8
_LIVE = ("queued", "launching", "running")


@dataclass(frozen=True)
class Arm:
    """A curve with what it is of: one run, or the mean of those `runs` of an experiment."""

    experiment: str
    run: str | None
    status: str | None
    runs: Sequence[str]
    curve: Curve | Mean


@dataclass(frozen=True)
class Found:
    """Curves of one metric; `left_out` are runs that logged no value of it, `unread` those that could not be read."""

    metric: str
    direction: str | None
    arms: Sequence[Arm]
    left_out: Sequence[str]
    notes: Sequence[str]
    unread: Sequence[str] = ()


def collect(lab: Lab, ids: Sequence[str], metric: str | None = None, *, as_mean: bool | None = None) -> Found:
    """Returns the curves of the runs that ids name; of an experiment those of each replicate's newest attempt.

    Args:
        metric: None is the one that the experiments declare.
        as_mean: the mean over an experiment's runs; None is so for an experiment of several runs that is named itself.

    Raises:
        UsageError: without a metric where the experiments declare different ones, or none.
        NotFound: if no run has logged a value of it.
    """
    runs, whole, alone = _runs(lab, [*map(identifier, ids)])
    notes = []
    if len(runs) > MOST_RUNS:
        notes.append(f"{len(runs) - MOST_RUNS} of {len(runs)} runs are left out: name fewer")
        runs = runs[:MOST_RUNS]
    metric = metric or one_metric(lab, runs)
    known: list[tuple[Run, Curve]] = []
    left_out, unread = [], []
    for run in runs:
        curve, problem = _curve(lab, run, metric)
        if problem is not None:
            notes.append(problem)
            unread.append(run.id)
        if curve is None or not curve.steps:
            left_out.append(run.id)
        else:
            known.append((run, curve))
    if not known:
        raise _nothing(lab, runs, metric, notes)
    notes += _notes(known)
    averaged = {run.experiment_id for run in runs} if as_mean else whole if as_mean is None else set()
    arms = _arms(known, averaged, alone if as_mean is None else set(), notes)
    return Found(metric, _direction(lab, runs, metric), arms, left_out, notes, unread)


def one_metric(lab: Lab, runs: Sequence[Run]) -> str:
    """Returns the metric that the runs' experiments declare, or the only one that their runs log."""
    declared = {lab.experiments.get(id).design.metric for id in {run.experiment_id: None for run in runs}} - {None}
    if len(declared) == 1:
        return str(*declared)
    if declared:
        listed = ", ".join(sorted(map(str, declared)))
        raise UsageError(f"the experiments declare different metrics: {listed}", hint="name one: --metric NAME")
    names = _names(lab, runs)
    if len(names) == 1:
        return names[0]
    if not names:
        raise NotFound("no value of a metric is logged yet", hint="in the program: perpetual.log(step=1, loss=0.5)")
    shown = ", ".join(names[:_NAMED]) + (" and more" if len(names) > _NAMED else "")
    raise UsageError(f"no metric is declared, and the runs log {shown}", hint="name one: --metric NAME")


def _runs(lab: Lab, ids: Sequence[str]) -> tuple[list[Run], set[str], set[str]]:
    """Returns the runs, each once, in the order of the ids; the experiments and the runs that were named themselves."""
    found: dict[str, Run] = {}
    whole, alone = set(), set()
    for id in dict.fromkeys(ids):
        named = lab.runs.named([id])
        if not named:
            raise NotFound(f"{id} has no run yet", hint=f"perpetual run {id}")
        found.update((run.id, run) for run in named)
        if [run.id for run in named] == [id]:
            alone.add(id)
        else:
            whole.add(named[0].experiment_id)
    return [*found.values()], whole, alone


def _curve(lab: Lab, run: Run, metric: str) -> tuple[Curve | None, str | None]:
    try:
        history = lab.runs.curves(run.id, (metric,)).get(metric)
    except PerpetualError as problem:  # something hostile or broken in its folder: the others are shown
        return None, problem.message
    return (None if history is None else ordered(history)), None


def _names(lab: Lab, runs: Sequence[Run]) -> list[str]:
    """Returns the names of metrics that the runs log, the totals that they declare left out."""
    names: dict[str, None] = {}
    for run in runs[:_NAMED]:
        try:
            names.update(dict.fromkeys(lab.runs.curves(run.id, limit_bytes=_LIST_BYTES)))
        except PerpetualError:
            continue
    return [name for name in names if not name.startswith(("total_", "max_"))]


def _nothing(lab: Lab, runs: Sequence[Run], metric: str, notes: Sequence[str]) -> PerpetualError:
    if notes:
        return NotFound(notes[0], hint=f"perpetual logs {runs[0].id}")
    names = _names(lab, runs)
    if names:
        return NotFound(unknown("metric", metric, names), hint=f"--metric {names[0]}", code="no_metric")
    live = [run.id for run in runs if run.status in _LIVE]
    hint = f"perpetual wait {live[0]}" if live else "in the program: perpetual.log(step=1, loss=0.5)"
    return NotFound(f"no value of {metric} is logged", hint=hint, code="no_metric")


def _direction(lab: Lab, runs: Sequence[Run], metric: str) -> str | None:
    """Returns the direction that the experiments declare for this metric, None where they differ or say none."""
    designs = [lab.experiments.get(id).design for id in {run.experiment_id: None for run in runs}]
    found = {str(design.direction) for design in designs if design.metric == metric and design.direction}
    return found.pop() if len(found) == 1 else None


def _arms(known: Sequence[tuple[Run, Curve]], averaged: set[str], alone: set[str], notes: list[str]) -> list[Arm]:
    """Returns the arms; `averaged` are the experiments whose mean is taken, `alone` runs that are shown beside it."""
    groups: dict[str, list[tuple[Run, Curve]]] = {}
    for run, curve in known:
        groups.setdefault(run.experiment_id, []).append((run, curve))
    arms = []
    for id, members in groups.items():
        counted_runs = [pair for pair in members if not pair[0].tainted]
        axes = {curve.axis for _, curve in counted_runs}
        wanted = id in averaged and len(counted_runs) > 1
        if wanted and len(axes) > 1:
            notes.append(f"the runs of {id} count different steps ({_listed(axes)}): there is no mean")
        if not wanted or len(axes) > 1:
            arms += [Arm(id, run.id, run.status, [run.id], curve) for run, curve in members]
            continue
        for run, _ in members:
            if run.tainted:
                notes.append(f"{run.id} is tainted and not in the mean of {id}")
        mean = mean_of([curve for _, curve in counted_runs])
        arms.append(Arm(id, None, None, [run.id for run, _ in counted_runs], mean))
        arms += [Arm(id, run.id, run.status, [run.id], curve) for run, curve in members if run.id in alone]
        notes += _about(id, counted_runs, mean)
    return arms


def _listed(axes: set[str | None]) -> str:
    return " and ".join(sorted(axis or "values" for axis in axes))


def _about(id: str, members: Sequence[tuple[Run, Curve]], mean: Mean) -> list[str]:
    """Returns what is to be known beside a mean."""
    notes = []
    if not mean.is_exact:
        notes.append(f"the runs of {id} log different steps: the mean interpolates between them")
    most = len(members)
    after = next((step for step, n in zip(mean.steps, mean.n, strict=True) if n == most), None)
    fewer = next(
        (n for n in range(1, len(mean.n)) if mean.n[n] < mean.n[n - 1]),
        None,
    )
    if after is None:
        notes.append(f"no step of {id} has all {most} runs: the mean changes with the runs that are in it")
    elif fewer is not None:
        ended = [run for run, curve in members if curve.steps[-1] < mean.steps[fewer]]
        said = ", ".join(f"{run.id} {run.status}" for run in ended[:_NAMED])
        notes.append(f"the mean of {id} rests on fewer than {most} runs from step {mean.steps[fewer]:.10g} on ({said})")
    gaps = sum(value is None for value in mean.values)
    if gaps:
        notes.append(f"the mean of {id} has a gap at {counted(gaps, 'step')}: a run has no finite number there")
    return notes


def _notes(known: Sequence[tuple[Run, Curve]]) -> list[str]:
    """Returns what is to be known beside curves: gaps, values without a place, files that were read in pieces."""

    def some(what: str, count: Callable[[Curve], int]) -> list[str]:
        parts = [f"{run.id}: {count(curve)}" for run, curve in known if count(curve)]
        more = f" and {len(parts) - _NAMED} more runs" if len(parts) > _NAMED else ""
        return [f"{what} ({', '.join(parts[:_NAMED])}{more})"] if parts else []

    notes = some("not finite, shown as gaps", lambda curve: sum(value is None for value in curve.values))
    notes += some("logged without a step, not drawn", lambda curve: curve.unplaced)
    notes += some("logged again at the same step, the last one shown", lambda curve: curve.superseded)
    notes += some("bytes of long files not read, values from pieces in between", lambda curve: curve.skipped_bytes)
    axes = {curve.axis for _, curve in known}
    if len(axes) > 1:
        notes.append(f"the runs count different steps ({_listed(axes)}): each has a picture of its own")
    live = [run.id for run, _ in known if run.status in _LIVE]
    if live:
        notes.append(f"live at the last scan: {', '.join(live[:_NAMED])}{' and more' if len(live) > _NAMED else ''}")
    return notes


# --- documents ------------------------------------------------------------------------------------------------------


def document_of(found: Found, *, points: int | None = POINTS) -> Curves:
    """Returns the document; `points` bounds each series, None leaves them whole."""
    series = [_series(arm, found.metric, points) for arm in found.arms]
    is_thinned = any(each["shown"] < each["points"] for each in series)
    method = f"at most about {points} points of each: lowest, highest and gaps of each stretch" if is_thinned else "all"
    return {
        "metric": found.metric,
        "direction": found.direction,
        "series": series,
        "summaries": [summarised(arm, found.direction) for arm in found.arms],
        "left_out": [*found.left_out],
        "method": method,
        "notes": [*found.notes],
    }


def _series(arm: Arm, metric: str, points: int | None) -> CurveSeries:
    curve = arm.curve
    size = len(curve.values)
    kept = range(size) if points is None else thinned(curve.values, points)
    mean = curve if isinstance(curve, Mean) else None
    return {
        "experiment": arm.experiment,
        "run": arm.run,
        "status": arm.status,
        "metric": metric,
        "axis": curve.axis,
        "steps": [curve.steps[n] for n in kept],
        "values": [curve.values[n] for n in kept],
        "times": [curve.times[n] for n in kept],
        "n": None if mean is None else [mean.n[n] for n in kept],
        "sd": None if mean is None else [mean.sd[n] for n in kept],
        "points": size,
        "shown": len(kept),
    }


def summarised(arm: Arm, direction: str | None) -> CurveSummary:
    """Returns a curve in short."""
    found = summary_of(arm.curve.steps, arm.curve.values)
    best = {"max": found.high, "min": found.low}.get(direction or "")
    return {
        "experiment": arm.experiment,
        "run": arm.run,
        "status": arm.status,
        "runs": [*arm.runs],
        "points": len(arm.curve.values),
        "not_finite": found.not_finite,
        "first": found.first[1] if found.first else None,
        "first_step": found.first[0] if found.first else None,
        "last": found.last[1] if found.last else None,
        "last_step": found.last[0] if found.last else None,
        "best": best[1] if best else None,
        "best_step": best[0] if best else None,
        "low": found.low[1] if found.low else None,
        "high": found.high[1] if found.high else None,
        "trend": trend_of(arm.curve.values),
    }
