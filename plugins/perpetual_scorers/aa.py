"""What an A/A test measures: noise, seed correlation and drift of runs between which nothing was changed.

Pure and seeded, standard library only. The intervals are of 95 %. Those of noise and seed correlation hold exactly for
normal noise that is as large on every seed; those of drift are randomisation tests and need no such assumption, since
the launches were put in random order. A session is what was launched together: an experiment's own runs, or one A/A
test. Sessions have levels of their own; within one, runs differ by seed, by drift and by what a seed does not fix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

from perpetual_scorers.quantiles import chi_square_quantile, f_quantile

__all__ = ["Drift", "Estimate", "Measured", "by_seed", "drift", "noise", "seed_correlation"]

ALPHA = 0.05
PERMUTATIONS = 1_999
FEWEST_FOR_DRIFT = 5  # fewer values have too few orders for a p-value of 2.5 %
_HALVINGS = 60
_FARTHEST = 60  # doublings of the slope that the search for the end of its interval goes
_SAME = 1e-12  # of two statistics that differ by rounding alone, as a share of them


class Measured(NamedTuple):
    """A run's value. `order` ranks the launches of all sessions; a seed is one seed only within its session."""

    value: float
    seed: int | str
    order: float
    session: str = ""


class Estimate(NamedTuple):
    """A figure with its 95 % interval, None where the runs say nothing of it; `df` are its degrees of freedom."""

    value: float | None
    low: float | None
    high: float | None
    df: int


class Drift(NamedTuple):
    """Whether values depend on when they were launched.

    `slope` is per launch, in the metric's units; `lag1` is the correlation of each value with the next one, which is
    -1/n in the mean of n values without drift. The p-values are two-sided. `shift` is the last session's mean less that
    of the earlier ones. `found` says whether a p-value, times the number of them, is at most 0.05; None where none
    could be computed.
    """

    slope: float | None
    slope_low: float | None
    slope_high: float | None
    p_slope: float | None
    lag1: float | None
    p_lag1: float | None
    shift: float | None
    p_shift: float | None
    later_better: float | None  # share of the pairs of a session in which the later run is the better one
    found: bool | None


_NO_DRIFT = Drift(None, None, None, None, None, None, None, None, None, None)


def by_seed(runs: Sequence[Measured]) -> list[list[Measured]]:
    """Returns the runs of each seed of each session, seeds in the order of their first launch."""
    groups: dict[tuple[str, int | str], list[Measured]] = {}
    for run in sorted(runs, key=lambda run: (run.session, run.order)):
        groups.setdefault((run.session, run.seed), []).append(run)
    return [*groups.values()]


def _sessions(runs: Sequence[Measured]) -> list[list[Measured]]:
    """Returns the runs of each session in the order of their launches."""
    found: dict[str, list[Measured]] = {}
    for run in sorted(runs, key=lambda run: run.order):
        found.setdefault(run.session, []).append(run)
    return [*found.values()]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    """Returns the sum of squares about the mean."""
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)


# --- noise and seed correlation ---------------------------------------------------------------------------------------


def noise(runs: Sequence[Measured]) -> Estimate:
    """Returns the standard deviation of one run on a seed of its own, pooled over sessions.

    A seed that was run more than once counts as one run: the variance is the mean over all ways to take one run of
    each seed, and its degrees of freedom are those of one of them. That keeps the interval valid at any correlation.
    """
    total, df = 0.0, 0
    for groups in _seeds_of_sessions(runs):
        values = [[run.value for run in group] for group in groups]
        means = [_mean(each) for each in values]
        within = math.fsum(_squares(each) / len(each) for each in values)
        total += _squares(means) + (1.0 - 1.0 / len(means)) * within
        df += len(means) - 1
    if df < 1:
        return Estimate(None, None, None, 0)
    sd = math.sqrt(total / df)
    if sd == 0.0:
        return Estimate(0.0, None, None, df)
    low, high = (math.sqrt(total / chi_square_quantile(p, df)) for p in (1 - ALPHA / 2, ALPHA / 2))
    return Estimate(sd, low, high, df)


