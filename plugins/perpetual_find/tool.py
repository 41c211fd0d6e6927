"""The search as a tool of the MCP server: `perpetual_find`. Built by the server when it starts."""

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

_MOST = 20  # items of one answer
_SNIPPET = 160  # characters


class FoundLine(TypedDict):
    """A record that was found."""

    kind: str
    id: str
    status: str | None
    title: str
    snippet: str


class FoundAnswer(TypedDict):
    """Records, the best match first; `match` is `any` where no record has all of the words."""

    schema: Literal["perpetual.found/1"]
    match: str
    items: list[FoundLine]
    next_cursor: str | None
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., FoundAnswer]:
    """Builds the tool."""
    return _find


def _find(
    lab: Lab,
    text: Annotated[str, 'Words to look for; "a phrase" as it is; -word leaves records with it out.'],
    kind: Annotated[str | None, "hypothesis, experiment, run, note, evidence or event."] = None,
    tag: Annotated[str | None, "Only with this tag."] = None,
    logs: Annotated[bool, "Instead: the output of ended runs; the title is file:line."] = False,
    limit: Annotated[int, "At most 20."] = 10,
    cursor: Annotated[str | None, "Of the page before."] = None,
) -> FoundAnswer:
    from perpetual_find.search import find

    kinds, tags = [kind] if kind else [], [tag] if tag else []
    found = find(lab, text, kinds=kinds, tags=tags, logs=logs, limit=max(1, min(limit, _MOST)), cursor=cursor)
    items: list[FoundLine] = [
        {"kind": item["kind"], "id": item["id"], "status": item["status"], "title": item["title"][:_SNIPPET],
         "snippet": item["snippet"][:_SNIPPET]} for item in found["items"]
    ]  # fmt: skip
    more = found["next_cursor"]
    return {"schema": "perpetual.found/1", "match": found["match"], "items": items, "next_cursor": more,
            "truncated": more is not None}  # fmt: skip


_find.reads_only = True  # type: ignore[attr-defined]
