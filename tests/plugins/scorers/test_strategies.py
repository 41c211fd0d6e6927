"""The strategies: each against its formula or a simulation of it, and the batches that they fill."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from perpetual.science import propose, score_candidates
from perpetual_scorers.proposing.information import expected_information_gain, separation
from perpetual_scorers.proposing.strategies import (
    ENOUGH,
    STRATEGIES,
    Look,
    crossing_probability,
    missing_evidence,
    strategy,
)

SIX = ("hypothesis_driven", "decisive", "greedy", "thompson", "random", "round_robin")


def candidate(name: str, hypothesis: str = "H1", /, **more: Any) -> dict[str, Any]:
    base = {"id": name, "hypothesis_id": hypothesis, "mu1": 1.0, "mu0": 0.0, "sigma": 0.8, "tau": 0.2}
    return {**base, "cost": 1.0, "p_fail": 0.0, "n_seen": 0, "n_pending": 0, **more}


def state(*candidates: dict[str, Any], seed: int = 0, **confidences: float) -> dict[str, Any]:
    known = confidences or {"H1": 0.5}
    hypotheses = [{"id": name, "confidence": p} for name, p in known.items()]
    return {"hypotheses": hypotheses, "candidates": list(candidates), "seed": seed}


def some_state(seed: int) -> dict[str, Any]:
    """Up to five hypotheses with up to four candidates each."""
    rng = Random(seed)
    hypotheses = [{"id": f"h{n}", "confidence": rng.uniform(0.22, 0.78)} for n in range(rng.randint(1, 5))]
    candidates = [
        candidate(f"{hypothesis['id']}-{n}", str(hypothesis["id"]), sigma=rng.uniform(0.2, 2.0),
                  tau=rng.uniform(0.0, 0.8), cost=rng.uniform(0.1, 4.0), p_fail=rng.uniform(0.0, 0.3),
                  n_seen=rng.randint(0, 3), n_pending=rng.randint(0, 1), n_left=rng.randint(1, 3))
        for hypothesis in hypotheses
        for n in range(rng.randint(1, 4))
    ]  # fmt: skip
    return {"hypotheses": hypotheses, "candidates": candidates, "seed": seed}


# --- the formulas ---------------------------------------------------------------------------------------------------


def test_there_are_six_under_either_spelling() -> None:
    assert tuple(STRATEGIES) == SIX
    for name in (*SIX, "round-robin", "information-gain", "information_gain", "hypothesis-driven"):
        assert strategy(name) in STRATEGIES.values()
    with pytest.raises(ValueError, match="round_robin, not 'round robin'"):
        strategy("round robin")


def test_missing_evidence_is_walds() -> None:
    """(2s - 1) logit(s) from 0.5 between s and 1 - s; nil at the thresholds; the mean of a long walk of small steps."""
    assert missing_evidence(0.5, 0.8, 0.2) == pytest.approx(0.6 * math.log(4))
    assert missing_evidence(0.8, 0.8, 0.2) == missing_evidence(0.1, 0.8, 0.2) == missing_evidence(1.0, 0.8, 0.2) == 0.0
    rng, needed, walks, d2 = Random(3), 0.0, 1500, 0.04
    for _ in range(walks):
        odds = math.log(0.6 / 0.4)
        sign = 1 if rng.random() < 0.6 else -1
        while math.log(0.1 / 0.9) < odds < math.log(0.9 / 0.1):
            odds += rng.gauss(sign * d2 / 2, math.sqrt(d2))
            needed += d2 / 2
    assert needed / walks == pytest.approx(missing_evidence(0.6, 0.9, 0.1), rel=0.12)  # the walk overshoots a little


def test_crossing_probability_is_that_of_a_drawn_outcome() -> None:
    rng, p, d2, support, draws = Random(5), 0.4, 2.0, 0.8, 40_000
    crossed = 0
    for _ in range(draws):
        sign = 1 if rng.random() < p else -1
        odds = math.log(p / (1 - p)) + rng.gauss(sign * d2 / 2, math.sqrt(d2))
        crossed += odds >= math.log(support / (1 - support))
    assert crossing_probability(p, d2, support) == pytest.approx(crossed / draws, abs=0.01)
    assert crossing_probability(0.9, 0.0, 0.8) == 1.0
    assert crossing_probability(0.4, 0.0, 0.8) == 0.0
    assert crossing_probability(0.4, 1e6, 0.8) == pytest.approx(0.4)


def test_decisive_is_evidence_up_to_what_is_needed() -> None:
    need = ENOUGH * missing_evidence(0.5, 0.8, 0.2)
    small, large = candidate("small", sigma=3.0, cost=2.0), candidate("large", "H2", sigma=0.1, tau=0.05, cost=2.0)
    rows = score_candidates(state(small, large, H1=0.5, H2=0.5), {"strategy": "decisive"})
    assert rows[0]["score"] == pytest.approx(separation(1.0, s2=9.0, tau=0.2) / 2 / 2.0)
    assert rows[1]["score"] == pytest.approx(need / 2.0)


def test_decisive_awaits_what_is_expected_to_decide() -> None:
    pending = candidate("a", sigma=0.1, tau=0.05, n_pending=1)
    other = candidate("b", sigma=0.5)
    (_, row) = score_candidates(state(pending, other), {"strategy": "decisive", "min_information_gain_bits": 0.0})
    assert (row["offered"], row["reason"]) == (False, "what is pending is expected to decide its hypothesis")
    assert propose(state(pending, other), 1, {"strategy": "decisive", "min_information_gain_bits": 0.0}) == []


def test_greedy_goes_for_what_may_soon_be_supported() -> None:
    likely, even = candidate("likely", "H1"), candidate("even", "H2")
    assert propose(state(likely, even, H1=0.7, H2=0.5), 1, {"strategy": "greedy"}) == ["likely"]
    (row,) = score_candidates(state(candidate("a", cost=4.0), H1=0.4), {"strategy": "greedy"})
    assert row["score"] == pytest.approx(crossing_probability(0.4, separation(1.0, s2=0.64, tau=0.2), 0.8) / 4.0)


@pytest.mark.parametrize(("p", "d2", "pending"), [(0.5, 1.0, 0.0), (0.3, 4.0, 0.0), (0.6, 1.0, 1.5)])
def test_thompson_is_information_gain_in_the_mean(p: float, d2: float, pending: float) -> None:
    """The mean realised divergence is the mutual information: of the new outcome, given the pending one."""
    worth, draws = STRATEGIES["thompson"].worth, 8000
    looks = (Look(p, pending, d2, 0.0, 0.8, 0.2, seed, 0, "c", "h") for seed in range(draws))
    mean = math.fsum(map(worth, looks)) / draws
    gain = expected_information_gain(p, pending + d2) - expected_information_gain(p, pending)
    assert mean == pytest.approx(gain * math.log(2), rel=0.08)


def test_random_draws_hypotheses_evenly_however_many_candidates_they_have() -> None:
    many = [candidate(f"a{n}", "H1", cost=0.01) for n in range(9)]
    few = [candidate("b", "H2", cost=9.0, sigma=0.5)]
    firsts = [
        propose(state(*many, *few, seed=seed, H1=0.5, H2=0.7), 1, {"strategy": "random"})[0] for seed in range(600)
    ]
    assert 240 < firsts.count("b") < 360
    assert {f"a{n}" for n in range(9)} <= {*firsts}


def test_random_draws_each_pick_of_a_batch_anew() -> None:
    two = [candidate("a", "H1", sigma=2.0), candidate("b", "H2", sigma=2.0)]
    repeats = 0
    for seed in range(400):
        first, second = propose(state(*two, seed=seed, H1=0.5, H2=0.5), 2, {"strategy": "random"})
        repeats += first == second
    assert 150 < repeats < 250


def test_round_robin_takes_turns() -> None:
    three = [candidate(name, hypothesis, sigma=2.0) for name, hypothesis in (("a", "H1"), ("b", "H2"), ("c", "H3"))]
    given = state(*three, H1=0.5, H2=0.5, H3=0.5)
    assert propose(given, 6, {"strategy": "round_robin"}) == ["a", "b", "c", "a", "b", "c"]
    for row, runs in zip(given["hypotheses"], (2, 0, 1), strict=True):
        row["n_runs"] = runs
    assert propose(given, 4, {"strategy": "round-robin"}) == ["b", "b", "c", "a"]


def test_round_robin_counts_replicates_where_runs_are_unknown() -> None:
    given = state(candidate("a", "H1", n_seen=1, sigma=2.0), candidate("b", "H2", sigma=2.0), H1=0.5, H2=0.5)
    assert propose(given, 1, {"strategy": "round_robin"}) == ["b"]


# --- knobs ----------------------------------------------------------------------------------------------------------


def test_cost_can_be_ignored() -> None:
    dear, cheap = candidate("dear", "H1", sigma=0.3, cost=100.0), candidate("cheap", "H2", sigma=1.5, cost=0.1)
    given = state(dear, cheap, H1=0.5, H2=0.5)
    for name in ("hypothesis_driven", "decisive", "greedy"):
        assert propose(given, 1, {"strategy": name}) == ["cheap"]
        assert propose(given, 1, {"strategy": name, "cost_exponent": 0}) == ["dear"]


def test_a_share_of_the_picks_is_drawn_at_random() -> None:
    good, bad = candidate("good", "H1", sigma=0.5, cost=0.1), candidate("bad", "H2", sigma=1.5, cost=5.0)

    def bads(fraction: float) -> int:
        config = {"explore_fraction": fraction}
        return sum(propose(state(good, bad, seed=n, H1=0.5, H2=0.5), 1, config) == ["bad"] for n in range(1000))

    assert bads(0.0) == 0
    assert 60 < bads(0.2) < 140  # half of those that are drawn at random
    assert 430 < bads(1.0) < 570


def test_a_pick_that_explores_says_so() -> None:
    given = state(candidate("a"), candidate("b", "H2"), H1=0.5, H2=0.5)
    reasons = [row["reason"] for row in score_candidates(given, {"explore_fraction": 1.0})]
    (drawn,) = propose(given, 1, {"explore_fraction": 1.0})
    assert [reason.startswith("drawn at random to explore: ") for reason in reasons] == [drawn == "a", drawn == "b"]
    assert score_candidates(given, {"strategy": "random"})[0]["reason"].startswith("by lot: ")
    assert score_candidates(given, {"strategy": "round_robin"})[0]["reason"].startswith("by turns: ")


# --- batches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIX)
def test_the_same_state_gives_the_same_batch(name: str) -> None:
    for seed in range(20):
        first = propose(some_state(seed), 4, {"strategy": name})
        assert propose(some_state(seed), 4, {"strategy": name}) == first
    batches = {tuple(propose({**some_state(3), "seed": seed}, 3, {"strategy": name})) for seed in range(30)}
    assert (len(batches) > 1) == (name in ("thompson", "random", "round_robin"))


@pytest.mark.parametrize("name", ["hypothesis_driven", "decisive", "greedy"])
def test_a_batch_is_one_pick_after_the_other(name: str) -> None:
    """The heap's order is that of asking again with what was picked pending."""
    for seed in range(60):
        batch = propose(some_state(seed), 6, {"strategy": name})
        given = some_state(seed)
        picked: list[str] = []
        rows = {row["id"]: row for row in given["candidates"]}
        while len(picked) < 6:
            one = propose(given, 1, {"strategy": name})
            if not one:
                break
            picked += one
            rows[one[0]]["n_pending"] += 1
            rows[one[0]]["n_left"] -= 1
        assert batch == picked


