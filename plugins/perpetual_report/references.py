"""References in Markdown: a comment behind a number names it in the record, as `0.912<!-- perpetual: e3.mean -->`.

What is in code, or inside another comment, is no reference. Reading takes time linear in the length of the text.
Imported by `cited`; knows no record.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Mistake", "Pin", "Reference", "References", "Written", "references_of"]

_MARK = re.compile(r"<!--[ \t]*perpetual:(?!start\b|begin\b|end\b)")  # those are of the blocks in agents' files
_LINE_ENDS = re.compile(r"\r\n?|\n")
_TICKS = re.compile(r"`+")
_PIN = re.compile(r"at (.{1,100})")
_KEY = re.compile(r"[a-z][a-z0-9_]*\.\S+\Z")
_REACH = 400  # characters before a comment in which its numbers are looked for
_MOST_KEYS = 20
_AROUND = " \t\u00a0\u202f*_`$)]}|~"  # between a number and its comment: emphasis, code, formula, bracket
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.)\]%])[-+\u2212])?(?<![\w.])(?<!\d,)"
    r"(?P<whole>[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.(?P<decimals>\d+))?(?:[eE](?P<power>[-+\u2212]?\d{1,3}))?"
    r"(?![\w.,]*\d)(?:[ \u00a0\u202f]?(?P<unit>\\?%|(?:GPU-hours|min|s|h)(?!\w)))?",
    re.ASCII,
)
_WORD = re.compile(r"[^\W\d_]+\Z")


class Written(NamedTuple):
    """A number as a person wrote it; `start` and `end` are the place of its sign and digits in the text."""

    start: int
    end: int
    text: str  # with its unit
    sign: str
    digits: str  # without sign and separators, with its power
    decimals: int
    power: int
    unit: str  # "", "%", "s", "min" or "h"
    has_separators: bool


class Pin(NamedTuple):
    """From here on the record is looked at as it was at a moment."""

    line: int
    at: str


class Reference(NamedTuple):
    """A number or a word with the key that it is held to; `words` is what the comment follows."""

    line: int
    key: str
    number: Written | None  # None: no number is there
    words: str
    pin: Pin | None


class Mistake(NamedTuple):
    """A comment that begins as a reference and is none."""

    line: int
    text: str
    why: str


@dataclass
class References:
    """What a text refers to, in its order; `in_code` counts references in code or in other comments."""

    found: list[Reference] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    in_code: int = 0


def references_of(text: str) -> References:
    """Returns every reference of a Markdown text."""
    made = References()
    if _MARK.search(text) is None:
        return made
    starts = [0, *(end.end() for end in _LINE_ENDS.finditer(text))]
    pin: Pin | None = None
    seen = 0
    for first, last, is_html in _blocks(text):
        begin, stop = starts[first], starts[last] if last < len(starts) else len(text)
        after = begin
        for start, end in _comments(text, begin, stop, is_html=is_html):
            if _MARK.match(text, start) is None:
                after = end
                continue
            seen += 1
            line = bisect_right(starts, start)
            if text[end - 3 : end] != "-->" or end < start + 7:
                made.mistakes.append(Mistake(line, " ".join(text[start : start + 60].split()), "is not closed"))
                continue
            said = text[start + 4 : end - 3].partition(":")[2].strip()
            at = _PIN.fullmatch(said)
            if at is None:
                _read(text, max(after, starts[line - 1]), start, said, line, pin, made)
            else:
                pin = Pin(line, at[1])
            after = end
    made.in_code = sum(1 for _ in _MARK.finditer(text)) - seen
    return made


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yields the blocks that hold words, as first line, line after the last, and whether it is HTML."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])  # which take linear time
    for token in parser.parse(text):
        if token.map is not None and token.type in ("inline", "html_block"):
            yield token.map[0], token.map[1], token.type == "html_block"


def _comments(text: str, begin: int, stop: int, *, is_html: bool) -> Iterator[tuple[int, int]]:
    """Yields start and end of each comment of a block; the end of one that is not closed is the block's."""
    spans = [] if is_html else _spans(text, begin, stop)
    place = text.find("<!--", begin, stop)
    while place >= 0:
        number = bisect_right(spans, (place, stop)) - 1
        if number >= 0 and place < spans[number][1]:
            end = spans[number][1]
        else:
            close = text.find("-->", place + 4, stop)
            end = stop if close < 0 else close + 3
            yield place, end
        place = text.find("<!--", end, stop)


def _spans(text: str, begin: int, stop: int) -> Sequence[tuple[int, int]]:
    """Returns the inline code of a block: from a run of back-ticks to the next run of as many."""
    runs = [found.span() for found in _TICKS.finditer(text, begin, stop)]
    following: dict[int, int] = {}  # by length: the nearest run to the right
    closing = [-1] * len(runs)
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing[number] = following.get(length, -1)
        following[length] = number
    found, number = [], 0
    while number < len(runs):
        if closing[number] >= 0:
            found.append((runs[number][0], runs[closing[number]][1]))
            number = closing[number]
        number += 1
    return found


def _read(text: str, first: int, start: int, said: str, line: int, pin: Pin | None, made: References) -> None:
    """Reads one comment, with the numbers between `first` and its start: the last one is of its last key."""
    keys = said.split()
    if not keys or len(keys) > _MOST_KEYS or not all(_KEY.match(key) for key in keys):
        made.mistakes.append(Mistake(line, said[:60], "is no reference"))
        return
    if start - first > _REACH:  # from a blank on: half a number would be another one
        cut = re.search(r"\s", text[start - _REACH : start])
        first = start - _REACH + cut.end() if cut else start
    end = first + len(text[first:start].rstrip(_AROUND))
    numbers = [*_NUMBER.finditer(text, first, end)]
    if not numbers or numbers[-1].end() != end:
        numbers = []
    word = _WORD.search(text, max(first, end - 40), end)
    near = word[0] if word else text[max(first, end - 20) : end].strip()
    for place, key in enumerate(keys, len(numbers) - len(keys)):
        number = _written(numbers[place]) if place >= 0 else None
        made.found.append(Reference(line, key, number, near if place == len(numbers) - 1 else "", pin))


def _written(found: re.Match[str]) -> Written:
    power = (found["power"] or "0").replace("\u2212", "-")
    unit = {"\\%": "%", "GPU-hours": "h"}.get(found["unit"] or "", found["unit"] or "")
    end = max(found.end(name) for name in ("whole", "decimals", "power"))
    return Written(
        found.start(), end, found[0], (found["sign"] or "").replace("\u2212", "-"),
        found["whole"].replace(",", "") + (f".{found['decimals']}" if found["decimals"] else ""),
        len(found["decimals"] or ""), int(power), unit, "," in found["whole"],
    )  # fmt: skip
