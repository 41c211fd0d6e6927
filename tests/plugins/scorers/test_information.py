"""Expected information: against numerical integration, its bounds, and the batches built from it."""

import math
from typing import Any

import pytest

from perpetual.science import propose, score_candidates
from perpetual_scorers.proposing.information import (
    binary_entropy,
    binary_information_gain,
    binary_separation,
    conditional_gain,
    expected_information_gain,
    separation,
)

CONFIDENCES = (1e-4, 0.05, 0.2, 0.5, 0.73, 0.99)


def integrated_gain(p: float, d2: float) -> float:
    """The mutual information by a fine trapezoid over z."""
    d, q, steps, reach = math.sqrt(d2), 1 - p, 4000, 12.0
    width, terms = 2 * reach / steps, []
    for i in range(steps + 1):
        z = -reach + i * width
        inner = p * math.log2(p + q * math.exp(-d2 / 2 - d * z))
        inner += q * math.log2(q + p * math.exp(-d2 / 2 + d * z))
        terms.append(math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * inner)
    return -math.fsum(terms) * width


@pytest.mark.parametrize(("d2", "tolerance"), [(0.01, 1e-6), (0.5, 1e-6), (2.0, 1e-6), (4.0, 1e-6), (16.0, 1.4e-4)])
def test_quadrature_agrees_with_integration(d2: float, tolerance: float) -> None:
    for p in CONFIDENCES:
        assert expected_information_gain(p, d2) == pytest.approx(integrated_gain(p, d2), abs=tolerance)


def test_gain_lies_between_nothing_and_the_entropy() -> None:
    for p in CONFIDENCES:
        gains = [expected_information_gain(p, d2) for d2 in (1e-9, 0.01, 0.1, 1, 4)]
        assert gains == sorted(gains)
        assert all(0 <= gain <= binary_entropy(p) for gain in gains)
        assert expected_information_gain(p, 0.0) == 0.0
        assert expected_information_gain(p, math.inf) == pytest.approx(binary_entropy(p))
    assert expected_information_gain(0.0, 4.0) == expected_information_gain(1.0, 4.0) == 0.0
    assert expected_information_gain(0.3, 1.7) == pytest.approx(expected_information_gain(0.7, 1.7))


def test_small_separations_gain_in_proportion() -> None:
    assert expected_information_gain(0.5, 1e-3) == pytest.approx(1e-3 / (8 * math.log(2)), rel=1e-3)


def test_separation_is_that_of_the_pooled_mean() -> None:
    assert separation(1.0, s2=0.64, tau=0.25, k=3) == pytest.approx(1 / (0.0625 + 0.64 / 3))
    assert separation(1.0, s2=0.64, tau=0.25, k=3, baseline_n=4) == pytest.approx(1 / (0.0625 + 0.16 + 0.64 / 3))
    assert separation(2.0, s2=0.5, tau=0.0, k=4) == pytest.approx(4 * 4 / 0.5)


def test_replicates_seen_shrink_the_gap_and_the_spread() -> None:
    tau, s2, seen, k = 0.4, 0.9, 3, 2
    v = 1 / (1 / tau**2 + seen / s2)
    gap = 1.0 * v / tau**2
    assert separation(1.0, s2=s2, tau=tau, n_seen=seen, k=k) == pytest.approx(gap**2 / (v + s2 / k))
    assert separation(1.0, s2=s2, tau=0.0, n_seen=seen) == pytest.approx(separation(1.0, s2=s2, tau=0.0))


def test_a_cheap_proxy_saturates_at_its_tau() -> None:
    assert separation(1.0, s2=0.5, tau=0.8, k=10**6) == pytest.approx(1 / 0.64, rel=1e-4)
    assert separation(1.0, s2=0.5, tau=0.8, n_seen=10**4) < 1e-6


def test_no_noise_at_all_is_certainty_and_no_gap_is_nothing() -> None:
    assert expected_information_gain(0.5, separation(1.0, s2=0.0, tau=0.0)) == pytest.approx(1.0)
    assert separation(0.0, s2=0.0, tau=0.0) == 0.0


def test_binary_gain_is_the_mutual_information_of_one_run() -> None:
    p, p1, p0 = 0.3, 0.9, 0.2
    joint = {
        (True, 1): p * p1,
        (True, 0): p * (1 - p1),
        (False, 1): (1 - p) * p0,
        (False, 0): (1 - p) * (1 - p0),
    }
    outcome = {x: joint[True, x] + joint[False, x] for x in (0, 1)}
    prior = {True: p, False: 1 - p}
    expected = math.fsum(m * math.log2(m / (prior[h] * outcome[x])) for (h, x), m in joint.items())
    assert binary_information_gain(p, p1, p0) == pytest.approx(expected)
    assert binary_information_gain(0.5, 1.0, 0.0) == pytest.approx(1.0)
    assert binary_information_gain(0.5, 0.4, 0.4) == 0.0


def test_binary_separation_is_the_symmetrised_divergence() -> None:
    def divergence(a: float, b: float) -> float:
        return a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))

    assert binary_separation(0.8, 0.3) == pytest.approx(divergence(0.8, 0.3) + divergence(0.3, 0.8))
    assert math.isfinite(binary_separation(1.0, 0.0))


