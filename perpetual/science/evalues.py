"""E-values of effects whose noise is unknown: valid at every look, whatever the noise, the seeds and the baseline's.

Pure. Imported by `perpetual.science.evidence`, `judge` and by previews. Effects are oriented (bigger = more in favour)
and differenced from the baseline's mean, in the metric's units; logarithms are natural.

The e-value of an effect above a boundary is a ratio of two densities of the t statistic: effects of standard size
delta > 0, under priors of several scales, against none. With one noise for both arms it is the right-Haar
ratio, a supermartingale for every effect at or below the boundary and every noise. Sources: Perez-Ortiz, Lardy, de
Heide and Gruenwald (2024), E-statistics, group invariance and anytime-valid testing, Annals of Statistics 52; Wang and
Ramdas (2025), Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance, Sequential
Analysis 44. Where the arms' noises may differ the statistic is Welch's with borrowed degrees of freedom, an
approximation. The share of the stake that is never bet (`CASH`) pays for its error in how often an e-value is ever 20.
On average it is above 1 where an arm of 2 to 4 runs is four times as noisy as the other or more (up to 1.9, cut at 50),
so no product may be made of it: see `is_factor` of `two_arms`. `make bench-science` measures both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from perpetual.science.intervals import student_quantile

__all__ = ["CASH", "Arm", "Statistic", "arm", "either", "half_width", "log_e", "paired", "two_arms", "winsorised"]

CASH = 0.1  # share of the stake that is kept: pays for Welch's approximation, and bounds a loss
# Half-normal priors of effects in units of the noise, and their weights. A bump of scale b is twice the half-normal of
# b less that of b / 2: a prior that is none at no effect and highest at about b. Those of 0.5, 1, 2 and 4 have the
# weights 0.2, 0.35, 0.25 and 0.1; the largest effects are a half-normal's. Effects that are next to none would else
# take half of the stake: Johnson and Rossell (2010), On the use of non-local prior densities, JRSS B 72.
SCALES = ((0.25, -0.2), (0.5, 0.05), (1.0, 0.45), (2.0, 0.4), (4.0, 0.2), (12.0, 0.1))
PLANNED = ((0.5, -0.5), (1.0, 1.0))  # half of the stake on a bump at a declared effect, if its noise was declared
INTERVAL_SCALES = ((1.0, 0.4), (4.0, 0.3), (400.0, 0.3))  # of the confidence sequence
INTERVAL_SHARE = 0.7  # of alpha: pays for Welch's approximation, as CASH does
_LEAST_PLANNED = 1e-6  # in units of the noise; beyond either end a plan says nothing
_WIDEST = 27.0  # of log(1 + t^2 / nu)
_STEPS = 60
_NARROW = 1e-7
CLUSTERS = 4  # from so many designs on, their spread replaces that of their runs where it is larger
_FEWER_CLUSTERS = 2.0  # below, only where it is so many times larger
OUTLIER_SD = 6.0
_OUTLIER_TAIL = 1e-4
_OUTLIER_DF = 3
_FEW_PAIRS = (2,)  # so few do not tell which way shared seeds pull
_OWN_TAIL = 5e-3
_OUTLIER_SHARE = 5  # one of so many runs of an arm may be an outlier, and always one
_MANY_DF = 20.0
_MOST_DF = 1e6
_FAR_Z = 35.0  # beyond, the normal tail is its own asymptotic series
_FRACTION_TERMS = 12
_LEAST = 1e-24  # a variance below this share of the effect's square is a rounding error


class Arm(NamedTuple):
    """Runs of one arm: how many, their mean, the sum of squares about it."""

    n: int
    mean: float
    ss: float


class Statistic(NamedTuple):
    """A t statistic's parts.

    The effect over the boundary, its variance as measured and with how many degrees of freedom, the effective number of
    runs, and the variance that was declared, which is taken as known.
    """

    effect: float
    v: float
    nu: float
    n: float
    fixed: float = 0.0

    @property
    def t(self) -> float:
        """Returns the statistic of what was measured alone."""
        return self.effect / math.sqrt(self.v)

    def with_luck(self) -> Statistic:
        """Returns the statistic whose variance holds the declared one too.

        Effects are counted in units of the noise or of the luck, whichever is larger: beside much luck an effect of
        many times a small noise is nothing special.
        """
        whole = self.v + self.fixed
        nu = min(self.nu * (whole / self.v) ** 2, _MOST_DF)
        return Statistic(self.effect, whole, nu, max(self.n * self.v, self.fixed) / whole)


def arm(values: Sequence[float]) -> Arm:
    """Returns the moments of one value at least."""
    mean = math.fsum(values) / len(values)
    return Arm(len(values), mean, math.fsum((value - mean) ** 2 for value in values))


def log_e(found: Statistic | None, *, planned: float | None = None) -> float:
    """Returns the log e-value (nats) of an effect above the boundary; 0 where nothing can be said.

    Args:
        found: the statistic of the effect over the boundary.
        planned: the effect that was planned for, in units of a noise that was declared before any run. A wrong one
            costs power, and no validity.
    """
    if found is None:
        return 0.0
    scales: Sequence[tuple[float, float]] = SCALES
    if planned is not None:
        planned = min(max(planned, _LEAST_PLANNED), 1 / _LEAST_PLANNED)
        share = 1 - math.fsum(weight for _, weight in PLANNED)
        scales = [*((planned * scale, weight) for scale, weight in PLANNED), *((s, w * share) for s, w in SCALES)]
    if found.fixed > 0:
        # Luck that was declared counts beside the noise, and never makes the noise better known than it was measured.
        noise = found.n * found.v
        beside = planned and planned * math.sqrt(noise / max(noise, found.fixed))  # in units of the luck
        return min(log_e(found._replace(fixed=0.0), planned=planned), log_e(found.with_luck(), planned=beside))
    t, df, n = found.t, found.nu + 1, found.n
    x, half = t * t / found.nu, df / 2
    logs = []
    for scale, _ in scales:  # the ratio of densities of t: effects under a half-normal prior against none
        more = n * scale * scale
        far = x * more / (1 + more + x)
        gain = math.log1p(far)
        tail = _log_tail(far, gain, df)
        logs.append(half * gain + (math.log1p(-math.exp(tail)) if t > 0 else tail) - math.log1p(more) / 2)
    peak = max(0.0, *logs)
    ratio = math.fsum([weight * math.exp(each - peak) for (_, weight), each in zip(scales, logs, strict=True)])
    kept = CASH * math.exp(-peak)
    return peak + math.log(kept + max(2 * (1 - CASH) * ratio, 0.0)) if kept > 0 or ratio > 0 else math.log(CASH)


def _log_tail(far: float, log_far: float, nu: float) -> float:
    """Returns log P(T > t) of Student's t, t >= 0, to about 1e-9, however far out.

    Near the middle and from 20 degrees of freedom on it is the normal tail at Hill's deviate (1970, Algorithm 395,
    Communications of the ACM 13), else the continued fraction of the incomplete beta function.

    Args:
        far: t^2 / nu.
        log_far: log(1 + far).
        nu: degrees of freedom.
    """
    if nu >= _MANY_DF and far < 1:
        a = nu - 0.5
        b, y = 48 * a * a, a * log_far
        z = (((((-0.4 * y - 3.3) * y - 24) * y - 85.5) / (0.8 * y * y + 100 + b) + y + 3) / b + 1) * math.sqrt(y)
        if z < _FAR_Z:
            return math.log(math.erfc(z / math.sqrt(2)) / 2)
        return -z * z / 2 - math.log(z * math.sqrt(2 * math.pi)) + math.log1p(-1 / z**2 + 3 / z**4 - 15 / z**6)
    a, y = nu / 2, far / (1 + far)
    is_far = (1 - y) * (a + 2.5) < a + 1
    front, terms = _beta_parts(a, 0.5) if is_far else _beta_parts(0.5, a)
    x, fraction = 1 / (1 + far) if is_far else y, 1.0
    for term in terms:
        fraction = 1.0 + term * x / fraction
    front -= a * log_far
    if is_far:
        return front + math.log(y) / 2 - math.log(2 * a * fraction)
    return math.log(0.5 - math.exp(front) * math.sqrt(y) / fraction)


@lru_cache(maxsize=1024)
def _beta_parts(a: float, b: float) -> tuple[float, list[float]]:
    """Returns log 1 / B(a, b), and the terms of the incomplete beta function's continued fraction, the last first."""
    terms: list[float] = []
    for m in range(1, _FRACTION_TERMS):
        c = a + 2 * m
        terms += [-(a + m - 1) * (a + b + m - 1) / ((c - 2) * (c - 1)), m * (b - m) / ((c - 1) * c)]
    return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b), terms[::-1]


