"""E-values of effects of unknown noise, and their confidence sequences, against independent oracles."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import pytest

from perpetual.science.designs import shrunk
from perpetual.science.evalues import Statistic, arm, either, half_width, log_e, paired, two_arms, winsorised


def seen(t: float, n: int) -> Statistic:
    """The statistic of n runs beside a number, whose t is this."""
    return Statistic(t / math.sqrt(n), 1 / n, n - 1.0, n)


FAR = (0.0, 0.01, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6)


@pytest.mark.parametrize("n", [2, 3, 10, 21, 22, 100, 300, 3000])
def test_an_e_value_rises_with_the_effect_however_many_runs(n: int) -> None:
    found = [log_e(seen(t, n)) for t in [*(-t for t in reversed(FAR)), *FAR]]
    assert all(one <= other + 1e-7 for one, other in itertools.pairwise(found)), found
    assert math.log(0.1) <= found[0] < 0 < found[-1]
    assert found[len(FAR)] < 0, "no effect speaks against one"


def test_an_e_value_knows_no_unit() -> None:
    own, base = [[0.9, 1.3, 1.1], [0.7, 1.2]], [0.1, -0.2, 0.05, 0.0]
    plain = log_e(two_arms(own, arm(base), tau=0.1, luck=0.05), planned=0.5)
    for unit in (1e-120, 1e-9, 3.0, 1e9, 1e60):
        scaled = two_arms(
            [[unit * value for value in each] for each in own], arm([unit * value for value in base]),
            tau=unit * 0.1, luck=unit * 0.05,
        )  # fmt: skip
        assert log_e(scaled, planned=0.5) == pytest.approx(plain)
    moved = two_arms(
        [[value + 7 for value in each] for each in own], arm([value + 7 for value in base]), tau=0.1, luck=0.05
    )
    assert log_e(moved, planned=0.5) == pytest.approx(plain)


def test_a_wrong_plan_costs_at_most_half_the_e_value() -> None:
    for t in (-3.0, 0.5, 2.0, 6.0, 30.0):
        plain = log_e(seen(t, 6))
        for planned in (0.0, 1e-300, 1e-3, 0.7, 50.0, 1e300, math.inf):
            assert log_e(seen(t, 6), planned=planned) >= plain - math.log(2) - 1e-9
    assert log_e(seen(2.0, 30), planned=0.35) > log_e(seen(2.0, 30)), "a right one is rewarded"


def test_the_mean_of_two_e_values() -> None:
    assert math.exp(either(math.log(3), math.log(7))) == pytest.approx(5)
    assert either(-1e308, 700.0) == pytest.approx(700 - math.log(2))


# The oracle: the density of t, its noise integrated out, averaged over effects by the trapezoid rule


def log_sum(logs: list[float]) -> float:
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(each - peak) for each in logs))


def log_density(t: float, nu: float, shift: float) -> float:
    """Log density of a noncentral t, up to a constant: an integral over the measured noise in units of the true one."""
    steps = [math.exp(-9 + 11 * step / 400) for step in range(401)]
    return log_sum([(nu + 1) * math.log(w) - nu * w * w / 2 - (t * w - shift) ** 2 / 2 for w in steps])


def log_two_sided(t: float, nu: float, n: float, scale: float) -> float:
    """Log ratio of densities of t: effects that are normal with that scale, against none."""
    effects = [scale * (step / 25 - 6) for step in range(301)]
    logs = [log_density(t, nu, delta * math.sqrt(n)) - (delta / scale) ** 2 / 2 for delta in effects]
    return log_sum(logs) - math.log(25 * math.sqrt(2 * math.pi)) - log_density(t, nu, 0.0)


@pytest.mark.parametrize(("nu", "n"), [(4.0, 5.0), (11.0, 12.0), (6.3, 2.4)])
def test_the_confidence_sequence_ends_where_the_mixture_excludes(nu: float, n: float) -> None:
    """At its edge the two-sided ratio, effects of three scales, is 1 / (0.7 alpha)."""
    found = Statistic(0.0, 0.37, nu, n)
    width = half_width(found, 0.05)
    assert width is not None
    t = width / math.sqrt(0.37)
    near = 0.4 * math.exp(log_two_sided(t, nu, n, 1.0)) + 0.3 * math.exp(log_two_sided(t, nu, n, 4.0))
    # Of the widest scale the effects near the one seen count; their density there is that of the middle.
    wide = 0.3 * math.sqrt(1 / (1 + n * 400**2)) * (1 + t * t / nu) ** ((nu + 1) / 2)
    assert near + wide == pytest.approx(1 / (0.7 * 0.05), rel=0.02)


def test_the_confidence_sequence_narrows_with_runs_and_widens_with_luck_and_confidence() -> None:
    def of(n: int, fixed: float = 0.0, alpha: float = 0.05) -> float:
        width = half_width(Statistic(0.0, 1 / n, n - 1.0, n, fixed), alpha)
        assert width is not None
        return width

    assert of(2) > of(3) > of(5) > of(20) > of(400)
    assert of(20) < of(20, fixed=0.1) < of(20, fixed=10.0)
    assert of(5) < of(5, alpha=0.025) < of(5, alpha=0.001)
    assert half_width(None) is None
    scaled = half_width(Statistic(3e50, 1e100 / 5, 4.0, 5.0))
    assert scaled == pytest.approx(1e50 * of(5))


def test_the_confidence_sequence_covers_at_every_look() -> None:
    rng, episodes, missed = Random(3), 300, 0
    for _ in range(episodes):
        base = [rng.gauss(0, 1) for _ in range(4)]
        own = [rng.gauss(2, 1) for _ in range(12)]
        for n in range(2, 13):
            found = two_arms([own[:n]], arm(base))
            width = half_width(found)
            assert found is not None
            assert width is not None
            if abs(found.effect - 2) > width:
                missed += 1
                break
    assert missed <= 29  # the 99.9 % quantile of a binomial with 5 %


# Two arms


def test_one_run_is_mute_and_an_arm_of_one_borrows_the_others_noise() -> None:
    assert two_arms([[0.9]], arm([0.1, 0.2, 0.3])) is None
    assert two_arms([], arm([0.1, 0.2])) is None
    assert two_arms([[0.5, 0.5]], None) is None
    lone = two_arms([[0.9, 1.1, 1.0]], arm([0.1]))
    assert lone is not None
    assert [lone.effect, lone.nu, lone.v] == pytest.approx([0.9, 2.0, 0.01 * (1 / 3 + 1)])
    assert two_arms([[0.9, 1.1, 1.0]], arm([0.1, 0.1])) == lone  # measured the same twice


def test_more_noise_in_either_arm_makes_an_effect_less_sure() -> None:
    own, base = [0.9, 1.1, 1.0, 1.05], [0.1, 0.2, 0.05, 0.0]

    def of(stretch: float, base_stretch: float) -> float:
        mean, against = math.fsum(own) / 4, math.fsum(base) / 4
        return log_e(
            two_arms(
                [[mean + stretch * (x - mean) for x in own]],
                arm([against + base_stretch * (x - against) for x in base]),
            )
        )

    assert of(1, 1) > of(3, 1) > of(10, 1)
    assert of(1, 1) > of(1, 3) > of(1, 10)


def test_seeds_that_pull_the_arms_apart_widen_the_variance() -> None:
    own, base = [[0.9, 1.3, 1.1]], arm([0.1, -0.2, 0.05])
    plain, apart = two_arms(own, base), two_arms(own, base, covariance=-0.02, pairs=3)
    assert plain is not None
    assert apart is not None
    assert apart.v == pytest.approx(plain.v + 0.04)
    assert apart.nu <= 2
    assert two_arms(own, base, covariance=0.02, pairs=3) == plain, "what pulls together is left to the pairs"


def test_pairs_are_one_sample() -> None:
    found = paired([0.4, 0.5, 0.3, 0.45], tau=0.1, luck=0.2)
    assert found is not None
    moments = arm([0.4, 0.5, 0.3, 0.45])
    assert [found.effect, found.v, found.nu, found.n] == pytest.approx([moments.mean, moments.ss / 12, 3.0, 4.0])
    assert found.fixed == pytest.approx(0.05)
    assert paired([0.4]) is None
    assert paired([0.4, 0.4, 0.4]) is None


def test_designs_that_scatter_more_than_their_runs_count_as_clusters() -> None:
    rng = Random(2)
    luck = [rng.gauss(1, 1) for _ in range(5)]
    scattered = two_arms([[each + rng.gauss(0, 0.01) for _ in range(4)] for each in luck], None)
    assert scattered is not None
    assert scattered.nu == 4.0
    assert scattered.v == pytest.approx(arm(luck).ss / 4 / 5, rel=0.05)


# Outliers


def test_one_far_value_is_moved_to_its_neighbour() -> None:
    own, base = [0.9, 1.3, 1.1, 1.0, -40.0], [0.1, -0.2, 0.05, 0.0]
    (tamed, same), moved = winsorised([own, base])
    assert (tamed, same, moved) == ([0.9, 1.3, 1.1, 1.0, 0.9], base, 1)
    assert own[-1] == -40.0, "what was measured is left as it is"


@pytest.mark.parametrize(
    "arms",
    [
        [[0.9, 1.3, 1.1, 1.0, 1.6]],
        [[0.0, 1.0, -40.0]],
        [[0.0, 0.0, 0.0, 5.0]],
        [[0.1, -0.2, 30.0, -35.0, 40.0], [0.1, -0.1, 0.0, 0.2]],
        [[], [1.0]],
    ],
)
def test_what_is_near_few_or_noisy_is_no_outlier(arms: list[list[float]]) -> None:
    assert winsorised(arms) == (arms, 0)


def test_at_most_a_fifth_of_an_arm_is_moved_and_mirrored_arms_alike() -> None:
    rng = Random(5)
    arms = [[rng.gauss(0, 1) for _ in range(20)] + [900.0, -20000.0], [rng.gauss(0, 1) for _ in range(8)]]
    found, moved = winsorised(arms)
    assert moved == 2
    assert max(map(abs, found[0])) < 5
    mirrored, as_many = winsorised([[-value for value in each] for each in arms])
    assert as_many == 2
    assert [[-value for value in each] for each in mirrored] == found
    assert winsorised([[0.0, 0.1, 0.2, 50.0, 1e4]]) == ([[0.0, 0.1, 0.2, 50.0, 50.0]], 1)


# On average


SETTINGS: list[dict[str, Any]] = [
    {"n": 3, "base": 4, "sd": 1.0},
    {"n": 5, "base": 3, "sd": 4.0},
    {"n": 4, "base": 8, "sd": 0.25},
    {"n": 4, "base": 0, "sd": 1.0},
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_null_has_an_e_value_of_one_on_average_at_most(setting: dict[str, Any]) -> None:
    """Cut at 50, which keeps the simulation's error small and makes the mean no larger."""
    rng, total, square, draws = Random(11), 0.0, 0.0, 3000
    for _ in range(draws):
        own = [rng.gauss(0, setting["sd"]) for _ in range(setting["n"])]
        base = arm([rng.gauss(0, 1) for _ in range(setting["base"])]) if setting["base"] else None
        e = min(math.exp(log_e(two_arms([own], base))), 50.0)
        total, square = total + e, square + e * e
    mean = total / draws
    assert mean <= 1 + 3 * math.sqrt((square / draws - mean * mean) / draws)


