"""E-values and intervals of success rates: one rate against a number, or against a rate that was measured itself.

Pure. The ratio of a mixture over all rates to the largest likelihood under the null is an e-value, whatever the rates
and however often one looks. Source: Wasserman, Ramdas and Balakrishnan (2020), Universal inference, PNAS 117.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Count", "item_luck", "log_e_above", "luck_of_rate", "rate_interval"]

_EDGE = 1e-9
_STEPS = 32
_LEAST_PERCENT = 2.0  # values that all lie below are no percentages
_EDGES = 14  # bisections of an edge of an interval
_GOLDEN = (math.sqrt(5) - 1) / 2


class Count(NamedTuple):
    """Successes among trials."""

    k: float
    n: float

    @property
    def rate(self) -> float:
        """Returns the share of successes."""
        return self.k / self.n


def log_e_above(own: Count, against: Count | float, boundary: float = 0.0) -> float:
    """Returns the log e-value (nats) of a rate that exceeds another one, or a number, by more than `boundary`."""
    if own.n <= 0:
        return 0.0
    if isinstance(against, float | int):
        null = min(max(against + boundary, _EDGE), 1 - _EDGE)
        best = _log_likelihood(own, min(own.rate, null))
        return _mixture(own) - best
    if against.n <= 0:
        return 0.0
    mixed = _mixture(own) + _mixture(against)
    if own.rate - against.rate <= boundary:
        return mixed - _log_likelihood(own, own.rate) - _log_likelihood(against, against.rate)
    low, high = max(0.0, -boundary) + _EDGE, min(1.0, 1.0 - boundary) - _EDGE
    for _ in range(_STEPS):  # the likelihood on the boundary is concave: golden section
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if _both(own, against, left, boundary) < _both(own, against, right, boundary):
            low = left
        else:
            high = right
    return mixed - _both(own, against, (low + high) / 2, boundary)


def _both(own: Count, against: Count, rate: float, boundary: float) -> float:
    return _log_likelihood(own, rate + boundary) + _log_likelihood(against, rate)


def _log_likelihood(count: Count, rate: float) -> float:
    rate = min(max(rate, _EDGE), 1 - _EDGE)
    return count.k * math.log(rate) + (count.n - count.k) * math.log1p(-rate)


def _mixture(count: Count) -> float:
    """Returns the log likelihood averaged over rates under Jeffreys' prior."""
    a, b = count.k + 0.5, count.n - count.k + 0.5
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b) - math.log(math.pi)


def rate_interval(own: Count, against: Count | float, alpha: float = 0.05) -> tuple[float, float]:
    """Returns the confidence sequence of the difference at 1 - alpha: what neither side's e-value excludes."""
    bar = math.log(2 / alpha)
    base = against if isinstance(against, float | int) else against.rate
    middle = own.rate - base

    def excluded(edge: float, *, above: bool) -> bool:
        if above:
            return log_e_above(own, against, edge) >= bar
        flipped = Count(own.n - own.k, own.n)
        others = 1 - against if isinstance(against, float | int) else Count(against.n - against.k, against.n)
        return log_e_above(flipped, others, -edge) >= bar

    low = _last(-1.0, middle, lambda edge: excluded(edge, above=True))
    high = _last(1.0, middle, lambda edge: excluded(edge, above=False))
    return low, high


def _last(outside: float, inside: float, excluded: Callable[[float], bool]) -> float:
    """Returns the edge nearest to `outside` that is not excluded, by bisection."""
    if not excluded(outside):
        return outside
    for _ in range(_EDGES):
        middle = (outside + inside) / 2
        if excluded(middle):
            outside = middle
        else:
            inside = middle
    return inside


def item_luck(own: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> float | None:
    """Returns the sd that the choice of test items gives the difference of both arms' means; None without scores.

    Both arms are tested on the same items, so that what counts is the spread of each item's difference. Without scores
    of the baseline it is that of the claim's own ones.
    """
    if not own:
        return None
    size = len(own[0])
    if size < 2 or any(len(scores) != size for scores in [*own, *others]):
        raise ValueError("items must be the scores of the same items in every run, two at least")
    mine = [math.fsum(scores[j] for scores in own) / len(own) for j in range(size)]
    theirs = [math.fsum(scores[j] for scores in others) / len(others) if others else 0.0 for j in range(size)]
    gaps = [a - b for a, b in zip(mine, theirs, strict=True)]
    mean = math.fsum(gaps) / size
    return math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / (size - 1) / size)


def luck_of_rate(values: Sequence[float], items: float) -> float | None:
    """Returns the most that the choice of `items` test items moves the difference of two rates by, as an sd.

    Two models that disagree at random differ by a variance of 2 p (1 - p) / N. None for values that are no rates, in
    one or in percent.
    """
    if not items > 1:
        raise ValueError(f"items must be above 1, not {items:g}")
    scale = 1.0 if all(0 <= value <= 1 for value in values) else 100.0
    if not values or not all(0 <= value <= scale for value in values) or (scale > 1 and max(values) < _LEAST_PERCENT):
        return None
    p = (math.fsum(values) / scale / len(values) * items + 1) / (items + 2)
    return scale * math.sqrt(2 * p * (1 - p) / items)
