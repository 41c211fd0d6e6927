"""What an A/A test estimates, held against simulated set-ups whose noise, seed correlation and drift are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from perpetual_scorers.aa import Measured, drift, noise, seed_correlation
from perpetual_scorers.aa_advice import advice, runs_needed, sentence
from perpetual_scorers.aa_ours import HELPS, our_rule
from perpetual_scorers.aa_rules import Ask, RuleShare, rates, share_interval
from perpetual_scorers.aa_splits import Look
from perpetual_scorers.documents import Aa, AaDrift
from perpetual_scorers.quantiles import chi_square_quantile, f_quantile


def world(
    rng: Random, *, pairs: int = 4, own: int = 4, rho: float = 0.0, slope: float = 0.0, alike: float = 0.0
) -> list[Measured]:
    """An experiment's own runs, then an A/A test's in random order, half of its pairs on shared seeds; sd 1."""
    shared = (pairs + 1) // 2
    seeds = [n for n in range(shared) for _ in range(2)] + [*range(100, 100 + 2 * (pairs - shared))]
    rng.shuffle(seeds)
    runs = [Measured(rng.gauss(0.0, 1.0), f"own{n}", n, "own") for n in range(own)]
    effect: dict[int, float] = {}
    last = rng.gauss(0.0, 1.0)
    for n, seed in enumerate(seeds):
        effect.setdefault(seed, rng.gauss(0.0, 1.0))
        last = alike * last + math.sqrt(1 - alike**2) * rng.gauss(0.0, 1.0)
        value = math.sqrt(rho) * effect[seed] + math.sqrt(1.0 - rho) * last + slope * n
        runs.append(Measured(value, seed, own + n, "aa"))
    return runs


def covers(low: float | None, high: float | None, truth: float) -> bool:
    return (low is None or low <= truth) and (high is None or truth <= high)


# --- quantiles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "nu1", "nu2", "known"),
    [(0.975, 5, 2, 39.2982), (0.025, 5, 2, 1 / 8.43362), (0.95, 1, 10, 4.96460), (0.95, 30, 4, 5.74588)],
)
def test_quantiles_of_f_are_those_of_tables(p: float, nu1: float, nu2: float, known: float) -> None:
    assert f_quantile(p, nu1, nu2) == pytest.approx(known, rel=1e-4)


@pytest.mark.parametrize(("p", "nu", "known"), [(0.025, 5, 0.831212), (0.975, 1, 5.02389), (0.975, 100, 129.561)])
def test_quantiles_of_chi_square_are_those_of_tables(p: float, nu: float, known: float) -> None:
    assert chi_square_quantile(p, nu) == pytest.approx(known, rel=1e-5)


def test_a_quantile_refuses_what_is_no_probability() -> None:
    for p, nu in ((0.0, 1.0), (1.0, 1.0), (math.nan, 1.0), (0.5, 0.0)):
        with pytest.raises(ValueError):
            f_quantile(p, nu, 1.0)


# --- noise and seeds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_intervals_of_noise_and_seed_correlation_cover(rho: float) -> None:
    """Nominal 95 % (for noise at least that); 120 worlds have an error of 2 points."""
    rng = Random(f"cover:{rho}")
    worlds = [world(rng, rho=rho) for _ in range(120)]
    spreads, alike = [noise(runs) for runs in worlds], [seed_correlation(runs) for runs in worlds]
    assert sum(covers(each.low, each.high, 1.0) for each in spreads) >= 107
    assert 106 <= sum(covers(each.low, each.high, rho) for each in alike) <= 119
    variances = [each.value**2 for each in spreads if each.value is not None]
    assert sum(variances) / len(variances) == pytest.approx(1.0, abs=0.2)
    assert sorted(each.value or 0.0 for each in alike)[60] == pytest.approx(rho, abs=0.2)


def test_a_seed_that_is_run_twice_counts_once_for_the_noise() -> None:
    once = [Measured(value, n, n, "aa") for n, value in enumerate([1.0, 2.0, 4.0])]
    twice = [Measured(run.value, run.seed, run.order + shift, "aa") for run in once for shift in (0, 0.5)]
    assert noise(twice) == noise(once)
    assert noise(once).df == 2


def test_levels_of_sessions_are_no_noise() -> None:
    """What was launched at another time may lie elsewhere; that is drift."""
    near = [Measured(value, n, n, "aa") for n, value in enumerate([1.0, 2.0, 3.0])]
    far = [Measured(value + 1000.0, n, 9 + n, "later") for n, value in enumerate([1.0, 2.0, 3.0])]
    assert noise([*near, *far]).value == noise(near).value == 1.0


def test_nothing_is_said_of_what_was_not_seen() -> None:
    runs = [Measured(float(n), n, n, "aa") for n in range(4)]
    assert seed_correlation(runs)[:3] == (None, None, None), "no seed was run twice"
    assert noise(runs[:1])[:3] == (None, None, None)
    same = [Measured(0.5, n // 2, n, "aa") for n in range(6)]
    assert noise(same)[:3] == (0.0, None, None)
    assert seed_correlation(same).value is None, "a metric that never moves shows no correlation"
    fixed = [Measured(float(n // 2), n // 2, n, "aa") for n in range(6)]
    assert seed_correlation(fixed)[:3] == (1.0, None, None)


# --- drift ------------------------------------------------------------------------------------------------------------


def test_the_slope_and_its_interval_are_right_under_drift() -> None:
    found = [drift(world(Random(n), rho=0.8, slope=0.7), direction="max", permutations=199) for n in range(40)]
    slopes = [each.slope for each in found if each.slope is not None]
    assert sum(slopes) / len(slopes) == pytest.approx(0.7, abs=0.08)
    assert sum(covers(each.slope_low, each.slope_high, 0.7) for each in found) >= 34
    assert sum(bool(each.found) for each in found) >= 20
    assert all((each.later_better or 0.0) > 0.5 for each in found)


def test_drift_is_seldom_found_where_there_is_none() -> None:
    found = [drift(world(Random(n), rho=0.9), direction="max", permutations=199).found for n in range(60)]
    assert sum(bool(each) for each in found) <= 8  # nominal 5


def test_neighbours_that_are_alike_are_drift() -> None:
    found = [drift(world(Random(n), pairs=16, own=0, alike=0.8), direction="max", permutations=199) for n in range(20)]
    assert sum(bool(each.found) for each in found) >= 16
    assert all((each.lag1 or 0.0) > 0.0 for each in found)


def test_earlier_runs_elsewhere_are_a_shift() -> None:
    rng = Random("shift")
    early = [Measured(rng.gauss(0.0, 1.0), n, n, "own") for n in range(6)]
    late = [Measured(rng.gauss(5.0, 1.0), n, 10 + n, "aa") for n in range(6)]
    found = drift([*early, *late], direction="min")
    assert found.found is True
    assert found.shift == pytest.approx(5.0, abs=1.5)
    assert (found.p_shift or 1.0) < 0.01
    assert (found.p_slope or 0.0) > 0.05, "levels of sessions are no slope"


def test_too_few_runs_are_not_asked_for_drift() -> None:
    assert drift([Measured(float(n), n, n) for n in range(4)], direction="max").found is None
    assert drift([Measured(1.0, n, n) for n in range(9)], direction="max").found is None, "it never moves"


# --- rules ------------------------------------------------------------------------------------------------------------


def by_name(found: Sequence[RuleShare]) -> dict[str, RuleShare]:
    return {share.rule: share for share in found}


def test_rules_say_improved_as_often_as_normal_noise_makes_them() -> None:
    rng = Random("rules")
    found = [by_name(rates(world(rng, own=2), direction="max", seed=n)) for n in range(15)]
    for name in ("keep_if_better", "keep_if_better_3", "two_sigma", "permutation_peeking"):
        said = [each[name].said or 0.0 for each in found]
        assert sum(said) / len(said) == pytest.approx(found[0][name].normal or 0.0, abs=0.05), name
        assert all((each[name].low or 0.0) <= (each[name].said or 0.0) <= (each[name].high or 0.0) for each in found)
    assert found[0]["two_sigma"].promised == pytest.approx(0.0228, abs=1e-4)
    assert (found[0]["permutation_peeking"].normal or 0.0) > 0.05, "looking after each run costs its promise"


def test_ties_are_no_improvement() -> None:
    runs = [Measured(float(n == 0), n, n) for n in range(8)]
    kept = by_name(rates(runs, direction="max"))["keep_if_better"]
    assert kept.said == pytest.approx(7 / 56)
    assert (kept.splits, kept.is_all) == (56, True)


def test_runs_of_one_seed_are_never_compared() -> None:
    """With a seed that fixes everything a comparison within it would be a tie."""
    runs = [Measured(float(n // 2), n // 2, n) for n in range(12)]
    assert by_name(rates(runs, direction="max"))["keep_if_better"].said == 0.5


def test_too_few_seeds_for_a_rule_are_said() -> None:
    found = by_name(rates([Measured(float(n), n, n) for n in range(4)], direction="max"))
    assert found["keep_if_better"].said == 0.5
    assert (found["keep_if_better_3"].said, found["keep_if_better_3"].splits) == (None, 0)


def test_direction_and_seed_of_the_splits() -> None:
    runs = [*world(Random(1), own=0), Measured(30.0, "outlier", 99.0, "aa")]
    better, worse = (by_name(rates(runs, direction=each))["two_sigma"].said for each in ("max", "min"))
    assert (better or 0.0) > (worse or 0.0)
    assert rates(runs, direction="max", seed=3) == rates(runs, direction="max", seed=3)


def test_our_rule_is_asked_after_each_run_and_for_all_splits_at_once() -> None:
    asked: list[Sequence[Look]] = []

    def verdicts(looks: Sequence[Look]) -> list[Mapping[str, bool]]:
        asked.append(looks)
        return [{"last": len(look.treatment) == 3, "late": not look.is_in_turn, "never": False} for look in looks]

    runs = [Measured(float(n), n, n) for n in range(6)]
    promises = {"last": 0.25, "late": 0.25, "never": 0.05}
    found = by_name(rates(runs, direction="max", ours=Ask(promises, verdicts)))
    assert (found["last"].said, found["last"].promised, found["never"].said) == (1.0, 0.25, 0.0)
    assert (found["late"].said, found["late"].in_order) == (0.0, 1.0)
    (looks,) = asked
    assert [(len(look.baseline), len(look.treatment)) for look in looks[:5]] == [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]
    late = [look for look in looks if not look.is_in_turn]
    assert [(*look.baseline, *look.treatment) for look in late] == [(0, 1, 2, 3), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5)]
    assert len(looks) == 5 * found["last"].splits + 3


def test_drift_shows_where_the_baseline_came_first() -> None:
    rising = [Measured(float(n), n, n) for n in range(10)]
    up, down = (by_name(rates(rising, direction=each)) for each in ("max", "min"))
    for name in ("keep_if_better", "keep_if_better_3", "permutation_peeking"):
        assert (up[name].in_order, down[name].in_order) == (1.0, 0.0), name
    assert up["keep_if_better"].said == 0.5


def test_the_interval_of_a_share_is_hoeffding_s() -> None:
    assert share_interval(0.0, 1) == pytest.approx((0.0, 0.975))
    low, high = share_interval(0.5, 50)
    assert (low, high) == pytest.approx((0.3148, 0.6852), abs=1e-4)
    assert share_interval(1.0, 4)[1] == 1.0


# --- advice -----------------------------------------------------------------------------------------------------------


def test_the_runs_that_an_effect_needs_are_those_that_the_rule_takes() -> None:
    """Simulated by the rule itself, with one look at the end; 200 tries have an error of 3 points."""
    need = runs_needed(1.0, 3.0)
    assert need is not None
    assert runs_needed(10.0, 30.0) == need, "units make no difference"
    thresholds = {"support": 0.8, "refute": 0.2, "alpha": None, "min_replicates": 2}
    rng = Random("power")
    looks = [
        Look([rng.gauss(0.0, 1.0) for _ in range(need)], [rng.gauss(3.0, 1.0) for _ in range(need)]) for _ in range(200)
    ]
    said = our_rule(thresholds, kind="gaussian", mde=3.0, items=None).verdicts(looks)
    assert sum(each[HELPS] for each in said) / len(said) == pytest.approx(0.8, abs=0.12)


def test_an_effect_that_no_number_of_runs_shows_has_none() -> None:
    assert runs_needed(1.0, 1e-6) is None


NO_DRIFT: AaDrift = {
    "found": False, "slope": 0.0, "slope_low": None, "slope_high": None, "p_slope": None, "lag1": None, "p_lag1": None,
    "shift": None, "p_shift": None, "later_better": 0.5,
}  # fmt: skip
FOUND: Aa = {
    "experiment_id": "e1", "test": 1, "arms": ["e2", "e3"], "metric": "acc", "direction": "max", "n": 12, "own": 4,
    "seeds": 10, "pairs": 4, "shared_pairs": 2, "without_value": 0, "other_version": 0, "rules": [],
    "noise_sd": 0.012, "noise_sd_low": 0.008, "noise_sd_high": 0.024,
    "seed_correlation": 0.8, "seed_correlation_low": 0.2, "seed_correlation_high": 0.97,
    "drift": NO_DRIFT, "item_luck": 0.0566, "items": 100, "item_rate": 0.8,
    "mde": 0.02, "mde_is_noise": False, "advice": [], "sentence": "",
}  # fmt: skip


def test_advice_says_what_to_do() -> None:
    lines = advice(FOUND)
    assert lines[0].startswith("noise 0.012 (0.008 to 0.024): an effect of 0.02 needs 28 runs an arm, or 124 if")
    assert any(line.startswith("seeds correlate 0.8 (0.2 to 0.97): pair them") and "5 times" in line for line in lines)
    assert any(line.startswith("100 items at a mean of 0.8: two equally good models differ by 0.057") for line in lines)
    assert any(line.startswith("no drift seen") for line in lines)


def test_advice_says_only_what_the_figures_carry() -> None:
    unclear = advice({**FOUND, "seed_correlation_low": -0.6})
    assert any("2 pairs cannot say whether to pair them" in line for line in unclear)
    still = advice({**FOUND, "noise_sd": 0.0, "noise_sd_low": None, "noise_sd_high": None})
    assert still[0].startswith("every run measured the same")
    assert not any("pair" in line for line in still)
    unclaimed = advice({**FOUND, "mde": 0.012, "mde_is_noise": True})
    assert "an effect of that size needs 81 runs an arm, one of twice that 20" in unclaimed[0]
    odd = advice({**FOUND, "item_luck": None})
    assert any("acc is no share of right answers" in line for line in odd)
    moved: AaDrift = {**NO_DRIFT, "found": True, "p_slope": 0.001, "p_lag1": 0.6, "p_shift": 0.5, "slope": 0.1}
    lines = advice({**FOUND, "drift": moved})
    assert [line for line in lines if "interleave" in line] == [
        line for line in lines if line.startswith("drift of 0.1")
    ]


def test_the_sentence_is_of_the_shares() -> None:
    assert "too few" in sentence(FOUND)
