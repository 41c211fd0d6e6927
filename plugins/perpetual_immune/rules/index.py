"""Which rules of a table a text may match, found in one pass.  Imported by the rule modules; standard library only.

Asking every rule of a large table for its needles costs more than all the matching.  Each rule is filed here under its
most telling group of needles; only rules of which a needle is in the text are asked for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.sieve import Sieve

Row = TypeVar("Row")


class Index(Generic[Row]):
    """A table of rows, each with one rule, in the table's order."""

    def __init__(self, rows: Iterable[tuple[Rule, Row]]) -> None:
        """Files every row; its rule is not compiled."""
        self._rows = list(rows)
        self._always: list[int] = []
        filed: dict[str, list[int]] = {}
        for number, (rule, _) in enumerate(self._rows):
            group = min(rule.needles, key=_cost, default=None)
            if group is None:
                self._always.append(number)
                continue
            for needle in group:
                filed.setdefault(needle, []).append(number)
        self._filed = list(filed.items())
        self._sieve = Sieve([rule.source for rule, _ in self._rows])

    @property
    def rows(self) -> list[Row]:
        """Returns every row, in the table's order."""
        return [row for _, row in self._rows]

    def candidates(self, low: str) -> Iterator[Row]:
        """Yields the rows whose rule may match `low`, in the table's order."""
        sifted = self._sieve.candidates(low)
        if sifted is not None:
            all_told = low.isascii()  # the sieve reads all other letters as one
            yield from (self._rows[number][1] for number in sifted if all_told or self._rows[number][0].possible(low))
            return
        numbers = set(self._always)
        for needle, filed in self._filed:
            if needle in low:
                numbers.update(filed)
        for number in sorted(numbers):
            rule, row = self._rows[number]
            if rule.possible(low):
                yield row


def _cost(group: tuple[str, ...]) -> float:
    """Returns about how many texts hold a needle of the group: few and long ones are rare."""
    return sum(4.0 ** -len(needle) for needle in group)