def seed_correlation(runs: Sequence[Measured]) -> Estimate:
    """Returns the correlation of two runs on one seed; `df` counts the repeats, one for each pair.

    At the true correlation a ratio of two sums of squares has an F distribution: between seeds, each seed's mean
    weighted by its precision, and within seeds. The ratio falls as the correlation rises, so the interval is all
    correlations at which it is not extreme, and the figure is where it is the median. Exact for normal noise.
    """
    groups = [group for session in _seeds_of_sessions(runs) for group in session]
    within = math.fsum(_squares([run.value for run in group]) for group in groups)
    repeats = sum(len(group) - 1 for group in groups)
    df = sum(len(session) - 1 for session in _seeds_of_sessions(runs))
    if repeats < 1 or df < 1:
        return Estimate(None, None, None, repeats)
    if within == 0.0:  # the seed fixes everything, or the metric is too coarse to show what it does not fix
        spread = any(_squares([group[0].value for group in each]) > 0 for each in _seeds_of_sessions(runs))
        return Estimate(1.0 if spread else None, None, None, repeats)

    def ratio(rho: float) -> float:
        between = math.fsum(_weighted_squares(session, rho) for session in _seeds_of_sessions(runs))
        return between / df / (within / (1.0 - rho) / repeats)

    least = -1.0 / (max(map(len, groups)) - 1)  # no lower one can hold between all runs of the largest group
    at = [_falls_to(ratio, f_quantile(p, df, repeats), least) for p in (0.5, 1 - ALPHA / 2, ALPHA / 2)]
    return Estimate(at[0], at[1], at[2], repeats)


def _seeds_of_sessions(runs: Sequence[Measured]) -> list[list[list[Measured]]]:
    return [by_seed(session) for session in _sessions(runs)]


def _weighted_squares(groups: Sequence[Sequence[Measured]], rho: float) -> float:
    """Returns the squares of a session's seed means about their weighted mean, in units of a run's variance."""
    means = [_mean([run.value for run in group]) for group in groups]
    weights = [1.0 / (rho + (1.0 - rho) / len(group)) for group in groups]
    centre = math.fsum(w * m for w, m in zip(weights, means, strict=True)) / math.fsum(weights)
    return math.fsum(w * (m - centre) ** 2 for w, m in zip(weights, means, strict=True))


def _falls_to(ratio: Callable[[float], float], level: float, least: float) -> float:
    """Returns where a falling function of a correlation crosses a level; an end where it does not."""
    low, high = least + 1e-9, 1.0 - 1e-12
    if ratio(low) <= level:
        return least
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if ratio(middle) > level else (low, middle)
    return (low + high) / 2.0


# --- drift ------------------------------------------------------------------------------------------------------------


def drift(runs: Sequence[Measured], *, direction: str, seed: int = 0, permutations: int = PERMUTATIONS) -> Drift:
    """Returns what depends on the order of launches, by permuting the values over the launches of each session.

    Args:
        direction: `max` or `min`, by which the later of two runs is the better one.
        seed: of the permutations.
        permutations: how many are drawn; p-values are valid for any number, and finer for more.
    """
    sessions = [[run.value for run in session] for session in _sessions(runs)]
    long = [session for session in sessions if len(session) > 1]
    pairs = [(a, b) for session in long for n, a in enumerate(session) for b in session[n + 1 :]]
    if not pairs or len({value for session in sessions for value in session}) < 2:
        return _NO_DRIFT
    later = sum((b > a) if direction == "max" else (b < a) for a, b in pairs) / len(pairs)
    shift, p_shift = _shift(runs, Random(f"aa:shift:{seed}"), permutations)
    found = _NO_DRIFT._replace(later_better=later, shift=shift, p_shift=p_shift)
    if sum(map(len, long)) >= FEWEST_FOR_DRIFT and any(_squares(session) > 0 for session in long):
        found = _tested(found, long, Random(f"aa:drift:{seed}"), permutations)
    tests = [p for p in (found.p_slope, found.p_lag1, found.p_shift) if p is not None]
    return found._replace(found=min(tests) * len(tests) <= ALPHA if tests else None)


