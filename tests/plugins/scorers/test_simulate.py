"""The simulated campaigns: what they are made of, that policies are checked, and what the strategies achieve."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from perpetual.api import ScorerState
from perpetual_scorers.simulate import (
    LONGEST_RUN_HOURS,
    WORLDS,
    Broken,
    Cell,
    Design,
    Episode,
    Result,
    Said,
    StrategyPolicy,
    bench,
    brier_score,
    calibration_error,
    episode,
    interval,
    said_true,
    summary,
)

DEFAULT = StrategyPolicy("hypothesis_driven")
CELL = Cell(0.8, 1)


def first(state: Mapping[str, Any], k: int) -> list[str]:
    """The first candidates, whatever they are."""
    return [candidate["id"] for candidate in state["candidates"]][:k]


# --- what a campaign is ---------------------------------------------------------------------------------------------


def test_a_campaign_shows_a_policy_what_the_lab_would_show() -> None:
    seen: list[ScorerState] = []

    def watching(state: ScorerState, k: int) -> Sequence[str]:
        seen.append(state)
        return DEFAULT(state, k)

    played = episode(watching, Cell(0.8, 3), 0, 0)
    start = seen[0]
    assert len(start["hypotheses"]) == 12
    assert len(start["candidates"]) == 48
    assert {row["confidence"] for row in start["hypotheses"]} == {0.5}
    assert start["support"] == 0.8
    assert start["refute"] == pytest.approx(0.2)
    assert {"id", "hypothesis_id", "mu1", "mu0", "sigma", "tau", "cost", "p_fail", "n_seen", "n_pending"} == {
        *start["candidates"][0]
    }
    assert seen[0]["seed"] == seen[1]["seed"], "the first decision is asked for again"
    assert len({state["seed"] for state in seen}) > len(seen) / 2, "each decision has its own"
    assert all(not 0.2 < p < 0.8 for _, p in played.said)
    assert len(played.said) == 12
    assert 5 < played.run_hours < 200


@pytest.mark.slow
def test_half_the_hypotheses_are_true_and_a_twelfth_of_the_runs_crash() -> None:
    played = [episode(StrategyPolicy("random"), CELL, 1, number) for number in range(20)]
    truths = [is_true for one in played for is_true, _ in one.said]
    assert 0.4 < sum(truths) / len(truths) < 0.6
    design = Design("d", "standard", "standard", 1.0, random.Random(1))
    outcomes = [design.run() for _ in range(4000)]
    assert 0.07 < outcomes.count(None) / 4000 < 0.09
    assert (design.crashes, design.n_seen) == (outcomes.count(None), 4000 - outcomes.count(None))


def test_the_same_number_is_the_same_campaign_for_every_policy() -> None:
    assert episode(DEFAULT, CELL, 3, 4) == episode(StrategyPolicy("hypothesis_driven"), CELL, 3, 4)
    other = episode(StrategyPolicy("decisive"), CELL, 3, 4)
    assert [is_true for is_true, _ in other.said] == [is_true for is_true, _ in episode(DEFAULT, CELL, 3, 4).said]
    assert episode(DEFAULT, CELL, 3, 4) != episode(DEFAULT, CELL, 3, 5)
    assert episode(DEFAULT, CELL, 3, 4) != episode(DEFAULT, CELL, 4, 4)


@pytest.mark.parametrize("world", WORLDS)
def test_each_world_can_be_decided(world: str) -> None:
    played = episode(DEFAULT, Cell(0.8, 1, world), 0, 0)
    assert all(not 0.2 < p < 0.8 for _, p in played.said)


def test_worlds_give_different_run_hours() -> None:
    hours = {world: episode(DEFAULT, Cell(0.8, 1, world), 0, 0).run_hours for world in WORLDS}
    assert len({*hours.values()}) == len(WORLDS)


def test_giving_up_is_not_cheap() -> None:
    played = episode(lambda state, k: [], CELL, 0, 0)
    assert (played.run_hours, played.runs) == (LONGEST_RUN_HOURS, 0)
    result = summary("idle", CELL, [played])
    assert (result.undecided, result.error_rate, result.false_support_rate) == (12, None, 0.0)


def test_the_same_run_for_ever_ends() -> None:
    proxy = episode(lambda state, k: ["h1-proxy"] if state["hypotheses"][0]["id"] == "h1" else [], CELL, 7, 3)
    assert proxy.run_hours >= LONGEST_RUN_HOURS


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
    results = bench({"broken": raises, "sound": DEFAULT}, thresholds=(0.8,), batches=(1, 3), episodes=2)
    assert [(row.policy, row.problem is None) for row in results] == [("broken", False), ("sound", True)] * 2
    assert results[0].problem == "it raised KeyError: 'lost'"
    assert results[0].run_hours is None


# --- the bench ------------------------------------------------------------------------------------------------------


def backwards(function: Callable[..., Any], jobs: Iterable[Any]) -> Iterable[Any]:
    """Does the jobs last to first, and answers them in their order."""
    return [function(job) for job in reversed([*jobs])][::-1]


@pytest.mark.slow
def test_the_answer_does_not_depend_on_the_order_of_work() -> None:
    policies = {"a": DEFAULT, "b": StrategyPolicy("random")}
    given: dict[str, Any] = {"thresholds": (0.8,), "batches": (1, 3), "episodes": 6, "seed": 5}
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
        ({"episodes": 0}, "episodes"),
    ],
)
def test_impossible_settings_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bench({"a": DEFAULT}, **given)


def test_the_figures_are_those_of_the_campaigns() -> None:
    one = Episode(10.0, 5, ((True, 0.9), (False, 0.85), (True, 0.1), (False, 0.5)))
    two = Episode(30.0, 7, ((True, 0.95), (False, 0.1), (False, 0.05), (False, 0.15)))
    result = summary("p", CELL, [one, two])
    assert (result.run_hours, result.runs, result.undecided) == (20.0, 6.0, 0.5)
    assert result.error_rate == pytest.approx(2 / 7)
    assert result.false_support_rate == pytest.approx(1 / 5)
    assert result.false_support_bound == pytest.approx(1 / 4)
    assert result.said_true is not None
    assert result.said_true.n == 3
    assert result.said_true.true_share == pytest.approx(2 / 3)
    assert result.said_true.mean_confidence == pytest.approx(0.9)
    assert result.low == 10.0
    assert result.high == 30.0


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

# Run-hours until twelve hypotheses are decided, 95 % intervals, as an earlier simulator of the same world had them.
EARLIER = {
    ("random", 0.8, 1): (67.3, 71.3),
    ("random", 0.8, 3): (75.3, 79.5),
    ("random", 0.95, 1): (110.1, 117.6),
    ("random", 0.95, 3): (119.1, 126.0),
    ("round_robin", 0.8, 1): (66.5, 70.6),
    ("round_robin", 0.8, 3): (70.7, 75.0),
    ("round_robin", 0.95, 1): (109.9, 116.5),
    ("round_robin", 0.95, 3): (114.9, 123.3),
    ("hypothesis_driven", 0.8, 1): (35.7, 38.7),
    ("hypothesis_driven", 0.8, 3): (39.1, 42.1),
    ("hypothesis_driven", 0.95, 1): (79.7, 88.3),
    ("hypothesis_driven", 0.95, 3): (85.2, 98.1),
    ("decisive", 0.8, 1): (28.3, 30.7),
    ("decisive", 0.95, 1): (69.3, 74.6),
    ("decisive", 0.95, 3): (74.7, 80.0),
}
NAMES = ("random", "round_robin", "hypothesis_driven", "decisive")


def test_the_default_saves_hours_at_bounded_errors() -> None:
    """A few campaigns: half of random's hours at 0.8, with errors within what the threshold allows."""
    policies = {name: StrategyPolicy(name) for name in ("random", "hypothesis_driven")}
    drawn, chosen = bench(policies, thresholds=(0.8,), batches=(1,), episodes=8, seed=2)
    assert drawn.run_hours is not None
    assert chosen.run_hours is not None
    assert chosen.run_hours < 0.75 * drawn.run_hours
    for row in (drawn, chosen):
        assert row.error_rate is not None
        assert row.error_rate < 0.2
        assert row.undecided == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_strategies_achieve_what_they_are_said_to() -> None:
    """120 campaigns, seed 2: each interval meets the earlier one, and the savings are those of the documentation."""
    policies = {name: StrategyPolicy(name) for name in NAMES}
    rows = bench(policies, episodes=120, seed=2)
    found: dict[tuple[str, float, int], Result] = {(row.policy, row.threshold, row.batch): row for row in rows}
    for key, (low, high) in EARLIER.items():
        row = found[key]
        assert row.low is not None
        assert row.high is not None
        assert row.low <= high, key
        assert row.high >= low, key
    for threshold, batch, least, most in ((0.8, 1, 0.42, 0.52), (0.8, 3, 0.42, 0.53), (0.95, 1, 0.2, 0.33)):
        drawn, chosen = found["random", threshold, batch], found["hypothesis_driven", threshold, batch]
        assert drawn.run_hours is not None
        assert chosen.run_hours is not None
        assert least <= 1 - chosen.run_hours / drawn.run_hours <= most
    for row in rows:
        assert row.error_rate is not None
        assert row.error_rate < 1 - row.threshold
        assert row.false_support_rate is not None
        assert row.false_support_rate < row.false_support_bound
        assert row.ece is not None
        assert row.ece < 0.08
