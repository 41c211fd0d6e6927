"""Reads sentences for features, and tells which combinations of them stand together.  Used by `judging`, `rigging`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import NamedTuple

from perpetual_immune.rules.hit import phrase
from perpetual_immune.rules.index import numbered
from perpetual_immune.rules.needles import Rule
from perpetual_redaction.vocabulary import MOST_SETS, Remembered

MAX_SENTENCE_CHARS = 400
"""A longer sentence is read in pieces of this length."""
_PER_FEATURE = 24
_END = re.compile(r"[.!?](?=[\s\"'”)]|$)|\n|;")

Combination = tuple[str, str, float, frozenset[str]]
"""Rule, family, weight, and the features that it needs in one sentence or those right after it."""


class Reading(NamedTuple):
    """A combination found: its rule, family and weight, its span, and the span of the sentences read together."""

    rule: str
    family: str
    weight: float
    start: int
    end: int
    said_from: int
    said_to: int


def combinations(rows: Iterable[tuple[str, str, float, str]]) -> tuple[Combination, ...]:
    """Returns the rows with the names of features, given as words, as sets."""
    return tuple((rule, family, weight, frozenset(names.split())) for rule, family, weight, names in rows)


class Reader:
    """Looks for the features of a table, the common ones last, and for combinations of them."""

    def __init__(
        self, features: Iterable[tuple[str, str]], common: Sequence[str], table: Sequence[Combination], reach: int = 1
    ) -> None:
        """Takes names and patterns of features, rows of one name next to each other, and how many sentences follow."""
        self._reach = reach
        self.features: tuple[tuple[str, Rule], ...] = tuple(
            (name, phrase(source))
            for name, source in sorted(features, key=lambda row: common.index(row[0]) if row[0] in common else -1)
        )
        self._index = numbered([rule for _, rule in self.features])
        self._table = table
        self._possible: Remembered[frozenset[str], list[Combination]] = Remembered(self._made_of, MOST_SETS)

    def _made_of(self, maybe: frozenset[str]) -> list[Combination]:
        """Returns the combinations that need no other features."""
        return [row for row in self._table if row[3] <= maybe]

    def read(self, low: str, twin: str | None = None) -> Iterator[Reading]:
        """Yields the combinations of folded text, each once per sentence that it begins in; `twin` as `Index.found`."""
        present = self._index.found(low, twin)
        if not present:
            return
        features = self.features
        possible = self._possible[frozenset([features[number][0] for number, _ in present])]
        if not possible:
            return
        spans: dict[str, list[tuple[int, int]]] = {}
        needed = frozenset().union(*[row[3] for row in possible])
        for name, rows in groupby(present, key=lambda row: features[row[0]][0]):
            if name not in needed:
                continue
            matches = chain.from_iterable(matches for _, matches in rows)
            found = sorted(match.span() for match in islice(matches, _PER_FEATURE))
            if found:
                spans[name] = found
            else:
                possible = [row for row in possible if name not in row[3]]
                if not possible:
                    return
                needed = frozenset().union(*[row[3] for row in possible])
        ends = _sentence_ends(low)
        of_sentence = _by_sentence(spans, ends)
        for number in sorted(of_sentence):
            here = of_sentence[number]
            said = dict(here)
            for later in range(number + 1, number + 1 + self._reach):
                said = of_sentence.get(later, {}) | said
            start = ends[number - 1] if number else 0
            end = ends[min(number + self._reach, len(ends) - 1)]
            for rule, family, weight, needed in possible:
                if needed <= said.keys() and not needed.isdisjoint(here.keys()):
                    begin = min(said[name][0] for name in needed)
                    final = max(said[name][1] for name in needed)
                    yield Reading(rule, family, weight, begin, final, start, end)


def _sentence_ends(low: str) -> list[int]:
    """Returns where each sentence ends: at a full stop, a line's end or after `MAX_SENTENCE_CHARS`."""
    ends: list[int] = []
    last = 0
    for match in _END.finditer(low):
        if match.end() - last < 3:
            continue
        while match.end() - last > MAX_SENTENCE_CHARS:
            last += MAX_SENTENCE_CHARS
            ends.append(last)
        last = match.end()
        ends.append(last)
    while len(low) - last > MAX_SENTENCE_CHARS:
        last += MAX_SENTENCE_CHARS
        ends.append(last)
    if not ends or ends[-1] < len(low):
        ends.append(len(low))
    return ends


def _by_sentence(spans: dict[str, list[tuple[int, int]]], ends: list[int]) -> dict[int, dict[str, tuple[int, int]]]:
    """Returns the first span of each feature per sentence; a match belongs where its last character stands."""
    features: dict[int, dict[str, tuple[int, int]]] = {}
    for name, found in spans.items():
        number = 0
        for start, end in found:
            while ends[number] < end:
                number += 1
            features.setdefault(number, {}).setdefault(name, (start, end))
    return features
