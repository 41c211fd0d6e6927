"""What pairs of replays say of a note: e-values of help and harm, an interval, and the bar among all notes.

Pure functions of the differences D = score with the note minus score without it, each in [-1, 1], in the order in
which the pairs were planned. The bets are those of `perpetual.science.gate`. Sources: Waudby-Smith and Ramdas (2024),
Estimating means of bounded random variables by betting; Wang and Ramdas (2022), False discovery rate control with
e-values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from perpetual.science import gate
from perpetual_replay.betting import STAKES

__all__ = ["Pairs", "bar", "curve", "interval", "weigh"]

_NEVER = 1e-300  # an alpha whose bar no e-value of 60 pairs reaches
_HALVINGS = 20  # of the range, to find an end of the interval: to within 2e-6


class Pairs(NamedTuple):
    """Evidence of pairs: that the note helps, and that it harms, as e-values."""

    pairs: int
    e_help: float
    e_harm: float
    mean: float | None


def weigh(differences: Sequence[float]) -> Pairs:
    """Returns the evidence of all these pairs.

    Raises:
        ValueError: for a difference that is no number in [-1, 1].
    """
    count = len(differences)
    found = gate(differences, {"alpha": _NEVER, "harm_alpha": _NEVER, "max_pairs": max(1, count)})
    return Pairs(count, found["e"], found["e_harm"], math.fsum(differences) / count if count else None)


def curve(differences: Sequence[float]) -> list[tuple[float, float]]:
    """Returns (e_help, e_harm) after each pair."""
    helps, harms, points = [1.0] * len(STAKES), [1.0] * len(STAKES), []
    for one in differences:
        helps = [wealth * (1 + stake * one) for wealth, stake in zip(helps, STAKES, strict=True)]
        harms = [wealth * (1 - stake * one) for wealth, stake in zip(harms, STAKES, strict=True)]
        points.append((math.fsum(helps) / len(STAKES), math.fsum(harms) / len(STAKES)))
    return points


def interval(differences: Sequence[float], alpha: float = 0.1) -> tuple[float, float] | None:
    """Returns the means in [-1, 1] that the pairs leave possible; None before the first pair.

    It holds at every number of pairs at once with probability 1 - alpha: a mean is out once a bet against it, on the
    one side or the other, has won 2 / alpha. With 0.1 it leaves out 0 where one note alone is promoted.
    """
    if not differences:
        return None
    # The greater the mean, the less a bet that the true one is above it wins, at each pair: so each side leaves out one
    # end of the range, and its edge is found by halving.
    most = 2 / alpha
    low = _edge(lambda mean: _is_out(differences, mean, 1, most), -1.0, 1.0)
    high = _edge(lambda mean: _is_out(differences, mean, -1, most), 1.0, -1.0)
    return (low, high) if low < high else None  # None: pairs whose mean moved, no single mean fits them


def _edge(is_out: Callable[[float], bool], end: float, left: float) -> float:
    """Returns the last mean that is out, going from the end of the range to one that is left; the end if none is."""
    if not is_out(end):
        return end
    for _ in range(_HALVINGS):
        middle = (end + left) / 2
        end, left = (middle, left) if is_out(middle) else (end, middle)
    return end


def _is_out(differences: Sequence[float], mean: float, sign: int, most: float) -> bool:
    """Returns whether a mean is left out by the bets that the true one is greater (`sign` 1), or less (-1)."""
    room = 1 + sign * mean  # how far a difference may lie on the losing side of this bet
    if room <= 0:  # an end of the range: no difference lies beyond it, and the mean is there only if all do
        return any(one != mean for one in differences)
    wealth = [1.0] * len(STAKES)
    for one in differences:
        wealth = [had * (1 + stake * sign * (one - mean) / room) for had, stake in zip(wealth, STAKES, strict=True)]
        if math.fsum(wealth) / len(STAKES) >= most:
            return True
    return False


def bar(e_values: Sequence[float], alpha: float = 0.05) -> float:
    """Returns the e-value from which a note is promoted, given those of all notes in the queue, its own among them.

    This is e-BH: with K notes, the largest k for which k of them reach K / (alpha k) sets the bar; where there is none,
    the bar is that of a first discovery, K / alpha. One note alone needs 1 / alpha.
    """
    count = max(1, len(e_values))
    ordered = sorted(e_values, reverse=True)
    reached = [k for k, value in enumerate(ordered, 1) if value >= count / (alpha * k)]
    return count / (alpha * max(reached, default=1))
