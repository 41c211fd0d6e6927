"""How many runs would decide: what the e-value needs at a sample size, and the chance to get there.

Pure. One look at the end is assumed, so the chance is a little lower than that of looking after each run; the noise is
taken as given and normal. Imported by sentences on a verdict, by `power` and by refusals of designs that cannot decide.
"""

from __future__ import annotations

import math

from perpetual.science.evalues import Statistic, log_e

__all__ = ["MOST_RUNS", "chance", "most_log_e", "runs_for", "statistic_of"]

MOST_RUNS = 400
_BISECTIONS = 50
_FAR_T = 1e6


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
    if n_baseline is None:
        return Statistic(effect, sd * sd / n, n - 1.0, n, tau * tau)
    if rho > 0:
        pairs = min(n, n_baseline)
        v = 2 * (1 - min(rho, 0.9999)) * sd * sd / pairs
        return Statistic(effect, v, pairs - 1.0, pairs, tau * tau) if pairs > 1 else None
    v = sd * sd * (1 / n + 1 / n_baseline)
    if n_baseline == 1:
        return Statistic(effect, v, n - 1.0, sd * sd / v, tau * tau)
    own, base = n - 1.0, n_baseline - 1.0
    low, high = min(own, base), max(own, base)
    share = sd * sd / (n if own <= base else n_baseline)
    nu = v * v / (share * share / min(2 * low, low + high) + (v - share) ** 2 / high)
    return Statistic(effect, v, nu, sd * sd / v, tau * tau)


def _log_e(found: Statistic, paired: bool) -> float:
    return log_e(found) - (math.log(2) if paired else 0.0)  # the other half of the mean is taken as nothing


def chance(found: Statistic | None, threshold: float, *, paired: bool = False) -> float:
    """Returns the chance that the e-value reaches `threshold` at these numbers of runs, the effect being true."""
    if found is None or threshold <= 1:
        return 0.0
    bar = math.log(threshold)
    low, high = 0.0, 1.0
    se = math.sqrt(found.v)
    while _log_e(found._replace(effect=high * se), paired) < bar:
        low, high = high, high * 4
        if high > _FAR_T:
            return 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _log_e(found._replace(effect=middle * se), paired) < bar:
            low = middle
        else:
            high = middle
    # The noncentral t statistic, by its normal approximation (Johnson and Welch 1940, Biometrika 31).
    spread = math.sqrt((found.v + found.fixed) / found.v + high * high / (2 * found.nu))
    return math.erfc(-(found.effect / se - high * (1 - 1 / (4 * found.nu))) / spread / math.sqrt(2)) / 2


def most_log_e(sd: float, effect: float, n_baseline: int | None, *, tau: float = 0.0) -> float:
    """Returns the log e-value that an effect would have on average with runs without end beside that baseline."""
    found = statistic_of(effect, sd, MOST_RUNS, n_baseline, tau=tau)
    return log_e(found) if found is not None else 0.0


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
