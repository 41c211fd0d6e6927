"""What designs that share a baseline say together: log e-values in both directions, and the effect with its interval.

Pure. Imported by `perpetual.science.evidence`. A design's values are oriented and differenced from the mean of its
baseline. Designs with one baseline are weighed as one arm against it: their product would count its luck once each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perpetual.science.evalues import Arm, Statistic, arm, either, half_width, log_e, paired, two_arms, winsorised
from perpetual.science.intervals import Interval
from perpetual.science.rates import MOST_TRIALS, Count, log_e_above, rate_interval
from perpetual.science.stopped import filled

if TYPE_CHECKING:
    Design = Mapping[str, Any]

__all__ = ["Measured", "Said", "effect_interval", "shrunk", "weigh_designs", "weigh_rates"]


class Measured(NamedTuple):
    """The values of one design, each with its seed, and the last values of its runs that gave none."""

    values: list[float]
    seeds: list[object]
    lost: list[float | None]


class Said(NamedTuple):
    """What was found: log e-values (nats), runs that count, outliers moved, the effect and its 95 % bounds."""

    support: float
    refute: float
    n: int
    outliers: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    statistic: Statistic | None = None  # of the effect over nothing
    held: tuple[float, float] = (0.0, 0.0)  # nats that runs without a value take from the two


_WILD = 1e100  # more is cut: the square must be finite
_Lost = tuple[list["float | None"], list["float | None"]]  # last values of runs that gave none, by arm


class _Arms(NamedTuple):
    """One reading of the runs: values by design with their seeds, and the baseline's with theirs."""

    own: list[list[float]]
    seeds: list[list[object]]
    base: list[float]
    base_seeds: list[object]
    tamed: tuple[_Arms, int] | None = None  # without its outliers, and how many there were, once that is known
    lost_pairs: tuple[tuple[float, float], ...] = ()  # each lost run with the mean of the other arm
    beside: tuple[tuple[float, float], ...] = ()  # variances of the claim's mean for runs stopped early, with their df


class _Terms(NamedTuple):
    """What the designs declare."""

    tau: float
    luck: float
    typed_n: float | None
    is_paired: bool
    planned: float | None
    moments: Arm | None  # of a baseline whose values are not at hand
    is_factor: bool = False


def weigh_designs(
    designs: Sequence[Design],
    measured: Sequence[Measured],
    terms: tuple[float, float | None],
    is_factor: bool = False,
) -> Said:
    """Returns what designs of one baseline, metric and noise say of their effects.

    Args:
        designs: of model gaussian or any; `mu1` and `mu0`, or `null`, are the boundaries, see `confidence`.
        measured: the values of each.
        terms: the sd between implementations, and the noise that was declared, or None.
        is_factor: whether the e-values are to be multiplied with those of another baseline, see `two_arms`.
    """
    first = designs[0]
    tau, noise = terms
    gap = _number(first, "mu1") - _number(first, "mu0")
    settings = _Terms(
        tau,
        max(abs(_number(each, "luck")) for each in designs),
        _typed_n(first),
        bool(first.get("paired")),
        abs(gap) / noise if noise and gap else None,
        _moments(first),
        is_factor,
    )
    base = [value for value in _numbers(first, "baseline") if value is not None]
    arms = _Arms(
        [each.values for each in measured],
        [each.seeds for each in measured],
        base,
        [*(first.get("baseline_seeds") or [None] * len(base))],
    )
    n = sum(len(own) for own in arms.own)
    arms, unknown = _with_stopped(arms, designs)
    arms = arms._replace(tamed=_tamed(arms))
    up, down = _boundaries(designs, first)
    lost = [value for each in designs for value in _numbers(each, "lost")], _numbers(first, "baseline_lost")
    lost[0].extend([None] * unknown)
    sign = -1.0 if gap < 0 else 1.0
    support, refute = free, unheld = _both_ways(arms, settings, sign, up, down, lost)
    if lost[0] or lost[1]:
        free, unheld = _both_ways(arms, settings, sign, up, down, ([], []))
    tamed, moved = _tamed(arms)
    return Said(support, refute, n, moved, *_effect(tamed, settings), (free - support, unheld - refute))


