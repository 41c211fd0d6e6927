"""Bisections as tools of the MCP server: `perpetual_bisections` reads, `perpetual_bisect` asks for one.

Built by the server when it starts. A bisection costs run-hours: what an agent asks for waits until a person starts it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from perpetual import Lab

if TYPE_CHECKING:
    from perpetual_replay.documents import Bisection
if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build_ask", "build_list"]

_MOST = 10  # bisections of an answer


class FoundLine(TypedDict):
    """The change at which a search ended; `shown` and `confirmed` as `perpetual memory bisect --json` has them."""

    path: str | None
    deed: str | None
    seq: int
    shown: bool
    confirmed: bool
    effect: float | None
    low: float | None
    high: float | None


class BisectionLine(TypedDict):
    """A bisection in short; `id` is null for a plan. `good` and `bad` are events, `worst_case_run_hours` its most."""

    id: str | None
    state: str
    approved: bool
    good: int
    bad: int
    changes: int
    reaching: int
    comparisons: int
    max_pairs: int
    pairs: int
    unproven: int
    worst_case_run_hours: float
    found: FoundLine | None
    reason: str | None
    waits_for: str | None
    sentence: str


class BisectionAnswer(TypedDict):
    """Bisections, the newest first, or the one that was asked for or planned."""

    schema: Literal["perpetual.bisections/1"]
    items: list[BisectionLine]
    next: str | None
    truncated: bool


def build_list(options: Mapping[str, object]) -> Callable[..., BisectionAnswer]:
    """Builds the tool that lists."""
    return _list


def build_ask(options: Mapping[str, object]) -> Callable[..., BisectionAnswer]:
    """Builds the tool that plans and asks."""
    return _ask


def _list(
    lab: Lab,
    file: Annotated[str | None, "Those that ended at a change of this note."] = None,
) -> BisectionAnswer:
    """Searches for the change of a note after which replay scores fell: their results, the newest first."""
    from perpetual_replay.actions import bisections

    found = bisections(lab, file, limit=_MOST + 1)
    return _answer(found[:_MOST], truncated=len(found) > _MOST)


def _ask(
    lab: Lab,
    action: Annotated[Literal["plan", "ask"], "plan: the worst case alone, nothing is recorded."] = "plan",
    good: Annotated[str | None, "When scores were good: a time, seq:120, a commit."] = None,
    bad: Annotated[str | None, "When they are bad; else now."] = None,
) -> BisectionAnswer:
    """Asks for a search for the change of a note after which replay scores fell; a person starts its runs."""
    from perpetual_replay.actions import bisect, plan_of_bisection

    found = bisect(lab, good, bad) if action == "ask" else plan_of_bisection(lab, good, bad)
    return _answer([found])


def _answer(found: list[Bisection], *, truncated: bool = False) -> BisectionAnswer:
    waits = any(item["state"] == "proposed" for item in found)
    return {
        "schema": "perpetual.bisections/1",
        "items": [_line(item) for item in found],
        "next": "a proposed bisection waits until a person starts its runs" if waits else None,
        "truncated": truncated,
    }


def _line(item: Bisection) -> BisectionLine:
    return {
        "id": item["id"], "state": item["state"], "approved": item["approved_by"] is not None, "good": item["good"],
        "bad": item["bad"], "changes": item["changes"], "reaching": len(item["states"]) - 1,
        "comparisons": item["comparisons"], "max_pairs": item["max_pairs"],
        "pairs": sum(one["pairs"] for one in item["compared"]), "unproven": item["unproven"],
        "worst_case_run_hours": item["worst_case_run_hours"], "found": _found(item), "reason": item["reason"],
        "waits_for": item["waits_for"], "sentence": item["sentence"],
    }  # fmt: skip


def _found(item: Bisection) -> FoundLine | None:
    found = item["found"]
    if found is None:
        return None
    by, state = found["confirmation"] or found["by"], found["state"]
    effect, low, high = (None, None, None) if by is None else (by["effect"], by["low"], by["high"])
    return {"path": state["path"], "deed": state["deed"], "seq": state["seq"], "shown": found["shown"],
            "confirmed": found["confirmed"], "effect": effect, "low": low, "high": high}  # fmt: skip


_list.reads_only = True  # type: ignore[attr-defined]
_list.destroys = False  # type: ignore[attr-defined]
_list.repeatable = True  # type: ignore[attr-defined]
_ask.reads_only = False  # type: ignore[attr-defined]
_ask.destroys = False  # type: ignore[attr-defined]
_ask.repeatable = True  # type: ignore[attr-defined]
