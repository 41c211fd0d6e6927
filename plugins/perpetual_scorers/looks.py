"""The chance to decide with a look after each run, of both verdicts: by simulated runs, and count by count of rates.

Pure, and the same at each call: the draws are seeded. The rule is that of `perpetual.science.evidence` for one design,
without outliers. Imported by `perpetual_scorers.power`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from perpetual.science.evalues import Statistic, either, log_e
from perpetual.science.rates import Count
from perpetual_scorers.proposing.planning import Plan, Rates, bars, critical, rate_log_e, two_variances

__all__ = ["Chances", "chances"]

_EVERY_LOOK = 40  # from there on every twelfth part of the runs
_STEP = 0.4  # of the table of critical values, in logs
_MOST_NU = 1e5
_MOST_RHO = 0.9999
_RARE = 1e-6
_COUNTS = 9  # of the baseline, that stand for all
_FAR_ODDS = 14.0  # logs


class Chances(NamedTuple):
    """Chances within `n` runs: of each verdict before the other, and of each e-value of 20."""

    n: int
    support: float
    refute: float
    sure_support: float
    sure_refute: float


def chances(plan: Plan | Rates, runs: int, *, paths: int = 1000) -> list[Chances]:
    """Returns the chances after each number of runs up to `runs`; above 40 of every twelfth part more.

    Args:
        paths: how often runs are simulated: 1,000 give the chances to 1.6 points (one standard error). Rates need none.
    """
    looks = _looks(plan.least, runs)
    return _of_rates(plan, looks) if isinstance(plan, Rates) else _of_means(plan, looks, paths)


def _looks(least: int, runs: int) -> list[int]:
    found, n = [], max(least, 1)
    while n < runs:
        found.append(n)
        n += max(1, n // 12) if n >= _EVERY_LOOK else 1
    return [*found, max(runs, least, 1)]


def _summed(counts: Mapping[int, Sequence[float]], whole: float) -> list[Chances]:
    """Returns the chances up to each look, of what comes first at it."""
    totals, found = [0.0] * 4, []
    for n, each in counts.items():
        totals = [total + count / whole for total, count in zip(totals, each, strict=True)]
        found.append(Chances(n, *totals))
    return found


# --- means ------------------------------------------------------------------------------------------------------------


def _of_means(plan: Plan, looks: Sequence[int], paths: int) -> list[Chances]:
    counts = {n: [0] * 4 for n in looks}
    sides = (_Side(1.0, plan.null, *bars(plan, 1.0)), _Side(-1.0, -plan.mde, *bars(plan, -1.0)))
    for path in range(paths):
        is_decided = is_sure = False
        for n, found in _walk(plan, Random(f"{path}"), looks):
            for at, side in enumerate(sides):
                if not _passes(found, side, side.sure if is_decided else side.bar, plan.planned):
                    continue
                if _is_held(found, side, sides[1 - at], plan.planned):
                    continue
                counts[n][at] += not is_decided
                is_sure = _passes(found, side, side.sure, plan.planned)
                counts[n][2 + at] += is_sure
                is_decided = True
                break
            if is_sure:
                break
    return _summed(counts, paths)


class _Side(NamedTuple):
    """A verdict: its sign, the oriented effect that it exceeds, and the log e-values of it and of a sure one."""

    sign: float
    edge: float
    bar: float
    sure: float

    def of(self, found: Statistic) -> Statistic:
        """Returns the statistic of the oriented effect over the edge."""
        return found._replace(effect=self.sign * found.effect - self.edge)


def _walk(plan: Plan, rng: Random, looks: Sequence[int]) -> Iterator[tuple[int, list[Statistic]]]:
    """Yields at each look the statistics of the effect over nothing: of both arms, and of their pairs."""
    draw, sd, rho = rng.gauss, plan.sd, min(plan.rho or 0.0, _MOST_RHO)
    shared, apart = sd * math.sqrt(rho), sd * math.sqrt(1 - rho)
    shift, size = plan.effect + draw(0.0, plan.tau), plan.n_baseline or 0
    seeds = [draw(0.0, shared) for _ in range(size)]
    base = [seed + draw(0.0, apart) for seed in seeds]
    center = math.fsum(base) / size if size else draw(0.0, sd / math.sqrt(plan.typed_n)) if plan.typed_n else 0.0
    base_var = math.fsum((value - center) ** 2 for value in base) / max(size - 1, 1)
    pairs, wanted, fixed = size if plan.rho is not None else 0, {*looks}, plan.tau * plan.tau
    own, gaps, theirs, cross = (0.0, 0.0), (0.0, 0.0), 0.0, 0.0  # means with sums of squares, and of products
    for n in range(1, looks[-1] + 1):
        x = shift + (seeds[n - 1] + draw(0.0, apart) if n <= pairs else draw(0.0, sd))
        if n <= pairs:
            cross += (x - own[0]) * (base[n - 1] - theirs) * (n - 1) / n
            theirs += (base[n - 1] - theirs) / n
            gaps = _added(gaps, x - base[n - 1], n)
        own = _added(own, x, n)
        if n < 2 or n not in wanted:
            continue
        both = min(n, pairs)
        alone = two_variances(own[0] - center, n, own[1] / (n - 1), plan.n_baseline, base_var, typed_n=plan.typed_n,
                              fixed=fixed)  # fmt: skip
        covariance = cross / (both - 1) * both / (n * size) if both > 1 else 0.0
        if covariance < 0 or both == 2:  # seeds that pull apart make an effect less certain; two do not tell the way
            apart_v = alone.v - 2 * min(covariance, 0.0)
            alone = alone._replace(v=apart_v, nu=min(alone.nu, both - 1.0), n=alone.n * alone.v / apart_v)
        found = [alone]
        if both > 1:
            found.append(Statistic(gaps[0], gaps[1] / (both - 1) / both, both - 1.0, both, fixed))
        yield n, found


def _added(moments: tuple[float, float], value: float, n: int) -> tuple[float, float]:
    step = value - moments[0]
    return moments[0] + step / n, moments[1] + step * step * (n - 1) / n


def _weight(found: Sequence[Statistic], side: _Side, planned: float | None) -> float:
    logs = [log_e(side.of(each), planned=planned) for each in found]
    return either(*logs) if len(logs) > 1 else logs[0]


def _is_held(found: Sequence[Statistic], side: _Side, other: _Side, planned: float | None) -> bool:
    """Returns whether what speaks for the other verdict too keeps this one back."""
    if all(other.sign * each.effect - other.edge < math.sqrt(each.v) for each in found):
        return False
    return _weight(found, side, planned) - max(_weight(found, other, planned), 0.0) < side.bar


def _passes(found: Sequence[Statistic], side: _Side, bar: float, planned: float | None) -> bool:
    """Returns whether the log e-value, of pairs the mean of two e-values, is at least `bar`."""
    if not any(_is_beyond(each, side, bar, planned) for each in found):
        return False
    if len(found) == 1 or any(_is_beyond(each, side, bar + math.log(2), planned) for each in found):
        return True
    return _weight(found, side, planned) >= bar


def _is_beyond(found: Statistic, side: _Side, bar: float, planned: float | None) -> bool:
    effect = side.sign * found.effect - side.edge
    most = math.log(2) + (found.nu + 1) / 2 * math.log1p(effect * effect / found.v / found.nu)  # under any prior
    if effect <= 0 or most < bar:
        return False
    for each in [found, found.with_luck()] if found.fixed > 0 else [found]:
        t = effect / math.sqrt(each.v)
        if math.log(t) < _log_critical(min(each.nu, _MOST_NU), each.n, bar, planned):
            return False
    return True


def _log_critical(nu: float, n: float, bar: float, planned: float | None) -> float:
    """Returns `critical` between the nodes of a table."""
    (i, x), (j, y) = (divmod(math.log(each) / _STEP, 1.0) for each in (nu, n))
    corners = ((i, j, (1 - x) * (1 - y)), (i + 1, j, x * (1 - y)), (i, j + 1, (1 - x) * y), (i + 1, j + 1, x * y))
    return math.fsum(share * _node(a, b, bar, planned) for a, b, share in corners if share)


@lru_cache(maxsize=16_384)
def _node(i: float, j: float, bar: float, planned: float | None) -> float:
    return critical(Statistic(0.0, 1.0, math.exp(i * _STEP), math.exp(j * _STEP)), bar, planned)


# --- rates ------------------------------------------------------------------------------------------------------------


def _of_rates(plan: Rates, looks: Sequence[int]) -> list[Chances]:
    counts = {n: [0.0] * 4 for n in looks}
    against: list[Count | float] = [plan.baseline] if plan.trials is None else _likely(plan.baseline, plan.trials)
    for each in against:
        for at, levels in enumerate(zip(bars(plan, 1.0), bars(plan, -1.0), strict=True)):
            for n, found in _absorbed(plan, each, levels, looks):
                for side in (0, 1):
                    counts[n][2 * at + side] += found[side] / len(against)
    return _summed(counts, 1.0)


def _likely(rate: float, trials: int) -> list[Count | float]:
    """Returns counts of successes that stand for equal shares of all that may come."""
    found: list[Count | float] = []
    odds = math.log(rate / (1 - rate)) if 0 < rate < 1 else math.copysign(_FAR_ODDS, rate - 0.5)
    total, log_share = 0.0, -trials * (max(odds, 0.0) + math.log1p(math.exp(-abs(odds))))
    for k in range(trials + 1):
        total += math.exp(log_share)
        log_share += math.log((trials - k) / (k + 1)) + odds if k < trials else 0.0
        while len(found) < _COUNTS and total >= (len(found) + 0.5) / _COUNTS - _RARE:
            found.append(Count(k, trials))
    return found


def _absorbed(
    plan: Rates, against: Count | float, levels: tuple[float, float], looks: Sequence[int]
) -> Iterator[tuple[int, tuple[float, float]]]:
    """Yields at each look the shares of all ways that reach either level there first."""
    alive, up, down = {0: 1.0}, 0, 0
    for n in range(1, looks[-1] + 1):
        after: dict[int, float] = {}
        for k, share in alive.items():
            for more, p in ((0, 1 - plan.rate), (1, plan.rate)):
                if share * p > _RARE / looks[-1]:
                    after[k + more] = after.get(k + more, 0.0) + share * p
        alive = after
        if n not in looks:
            continue
        while up <= n and rate_log_e(plan, up, n, 1.0, against) < levels[0]:
            up += 1
        while down <= n and rate_log_e(plan, down, n, -1.0, against) < levels[1]:
            down += 1
        above, below = [k for k in alive if k >= up], [k for k in alive if n - k >= down and k < up]
        yield n, (math.fsum(alive.pop(k) for k in above), math.fsum(alive.pop(k) for k in below))
