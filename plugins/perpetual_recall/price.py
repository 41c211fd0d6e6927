"""The slot `price`: what a version of a note has been measured to earn, for the tokens that it takes.

The contract of a pricer: `prices` reads the record and answers a price for each version of a note that has been
measured. It changes nothing, and the same record gives the same prices. A version without a measurement has no price:
what is not known is not 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from perpetual.api import PluginError
from perpetual.toolkit.contained import limited
from perpetual_recall.shown import every_note

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Note
    from perpetual_recall.documents import NoteWorth, PriceDocument

__all__ = ["UNMEASURED", "Price", "Pricer", "Prices", "by_worth", "document", "order", "prices_of", "sentence"]

UNMEASURED = (2, 0.0)  # the place of a version without a price, as `order` gives places


@dataclass(frozen=True, slots=True)
class Price:
    """What a version of a note earns.

    - `uplift`: mean difference of the score with the note and without it; scores lie in [0, 1].
    - `low`, `high`: an interval of 90 % of that mean, which holds at any number of pairs.
    - `pairs`: measurements that it is the mean of.
    - `tokens`: what the memory block spends on the note, ceil(UTF-8 bytes / 4), in the mean over the tasks.
    """

    uplift: float
    low: float
    high: float
    pairs: int
    tokens: float

    def per_1000(self, value: float) -> float:
        """Returns a value of the score for 1,000 tokens of the note."""
        return value / self.tokens * 1000


Prices = Mapping[tuple[str, str], Price]  # by path and blob of the version


class Pricer(ABC):
    """Prices versions of notes; see the contract at the top of this module."""

    @abstractmethod
    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        """Returns the price of each measured version by its (path, blob); of all notes where `paths` is None."""

    def worth(self, lab: Lab, *, folder: str = "", status: str | None = None) -> list[NoteWorth]:
        """Returns the notes with the prices of their newest versions as documents, in the order of `by_worth`."""
        found = by_worth(lab, self.prices(lab), folder=folder, status=status)
        return [
            {"path": it.path, "status": it.status, "proven": it.proven, "type": it.type, "title": it.title,
             "blob": it.blob, "price": None if price is None else document(price)}
            for it, price in found
        ]  # fmt: skip

    def shown(self, lab: Lab, path: str, blob: str) -> tuple[PriceDocument | None, str]:
        """Returns the price of a version as a document and as a line."""
        price = self.prices(lab, [path]).get((path, blob))
        if price is None:
            return None, f"price: not measured; to measure it: perpetual memory replay {path}"
        return document(price), f"price: {sentence(price)}"


def prices_of(lab: Lab, paths: Collection[str] | None = None) -> Prices:
    """Returns the prices by the pricer in force; none where there is no pricer."""
    try:
        ((name, part),) = lab.parts("price")
    except PluginError:
        return {}
    found: Prices = limited(name, partial(part.prices, lab, paths))
    return found


def order(price: Price | None) -> tuple[int, float]:
    """Returns a version's place in the order of worth, the smallest first, by what the interval leaves for certain.

    1. What is shown to help (the interval is above 0): the greatest lower end for 1,000 tokens first.
    2. What is shown neither to help nor to harm: the greatest lower end first. Tokens do not count here: divided by
       more of them, a lower end below 0 would look better.
    3. What was never measured, of which nothing but the range is known: its lower end is -1.
    4. What is shown to harm (the interval is below 0): the greatest upper end first.
    """
    if price is None:
        return UNMEASURED
    if price.low > 0:
        return 0, -price.per_1000(price.low)
    return (3, -price.high) if price.high < 0 else (1, -price.low)


def by_worth(
    lab: Lab, prices: Prices | None = None, *, folder: str = "", status: str | None = None
) -> list[tuple[Note, Price | None]]:
    """Returns the notes with the prices of their newest versions, in the order of worth; of equals the oldest first.

    Raises:
        UsageError: for an unknown status.
        PathRefused: for a folder that may not be.
    """
    known = prices_of(lab) if prices is None else prices
    notes = [*every_note(lab, folder=folder, status=status)]
    found = [(note, known.get((note.path, note.blob))) for note in notes]
    return sorted(found, key=lambda item: order(item[1]))


def document(price: Price) -> PriceDocument:
    """Returns a price as a document."""
    return {
        "uplift": price.uplift, "low": price.low, "high": price.high, "pairs": price.pairs, "tokens": price.tokens,
        "per_1000_tokens": price.per_1000(price.uplift), "low_per_1000_tokens": price.per_1000(price.low),
        "high_per_1000_tokens": price.per_1000(price.high),
    }  # fmt: skip


def sentence(price: Price) -> str:
    """Returns a price in words."""
    each = [price.per_1000(value) for value in (price.uplift, price.low, price.high)]
    return (
        f"score {price.uplift:+.2f} (90 % interval {price.low:+.2f} to {price.high:+.2f}, {price.pairs} "
        f"pair{'s' * (price.pairs != 1)}) for {price.tokens:.0f} tokens; for 1,000 tokens {each[0]:+.2f} "
        f"({each[1]:+.2f} to {each[2]:+.2f})"
    )