def _log_sum(logs: Sequence[float]) -> float:
    peak = max(logs)
    return peak + math.log(sum([math.exp(each - peak) for each in logs]))


def either(*logs: float) -> float:
    """Returns the log of the mean of e-values given by their logs: an e-value, which the best of them is not."""
    return _log_sum(logs) - math.log(len(logs))


def two_arms(
    own: Sequence[Sequence[float]],
    baseline: Arm | None,
    *,
    seeds: Sequence[Sequence[object]] = (),
    typed_n: float | None = None,
    tau: float = 0.0,
    luck: float = 0.0,
    covariance: float = 0.0,
    pairs: int = 0,
    is_factor: bool = False,
    beside: Sequence[tuple[float, float]] = (),
) -> Statistic | None:
    """Returns the statistic of the designs that share one baseline, as one arm against it; None where it is mute.

    One run of an arm says nothing of its noise, so an arm of one run borrows the other's, and a claim of one run is
    mute.

    Args:
        own: values over the boundary, by design.
        baseline: its moments; None for a number.
        seeds: of the values, in their shape: runs of several designs on one seed are one draw of its luck.
        typed_n: how many runs a number was measured with; None takes it as exact.
        tau: sd between implementations, which the runs of one design share.
        luck: sd that all runs share, such as that of the items they are tested on.
        covariance: of both arms' means. A negative one counts: seeds that pull the arms apart make an effect less
            certain.
        pairs: seeds that both arms share, by which the covariance is known.
        is_factor: whether the e-value is to be multiplied with others. Then each arm has its own variance, and t the
            fewer degrees of freedom: it is never wider than Student's with as many (Mickey and Brown 1966, Annals of
            Mathematical Statistics 37). e was 0.4 to 1.0 on average in arms of 2 to 8 runs, one up to 8 times as noisy.
        beside: further variances of the mean with their degrees of freedom, see `perpetual.science.stopped`.
    """
    values = [value for design in own for value in design]
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    v_own, nu_own = _variance_of_mean(own, seeds, mean)
    if nu_own <= 0:
        return None
    fixed = tau * tau * math.fsum((len(design) / n) ** 2 for design in own) + luck * luck
    runs = nu_own + 1
    if baseline is None or baseline.n < 2 or baseline.ss <= 0:  # runs that measured the same are one run, seen again
        others, against = (typed_n, 0.0) if baseline is None else (1.0, baseline.mean)
        v_random = v_own * (1 + runs / others) if others else v_own
        effective = 1 / (1 / runs + (1 / others if others else 0.0))
        return _statistic(mean - against, [(v_random, nu_own), *beside], fixed, effective)
    nu_base = baseline.n - 1.0
    own_var, base_var = v_own * runs, baseline.ss / nu_base
    pooled = (own_var * nu_own + baseline.ss) / (nu_own + nu_base)
    # The arm that shows less noise is taken to have the pooled one, which is larger, and at most twice its own degrees
    # of freedom: two runs that lie close by chance would else pass for an arm without noise.
    if is_factor:
        shares = [(v_own, nu_own), (base_var / baseline.n, nu_base)]
    elif own_var >= base_var:
        shares = [(v_own, nu_own), (pooled / baseline.n, _borrowed(nu_base, nu_own))]
    else:
        shares = [(pooled / runs, _borrowed(nu_own, nu_base)), (base_var / baseline.n, nu_base)]
    # Effects are counted in units of the larger noise, so that runs of the less noisy arm do not count as its runs.
    shares = [*shares, *beside]
    v_random = math.fsum(v for v, _ in shares)
    found = _statistic(mean - baseline.mean, shares, fixed, max(own_var, base_var) / v_random if v_random > 0 else 0.0)
    if found is not None and is_factor:
        found = found._replace(nu=min(nu_own, nu_base))
    if found is None or (covariance >= 0 and pairs not in _FEW_PAIRS):
        return found
    apart = found.v - 2 * min(covariance, 0.0)
    return found._replace(v=apart, nu=min(found.nu, pairs - 1.0), n=found.n * found.v / apart)


