"""Sweeps: the surrogate against formulas and direct computation, and what is chosen by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from perpetual.science import best, propose
from perpetual_scorers.proposing.surrogate import Belief, cholesky, distances, expected_rise, fitted
from perpetual_scorers.proposing.sweep import FINALISTS, MOST_IN_PLAY


def setting(name: str, *x: float, **more: Any) -> dict[str, Any]:
    return {"id": name, "x": list(x), "cost": 1.0, "seen": [], **more}


def state(*settings: Mapping[str, Any], direction: str = "max", seed: int = 0, **more: Any) -> dict[str, Any]:
    return {"sweep": {"settings": list(settings), "direction": direction, **more}, "seed": seed}


def line(*values: list[float], **more: Any) -> dict[str, Any]:
    """A sweep over one number."""
    return state(*(setting(f"s{i}", float(i), seen=seen) for i, seen in enumerate(values)), **more)


# --- the surrogate ----------------------------------------------------------------------------------------------------


def test_the_expected_rise_is_that_of_a_simulation() -> None:
    means, slopes = [0.3, 0.0, 0.25, -1.0, 0.3], [0.1, 0.9, -0.4, 0.2, 0.1]
    rng, draws = Random(1), 100_000
    total = 0.0
    for _ in range(draws):
        z = rng.gauss(0, 1)
        total += max(mean + slope * z for mean, slope in zip(means, slopes, strict=True))
    assert expected_rise(means, slopes) == pytest.approx(total / draws - 0.3, abs=0.01)
    # Two lines: the closed form of the expected improvement, whatever the order and however many are hidden.
    z = 0.2 / 0.5
    closed = 0.5 * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / math.sqrt(2)) / 2)
    assert expected_rise([0.2, 0.0], [0.0, 0.5]) == pytest.approx(closed)
    assert expected_rise([-9.0, 0.0, 0.2, 0.2], [0.5, 0.5, 0.0, 0.0]) == pytest.approx(closed)
    assert expected_rise([1.0, 2.0, 2.0], [0.3, 0.3, 0.3]) == 0.0


def test_cholesky_multiplies_back() -> None:
    lower = cholesky([[4.0, 2.0, 1.0], [2.0, 3.0, 0.5], [1.0, 0.5, 2.0]])
    product = [[math.fsum(a * b for a, b in zip(one, two, strict=False)) for two in lower] for one in lower]
    assert [value for row in product for value in row] == pytest.approx([4, 2, 1, 2, 3, 0.5, 1, 0.5, 2])


def test_distances_are_those_of_the_unit_cube() -> None:
    far = distances([[1.0, 100.0, 7.0], [3.0, 100.0, 7.0], [1.0, 300.0, 7.0]])
    assert far[0] == pytest.approx([0.0, math.sqrt(0.5), math.sqrt(0.5)])
    assert far[1][2] == pytest.approx(1.0)
    assert distances([[1.0], [1.0]]) == distances([[], []]) == [[0.0, math.inf], [math.inf, 0.0]]


def test_the_belief_is_that_of_the_conditional_normal() -> None:
    """Two settings, one of them seen: means and variances by hand, for each point of the grid."""
    beliefs = fitted(distances([[0.0], [1.0]]), [[1.0, 3.0], []])
    assert math.fsum(belief.weight for belief in beliefs) == pytest.approx(1.0)
    for belief in beliefs:
        assert belief.mean[0] == pytest.approx(2.0)  # the grand mean is the only value that was seen
        assert belief.noise == pytest.approx(math.sqrt(2.0))
        assert belief.df == 1
        prior = belief.covariance[0][0] / (1 - 2 * belief.covariance[0][0])  # 1/posterior = 1/prior + two runs
        assert prior > 10
        again = belief.after(0)
        assert 1 / again.covariance[0][0] == pytest.approx(1 / belief.covariance[0][0] + 1)
        assert again.covariance[1][1] < belief.covariance[1][1]


def test_beliefs_follow_shifts_and_units() -> None:
    values = [[0.1, 0.4], [], [0.9], [0.3]]
    far = distances([[0.0], [1.0], [2.0], [5.0]])
    for one, other in zip(
        fitted(far, values), fitted(far, [[5 + 100 * v for v in row] for row in values]), strict=True
    ):
        assert other.mean == pytest.approx([5 + 100 * mean for mean in one.mean])
        assert other.noise == pytest.approx(100 * one.noise)
        assert other.weight == pytest.approx(one.weight)


def test_smooth_values_carry_over_and_erratic_ones_do_not() -> None:
    """Half-way between good neighbours lies a good setting, unless neighbours are nothing alike."""
    far = distances([[i / 10] for i in range(11)])
    rng = Random(2)

    def runs(value: float) -> list[float]:
        return [value + rng.gauss(0, 0.2), value + rng.gauss(0, 0.2)]

    smooth = [runs(math.sin(i / 3)) if i != 5 else [] for i in range(11)]
    erratic = [runs((-1.0) ** (i % 3 == 0)) if i != 5 else [] for i in range(11)]

    def sd(beliefs: list[Belief]) -> float:
        return math.fsum(b.weight * b.noise * math.sqrt(b.covariance[5][5]) for b in beliefs)

    found = fitted(far, smooth)
    assert math.fsum(b.weight * b.mean[5] for b in found) == pytest.approx(math.sin(5 / 3), abs=0.3)
    assert sd(found) < sd(fitted(far, erratic))


# --- the pick ---------------------------------------------------------------------------------------------------------


def test_a_lucky_score_is_not_the_best() -> None:
    """One high run beside poor neighbours is luck; three good runs amid good ones are not."""
    rows = [[-2.1, -1.2], [-1.9, -0.6], [-0.4, -1.3], [0.9, 0.3, 0.6], [1.2, 0.1, 0.4], [0.3, -0.6], [-1.5, -0.8]]
    rows += [[-1.1, -2.0], [1.0]]
    assert max(range(9), key=lambda i: sum(rows[i]) / len(rows[i])) == 8
    assert best(line(*rows)) in ("s3", "s4")
    turned = [[-value for value in row] for row in rows]
    assert best(line(*turned, direction="min")) == best(line(*rows))


def test_a_run_without_value_counts_as_the_worst() -> None:
    assert best(line([1.0, 1.1], [None, 1.15], [0.9, 1.0])) == "s0"  # type: ignore[list-item]
    assert best(line([None], [None])) in ("s0", "s1")  # type: ignore[list-item]


def test_one_diverged_setting_does_not_hide_the_others() -> None:
    rows = [[0.70, 0.71], [0.90, 0.91], [0.72, 0.70], [-1e9], [0.71, 0.69], [0.5]]
    assert best(line(*rows)) == "s1"
    assert best(line(*[[-v for v in row] for row in rows], direction="min")) == "s1"


def test_only_what_has_run_is_the_best() -> None:
    assert best(line([0.0], [], [-1.0])) == "s0"
    with pytest.raises(ValueError, match="seen must hold"):
        best(line([], []))


# --- what runs next ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [None, "top_two", "round_robin"])
def test_the_same_state_has_the_same_answer(strategy: str | None) -> None:
    rows = [[0.1], [], [0.5, 0.2], [0.4], [], [0.0], [0.3]]
    asked = line(*rows)
    first = propose(asked, 3, {"strategy": strategy})
    assert len(first) == 3
    assert propose(line(*rows), 3, {"strategy": strategy}) == first
    assert asked == line(*rows)


def test_seeds_draw_differently() -> None:
    rows = [[0.1], [0.2], [0.5, 0.2], [0.4], [0.3], [0.0], [0.3]]
    picked = {tuple(propose(line(*rows, seed=seed), 2, {"strategy": "top_two"})) for seed in range(30)}
    assert len(picked) > 3


def test_it_begins_with_settings_far_apart() -> None:
    picks = propose(line(*[[] for _ in range(16)]), 5, {})
    places = sorted(int(pick[1:]) for pick in picks)
    assert len(places) == 5
    assert places[0] == 0 or places[-1] == 15
    assert min(high - low for low, high in pairwise(places)) >= 2


def test_runs_go_where_the_best_may_be() -> None:
    """The poor half is left alone, and the clear leader is not run for ever."""
    rows = [[-3.0 + i / 10, -3.1 + i / 10] for i in range(6)] + [[0.1, -0.1], [0.2, 0.15], [0.0, 0.3]]
    for strategy in (None, "top_two"):
        picks = propose(line(*rows), 12, {"strategy": strategy})
        assert {pick for pick in picks if pick not in ("s6", "s7", "s8")} == set()
        assert len(set(picks)) > 1


def test_a_cheap_setting_is_preferred_to_an_equal_one() -> None:
    def priced(*costs: float) -> dict[str, Any]:
        values = [[0.0, 0.1], [0.1, 0.0], [-2.0, -2.1], [-2.0, -2.2], [-2.1, -2.0]]
        each = enumerate(zip(values, costs, strict=True))
        return state(*(setting(f"s{i}", seen=row, cost=cost) for i, (row, cost) in each))

    assert propose(priced(1, 9, 1, 1, 1), 1, {}) == ["s0"]
    assert propose(priced(9, 1, 1, 1, 1), 1, {}) == ["s1"]


def test_the_budget_is_not_overdrawn() -> None:
    rows = [setting(f"s{i}", float(i), cost=cost) for i, cost in enumerate([1.0, 2.0, 5.0])]
    picks = propose({**state(*rows), "budget_left": 4.0}, 9, {})
    assert "s2" not in picks
    assert sum({"s0": 1.0, "s1": 2.0}[pick] for pick in picks) <= 4.0
    assert propose({**state(*rows), "budget_left": 0.5}, 9, {}) == []


def test_what_is_pending_is_not_asked_for_again() -> None:
    rows = [setting(f"s{i}", float(i), pending=int(i < 15)) for i in range(16)]
    assert propose(state(*rows), 1, {"strategy": "round_robin"}) == ["s15"]
    few = [setting(f"s{i}", float(i), pending=1) for i in range(3)]
    assert len(propose(state(*few), 2, {})) == 2


def test_round_robin_takes_turns() -> None:
    assert propose(line([0.1], [], [0.3]), 4, {"strategy": "round-robin"}) == ["s1", "s0", "s1", "s2"]


def test_a_sweep_of_one_setting_repeats_it() -> None:
    only = setting("s0")
    assert propose(state(only), 2, {}) == ["s0", "s0"]
    assert best(state({**only, "seen": [1.0]})) == "s0"


def test_many_settings_are_cut_to_those_in_play() -> None:
    """The best that was seen stays; the cut is the same for the same state."""
    rows = [setting(f"s{i}", float(i), seen=[1.0 if i == 700 else 0.0] if i % 100 == 0 else []) for i in range(2000)]
    assert best(state(*rows)) == "s700"
    assert MOST_IN_PLAY == 150
    picks = propose(state(*rows), 1, {})
    assert picks == propose(state(*rows), 1, {})


# --- rungs ------------------------------------------------------------------------------------------------------------


def climb(values: Callable[[int], float], count: int) -> tuple[dict[str, Any], list[int]]:
    """Runs a sweep on three rungs until each finalist has run in full once; answers the state, and runs by rung."""
    asked = state(*(setting(f"s{i}", float(i), curve=[]) for i in range(count)), rungs=[1, 3, 9])
    rows, climbed = asked["sweep"]["settings"], [0, 0, 0]
    while sum(bool(row["seen"]) for row in rows) < FINALISTS:
        (pick,) = propose(asked, 1, {})
        row = rows[int(pick[1:])]
        climbed[len(row["curve"])] += 1
        (row["curve"] if len(row["curve"]) < 2 else row["seen"]).append(values(int(pick[1:])))
    return asked, climbed


def test_successive_halving_takes_the_best_third_on() -> None:
    asked, climbed = climb(lambda i: -abs(i - 11.0), 18)
    assert climbed == [18, 6, FINALISTS]
    finalists = {row["id"] for row in asked["sweep"]["settings"] if row["seen"]}
    assert finalists in ({"s9", "s10", "s11", "s12"}, {"s10", "s11", "s12", "s13"})
    assert best(asked) == "s11"
    assert {*propose(asked, 8, {})} <= finalists


def test_a_rung_costs_its_share() -> None:
    asked = state(*(setting(f"s{i}", float(i), curve=[]) for i in range(9)), rungs=[1, 3, 9])
    assert len(propose({**asked, "budget_left": 0.5}, 9, {})) == 4
    waiting = state(*(setting(f"s{i}", float(i), curve=[], pending=1) for i in range(9)), rungs=[1, 3, 9])
    assert propose(waiting, 3, {}) == []


def test_before_a_full_run_the_furthest_is_the_best() -> None:
    rows = [setting("s0", 0.0, curve=[9.0]), setting("s1", 1.0, curve=[1.0, 2.0]), setting("s2", 2.0, curve=[1.0, 3.0])]
    assert best(state(*rows, rungs=[1, 3, 9])) == "s2"
    assert best(state(*rows, rungs=[1, 3, 9], direction="min")) == "s1"
    assert best(state(setting("s3", 3.0, seen=[0.0]), *rows, rungs=[1, 3, 9])) == "s3"


# --- what is wrong is named -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sweep": 3}, "sweep"),
        ({"sweep": {"settings": [{"id": "a"}]}}, "direction"),
        ({"sweep": {"settings": [], "direction": "max"}}, "settings"),
        ({"sweep": {"settings": [1], "direction": "max"}}, "settings"),
        ({"sweep": {"settings": [{"x": [1]}], "direction": "max"}}, "id"),
        (state(setting("a"), setting("a")), "settings"),
        (state(setting("a", 1.0), setting("b")), "settings"),
        (state(setting("a", math.nan)), "x"),
        (state(setting("a", x="12")), "x"),
        (state(setting("a", seen=["good"])), "seen"),
        (state(setting("a", seen=[math.inf])), "seen"),
        (state(setting("a", seen=4.0)), "seen"),
        (state(setting("a", cost=-1.0)), "cost"),
        (state(setting("a", curve=[True, "x"]), rungs=[1, 2]), "curve"),
        (state(setting("a", pending="one")), "pending"),
        (state(setting("a"), rungs=[3, 1]), "rungs"),
        (state(setting("a"), rungs=[0, 1]), "rungs"),
        (state(setting("a"), rungs=["1"]), "rungs"),
        ({**state(setting("a")), "budget_left": math.nan}, "budget_left"),
    ],
)
def test_an_error_names_the_key(wrong: dict[str, Any], named: str) -> None:
    for ask in (lambda: propose(wrong, 1, {}), lambda: best(wrong)):
        with pytest.raises(ValueError, match=named):
            ask()


def test_an_unknown_strategy_is_refused() -> None:
    assert propose(line([], []), 1, {"strategy": "hypothesis_driven"}) == propose(line([], []), 1, {})
    with pytest.raises(ValueError, match="strategy must be one of"):
        propose(line([], []), 1, {"strategy": "best guess"})


def test_extreme_values_are_survived() -> None:
    rows = [[1e308], [-1e308], [0.0], [1e-308], [5.0, 5.0]]
    assert best(line(*rows)) == "s0"
    for strategy in (None, "top_two"):
        assert len(propose(line(*rows), 3, {"strategy": strategy})) == 3
    same = line(*[[1.0, 1.0] for _ in range(8)])
    assert len({*propose(same, 8, {})}) > 1
    wide = state(setting("a", -1e308, seen=[1.0]), setting("b", 1e308, seen=[2.0]), setting("c", 0.0))
    assert best(wide) == "b"
