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
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from perpetual_immune.rules.needles import Heads, Rule
from perpetual_immune.rules.remembered import branches_of
from perpetual_redaction.vocabulary import EDGE, MOST_SETS, VOCABULARY, Remembered, words_of

Row = TypeVar("Row", covariant=True)
AnyIndex: TypeAlias = "Index[object]"  # a table of rows of any sort
MOST_GROUPS = 5
"""Groups of needles asked for per rule: the rarest."""
FEW_PLACES = 4
CHARS_PER_PLACE = 160
"""Places at which a rule is tried without asking its automaton first: so many, and one more per so many letters."""
_HEAD_CHARS = 2
_NONE: frozenset[str] = frozenset()
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
        self._rows: list[tuple[AnyIndex, int]] = []
        self._row_of: list[int] = []
        self._anywhere: set[int] = set()
        self._by_bit: dict[int, list[int]] = {}
        self._by_sign = self._by_word = 0
        self._always: list[int] = []
        self._heads: dict[str, dict[str, list[Start]]] = {}
        self._known: Remembered[str, _Told | None] = Remembered(self._learnt)
        self._of_signs: Remembered[int, frozenset[int]] = Remembered(self._thought_of, MOST_SETS)
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
            if not self._rows or self._rows[-1] != (table, row):  # a row's alternatives are filed one after the other
                self._rows.append((table, row))
            self._row_of.append(len(self._rows) - 1)
            if heads is None:
                self._anywhere.add(number)
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
            self._of_signs.clear()

    def places(self, low: str) -> dict[AnyIndex, Places]:
        """Returns for each table the rows that `low` may match, and where."""
        return self._read(low, len(self._needed))

    def _places(self, low: str, alternatives: int) -> dict[AnyIndex, Places]:
        """Returns the places; how much is filed is asked for, so that nothing is kept that was read with less."""
        with self._lock:
            return self._found(low)

    def _found(self, low: str) -> dict[AnyIndex, Places]:
        held = VOCABULARY.held(low)
        told = {word: of_word for word in words_of(low) if (of_word := self._known[word]) is not None}
        thought_of = set(self._always).union(
            self._of_signs[held & self._by_sign], *[of_word.thought_of for of_word in told.values()]
        )
        missing = held ^ ((1 << len(VOCABULARY)) - 1)
        needed = self._needed
        possible = {number for number in thought_of if not needed[number] & missing}
        if not possible:
            return {}
        anywhere = possible & self._anywhere
        at_rows = self._starts(low, told, possible - anywhere)
        row_of = self._row_of
        of_rows: dict[int, list[int] | None] = {**at_rows, **dict.fromkeys([row_of[number] for number in anywhere])}
        found: dict[AnyIndex, Places] = {}
        for number in sorted(of_rows):
            table, row = self._rows[number]
            of_table = found.get(table)
            if of_table is None:
                of_table = found[table] = []
            of_table.append((row, of_rows[number]))
        return found

    def _starts(self, low: str, told: dict[str, _Told], possible: set[int]) -> dict[int, list[int]]:
        """Returns of the rows of the alternatives where in the text their matches may begin, in order."""
        starting = {
            word: numbers for word, of_word in told.items() if of_word.starts and (numbers := of_word.starts & possible)
        }
        if not starting:
            return {}
        pieces, ends = _split(low)
        words = pieces[1::2]
        words.append("")
        standing: dict[str, list[int]] = {word: [] for word in starting}
        for at, word in enumerate(words):
            if word in standing:
                standing[word].append(at)
        row_of = self._row_of
        found: dict[int, list[int]] = {}
        shared: set[int] = set()
        for word, numbers in starting.items():
            starts = [ends[2 * at] for at in standing[word]]
            next_words = [words[at + 1] for at in standing[word]]
            different = frozenset(next_words)
            following_of = told[word].following
            for number in numbers:
                following = following_of[number]
                if following is None:
                    here = starts
                elif different.isdisjoint(following):
                    continue
                else:
                    here = [start for start, after in zip(starts, next_words, strict=True) if after in following]
                row = row_of[number]
                known = found.get(row)
                if known is None:
                    found[row] = here
                elif known is not here:
                    found[row] = known + here
                    shared.add(row)
        for row in shared:
            found[row] = sorted({*found[row]})
        return found

    def _thought_of(self, bits: int) -> frozenset[int]:
        """Returns the alternatives that are filed by one of the bits."""
        numbers: list[int] = []
        while bits:
            bit = bits & -bits
            bits ^= bit
            numbers += self._by_bit[bit]
        return frozenset(numbers)

    def _learnt(self, word: str) -> _Told | None:
        """Returns what a word tells, None for nothing."""
        bounded = f"{word}{EDGE}"
        following: dict[int, frozenset[str] | None] = {}
        for head, of_head in self._heads.get(bounded[:_HEAD_CHARS], {}).items():
            if bounded.startswith(head):
                for number, next_words in of_head:
                    known = following.get(number, _NONE)
                    following[number] = None if known is None or next_words is None else known | next_words
        thought_of = self._thought_of(VOCABULARY.of_word(word) & self._by_word)
        thought_of |= {number for number in following if not self._needed[number]}
        return _Told(thought_of, frozenset(following), following) if thought_of or following else None


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
        for number, branches in enumerate(branches_of([rule for rule, _ in self._rows])):
            for needles, heads in branches:
                groups = [group for group in needles if VOCABULARY.is_telling(group)] or list(needles[:1])
                _FILED.add(self, number, groups[:MOST_GROUPS], heads)
        return True

    def found(self, low: str, twin: str | None = None) -> list[tuple[Row, Iterator[re.Match[str]]]]:
        """Returns the rows whose rule may match `low`, in the table's order, each with the matches.

        `twin` is a text with the same words at the same places, and maybe others, for which most of the work was done
        before.
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
