"""What the e-value of an effect needs at a sample size, and how many runs are likely to reach it.

Pure. The noise is taken as given and normal, and one look at the end is assumed. Imported by sentences on a verdict;
the plans of `perpetual_scorers.proposing.planning` are made of it.
"""

from __future__ import annotations

import math

from perpetual.science.evalues import Statistic, log_e

__all__ = ["MOST_RUNS", "chance", "critical", "pairs_of", "runs_for", "statistic_of", "two_variances"]

MOST_RUNS = 400  # in place of runs without end
_FAR = 14.0  # logs
_PRECISE = 5e-3  # logs


def statistic_of(
    effect: float, sd: float, n: int, n_baseline: int | None, *, tau: float = 0.0, rho: float = 0.0
) -> Statistic | None:
    """Returns the statistic that `n` runs with noise `sd` would show of an effect over a boundary.

    Args:
        effect: in the metric's units.
        n_baseline: runs of the baseline; None for a number.
        tau: sd between implementations.
        rho: correlation of seeds that both arms share, as far as both have runs.
    """
    if n < 2 or sd <= 0 or (n_baseline is not None and n_baseline < 1):
        return None
    if rho > 0 and n_baseline is not None:
        pairs = min(n, n_baseline)
        return pairs_of(effect, sd, pairs, rho, tau) if pairs > 1 else None
    return two_variances(effect, n, sd * sd, n_baseline, sd * sd, fixed=tau * tau)


def pairs_of(effect: float, sd: float, pairs: int, rho: float, tau: float) -> Statistic:
    """Returns the statistic that pairs of runs on shared seeds would show; `rho` is the correlation of a pair."""
    return Statistic(effect, 2 * (1 - min(rho, 0.9999)) * sd * sd / pairs, pairs - 1.0, pairs, tau * tau)


def two_variances(
    effect: float,
    n: int,
    own_var: float,
    n_baseline: int | None,
    base_var: float,
    *,
    typed_n: float | None = None,
    fixed: float = 0.0,
) -> Statistic:
    """Returns what `perpetual.science.evalues.two_arms` does, of two runs or more and the variances of both arms."""
    own, others = n - 1.0, typed_n if n_baseline is None else 1.0
    if n_baseline is None or n_baseline < 2:
        share = 1 / n + (1 / others if others else 0.0)
        return Statistic(effect, own_var * share, own, 1 / share, fixed)
    base = n_baseline - 1.0
    pooled = (own_var * own + base_var * base) / (own + base)
    if own_var >= base_var:
        mine, theirs, nu_mine, nu_theirs = own_var / n, pooled / n_baseline, own, min(2 * base, own + base)
    else:
        mine, theirs, nu_mine, nu_theirs = pooled / n, base_var / n_baseline, min(2 * own, own + base), base
    v = mine + theirs
    nu = v * v / (mine * mine / nu_mine + theirs * theirs / nu_theirs)
    return Statistic(effect, v, nu, max(own_var, base_var) / v, fixed)


def chance(found: Statistic | None, threshold: float, *, paired: bool = False) -> float:
    """Returns the chance that the e-value exceeds `threshold` at one look, the effect being true.

    Args:
        paired: the statistic is of pairs; the other half of the mean is taken as nothing.
    """
    if found is None or threshold <= 1:
        return 0.0
    high = critical(found, math.log(threshold) + (math.log(2) if paired else 0.0))
    if math.isinf(high):
        return 0.0
    high = math.exp(high)
    # The noncentral t statistic, by its normal approximation (Johnson and Welch 1940, Biometrika 31).
    spread = math.sqrt((found.v + found.fixed) / found.v + high * high / (2 * found.nu))
    return math.erfc(-(found.t - high * (1 - 1 / (4 * found.nu))) / spread / math.sqrt(2)) / 2


def critical(found: Statistic, bar: float, planned: float | None = None) -> float:
    """Returns the log of the t statistic at which the log e-value is `bar`; infinite where it never is."""
    se = math.sqrt(found.v)

    def over(x: float) -> float:
        return log_e(found._replace(effect=math.exp(x) * se), planned=planned) - bar

    low, high = 0.0, 1.0
    below, above = over(low), over(high)
    while above < 0:
        low, high, below = high, high + 1, above
        if high > _FAR:
            return math.inf
        above = over(high)
    while below > 0:
        low, high, above = low - 1, low, below
        below = over(low)
    while high - low > _PRECISE:  # false position; the end that stays counts less and less (Illinois)
        middle = low - below * (high - low) / (above - below)
        middle = min(max(middle, low + _PRECISE / 4), high - _PRECISE / 4)
        between = over(middle)
        if between < 0:
            low, below, above = middle, between, above / 2
        else:
            high, above, below = middle, between, below / 2
    return high


def runs_for(
    effect: float,
    sd: float,
    n_baseline: int | None,
    threshold: float,
    *,
    tau: float = 0.0,
    rho: float = 0.0,
    likely: float = 0.8,
    most: int = MOST_RUNS,
) -> int | None:
    """Returns the least number of runs with at least that chance to reach the threshold; None above `most`."""

    def enough(n: int) -> bool:
        others = max(n, n_baseline or 0) if rho > 0 and n_baseline is not None else n_baseline
        return chance(statistic_of(effect, sd, n, others, tau=tau, rho=rho), threshold, paired=rho > 0) >= likely

    if effect <= 0 or not enough(most):
        return None
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
