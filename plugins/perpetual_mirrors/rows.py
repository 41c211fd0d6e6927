"""Rows of a run's metrics, for trackers that log all metrics of a step at once."""

from __future__ import annotations

from typing import NamedTuple

from perpetual_mirrors.base import MirroredRun

__all__ = ["Logged", "rows_of"]


class Logged(NamedTuple):
    """The values of one step of one axis."""

    axis: str
    step: int
    time_s: float
    values: dict[str, float]


def rows_of(run: MirroredRun) -> list[Logged]:
    """Returns the rows, axis by axis and step by step; metrics without a curve are in the last one."""
    found: dict[tuple[str, int], Logged] = {}
    for name, curve in run.curves.items():
        for step, value, time_s in zip(curve.steps, curve.values, curve.times_s, strict=True):
            key = curve.axis, step
            row = found.get(key)
            if row is None:
                found[key] = row = Logged(curve.axis, step, time_s, {})
            row.values[name] = value
    rows = [found[key] for key in sorted(found)]
    finals = run.finals()
    if finals and rows:
        rows[-1].values.update(finals)
    elif finals:
        rows.append(Logged("step", 0, run.ended_s, finals))
    return rows
