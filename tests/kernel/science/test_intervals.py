"""Student-t intervals against published quantiles, coverage by simulation, and what cannot be said."""

from __future__ import annotations

import random

import pytest

from perpetual.science.intervals import (
    Interval,
    mean_of,
    paired_difference,
    student_quantile,
    welch_difference,
)


@pytest.mark.parametrize(
    ("p", "nu", "t"),
    [
        (0.975, 1, 12.706204736),
        (0.975, 2, 4.302652730),
        (0.975, 3, 3.182446305),
        (0.975, 10, 2.228138852),
        (0.95, 30, 1.697260887),
        (0.975, 1000, 1.962339081),
        (0.025, 5, -2.570581836),
        (0.5, 4, 0.0),
        (0.9995, 4, 8.610301581),
    ],
)
def test_quantiles_are_those_of_the_tables(p: float, nu: float, t: float) -> None:
    assert student_quantile(p, nu) == pytest.approx(t, abs=1e-8)


@pytest.mark.slow
def test_quantiles_grow_with_p_and_shrink_with_nu() -> None:
    by_p = [student_quantile(p / 100, 2.5) for p in range(1, 100)]
    by_nu = [student_quantile(0.975, nu / 2) for nu in range(1, 200)]
    assert by_p == sorted(by_p)
    assert by_nu == sorted(by_nu, reverse=True)


@pytest.mark.parametrize(("p", "nu"), [(0.0, 3), (1.0, 3), (0.9, 0), (0.9, -1), (float("nan"), 3)])
def test_no_quantile_of_nothing(p: float, nu: float) -> None:
    with pytest.raises(ValueError):
        student_quantile(p, nu)


def test_a_mean_worked_by_hand() -> None:
    found = mean_of([1.0, 2.0, 3.0])
    assert (found.n, found.mean, found.sd, found.nu) == (3, 2.0, 1.0, 2)
    assert found.low == pytest.approx(2.0 - 4.302652730 / 3**0.5)
    assert found.high == pytest.approx(2.0 + 4.302652730 / 3**0.5)


@pytest.mark.parametrize("values", [[1.5], [1.5, 1.5], [1.5] * 7])
def test_one_value_and_equal_values_have_no_interval(values: list[float]) -> None:
    assert mean_of(values) == Interval(1, 1.5, None, None, None, 0)
    assert not mean_of(values).excludes_zero


def test_differences_worked_by_hand() -> None:
    a, b = [4.0, 5.0, 7.0], [1.0, 2.0, 3.0]
    welch = welch_difference(a, b)
    assert welch.nu == pytest.approx(3.448275862)
    paired = paired_difference(a, b)
    assert paired == mean_of([3.0, 3.0, 4.0])


def test_the_interval_of_one_run_depends_on_the_known_noise() -> None:
    assert welch_difference([1.0], [2.0, 3.0]).low is None
    assert welch_difference([1.0, 1.0], [2.0, 3.0]).low is None  # the same seed twice is one run


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say() -> None:
    draw = random.Random(7)
    hits = {"mean": 0, "welch": 0}
    rounds = 1500
    for _ in range(rounds):
        a = [draw.gauss(1.0, 1.0) for _ in range(4)]
        wide = [draw.gauss(0.0, 4.0) for _ in range(6)]
        for name, found, truth in (
            ("mean", mean_of(a), 1.0),
            ("welch", welch_difference(a, wide), 1.0),
        ):
            assert found.low is not None
            assert found.high is not None
            hits[name] += found.low <= truth <= found.high
    for name, count in hits.items():
        assert 0.93 <= count / rounds <= 0.97, name
