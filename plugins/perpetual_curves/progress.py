"""How far live runs are: last step and metrics, speed, time left. Read from the ends of their files at each look.

A total counts where the program logs one that stays the same (`total_steps`, `max_steps`; of epochs `total_epochs`). A
speed is over the steps since the run's start, its start-up time included, unless the program logs the time of day.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from perpetual.api import MetricHistory, PerpetualError, Run, Section, StatusSection
from perpetual.toolkit.units import counted, posix_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_curves.documents import RunProgress

__all__ = ["LiveRuns", "build", "progress_of"]

LIMIT_BYTES = 64 * 1024  # of each of a run's files
_METRICS = 6
_EARLIER = 20  # like runs whose length is looked at
_DAY_S = 86_400.0
_TOTALS = ("total_", "max_")
_ENDS = {"step": "steps", "global_step": "steps", "_step": "steps", "iteration": "iterations", "epoch": "epochs"}


def build(options: Mapping[str, object]) -> LiveRuns:
    """Builds the provider `live-runs`."""
    return LiveRuns()


class LiveRuns(StatusSection):
    """Says how far live runs are; it has no section of its own."""

    def show(self, lab: Lab) -> Section | None:
        """Returns nothing: the record does not say how far a run is."""
        return None

    def progress(self, lab: Lab, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, object]]:
        """Returns `RunProgress` of each run that has started and has not ended; of others nothing."""
        found: dict[str, Mapping[str, object]] = {}
        earlier: dict[str, Sequence[float]] = {}
        for id in run_ids:
            run = lab.runs.get(id)
            if run.status != "running" or run.started_at is None:
                continue
            # Asked of this machine's processes alone: another engine would be asked over a network.
            if run.scheduler == "local" and lab.runs.look(id)[0] != "running":
                continue
            if run.experiment_id not in earlier:
                earlier[run.experiment_id] = _earlier(lab, run.experiment_id)
            found[id] = {**progress_of(lab, run, time.time(), earlier[run.experiment_id])}
        return found


def _earlier(lab: Lab, experiment_id: str) -> Sequence[float]:
    """Returns the seconds that the newest runs of the experiment lasted that ended well."""
    page = lab.runs.list(experiment_id=experiment_id, status="done", limit=_EARLIER)
    return [run.duration_s for run in page.items if run.duration_s is not None]


def progress_of(lab: Lab, run: Run, now_s: float, earlier_s: Sequence[float] = ()) -> RunProgress:
    """Returns how far a run is that has started; `earlier_s` are the lengths of like runs, in seconds."""
    try:
        histories = lab.runs.curves(run.id, limit_bytes=LIMIT_BYTES)
    except PerpetualError:  # something hostile in its folder; `perpetual curves` says what
        histories = {}
    declared = lab.experiments.get(run.experiment_id).design.metric
    started_s = posix_of(run.started_at) if run.started_at else now_s
    elapsed_s = max(0.0, now_s - started_s)
    lead = _lead(histories, declared)
    axis = None if lead is None else lead.axis
    step, total = (None, None) if lead is None else (_last(lead.steps) if axis else None, _total(histories, lead))
    speed, speed_from = (None, None) if lead is None else _speed(lead, started_s, now_s)
    written_s = max((each.written_at_s for each in histories.values()), default=None)
    left_s, left_from = _left(lead, step, total, speed, now_s, elapsed_s, earlier_s)
    found: RunProgress = {
        "axis": axis,
        "step": step,
        "total_steps": total,
        "metrics": _metrics(histories, declared),
        "speed": speed,
        "speed_from": speed_from,
        "elapsed_s": elapsed_s,
        "left_s": left_s,
        "left_from": left_from,
        "written_s_ago": None if written_s is None else max(0.0, now_s - written_s),
        "text": "",
    }
    found["text"] = _in_words(found)
    return found


def _lead(histories: Mapping[str, MetricHistory], declared: str | None) -> MetricHistory | None:
    """Returns the history that says the most of the steps: the one that was logged last, the finest axis first."""
    known = [each for name, each in histories.items() if not name.startswith(_TOTALS)] or [*histories.values()]
    stepped = [each for each in known if each.axis is not None and _last(each.steps) is not None]
    if not stepped:
        return histories.get(declared or "") or next(iter(known), None)
    first = min(_rank(each.axis) for each in stepped)
    same = [each for each in stepped if _rank(each.axis) == first]
    return max(same, key=lambda each: (_last(each.steps) or 0.0, len(each.values)))


def _rank(axis: str | None) -> int:
    names = [*_ENDS]
    return names.index(axis) if axis in names else len(names)


def _last(items: Sequence[float | None]) -> float | None:
    return next((item for item in reversed(items) if item is not None), None)


def _total(histories: Mapping[str, MetricHistory], lead: MetricHistory) -> float | None:
    """Returns how many steps the program says that it will take; None unless it says one number all the time."""
    ending = _ENDS.get(lead.axis or "")
    step = _last(lead.steps)
    for before in _TOTALS if ending is not None and step is not None else ():
        said = histories.get(f"{before}{ending}")
        if said is not None and len({*said.values}) == 1 and (total := said.values[0]) is not None:
            return total if step is not None and total >= max(step, 1.0) else None
    return None


def _speed(lead: MetricHistory, started_s: float, now_s: float) -> tuple[float | None, str | None]:
    """Returns steps in a second, and from what; None before two steps, or where they do not rise."""
    if lead.axis is None:
        return None, None
    pairs = [(step, at) for step, at in zip(lead.steps, lead.times, strict=True) if step is not None]
    if len(pairs) < 2 or pairs[0][0] > pairs[1][0] or pairs[0][0] >= pairs[-1][0]:
        return None, None
    clocked = [(step, at) for step, at in pairs if at is not None and started_s - 1 <= at <= now_s + 1]
    if len(clocked) == len(pairs):
        recent = clocked[-max(2, len(clocked) // 4) :]
        steps, seconds = recent[-1][0] - recent[0][0], (recent[-1][1] or 0.0) - (recent[0][1] or 0.0)
        if steps > 0 and seconds > 0:
            return steps / seconds, "the times that it logs"
    # The first line is written after the steps that lead to it: as many as lie between it and the second.
    steps = pairs[-1][0] - pairs[0][0] + (pairs[1][0] - pairs[0][0])
    seconds = lead.written_at_s - started_s
    return (steps / seconds, "all since its start") if seconds > 0 else (None, None)


def _left(
    lead: MetricHistory | None, step: float | None, total: float | None, speed: float | None, now_s: float,
    elapsed_s: float, earlier_s: Sequence[float],
) -> tuple[float | None, str | None]:  # fmt: skip
    """Returns the seconds that are left, and from what that follows; None where it would have to be over by now."""
    if lead is not None and step is not None and total is not None and speed is not None:
        to_go = total - step - (1 if lead.steps[0] == 0 else 0)
        left_s = max(0.0, to_go) / speed - max(0.0, now_s - lead.written_at_s)
        return (left_s, f"{total:.10g} {_ENDS[lead.axis or '']} declared") if left_s >= 0 else (None, None)
    if earlier_s:
        left_s = median(earlier_s) - elapsed_s
        return (left_s, f"the median of {counted(len(earlier_s), 'earlier run')}") if left_s >= 0 else (None, None)
    return None, None


def _metrics(histories: Mapping[str, MetricHistory], declared: str | None) -> dict[str, float | None]:
    names = sorted(histories, key=lambda name: name != declared)
    kept = [name for name in names if not name.startswith(_TOTALS) and histories[name].values]
    return {name: histories[name].values[-1] for name in kept[:_METRICS]}


def _in_words(found: RunProgress) -> str:
    parts = []
    if found["step"] is not None:
        of = "" if found["total_steps"] is None else f" of {found['total_steps']:.10g}"
        parts.append(f"{(found['axis'] or '').lstrip('_')} {found['step']:.10g}{of}")
    parts += [
        f"{name} {'not finite' if value is None else f'{value:.5g}'}" for name, value in [*found["metrics"].items()][:2]
    ]
    if found["speed"] is not None:
        unit = {"epoch": "epoch", "iteration": "iteration"}.get(found["axis"] or "", "step")
        parts.append(f"{found['speed']:.3g} {unit}s/s" if found["speed"] >= 1 else f"{1 / found['speed']:.3g} s/{unit}")
    if found["elapsed_s"] is not None:
        parts.append(f"{_about(found['elapsed_s'])} so far")
    if found["left_s"] is not None:
        why = "" if found["total_steps"] is not None else f" ({found['left_from']})"
        parts.append(f"about {_about(found['left_s'])} left{why}")
    ago = found["written_s_ago"]
    if ago is not None and ago >= 60:
        parts.append(f"last line {_about(ago)} ago")
    return ", ".join(parts)


def _about(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
