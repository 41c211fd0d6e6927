"""Quantiles of the F and the chi-square distribution, for intervals of variances. Pure, standard library only."""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["chi_square_quantile", "f_quantile"]

_TINY = 1e-300
_STEPS = 500
_HALVINGS = 200
_MANY = 1e7  # degrees of freedom that are as good as infinitely many


def _fraction(a: float, b: float, x: float) -> float:
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
    """Returns the regularised incomplete beta function I_x(a, b), for x strictly between 0 and 1."""
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


@lru_cache(maxsize=4096)
def f_quantile(p: float, nu1: float, nu2: float) -> float:
    """Returns the quantile of F on `nu1` and `nu2` degrees of freedom: P(F <= f) = p, to about 1e-9 of its size.

    Raises:
        ValueError: for a p outside (0, 1), or degrees of freedom of 0 or less.
    """
    if not (0.0 < p < 1.0 and nu1 > 0.0 and nu2 > 0.0):
        raise ValueError(f"a quantile needs 0 < p < 1 and degrees of freedom above 0, not {p!r}, {nu1!r}, {nu2!r}")
    low, high = -600.0, 600.0  # of log f: x = nu1 f / (nu1 f + nu2) would lose digits near 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        x = 1.0 / (1.0 + math.exp(math.log(nu2 / nu1) - middle))
        below = 0.0 if x <= 0.0 else 1.0 if x >= 1.0 else _beta(nu1 / 2.0, nu2 / 2.0, x)
        low, high = (middle, high) if below < p else (low, middle)
    return math.exp((low + high) / 2.0)


def chi_square_quantile(p: float, nu: float) -> float:
    """Returns the quantile of chi-square on `nu` degrees of freedom, to about 1e-6 of its size; raises as F does."""
    return nu * f_quantile(p, nu, _MANY)
