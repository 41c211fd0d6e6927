"""Which rules of a table a text may match, and where, told by its words.  Imported by the rule modules.

Only a rule of which the text may hold a needle of every group is tried.  Where its matches begin with one of a few
words, it is tried at those words alone; else an automaton looks for it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Generic, TypeVar

from perpetual_immune.rules.needles import Rule
from perpetual_redaction.vocabulary import EDGE, LONGEST_WORD, MOST_WORDS, VOCABULARY, words_of

Row = TypeVar("Row")
MOST_GROUPS = 4
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


class _Heads:
    """The words with which matches begin, of the rules of all tables."""

    def __init__(self) -> None:
        self._needed: list[int] = []
        self._filed: dict[str, dict[str, list[int]]] = {}
        self._known: dict[str, tuple[int, ...]] = {}
        self.places = lru_cache(maxsize=8)(self._places)

    def add(self, heads: Iterable[str], needed: int) -> int:
        """Returns the number of a rule whose matches begin with one of the heads and need the bits."""
        number = len(self._needed)
        self._needed.append(needed)
        for head in heads:
            self._filed.setdefault(head[:_HEAD_CHARS], {}).setdefault(head, []).append(number)
        self._known.clear()
        self.places.cache_clear()
        return number

    def _places(self, low: str) -> dict[int, list[int]]:
        """Returns, for each rule that `low` may match, where its first words stand."""
        held = VOCABULARY.held(low)
        known = self._known
        found: dict[int, list[int]] = {}
        heads: dict[str, tuple[int, ...]] = {}
        for word in words_of(low):
            numbers = known.get(word)
            numbers = self._learnt(word) if numbers is None else numbers
            if numbers:
                heads[word] = numbers
        if not heads:
            return found
        needed = self._needed
        kept = {number for numbers in set(heads.values()) for number in numbers if held & needed[number] == needed[number]}
        if not kept:
            return found
        possible: dict[str, list[list[int]]] = {}
        for number in kept:
            found[number] = []
        for word, numbers in heads.items():
            lists = [found[number] for number in numbers if number in kept]
            if lists:
                possible[word] = lists
        for start, word in places_of(low, possible):
            for places in possible[word]:
                places.append(start)
        return found

    def _learnt(self, word: str) -> tuple[int, ...]:
        bounded = f"{word}{EDGE}"
        filed = self._filed.get(bounded[:_HEAD_CHARS], {})
        numbers = tuple(sorted({n for head, of_head in filed.items() if bounded.startswith(head) for n in of_head}))
        if len(word) <= LONGEST_WORD:
            if len(self._known) >= MOST_WORDS:
                self._known.clear()
            self._known[word] = numbers
        return numbers


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
    def _headed(self) -> dict[int, int]:
        """Returns which row each of the rules is that are found by their first words."""
        made = {}
        for number, (rule, _) in enumerate(self._rows):
            if rule.heads is not None:
                made[_HEADS.add(rule.heads, self._needed[number])] = number
        return made

    @cached_property
    def _needed(self) -> list[int]:
        """Returns the bits that each rule needs, its rarest ones."""
        made = []
        for rule, _ in self._rows:
            needed = 0
            for group in rule.needles[:MOST_GROUPS]:
                needed |= VOCABULARY.add(group)
            made.append(needed)
        return made

    @cached_property
    def _others(self) -> tuple[list[int], int, dict[int, list[int]]]:
        """Returns the rules not found by first words: those without needles, the bits of the rest, and it by its bit."""
        headed = set(self._headed.values())
        always: list[int] = []
        every = 0
        filed: dict[int, list[int]] = {}
        for number, (rule, _) in enumerate(self._rows):
            if number not in headed:
                if not rule.needles:
                    always.append(number)
                    continue
                bit = VOCABULARY.add(rule.needles[0])
                every |= bit
                filed.setdefault(bit, []).append(number)
        return always, every, filed

    def found(self, low: str, twin: str | None = None) -> list[tuple[Row, Iterator[re.Match[str]]]]:
        """Returns the rows whose rule may match `low`, in the table's order, each with the matches.

        `twin` is a text with the same words at the same places, for which most of the work was done before.
        """
        headed, (always, every, filed) = self._headed, self._others
        like = low if twin is None else twin
        held = VOCABULARY.held(like)
        found = [(number, self._rows[number][0].finditer(low)) for number in always]
        rest = held & every
        while rest:
            bit = rest & -rest
            rest ^= bit
            for number in filed[bit]:
                if held & self._needed[number] == self._needed[number]:
                    found.append((number, self._rows[number][0].finditer(low)))
        places = _HEADS.places(like)
        few = FEW_PLACES + len(low) // CHARS_PER_PLACE
        for known in headed.keys() & places.keys():
            at = places[known]
            rule = self._rows[headed[known]][0]
            if len(at) <= few or rule.sieve.may_match(low):
                found.append((headed[known], rule.at(low, at)))
        found.sort(key=_number)
        return [(self._rows[number][1], matches) for number, matches in found]


def _number(found: tuple[int, Iterator[re.Match[str]]]) -> int:
    return found[0]


def numbered(rules: Sequence[Rule]) -> Index[int]:
    """Returns the index of a table in which each row is its own number."""
    return Index((rule, number) for number, rule in enumerate(rules))
