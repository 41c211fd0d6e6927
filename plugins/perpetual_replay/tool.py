"""Replays as a tool of the MCP server: `perpetual_replay`. Built by the server when it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from perpetual import Lab
from perpetual.api import UsageError

if TYPE_CHECKING:
    from perpetual_replay.documents import Replay, Replays
if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]

_MOST = 20  # trials of an answer


class ReplayLine(TypedDict):
    """A trial in short; `e_help` promotes the note from `bar` on, `e_harm` rejects it from `harm_bar` on."""

    id: str
    path: str
    blob: str
    note_status: str | None
    state: str
    approved: bool
    pairs: int
    max_pairs: int
    e_help: float
    bar: float
    e_harm: float
    harm_bar: float
    effect: float | None
    low: float | None
    high: float | None
    waits_for: str | None
    sentence: str


class ReplayAnswer(TypedDict):
    """Trials, the newest first, or the one that was asked for; `tasks` is how many replay tasks the project has."""

    schema: Literal["perpetual.replay/1"]
    items: list[ReplayLine]
    tasks: int
    next: str | None
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., ReplayAnswer]:
    """Builds the tool."""
    return _replay


def _replay(
    lab: Lab,
    action: Annotated[Literal["list", "ask"], "What to do."] = "list",
    file: Annotated[str | None, "The note's path."] = None,
) -> ReplayAnswer:
    """Trials of notes by runs with and without: list them, or ask for one, which a person starts."""
    from perpetual_replay.actions import ask, listed

    if action == "ask":
        if file is None:
            raise UsageError("ask needs the note's path", hint='action="ask", file="skills/step.md"')
        return _answer(ask(lab, file), None)
    return _answer(listed(lab), file)


def _answer(found: Replays, file: str | None) -> ReplayAnswer:
    items = [item for item in found["items"] if not item["canary"] and file in (None, item["path"])]
    proposed = any(item["state"] == "proposed" for item in items[:_MOST])
    return {
        "schema": "perpetual.replay/1",
        "items": [_line(item, found["note_status"].get(item["path"])) for item in items[:_MOST]],
        "tasks": found["tasks"],
        "next": "a proposed trial waits until a person starts its runs" if proposed else None,
        "truncated": len(items) > _MOST,
    }


def _line(item: Replay, status: str | None) -> ReplayLine:
    return {
        "id": item["id"], "path": item["path"], "blob": item["blob"], "note_status": status, "state": item["state"],
        "approved": item["approved_by"] is not None, "pairs": item["pairs"], "max_pairs": item["max_pairs"],
        "e_help": item["e_help"], "bar": item["bar"], "e_harm": item["e_harm"], "harm_bar": item["harm_bar"],
        "effect": item["effect"], "low": item["low"], "high": item["high"], "waits_for": item["waits_for"],
        "sentence": item["sentence"],
    }  # fmt: skip


_replay.reads_only = False  # type: ignore[attr-defined]
_replay.destroys = False  # type: ignore[attr-defined]
_replay.repeatable = True  # type: ignore[attr-defined]