def _both_ways(
    arms: _Arms, settings: _Terms, sign: float, up: list[float] | None, down: list[float] | None, lost: _Lost
) -> tuple[float, float]:
    """Returns the log e-values for and against; runs that are lost count at the worst value seen."""
    none = [0.0] * len(arms.own)
    if up is not None:
        return _worst(arms, settings, sign, up, lost), _worst(arms, settings, -sign, down or none, lost)
    support = either(*(_worst(arms, settings, way, none, lost) for way in (1.0, -1.0)))  # some effect, of no direction
    if down is None:
        return support, 0.0
    # Within both edges: above the lower and below the upper one.
    return support, min(_worst(arms, settings, way, [-way * edge for edge in down], lost) for way in (1.0, -1.0))


def _boundaries(designs: Sequence[Design], first: Design) -> tuple[list[float] | None, list[float] | None]:
    """Returns by design the effects that a support and that a refutation are tested against."""
    mde = first.get("mde")
    if first.get("model") == "any":
        if not first.get("one_sided"):
            return None, [_number(first, "mde")] * len(designs) if mde is not None else None
        return [0.0] * len(designs), [_number(each, "mde") for each in designs]
    return (
        [_number(each, "null", _number(each, "mu0")) for each in designs],
        [_number(each, "mu1") for each in designs],
    )


def _number(design: Design, key: str, default: float = 0.0) -> float:
    value = design.get(key)
    return default if value is None else _finite(value, key)


def _numbers(design: Design, key: str) -> list[float | None]:
    return [None if value is None else _finite(value, key) for value in design.get(key) or ()]


def _finite(value: object, key: str) -> float:
    """Returns a number, cut to what can be squared. Raises ValueError for what is none."""
    if not isinstance(value, int | float) or math.isnan(value) or abs(value) == math.inf:
        raise ValueError(f"{key} must hold finite numbers, not {value!r}")
    return float(min(max(value, -_WILD), _WILD))


def _typed_n(design: Design) -> float | None:
    n = _number(design, "typed_n", math.inf)
    if n <= 0:
        raise ValueError(f"typed_n must be above 0, not {n:g}")
    return None if n == math.inf else n


def _moments(design: Design) -> Arm | None:
    n = int(_number(design, "baseline_n"))
    return Arm(n, 0.0, _number(design, "baseline_ss")) if n > 0 and not design.get("baseline") else None


def _worst(arms: _Arms, settings: _Terms, sign: float, edges: Sequence[float], lost: _Lost) -> float:
    """Returns the log e-value in one direction, the smaller one with each lost run at the worst value seen.

    Of the claim's runs that is the worst one in either arm, of the baseline's the best of its own; a baseline that is a
    number was seen at that number. Runs that are lost because they look bad select. Under the second reading they
    cannot.
    """
    found = _reading(arms, settings, sign, edges, ([], []))
    if not (lost[0] or lost[1]) or found <= 0:
        return found
    return min(found, _reading(arms, settings, sign, edges, lost))


def _with_stopped(arms: _Arms, designs: Sequence[Design]) -> tuple[_Arms, int]:
    """Returns the arms with what stands for runs that were stopped early, see `perpetual.science.stopped`.

    Also of how many of the claim's nothing can be said, since too few are complete: they are lost.
    """
    if not any(design.get("stopped") or design.get("baseline_stopped") for design in designs):
        return arms, 0
    unknown = 0
    others = _at_rung(designs[0], "baseline_rung", arms.base_seeds, arms.base)
    own, seeds, found = [*arms.own], [*arms.seeds], []
    for place, design in enumerate(designs):
        stopped = [(seed, _finite(value, "stopped")) for seed, value in design.get("stopped") or ()]
        complete = _at_rung(design, "rung", seeds[place], own[place])
        put = filled(complete, [value for _, value in stopped], others, n=len(own[place]) + len(stopped))
        if put is not None:
            own[place], seeds[place] = [*own[place], *put.values], [*seeds[place], *(seed for seed, _ in stopped)]
            found.append((place, put))
        unknown += len(stopped) if put is None else 0
    n = sum(len(values) for values in own)
    beside = [(put.v * (len(own[place]) / n) ** 2, put.nu) for place, put in found]
    base, base_seeds = arms.base, arms.base_seeds
    late = [(seed, _finite(value, "baseline_stopped")) for seed, value in designs[0].get("baseline_stopped") or ()]
    first = _at_rung(designs[0], "rung", arms.seeds[0], arms.own[0])
    put = filled(others, [value for _, value in late], first, n=len(base) + len(late))
    if put is not None:
        base, base_seeds = [*base, *put.values], [*base_seeds, *(seed for seed, _ in late)]
        beside.append((put.v, put.nu))
    return arms._replace(own=own, seeds=seeds, base=base, base_seeds=base_seeds, beside=tuple(beside)), unknown


