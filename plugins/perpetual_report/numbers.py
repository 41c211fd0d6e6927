"""The numbers of a report: each with its value, the words people read, and the place in the record it comes from.

Imported by the modules beside it. `Book` keeps every number that a report shows, by its key, so that a file that was
written earlier can be held to them.
"""

from __future__ import annotations

from dataclasses import dataclass

from perpetual.toolkit.units import shown_hours, shown_number

__all__ = ["Book", "Number", "exact"]


def exact(value: float) -> str:
    """Returns the value as a file shows it: integers whole, others to twelve digits (the last bits vary by machine)."""
    return str(value) if isinstance(value, int) else f"{value:.12g}"


@dataclass(frozen=True, slots=True)
class Number:
    """One number. `key` says what it is (`h1.confidence`), `source` where it comes from.

    A source is a line of a run's files (`r12/stdout.log:7`), a run's record (`r12`), a row of the evidence (`v3`), an
    experiment's specification (`e2`), or what is folded from the record as it stood after an event (`h1@512`, `e2@512`,
    `budget@512`, `record@512`).
    """

    key: str
    value: float
    text: str
    source: str
    metric: str | None = None

    @property
    def run(self) -> str | None:
        """Returns the run whose row the number leads to, if it has one."""
        head = self.source.partition("/")[0]
        return head if head[:1] == "r" and head[1:].isdecimal() else None

    def __str__(self) -> str:
        return self.text


class Book:
    """The numbers by key. Every method answers None for None: what is not known is no number."""

    def __init__(self) -> None:
        self.numbers: dict[str, Number] = {}

    def put(self, key: str, value: float | None, text: str, source: str, *, metric: str | None = None) -> Number | None:
        """Enters a number with the words for it; the same key twice is the same number."""
        if value is None:
            return None
        found = self.numbers.setdefault(key, Number(key, value, text, source, metric))
        assert (found.value, found.text, found.source) == (value, text, source), key
        return found

    def number(
        self, key: str, value: float | None, source: str, *, form: str = ".4g", metric: str | None = None
    ) -> Number | None:
        """Returns a number in a format of Python's."""
        return None if value is None else self.put(key, value, shown_number(value, form), source, metric=metric)

    def count(self, key: str, value: int, source: str) -> Number:
        """Returns how many there are of something."""
        made = self.put(key, value, str(value), source)
        assert made is not None
        return made

    def hours(self, key: str, value: float | None, source: str) -> Number | None:
        """Hours, in the unit that suits them."""
        return self.put(key, value, shown_hours(value), source)
