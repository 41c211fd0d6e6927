"""Fast refusal: words one of which every match of a pattern must contain.  Imported by `hit`; standard library only.

Most texts match no rule, and looking for a plain substring is far cheaper than trying a pattern at every position.
The needles are read off the pattern's own source, so that a rule cannot forget to list one.  Only the dialect
in which the rules are written is understood; where in doubt there are no needles, and the pattern is simply tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from perpetual_immune.rules.sieve import Sieve

MIN_NEEDLE_CHARS = 2
GRAM_CHARS = (4,)
"""Lengths of the pieces of a text by which `RuleIndex` finds rules; a needle is filed under one of its pieces."""
_QUANTIFIER = re.compile(r"[*+?]\??|\{\d*,?\d*\}\??")
_LITERAL_ESCAPE = re.compile(r"[^A-Za-z0-9]")
_GROUP_START = re.compile(r"\((?:\?(?:[:=!]|<[=!]|[a-z-]+:))?")

Needles = frozenset[str] | None


@dataclass(frozen=True)
class Rule:
    """A pattern and its needles; used like the pattern itself, on folded text."""

    source: str

    @cached_property
    def needles(self) -> tuple[tuple[str, ...], ...]:
        """Returns groups of needles: every match holds one of each; small groups come first, as they refuse soonest."""
        return _needles(self.source)

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """Returns the compiled pattern: all of them cost a start 150 ms, and few texts hold the needles of many."""
        return re.compile(self.source)

    def possible(self, low: str) -> bool:
        """Returns whether `low` holds a needle of every group."""
        for group in self.needles:  # plain loops: this runs hundreds of times per text
            for needle in group:
                if needle in low:
                    break
            else:
                return False
        return True

    def finditer(self, low: str) -> Iterator[re.Match[str]]:
        """Finds matches as `re.Pattern.finditer`."""
        return self.expression.finditer(low) if self.possible(low) else iter(())

    def search(self, low: str) -> re.Match[str] | None:
        """Searches as `re.Pattern.search`."""
        return self.expression.search(low) if self.possible(low) else None


class RuleIndex:
    """Many rules at once: one pass over a text leaves the few whose needles it may hold."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Files each rule under a piece of every needle of its most telling group."""
        self._rules = rules
        self._sieve = Sieve([rule.source for rule in rules])
        self._always: list[int] = []
        self._filed: dict[int, dict[str, list[int]]] = {size: {} for size in GRAM_CHARS}
        self._built = False

    def _build(self) -> None:
        for number, rule in enumerate(self._rules):
            size = next((size for size in GRAM_CHARS if any(min(map(len, group)) >= size for group in rule.needles)), 0)
            if not size:
                self._always.append(number)
                continue
            group = min((group for group in rule.needles if min(map(len, group)) >= size), key=len)
            for needle in group:
                self._filed[size].setdefault(needle[-size:], []).append(number)
        self._built = True

    def candidates(self, low: str) -> list[int]:
        """Returns the numbers of the rules that folded text may match, in order."""
        sifted = self._sieve.candidates(low)
        if sifted is not None:
            return sifted
        if not self._built:
            self._build()
        found = set(self._always)
        for size, filed in self._filed.items():
            for piece in filed.keys() & _pieces(low, size):
                found.update(filed[piece])
        return sorted(found)


@lru_cache(maxsize=4)  # every category asks about the same view
def _pieces(low: str, size: int) -> frozenset[str]:
    return frozenset([low[at : at + size] for at in range(len(low) - size + 1)])


def _needles(source: str) -> tuple[tuple[str, ...], ...]:
    """Returns the needles of a pattern; more specific ones are left out where a shorter one covers them."""
    groups: list[frozenset[str]] = []
    needles, end = _sequence(source, 0, groups)
    if end < len(source):  # alternatives at the top: what they have in common is one group
        needles, _ = _alternation(source, 0)
        groups = [] if needles is None else [needles]
    return tuple(sorted((_shortest(group) for group in groups), key=_cost))


def _shortest(group: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(needle for needle in group if not any(other != needle and other in needle for other in group)))


def _cost(group: tuple[str, ...]) -> tuple[int, int]:
    return len(group), -min(map(len, group))


def _better(first: Needles, second: Needles) -> Needles:
    if first is None or second is None:
        return second if first is None else first
    return max(first, second, key=lambda needles: (min(4, min(map(len, needles))), -len(needles)))


def _usable(needles: Needles) -> Needles:
    return needles if needles and min(map(len, needles)) >= MIN_NEEDLE_CHARS else None


def _alternation(source: str, position: int) -> tuple[Needles, int]:
    """Returns the needles of the alternation at `position`, and its end (its closing bracket or the text's end)."""
    branches: list[Needles] = []
    while True:
        needles, position = _sequence(source, position)
        branches.append(needles)
        if position >= len(source) or source[position] == ")":
            break
        position += 1
    if any(branch is None for branch in branches):
        return None, position
    return frozenset().union(*(branch for branch in branches if branch is not None)), position


def _sequence(source: str, position: int, groups: list[frozenset[str]] | None = None) -> tuple[Needles, int]:
    """Returns the best needles of the sequence at `position`, and its end; adds all usable ones to `groups`."""
    best: Needles = None
    run = ""

    def offer(needles: Needles) -> None:
        nonlocal best
        usable = _usable(needles)
        best = _better(best, usable)
        if groups is not None and usable is not None:
            groups.append(usable)

    while position < len(source) and source[position] not in "|)":
        char = source[position]
        atom: Needles = None
        literal = ""
        if char == "[":
            position = _class_end(source, position)
        elif char == "(":
            atom, position = _group(source, position)
        elif char == "\\":
            literal = source[position + 1] if _LITERAL_ESCAPE.match(source[position + 1]) else ""
            position += 2
        else:
            literal = "" if char in ".^$" else char
            position += 1
        quantifier = _QUANTIFIER.match(source, position)
        optional = False
        if quantifier is not None:
            position = quantifier.end()
            optional = quantifier.group()[0] in "*?" or quantifier.group().startswith(("{0", "{,"))
        if literal and quantifier is None:
            run += literal
            continue
        offer(frozenset({run + literal} if literal and not optional else {run}))
        run = ""
        if not optional:
            offer(atom)
    offer(frozenset({run}))
    return best, position


def _class_end(source: str, position: int) -> int:
    position += 1
    if source[position] == "^":
        position += 1
    first = True
    while source[position] != "]" or first:
        position += 2 if source[position] == "\\" else 1
        first = False
    return position + 1


def _group(source: str, position: int) -> tuple[Needles, int]:
    """Returns the needles of the group at `position`; a look-around requires nothing."""
    header = _GROUP_START.match(source, position)
    assert header is not None
    needles, end = _alternation(source, header.end())
    looks = header.group().endswith(("=", "!"))
    return (None if looks else needles), end + 1