def _at_rung(design: Design, key: str, seeds: Sequence[object], values: Sequence[float]) -> list[tuple[float, float]]:
    """Returns the value at the rung and the last one of each run of which both are known."""
    rung = {seed: _finite(value, key) for seed, value in design.get(key) or ()}
    return [(rung[seed], value) for seed, value in zip(seeds, values, strict=True) if seed in rung]


def _imputed(arms: _Arms, sign: float, lost: _Lost) -> _Arms:
    """Returns the arms with each lost run at the worst value seen."""
    own_lost, base_lost = lost
    measured = [value for own in arms.own for value in own]
    if not (own_lost or base_lost) or not measured:
        return arms
    seen = measured + (arms.base or [0.0])
    bad, good = (min, max) if sign > 0 else (max, min)
    own = [[*values] for values in arms.own]
    own[0] += [bad(bad(seen), seen[0] if last is None else last) for last in own_lost]
    best = good(arms.base) if arms.base else 0.0
    base = arms.base + [best if last is None else good(best, last) for last in base_lost if arms.base]
    middle, other = math.fsum(measured) / len(measured), math.fsum(arms.base) / max(len(arms.base), 1)
    pairs = [(value, other) for value in own[0][len(arms.own[0]) :]]
    return _Arms(
        own,
        [arms.seeds[0] + [None] * len(own_lost), *arms.seeds[1:]],
        base,
        arms.base_seeds + [None] * (len(base) - len(arms.base)),
        lost_pairs=(*pairs, *((middle, value) for value in base[len(arms.base) :])),
        beside=arms.beside,
    )


def _reading(arms: _Arms, settings: _Terms, sign: float, edges: Sequence[float], lost: _Lost) -> float:
    """Returns the log e-value of effects beyond the edges, in one direction: a mean with and without outliers.

    Lost runs come after: at the worst value they are not to be moved back as outliers.
    """
    found = _log_e(_imputed(arms, sign, lost), settings, sign, edges)
    tamed, moved = _tamed(arms)
    return either(found, _log_e(_imputed(tamed, sign, lost), settings, sign, edges)) if moved else found


def _tamed(arms: _Arms) -> tuple[_Arms, int]:
    if arms.tamed is not None:
        return arms.tamed
    found, moved = winsorised([*arms.own, arms.base])
    return (arms._replace(own=found[:-1], base=found[-1]), moved) if moved else (arms, 0)


def _log_e(arms: _Arms, settings: _Terms, sign: float, edges: Sequence[float]) -> float:
    own = [[sign * (value - edge) for value in values] for values, edge in zip(arms.own, edges, strict=True)]
    base = arm([sign * value for value in arms.base]) if arms.base else settings.moments
    pairs, covariance = _pairs(arms, own, sign)
    alone = log_e(
        two_arms(own, base, seeds=arms.seeds, typed_n=settings.typed_n, tau=settings.tau, luck=settings.luck,
                 covariance=covariance, pairs=len(pairs), is_factor=settings.is_factor, beside=arms.beside),
        planned=settings.planned,
    )  # fmt: skip
    if not settings.is_paired or len(pairs) < 2:
        return alone
    # A run that is lost is a pair that is lost, whichever seed it had.
    pairs = [*pairs, *(sign * (mine - edges[0] - theirs) for mine, theirs in arms.lost_pairs)]
    together = paired(pairs, tau=_tau_of_mean(settings.tau, own), luck=settings.luck, beside=arms.beside)
    # A fixed mean of the two, which is an e-value; the better of them would not be one.
    return either(alone, log_e(together, planned=settings.planned))


def _tau_of_mean(tau: float, own: Sequence[Sequence[float]]) -> float:
    return tau / math.sqrt(max(sum(1 for values in own if values), 1))