def _borrowed(own: float, other: float) -> float:
    return min(2 * own, own + other)


def _variance_of_mean(
    own: Sequence[Sequence[float]], seeds: Sequence[Sequence[object]], mean: float
) -> tuple[float, float]:
    """Returns the variance of the mean of all runs, and its degrees of freedom."""
    draws = _by_seed(own, seeds)
    n = len(draws)
    center = math.fsum(draws) / n
    v, nu = (math.fsum((x - center) ** 2 for x in draws) / (n - 1) / n, n - 1.0) if n > 1 else (0.0, 0.0)
    k = sum(1 for design in own if design)
    if k > 1:
        total = sum(len(design) for design in own)
        spread = math.fsum((math.fsum(x - mean for x in design) / total) ** 2 for design in own) * k / (k - 1)
        if spread > v * (1.0 if k >= CLUSTERS else _FEWER_CLUSTERS):
            return spread, k - 1.0
    return v, nu


def _by_seed(own: Sequence[Sequence[float]], seeds: Sequence[Sequence[object]]) -> list[float]:
    """Returns one value a draw: runs on one seed are averaged."""
    known = [seed for each in seeds for seed in each if seed is not None]
    if len({*known}) == len(known):
        return [value for design in own for value in design]
    draws: dict[object, list[float]] = {}
    for place, design in enumerate(own):
        for at, value in enumerate(design):
            seed = seeds[place][at] if seeds else None
            draws.setdefault((place, at) if seed is None else ("seed", seed), []).append(value)
    return [math.fsum(found) / len(found) for found in draws.values()]


