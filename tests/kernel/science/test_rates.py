"""Rates against a number and against rates that were measured: the e-value summed and integrated by brute force."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import pytest

from perpetual.science import confidence
from perpetual.science.rates import MOST_TRIALS, Count, log_e_above, rate_interval


def log_likelihood(k: float, n: float, p: float) -> float:
    return sum(count * math.log(share) for count, share in ((k, p), (n - k, 1 - p)) if count)


def log_mean_likelihood(k: float, n: float, steps: int = 20_000) -> float:
    """Log of the likelihood's mean over rates whose square root is the sine of an even angle: Jeffreys' prior."""
    angles = ((step + 0.5) / steps * math.pi / 2 for step in range(steps))
    logs = [log_likelihood(k, n, math.sin(angle) ** 2) for angle in angles]
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(each - peak) for each in logs) / steps)


def chance_of(k: int, n: int, p: float) -> float:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize(("k", "n", "rate"), [(7, 9, 0.4), (9, 9, 0.9), (0, 5, 0.2), (3, 9, 0.4), (40, 60, 0.5)])
def test_beside_a_number_it_is_a_mean_over_the_largest_likelihood(k: int, n: int, rate: float) -> None:
    largest = max(log_likelihood(k, n, rate * step / 4000) for step in range(1, 4001))
    assert log_e_above(Count(k, n), rate) == pytest.approx(log_mean_likelihood(k, n) - largest, abs=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_beside_a_measured_rate_it_is_a_mean_over_the_largest_likelihood(seed: int) -> None:
    rng = Random(seed)
    n, m, boundary = rng.choice([3, 9, 40]), rng.choice([4, 12, 30]), rng.choice([0.0, 0.2, -0.3])
    own, against = Count(rng.randint(0, n), n), Count(rng.randint(0, m), m)
    grid = [(step + 0.5) / 300 for step in range(300)]
    pairs = ((p, q) for p in grid for q in grid if p - q <= boundary)
    edge = ((q + boundary, q) for step in range(1, 3000) if 0 < (q := step / 3000) + boundary < 1)
    largest = max(log_likelihood(*own, p) + log_likelihood(*against, q) for p, q in itertools.chain(pairs, edge))
    expected = log_mean_likelihood(*own, 4000) + log_mean_likelihood(*against, 4000) - largest
    found = log_e_above(own, against, boundary)
    assert expected - 0.05 <= found <= expected + 1e-3


@pytest.mark.parametrize("boundary", [0.0, 0.2, -0.15])
def test_an_e_value_is_at_most_one_on_average_where_the_rate_is_no_better(boundary: float) -> None:
    """Summed over all outcomes of seven runs against five, and against a number."""
    for base in (0.02, 0.2, 0.5, 0.7, 0.99):
        top = min(max(base + boundary, 0.0), 1.0)
        for p in (top, top * 0.7, top * 0.2):
            mean = math.fsum(
                chance_of(k, 7, p) * chance_of(j, 5, base) * math.exp(log_e_above(Count(k, 7), Count(j, 5), boundary))
                for k in range(8)
                for j in range(6)
            )
            alone = math.fsum(chance_of(k, 7, p) * math.exp(log_e_above(Count(k, 7), base, boundary)) for k in range(8))
            assert mean <= 1 + 1e-9
            assert alone <= 1 + 1e-9


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.9])
def test_a_false_claim_ever_looks_good_as_seldom_as_promised(p: float) -> None:
    """All paths of 60 runs, a look after each: the chance is exact, so the limit needs no allowance."""
    for e, is_beside_runs in ((4, False), (20, False), (4, True), (20, True)):
        against: Count | float = Count(round(10 * p), 10) if is_beside_runs else p
        alive, alarms = {0: 1.0}, 0.0
        for n in range(1, 61):
            step: dict[int, float] = {}
            for k, share in alive.items():
                step[k] = step.get(k, 0.0) + share * (1 - p)
                step[k + 1] = step.get(k + 1, 0.0) + share * p
            alive = {}
            for k, share in step.items():
                if log_e_above(Count(k, n), against) >= math.log(e):
                    alarms += share
                else:
                    alive[k] = share
        assert alarms <= 1 / e
    assert alarms < 0.05


def test_more_successes_never_count_for_less_nor_a_higher_edge_for_more() -> None:
    for against in (0.4, Count(4, 9), Count(0, 3), Count(3, 3)):
        by_count = [max(log_e_above(Count(k, 12), against), 0.0) for k in range(13)]
        assert by_count == sorted(by_count)
        by_edge = [log_e_above(Count(7, 12), against, edge / 10) for edge in range(-10, 11)]
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(by_edge))
    assert log_e_above(Count(8, 9), Count(2, 9)) == pytest.approx(log_e_above(Count(7, 9), Count(1, 9)))  # mirrored


def test_the_interval_is_what_neither_e_value_excludes() -> None:
    for own, against in (
        (Count(7, 9), 0.4),
        (Count(7, 9), Count(3, 9)),
        (Count(0, 4), Count(4, 4)),
        (Count(5, 5), 1.0),
    ):
        low, high = rate_interval(own, against)
        assert -1 <= low <= high <= 1
        others = against.failures if isinstance(against, Count) else 1 - against
        if low > -1:
            assert log_e_above(own, against, low) == pytest.approx(math.log(40), abs=1e-2)
        if high < 1:
            assert log_e_above(own.failures, others, -high) == pytest.approx(math.log(40), abs=1e-2)
    wide, narrow = rate_interval(Count(7, 9), Count(3, 9)), rate_interval(Count(700, 900), Count(300, 900))
    assert wide[0] < narrow[0] < 4 / 9 < narrow[1] < wide[1]


def fold(values: list[int], design: dict[str, Any]) -> dict[str, Any]:
    rows = [{"id": n, "kind": "measured", "design_id": "d", "value": value} for n, value in enumerate(values)]
    return {**confidence({"id": "h", "prior": 0.5}, {"d": {"model": "binary", **design}}, rows, {})}


RATES: list[dict[str, Any]] = [
    {"rate": 0.4, "mu1": 0.6, "mu0": 0.4, "mde": 0.2},
    {"baseline_count": [8, 20], "mde": 0.2},
    {"mu1": 0.6, "mu0": 0.4},
]


@pytest.mark.parametrize("design", RATES)
def test_a_lost_run_counts_as_it_is_worst_for_what_is_said(design: dict[str, Any]) -> None:
    good, bad = [1] * 12, [0] * 12
    assert fold(good, design)["reached"] == "supported"
    assert fold(bad, design)["reached"] == "refuted"
    for lost in (1, 4, 12):
        beside = {**design, "lost": [None] * lost}
        assert fold(good, beside)["e_support"] <= fold(good + [0] * lost, design)["e_support"] * (1 + 1e-9)
        assert fold(bad, beside)["e_refute"] <= fold(bad + [1] * lost, design)["e_refute"] * (1 + 1e-9)
    assert fold(good, {**design, "lost": [None] * 12})["reached"] is None
    if "baseline_count" in design:
        assert fold(good, {**design, "baseline_lost": [None] * 9})["e_support"] < 0.5 * fold(good, design)["e_support"]


def test_some_difference_of_rates_may_lie_on_either_side() -> None:
    for design in ({"rate": 0.5, "mu1": 0.5, "mu0": 0.5}, {"baseline_count": [20, 40]}):
        both = {**design, "one_sided": False}
        assert fold([1] * 20, both)["reached"] == fold([0] * 20, both)["reached"] == "supported"
        assert fold([0] * 20, design)["reached"] == "refuted"
        assert fold([0, 1] * 40, both)["e_refute"] == 1.0
        near = {**both, "mde": 0.45}
        assert fold([0, 1] * 40, near)["reached"] == "refuted"
        assert fold([0] * 20, near)["e_refute"] <= 1


@pytest.mark.parametrize("n", [1e3, 1e9, 1e12, 1e15, 1e300])
def test_a_baseline_of_very_many_trials_is_a_number(n: float) -> None:
    for rate in (0.0, 0.5, 1.0):
        result = fold([1, 0, 1, 1, 0, 0, 1, 0], {"mde": 0.1, "null": 0.0, "baseline_count": [rate * n, n]})
        known = math.exp(log_e_above(Count(4, 8), rate))
        assert result["e_support"] <= max(1.001 * known, 1.001)
        assert math.isfinite(result["log_odds"])
    assert MOST_TRIALS >= 1e6


@pytest.mark.parametrize(
    "bad", [{"baseline_count": [3, 2]}, {"baseline_count": [-1, 2]}, {"baseline_count": [1, math.inf]}, {"rate": 1.5}]
)
def test_what_is_no_rate_is_refused_by_its_name(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        fold([1], {"mde": 0.1, "mu1": 0.6, "mu0": 0.5, **bad})