def _pairs(arms: _Arms, own: Sequence[Sequence[float]], sign: float) -> tuple[list[float], float]:
    """Returns the differences on the seeds that both arms share, one a seed, and the covariance of the arms' means."""
    theirs = {seed: sign * value for seed, value in zip(arms.base_seeds, arms.base, strict=True) if seed is not None}
    mine: dict[object, list[float]] = {}
    if theirs:
        for values, seeds in zip(own, arms.seeds, strict=True):
            for value, seed in zip(values, seeds, strict=True):
                if seed in theirs:
                    mine.setdefault(seed, []).append(value)
    if len(mine) < 2:
        return [], 0.0
    draws = [(math.fsum(found) / len(found), theirs[seed]) for seed, found in mine.items()]
    n = len(draws)
    mean_x, mean_y = (math.fsum(each[side] for each in draws) / n for side in (0, 1))
    cross = math.fsum((x - mean_x) * (y - mean_y) for x, y in draws) / (n - 1)
    count = len({seed for seeds in arms.seeds for seed in seeds}) or n
    return [x - y for x, y in draws], cross * n / (max(count, n) * len(arms.base))


def _effect(arms: _Arms, settings: _Terms) -> tuple[float | None, float | None, float | None, Statistic | None]:
    """Returns the effect over nothing and its confidence sequence, of both arms and of their pairs."""
    values = [value for own in arms.own for value in own]
    if not values:
        return None, None, None, None
    base = arm(arms.base) if arms.base else settings.moments
    value = math.fsum(values) / len(values) - (base.mean if base else 0.0)
    pairs, covariance = _pairs(arms, arms.own, 1.0)
    alone = two_arms(arms.own, base, seeds=arms.seeds, typed_n=settings.typed_n, tau=settings.tau, luck=settings.luck,
                     covariance=covariance, pairs=len(pairs), beside=arms.beside)  # fmt: skip
    if not settings.is_paired or len(pairs) < 2:
        return (value, *_around(value, alone, 0.05), alone)
    together = paired(pairs, tau=_tau_of_mean(settings.tau, arms.own), luck=settings.luck, beside=arms.beside)
    if together is None:  # the pairs do not differ among each other, and show no noise
        return (value, *_around(value, alone, 0.05), alone)
    own = math.fsum(pairs) / len(pairs)
    bounds = [_around(value, alone, 0.025), _around(own, together, 0.025)]
    low = max((each for each, _ in bounds if each is not None), default=None)
    high = min((each for _, each in bounds if each is not None), default=None)
    if low is not None and high is not None and low > high:  # as no sample of one effect would have it
        low, high = bounds[1]
    return own, low, high, together


def _around(value: float, found: Statistic | None, alpha: float) -> tuple[float | None, float | None]:
    reach = half_width(found, alpha)
    return (None, None) if reach is None else (value - reach, value + reach)


def weigh_rates(design: Design, values: Sequence[float], lost: int = 0) -> Said:
    """Returns what a design's successes say of its rate, beside `baseline_count` [successes, trials] or a `rate`.

    Values, counts and rates are oriented: a success is what is claimed to become more frequent. Of `lost` runs, and of
    `baseline_lost`, each counts as what speaks against the verdict.
    """
    own, against = Count(math.fsum(values), len(values)), _rate(design)
    if not own.n or (isinstance(against, Count) and not against.n):
        return Said(0.0, 0.0, len(values))
    base_lost = len(design.get("baseline_lost") or ()) if isinstance(against, Count) else 0
    support, refute = free, unheld = _rates_both_ways(design, own, against)
    if lost or base_lost:
        good = Count(own.k, own.n + lost), _with(against, base_lost, base_lost)
        bad = Count(own.k + lost, own.n + lost), _with(against, 0, base_lost)
        found = [_rates_both_ways(design, *each) for each in (good, bad)]
        support, refute = (min(each) for each in zip((free, unheld), *found, strict=True))
    low, high = rate_interval(own, against)
    value = own.rate - (against.rate if isinstance(against, Count) else against)
    return Said(support, refute, len(values), 0, value, low, high, None, (free - support, unheld - refute))


def _rates_both_ways(design: Design, own: Count, against: Count | float) -> tuple[float, float]:
    """Returns the log e-values for and against, of one reading of what was lost."""
    null, mde, others = _number(design, "null"), _number(design, "mde"), _failures(against)
    support, refute = log_e_above(own, against, null), log_e_above(own.failures, others, -mde)
    if design.get("one_sided") is False:  # some difference, of no direction
        support = either(support, log_e_above(own.failures, others, -null))
        refute = min(refute, log_e_above(own, against, -mde)) if mde else 0.0
    return support, refute


