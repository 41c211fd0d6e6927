"""The simulated campaigns: what they are made of, that policies are checked, and what the strategies achieve."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from perpetual.api import ScorerState
from perpetual.science import STRATEGIES
from perpetual_scorers.earlier_rule import log_odds
from perpetual_scorers.figures import compared
from perpetual_scorers.simulate import (
    ARMS,
    LONGEST_RUN_HOURS,
    WORLDS,
    Arm,
    Baseline,
    Broken,
    Cell,
    Conditions,
    Design,
    Episode,
    Said,
    StrategyPolicy,
    bench,
    benched,
    brier_score,
    calibration_error,
    episode,
    interval,
    said_true,
    summary,
)

DEFAULT = StrategyPolicy("hypothesis_driven")
CELL = Cell(0.8, 1)
PAIRED = Cell(0.8, 1, menu="standard", seed_correlation=0.8)
QUICK = PAIRED._replace(threshold=0.6)  # the soonest decided
EARLIER_NATS = 2.556264866129508


def first(state: Mapping[str, Any], k: int) -> list[str]:
    """The first candidates, whatever they are."""
    return [candidate["id"] for candidate in state["candidates"]][:k]


class Once:
    """Picks the first candidate of the first state, and nothing after it."""

    def __call__(self, state: ScorerState, k: int) -> list[str]:
        return first(state, k) if all(row["n_runs"] == 0 for row in state["hypotheses"]) else []


# --- what a campaign is ---------------------------------------------------------------------------------------------


def watched(cell: Cell, policy: Any = DEFAULT, **conditions: Any) -> list[ScorerState]:
    """The states that a policy meets in the first 60 calls of a campaign."""
    seen: list[ScorerState] = []

    def watching(state: ScorerState, k: int) -> Sequence[str]:
        seen.append(state)
        return policy(state, k) if len(seen) < 60 else []

    given = {"baselines": True} | conditions
    episode(Arm(watching, Conditions(**given)), cell, 0, 0)
    return seen


def test_a_campaign_shows_a_policy_what_the_lab_would_show() -> None:
    seen = watched(CELL._replace(batch=3))
    start = seen[0]
    assert len(start["hypotheses"]) == 12
    baselines = [row for row in start["candidates"] if row.get("kind") == "baseline"]
    claims = [row for row in start["candidates"] if row.get("kind") != "baseline"]
    assert (len(claims), len(baselines)) == (24, 6)
    assert {row["confidence"] for row in start["hypotheses"]} == {0.5}
    assert start["support"] == 0.8
    assert start["refute"] == pytest.approx(0.2)
    assert {row["sigma"] for row in claims} == {None}, "noise is never known"
    assert {row["baseline_id"] for row in claims} == {row["baseline_id"] for row in baselines}
    assert {row["n_seen"] for row in baselines} == {0}, "baselines are run too"
    assert seen[0]["seed"] == seen[1]["seed"], "the first decision is asked for again"
    assert len({state["seed"] for state in seen}) > len(seen) / 2, "each decision has its own"


def test_a_policy_that_weighs_no_baselines_has_them_run_for_it() -> None:
    seen = watched(CELL, baselines=False)
    assert not any(row.get("kind") == "baseline" for state in seen for row in state["candidates"])
    played = episode(Once(), CELL, 0, 0)
    assert played.runs == 5, "four of the baseline, and the one that was picked"


@pytest.mark.parametrize(("menu", "designs"), [("standard", 1), ("proxy", 2), ("all", 4)])
def test_a_menu_says_which_designs_there_are(menu: str, designs: int) -> None:
    start = watched(CELL._replace(menu=menu))[0]
    assert sum(row.get("kind") != "baseline" for row in start["candidates"]) == 12 * designs
    assert any(row.get("proxy") for row in start["candidates"]) == (menu != "standard")


def test_stand_ins_alone_decide_nothing() -> None:
    """A policy that runs nothing else leaves everything open, at 400 run-hours."""

    def cheap(state: ScorerState, k: int) -> list[str]:
        rows = sorted(state["candidates"], key=lambda row: (row["n_seen"], row["id"]))
        return [row["id"] for row in rows if row.get("proxy") and row["n_seen"] < 6][:k]

    played = episode(cheap, CELL._replace(batch=6, threshold=0.55), 0, 0)
    assert played.undecided == 12
    assert played.run_hours == LONGEST_RUN_HOURS
    assert any(not 0.45 < p < 0.55 for _, p in played.said), "past a threshold, and open"


def test_what_pairs_teach_reaches_the_policy() -> None:
    cell = CELL._replace(seed_correlation=0.9, menu="proxy")
    last = watched(cell)[-1]
    assert max(row.get("rho", 0.0) for row in last["candidates"]) > 0.5
    unpaired = watched(cell, paired=False)
    assert not any("rho" in row for state in unpaired for row in state["candidates"])

    def both(state: ScorerState, k: int) -> list[str]:
        return [min(state["candidates"], key=lambda row: (row["n_seen"] >= 2, row["id"]))["id"]]

    learned = [row for state in watched(cell, both, baselines=False) for row in state["candidates"] if "bias" in row]
    assert learned, "three pairs of stand-in and standard run"
    assert all(row.get("proxy") for row in learned)


def test_seeds_share_as_much_of_their_luck_as_is_said() -> None:
    for correlation, low, high in ((0.0, -0.15, 0.15), (0.8, 0.7, 0.9)):
        baseline = Baseline("standard", CELL._replace(seed_correlation=correlation), "key")
        design = Design("d", baseline, 0.0, random.Random(1))
        for order in range(600):
            baseline.run(order)
        for order in range(600):
            design.run(order)
        pairs = design.pairs()
        assert len(pairs) == design.n_seen > 500, "every run is on a seed of the baseline"
        x, y = ([pair[side] for pair in pairs] for side in (0, 1))
        assert low < statistics.correlation(x, y) < high


def test_the_base_rate_is_that_of_the_effects_and_a_twelfth_of_the_runs_crash() -> None:
    for rate in (0.1, 0.5):
        played = [episode(lambda state, k: [], CELL._replace(base_rate=rate), 1, number) for number in range(150)]
        truths = [is_true for one in played for is_true, _ in one.said]
        assert truths.count(True) / len(truths) == pytest.approx(rate, abs=0.04)
        assert truths.count(None) / len(truths) == pytest.approx((1 - rate) / 4, abs=0.04)
    design = Design("d", Baseline("standard", CELL, "key"), 1.0, random.Random(1))
    for order in range(4000):
        design.run(order, paired=False)
    assert 0.07 < design.crashes / 4000 < 0.09
    assert design.n_seen + design.crashes == 4000


def test_the_same_number_is_the_same_campaign_for_every_policy() -> None:
    one = episode(DEFAULT, QUICK, 3, 4)
    assert one == episode(StrategyPolicy("hypothesis_driven"), QUICK, 3, 4)
    other = episode(StrategyPolicy("decisive"), QUICK, 3, 4)
    assert [is_true for is_true, _ in other.said] == [is_true for is_true, _ in one.said]
    assert one != episode(DEFAULT, QUICK, 3, 5)
    assert one != episode(DEFAULT, QUICK, 4, 4)


@pytest.mark.parametrize("world", WORLDS)
def test_most_of_each_world_is_decided_rightly(world: str) -> None:
    played = episode(DEFAULT, QUICK._replace(world=world), 0, 0)
    assert played.right[-1] >= 9
    assert played.right == tuple(sorted(played.right))
    assert played.right[-1] + played.wrong + played.undecided == 12
    assert 0 < played.half_hours < played.run_hours


def test_worlds_give_different_campaigns() -> None:
    found = {world: episode(DEFAULT, QUICK._replace(world=world), 0, 0) for world in WORLDS}
    assert len({(one.run_hours, one.said) for one in found.values()}) == len(WORLDS)


def test_giving_up_is_not_cheap() -> None:
    played = episode(lambda state, k: [], CELL, 0, 0)
    assert (played.run_hours, played.runs, played.half_hours) == (LONGEST_RUN_HOURS, 0, LONGEST_RUN_HOURS)
    result = summary("idle", CELL, [played])
    assert (result.undecided, result.error_rate, result.false_support_rate) == (12, None, 0.0)


def test_the_same_run_for_ever_ends() -> None:
    dear = CELL._replace(menu="all")
    played = episode(lambda state, k: ["h1-full"] if state["hypotheses"][0]["id"] == "h1" else [], dear, 7, 3)
    assert played.run_hours >= LONGEST_RUN_HOURS


def test_the_earlier_rule_is_that_of_its_commit() -> None:
    """Worked by that commit: values 1, 1.4, 0.6 beside 0, 0.5, -0.3, 0.2, tau 0.2; and a result far off both ways."""
    values, base = [1.0, 1.4, 0.6], [0.0, 0.5, -0.3, 0.2]
    assert log_odds([(values, base, 0.2)]) == pytest.approx(EARLIER_NATS, abs=1e-9)
    assert log_odds([([9.0, 9.1, 9.2], base, 0.2)]) == pytest.approx(4.3059570481972615)
    assert log_odds([([0.5, 0.5001, 0.4999], [0.0, 1e-4, -1e-4, 0.0], 0.0)]) == 0.0, "short of one and past the other"


# --- policies are checked -------------------------------------------------------------------------------------------


def raises(state: Mapping[str, Any], k: int) -> list[str]:
    raise KeyError("lost")


def leaves(state: Mapping[str, Any], k: int) -> list[str]:
    raise SystemExit(3)


def changes(state: Mapping[str, Any], k: int) -> list[str]:
    state["candidates"][0]["n_seen"] += 1
    return first(state, k)


class Remembers:
    """Each call answers another candidate."""

    calls = 0

    def __call__(self, state: Mapping[str, Any], k: int) -> list[str]:
        self.calls += 1
        return [state["candidates"][self.calls % len(state["candidates"])]["id"]]


BROKEN: list[tuple[Callable[..., Any], str]] = [
    (raises, "it raised KeyError: 'lost'"),
    (leaves, "it raised SystemExit: 3"),
    (changes, "it changed the state"),
    (Remembers(), "it is not pure"),
    (lambda state, k: [random.choice(state["candidates"])["id"]], "it is not pure"),
    (lambda state, k: None, "it answered NoneType None, not a list"),
    (lambda state, k: "h1-proxy", "it answered str 'h1-proxy', not a list"),
    (lambda state, k: ["h99"], "it picked 'h99', which is no candidate"),
    (lambda state, k: [float("nan")], "it picked nan, which is no candidate"),
    (lambda state, k: first(state, k + 1), "it picked 2 where 1 were asked for"),
]


@pytest.mark.parametrize(("policy", "words"), BROKEN, ids=[words for _, words in BROKEN])
def test_a_policy_that_breaks_its_contract_is_named_with_the_reason(policy: Callable[..., Any], words: str) -> None:
    with pytest.raises(Broken) as caught:
        episode(policy, CELL, 0, 0)
    assert str(caught.value).startswith(words)


def test_a_broken_policy_fails_its_rows_and_no_other() -> None:
    results = bench({"broken": raises, "sound": Once()}, thresholds=(0.8,), batches=(1, 3), episodes=2)
    assert [(row.policy, row.problem is None) for row in results] == [("broken", False), ("sound", True)] * 2
    assert results[0].problem == "it raised KeyError: 'lost'"
    assert results[0].run_hours is None


# --- the bench ------------------------------------------------------------------------------------------------------


def backwards(function: Callable[..., Any], jobs: Iterable[Any]) -> Iterable[Any]:
    """Does the jobs last to first, and answers them in their order."""
    return [function(job) for job in reversed([*jobs])][::-1]


def test_the_answer_does_not_depend_on_the_order_of_work() -> None:
    policies: dict[str, Callable[..., Any] | Arm] = {"a": Once(), "b": lambda state, k: []}
    given: dict[str, Any] = {"thresholds": (0.6,), "batches": (1, 3), "menu": "standard", "seed_correlation": 0.8}
    given |= {"episodes": 6, "seed": 5, "world": "misdeclared-effect"}
    told: list[tuple[int, int]] = []
    plain = bench(policies, **given, progress=lambda done, whole: told.append((done, whole)))
    assert bench(policies, **given, run=backwards) == plain
    assert told[-1] == (24, 24)
    assert [row.batch for row in plain] == [1, 1, 3, 3]
    assert bench(policies, **{**given, "seed": 6}) != plain


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"thresholds": (0.5,)}, "threshold"),
        ({"thresholds": (1.0,)}, "threshold"),
        ({"batches": (0,)}, "batch"),
        ({"world": "flat"}, "world must be one of standard"),
        ({"menu": "lunch"}, "menu must be one of standard, proxy, all"),
        ({"base_rate": 1.5}, "a base rate lies between 0 and 1"),
        ({"seed_correlation": -0.1}, "a correlation of seeds lies between 0 and 1"),
        ({"episodes": 0}, "episodes"),
    ],
)
def test_impossible_settings_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bench({"a": DEFAULT}, **given)


ONE = Episode(10.0, 5, ((True, 0.9), (False, 0.85), (None, 0.1), (False, 0.5)), (0, 1, 2, 2, 2), 1, 1, 8.0, 1, 2)
TWO = Episode(30.0, 7, ((True, 0.95), (False, 0.1), (False, 0.05), (None, 0.9)), (0, 2, 4, 4, 4), 0, 0, 4.0, 0, 3)


def test_the_figures_are_those_of_the_campaigns() -> None:
    result = summary("p", CELL, [ONE, TWO])
    assert (result.run_hours, result.runs, result.undecided, result.half_hours) == (20.0, 6.0, 0.5, 6.0)
    assert (result.right_10, result.right_20, result.right_40, result.right) == (0.0, 1.5, 3.0, 3.0)
    assert result.error_rate == pytest.approx(1 / 7)
    assert result.false_support_rate == pytest.approx(1 / 5)
    assert result.false_support_bound == pytest.approx(1 / 4)
    assert result.said_true is not None
    assert result.said_true.n == 3, "a claim between both has no truth"
    assert result.said_true.true_share == pytest.approx(2 / 3)
    assert result.said_true.mean_confidence == pytest.approx(0.9)
    assert (result.low, result.high) == (10.0, 30.0)
    assert (result.right_40_low, result.right_40_high) == (2.0, 4.0)


def test_a_comparison_says_where_a_policy_helps_and_where_not() -> None:
    good, bad = [TWO] * 9 + [ONE], [ONE] * 10
    cell, careful = CELL, CELL._replace(threshold=0.9)
    played: dict[tuple[str, Cell], Sequence[Episode]] = {
        ("ours", cell): good, ("theirs", cell): bad, ("same", cell): good,
        ("old", careful): bad, ("ours", careful): bad,
    }  # fmt: skip
    rows = {(row.against, row.equal_error): row for row in compared(played, "ours", "0", other_rules={"old"})}
    assert rows["theirs", False].says == "helps"
    assert rows["theirs", False].right_ratio == pytest.approx(3.8 / 2)
    assert rows["theirs", False].hours_ratio == pytest.approx(4.4 / 8)
    assert rows["same", False].says == "no difference"
    assert (rows["same", False].right_low, rows["same", False].right_high) == (1.0, 1.0)
    assert rows["old", False].says == "no difference"
    lower = rows["old", True]
    assert (lower.threshold, lower.against_threshold, lower.says) == (0.8, 0.9, "helps")
    assert lower.error_rate is not None
    assert lower.against_error_rate is not None
    assert lower.error_rate <= lower.against_error_rate
    worse = compared({("ours", cell): bad, ("theirs", cell): good}, "ours")[0]
    assert worse.says == "worse"
    nothing = compared({("ours", cell): good, ("theirs", cell): [ONE._replace(right=(0,) * 5)] * 10}, "ours")[0]
    assert (nothing.right_ratio, nothing.says) == (None, "helps"), "no ratio to nothing"


def test_calibration_figures_worked_by_hand() -> None:
    perfect = [(True, 1.0), (False, 0.0)]
    assert (brier_score(perfect), calibration_error(perfect)) == (0.0, 0.0)
    vain = [(True, 0.95), (False, 0.95)]
    assert calibration_error(vain) == pytest.approx(0.45)
    assert brier_score(vain) == pytest.approx((0.05**2 + 0.95**2) / 2)
    assert said_true([(True, 0.5)]) == Said(0, None, None)


@pytest.mark.slow
def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng, covered = random.Random(3), 0
    for n in range(100):
        low, high = interval([rng.gauss(1.0, 1.0) for _ in range(40)], str(n))
        covered += low <= 1.0 <= high
    assert 86 <= covered <= 99


# --- what the strategies achieve ------------------------------------------------------------------------------------


def test_the_default_decides_more_in_the_same_hours() -> None:
    """A few campaigns on correlated seeds: twice what round robin decides in 20 hours, and at bounded errors."""
    policies = {name: StrategyPolicy(name) for name in ("round_robin", "hypothesis_driven")}
    cells = [PAIRED._replace(threshold=0.7)]
    turns, chosen = benched(policies, cells, episodes=6, seed=2).results
    assert turns.right_20 is not None
    assert chosen.right_20 is not None
    assert chosen.right_20 > 2 * turns.right_20
    for row in (turns, chosen):
        assert row.error_rate is not None
        assert row.error_rate < 0.2
        assert row.undecided is not None
        assert row.undecided < 2


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_pairs_and_baseline_runs_save_hours_where_seeds_correlate() -> None:
    """24 campaigns, correlation 0.8: the figures of the documentation, with the slack of so few.

    The unpaired arm is judged by the same rule, which asks more of a baseline's noise than the earlier one did: pairs
    save less against it than against the rule of 7c2e50b.
    """
    policies: dict[str, Any] = {"default": DEFAULT, "turns": StrategyPolicy("round_robin")}
    policies |= {name: Arm(DEFAULT, conditions) for name, conditions in ARMS.items()}
    found = benched(policies, [PAIRED, PAIRED._replace(threshold=0.95)], reference="default", episodes=24, seed=2)
    rows = {(row.against, row.against_threshold): row for row in found.comparisons if not row.equal_error}
    results = {(result.policy, result.threshold): result for result in found.results}
    for threshold, most_of_unpaired, most_hours in ((0.8, 0.85, 60), (0.95, 0.65, 110)):
        for against in ("unpaired", "unpaired, no baseline runs", "rule of 7c2e50b"):
            assert rows[against, threshold].says == "helps", rows[against, threshold]
        ratio, hours = rows["unpaired", threshold].hours_ratio, results["default", threshold].half_hours
        assert ratio is not None
        assert ratio < most_of_unpaired
        assert hours is not None
        assert hours < most_hours
        turns = rows["turns", threshold]
        assert turns.right_low is not None
        assert turns.total_low is not None
        assert turns.right_low > 1
        assert turns.total_low <= 1.03, "never clearly worse than turn by turn"
        for policy in ("default", "turns", "unpaired"):
            error_rate = results[policy, threshold].error_rate
            assert error_rate is not None
            assert error_rate < 1 - threshold
    for result in found.results:
        assert result.false_support_rate is not None
        assert result.false_support_rate < result.false_support_bound


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_strategy_errs_more_than_its_threshold_allows() -> None:
    """Of null effects at most one in four is ever supported at 0.8; the rule promises it, whatever chooses the runs."""
    policies = {name: StrategyPolicy(name) for name in STRATEGIES}
    cell = Cell(0.8, 3, "misdeclared-noise", "proxy", 0.1, 0.5)
    for result in benched(policies, [cell], episodes=10, seed=4).results:
        assert result.false_support_rate is not None
        assert result.false_support_rate < 0.25
        assert result.ece is not None
        assert result.ece < 0.2, "what e-values do not prove is left near one half"
