"""Which rules of a table a text may match, and where, told by its words.  Imported by the rule modules.

Only a rule of which the text may hold a needle of every group is tried.  Where its matches begin with one of a few
words, it is tried at those words alone; else an automaton looks for it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from threading import RLock
from typing import Any, Generic, TypeAlias, TypeVar

from perpetual_immune.rules.needles import Heads, Rule
from perpetual_redaction.vocabulary import EDGE, VOCABULARY, Remembered, words_of

Row = TypeVar("Row")
AnyIndex: TypeAlias = "Index[Any]"  # a table of rows of any sort
MOST_GROUPS = 5
"""Groups of needles asked for per rule: the rarest."""
FEW_PLACES = 4
CHARS_PER_PLACE = 160
"""Places at which a rule is tried without asking its automaton first: so many, and one more per so many letters."""
_HEAD_CHARS = 2
_ASCII_WORDS = re.compile(r"([a-z]+)")
_WORDS = re.compile(r"([^\W\d_]+)")


@lru_cache(maxsize=4)
def _split(low: str) -> tuple[list[str], list[int]]:
    """Returns the text in pieces, of which every other one is a word, and where each ends."""
    pieces = (_ASCII_WORDS if low.isascii() else _WORDS).split(low)
    return pieces, list(accumulate(map(len, pieces)))


def places_of(low: str, words: Container[str]) -> Iterator[tuple[int, str]]:
    """Yields where in folded text each of the words stands, in order."""
    pieces, ends = _split(low)
    for at in range(1, len(pieces), 2):
        if pieces[at] in words:
            yield ends[at - 1], pieces[at]


Places = list[tuple[int, list[int]]]
"""Numbers of rows, each with the places in a text at which its rule may match."""


Start = tuple[int, frozenset[str] | None]
"""The number of an alternative that begins with a word, and the words that can follow it there."""


class _Heads:
    """The words with which matches begin, of the rules of all tables."""

    def __init__(self) -> None:
        self._branches: list[tuple[int, AnyIndex, int, int]] = []
        self._first: dict[tuple[AnyIndex, int], int] = {}
        self._filed: dict[str, dict[str, list[Start]]] = {}
        self._known: Remembered[tuple[Start, ...]] = Remembered(self._learnt)
        self._lock = RLock()  # a table may be filed while another thread reads
        self._read = lru_cache(maxsize=8)(self._places)

    def add(self, heads: Heads, needed: int, table: AnyIndex, row: int) -> None:
        """Files a row of a table whose rule's matches begin with one of the heads and need the bits."""
        with self._lock:
            for head, following in heads.items():
                filed = self._filed.setdefault(head[:_HEAD_CHARS], {}).setdefault(head, [])
                filed.append((len(self._branches), following))
            first = self._first.setdefault((table, row), len(self._branches))
            self._branches.append((needed, table, row, first))
            self._known.clear()

    def places(self, low: str) -> tuple[int, dict[AnyIndex, Places]]:
        """Returns the bits that `low` holds, and for each table the rows it may match, with where first words stand."""
        return self._read(low, len(VOCABULARY), len(self._branches))

    def _places(self, low: str, groups: int, branches: int) -> tuple[int, dict[AnyIndex, Places]]:
        """Returns the places; how much is filed is asked for, so that nothing is kept that was read with less."""
        with self._lock:
            return self._found(low)

    def _found(self, low: str) -> tuple[int, dict[AnyIndex, Places]]:
        held = VOCABULARY.held(low)
        known = self._known
        heads = {word: starts for word in words_of(low) if (starts := known[word])}
        found: dict[AnyIndex, Places] = {}
        lists: dict[int, list[int]] = {}
        of_row: dict[int, list[int]] = {}
        for number in {number for starts in heads.values() for number, _ in starts}:
            needed, table, row, first = self._branches[number]
            if held & needed == needed:
                places = of_row.get(first)
                if places is None:
                    places = of_row[first] = []
                    found.setdefault(table, []).append((row, places))
                lists[number] = places
        if not lists:
            return held, found
        possible = {
            word: of_word
            for word, starts in heads.items()
            if (of_word := [(lists[number], following) for number, following in starts if number in lists])
        }
        pieces, ends = _split(low)
        pieces = [*pieces, ""]
        for at in range(1, len(pieces) - 1, 2):
            lists_of_word = possible.get(pieces[at])
            if lists_of_word is not None:
                start, next_word = ends[at - 1], pieces[at + 2] if at + 2 < len(pieces) else ""
                for at_row, following in lists_of_word:
                    if (following is None or next_word in following) and not (at_row and at_row[-1] == start):
                        at_row.append(start)
        return held, found

    def _learnt(self, word: str) -> tuple[Start, ...]:
        bounded = f"{word}{EDGE}"
        filed = self._filed.get(bounded[:_HEAD_CHARS], {})
        return tuple(start for head, starts in filed.items() if bounded.startswith(head) for start in starts)


_HEADS = _Heads()


class Index(Generic[Row]):
    """A table of rows, each with one rule, in the table's order."""

    def __init__(self, rows: Iterable[tuple[Rule, Row]]) -> None:
        """Takes the table; it is filed for the first text."""
        self._rows = list(rows)

    @property
    def rows(self) -> list[Row]:
        """Returns every row, in the table's order."""
        return [row for _, row in self._rows]

    @cached_property
    def _others(self) -> tuple[list[int], int, dict[int, list[tuple[int, int]]]]:
        """Files every rule: where its first words are known there, else by the rarest of the bits that it needs.

        Returns the rows that need none, the bits of the others, and these by their bit, each with all that it needs.
        """
        always: list[int] = []
        every = 0
        filed: dict[int, list[tuple[int, int]]] = {}
        for number, (rule, _) in enumerate(self._rows):
            for needles, heads in rule.branches:
                groups = [group for group in needles if VOCABULARY.is_telling(group)] or list(needles[:1])
                bits = [VOCABULARY.add(group) for group in groups[:MOST_GROUPS]]
                needed = 0
                for bit in bits:
                    needed |= bit
                if heads is not None:
                    _HEADS.add(heads, needed, self, number)
                elif bits:
                    every |= bits[0]
                    filed.setdefault(bits[0], []).append((number, needed))
                elif number not in always:
                    always.append(number)
        return always, every, filed

    def found(self, low: str, twin: str | None = None) -> list[tuple[Row, Iterator[re.Match[str]]]]:
        """Returns the rows whose rule may match `low`, in the table's order, each with the matches.

        `twin` is a text with the same words at the same places, for which most of the work was done before.
        """
        always, every, filed = self._others
        held, of_tables = _HEADS.places(low if twin is None else twin)
        rest = held & every
        places = of_tables.get(self)
        if not (rest or places or always):
            return []
        rows = self._rows
        anywhere = {*always}
        while rest:
            bit = rest & -rest
            rest ^= bit
            anywhere.update([number for number, needed in filed[bit] if held & needed == needed])
        found = [(number, rows[number][0].finditer(low)) for number in anywhere]
        few = FEW_PLACES + len(low) // CHARS_PER_PLACE
        for number, at in places or ():
            rule = rows[number][0]
            if at and number not in anywhere and (len(at) <= few or rule.sieve.may_match(low)):
                found.append((number, rule.at(low, at)))
        found.sort(key=_number)
        return [(rows[number][1], matches) for number, matches in found]


def _number(found: tuple[int, Iterator[re.Match[str]]]) -> int:
    return found[0]


def numbered(rules: Sequence[Rule]) -> Index[int]:
    """Returns the index of a table in which each row is its own number."""
    return Index((rule, number) for number, rule in enumerate(rules))
