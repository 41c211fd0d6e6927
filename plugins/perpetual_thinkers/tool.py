"""Thoughts as a tool of the MCP server: `perpetual_thoughts`, which only reads. Built by the server when it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from perpetual import Lab

if TYPE_CHECKING:
    from perpetual_thinkers.documents import ThoughtDocument, ThoughtLine
if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]

_MOST = 20  # thoughts of an answer
_LONGEST_REPLY = 4_000  # characters


class ThoughtItem(TypedDict):
    """A question to a thinker: what came of it, and its last reply where it was asked for by its id."""

    id: str
    kind: str
    subject: str
    thinker: str
    state: str
    made: list[str]
    ideas: list[str]
    reason: str | None
    reply: str | None


class ThoughtsAnswer(TypedDict):
    """Thoughts, the newest first, or the one that was asked for."""

    schema: Literal["perpetual.thoughts/1"]
    items: list[ThoughtItem]
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., ThoughtsAnswer]:
    """Builds the tool."""
    return _thoughts


def _thoughts(
    lab: Lab, id: Annotated[str | None, "The thought's id, as thought-3, for its reply."] = None
) -> ThoughtsAnswer:
    """Lists what the project's thinker was asked, what it answered, and what came of it."""
    from perpetual_thinkers.show import document_of, page

    if id is not None:
        found = document_of(lab, id)
        replies = found["replies"]
        reply = replies[-1]["text"][:_LONGEST_REPLY] if replies else None
        return _answer([_item(found, found["ideas"], reply)], truncated=False)
    lines, more = page(lab, limit=_MOST)
    return _answer([_item(one, [], None) for one in lines], truncated=more is not None)


def _answer(items: list[ThoughtItem], *, truncated: bool) -> ThoughtsAnswer:
    return {"schema": "perpetual.thoughts/1", "items": items, "truncated": truncated}


def _item(found: ThoughtLine | ThoughtDocument, ideas: list[str], reply: str | None) -> ThoughtItem:
    return {
        "id": found["id"], "kind": found["kind"], "subject": found["subject"], "thinker": found["thinker"],
        "state": found["state"], "made": found["made"], "ideas": ideas, "reason": found["reason"], "reply": reply,
    }  # fmt: skip


_thoughts.reads_only = True  # type: ignore[attr-defined]
_thoughts.destroys = False  # type: ignore[attr-defined]
_thoughts.repeatable = True  # type: ignore[attr-defined]
