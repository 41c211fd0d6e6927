"""What the evidence rule makes of values, written anew from its formulas: what a lab's fold is checked against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perpetual.science import judge
from perpetual.science.evalues import Statistic, log_e

if TYPE_CHECKING:
    from perpetual.science.judgement import Judgement

__all__ = ["judged", "log_e_values", "log_e_values_of_rate", "log_odds_of"]


def log_e_values(
    effects: Sequence[float], *, mde: float = 0.0, tau: float = 0.0, noise: float | None = None
) -> tuple[float, float]:
    """The log e-values for and against of one design beside a number, from the t statistics of its effects.

    For: an effect above none. Against: one that falls short of the mde. Both are nothing where fewer than two runs
    show a noise.
    """
    n, mean = len(effects), math.fsum(effects) / len(effects)
    if n < 2:
        return 0.0, 0.0
    v = math.fsum((effect - mean) ** 2 for effect in effects) / (n - 1) / n
    for_it, against_it = (
        log_e(Statistic(beyond, v, n - 1.0, n, tau**2), planned=mde / noise if noise else None)
        for beyond in (mean, mde - mean)
    )
    return for_it, against_it


def log_e_values_of_rate(k: int, n: int, *, rate: float, mde: float) -> tuple[float, float]:
    """The same of k successes in n runs beside a known rate, each the mean of two.

    The likelihood averaged over all rates (Jeffreys) over the largest one under the null; that of the planned rate over
    that of the known one.
    """

    def likelihood(p: float) -> float:
        return p**k * (1 - p) ** (n - k)

    mixed = math.gamma(k + 0.5) * math.gamma(n - k + 0.5) / math.gamma(n + 1) / math.pi
    planned = likelihood(rate + mde) / likelihood(rate)
    for_it = mixed / likelihood(min(k / n, rate))
    against_it = mixed / likelihood(max(k / n, rate + mde))
    return math.log((for_it + planned) / 2), math.log((against_it + 1 / planned) / 2)


def log_odds_of(for_it: float, against_it: float) -> float:
    """What is said for less what is said against: at most ln 99, and never more than either e-value says."""
    total = min(max(max(for_it, 0.0) - max(against_it, 0.0), -math.log(99)), math.log(99))
    return min(max(total, -max(against_it, 0.0)), max(for_it, 0.0))


def judged(claim: Sequence[float], baseline: Sequence[float], *, shared: int = 0, **design: Any) -> Judgement:
    """What the pure rule says of an effect of 0.1 on `acc`, beside a baseline that was run.

    The first `shared` runs of both arms are on the same seeds.
    """
    arms = [
        [
            {"seed": n if n < shared else 100 * arm + n, "value": value, "order": 100 * arm + n, "status": "done"}
            for n, value in enumerate(values)
        ]
        for arm, values in enumerate((baseline, claim), 1)
    ]
    return judge({"metric": "acc", "direction": "max", "mde": 0.1, "tau": 0.025, **design}, arms[0], arms[1], {})
