"""Keeping answers small enough for an agent. Used by the tools and resources; counts tokens as the brief does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from perpetual.api import PerpetualError
from perpetual.toolkit.fence import FENCE_BYTES, block, fence, neutralise
from perpetual.toolkit.readers import agent_hint
from perpetual.toolkit.untrusted import OPEN, seal

__all__ = [
    "MOST_TOKENS",
    "SMALL_TOKENS",
    "Answer",
    "end",
    "fit",
    "fitted",
    "listed",
    "piece",
    "plain",
    "refusal",
    "size",
    "error_text",
    "weight",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
L = TypeVar("L", bound=Mapping[str, object])

# Of a tool's text and structured content together. A twentieth is left for the envelope of the protocol.
SMALL_TOKENS = 1900
MOST_TOKENS = 7600
_LIST_LIMIT = 20  # items of a page unless the caller asks for more
_FENCE_TOKENS = -(-FENCE_BYTES // 4)
_CUTS = (4000, 1000, 240, 80)  # characters of one text, tried in this order


@dataclass(frozen=True)
class Answer:
    """What a tool answers: the document for programs and the same in words, both for agents.

    Attributes:
        text: words that may quote what others wrote; `say` fences them.
        own: our own words, which come after them.
        source: whose output the text is, for the fence.
        is_fenced: the text has its fences already.
    """

    document: dict[str, object]
    text: str
    own: str = ""
    source: str = ""
    is_fenced: bool = False

    def sealed(self) -> tuple[dict[str, object], str]:
        """Returns document and text as an agent is shown them: foreign values are marked in both."""
        document = seal(self.document)
        is_plain = self.is_fenced or not document["untrusted"]
        shown = self.text if is_plain else fence(self.text, self.source)
        return document, "\n".join(filter(None, (shown, self.own)))


class _Page(Protocol[T_co]):
    @property
    def items(self) -> tuple[T_co, ...]: ...

    @property
    def next_cursor(self) -> str | None: ...


def plain(text: object, most: int = 60) -> str:
    """Returns a client's or a plugin's own words on one line, cut to `most` characters."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:most].strip()


