"""Means and differences of replicates with their 95 % Student-t intervals, for reports and comparisons.

They describe what was measured and decide nothing: what evidence is worth is `perpetual.science.evidence`. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Interval", "mean_of", "paired_difference", "pooled_sd", "student_quantile",
           "student_tail", "welch_difference"]  # fmt: skip

LEVEL = 0.95
_TINY = 1e-300
_STEPS = 200


class Interval(NamedTuple):
    """A mean, or a difference of means, with its interval; `low` and `high` are None where nothing can be said.

    `n` is how many values (or pairs) it rests on, `sd` their spread (of the first group in a difference), `nu` the
    degrees of freedom. Values that are bit-equal share a seed: they count as one and show no spread.
    """

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    nu: float

    @property
    def excludes_zero(self) -> bool:
        """Returns whether the interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Returns the continued fraction of the incomplete beta function, by the method of Lentz."""
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), _TINY)
    total = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + term * d
            c = 1.0 + term / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            total *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return total


def _beta(a: float, b: float, x: float) -> float:
    """Returns the regularised incomplete beta function I_x(a, b)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


def student_tail(t: float, nu: float) -> float:
    """Returns P(T > t), t >= 0, of Student's t on `nu` degrees of freedom, the normal one where they are infinite."""
    if math.isinf(nu):
        return math.erfc(t / math.sqrt(2)) / 2
    return _beta(nu / 2.0, 0.5, nu / (nu + t * t)) / 2


@lru_cache(maxsize=4096)
def student_quantile(p: float, nu: float) -> float:
    """Returns the quantile of Student's t on `nu` degrees of freedom: P(T <= t) = p, to about 1e-12.

    Raises:
        ValueError: for a p outside (0, 1) or nu of 0 or less.
    """
    if not 0.0 < p < 1.0 or not nu > 0.0:
        raise ValueError(f"a quantile needs 0 < p < 1 and nu > 0, not {p!r} and {nu!r}")
    if p == 0.5:
        return 0.0
    tail = 2.0 * min(p, 1.0 - p)  # of both sides: P(|T| > t) = I_x(nu/2, 1/2) with x = nu / (nu + t^2)
    low, high = 0.0, 1.0
    while low < (x := (low + high) / 2.0) < high:
        if _beta(nu / 2.0, 0.5, x) < tail:
            low = x
        else:
            high = x
    return math.copysign(math.sqrt(nu * (1.0 - x) / max(x, _TINY)), p - 0.5)


def _distinct(values: Sequence[float]) -> Sequence[float]:
    return values[:1] if len(values) > 1 and len(set(values)) == 1 else values


def _moments(values: Sequence[float]) -> tuple[int, float, float]:
    """Returns how many count, their mean, and the sum of squares about it."""
    counted = _distinct(values)
    mean = math.fsum(counted) / len(counted)
    return len(counted), mean, math.fsum((value - mean) ** 2 for value in counted)


def _around(n: int, mean: float, sd: float | None, error: float, nu: float, level: float) -> Interval:
    if nu <= 0 or not error > 0:
        return Interval(n, mean, sd, None, None, max(nu, 0.0))
    reach = student_quantile((1.0 + level) / 2.0, nu) * error
    return Interval(n, mean, sd, mean - reach, mean + reach, nu)


def _sd(n: int, squares: float) -> float | None:
    return math.sqrt(squares / (n - 1)) if n > 1 else None


def mean_of(values: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Returns the mean of at least one value."""
    n, mean, squares = _moments(values)
    sd = _sd(n, squares)
    return _around(n, mean, sd, (sd or 0.0) / math.sqrt(n), n - 1, level)


def paired_difference(values: Sequence[float], baseline: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Returns mean of the differences of values that belong together one by one, as by a shared seed."""
    return mean_of([a - b for a, b in zip(values, baseline, strict=True)], level=level)


def pooled_sd(groups: Iterable[Sequence[float]]) -> float | None:
    """Returns the pooled standard deviation within groups, None with less than two degrees of freedom or no spread."""
    squares, freedom = 0.0, 0
    for values in groups:
        if len(values) > 1:
            mean = math.fsum(values) / len(values)
            squares += math.fsum((value - mean) ** 2 for value in values)
            freedom += len(values) - 1
    return math.sqrt(squares / freedom) if freedom >= 2 and squares > 0 else None


def welch_difference(values: Sequence[float], baseline: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Returns the difference of two groups' means, each with its own noise (Welch; needs two values each)."""
    n, mean, squares = _moments(values)
    n_b, mean_b, squares_b = _moments(baseline)
    if n < 2 or n_b < 2:
        return Interval(n, mean - mean_b, _sd(n, squares), None, None, 0.0)
    share, share_b = squares / (n - 1) / n, squares_b / (n_b - 1) / n_b
    spread = share**2 / (n - 1) + share_b**2 / (n_b - 1)
    nu = (share + share_b) ** 2 / spread if spread > 0 else 0.0
    return _around(n, mean - mean_b, _sd(n, squares), math.sqrt(share + share_b), nu, level)