@pytest.mark.parametrize("name", SIX)
def test_every_strategy_keeps_the_common_rules(name: str) -> None:
    config = {"strategy": name}
    assert propose(state(candidate("a", sigma=0.2, tau=0.05, n_pending=2)), 1, config) == []  # the minimum gain
    assert propose(state(candidate("a"), H1=0.9), 1, config) == []  # decided
    assert propose(state(candidate("a", sigma=2.0, n_left=2)), 9, config) == ["a", "a"]
    within = {**state(candidate("a", sigma=2.0)), "budget_left": 2.5}
    assert propose(within, 9, config) == ["a", "a"]
    owed = state(candidate("a"), H1=0.9999)
    owed["hypotheses"][0]["missing_replicates"] = 2
    assert propose(owed, 9, config) == ["a", "a"]
    for row in score_candidates(state(candidate("a", p_fail=1.0), candidate("b", cost=0.0)), config):
        assert math.isfinite(row["score"])


@pytest.mark.parametrize("name", ["hypothesis_driven", "decisive", "greedy"])
def test_crumbs_do_not_shut_out_the_run_that_teaches_more(name: str) -> None:
    crumb = candidate("crumb", sigma=3.0, tau=2.0, cost=0.01)
    whole = candidate("whole", sigma=0.3, tau=0.1, cost=10.0)
    assert propose({**state(crumb, whole), "budget_left": 10.0}, 3, {"strategy": name}) == ["whole"]
