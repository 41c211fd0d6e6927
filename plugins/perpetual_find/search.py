"""A search: words to a query, the index to hits, and hits as their reader may see them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, UsageError, unknown
from perpetual.toolkit.units import start_of
from perpetual_find import index
from perpetual_find.texts import KINDS
from perpetual_find.words import Query, query_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_find.documents import Found, FoundItem

__all__ = ["find"]

_AROUND = 60  # characters of a note on each side of a word
_MOST = 1_000_000  # a cursor beyond that is a slip


def find(
    lab: Lab, text: str, *, kinds: Sequence[str] = (), tags: Sequence[str] = (), logs: bool = False, limit: int = 20,
    cursor: str | None = None,
) -> Found:  # fmt: skip
    """Returns the records that hold the words of `text`, the best match first, as `perpetual find --json` does.

    Args:
        lab: the lab to search, as its actor: an agent finds the notes that it may be shown.
        text: words, `"a phrase"` and `-left_out`; what begins with a word matches too.
        kinds: hypothesis, experiment, run, note, evidence, event, or a plugin's kind; none are all but events.
        tags: only records with every one of these tags.
        logs: instead of records the output of runs that have ended, its first and its last 64 KiB.
        limit: items on a page.
        cursor: the `next_cursor` of the page before.

    Raises:
        UsageError: for a text without a word to look for, an unknown kind, or a cursor that is none.
    """
    if logs:
        if kinds:
            raise UsageError("logs are of runs alone, and a kind is of records", hint="leave --kind out")
        return _find_logs(lab, text, tags, limit, cursor)
    query, wanted, start = query_of(text), _kinds(lab, kinds), start_of(cursor, most=_MOST)
    match = "all"
    with index.opened(lab) as connection:
        hits = index.search(connection, query.match(every=True), wanted, tags, start, limit + 1)
        # An empty page beyond the last is no reason to look for less.
        is_none = not hits and not (start and index.search(connection, query.match(every=True), wanted, tags, 0, 1))
        if is_none and len(query.wanted) > 1:
            match = "any"
            hits = index.search(connection, query.match(every=False), wanted, tags, start, limit + 1)
    items = [item for hit in hits[:limit] if (item := _shown(lab, hit, query)) is not None]
    more = str(start + limit) if len(hits) > limit else None
    return {"query": text, "match": match, "items": items, "next_cursor": more}


def _find_logs(lab: Lab, text: str, tags: Sequence[str], limit: int, cursor: str | None) -> Found:
    from perpetual_find.logs import LogHit, line_of, refresh, search_logs

    query, start = query_of(text), start_of(cursor, most=_MOST)

    def item(hit: LogHit) -> FoundItem:
        line = line_of(lab, hit.run, hit.file, query.plain)
        number = None if line is None else line.number
        place = hit.file if number is None else f"{hit.file}:{number}"
        words = "" if line is None else " ".join(line.text.split())
        return {"kind": "log", "id": hit.run, "status": hit.status, "title": place, "snippet": words,
                "tags": json.loads(hit.tags), "archived": hit.archived, "score": hit.score, "file": hit.file,
                "line": number}  # fmt: skip

    match = "all"
    with index.opened(lab) as connection:
        refresh(lab, connection)
        hits = search_logs(connection, query.match(every=True), tags, start, limit + 1)
        is_none = not hits and not (start and search_logs(connection, query.match(every=True), tags, 0, 1))
        if is_none and len(query.wanted) > 1:
            match = "any"
            hits = search_logs(connection, query.match(every=False), tags, start, limit + 1)
    more = str(start + limit) if len(hits) > limit else None
    return {"query": text, "match": match, "items": [*map(item, hits[:limit])], "next_cursor": more}


def _kinds(lab: Lab, asked: Sequence[str]) -> list[str]:
    """Returns the kinds to search; raises UsageError for an unknown one. Short names are letters of ids."""
    known = [*KINDS, *(item["name"] for item in lab.records.kinds())]
    short = {"h": "hypothesis", "e": "experiment", "r": "run", "v": "evidence", "hypotheses": "hypothesis"}
    found = []
    for name in asked:
        whole = short.get(name, name if name in known else name.removesuffix("s"))
        if whole not in known:
            raise UsageError(unknown("kind of record", name, known), hint=", ".join(known))
        found.append(whole)
    return [*dict.fromkeys(found)] or [name for name in known if name != "event"]


def _shown(lab: Lab, hit: index.Hit, query: Query) -> FoundItem | None:
    """Returns a hit as its reader may see it; None for a note that an agent is not shown, or not with these words."""
    title, snippet = hit.title, hit.snippet
    if hit.kind == "note":
        try:
            note = lab.memory.get(hit.id)
            title = note.title
            if _is_for_agent(lab):
                exposed = lab.memory.read(hit.id)  # raises for a note that is withheld now
                around = _around(f"{note.title}\n{exposed}", query.plain)
                if around is None:
                    return None
                snippet = around
        except PerpetualError:
            return None
    return {
        "kind": hit.kind,
        "id": hit.id,
        "status": hit.status,
        "title": " ".join(title.split()),
        "snippet": " ".join(snippet.split()),
        "tags": hit.tags,
        "archived": hit.archived,
        "score": hit.score,
    }


def _is_for_agent(lab: Lab) -> bool:
    import os

    from perpetual.toolkit.agents import mark

    marks = lab.config["agent_marks"]
    return lab.actor.startswith(("agent:", "mcp:")) or mark(os.environ, marks) is not None


def _around(text: str, words: Sequence[str]) -> str | None:
    """Returns the text around the first of the words; None where it has none of them."""
    low = text.casefold()
    places = [place for word in words if (place := low.find(word)) >= 0]
    if not places:
        return None
    start = max(0, min(places) - _AROUND)
    return ("…" if start else "") + text[start : min(places) + _AROUND]
