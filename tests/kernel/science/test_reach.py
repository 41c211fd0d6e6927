"""What a plan promises, against simulated t statistics and at its edges."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest

from perpetual.science.evalues import arm, log_e, two_arms
from perpetual.science.reach import MOST_RUNS, chance, runs_for, statistic_of


@pytest.mark.parametrize(("effect", "n", "n_baseline"), [(1.0, 6, 6), (1.5, 4, 8), (0.8, 12, None), (2.0, 3, 4)])
def test_the_chance_is_that_of_simulated_runs(effect: float, n: int, n_baseline: int | None) -> None:
    rng, draws, seen = Random(6), 1500, 0
    for _ in range(draws):
        own = [rng.gauss(effect, 1) for _ in range(n)]
        base = arm([rng.gauss(0, 1) for _ in range(n_baseline)]) if n_baseline else None
        seen += log_e(two_arms([own], base)) >= math.log(20)
    said = chance(statistic_of(effect, 1.0, n, n_baseline), 20.0)
    assert abs(said - seen / draws) < 0.06  # the noncentral t by a normal one, of few runs


def test_the_chance_rises_with_effect_runs_and_baseline_and_falls_with_noise_and_threshold() -> None:
    def of(effect: float = 1.0, sd: float = 1.0, n: int = 6, n_baseline: int = 6, threshold: float = 20.0) -> float:
        return chance(statistic_of(effect, sd, n, n_baseline), threshold)

    rising = (
        [of(effect=value) for value in (0.0, 0.1, 0.5, 1, 2, 5)],
        [of(n=value) for value in (3, 5, 10, 50, 300)],
        [of(n_baseline=value) for value in (2, 4, 8, 50, 300)],
        [of(sd=1 / value) for value in (0.1, 0.5, 1, 2, 10)],
        [of(threshold=1e6 / value) for value in (1, 10, 1e3, 1e5)],
    )
    for found in rising:
        assert all(a <= b + 1e-6 for a, b in itertools.pairwise(found)), found
        assert 0 <= found[0] < found[-1] <= 1


def test_neither_the_unit_matters_nor_numbers_of_any_size() -> None:
    plain = chance(statistic_of(1.0, 1.0, 6, 4), 20.0)
    for unit in (1e-60, 1e-9, 1e9, 1e60):
        assert chance(statistic_of(unit, unit, 6, 4), 20.0) == pytest.approx(plain, abs=1e-3)
        assert runs_for(unit, unit, None, 20.0) == runs_for(1.0, 1.0, None, 20.0)


def test_nothing_is_promised_where_nothing_can_be_said() -> None:
    assert statistic_of(1.0, 1.0, 1, 4) is None
    assert statistic_of(1.0, 0.0, 4, 4) is None
    assert statistic_of(1.0, 1.0, 4, 0) is None
    assert statistic_of(1.0, 1.0, 4, 1, rho=0.5) is None
    assert chance(None, 20.0) == 0.0
    for effect in (0.0, -1.0):
        assert runs_for(effect, 1.0, 4, 20.0) is None
    assert runs_for(1e-6, 1.0, None, 20.0) is None


@pytest.mark.parametrize(("sd", "n_baseline", "tau"), [(1.0, None, 0.0), (0.5, 8, 0.0), (0.3, 6, 0.1), (0.5, 1, 0.0)])
def test_the_number_of_runs_is_the_least_that_has_the_chance(sd: float, n_baseline: int | None, tau: float) -> None:
    found = runs_for(1.0, sd, n_baseline, 20.0, tau=tau)
    if found is None:
        assert chance(statistic_of(1.0, sd, MOST_RUNS, n_baseline, tau=tau), 20.0) < 0.8
        return
    assert chance(statistic_of(1.0, sd, found, n_baseline, tau=tau), 20.0) >= 0.8
    assert chance(statistic_of(1.0, sd, found - 1, n_baseline, tau=tau), 20.0) < 0.8


def test_shared_seeds_need_fewer_runs_and_luck_of_the_implementation_more() -> None:
    def of(rho: float, tau: float = 0.0) -> int:
        found = runs_for(1.0, 1.0, 8, 20.0, rho=rho, tau=tau)
        assert found is not None
        return found

    assert of(0.95) < of(0.8) < of(0.5)
    assert of(0.8, tau=0.2) > of(0.8)
    assert runs_for(1.0, 0.1, 8, 20.0, tau=1.0) is None, "more runs cannot know one implementation's luck"
