"""Whether showing a note harms: an e-process over calls in which it was withheld at random.

Pure functions. In a call the note is shown (A = 1) with the known probability p, drawn apart from all else; Y is 1
where the call's first run ended well. With m the mean outcome of the calls before, drawn towards 1/2,

    D = (Y - m) (A / p - (1 - A) / (1 - p))

has as its mean, given the past, the change of the chance of a good outcome by showing the note. While that is not below
0, each product of 1 - s D / B is a test supermartingale, for any stake s below 1 and the greatest D that can come,
B = max((1 - m) / p, m / (1 - p)); so is their average over stakes. It ever reaches 1 / alpha with a chance of at most
alpha (Ville). Against a loss of d the best stake is about p d / (1 - m): the stakes from 0.1 to 0.9 are those against
losses of 0.05 to 0.5 at a mean of 1/2. Source of the bets: Waudby-Smith and Ramdas (2024), Estimating means of bounded
random variables by betting; of the weights: Horvitz and Thompson (1952).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from perpetual.science.replay import STAKES

__all__ = ["Call", "Harm", "weigh"]


class Call(NamedTuple):
    """A call with its outcome; `chance` is the probability with which the note was shown, in (0, 1)."""

    shown: bool
    good: bool
    chance: float


class Harm(NamedTuple):
    """What calls say of a note: numbers of calls, of good ones, the e-value of harm, and the most that it ever was."""

    shown: int = 0
    shown_good: int = 0
    withheld: int = 0
    withheld_good: int = 0
    e_value: float = 1.0
    most: float = 1.0

    @property
    def calls(self) -> int:
        """Returns the number of calls."""
        return self.shown + self.withheld


def weigh(calls: Iterable[Call]) -> Harm:
    """Returns what these calls say, in their order.

    Raises:
        ValueError: for a chance that is not in (0, 1).
    """
    wealth = [1.0] * len(STAKES)
    counts, good = [0, 0], [0, 0]  # of withheld calls, of shown ones
    now = most = 1.0
    for call in calls:
        if not 0 < call.chance < 1:
            raise ValueError(f"a note is shown with a chance in (0, 1), not {call.chance!r}")
        mean = (1 + sum(good)) / (2 + sum(counts))
        bound = max((1 - mean) / call.chance, mean / (1 - call.chance))
        weight = 1 / call.chance if call.shown else -1 / (1 - call.chance)
        part = (call.good - mean) * weight / bound
        wealth = [had * (1 - stake * part) for had, stake in zip(wealth, STAKES, strict=True)]
        counts[call.shown] += 1
        good[call.shown] += call.good
        now = math.fsum(wealth) / len(STAKES)
        most = max(most, now)
    return Harm(counts[1], good[1], counts[0], good[0], now, most)