def _tested(known: Drift, sessions: Sequence[Sequence[float]], rng: Random, permutations: int) -> Drift:
    """Returns slope and lag-1 correlation with their randomisation tests, and the slope's interval by inversion."""
    orders = [[float(n) for n in range(len(session))] for session in sessions]
    positions = _joined(orders)
    values = _joined(sessions)
    x_squares = math.fsum(x * x for x in positions)
    y_squares = math.fsum(y * y for y in values)
    own = _dot(positions, values)
    bounds = _bounds([len(session) for session in sessions])
    shuffled: list[tuple[float, float]] = []
    lags: list[float] = []
    for _ in range(permutations):
        places = _shuffled(bounds, rng)
        mixed = [values[place] for place in places]
        shuffled.append((_dot(positions, mixed), _dot(positions, [positions[place] for place in places])))
        lags.append(_lagged(mixed, bounds))

    def p_of(slope: float) -> float:
        """Returns the p-value of that slope: what is left without it does not depend on the order."""
        extreme = abs(own - slope * x_squares) * (1.0 - _SAME)
        return (1 + sum(abs(a - slope * b) >= extreme for a, b in shuffled)) / (permutations + 1)

    lag = _lagged(values, bounds)
    middle = _mean(lags)
    extreme = abs(lag - middle) * (1.0 - _SAME)
    p_lag = (1 + sum(abs(each - middle) >= extreme for each in lags)) / (permutations + 1)
    slope = own / x_squares
    scale = math.sqrt(y_squares / x_squares / len(values))
    low, high = (_end(p_of, slope, side * scale) for side in (-1.0, 1.0))
    return known._replace(
        slope=slope, slope_low=low, slope_high=high, p_slope=p_of(0.0), lag1=lag / y_squares, p_lag1=p_lag
    )


def _joined(sessions: Sequence[Sequence[float]]) -> list[float]:
    """Returns the sessions one after another, each about its own mean."""
    return [value - _mean(session) for session in sessions for value in session]


def _bounds(sizes: Sequence[int]) -> list[range]:
    """Returns the places of each session in the joined list."""
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def _shuffled(bounds: Sequence[range], rng: Random) -> list[int]:
    return [place for each in bounds for place in rng.sample(each, len(each))]


def _dot(xs: Sequence[float], ys: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(xs, ys, strict=True))


def _lagged(values: Sequence[float], bounds: Sequence[range]) -> float:
    """Returns the sum of products of neighbours within sessions; their squares do not depend on the order."""
    return sum(values[a] * values[b] for each in bounds for a, b in pairwise(each))


def _end(p_of: Callable[[float], float], slope: float, step: float) -> float | None:
    """Returns the end of the interval on the side of `step`: where the p-value falls below 5 %; None if nowhere."""
    near, far = slope, slope + step
    for _ in range(_FARTHEST):
        if p_of(far) < ALPHA:
            break
        near, far = far, slope + 2.0 * (far - slope)
    else:
        return None
    for _ in range(_HALVINGS // 2):
        middle = (near + far) / 2.0
        near, far = (near, middle) if p_of(middle) < ALPHA else (middle, far)
    return far


def _shift(runs: Sequence[Measured], rng: Random, permutations: int) -> tuple[float | None, float | None]:
    """Returns the last session's mean less that of the earlier ones, and the p-value of there being no difference.

    Seeds are permuted over the two: a seed's mean stays together, since its runs may be alike.
    """
    sessions = [[_mean([run.value for run in group]) for group in by_seed(each)] for each in _sessions_by_time(runs)]
    if len(sessions) < 2:
        return None, None
    early, late = [value for each in sessions[:-1] for value in each], sessions[-1]
    if len(early) < 2 or len(late) < 2:
        return None, None
    values, count = [*early, *late], len(late)
    total = math.fsum(values)
    centre = total * count / len(values)
    own = abs(math.fsum(late) - centre) * (1.0 - _SAME)
    extreme = sum(abs(sum(rng.sample(values, count)) - centre) >= own for _ in range(permutations))
    return _mean(late) - _mean(early), (1 + extreme) / (permutations + 1)


def _sessions_by_time(runs: Sequence[Measured]) -> list[list[Measured]]:
    return sorted(_sessions(runs), key=lambda session: session[0].order)