def test_pending_runs_lower_the_gain() -> None:
    for p in (0.2, 0.5, 0.9):
        gains = [conditional_gain(p, pending, 0.5) for pending in (0.0, 0.5, 1.0, 2.0, 3.0)]
        assert gains == sorted(gains, reverse=True)
        assert gains[0] == expected_information_gain(p, 0.5)
        assert gains[0] + conditional_gain(p, 0.5, 0.5) == pytest.approx(expected_information_gain(p, 1.0))
    assert conditional_gain(0.5, 1e5, 1.0) == 0.0


# Batches


def candidate(name: str, hypothesis: str = "H1", /, **more: Any) -> dict[str, Any]:
    base = {"id": name, "hypothesis_id": hypothesis, "mu1": 1.0, "mu0": 0.0, "sigma": 0.8, "tau": 0.2}
    return {**base, "cost": 1.0, "p_fail": 0.0, "n_seen": 0, "n_pending": 0, **more}


def state(*candidates: dict[str, Any], budget: float | None = None, **confidences: float) -> dict[str, Any]:
    known = confidences or {"H1": 0.5}
    hypotheses = [{"id": name, "confidence": p} for name, p in known.items()]
    return {"hypotheses": hypotheses, "candidates": list(candidates), "budget_left": budget}


def test_the_best_gain_per_run_hour_goes_first() -> None:
    dear, cheap = candidate("dear", sigma=0.4, cost=4.0), candidate("cheap", sigma=1.0, cost=0.5)
    assert propose(state(dear, cheap), 1, {}) == ["cheap"]
    assert propose(state({**dear, "cost": 0.5}, cheap), 1, {}) == ["dear"]


def test_a_crash_prone_design_gains_less() -> None:
    rows = score_candidates(state(candidate("a"), candidate("b", p_fail=0.5)), {})
    assert rows[1]["information_gain_bits"] == pytest.approx(rows[0]["information_gain_bits"] / 2)


def test_scores_are_those_of_the_formulas() -> None:
    pending = candidate("p", sigma=1.1, n_pending=2)
    new = candidate("c", n_seen=1, cost=2.5, p_fail=0.2)
    d2 = separation(1.0, s2=0.64, tau=0.2, n_seen=1)
    waiting = separation(1.0, s2=1.21, tau=0.2, k=2)
    score = score_candidates(state(pending, new, H1=0.4), {})[1]
    assert score["information_gain_bits"] == pytest.approx(0.8 * conditional_gain(0.4, waiting, d2))
    assert score["score"] == pytest.approx(score["information_gain_bits"] / 2.5)
    assert (score["candidate_id"], score["cost_run_hours"], score["offered"]) == ("c", 2.5, True)
    assert score["reason"].endswith("bit expected for 2.5 run-hours")


def test_noise_that_is_only_guessed_is_worth_less_than_known_noise() -> None:
    """The evidence rule never takes a guess as known: its first runs say little, and many nearly as much."""
    for seen, share in ((0, 0.75), (40, 0.9)):
        rows = [candidate("a", n_seen=seen), candidate("b", sigma=None, s0=0.8, n_seen=seen)]
        known, guessed = (row["information_gain_bits"] for row in score_candidates(state(*rows), {}))
        assert 0 < guessed < known if seen else guessed < share * known


def test_unknown_noise_asks_for_one_more_replicate() -> None:
    blind = candidate("blind", sigma=None, n_seen=1)
    assert propose(state(blind), 1, {}) == ["blind"]
    assert propose(state({**blind, "tau": 0.0}), 1, {}) == ["blind"]


def test_the_sampling_of_the_baseline_is_part_of_the_plan() -> None:
    constant, sampled = score_candidates(state(candidate("a"), candidate("b", baseline_n=2)), {})
    assert sampled["score"] < constant["score"]


def test_a_batch_spreads_over_hypotheses_before_it_repeats() -> None:
    sharp: dict[str, Any] = {"sigma": 0.3, "tau": 0.1}
    picks = propose(state(candidate("a", **sharp), candidate("b", "H2", **sharp), H1=0.5, H2=0.45), 2, {})
    assert picks == ["a", "b"]


def test_repeats_are_further_replicates() -> None:
    picks = propose(state(candidate("a", sigma=2.0)), 4, {})
    assert picks == ["a"] * 4
    assert propose(state(candidate("a", sigma=2.0, n_left=2)), 4, {}) == ["a", "a"]
    assert propose(state(candidate("a", n_left=0)), 4, {}) == []


def test_a_batch_stops_when_the_next_replicate_is_worth_too_little() -> None:
    picks = propose(state(candidate("a", sigma=0.3, tau=0.1)), 50, {})
    assert 1 <= len(picks) < 5
    assert len(propose(state(candidate("a", sigma=0.3, tau=0.1)), 50, {"min_information_gain_bits": 0.3})) == 1


def test_pending_runs_are_not_proposed_again() -> None:
    assert propose(state(candidate("a", sigma=0.2, tau=0.05, n_pending=2)), 1, {}) == []


