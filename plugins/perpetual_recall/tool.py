"""The memory block as a tool of the MCP server: `perpetual_memory_block`. Built by the server when it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from perpetual import Lab

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]

_TOKENS, _MOST_TOKENS = 500, 2000  # clients are sent the block twice, as text and as structure
_MOST = 10  # paths beside a note


class BlockNote(TypedDict):
    """A note of the block; `same` were merged into it, `opposite` contradict it."""

    path: str
    type: str
    proven: bool
    same: list[str]
    opposite: list[str]
    trimmed: bool


class BlockAnswer(TypedDict):
    """The notes that help now, fenced; `text` is empty where none does."""

    schema: Literal["perpetual.memory_block/1"]
    text: str
    tokens: int
    limit_tokens: int
    notes: list[BlockNote]
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., BlockAnswer]:
    """Builds the tool."""
    return _block


def _block(
    lab: Lab,
    query: Annotated[str | None, "The task; else what is open."] = None,
    tokens: Annotated[int, f"Its size, {_MOST_TOKENS} at most."] = _TOKENS,
) -> BlockAnswer:
    """Returns the notes that help with a task; the outcomes of your next runs count for them."""
    from perpetual_recall.block import memory_block
    from perpetual_recall.exposure import expose

    most = max(20, min(tokens, _MOST_TOKENS))
    made = memory_block(lab, query, tokens=most)
    expose(lab, made)
    notes: list[BlockNote] = [
        {"path": it.path, "type": it.type, "proven": it.proven, "same": [*it.same[:_MOST]],
         "opposite": [*it.opposite[:_MOST]], "trimmed": it.trimmed} for it in made.notes
    ]  # fmt: skip
    return {"schema": "perpetual.memory_block/1", "text": made.text, "tokens": made.tokens, "limit_tokens": most,
            "notes": notes, "truncated": any(it["trimmed"] for it in notes)}  # fmt: skip


_block.reads_only = False  # type: ignore[attr-defined]
_block.destroys = False  # type: ignore[attr-defined]
_block.repeatable = True  # type: ignore[attr-defined]