def _statistic(
    effect: float, shares: Sequence[tuple[float, float]], fixed: float, effective: float
) -> Statistic | None:
    """Returns the statistic with Satterthwaite's degrees of freedom; None without any noise."""
    random = math.fsum(v for v, _ in shares)
    if random <= _LEAST * (effect * effect + fixed) or not math.isfinite(random + fixed):
        return None
    nu = 1 / math.fsum((share / random) ** 2 / nu for share, nu in shares if share > 0)
    return Statistic(effect, random, nu, effective, fixed)


def paired(
    pairs: Sequence[float], *, tau: float = 0.0, luck: float = 0.0, beside: Sequence[tuple[float, float]] = ()
) -> Statistic | None:
    """Returns the statistic of differences on shared seeds, one a seed."""
    if len(pairs) < 2:
        return None
    n, mean, ss = arm(pairs)
    return _statistic(mean, [(ss / (n - 1) / n, n - 1.0), *beside], tau * tau + luck * luck, n)


def half_width(found: Statistic | None, alpha: float = 0.05) -> float | None:
    """Returns half the width of the confidence sequence at 1 - alpha: it covers the effect at all looks at once.

    It inverts the two-sided ratio under normal priors on the effect in units of the noise. None where nothing is known.
    """
    if found is None:
        return None
    if found.fixed > 0:
        widths = [half_width(each, alpha) for each in (found._replace(fixed=0.0), found.with_luck())]
        return None if None in widths else max(width for width in widths if width is not None)
    spreads = [1 + found.n * scale * scale for scale, _ in INTERVAL_SCALES]
    terms = [(each, math.log(w) - math.log(each) / 2) for each, (_, w) in zip(spreads, INTERVAL_SCALES, strict=True)]
    power, bar = (found.nu + 1) / 2, -math.log(alpha * INTERVAL_SHARE)

    def excess(log_x: float) -> float:
        x = math.expm1(log_x)
        return power * log_x - bar + _log_sum([weight - power * math.log1p(x / spread) for spread, weight in terms])

    high = (bar + math.log(spreads[0])) / power
    while excess(high) < 0:
        high *= 2
        if high > _WIDEST:
            return None
    return math.sqrt(found.v * found.nu * math.expm1(_root(excess, 0.0, high)))


