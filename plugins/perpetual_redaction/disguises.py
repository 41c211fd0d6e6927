"""Secrets that a plain look misses: broken over lines, in base64, or with invisible or wide characters.

Each disguise is undone in a view of the text that keeps where each character came from; used by `redact` alone.
"""

from __future__ import annotations

import base64
import binascii
import string
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from perpetual.toolkit.late_pattern import late_pattern

__all__ = ["disguised"]

Span = tuple[int, int]
Finder = Callable[[str], Iterable[Span]]

_BREAK = late_pattern(
    r"(?<=[A-Za-z0-9_+/=-]{6})(?:\"?[ \t]*\\?\r?\n[ \t]*(?:[>|#+*][ \t]?)?\"?|\\n)(?=[A-Za-z0-9_+/=-]{3})"
)
_CHUNK = late_pattern(r"[A-Za-z0-9_+/=.-]+")
_RUN = late_pattern(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{24,4096}={0,2}(?![A-Za-z0-9+/=_-])")
_TOKEN_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_+/=.-")
_LONGEST_SIDE = 400
_SHORTEST_TOKEN = 20
_MOST_RUNS = 200
_MOST_BREAKS = 20_000


def disguised(text: str, find: Finder) -> Iterator[Span]:
    """Yields the spans of the text that hide what `find` finds once the disguise is undone."""
    if not text.isascii():
        yield from _folded(text, find)
    if "\n" in text or "\\n" in text:
        yield from _broken(text, find)
    yield from _encoded(text, find)


def _folded(text: str, find: Finder) -> Iterator[Span]:
    characters: list[str] = []
    origins: list[int] = []
    for position, char in enumerate(text):
        if char.isascii():
            plain = char
        elif unicodedata.category(char) == "Cf":
            continue
        else:
            plain = unicodedata.normalize("NFKC", char)
            plain = plain if len(plain) == 1 else char
        characters.append(plain)
        origins.append(position)
    view = "".join(characters)
    if view != text:
        for start, end in find(view):
            yield origins[start], origins[end - 1] + 1


class _Joint(NamedTuple):
    """Where two lines were joined: its place in the view, and the two ends of what was left out of the text."""

    at: int
    cut: int
    resumed: int


def _broken(text: str, find: Finder) -> Iterator[Span]:
    """Tokens that a wrapped line, a quote mark or a continuation breaks."""
    pieces: list[str] = []
    joints: list[_Joint] = []
    position = length = 0
    for match in _BREAK.finditer(text):
        if len(joints) >= _MOST_BREAKS:
            break
        if not _may_be_one(text, match.start(), match.end()):
            continue
        pieces.append(text[position : match.start()])
        length += match.start() - position
        position = match.end()
        joints.append(_Joint(length, match.start(), position))
    if not joints:
        return
    complete = {end for _, end in find(text)}
    places = [joint.at for joint in joints]
    for start, end in find("".join([*pieces, text[position:]])):
        number = bisect_right(places, start)
        first = start if number == 0 else joints[number - 1].resumed + start - joints[number - 1].at
        last = None
        for joint in joints[number:]:
            if joint.at >= end:
                break
            # A token that ends with its line is complete; what follows belongs to it only if it looks drawn, too.
            chunk = _CHUNK.match(text, joint.resumed)
            if joint.cut in complete and (chunk is None or not _mixed(chunk[0])):
                last = joint.cut
                break
            last = joint.resumed + end - joint.at
        if last is not None:
            yield first, last


def _may_be_one(text: str, cut: int, resumed: int) -> bool:
    """Returns whether the characters on both sides of a line's end may be one token."""
    begin = cut
    while begin > 0 and cut - begin < _LONGEST_SIDE and text[begin - 1] in _TOKEN_CHARACTERS:
        begin -= 1
    chunk = _CHUNK.match(text, resumed)
    right = "" if chunk is None else chunk[0][:_LONGEST_SIDE]
    left = text[begin:cut]
    return len(left) + len(right) >= _SHORTEST_TOKEN and (_mixed(left) or _mixed(right))


def _mixed(chunk: str) -> bool:
    has_digit = any(char.isdigit() for char in chunk)
    has_case = chunk != chunk.lower() and chunk != chunk.upper() and not chunk.istitle()
    return len(chunk) >= 3 and (has_case or (has_digit and not chunk.isdigit()))


def _encoded(text: str, find: Finder) -> Iterator[Span]:
    for number, match in enumerate(_RUN.finditer(text)):
        if number >= _MOST_RUNS:
            return
        run = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            decoded = base64.b64decode(run + "=" * (-len(run) % 4), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            continue
        is_text = all(char.isprintable() or char in "\r\n\t" for char in decoded)
        if is_text and any(True for _ in find(decoded)):
            yield match.span()
