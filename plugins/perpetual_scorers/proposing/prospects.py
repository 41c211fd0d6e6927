"""What runs that are still to be launched can do for a verdict, where the noise is unknown; and what pairs teach.

Pure. Imported by the lab's proposals, by scorers and by simulations. The evidence rule weighs a
t statistic (`perpetual.science.evalues`): one run says nothing, few degrees of freedom say little, and no number of
runs says more than their baseline allows. Here is what its e-value is expected to reach. `d2` is a squared separation
as in expected information gain: half of it is the expected evidence in nats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from perpetual.science.evalues import CASH, SCALES, arm
from perpetual.science.reach import two_variances

__all__ = ["Prospect", "Setting", "StandIn", "expected_log_e", "measured_effect", "prospect", "seed_correlation",
           "stand_in"]  # fmt: skip

MOST_CORRELATED = 0.98  # seeds never share all of their luck
_CLOSE_TO_NONE = 2.0  # degrees of freedom that say that seeds share nothing, before any pair is seen
_LEAST_PAIRS = 3
_MOST_NATS = 300.0
_SQUARE_LIMIT = 1e6
_SCALES = tuple((scale * scale, (1 - CASH) * weight) for scale, weight in SCALES)


class Setting(NamedTuple):
    """A design in units of the noise of a run: the gap of its two predictions, the sd between implementations.

    `rho` is the correlation of a seed's two runs, claim and baseline; None where their seeds differ.
    """

    gap: float
    tau: float
    rho: float | None


class Prospect(NamedTuple):
    """Squared separation that the e-value is expected to reach, and the one that known noise would give."""

    d2: float
    spread: float

    def beyond(self, other: Prospect) -> Prospect:
        """Returns what this adds to another prospect."""
        return Prospect(max(self.d2 - other.d2, 0.0), max(self.spread - other.spread, 0.0))

    def plus(self, other: Prospect) -> Prospect:
        """Returns both together."""
        return Prospect(self.d2 + other.d2, self.spread + other.spread)

    def slowed(self, pace: float) -> Prospect:
        """Returns what is expected where runs bring a share of what was predicted; they scatter as before."""
        return self if pace == 1 else Prospect(self.d2 * pace, self.spread)


NOTHING = Prospect(0.0, 0.0)


def expected_log_e(t2: float, nu: float, n: float) -> float:
    """Returns the log e-value (nats) at the expected statistic: `evalues.log_e`, to a tenth of a nat, much faster.

    Args:
        t2: square of the effect over its standard error.
        nu: degrees of freedom, above 0.
        n: effective number of runs.
    """
    x, half = t2 / nu, (nu + 1) / 2
    peak, total = math.exp(min(half * math.log1p(x), _MOST_NATS)), CASH
    for square, weight in _SCALES:
        spread = 1 + n * square
        within = 1 + x / spread
        tail = 1 + math.erf(math.sqrt(half * x * (1 - 1 / spread) / within))
        total += weight * tail * peak * within**-half / math.sqrt(spread)
    return math.log(max(total, CASH))


@lru_cache(maxsize=8192)
def prospect(setting: Setting, n: int, baseline_n: int | None) -> Prospect:
    """Returns what `n` runs beside `baseline_n` of the baseline (None: a number) are expected to say.

    On shared seeds the e-value is the mean of the paired and the unpaired one; as many seeds are shared as both have.
    """
    if n < 1 or baseline_n == 0 or setting.gap == 0:
        return NOTHING
    v = 1 / n + (1 / baseline_n if baseline_n else 0.0)
    nats, spread = _reach(setting, v, two_variances(0.0, n, 1.0, baseline_n, 1.0).nu if n > 1 else 0.0)
    if setting.rho is not None and baseline_n is not None:
        pairs = min(n, baseline_n)
        together = _reach(setting, 2 * (1 - min(max(setting.rho, 0.0), MOST_CORRELATED)) / pairs, pairs - 1.0, pairs)
        nats, spread = _log_mean(nats, together[0]), max(spread, together[1])
    return Prospect(2 * max(nats, 0.0), spread)


def _reach(setting: Setting, v: float, nu: float, n: float | None = None) -> tuple[float, float]:
    """Returns the expected log e-value, and the squared separation, of an effect with variance `v`."""
    whole = v + setting.tau * setting.tau
    t2 = min(setting.gap * setting.gap / whole, _SQUARE_LIMIT)
    if nu <= 0:
        return -_MOST_NATS, t2
    # Luck that is declared counts beside the noise, and makes the noise no better known.
    return expected_log_e(t2, nu, (n or 1 / v) * v / whole), t2


def _log_mean(one: float, other: float) -> float:
    high, low = max(one, other), min(one, other)
    return high + math.log1p(math.exp(low - high)) - math.log(2)


def seed_correlation(claims: Iterable[Sequence[tuple[float, float]]]) -> float | None:
    """Returns the correlation of the two runs of a seed, learned from pairs (claim, baseline); None of fewer than 3.

    Args:
        claims: the pairs of each claim; their means may differ, and their noise is taken as that of the baseline.

    Returns:
        0 to 1, drawn towards 0 as two more degrees of freedom without any correlation would. A wrong one costs runs,
        and no validity: the evidence is weighed with and without pairing, whatever is planned.
    """
    cross = squares = freedom = 0.0
    count = 0
    for pairs in claims:
        count += len(pairs)
        if len(pairs) < 2:
            continue
        x, y = (math.fsum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
        cross += math.fsum((a - x) * (b - y) for a, b in pairs)
        squares += math.fsum((a - x) ** 2 + (b - y) ** 2 for a, b in pairs) / 2
        freedom += len(pairs) - 1
    if count < _LEAST_PAIRS or freedom < 1:
        return None
    learned = cross / squares if squares > 0 else 0.0
    return min(max(learned * freedom / (freedom + _CLOSE_TO_NONE), 0.0), 1.0)


def measured_effect(own: Sequence[float], baseline: Sequence[float]) -> tuple[float, float] | None:
    """Returns the difference of two arms' means, and the variance that noise gives it; None before two runs of each."""
    if min(len(own), len(baseline)) < 2:
        return None
    mine, theirs = arm(own), arm(baseline)
    noise = (mine.ss + theirs.ss) / (mine.n + theirs.n - 2)
    return mine.mean - theirs.mean, noise * (1 / mine.n + 1 / theirs.n)


class StandIn(NamedTuple):
    """What stand-ins show beyond full runs: `bias` in the mean, and `tau`, the sd about it, in the metric's units."""

    bias: float
    tau: float


def stand_in(pairs: Sequence[tuple[float, float, float]]) -> StandIn | None:
    """Returns what past pairs of a stand-in and its full experiment teach; None of fewer than three.

    Args:
        pairs: effect of the stand-in, effect at full scale, and the variance that the noise of both gives their
            difference.

    Returns:
        The mean difference, and the sd of a further one about it beyond its noise, with the error of the mean in it.
    """
    n = len(pairs)
    if n < _LEAST_PAIRS:
        return None
    gaps = [cheap - full for cheap, full, _ in pairs]
    bias = math.fsum(gaps) / n
    variance = math.fsum((gap - bias) ** 2 for gap in gaps) / (n - 1)
    noise = math.fsum(v for _, _, v in pairs) / n
    return StandIn(bias, math.sqrt(max(variance - noise, 0.0) + variance / n))