FACTORS = [(2, 2, 8.0), (2, 8, 8.0), (4, 2, 0.125), (3, 4, 4.0), (3, 3, 1.0)]


@pytest.mark.parametrize(("n", "base", "sd"), FACTORS)
def test_a_factor_has_a_mean_of_one_at_most_uncut_whatever_the_noises(n: int, base: int, sd: float) -> None:
    """So a product of them is an e-value too. Weighed as if alone the first would have 1.4, the second 2."""
    rng, total, square, draws = Random(7), 0.0, 0.0, 3000
    for _ in range(draws):
        own, against = [rng.gauss(0, sd) for _ in range(n)], arm([rng.gauss(0, 1) for _ in range(base)])
        e = math.exp(log_e(two_arms([own], against, is_factor=True)))
        total, square = total + e, square + e * e
    mean = total / draws
    assert mean <= 1 + 3 * math.sqrt((square / draws - mean * mean) / draws)
    assert mean < 1.05


def test_an_effect_is_drawn_towards_none_by_its_noise() -> None:
    found = Statistic(1.0, 0.25, 3.0, 4.0)
    assert shrunk(1.0, found, 0.5) == pytest.approx(0.5)
    assert shrunk(1.0, found, None) is shrunk(1.0, None, 0.5) is shrunk(1.0, found, 0.0) is None
    for planned in (1e-300, 1e300, 5e-324):
        value = shrunk(1.0, found, planned)
        assert value is not None
        assert 0 <= value <= 1