def _root(rises: Callable[[float], float], low: float, high: float) -> float:
    """Returns where a rising function passes 0, from above, by the method of Illinois."""
    at_low, at_high, was = rises(low), rises(high), 0
    for _ in range(_STEPS):
        if high - low <= _NARROW * high or at_high <= _NARROW:
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if (found := rises(middle)) < 0:
            low, at_low, at_high, was = middle, found, at_high / 2 if was < 0 else at_high, -1
        else:
            high, at_high, at_low, was = middle, found, at_low / 2 if was > 0 else at_low, 1
    return high


def winsorised(arms: Sequence[Sequence[float]]) -> tuple[list[list[float]], int]:
    """Returns the arms with outliers moved to the nearest other value of their arm, and how many were moved.

    An outlier lies farther from the mean of its arm's other runs than 6 sd and than all but 1 in 10,000 values of
    Student's t would, the sd pooled over all arms without it. At most a fifth of an arm is moved, and always one may
    be. Declared before any run: the rule looks at no verdict.
    """
    found, moved = [[*values] for values in arms], 0
    for place, values in enumerate(found):
        for _ in range(max(1, len(values) // _OUTLIER_SHARE)):
            index = _outlier(found, place)
            if index is None:
                break
            others = [value for at, value in enumerate(values) if at != index]
            values[index] = min(others, key=lambda other, far=values[index]: abs(other - far))  # type: ignore[misc]
            moved += 1
    return found, moved


def _outlier(arms: Sequence[Sequence[float]], place: int) -> int | None:
    values = arms[place]
    if len(values) < 4:
        return None
    middle = sorted(values)[len(values) // 2]
    index = max(range(len(values)), key=lambda at: abs(values[at] - middle))
    rest = arm([value for at, value in enumerate(values) if at != index])
    others = [arm(each) for at, each in enumerate(arms) if at != place and len(each) > 1]
    nu = rest.n - 1 + sum(other.n - 1 for other in others)
    s2 = (rest.ss + math.fsum(other.ss for other in others)) / nu if nu else 0.0
    if nu < _OUTLIER_DF or s2 <= 0:
        return None
    distance = abs(values[index] - rest.mean) / math.sqrt(1 + 1 / rest.n)
    if distance <= max(OUTLIER_SD, student_quantile(1 - _OUTLIER_TAIL, float(nu))) * math.sqrt(s2):
        return None
    # An arm that is noisier than the other one has no outlier for that: the distance is far in its own terms too.
    own = math.sqrt(rest.ss / (rest.n - 1))
    far = distance > max(OUTLIER_SD, student_quantile(1 - _OWN_TAIL, float(rest.n - 1))) * own
    return index if far else None
