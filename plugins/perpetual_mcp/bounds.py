"""Keeping answers small enough for an agent. Used by the tools and resources; counts tokens as the brief does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["MOST_TOKENS", "SMALL_TOKENS", "Answer", "fit", "fitted", "listed", "piece", "plain", "size"]

# Of a tool's text and structured content together. A twentieth is left for the envelope of the protocol.
SMALL_TOKENS = 1900
MOST_TOKENS = 7600
_LIST_LIMIT = 20  # items of a page unless the caller asks for more
_CUTS = (4000, 1000, 240, 80)  # characters of one text, tried in this order


@dataclass(frozen=True)
class Answer:
    """What a tool answers: the document for programs and the same in words, both for agents."""

    document: dict[str, Any]
    text: str


class _Page(Protocol):
    @property
    def items(self) -> tuple[Any, ...]: ...

    @property
    def next_cursor(self) -> str | None: ...


def plain(text: object, most: int = 60) -> str:
    """A client's or a plugin's own words on one line, cut to `most` characters."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:most].strip()


def size(document: object) -> int:
    """ceil(UTF-8 bytes / 4) of a text, or of a document as the protocol sends it."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return -(-len(text.encode("utf-8", "replace")) // 4)


def fit(document: dict[str, Any], most_tokens: int) -> dict[str, Any]:
    """The document in at most `most_tokens`; its `truncated` tells whether something was left out.

    Long texts are cut first; then what holds most loses its last items, which are the least urgent ones.
    """
    cut = document
    for most in _CUTS:
        if size(cut) <= most_tokens:
            break
        cut = _cut(document, most)
    is_cut = cut != document
    if size(cut) > most_tokens:
        cut = json.loads(json.dumps(cut))  # lists of our own, to take from
    while size(cut) > most_tokens and (parts := _parts(cut)):
        largest = max(parts, key=size)
        for _ in range(max(1, len(largest) // 8)):
            largest.pop() if isinstance(largest, list) else largest.popitem()
        is_cut = True
    return {**cut, "truncated": bool(cut.get("truncated")) or is_cut}


def fitted(document: dict[str, Any], text: str, most_tokens: int = SMALL_TOKENS) -> Answer:
    """Document and text in `most_tokens` together; the text gets what the document leaves, two fifths at least."""
    told = fit(document, most_tokens - min(size(text), 2 * most_tokens // 5))
    short, rest = piece(text, 0, most_tokens - size(told))
    if rest is not None:
        told, short = {**told, "truncated": True}, f"{short.rstrip()}\n(cut)"
    return Answer(told, short)


def listed(
    schema: str,
    fetch: Callable[[int], _Page],
    line: Callable[[Any], dict[str, Any]],
    say: Callable[[dict[str, Any]], str],
    *,
    limit: int | None,
    empty: str,
    extra: dict[str, Any] | None = None,
) -> Answer:
    """A page of a list: as many items as were asked for, or as fit; the cursor leads to the next one in any case.

    Args:
        fetch: the page with so many items at most.
        line: an item's short form; `say`: that in words, on one line.
        limit: what the caller asked for; None is a short page.
    """
    count = _LIST_LIMIT if limit is None else max(1, min(100, limit))
    most = SMALL_TOKENS if count <= _LIST_LIMIT else MOST_TOKENS
    while True:
        page = fetch(count)
        items = [line(item) for item in page.items]
        short = [_cut(item, _CUTS[2]) for item in items]
        document: dict[str, Any] = {
            "schema": schema,
            "items": short,
            **(extra or {}),
            "next_cursor": page.next_cursor,
            "truncated": short != items,
        }
        text = "\n".join(map(say, short)) or empty
        if page.next_cursor is not None:
            text += f"\n(more: cursor {page.next_cursor})"
        total = size(document) + size(text)
        if total <= most or count == 1 or not items:
            return Answer(document, text) if total <= most else fitted(document, text, most)
        count = max(1, min(count - 1, len(items) * most // total))


def piece(text: str, start: int, most_tokens: int) -> tuple[str, int | None]:
    """The part of a text from character `start` on that `most_tokens` hold, and where the next one begins.

    It ends at a line's end where there is one. A part counts as JSON holds it, its line ends as two bytes.
    """
    low, high = start, len(text)
    if size(json.dumps(text[start:], ensure_ascii=False)) > most_tokens:
        while low < high:  # the longest part that fits
            middle = (low + high + 1) // 2
            if size(json.dumps(text[start:middle], ensure_ascii=False)) <= most_tokens:
                low = middle
            else:
                high = middle - 1
        end = text.rfind("\n", start, low) + 1
        cut = end if end > start else max(low, start + 1)
        return text[start:cut], cut
    return text[start:], None


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, dict):
        return {plain(key, most): _cut(item, most) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(item, most) for item in value]
    if isinstance(value, str) and len(value) > most:
        return value[: most - 3] + "..."
    return value


# Objects whose keys are a user's own; every other object has the keys that its schema names.
_OPEN = ("config", "env", "params", "metrics", "by_experiment", "by_hypothesis", "by_day")


def _parts(value: Any, name: str = "") -> list[Any]:
    """Every list, and every object of a user's own keys, that still holds something."""
    if isinstance(value, list):
        inner = [part for item in value for part in _parts(item)]
        return [value, *inner] if value else inner
    if isinstance(value, dict):
        inner = [part for key, item in value.items() for part in _parts(item, key)]
        return [value, *inner] if value and name in _OPEN else inner
    return []
