"""Fast refusal by a linear-time matcher: which patterns a text cannot match.  Imported by `needles` and the tables.

A pattern gets a stand-in for RE2 that matches whatever the pattern matches, and more: look-arounds are left out and
long repeats are unbounded, which keeps the automaton small.  Letters beyond ASCII are read as one, in the text and in
the patterns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Protocol, cast

MOST_REPEATS = 4
"""Repeats counted exactly by a stand-in; more are read as any number."""
PER_SET = 20
"""Patterns of one automaton: the states of two automata add up, those of a joint one multiply."""
MAX_MEMORY = 16 << 20
"""Bytes that one automaton may hold; when they are full it starts anew."""
_TOKEN = re.compile(
    r"(?P<look>\(\?<?[=!])|(?P<group>\((?:\?(?:P<\w{1,60}>|:))?)|(?P<close>\))|(?P<set>\[\^?\]?(?:\\.|[^\]\\]){0,400}\])"
    r"|(?P<repeat>\{(?P<least>\d{0,9})(?P<comma>,?)(?P<most>\d{0,9})\})|(?P<end>\$|\\Z)|(?P<escape>\\.)|(?P<plain>.)",
    re.S,
)
_LETTER = re.compile(r"[^\W\d\x00-\x7f]")
_BLANK = re.compile(r"[^\S\x00-\x7f]")
_DIGIT = re.compile(r"[^\D\x00-\x7f]")
_BLANKS = bytes.maketrans(b"\x0b\x1c\x1d\x1e\x1f", b"\f" * 5)
_ESCAPED = re.compile(r"\\[xuUN]")


class _Set(Protocol):
    def Add(self, pattern: str) -> int: ...  # noqa: N802 - a name of RE2
    def Compile(self) -> None: ...  # noqa: N802 - a name of RE2
    def Match(self, text: bytes) -> list[int] | None: ...  # noqa: N802 - a name of RE2


class _Options(Protocol):
    max_mem: int
    log_errors: bool
    never_capture: bool


class _Sets(Protocol):
    def SearchSet(self, options: _Options) -> _Set: ...  # noqa: N802 - a name of RE2


class _Engine(Protocol):
    Set: _Sets
    error: type[Exception]

    def Options(self) -> _Options: ...  # noqa: N802 - a name of RE2


class Sieve:
    """Which of many patterns a folded text may match, in one pass for each `PER_SET` of them."""

    def __init__(self, sources: Sequence[str]) -> None:
        """Takes the patterns; the automata are built for the first text."""
        self._sources = sources
        self._always: list[int] = []
        self._sets: list[tuple[_Set, list[int]]] | None = None

    def candidates(self, low: str) -> list[int] | None:
        """Returns the numbers of the patterns that `low` may match, in order; None where all may."""
        data = sifted(low)
        if data is None:
            return None
        if self._sets is None:
            self._sets = self._built()
        found = self._always.copy()
        for automaton, numbers in self._sets:
            matched = automaton.Match(data)
            if not matched:  # the first pattern of each matches every text: the automaton gave up
                return None
            if len(matched) > 1:
                found += [numbers[at - 1] for at in matched if at]
        found.sort()
        return found

    def _built(self) -> list[tuple[_Set, list[int]]]:
        engine = cast(_Engine, import_module("re2"))
        options = engine.Options()
        options.max_mem, options.log_errors, options.never_capture = MAX_MEMORY, False, True
        made: list[tuple[_Set, list[int]]] = []
        self._always.clear()
        for first in range(0, len(self._sources), PER_SET):
            automaton, numbers = engine.Set.SearchSet(options), list[int]()
            automaton.Add("")
            for number in range(first, min(first + PER_SET, len(self._sources))):
                source = self._sources[number]
                if _ESCAPED.search(source):
                    self._always.append(number)  # a letter that is not seen as one
                    continue
                try:
                    automaton.Add(stand_in(source))
                except engine.error:
                    self._always.append(number)  # a reference to a group: no automaton reads it
                else:
                    numbers.append(number)
            automaton.Compile()
            made.append((automaton, numbers))
        return made


def stand_in(source: str) -> str:
    """Returns a pattern for RE2 that matches every text that `source` matches, among those that `sifted` returns."""
    made: list[str] = []
    skipped = 0  # brackets open within a look-around
    for token in _TOKEN.finditer(source):
        kind, text = token.lastgroup, token.group()
        if token["look"] is not None or (skipped and token["group"] is not None):
            skipped += 1
        elif skipped:
            skipped -= token["close"] is not None
        elif token["group"] is not None:
            made.append("(?:")
        elif token["repeat"] is not None and (token["least"] or token["most"]):
            made.append(_repeat(token["least"], token["comma"], token["most"]))
        elif token["end"] is not None:
            made.append("(?:)")
        elif kind == "plain" and text == "{":
            made.append(r"\{")
        elif text.startswith("[^") and _LETTER.search(text):
            made.append("(?s:.)")  # it excludes one of the letters that are read as one
        else:
            made.append(_LETTER.sub("Z", text))
    return "".join(made)


def _repeat(least: str, comma: str, most: str) -> str:
    low = min(int(least or 0), MOST_REPEATS)
    high = int(most) if most else (None if comma else int(least))
    if high is not None and high <= MOST_REPEATS:
        return f"{{{low},{high}}}"
    return ("*", "+")[low] if low < 2 else f"{{{low},}}"


@lru_cache(maxsize=8)  # every table asks about the same view
def sifted(low: str) -> bytes | None:
    """Returns folded text as the engine must read it, None where that cannot be said.

    Only ASCII is a letter or a blank to the engine.  A capital letter, of which folded text has none, stands for all
    other letters, and a form feed for all other blanks.
    """
    if not low.isascii():
        if _DIGIT.search(low):
            return None
        low = _BLANK.sub("\f", _LETTER.sub("Z", low))
    return low.encode("utf-8", "replace").translate(_BLANKS)
