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
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

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


Places = list[tuple[int, list[int] | None]]
"""Numbers of rows, in order, each with the places in a text at which its rule may match; None for anywhere."""


Start = tuple[int, frozenset[str] | None]
"""The number of an alternative that begins with a word, and the words that can follow it there."""


class _Told(NamedTuple):
    """What a word tells: the alternatives to think of where it stands, and those that begin with it."""

    thought_of: frozenset[int]
    starts: frozenset[int]
    following: dict[int, frozenset[str] | None]
    """Of each of `starts` the words that can follow there; None for any."""


class _Filed:
    """The alternatives of the rules of all tables: by what a text must hold, and by the words with which they begin."""

    def __init__(self) -> None:
        self._needed: list[int] = []
        self._rows: list[tuple[AnyIndex, int, bool]] = []
        self._by_bit: dict[int, list[int]] = {}
        self._by_sign = self._by_word = 0
        self._always: list[int] = []
        self._heads: dict[str, dict[str, list[Start]]] = {}
        self._known: Remembered[_Told] = Remembered(self._learnt)
        self._lock = RLock()  # a table may be filed while another thread reads
        self._read = lru_cache(maxsize=8)(self._places)

    def add(self, table: AnyIndex, row: int, groups: Sequence[tuple[str, ...]], heads: Heads | None) -> None:
        """Files an alternative of a row's rule, whose matches need a needle of each group and begin with a head."""
        with self._lock:
            number = len(self._needed)
            needed = 0
            for group in groups:
                needed |= VOCABULARY.add(group)
            self._needed.append(needed)
            self._rows.append((table, row, heads is None))
            if groups:
                rarest = VOCABULARY.add(groups[0])
                self._by_bit.setdefault(rarest, []).append(number)
                if VOCABULARY.is_in_words(groups[0]):
                    self._by_word |= rarest
                else:
                    self._by_sign |= rarest
            elif heads is None:
                self._always.append(number)
            for head, following in (heads or {}).items():
                self._heads.setdefault(head[:_HEAD_CHARS], {}).setdefault(head, []).append((number, following))
            self._known.clear()

    def places(self, low: str) -> dict[AnyIndex, Places]:
        """Returns for each table the rows that `low` may match, and where."""
        return self._read(low, len(self._needed))

    def _places(self, low: str, alternatives: int) -> dict[AnyIndex, Places]:
        """Returns the places; how much is filed is asked for, so that nothing is kept that was read with less."""
        with self._lock:
            return self._found(low)

    def _found(self, low: str) -> dict[AnyIndex, Places]:
        held = VOCABULARY.held(low)
        words = words_of(low)
        told = [*map(self._known.__getitem__, words)]
        thought_of = set().union(*[of_word.thought_of for of_word in told])
        rest = held & self._by_sign
        while rest:
            bit = rest & -rest
            rest ^= bit
            thought_of.update(self._by_bit[bit])
        thought_of.update(self._always)
        missing = held ^ ((1 << len(VOCABULARY)) - 1)
        needed = self._needed
        possible = [number for number in thought_of if not needed[number] & missing]
        if not possible:
            return {}
        found: dict[AnyIndex, dict[int, list[int] | None]] = {}
        lists: dict[int, list[int]] = {}
        for number in possible:
            table, row, is_anywhere = self._rows[number]
            of_table = found.get(table)
            if of_table is None:
                of_table = found[table] = {}
            if is_anywhere:
                of_table[row] = None
            else:
                places = of_table.setdefault(row, [])
                if places is not None:
                    lists[number] = places
        if lists:
            self._find(low, dict(zip(words, told, strict=True)), lists)
        return {
            table: sorted((row, places) for row, places in of_table.items() if places is None or places)
            for table, of_table in found.items()
        }

    def _find(self, low: str, told: dict[str, _Told], lists: dict[int, list[int]]) -> None:
        """Adds the places at which the alternatives in `lists` may begin, in order."""
        wanted = lists.keys() & set().union(*[of_word.starts for of_word in told.values()])
        starting = {
            word: [(lists[number], of_word.following[number]) for number in numbers]
            for word, of_word in told.items()
            if of_word.starts and (numbers := of_word.starts & wanted)
        }
        if not starting:
            return
        pieces, ends = _split(low)
        last = len(pieces) - 2
        for at in range(1, len(pieces), 2):
            lists_of_word = starting.get(pieces[at])
            if lists_of_word is not None:
                start, next_word = ends[at - 1], pieces[at + 2] if at < last else ""
                for of_row, following in lists_of_word:
                    if (following is None or next_word in following) and not (of_row and of_row[-1] == start):
                        of_row.append(start)

    def _learnt(self, word: str) -> _Told:
        rest = VOCABULARY.of_word(word) & self._by_word
        thought_of: list[int] = []
        while rest:
            bit = rest & -rest
            rest ^= bit
            thought_of += self._by_bit[bit]
        bounded = f"{word}{EDGE}"
        filed = self._heads.get(bounded[:_HEAD_CHARS], {})
        following: dict[int, frozenset[str] | None] = {}
        for head, of_head in filed.items():
            if bounded.startswith(head):
                for number, next_words in of_head:
                    known = following.get(number, frozenset())
                    following[number] = None if known is None or next_words is None else known | next_words
        thought_of += [number for number in following if not self._needed[number]]
        return _Told(frozenset(thought_of), frozenset(following), following)


_FILED = _Filed()


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
    def _is_filed(self) -> bool:
        """Files every rule: its first words, and the rarest needles that it needs."""
        for number, (rule, _) in enumerate(self._rows):
            for needles, heads in rule.branches:
                groups = [group for group in needles if VOCABULARY.is_telling(group)] or list(needles[:1])
                _FILED.add(self, number, groups[:MOST_GROUPS], heads)
        return True

    def found(self, low: str, twin: str | None = None) -> list[tuple[Row, Iterator[re.Match[str]]]]:
        """Returns the rows whose rule may match `low`, in the table's order, each with the matches.

        `twin` is a text with the same words at the same places, for which most of the work was done before.
        """
        assert self._is_filed
        places = _FILED.places(low if twin is None else twin).get(self)
        if places is None:
            return []
        found: list[tuple[Row, Iterator[re.Match[str]]]] = []
        few = FEW_PLACES + len(low) // CHARS_PER_PLACE
        for number, at in places:
            rule, row = self._rows[number]
            if at is None:
                found.append((row, rule.finditer(low)))
            elif len(at) <= few or rule.sieve.may_match(low):
                found.append((row, rule.at(low, at)))
        return found


def numbered(rules: Sequence[Rule]) -> Index[int]:
    """Returns the index of a table in which each row is its own number."""
    return Index((rule, number) for number, rule in enumerate(rules))
