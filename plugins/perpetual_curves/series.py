"""Series of values over steps: put in order, averaged over runs, thinned, described. Pure.

Averages are taken step by step where the runs log the same steps. Where they do not, values between two logged ones of
a run are interpolated linearly, inside of the run's own range and never over a gap.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import lt

from perpetual.api import MetricHistory
from perpetual_curves.documents import Trend

__all__ = ["Curve", "Mean", "mean_of", "ordered", "summary_of", "thinned", "trend_of"]

_GRID = 500  # steps of an average of runs that log different ones
_TAIL = 10  # a trend looks at the last tenth of the values, and at the tenth before
_LEVEL = 0.01  # of the range of the values: a smaller change is level


@dataclass(frozen=True)
class Curve:
    """Values in the order of their steps; each step is there once. `superseded` values were logged again later."""

    axis: str | None
    steps: Sequence[float]
    values: Sequence[float | None]
    times: Sequence[float | None]
    skipped_bytes: int = 0
    unplaced: int = 0
    superseded: int = 0


@dataclass(frozen=True)
class Mean:
    """A mean over runs; `is_exact` says that every run logged the same steps, as far as it came."""

    axis: str | None
    steps: Sequence[float]
    values: Sequence[float | None]
    sd: Sequence[float | None]
    n: Sequence[int]
    is_exact: bool
    times: Sequence[float | None] = field(default_factory=list)


def ordered(found: MetricHistory) -> Curve:
    """Returns a history in the order of its steps, without values of no step; of a step the value logged last."""
    steps, values, times = found.steps, found.values, found.times
    unplaced = superseded = 0
    if None in steps:
        kept = [n for n, step in enumerate(steps) if step is not None]
        unplaced = len(steps) - len(kept)
        steps, values, times = [steps[n] for n in kept], [values[n] for n in kept], [times[n] for n in kept]
    known = [step for step in steps if step is not None]
    if not all(map(lt, known, islice(known, 1, None))):
        last = {step: n for n, step in enumerate(known)}
        places = [last[step] for step in sorted(last)]
        superseded = len(known) - len(places)
        known, values, times = [known[n] for n in places], [values[n] for n in places], [times[n] for n in places]
    return Curve(found.axis, known, values, times, found.skipped_bytes, unplaced, superseded)


def mean_of(curves: Sequence[Curve]) -> Mean:
    """Returns the mean over runs at each step that any has; None where a run that has the step has no finite number."""
    union = sorted({step for curve in curves for step in curve.steps})
    exact = all(
        not curve.steps or bisect_right(union, curve.steps[-1]) - bisect_left(union, curve.steps[0]) == len(curve.steps)
        for curve in curves
    )
    if not exact and len(union) > _GRID:
        union = [union[round(n * (len(union) - 1) / (_GRID - 1))] for n in range(_GRID)]
    columns: list[list[float | None]] = [[] for _ in union]
    for curve in curves:
        if not curve.steps:
            continue
        start = bisect_left(union, curve.steps[0])
        values = curve.values if exact else _interpolated(curve, union[start : bisect_right(union, curve.steps[-1])])
        for column, value in zip(columns[start:], values, strict=False):
            column.append(value)
    moments = [_moments(column) for column in columns]
    return Mean(
        curves[0].axis if curves else None, union, [mean for mean, _ in moments], [sd for _, sd in moments],
        [len(column) for column in columns], exact, [None] * len(union),
    )  # fmt: skip


def _interpolated(curve: Curve, grid: Sequence[float]) -> list[float | None]:
    found: list[float | None] = []
    for step in grid:
        after = bisect_left(curve.steps, step)
        high = curve.values[after]
        if curve.steps[after] == step:
            found.append(high)
            continue
        low = curve.values[after - 1]
        if low is None or high is None:
            found.append(None)
            continue
        share = (step - curve.steps[after - 1]) / (curve.steps[after] - curve.steps[after - 1])
        found.append(low * (1 - share) + high * share)
    return found


def _moments(column: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [value for value in column if value is not None]
    if not known or len(known) < len(column):
        return None, None
    mean = sum(known) / len(known)
    if len(known) < 2:
        return mean, None
    return mean, math.sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1))


def thinned(values: Sequence[float | None], most: int) -> Sequence[int]:
    """Returns the places to keep, at most about `most`: of each stretch its lowest, its highest and a gap.

    The first and the last value stay, so no peak is lost; what lies between is.
    """
    if len(values) <= most:
        return range(len(values))
    buckets = max(1, (most - 2) // 3)
    kept = {0, len(values) - 1}
    for bucket in range(buckets):
        begin, end = len(values) * bucket // buckets, len(values) * (bucket + 1) // buckets
        part = values[begin:end]
        known = part if None not in part else [value for value in part if value is not None]
        if len(known) < len(part):
            kept.add(begin + part.index(None))
        if known:
            finite = [value for value in known if value is not None]
            kept.update((begin + part.index(min(finite)), begin + part.index(max(finite))))
    return sorted(kept)


def trend_of(values: Sequence[float | None]) -> Trend | None:
    """Returns how the last tenth of the values differs from the tenth before; None at a gap, or of fewer than four.

    A change below a hundredth of the range of all values is level. Values of one run depend on one another, so no
    test is made.
    """
    known = [value for value in values if value is not None]
    if len(known) < 4 or values[-1] is None:
        return None
    size = max(2, len(known) // _TAIL)
    last, before = known[-size:], known[-2 * size : -size]
    change = sum(last) / size - sum(before) / size
    reach = max(known) - min(known)
    word = "level" if abs(change) <= _LEVEL * reach else "rising" if change > 0 else "falling"
    return {"word": word, "change": change, "points": size}


@dataclass(frozen=True)
class Summary:
    """First, last, lowest and highest value with their steps; None without a finite one."""

    first: tuple[float, float | None] | None
    last: tuple[float, float | None] | None
    low: tuple[float, float] | None
    high: tuple[float, float] | None
    not_finite: int


def summary_of(steps: Sequence[float], values: Sequence[float | None]) -> Summary:
    """Returns a series in short; the last value is None where it is not finite."""
    known = [(value, step) for step, value in zip(steps, values, strict=True) if value is not None]
    low = min(known, key=lambda pair: pair[0], default=None)
    high = max(known, key=lambda pair: pair[0], default=None)
    return Summary(
        (steps[0], values[0]) if steps else None,
        (steps[-1], values[-1]) if steps else None,
        None if low is None else (low[1], low[0]),
        None if high is None else (high[1], high[0]),
        len(values) - len(known),
    )