def test_decided_hypotheses_are_left_alone() -> None:
    for p in (0.8, 0.93, 0.2, 0.01):
        assert propose(state(candidate("a"), H1=p), 1, {}) == []
    assert propose(state(candidate("a"), H1=0.85), 1, {"support": 0.9}) == ["a"]
    assert propose(state(candidate("a", "H9")), 1, {}) == []


def test_a_decided_hypothesis_is_offered_its_missing_replicates() -> None:
    decided = state(candidate("a"), H1=0.9999)
    decided["hypotheses"][0]["missing_replicates"] = 2
    assert propose(decided, 5, {}) == ["a", "a"]
    decided["candidates"][0]["n_pending"] = 1
    assert propose(decided, 5, {}) == ["a"]


def test_nothing_worth_its_cost_is_an_empty_list() -> None:
    demo: dict[str, Any] = {"mu1": 0.01, "tau": 0.0025, "sigma": 0.051, "baseline_n": 4}
    assert propose(state(candidate("a", **demo)), 3, {}) == []
    assert propose(state(candidate("a", **{**demo, "mu1": 0.02, "tau": 0.005})), 1, {}) == ["a"]
    assert propose(state(), 3, {}) == []
    assert propose(state(candidate("a")), 0, {}) == []


def test_a_free_run_has_a_finite_score() -> None:
    (row,) = score_candidates(state(candidate("a", cost=0.0)), {})
    assert row["score"] == pytest.approx(row["information_gain_bits"] * 3600)


def test_equal_scores_go_to_the_cheaper() -> None:
    certain: dict[str, Any] = {"sigma": 1e-6, "tau": 0.0, "p_fail": 1.0}
    owed = state(candidate("dear", cost=3.0, **certain), candidate("cheap", cost=2.0, **certain), H1=0.99)
    owed["hypotheses"][0]["missing_replicates"] = 1
    assert propose(owed, 1, {}) == ["cheap"]


def test_binary_candidates_gain_exactly() -> None:
    binary = candidate("a", model="binary", mu1=0.9, mu0=0.3)
    (row,) = score_candidates(state(binary, H1=0.4), {})
    assert row["information_gain_bits"] == pytest.approx(binary_information_gain(0.4, 0.9, 0.3))
    (row,) = score_candidates(state({**binary, "n_pending": 1}, H1=0.4), {})
    d2 = binary_separation(0.9, 0.3)
    assert row["information_gain_bits"] == pytest.approx(conditional_gain(0.4, d2, d2))


def test_only_what_fits_the_budget_is_offered() -> None:
    assert propose(state(candidate("a", sigma=2.0, cost=1.0), budget=2.5), 9, {}) == ["a", "a"]
    assert propose(state(candidate("a", sigma=2.0, cost=0.1), budget=0.3), 9, {}) == ["a"] * 3
    assert propose(state(candidate("a", cost=3.0), budget=2.5), 9, {}) == []
    (row,) = score_candidates(state(candidate("a", cost=3.0), budget=2.5), {})
    assert (row["offered"], row["reason"]) == (False, "needs 3 run-hours, 2.5 are left")


def test_crumbs_do_not_shut_out_the_run_that_teaches_more() -> None:
    crumb = candidate("crumb", sigma=3.0, tau=2.0, cost=0.01)
    whole = candidate("whole", sigma=0.3, tau=0.1, cost=10.0)
    assert propose(state(crumb, whole, budget=10.0), 3, {}) == ["whole"]
    assert propose(state(crumb, whole, budget=10.005), 3, {}) == ["whole"]
    assert propose(state(crumb, whole, budget=40.0), 1, {}) == ["crumb"]  # the other still fits afterwards
    assert propose(state(crumb, whole), 1, {}) == ["crumb"]


def test_density_wins_where_the_budget_buys_more_by_it() -> None:
    small = [candidate(f"s{i}", f"H{i}", sigma=0.5, cost=1.0) for i in range(8)]
    large = candidate("large", "H0", sigma=0.1, tau=0.05, cost=8.0)
    confidences = {f"H{i}": 0.5 for i in range(8)}
    picks = propose(state(*small, large, budget=8.0, **confidences), 2, {})
    assert picks == ["s0", "s1"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"cost": -1.0}, "cost must not be negative"),
        ({"cost": math.nan}, "cost must be a finite number"),
        ({"mu1": None}, "mu1 must be a finite number"),
    ],
)
def test_a_broken_candidate_is_named(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        propose(state(candidate("a", **broken)), 1, {})


def test_an_unknown_strategy_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"hypothesis_driven, .*round_robin, not 'astrology'"):
        propose(state(candidate("a")), 1, {"strategy": "astrology"})
    assert propose(state(candidate("a")), 1, {"strategy": "hypothesis_driven"}) == ["a"]


def test_the_state_is_left_as_it_was() -> None:
    given = state(candidate("a", sigma=2.0), budget=3.0)
    copy = {
        **given,
        "candidates": [dict(given["candidates"][0])],
        "hypotheses": [dict(given["hypotheses"][0])],
    }
    propose(given, 3, {})
    assert given == copy
