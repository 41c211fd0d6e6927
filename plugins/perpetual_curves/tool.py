"""Learning curves in short as a tool of the MCP server: `perpetual_curves`. Built by the server when it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from perpetual import Lab
from perpetual.api import UsageError

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]

_MOST = 12  # curves of an answer


class CurveLine(TypedDict):
    """A curve in short; `best` is by the declared direction, `trend` how the last tenth differs from the one before."""

    experiment: str
    run: str | None
    status: str | None
    runs: int
    points: int
    not_finite: int
    first: float | None
    last: float | None
    last_step: float | None
    best: float | None
    best_step: float | None
    trend: str | None
    trend_change: float | None
    progress: str | None


class CurvesAnswer(TypedDict):
    """Curves of one metric in short; `notes` say what is to be known beside them."""

    schema: Literal["perpetual.curves/1"]
    metric: str
    direction: str | None
    axis: str | None
    items: list[CurveLine]
    left_out: list[str]
    notes: list[str]
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., CurvesAnswer]:
    """Builds the tool."""
    return _curves


def _curves(
    lab: Lab,
    ids: Annotated[list[str], "Runs and experiments, e.g. ['e1', 'r7']; an experiment of several runs is their mean."],
    metric: Annotated[str | None, "Another metric than the declared one."] = None,
) -> CurvesAnswer:
    from perpetual_curves.collect import collect, summarised

    if not ids:
        raise UsageError("ids names no run and no experiment", hint="ids: ['e1']")
    found = collect(lab, ids, metric)
    live = [arm.run for arm in found.arms if arm.run is not None and arm.status == "running"]
    now = lab.progress(live[:_MOST]) if live else {}
    items: list[CurveLine] = []
    for arm in found.arms[:_MOST]:
        each = summarised(arm, found.direction)
        trend = each["trend"]
        items.append(
            {
                "experiment": each["experiment"],
                "run": each["run"],
                "status": each["status"],
                "runs": len(each["runs"]),
                "points": each["points"],
                "not_finite": each["not_finite"],
                "first": each["first"],
                "last": each["last"],
                "last_step": each["last_step"],
                "best": each["best"],
                "best_step": each["best_step"],
                "trend": trend["word"] if trend else None,
                "trend_change": trend["change"] if trend else None,
                "progress": str(now[arm.run]["text"]) if arm.run in now else None,
            }
        )
    return {
        "schema": "perpetual.curves/1",
        "metric": found.metric,
        "direction": found.direction,
        "axis": found.arms[0].curve.axis,
        "items": items,
        "left_out": [*found.left_out[:_MOST]],
        "notes": [*found.notes[:_MOST]],
        "truncated": len(found.arms) > _MOST or len(found.left_out) > _MOST or len(found.notes) > _MOST,
    }


_curves.reads_only = True  # type: ignore[attr-defined]
