"""Figures of the calibration board and of the rule of rights. Pure.

Sources: Brier (1950), Verification of forecasts expressed in terms of probability, Monthly Weather Review 78. Clopper
and Pearson (1934), The use of confidence or fiducial limits, Biometrika 26. David and Nagaraja (2003), Order
Statistics, 7.1, for the interval of a median. Ville (1939) for `clean_needed`, as in Ramdas, Grünwald, Vovk and Shafer
(2023), Game-theoretic statistics and safe anytime-valid inference, Statistical Science 38.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["ALPHA", "Bin", "Brier", "bins", "brier", "clean_needed", "level_of", "median_interval", "rate_interval",
           "wealth"]  # fmt: skip

ALPHA = 0.05
EDGES = (0.25, 0.35, 0.45, 0.55, 0.65, 0.75)  # of the bins: no prior is surer than 0.25 or 0.75
_SPLITS = 60  # bisections


class Brier(NamedTuple):
    """The mean square of stated minus happened (`score`), and that of two forecasts that know nothing of the claim.

    `base_rate` says the share that happened, which is known only afterwards; `even` says one half.
    """

    n: int
    happened: int
    score: float
    base_rate: float
    even: float


class Bin(NamedTuple):
    """One bin of a reliability curve; `low` and `high` are the exact interval of the share that happened."""

    low_edge: float
    high_edge: float
    n: int
    happened: int
    stated: float
    low: float
    high: float


def brier(stated: Sequence[float], happened: Sequence[bool]) -> Brier:
    """Returns the Brier score of at least one forecast, with its references."""
    n, true = len(stated), sum(happened)
    rate = true / n
    score = math.fsum((say - seen) ** 2 for say, seen in zip(stated, happened, strict=True)) / n
    return Brier(n, true, score, rate * (1 - rate), 0.25)


def bins(stated: Sequence[float], happened: Sequence[bool]) -> list[Bin]:
    """Returns the bins that hold a forecast; each has its lower edge, the last one both."""
    found = []
    for low, high in pairwise(EDGES):
        is_last = high == EDGES[-1]
        own = [(say, seen) for say, seen in zip(stated, happened, strict=True)
               if low <= say and (say < high or (is_last and say <= high))]  # fmt: skip
        if own:
            n, true = len(own), sum(seen for _, seen in own)
            found.append(Bin(low, high, n, true, math.fsum(say for say, _ in own) / n, *rate_interval(true, n)))
    return found


def _at_most(k: int, n: int, rate: float) -> float:
    """Returns P(X <= k) of a binomial count."""
    if rate <= 0.0 or k >= n:
        return 1.0
    if rate >= 1.0:
        return 0.0
    log_yes, log_no = math.log(rate), math.log1p(-rate)
    return min(1.0, math.fsum(
        math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_yes + (n - i) * log_no)
        for i in range(k + 1)
    ))  # fmt: skip


def _root(k: int, n: int, share: float) -> float:
    """Returns the rate at which P(X <= k) falls to `share`."""
    low, high = 0.0, 1.0
    for _ in range(_SPLITS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(k, n, middle) > share else (low, middle)
    return (low + high) / 2


def rate_interval(happened: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Returns the interval of Clopper and Pearson of a rate: it covers it with `level` or more, whatever it is."""
    tail = (1 - level) / 2
    low = 0.0 if happened == 0 else _root(happened - 1, n, 1 - tail)
    high = 1.0 if happened == n else _root(happened, n, tail)
    return low, high


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, tuple[float, float] | None]:
    """Returns the median of at least one value, and its interval by order statistics; None where n is too small.

    The interval covers the median of any distribution of which the values are independent draws with `level` or more.
    """
    ranked, n = sorted(values), len(values)
    median = (ranked[(n - 1) // 2] + ranked[n // 2]) / 2
    tail, rank = (1 - level) / 2, 0
    while rank < n // 2 and _at_most(rank, n, 0.5) <= tail:
        rank += 1
    return median, (ranked[rank - 1], ranked[n - rank]) if rank else None


def level_of(attempt: int, alpha: float = ALPHA) -> float:
    """Returns the share of `alpha` that the attempt gets, from 1: alpha / (k (k + 1)), whose sum is alpha."""
    return alpha / (attempt * (attempt + 1))


def wealth(clean: int, rate: float) -> float:
    """Returns the e-value of that many experiments in a row without incident, against a rate of incidents or a higher.

    Where each is an incident with probability `rate` or more, whatever came before, the product is a test
    supermartingale: it multiplies by 1 / (1 - rate) at one without, and falls to 0 at an incident.
    """
    return (1.0 - rate) ** -clean


def clean_needed(attempt: int, rate: float, alpha: float = ALPHA) -> int:
    """Returns how many in a row without incident earn a right: until the e-value reaches 1 / `level_of` the attempt.

    A proposer whose rate is `rate` or more ever earns it with probability `alpha` at most, over all attempts and
    however often one looks (Ville's inequality for each attempt, and their sum).
    """
    bar = 1.0 / level_of(attempt, alpha)
    n = max(1, math.ceil(math.log(bar) / -math.log1p(-rate)) - 1)
    while wealth(n, rate) < bar:
        n += 1
    return n
