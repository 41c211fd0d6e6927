"""The replay gate: its arithmetic, its stopping, and how seldom it is fooled."""

import math
import random

import pytest

from perpetual.science import gate

STAKES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)


def test_the_e_value_is_the_mean_wealth_over_the_stakes() -> None:
    diffs = [1.0, -0.5, 0.25, 0.0]
    expected = sum(math.prod(1 + stake * diff for diff in diffs) for stake in STAKES) / len(STAKES)
    against = sum(math.prod(1 - stake * diff for diff in diffs) for stake in STAKES) / len(STAKES)
    got = gate(diffs, {})
    assert got["e"] == pytest.approx(expected)
    assert got["e_harm"] == pytest.approx(against)
    assert (got["decision"], got["pairs"]) == ("quarantine", 4)


def test_a_replay_stops_at_the_first_decision_after_five_pairs() -> None:
    assert gate([1.0] * 4, {"alpha": 0.5}) == {**gate([1.0] * 4, {}), "decision": "quarantine"}
    helped = gate([1.0] * 60, {})
    assert (helped["decision"], helped["e"] >= 20) == ("promote", True)
    assert 5 <= helped["pairs"] < 10
    assert gate([1.0] * (helped["pairs"] - 1), {})["e"] < 20
    harmed = gate([-1.0] * 60, {})
    assert (harmed["decision"], harmed["pairs"], harmed["e"] < 1) == ("reject", 5, True)
    mild = gate([-0.5] * 60, {})
    assert mild["decision"] == "reject"
    assert mild["e_harm"] >= 5 > gate([-0.5] * (mild["pairs"] - 1), {})["e_harm"]
    assert gate([-0.5] * 60, {"harm_alpha": 0.02})["pairs"] > mild["pairs"]


def test_ties_cost_nothing() -> None:
    assert gate([0.0] * 30, {})["e"] == 1.0
    assert gate([0.0] * 20 + [1.0] * 9, {})["decision"] == "promote"


def test_undecided_after_the_last_pair_stays_in_quarantine() -> None:
    assert gate([0.0] * 60 + [1.0] * 20, {}) == {
        "decision": "quarantine",
        "pairs": 60,
        "e": 1.0,
        "e_harm": 1.0,
    }
    assert gate([0.0] * 60 + [1.0] * 20, {"max_pairs": 90})["decision"] == "promote"
    assert gate([], {}) == {"decision": "quarantine", "pairs": 0, "e": 1.0, "e_harm": 1.0}


def test_a_stricter_alpha_asks_for_more_pairs() -> None:
    assert gate([1.0] * 60, {"alpha": 0.001})["pairs"] > gate([1.0] * 60, {"alpha": 0.05})["pairs"]


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.5])
def test_an_alpha_that_is_no_probability_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\]"):
        gate([0.5], {"alpha": alpha})


@pytest.mark.parametrize("diff", [1.01, -2.0, math.nan, math.inf])
def test_a_difference_out_of_range_is_refused(diff: float) -> None:
    with pytest.raises(ValueError, match="pair 2"):
        gate([0.5, diff], {})


def paired_replays(rng: random.Random, without: float, with_memory: float, shared_luck: float) -> list[float]:
    """60 pairs of success or failure; with probability `shared_luck` both arms meet the same luck."""
    diffs = []
    for _ in range(60):
        luck = rng.random()
        other = luck if rng.random() < shared_luck else rng.random()
        diffs.append(float(other < with_memory) - float(luck < without))
    return diffs


@pytest.mark.parametrize(
    ("without", "with_memory", "shared_luck", "low", "high"),
    [
        (0.5, 0.5, 0.0, 0.0, 0.03),
        (0.7, 0.7, 0.5, 0.0, 0.03),
        (0.5, 0.3, 0.0, 0.0, 0.01),
        (0.5, 0.8, 0.5, 0.9, 0.98),
    ],
)
def test_promotion_rates_are_those_of_the_design(
    without: float, with_memory: float, shared_luck: float, low: float, high: float
) -> None:
    rng = random.Random(1)
    decisions = [gate(paired_replays(rng, without, with_memory, shared_luck), {})["decision"] for _ in range(500)]
    assert low <= decisions.count("promote") / 500 <= high


def test_a_bar_of_the_mean_alone_would_be_fooled() -> None:
    rng = random.Random(1)
    fooled = sum(sum(paired_replays(rng, 0.5, 0.5, 0.0)[:5]) > 0 for _ in range(500))
    assert fooled / 500 > 0.3
