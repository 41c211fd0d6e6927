"""Fast refusal by a linear-time matcher: whether a pattern may match, and from where.  Imported by `needles`.

A pattern gets a stand-in for RE2 that matches whatever the pattern matches, and more: look-arounds are left out and
long repeats are unbounded, which keeps the automaton small.  Letters beyond ASCII are read as one, in the text and in
the patterns.  Each pattern has an automaton of its own: those of many at once grow with every new text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Protocol, cast

MOST_REPEATS = 4
"""Repeats counted exactly by a stand-in; more are read as any number."""
MAX_MEMORY = 1 << 20
"""Bytes that one automaton may hold; when they are full it starts anew."""
MAX_SEARCH_MEMORY = 4 << 20
"""Bytes of one that says where a match begins; when they are full, a slower way of matching takes its place."""
MAX_SET_MEMORY = 16 << 20
_TOKEN = re.compile(
    r"(?P<look>\(\?<?[=!])|(?P<group>\((?:\?(?:P<\w{1,60}>|:))?)|(?P<close>\))|(?P<set>\[\^?\]?(?:\\.|[^\]\\]){0,400}\])"
    r"|(?P<repeat>\{(?P<least>\d{0,9})(?P<comma>,?)(?P<most>\d{0,9})\})|(?P<end>\$|\\Z)|(?P<escape>\\.)|(?P<plain>.)",
    re.S,
)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_ROW_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_DIGITS_OUT = re.compile(r"\\d|[0-9]")
_BLANKS = bytes.maketrans(b"\x0b\x1c\x1d\x1e\x1f", b"\f" * 5)
_SIGN = "\x01"
_ESCAPED = re.compile(r"\\[xuUN]")


class _Set(Protocol):
    def Add(self, pattern: str) -> int: ...  # noqa: N802 - a name of RE2
    def Compile(self) -> None: ...  # noqa: N802 - a name of RE2
    def Match(self, text: bytes) -> list[int] | None: ...  # noqa: N802 - a name of RE2


class _Found(Protocol):
    def start(self) -> int: ...


class _Compiled(Protocol):
    def search(self, text: bytes, pos: int) -> _Found | None: ...


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
    def compile(self, pattern: bytes, options: _Options) -> _Compiled: ...


def _engine() -> tuple[_Engine, _Options]:
    engine = cast(_Engine, import_module("re2"))
    options = engine.Options()
    options.max_mem, options.log_errors, options.never_capture = MAX_MEMORY, False, True
    return engine, options


class Sieve:
    """Whether folded text may match a pattern, and where the first match may begin."""

    def __init__(self, source: str) -> None:
        """Takes the pattern; its automata are built for the first text."""
        self._source = source
        self._set: _Set | None = None
        self._compiled: _Compiled | None = None
        self._reads = not _ESCAPED.search(source)  # a letter written as an escape is not seen as one

    def may_match(self, low: str) -> bool:
        """Returns False only where the pattern matches nowhere in `low`."""
        if not self._reads:
            return True
        if self._set is None:
            engine, options = _engine()
            made = engine.Set.SearchSet(options)
            try:
                made.Add("")
                made.Add(stand_in(self._source))
            except engine.error:
                self._reads = False  # a reference to a group: no automaton reads it
                return True
            made.Compile()
            self._set = made
        matched = self._set.Match(sifted(low))
        return not matched or len(matched) > 1  # the first pattern matches every text: the automaton gave up

    def first(self, low: str, position: int) -> int | None:
        """Returns where the first match at `position` or behind may begin, -1 where there is none, None if unknown."""
        if not self._reads:
            return None
        if self._compiled is None:
            engine, options = _engine()
            options.max_mem = MAX_SEARCH_MEMORY
            self._compiled = engine.compile(stand_in(self._source).encode(), options)
        found = self._compiled.search(sifted(low), position)
        return -1 if found is None else found.start()


class Sieves:
    """Which of a few signs, written for RE2, a text holds; for signs that few texts hold."""

    def __init__(self, sources: tuple[str, ...]) -> None:
        """Takes the signs; in letter and case they are matched with the text as it is."""
        self._sources = sources
        self._set: _Set | None = None

    def matching(self, text: str) -> list[int] | None:
        """Returns the numbers of the signs that the text may hold, None where it may hold all."""
        if self._set is None:
            engine, options = _engine()
            options.max_mem = MAX_SET_MEMORY
            made = engine.Set.SearchSet(options)
            for source in ("", *self._sources):
                made.Add(source)
            made.Compile()
            self._set = made
        matched = self._set.Match(sifted(text))
        return [at - 1 for at in matched if at] if matched else None


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
        elif text.startswith("[^"):  # what excludes one of the characters that are read as one must exclude none
            text = _BEYOND_ASCII.sub("", text)
            made.append("(?s:.)" if text == "[^]" or _DIGITS_OUT.search(text) else text)
        else:
            made.append(_BEYOND_ASCII.sub(lambda match: _kind(match.group()), text))
    return "".join(made)


def _repeat(least: str, comma: str, most: str) -> str:
    low = min(int(least or 0), MOST_REPEATS)
    high = int(most) if most else (None if comma else int(least))
    if high is not None and high <= MOST_REPEATS:
        return f"{{{low},{high}}}"
    return ("*", "+")[low] if low < 2 else f"{{{low},}}"


def _kind(char: str) -> str:
    """Returns the character that stands for all of its kind beyond ASCII."""
    if char.isspace():
        return "\f"
    if char.isdecimal():
        return "0"
    return "Z" if char.isalnum() else _SIGN


class _Kinds(dict[int, str]):
    def __missing__(self, code: int) -> str:
        if len(self) >= _MOST_KINDS:
            self.clear()
        self[code] = kind = _kind(chr(code))
        return kind


_MOST_KINDS = 8_192
_KINDS = _Kinds()


@lru_cache(maxsize=8)  # every rule asks about the same view
def sifted(low: str) -> bytes:
    """Returns folded text as the engine must read it, a byte for each character.

    Only ASCII is a letter, a digit or a blank to the engine.  A capital letter, of which folded text has none, stands
    for all other letters, a form feed for all other blanks, a zero for all other digits, and a control character for
    all other signs.
    """
    if not low.isascii():
        low = _ROW_BEYOND_ASCII.sub(lambda match: match.group().translate(_KINDS), low)
    return low.encode("ascii").translate(_BLANKS)