def size(document: object) -> int:
    """Returns ceil(UTF-8 bytes / 4) of a text, or of a document as the protocol sends it."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return -(-len(text.encode("utf-8", "replace")) // 4)


def weight(document: Mapping[str, object]) -> int:
    """Returns the size of a document as agents are shown it, its foreign values marked."""
    return size(seal(document))


def fit(document: Mapping[str, object], most_tokens: int) -> dict[str, object]:
    """Returns the document in at most `most_tokens`, as agents are shown it; `truncated` says whether that cut it.

    Long texts are cut first; then what holds most loses its last items, which are the least urgent ones.
    """
    if weight(document) <= most_tokens:
        return {**document, "truncated": bool(document.get("truncated"))}
    cut = document
    for most in _CUTS:
        cut = _cut(document, most)
        if weight(cut) <= most_tokens:
            break
    is_cut = cut != document
    if weight(cut) > most_tokens:
        cut = json.loads(json.dumps(cut))  # lists of our own, to take from
    while (now := weight(cut)) > most_tokens and (parts := _parts(cut)):
        largest = max(parts, key=size)
        excess = min(now - most_tokens, size(largest))  # most of it at once: each round measures everything
        for _ in range(max(1, len(largest) * excess * 7 // (8 * size(largest)))):
            largest.pop() if isinstance(largest, list) else largest.popitem()
        is_cut = True
    return {**cut, "truncated": bool(cut.get("truncated")) or is_cut}


def fitted(document: dict[str, object], text: str, most_tokens: int = SMALL_TOKENS, *, own: str = "") -> Answer:
    """Fits document and text into `most_tokens` together; the text gets the rest, two fifths at least."""
    text = block(text)
    most_tokens -= _FENCE_TOKENS + size(own)
    fitting = fit(document, most_tokens - min(size(text), 2 * most_tokens // 5))
    short, rest = piece(text, 0, most_tokens - weight(fitting))
    if rest is not None:
        fitting, short = {**fitting, "truncated": True}, f"{short.rstrip()}\n(cut)"
    return Answer(fitting, short, own)


def listed(
    schema: str,
    fetch: Callable[[int], _Page[T]],
    line: Callable[[T], L],
    say: Callable[[L], str],
    *,
    limit: int | None,
    empty: str,
    extra: dict[str, object] | None = None,
) -> Answer:
    """Returns a page of a list: as many items as were asked for, or as fit; the cursor always leads to the next one.

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
        short = [cast("L", _item(item, most // 4)) for item in items]
        document: dict[str, object] = {
            "schema": schema,
            "items": [*short],
            **(extra or {}),
            "next_cursor": page.next_cursor,
            "truncated": short != items,
        }
        text = block("\n".join(map(say, short)) or empty)
        if page.next_cursor is not None:
            text += f"\n(more: cursor {page.next_cursor})"
        total = weight(document) + size(text) + _FENCE_TOKENS
        if total <= most or count == 1 or not items:
            return Answer(document, text) if total <= most else fitted(document, text, most)
        count = max(1, min(count - 1, len(items) * most // total))


def refusal(error: Mapping[str, object], more: Mapping[str, object], *, is_own: bool = False) -> dict[str, object]:
    """Returns the document of an error, in a small answer: `more`, what comes with it, gives way to its words.

    An agent reads it, so its hint names nothing that is for a person.

    Args:
        is_own: its words quote the caller alone.
    """
    error = {**error, "hint": agent_hint(cast("str | None", error["hint"]))}
    said = _cut(error, _CUTS[1])
    document = {"schema": "perpetual.error/1", **more, "error": said}
    most = SMALL_TOKENS * 9 // 10  # as a text inside of JSON it grows by its quotes
    if said != error or weight(document) > most:
        document = {"schema": "perpetual.error/1", **fit(more, most - weight(said)), "error": said, "truncated": True}
    return document if is_own else seal(document)


def error_text(problem: PerpetualError) -> str:
    """Returns an error's words and hint inside a fence: either may quote the record."""
    hint = f"\nhint: {plain(agent_hint(problem.hint), 300)}" if problem.hint else ""
    return fence(f"{plain(problem.message, 600)}{hint}", "an error")


def piece(text: str, start: int, most_tokens: int) -> tuple[str, int | None]:
    """Returns the part of a text from character `start` on that `most_tokens` hold, and where the next one begins.

    It ends at a line's end where there is one. A part counts as a sealed document holds it: one line, as JSON.
    """
    reach = _reach(text, start, most_tokens)
    if reach == len(text):
        return text[start:], None
    line = text.rfind("\n", start, reach) + 1
    cut = line if line > start else max(reach, start + 1)
    return text[start:cut], cut


def end(text: str, most_tokens: int) -> tuple[str, bool]:
    """Returns the end of a text that `most_tokens` hold, and whether that is not all of it.

    It begins at a line's beginning, unless that would lose more than half: a progress bar is one long line.
    """
    kept = text[len(text) - _reach(text[::-1], 0, most_tokens) :]
    if kept == text:
        return text, False
    whole = kept[kept.find("\n") + 1 :]
    return (whole if 2 * len(whole) >= len(kept) else kept), True


def _reach(text: str, start: int, most_tokens: int) -> int:
    """Returns where the longest part from `start` on ends that `most_tokens` hold."""
    low, high = start, len(text)
    if _held(text[start:]) <= most_tokens:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if _held(text[start:middle]) <= most_tokens:
            low = middle
        else:
            high = middle - 1
    return low


def _held(text: str) -> int:
    return size(json.dumps(neutralise(text), ensure_ascii=False))


def _item(item: Mapping[str, object], most_tokens: int) -> dict[str, object]:
    """Returns an item of a list, cut so that a very long one leaves room for the others."""
    short: dict[str, object] = _cut(item, _CUTS[2])
    if size(short) <= most_tokens:
        return short
    return {key: value for key, value in fit(short, most_tokens).items() if key in item}


def _cut(value: object, most: int) -> Any:
    if isinstance(value, dict):
        return {plain(key, most): _cut(item, most) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(item, most) for item in value]
    if isinstance(value, str) and len(value) > most:
        return value[: most - 3] + "..."
    return value


# Objects that may hold very much; every other object has the keys that its schema names, and those are not many.
_OPEN = (*OPEN, "by_experiment", "by_hypothesis", "by_day")
_MOST_NAMED = 40


def _parts(value: object, name: str = "") -> list[Any]:
    """Returns every list, and every object of a user's own keys, that still holds something."""
    if isinstance(value, list):
        inner = [part for item in value for part in _parts(item)]
        return [value, *inner] if value else inner
    if isinstance(value, dict):
        inner = [part for key, item in value.items() for part in _parts(item, key)]
        return [value, *inner] if value and (name in _OPEN or len(value) > _MOST_NAMED) else inner
    return []
