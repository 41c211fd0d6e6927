"""The evidence rule of commit 7c2e50b, frozen: a ratio of two Student-t densities of the pooled mean. Judges nothing.

Imported by simulations that compare the present rule with it. Its "e-value" is none: under unknown noise its mean may
exceed 1 (1.65 at two runs), it takes both arms' noise as one, and knows neither pairs nor lost runs. Copied from
`perpetual/science/evidence.py` of that commit; only what it needs for effects of unknown noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from perpetual.science.intervals import student_tail

__all__ = ["log_bayes_factor_gaussian", "log_odds"]

DESIGN_CAP_NATS = math.log(99)
_MISFIT_Z = 2.5758
_MISFIT_TAIL = 0.005


class _Pool(NamedTuple):
    """The replicates of one design as one observation: mean, effective count, degrees of freedom, variance."""

    mean: float
    n: int
    nu: float
    v: float


def _pool(
    values: Sequence[float], tau: float, sigma: float | None, s0: float | None, nu0: float, n_b: int, ss_b: float
) -> _Pool:
    if not values:
        return _Pool(0.0, 0, 0.0, 0.0)
    if len(values) > 1 and len({*values}) == 1:  # bit-equal replicates share a seed: one draw, seen again
        values = values[:1]
    if sigma is None and n_b > 1 and ss_b == 0:
        n_b = 1
    n, mean = len(values), math.fsum(values) / len(values)
    if sigma is not None:
        nu, s2 = math.inf, sigma * sigma
    else:
        prior_nu = 0.0 if s0 is None else nu0
        nu = prior_nu + (n - 1) + max(n_b - 1, 0)
        own = math.fsum((x - mean) * (x - mean) for x in values)
        s2 = (prior_nu * (s0 or 0.0) ** 2 + own + (ss_b if n_b > 1 else 0.0)) / nu if nu > 0 else 0.0
    return _Pool(mean, n, nu, tau * tau + s2 / n + (s2 / n_b if n_b > 0 else 0.0))


def _factor(pool: _Pool, mu1: float, mu0: float) -> float:
    mean, n, nu, v = pool
    if n == 0 or nu <= 0 or v <= 0:
        return 0.0
    middle, gap = (mu1 + mu0) / 2, mu1 - mu0
    if math.isinf(nu):
        return gap * (mean - middle) / v
    scale = nu * v
    # The ratio peaks at this distance from the middle; beyond it a better result would count for less.
    reach = math.sqrt(gap * gap / 4 + scale)
    clipped = min(max(mean, middle - reach), middle + reach)
    lead = 2 * gap * (clipped - middle)  # the difference of the two squared distances, without cancellation
    near = clipped - (mu1 if lead >= 0 else mu0)
    return math.copysign((nu + 1) / 2 * math.log1p(abs(lead) / (scale + near * near)), lead)


def log_bayes_factor_gaussian(
    values: Sequence[float],
    *,
    mu1: float,
    mu0: float,
    tau: float,
    sigma: float | None = None,
    s0: float | None = None,
    nu0: float = 0.0,
    baseline_n: int = 0,
    baseline_ss: float = 0.0,
) -> float:
    """Returns the log Bayes factor (nats) of one design's pooled replicates: effect `mu1` against `mu0`."""
    return _factor(_pool(values, tau, sigma, s0, nu0, baseline_n, baseline_ss), mu1, mu0)


def log_odds(designs: Sequence[tuple[Sequence[float], Sequence[float], float]]) -> float:
    """Returns the log odds of an effect of 1 against none, from even odds.

    Args:
        designs: values of the claim, values of its baseline (four at least), and tau, of each.
    """
    total = 0.0
    for values, baseline, tau in designs:
        center = math.fsum(baseline) / len(baseline)
        squares = math.fsum((value - center) ** 2 for value in baseline)
        pool = _pool([value - center for value in values], tau, None, None, 0.0, len(baseline), squares)
        factor = _factor(pool, 1.0, 0.0)
        if pool.n and pool.nu > 0 and pool.v > 0:  # both predictions far off: it says nothing
            nearer = min(1.0 - pool.mean, pool.mean) / math.sqrt(pool.v)
            if nearer > _MISFIT_Z and student_tail(nearer, pool.nu) < _MISFIT_TAIL:
                factor = 0.0
        total += min(max(factor, -DESIGN_CAP_NATS), DESIGN_CAP_NATS)
    return total
