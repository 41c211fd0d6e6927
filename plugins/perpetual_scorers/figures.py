"""Figures of simulated campaigns: what a policy achieved, and how two of them compare, with intervals.

Imported by `perpetual_scorers.simulate`. Pure and seeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

__all__ = ["RIGHT_AFTER", "Cell", "Comparison", "Episode", "Result", "Said", "brier_score", "calibration_error",
           "compared", "error_rate", "failed", "interval", "paired_ratio", "said_true", "summary"]  # fmt: skip

RIGHT_AFTER = (10, 20, 40, 80)  # run-hours after which right verdicts are counted
COMPARED_AFTER = 40
_RESAMPLES = 1000
_BINS = 10


class Cell(NamedTuple):
    """What is simulated: the support threshold (refuted at one minus it), the batch size, and the world.

    `menu` names the designs that each hypothesis has, `base_rate` is the share that is true, `seed_correlation`
    that of two runs on one seed, and `curve_correlation` that of a run's value at a quarter of its steps with its last.
    """

    threshold: float
    batch: int
    world: str = "standard"
    menu: str = "proxy"
    base_rate: float = 0.25
    seed_correlation: float = 0.0
    curve_correlation: float = 0.9


class Episode(NamedTuple):
    """The outcome of one campaign: run-hours, launches, and of each hypothesis its truth and its last confidence.

    A campaign that left something undecided counts 400 run-hours or more: giving up is not cheap. Hypotheses whose
    effect lies between none and the smallest that is worth having have no truth: "better than nothing" and "less than
    that" are both right of them. `right` counts right verdicts after 10, 20, 40 and 80 run-hours and at the end;
    `half_hours` are those until half of the hypotheses are rightly decided.
    """

    run_hours: float
    runs: int
    said: tuple[tuple[bool | None, float], ...]
    right: tuple[int, ...] = (0,) * (len(RIGHT_AFTER) + 1)
    wrong: int = 0
    undecided: int = 0
    half_hours: float = 0.0
    false_supports: int = 0
    refutable: int = 0  # hypotheses without an effect
    spent_hours: float = 0.0  # without what is charged for giving up


@dataclass(frozen=True, slots=True)
class Said:
    """Of the hypotheses said to be true with at least 0.8: how many, the share that is, and the mean confidence."""

    n: int
    true_share: float | None
    mean_confidence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a policy did in one cell; where `problem` says how it broke its contract, the figures are None.

    `low` and `high` bound `run_hours`, the mean of a campaign, by a 95 % bootstrap over campaigns; `right_40` has
    `right_40_low` and `right_40_high`. `undecided` is of the hypotheses of a campaign, in the mean. `error_rate` is of
    the decided ones. `false_support_rate` is the share of those without an effect that were said to be supported;
    optional stopping can bring it to `false_support_bound` at most.
    """

    policy: str
    threshold: float
    batch: int
    world: str
    menu: str
    base_rate: float
    seed_correlation: float
    episodes: int
    run_hours: float | None = None
    low: float | None = None
    high: float | None = None
    half_hours: float | None = None
    right_10: float | None = None
    right_20: float | None = None
    right_40: float | None = None
    right_40_low: float | None = None
    right_40_high: float | None = None
    right_80: float | None = None
    right: float | None = None
    runs: float | None = None
    error_rate: float | None = None
    undecided: float | None = None
    brier: float | None = None
    ece: float | None = None
    said_true: Said | None = None
    false_support_rate: float | None = None
    false_support_bound: float
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A policy against another one on the same campaigns; ratios of means, with 95 % bootstrap intervals.

    `right_ratio` is of right verdicts after 40 run-hours (above 1: better), `hours_ratio` of run-hours until half of
    the hypotheses are rightly decided (below 1: better), `total_ratio` of those until all are decided. `threshold` is
    that of the policy, `against_threshold` that of the other one; where they differ, the policy's is the lowest at
    which it errs at most as often as the other one (`equal_error`). `says` is helps, worse, or no difference, as the
    interval of the difference of right verdicts after 40 run-hours lies.
    """

    policy: str
    against: str
    threshold: float
    against_threshold: float
    batch: int
    equal_error: bool
    error_rate: float | None
    against_error_rate: float | None
    right_ratio: float | None
    right_low: float | None
    right_high: float | None
    hours_ratio: float | None
    hours_low: float | None
    hours_high: float | None
    total_ratio: float | None
    total_low: float | None
    total_high: float | None
    says: str


def interval(values: Sequence[float], key: str) -> tuple[float, float]:
    """Returns the 95 % percentile bootstrap interval of the mean; the resamples derive from `key`."""
    rng, n = Random(f"bootstrap:{key}"), len(values)
    means = sorted(math.fsum(rng.choices(values, k=n)) / n for _ in range(_RESAMPLES))
    return _bounds(means)


def _bounds(resampled: Sequence[float]) -> tuple[float, float]:
    n = len(resampled)
    return resampled[int(0.025 * n)], resampled[int(0.975 * n) - 1]


def brier_score(said: Sequence[tuple[bool, float]]) -> float:
    """Returns the mean squared distance of confidence from truth."""
    return math.fsum((p - is_true) ** 2 for is_true, p in said) / len(said)


def calibration_error(said: Sequence[tuple[bool, float]]) -> float:
    """Returns the expected calibration error: the mean gap of stated and true share over ten bins, by their counts."""
    bins: list[list[tuple[bool, float]]] = [[] for _ in range(_BINS)]
    for is_true, p in said:
        bins[min(int(p * _BINS), _BINS - 1)].append((is_true, p))
    gaps = (abs(math.fsum(p - is_true for is_true, p in group)) for group in bins)
    return math.fsum(gaps) / len(said)


def said_true(said: Sequence[tuple[bool, float]], least: float = 0.8) -> Said:
    """Counts the claims said to be true with at least `least`, and how often that was so."""
    high = [(is_true, p) for is_true, p in said if p >= least]
    if not high:
        return Said(0, None, None)
    return Said(len(high), sum(is_true for is_true, _ in high) / len(high), math.fsum(p for _, p in high) / len(high))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def error_rate(episodes: Sequence[Episode]) -> float | None:
    """Returns the share of wrong verdicts of the decided hypotheses; None where none is decided."""
    decided = sum(len(played.said) - played.undecided for played in episodes)
    return sum(played.wrong for played in episodes) / decided if decided else None


def summary(name: str, cell: Cell, episodes: Sequence[Episode], key: str = "") -> Result:
    """Returns the row that sums up these campaigns of one policy in one cell."""
    hours = [played.run_hours for played in episodes]
    said = [(is_true, p) for played in episodes for is_true, p in played.said if is_true is not None]
    refutable = sum(played.refutable for played in episodes)
    low, high = interval(hours, key)
    after = [[float(played.right[place]) for played in episodes] for place in range(len(RIGHT_AFTER) + 1)]
    right_low, right_high = interval(after[RIGHT_AFTER.index(COMPARED_AFTER)], key)
    return Result(
        policy=name,
        threshold=cell.threshold,
        batch=cell.batch,
        world=cell.world,
        menu=cell.menu,
        base_rate=cell.base_rate,
        seed_correlation=cell.seed_correlation,
        episodes=len(episodes),
        run_hours=_mean(hours),
        low=low,
        high=high,
        half_hours=_mean([played.half_hours for played in episodes]),
        right_10=_mean(after[0]),
        right_20=_mean(after[1]),
        right_40=_mean(after[2]),
        right_40_low=right_low,
        right_40_high=right_high,
        right_80=_mean(after[3]),
        right=_mean(after[4]),
        runs=_mean([played.runs for played in episodes]),
        error_rate=error_rate(episodes),
        undecided=_mean([played.undecided for played in episodes]),
        brier=brier_score(said) if said else None,
        ece=calibration_error(said) if said else None,
        said_true=said_true(said),
        false_support_rate=sum(played.false_supports for played in episodes) / refutable if refutable else None,
        false_support_bound=(1 - cell.threshold) / cell.threshold,
        problem=None,
    )


def failed(name: str, cell: Cell, episodes: int, problem: str) -> Result:
    """Returns the row of a policy that broke its contract."""
    return Result(
        policy=name,
        threshold=cell.threshold,
        batch=cell.batch,
        world=cell.world,
        menu=cell.menu,
        base_rate=cell.base_rate,
        seed_correlation=cell.seed_correlation,
        episodes=episodes,
        false_support_bound=(1 - cell.threshold) / cell.threshold,
        problem=problem,
    )


Played = dict[tuple[str, Cell], Sequence[Episode]]
"""The campaigns of each policy in each cell, in the same order."""


def compared(played: Played, policy: str, key: str = "", *, other_rules: Container[str] = ()) -> list[Comparison]:
    """Returns `policy` against every other one at its threshold, and against `other_rules` at equal realised error too.

    At equal error it is taken at its lowest threshold that errs at most as often: a rule that is more careful at a
    threshold than another one is slower there, and is no worse for it.
    """
    found = []
    for name, cell in played:
        if name == policy or (policy, cell) not in played:
            continue
        own = {other.threshold: other for who, other in played if who == policy and other.batch == cell.batch}
        found.append(_comparison(played, (policy, cell), (name, cell), key, equal_error=False))
        bar = error_rate(played[name, cell]) if name in other_rules else None
        for threshold in sorted(own):
            error = error_rate(played[policy, own[threshold]])
            if bar is not None and error is not None and error <= bar:
                if threshold != cell.threshold:
                    found.append(_comparison(played, (policy, own[threshold]), (name, cell), key, equal_error=True))
                break
    return found


def _comparison(
    played: Played, one: tuple[str, Cell], other: tuple[str, Cell], key: str, *, equal_error: bool
) -> Comparison:
    place, key = RIGHT_AFTER.index(COMPARED_AFTER), f"ratio:{key}"
    right, (least, most) = paired_ratio(played[one], played[other], lambda each: each.right[place], key)
    hours, _ = paired_ratio(played[one], played[other], lambda each: each.half_hours, key)
    total, _ = paired_ratio(played[one], played[other], lambda each: each.run_hours, key)
    return Comparison(
        one[0], other[0], one[1].threshold, other[1].threshold, one[1].batch, equal_error,
        error_rate(played[one]), error_rate(played[other]), *right, *hours, *total,
        says="helps" if least > 0 else "worse" if most < 0 else "no difference",
    )  # fmt: skip


def paired_ratio(
    one: Sequence[Episode], other: Sequence[Episode], figure: Callable[[Episode], float], key: str
) -> tuple[tuple[float | None, float | None, float | None], tuple[float, float]]:
    """Returns the ratio of two means with its interval, and the interval of their difference.

    The same campaigns are drawn of both; the resamples derive from `key`. None where the other one has nothing, or may
    have nothing.
    """
    pairs = [(figure(a), figure(b)) for a, b in zip(one, other, strict=True)]
    rng = Random(key)
    drawn = [_totals(rng.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES)]
    ratios = [_ratio(*totals) for totals in (_totals(pairs), *drawn)]
    whole, (low, high) = ratios[0], _bounds(sorted(ratios[1:]))
    bounds = _bounds(sorted(mine - theirs for mine, theirs in drawn))
    found = tuple(each if math.isfinite(each) else None for each in (whole, low, high))
    return (found[0], found[1], found[2]), bounds


def _totals(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return math.fsum(mine for mine, _ in pairs), math.fsum(theirs for _, theirs in pairs)


def _ratio(mine: float, theirs: float) -> float:
    return mine / theirs if theirs else math.inf
