"""E-values and confidence sequences of a rate of success against a number, or against a rate that was measured itself.

Pure. The ratio of a mixture over all rates to the largest likelihood under the null is an e-value, whatever the rates
and however often one looks. Source: Wasserman, Ramdas and Balakrishnan (2020), Universal inference, PNAS 117.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Count", "item_luck", "log_e_above", "luck_of_rate", "MOST_TRIALS", "rate_interval"]

_LEAST_PERCENT = 2.0  # values that all lie below are no percentages

MOST_TRIALS = 1e9  # nothing is said of more: the logarithms of their likelihoods would be rounded
_EDGE = 1e-12
_BISECTIONS = 20


class Count(NamedTuple):
    """Successes among trials."""

    k: float
    n: float

    @property
    def rate(self) -> float:
        """Returns the share of successes."""
        return self.k / self.n

    @property
    def failures(self) -> Count:
        """Returns failures among the same trials."""
        return Count(self.n - self.k, self.n)


def log_e_above(own: Count, against: Count | float, boundary: float = 0.0) -> float:
    """Returns the log e-value (nats) of a rate that exceeds another one, or a number, by more than `boundary`."""
    if own.n <= 0 or (isinstance(against, Count) and against.n <= 0):
        return 0.0
    return _mixed(own, against) - _most(own, against, boundary)


def _mixed(own: Count, against: Count | float) -> float:
    return _mixture(own) + (_mixture(against) if isinstance(against, Count) else 0.0)


def _most(own: Count, against: Count | float, boundary: float) -> float:
    """Returns the largest log likelihood of rates that differ by `boundary` at most."""
    if not isinstance(against, Count):
        return _log_likelihood(own, min(own.rate, max(against + boundary, _EDGE)))
    if own.rate - against.rate <= boundary:
        return _log_likelihood(own, own.rate) + _log_likelihood(against, against.rate)
    base = _nearest_rate(own, against, boundary)
    return _log_likelihood(own, base + boundary) + _log_likelihood(against, base)


def _nearest_rate(own: Count, against: Count, boundary: float) -> float:
    """Returns the likeliest rate of `against` where the other one's lies `boundary` above it: the root of a cubic.

    Source: Farrington and Manning (1990), Statistics in Medicine 9, whose rates are in the other order.
    """
    low, high = max(0.0, -boundary), min(1.0, 1.0 - boundary)
    if high <= low:
        return min(max(low, 0.0), 1.0)
    share = against.n / own.n
    a = 1 + share
    b = -(a + own.rate + share * against.rate + boundary * (share + 2)) / (3 * a)
    c = (boundary * boundary + boundary * (2 * own.rate + a) + own.rate + share * against.rate) / (3 * a)
    d = -own.rate * boundary * (1 + boundary) / a
    v = b * b * b - 1.5 * b * c + d / 2
    u = math.copysign(math.sqrt(max(b * b - c, 0.0)), v)
    cosine = min(max(v / u**3, -1.0), 1.0) if u else 0.0
    return min(max(2 * u * math.cos((math.pi + math.acos(cosine)) / 3) - b - boundary, low), high)


def _log_likelihood(count: Count, rate: float) -> float:
    failures = count.n - count.k
    good = count.k * math.log(max(rate, _EDGE)) if count.k > 0 else 0.0
    return good + (failures * math.log1p(-min(rate, 1 - _EDGE)) if failures > 0 else 0.0)


def _mixture(count: Count) -> float:
    """Returns the log likelihood averaged over rates under Jeffreys' prior."""
    a, b = count.k + 0.5, count.n - count.k + 0.5
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b) - math.log(math.pi)


def rate_interval(own: Count, against: Count | float, alpha: float = 0.05) -> tuple[float, float]:
    """Returns the confidence sequence of the difference at 1 - alpha: what neither side's e-value excludes."""
    most = _mixed(own, against) - math.log(2 / alpha)
    others = against.failures if isinstance(against, Count) else 1 - against
    middle = own.rate - (against.rate if isinstance(against, Count) else against)
    low = _last(-1.0, middle, lambda edge: _most(own, against, edge) <= most)
    return low, _last(1.0, middle, lambda edge: _most(own.failures, others, -edge) <= most)


def _last(outside: float, inside: float, excluded: Callable[[float], bool]) -> float:
    """Returns the edge nearest to `inside` that is found excluded by bisection, or `outside` where that is not."""
    if not excluded(outside):
        return outside
    for _ in range(_BISECTIONS):
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if excluded(middle) else (outside, middle)
    return outside


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