def _with(against: Count | float, k: int, n: int) -> Count | float:
    return Count(against.k + k, against.n + n) if isinstance(against, Count) else against


def _rate(design: Design) -> Count | float:
    """Returns what a rate is compared with. Raises ValueError for what is no rate."""
    if design.get("baseline_count") is None:
        rate = _number(design, "rate")
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must lie between 0 and 1, not {rate:g}")
        return rate
    k, n = (_finite(each, "baseline_count") for each in design["baseline_count"])
    if not 0 <= k <= n:
        raise ValueError(f"baseline_count must be successes among trials, not {k:g} of {n:g}")
    return Count(k / n * MOST_TRIALS, MOST_TRIALS) if n > MOST_TRIALS else Count(k, n)


def _failures(against: Count | float) -> Count | float:
    return against.failures if isinstance(against, Count) else 1 - against


def effect_interval(
    own: Sequence[tuple[object, float]],
    baseline: Sequence[tuple[object, float]] | float,
    *,
    tau: float = 0.0,
    luck: float = 0.0,
    typed_n: float | None = None,
    is_rate: bool = False,
    planned: float | None = None,
    stopped: Design | None = None,
) -> tuple[Interval, str, float | None]:
    """Returns the effect of one design with its confidence sequence, how that was made, and the effect shrunk.

    Args:
        own: seed and value of each run, one at least, oriented.
        baseline: the same of the baseline's runs, or a number.
        tau: sd between implementations.
        luck: sd that the choice of test items gives.
        typed_n: runs, or trials, that a number was measured with.
        is_rate: whether values are successes.
        planned: the effect that was planned for, by which it is shrunk.
        stopped: `stopped`, `rung` and `baseline_rung` of a design some of whose runs were stopped early.
    """
    n, values = len(own), [value for _, value in own]
    against = [] if isinstance(baseline, float | int) else [value for _, value in baseline]
    mean = baseline if isinstance(baseline, float | int) else math.fsum(against) / len(against)
    if is_rate:
        count = [math.fsum(against), len(against)] if against else [mean * (typed_n or 0), typed_n]
        said = weigh_rates({"baseline_count": count} if against or typed_n else {"rate": mean}, values)
        return Interval(n, said.value or 0.0, None, said.low, said.high, 0.0), "95 % at every look, of rates", None
    if len({*values}) == 1 and n > 1:
        return Interval(n, values[0] - mean, 0.0, None, None, 0.0), "every run measured the same, no interval", None
    seeds = [] if isinstance(baseline, float | int) else [seed for seed, _ in baseline]
    arms, _ = _with_stopped(_Arms([values], [[seed for seed, _ in own]], against, seeds), [stopped or {}])
    tamed, moved = _tamed(arms)
    settings = _Terms(tau, luck, typed_n, bool(against), None, None)
    if not against:
        tamed = tamed._replace(own=[[value - mean for value in tamed.own[0]]])
    value, low, high, found = _effect(tamed, settings)
    sd = math.sqrt(arm(values).ss / (n - 1)) if n > 1 else None
    interval = Interval(n, value or 0.0, sd, low, high, found.nu if found is not None else 0.0)
    if low is None:
        return interval, "one run, no interval" if n == 1 else "no interval yet", None
    how = "from a constant" if not against else "of both arms"
    if len(_pairs(tamed, tamed.own, 1.0)[0]) > 1:
        how = "of both arms and of their pairs by seed"
    if arms.beside:
        how += f", with {len(arms.own[0]) - n + len(arms.base) - len(against)} stopped early"
    how = f"95 % at every look, {how}" + (f"; {moved} outlier moved" if moved else "")
    return interval, how, shrunk(value, found, planned)


def shrunk(value: float | None, found: Statistic | None, planned: float | None) -> float | None:
    """Returns the effect drawn towards none: its mean under a normal prior whose sd is the effect planned for.

    What was stopped because it looked good is overstated by its mean. Source: Efron and Morris (1973), Stein's
    estimation rule and its competitors, Journal of the American Statistical Association 68.
    """
    if value is None or found is None or not planned:
        return None
    noise = math.sqrt(found.v + found.fixed) / planned
    return value / (1 + noise * noise)
