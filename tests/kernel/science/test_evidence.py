"""The evidence rule: its published check values, its edge cases, and what it promises under any peeking."""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from perpetual.science import confidence
from perpetual.science.evalues import arm, log_e, two_arms
from perpetual.science.evidence import judged_weight, log_bayes_factor_binary

CAP = math.log(99)
KNOWN = {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, "sigma": 1.0, "tau": 0.25}
GUESSED = {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, "sigma": None, "s0": 1.0, "nu0": 2.0, "tau": 0.25}


def row(n: int, value: object, **more: Any) -> dict[str, Any]:
    base = {"id": f"e{n}", "run_id": f"r{n}", "kind": "measured", "metric": "acc", "design_id": "d"}
    return {**base, "value": value, "status": "done", **more}


def rows(values: Sequence[float], **more: Any) -> list[dict[str, Any]]:
    return [row(n, value, **more) for n, value in enumerate(values)]


def verdict(n: int, word: str, strength: float = 1.0, **more: Any) -> dict[str, Any]:
    base = {"id": f"j{n}", "run_id": f"run{n}", "kind": "judged", "verdict": word, "strength": strength}
    return {**base, **more}


def fold(
    evidence: Sequence[dict[str, Any]], design: dict[str, Any] = KNOWN, prior: float = 0.5, **config: Any
) -> dict[str, Any]:
    return {**confidence({"id": "H1", "prior": prior}, {"d": design}, evidence, config)}


def measured_part(result: dict[str, Any]) -> dict[str, Any]:
    (part,) = [part for part in result["parts"] if "design_id" in part]
    assert isinstance(part, dict)
    return part


def spread(mean: float, sd: float) -> list[float]:
    """Two values of exactly this mean and sample sd."""
    return [mean - sd / math.sqrt(2), mean + sd / math.sqrt(2)]


_SIZES = (5e-324, 1e-150, 1e-9, 1.0, 1e155, 1.7e308)


@pytest.mark.parametrize("sigma", [None, 1.0])
def test_no_size_of_number_breaks_the_fold(sigma: float | None) -> None:
    for mde, tau, noise in itertools.product(_SIZES, (0.0, *_SIZES), (0.0, *_SIZES)):
        design = {"mu1": mde, "mu0": 0.0, "mde": mde, "tau": tau, "s0": noise, "sigma": sigma and noise}
        for value in (*_SIZES, *(-size for size in _SIZES)):
            result = fold(rows([value, -value, 0.0]), design)
            for name in ("confidence", "log_odds", "e_support", "e_refute", "false_alarm_bound"):
                assert math.isfinite(result[name]), (design, value)


@pytest.mark.parametrize("name", ["tau", "sigma", "s0"])
def test_a_negative_spread_is_none(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 0"):
        fold([row(1, 1.0)], {**(GUESSED if name == "s0" else KNOWN), name: -0.1})


# Check values


@pytest.mark.parametrize(
    ("improvement", "baseline_sd", "treatment_sd", "mde"),
    [
        (0.644, 0.030, 0.051, 0.3),
        (-0.644, 0.051, 0.030, 0.3),
        (0.572, 0.066, 0.051, 0.3),
        (-0.572, 0.051, 0.066, 0.3),
        (-0.450, 0.031, 0.029, 0.2),
        (0.450, 0.029, 0.031, 0.2),
    ],
)
def test_demo_campaign_decides_with_two_replicates(
    improvement: float, baseline_sd: float, treatment_sd: float, mde: float
) -> None:
    design = {"mu1": mde, "mu0": 0, "tau": mde / 4, "baseline_n": 4, "baseline_ss": 3 * baseline_sd**2}
    result = fold(rows(spread(improvement, treatment_sd)), design)
    assert result["reached"] == ("supported" if improvement > 0 else "refuted")
    assert result["false_alarm_bound"] < 0.1


def test_demo_campaign_leaves_the_undecidable_open() -> None:
    rng, still_open = random.Random(11), 0
    for _ in range(200):
        base = [rng.gauss(0, 0.052) for _ in range(4)]
        mean = math.fsum(base) / 4
        design = {"mu1": 0.02, "mu0": 0, "tau": 0.005, "baseline_n": 4}
        design["baseline_ss"] = math.fsum((b - mean) ** 2 for b in base)
        result = fold(rows([rng.gauss(0.001, 0.051) - mean for _ in range(4)]), design)
        still_open += 0.2 < result["confidence"] < 0.8
    assert still_open >= 176  # at least 88 %


# What is said of a known noise, and of an unknown one


def known_factor(mean: float, v: float) -> float:
    """Log ratio of two normal densities of a mean, about 1 and about 0."""
    return (mean**2 - (mean - 1.0) ** 2) / (2 * v)


def test_known_noise_is_the_ratio_of_two_normal_densities() -> None:
    values, tau, sigma = [0.9, 1.4, -0.2], 0.3, 0.8
    result = fold(rows(values), {**KNOWN, "tau": tau, "sigma": sigma})
    assert result["log_odds"] == pytest.approx(known_factor(math.fsum(values) / 3, tau**2 + sigma**2 / 3))


def test_repeating_one_design_of_known_noise_is_bounded_by_its_tau() -> None:
    values = [1.0 + 0.01 * (-1) ** i for i in range(1000)]
    assert fold(rows(values), {**KNOWN, "tau": 0.5, "sigma": 0.1})["log_odds"] == pytest.approx(2, rel=0.01)


def test_a_sampled_baseline_of_known_noise_weakens_the_factor() -> None:
    constant = fold(rows([1.0, 1.2]), {**KNOWN, "tau": 0.1})["log_odds"]
    sampled = fold(rows([1.0, 1.2]), {**KNOWN, "tau": 0.1, "baseline_n": 4})["log_odds"]
    assert sampled == pytest.approx(constant * (0.01 + 0.5) / (0.01 + 0.5 + 0.25))


NOISES: list[dict[str, Any]] = [
    {"sigma": 1.0},
    {},
    {"s0": 1.0},
    {"s0": 0.01, "tau": 0.0},
    {"baseline_n": 4, "baseline_ss": 0.5},
    {"baseline": [0.1, -0.3, 0.2, 0.0]},
    {"typed_n": 3.0, "luck": 0.1},
    {"model": "any"},
    {"model": "any", "one_sided": True, "mde": 0.5, "baseline": [0.3, -0.1, -0.2]},
]


@pytest.mark.parametrize("noise", NOISES)
def test_a_better_mean_never_counts_for_less(noise: dict[str, Any]) -> None:
    def said(mean: float) -> dict[str, Any]:
        design = {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, "tau": 0.25, **noise}
        return fold(rows([mean - 0.1, mean, mean + 0.12]), design)

    is_two_sided = noise.get("model") == "any" and not noise.get("one_sided")
    steps = [0, 0.3, 1, 3, 10, 30, 100, 1e3, 1e4, 1e6]
    found = [said(mean) for mean in ([] if is_two_sided else [-step for step in reversed(steps[1:])]) + steps]
    for key, sign in (("e_support", 1), ("e_refute", -1), ("log_odds", 1)):
        if is_two_sided and key == "e_refute":
            continue
        ranked = [sign * result[key] for result in found]
        assert all(a <= b + 1e-9 * abs(b) for a, b in itertools.pairwise(ranked)), (key, ranked)
    assert found[-1]["e_support"] > 2 * said(0.0)["e_support"]


@pytest.mark.parametrize("noise", NOISES[1:-2])
def test_results_ten_times_worse_refute_at_least_as_strongly(noise: dict[str, Any]) -> None:
    design = {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, **noise}
    values = [-0.4, -0.9, -0.5]
    for _ in range(8):
        shifted = [value + 9 * math.fsum(values) / 3 for value in values]
        before, after = (fold(rows(each), design) for each in (values, shifted))
        assert after["e_refute"] >= before["e_refute"] * (1 - 1e-6)
        assert after["confidence"] <= before["confidence"] + 1e-9
        values = shifted


@pytest.mark.parametrize("truth", [-0.5, 0.5])
def test_a_smaller_effect_to_look_for_is_not_punished(truth: float) -> None:
    """What was measured against nothing speaks as loud, however small the effect that was asked for."""
    values = rows([truth - 0.1, truth, truth + 0.12])
    for more in ({}, {"s0": 0.1}, {"baseline": [0.05, -0.1, 0.08, -0.03]}):
        plain = fold(values, {"model": "any", "one_sided": True, **more, "s0": None})["e_support"]
        for mde in (0.1, 0.01, 1e-6, 1e-12):
            said = fold(values, {"mu1": mde, "mu0": 0.0, "null": 0.0, "tau": 0.0, **more})["e_support"]
            assert said >= (0.5 if "s0" in more else 1 - 1e-9) * plain


def test_a_single_run_of_unknown_noise_is_mute() -> None:
    """A claim of one run cannot say whether it is noisier than its baseline."""
    for more in (
        {},
        {"s0": 1.0},
        {"baseline_n": 3, "baseline_ss": 0.5},
        {"baseline": [0.0, 0.2, -0.2], "paired": True},
    ):
        result = fold([row(1, 0.9)], {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, **more})
        assert (result["e_support"], result["e_refute"], result["confidence"]) == (1.0, 1.0, 0.5)
        assert measured_part(result)["flags"] == ["noise unknown: one more replicate"]
        assert result["effect"] is None
    assert fold([row(1, 0.9)], {**KNOWN, "sigma": 0.0, "tau": 0.0})["log_odds"] == 0.0


def test_a_declared_noise_is_a_plan_and_no_measurement() -> None:
    """A declared noise below what the runs show cannot make the effect surer than the runs make it."""
    values = rows([0.4, -0.3, 0.6, -0.5, 0.3])
    honest = fold(values, {**GUESSED, "s0": None})["e_support"]
    for declared in (1e-300, 1e-9, 0.01, 1.0, 1e9):
        assert fold(values, {**GUESSED, "s0": declared})["e_support"] <= 2.5 * max(honest, 1)


def test_binary_factor_adds_over_runs_and_survives_certain_rates() -> None:
    got = log_bayes_factor_binary(3, 4, p1=0.9, p0=0.5)
    assert got == pytest.approx(3 * math.log(0.9 / 0.5) + math.log(0.1 / 0.5))
    assert -20 < log_bayes_factor_binary(2, 3, p1=1.0, p0=0.5) < -10


# The fold


def test_confidence_is_prior_plus_factor() -> None:
    result = fold(rows([0.9, 0.3]), prior=0.3)
    factor = known_factor(0.6, 0.25**2 + 1 / 2)
    assert result["log_odds"] == pytest.approx(math.log(0.3 / 0.7) + factor)
    assert result["confidence"] == pytest.approx(1 / (1 + math.exp(-result["log_odds"])))
    assert measured_part(result) == {
        "design_id": "d",
        "log_bayes_factor": pytest.approx(factor),
        "capped": False,
        "n": 2,
        "flags": [],
    }
    assert result["n_measured"] == 2


def test_an_empty_ledger_is_the_prior() -> None:
    result = fold([], prior=0.37)
    assert result["confidence"] == pytest.approx(0.37)
    assert (result["e_support"], result["e_refute"], result["false_alarm_bound"]) == (1.0, 1.0, 1.0)
    assert result["parts"] == []


def test_order_of_rows_is_immaterial() -> None:
    rng = random.Random(3)
    ledger = [*rows([0.11, 0.93, -0.4, 1.7]), row(9, 0.2, design_id="d2"), verdict(1, "refutes", 0.7)]
    ledger += [
        {"id": "m", "kind": "manual", "log_odds": 0.3},
        {"id": "x", "kind": "retraction", "target": "e2"},
    ]
    designs = {"d": KNOWN, "d2": GUESSED}
    first = confidence({"id": "H1", "prior": 0.4}, designs, ledger, {})
    for _ in range(10):
        rng.shuffle(ledger)
        assert confidence({"id": "H1", "prior": 0.4}, designs, ledger, {}) == first


def test_confidence_never_reaches_certainty() -> None:
    designs = {f"d{i}": KNOWN for i in range(400)}
    ledger = [row(i, 50.0, design_id=f"d{i}") for i in range(400)]
    result = confidence({"id": "H1", "prior": 0.5}, designs, ledger, {})
    assert result["confidence"] == 1 - 1e-4
    assert math.isfinite(result["e_support"])
    assert result["false_alarm_bound"] > 0
    assert fold([{"id": "m", "kind": "manual", "log_odds": -1e9}])["confidence"] == 1e-4


def test_one_design_is_capped_and_said_to_be() -> None:
    part = measured_part(fold(rows([30.0, 31.0])))
    assert part["capped"] is True
    assert part["log_bayes_factor"] == pytest.approx(CAP)


def test_e_values_are_whole_where_the_confidence_is_capped() -> None:
    designs = {"a": {**KNOWN, "tau": 0.0}, "b": {**KNOWN, "tau": 0.0}}
    ledger = [row(1, 9.5, design_id="a"), row(2, -1.5, design_id="b")]
    result = confidence({"id": "H1", "prior": 0.5}, designs, ledger, {})
    assert math.log(result["e_support"]) == pytest.approx(9.0 - 2.0)
    assert math.log(result["e_refute"]) == pytest.approx(-9.0 + 2.0)
    assert result["false_alarm_bound"] == pytest.approx(1 / result["e_support"])
    assert result["log_odds"] == pytest.approx(CAP - 2.0)  # what a design adds to the confidence is cut
    alone = fold(rows([30.0, 31.0]))
    assert math.log(alone["e_support"]) == pytest.approx((30.5 - 0.5) / (0.25**2 + 0.5))


@pytest.mark.parametrize("status", ["failed", "timeout", "killed", "lost", "running"])
def test_an_unfinished_run_is_no_evidence(status: str) -> None:
    assert fold([row(1, -5.0, status=status)])["parts"] == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "2.1", 10**400])
def test_a_value_that_is_no_number_is_no_evidence(value: object) -> None:
    assert fold([row(1, value), row(2, 0.9)]) == fold([row(2, 0.9)])


@pytest.mark.parametrize("mark", [{"post_hoc": True}, {"weight": 0}, {"design_id": None}, {"metric": "loss"}])
def test_rows_that_do_not_test_the_declared_prediction_weigh_nothing(mark: dict[str, Any]) -> None:
    assert fold([row(1, 3.0, **mark)], {**KNOWN, "metric": "acc"})["confidence"] == 0.5
    assert fold([row(1, 3.0)], {**KNOWN, "metric": "acc"})["confidence"] > 0.9


def test_rows_of_another_hypothesis_are_left_out() -> None:
    assert fold([row(1, 3.0, hypothesis_id="H2")])["parts"] == []
    assert fold([row(1, 3.0, hypothesis_id="H1")])["n_measured"] == 1


def test_the_same_run_counts_once() -> None:
    once = fold([row(1, 0.9)])
    assert fold([row(1, 0.9), row(1, 0.9)]) == once
    assert fold([row(1, 0.9), row(1, 4.0, id="e7")]) == once
    assert fold([row(1, 0.9), row(1, 4.0, id="e7", metric="f1")]) == once  # a second metric of one run
    assert fold([row(1, 0.9, run_id=0), row(1, 4.0, run_id=0, id="e7")]) == once  # a run named 0 is a run


def test_a_rerun_of_the_same_content_counts_once() -> None:
    ledger = [row(1, 0.9, content_hash="c"), row(2, 0.9, content_hash="c")]
    assert fold(ledger) == fold(ledger[:1])
    ledger[1]["content_hash"] = "other"
    assert measured_part(fold(ledger))["flags"] == ["seed not applied"]


def test_bit_equal_replicates_count_as_one_and_are_flagged() -> None:
    part, single = measured_part(fold(rows([0.9] * 4))), measured_part(fold(rows([0.9])))
    assert part["flags"] == ["seed not applied"]
    assert part["n"] == 1
    assert part["log_bayes_factor"] == single["log_bayes_factor"] > 0
    assert measured_part(fold(rows([0.9, 0.9 + 1e-9])))["flags"] == []
    unknown = measured_part(fold(rows([0.9] * 4), GUESSED))
    assert (unknown["log_bayes_factor"], unknown["n"]) == (0.0, 1)
    assert unknown["flags"] == ["seed not applied", "noise unknown"]


def test_runs_that_differ_by_rounding_show_no_noise() -> None:
    assert fold(rows([0.3, 0.1 + 0.2, 0.3]), GUESSED)["e_support"] == 1.0


def test_a_bit_equal_baseline_counts_as_one_run() -> None:
    design = {"mu1": 1, "mu0": 0, "tau": 0.25, "baseline_n": 4, "baseline_ss": 0.0}
    part = measured_part(fold(rows([0.8, 1.1]), design))
    assert part["flags"] == ["seed not applied in the baseline"]
    one = measured_part(fold(rows([0.8, 1.1]), {**design, "baseline_n": 1}))
    assert part["log_bayes_factor"] == one["log_bayes_factor"] > 0
    four = measured_part(fold(rows([0.8, 1.1]), {**design, "baseline_ss": 0.06}))
    assert four["log_bayes_factor"] > part["log_bayes_factor"] + 0.5


def test_a_wild_value_is_bounded_and_flagged() -> None:
    part = measured_part(fold(rows([8.2, 8.4]), {**GUESSED, "mde": 1.0}))
    assert part["flags"] == ["too good: check leakage"]
    assert 0 < part["log_bayes_factor"] <= CAP
    assert measured_part(fold(rows([7.5, 7.9]), {**GUESSED, "mde": 1.0}))["flags"] == []
    assert measured_part(fold(rows([0.1, 0.2]), {**GUESSED, "mde": 0.0}))["flags"] == []  # eight times nothing
    assert math.isfinite(fold(rows([1.7e308, 1.6e308]), GUESSED)["log_odds"])
    assert 0.2 < fold(rows([1e308, -1e308, 1e300]), GUESSED)["confidence"] < 0.8


def test_an_effect_that_neither_prediction_allows_goes_to_a_human() -> None:
    design = {**KNOWN, "tau": 0.0, "sigma": 0.1}
    result = fold(rows([0.29, 0.31]), design)  # raw factor -20 nats, yet 4 sd from the nearer prediction
    part = measured_part(result)
    assert (part["log_bayes_factor"], part["flags"]) == (0.0, ["model misfit"])
    assert result["confidence"] == 0.5
    assert result["e_support"] < 1e-6  # a loss may not be forgiven in an e-value
    assert result["e_refute"] == 1.0
    assert measured_part(fold(rows([0.14, 0.16]), design))["flags"] == []  # within 2.2 sd of no effect


def test_a_claimed_value_is_missed_on_either_side() -> None:
    design = {**KNOWN, "tau": 0.0, "sigma": 0.1}
    assert measured_part(fold(rows([1.9, 2.1]), design))["flags"] == []
    assert measured_part(fold(rows([1.9, 2.1]), {**design, "claim": "value"}))["flags"] == ["model misfit"]
    unknown = {"mu1": 1.0, "mu0": 0.0, "claim": "value", "baseline": [0.1, -0.2, 0.0, 0.1]}
    beyond = fold(rows([5.0, 5.1, 4.9, 5.05]), unknown)
    assert measured_part(beyond)["flags"] == ["model misfit"]
    assert (beyond["e_support"], beyond["e_refute"], beyond["confidence"]) == (1.0, 1.0, 0.5)
    assert fold(rows([1.0, 1.1, 0.9, 1.05]), unknown)["reached"] == "supported"


def test_retraction_takes_a_row_back_and_can_be_taken_back() -> None:
    ledger = [row(1, 0.9), row(2, 5.0)]
    retraction = {"id": "x1", "kind": "retraction", "target": "e2"}
    assert fold([*ledger, retraction]) == fold(ledger[:1])
    assert fold([*ledger, retraction, {"id": "x2", "kind": "retraction", "target": "x1"}]) == fold(ledger)
    corrected = row(2, 0.4, id="e3")  # the same run, analysed again
    assert fold([*ledger, retraction, corrected]) == fold([row(1, 0.9), row(2, 0.4)])


def retraction(name: object, target: object) -> dict[str, Any]:
    return {"id": name, "kind": "retraction", "target": target}


def test_two_retractions_of_each_other_end() -> None:
    circle = [retraction("x1", "x2"), retraction("x2", "x1")]
    assert fold([row(1, 0.9), *circle]) == fold([row(1, 0.9)])
    assert fold([row(1, 0.9), *circle, retraction("x1", "e1")]) == fold([row(1, 0.9)])


def test_long_chains_and_many_retractions_of_one_row_end() -> None:
    chain = [retraction("x0", "e1"), *(retraction(f"x{n}", f"x{n - 1}") for n in range(1, 5001))]
    assert fold([row(1, 0.9), *chain])["parts"] == []  # the last retraction of 5,001 takes the first one back
    assert fold([row(1, 0.9), *chain[:-1]])["n_measured"] == 1
    doubled = [retraction(f"{side}{n}", f"a{n - 1}" if n else "e1") for n in range(60) for side in "ab"]
    assert fold([row(1, 0.9), *doubled])["parts"] == []


def test_some_effect_is_refuted_where_it_lies_within_both_edges() -> None:
    design = {"model": "any", "mde": 1.0, "baseline": [0.02, -0.01, 0.0, -0.01]}
    within, above = fold(rows([0.02, -0.03, 0.01]), design), fold(rows([3.02, 2.97, 3.01]), design)
    below = fold(rows([-3.02, -2.97, -3.01]), design)
    assert (within["reached"], above["reached"], below["reached"]) == ("refuted", "supported", "supported")
    assert within["e_refute"] > 20
    edge = fold(rows([0.98, 0.97, 1.01]), design)
    assert edge["e_refute"] < 1


def test_some_effect_is_not_made_by_runs_that_are_lost() -> None:
    values = rows([0.9, 1.1, 1.0, 0.8])
    for more in ({}, {"one_sided": True}):
        whole = {"model": "any", "baseline": [0.2, -0.3, 0.1, 0.0], **more}
        assert fold(values, whole)["reached"] == "supported"
        assert fold(values, {**whole, "lost": [None, None, None]})["reached"] is None


def test_binary_design_counts_successes() -> None:
    design = {"model": "binary", "mu1": 0.9, "mu0": 0.5}
    result = fold(rows([1, 1, 0, True]), design)
    assert measured_part(result)["log_bayes_factor"] == pytest.approx(log_bayes_factor_binary(3, 4, p1=0.9, p0=0.5))
    assert measured_part(fold(rows([1, 0.5]), design)) == {
        **measured_part(fold(rows([1]), design)),
        "flags": ["value is not 0 or 1"],
    }


@pytest.mark.parametrize(("on_crash", "sign"), [("refutes", -1), ("supports", 1), ("none", 0), (None, 0)])
def test_a_crash_counts_only_where_that_is_the_claim(on_crash: str | None, sign: int) -> None:
    design = {"model": "binary", "mu1": 0.9, "mu0": 0.3, "on_crash": on_crash}
    log_odds = fold([row(1, None, status="failed")], design)["log_odds"]
    assert (log_odds > 0) - (log_odds < 0) == sign
    assert fold([row(1, None, status="lost")], design)["log_odds"] == 0
    assert fold([row(1, None, status="failed")], {**GUESSED, "on_crash": on_crash})["log_odds"] == 0


def test_an_unknown_model_or_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="model must be"):
        fold([row(1, 0.9)], {**KNOWN, "model": "poisson"})
    with pytest.raises(ValueError, match="mu1 must be a finite number"):
        fold([row(1, 0.9)], {**KNOWN, "mu1": math.nan})


# Designs that share a baseline


SHARED: dict[str, Any] = {"mu1": 1.0, "mu0": 0.0, "tau": 0.0, "baseline_id": "b", "baseline": [0.2, -0.3, 0.1, 0.0]}


def fold_many(designs: dict[str, dict[str, Any]], values: dict[str, list[float]], **config: Any) -> dict[str, Any]:
    ledger = [
        row(n, value, id=f"{name}{n}", run_id=f"{name}{n}", design_id=name)
        for name, own in values.items()
        for n, value in enumerate(own)
    ]
    return {**confidence({"id": "H1", "prior": 0.5}, designs, ledger, config)}


def test_designs_of_one_baseline_are_one_arm() -> None:
    values = [0.9, 1.2, 1.0, 0.7, 1.1, 0.8]
    together = fold_many({"a": SHARED, "b": SHARED, "c": SHARED}, {"a": values[:2], "b": values[2:4], "c": values[4:]})
    alone = fold_many({"a": SHARED}, {"a": values})
    assert together["e_support"] == pytest.approx(alone["e_support"])
    assert together["effect"]["value"] == pytest.approx(alone["effect"]["value"])
    assert [part["n"] for part in together["parts"]] == [2, 2, 2]


def test_designs_with_baselines_of_their_own_are_multiplied_and_all_but_one_claim_fewer_degrees_of_freedom() -> None:
    values = {"a": [0.9, 1.2], "b": [1.0, 0.7, 1.1], "c": [0.8, 1.3]}
    apart: dict[str, dict[str, Any]] = {name: {**SHARED, "baseline_id": name} for name in values}
    product = fold_many(apart, values)["e_support"]
    singles = {name: fold_many({name: SHARED}, {name: own})["e_support"] for name, own in values.items()}
    base = arm(SHARED["baseline"])
    factors = {name: math.exp(log_e(two_arms([own], base, is_factor=True))) for name, own in values.items()}
    assert product == pytest.approx(singles["b"] * factors["a"] * factors["c"]), (
        "b has most runs, and is weighed as ever"
    )
    assert all(1 < factors[name] < singles[name] for name in values)
    assert fold_many({name: apart[name] for name in "cba"}, values)["e_support"] == pytest.approx(product)


def test_a_factor_has_each_arms_own_variance_and_the_fewest_degrees_of_freedom() -> None:
    """Mickey and Brown (1966): so its t is never wider than Student's, whatever the noises."""
    own, base = [0.9, 1.3, 1.1], [0.1, -0.2, 0.05, 0.0, 0.3]
    found = two_arms([own], arm(base), is_factor=True)
    assert found is not None
    assert found.nu == 2.0
    assert found.v == pytest.approx(arm(own).ss / 2 / 3 + arm(base).ss / 4 / 5)
    assert two_arms([own], None, is_factor=True) == two_arms([own], None), "one sample is exact"


def test_claims_on_the_same_seeds_have_the_mean_e_value_whatever_their_baselines() -> None:
    """A seed that is good to every treatment is one draw of luck, which a product would count once a claim."""
    values = {"a": [0.9, 1.2], "b": [1.0, 0.7, 1.1], "c": [0.8, 1.3]}
    designs = {name: {**SHARED, "baseline_id": name} for name in values}

    def of(names: str, seeds: dict[str, list[int]]) -> float:
        ledger = [
            row(n, value, id=f"{name}{n}", run_id=f"{name}{n}", design_id=name, seed=seeds[name][n])
            for name in names
            for n, value in enumerate(values[name])
        ]
        return confidence({"id": "H1", "prior": 0.5}, {name: designs[name] for name in names}, ledger, {})["e_support"]

    apart = {"a": [1, 2], "b": [3, 4, 5], "c": [6, 7]}
    linked = {"a": [1, 2], "b": [2, 3, 4], "c": [4, 5]}  # a and c by way of b
    factors = {
        name: math.exp(log_e(two_arms([values[name]], arm(SHARED["baseline"]), is_factor=True))) for name in "ac"
    }
    alone = of("b", apart)
    assert of("abc", apart) == pytest.approx(alone * factors["a"] * factors["c"])
    assert of("abc", linked) == pytest.approx((alone + factors["a"] + factors["c"]) / 3)
    half = {**linked, "c": [8, 9]}
    assert of("abc", half) == pytest.approx((alone + factors["a"]) / 2 * factors["c"])
    mute = of("ab", {"a": [1, 1], "b": [1, 2, 3]})
    assert mute == pytest.approx(alone), "runs on one seed are one run, which says nothing"


def test_guards_are_each_weighed_as_if_alone() -> None:
    """They are never multiplied, so that as many metrics of the same runs as one likes cost nothing."""
    claim = {**SHARED, "metric": "acc", "baseline_id": "b:acc"}
    guards = {
        name: {**SHARED, "metric": name, "baseline_id": f"b:{name}", "guard_of": "a", "margin": 1.0} for name in "gh"
    }
    values = {"a": (0.9, 1.2, 1.0, 1.1), "g": (0.7, 0.8, 0.75, 0.7), "h": (0.7, 0.8, 0.75, 0.7)}

    def of(names: str) -> float:
        ledger = [
            row(
                n, value, id=f"{name}{n}", run_id=f"r{n}", design_id=name, seed=n, metric="acc" if name == "a" else name
            )
            for name in names
            for n, value in enumerate(values[name])
        ]
        designs = {name: each for name, each in {"a": claim, **guards}.items() if name in names}
        return confidence({"id": "H1", "prior": 0.5}, designs, ledger, {})["e_support"]

    assert of("agh") == pytest.approx(of("ag"))
    assert of("ag") > 1


def test_known_noise_counts_the_luck_of_a_shared_baseline_once() -> None:
    """Against the joint normal density of all runs' means, the baseline's error in every one, by hand for two."""
    values = {"a": [0.9, 1.2], "b": [0.4, 1.0, 0.1]}
    known = {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, "sigma": 0.5, "tau": 0.2, "baseline_id": "b", "baseline_n": 2}
    found = math.log(fold_many({"a": known, "b": known}, values)["e_support"])
    base, v_a, v_b = 0.25 / 2, 0.04 + 0.25 / 2, 0.04 + 0.25 / 3
    determinant = (v_a + base) * (v_b + base) - base * base
    x_a, x_b = 1.05 - 0.5, 0.5 - 0.5
    expected = ((v_b + base) * x_a + (v_a + base) * x_b - base * (x_a + x_b)) / determinant
    assert found == pytest.approx(expected)
    apart = [fold_many({name: {**known, "baseline_id": name}}, {name: own}) for name, own in values.items()]
    assert found < math.fsum(math.log(each["e_support"]) for each in apart)
    exact = {**known, "baseline_n": None}
    both = math.log(fold_many({"a": exact, "b": exact}, values)["e_support"])
    assert both == pytest.approx(0.55 / v_a + 0.0 / v_b), "a number has no luck to share"


def test_runs_of_several_designs_on_one_seed_are_one_draw() -> None:
    designs = {name: {**SHARED, "baseline_id": "b"} for name in "abcdef"}
    claim = {"id": "H1", "prior": 0.5}
    rng = random.Random(2)
    per_seed = [rng.gauss(0.5, 0.3) for _ in range(2)]
    ledger = [
        row(
            0,
            per_seed[seed] + rng.gauss(0, 0.01),
            id=f"{name}{seed}",
            run_id=f"{name}{seed}",
            design_id=name,
            seed=seed,
        )
        for name in designs
        for seed in (0, 1)
    ]
    shared = confidence(claim, designs, ledger, {})
    fresh = confidence(claim, designs, [{**each, "seed": None} for each in ledger], {})
    assert fresh["e_support"] > 3 * shared["e_support"]


def test_a_group_counts_the_worst_luck_that_a_member_declares() -> None:
    values = {"a": [0.9, 1.2, 1.0], "b": [0.7, 1.1, 0.8]}
    plain = fold_many({"a": SHARED, "b": SHARED}, values)
    for more in ({"luck": 0.8}, {"tau": 0.8}):
        first = fold_many({"a": {**SHARED, **more}, "b": SHARED}, values)
        second = fold_many({"a": SHARED, "b": {**SHARED, **more}}, values)
        assert first["e_support"] == pytest.approx(second["e_support"])
        assert second["e_support"] < plain["e_support"] / 2
    declared = {"model": "any", "one_sided": True, "baseline": SHARED["baseline"]}
    assert (
        fold(rows([0.9, 1.2, 1.0]), {**declared, "tau": 0.8})["e_support"]
        < 0.5 * (fold(rows([0.9, 1.2, 1.0]), declared)["e_support"])
    )


def test_a_stale_design_does_not_mute_the_others_of_its_baseline() -> None:
    values = {"a": [0.9, 1.2, 1.0], "b": [-0.7, -1.1, -0.8]}
    result = fold_many({"a": SHARED, "b": {**SHARED, "stale": ["code"]}}, values)
    assert result["e_support"] == pytest.approx(fold_many({"a": SHARED}, {"a": values["a"]})["e_support"])
    muted = fold_many({"b": {**SHARED, "stale": ["code"]}}, {"b": values["b"]})
    assert (muted["e_refute"], muted["confidence"], muted["n_measured"]) == (1.0, 0.5, 3)


def test_a_predicted_loss_is_supported_by_losses() -> None:
    down = {**SHARED, "mu1": -1.0}
    assert fold_many({"a": down}, {"a": [-0.9, -1.2, -1.0]})["reached"] == "supported"
    assert fold_many({"a": down}, {"a": [0.9, 1.2, 1.0]})["reached"] == "refuted"
    mixed = fold_many({"a": down, "b": SHARED}, {"a": [-0.9, -1.2, -1.0], "b": [0.9, 1.2, 1.0]})
    assert mixed["reached"] == "supported"


def test_a_design_whose_every_run_was_lost_counts_beside_the_others() -> None:
    designs = {"a": SHARED, "b": SHARED, "gone": {**SHARED, "lost": [None]}, "bad": {**SHARED, "lost": [-0.5]}}
    values = {"a": [0.9, 1.2], "b": [1.0, 0.7]}
    kept = fold_many({name: designs[name] for name in "ab"}, values)
    assert kept["reached"] == "supported"
    assert fold_many(designs, values)["e_support"] < 0.2 * kept["e_support"]
    assert fold_many({"gone": designs["gone"]}, {})["parts"] == []


# Runs without a value, and guards


def test_a_verdict_that_lost_runs_keep_open_is_named() -> None:
    claim = {**SHARED, "lost": [None, None, None]}
    whole, held = fold_many({"a": SHARED}, {"a": [0.9, 1.2, 1.0]}), fold_many({"a": claim}, {"a": [0.9, 1.2, 1.0]})
    assert (whole["reached"], whole["held"]) == ("supported", None)
    assert (held["reached"], held["held"]) == (None, "supported")
    assert held["e_support"] < whole["e_support"]


def test_a_claim_with_a_guard_needs_both() -> None:
    """The least e-value counts for it, the mean of them against it."""
    guard = {"mu1": 0.0, "mu0": -0.5, "null": -0.5, "tau": 0.0, "metric": "speed", "guard_of": "a", "margin": 0.5}
    designs = {"a": SHARED, "g": {**guard, "baseline": SHARED["baseline"]}}
    better = [0.9, 1.2, 1.0]

    def said(speeds: list[float], **more: Any) -> dict[str, Any]:
        rows_of = [row(n, value, id=f"a{n}", run_id=f"a{n}", design_id="a") for n, value in enumerate(better)]
        rows_of += [
            row(n, value, id=f"g{n}", run_id=f"a{n}", design_id="g", metric="speed") for n, value in enumerate(speeds)
        ]
        return {**confidence({"id": "H1"}, {**designs, "a": {**SHARED, **more}}, rows_of, {})}

    alone = fold_many({"a": SHARED}, {"a": better})
    kept, lost = said([0.02, 0.0, -0.03]), said([-2.0, -2.1, -1.9])
    assert kept["reached"] == "supported"
    assert kept["e_support"] <= alone["e_support"]
    assert lost["reached"] == "refuted"
    assert said([-2e3, -2e3 - 1, -2e3 + 1] * 3)["confidence"] == pytest.approx(0.01)  # of a guard too: 99 to 1
    unclear = said([-0.45, -0.6, -0.3])
    assert unclear["reached"] is None
    assert said([])["reached"] is None, "a guard that was not measured is not known to hold"
    assert said([-0.45, -0.6, -0.3], lost=[None])["held"] is None, "it is the guard that keeps it open"


# Opinions and manual shifts


def test_opinions_can_never_decide() -> None:
    many = fold([verdict(i, "supports") for i in range(50)])
    assert many["confidence"] == pytest.approx(0.75)
    assert many["parts"][0]["capped"] is True
    assert (many["e_support"], many["n_measured"]) == (1.0, 0)
    assert fold([verdict(1, "refutes", 0.5)])["log_odds"] == pytest.approx(-0.5 * math.log(2))


def test_an_opinion_weighs_at_most_ln_2() -> None:
    assert judged_weight("supports", 1.0) == pytest.approx(math.log(2))
    assert judged_weight("refutes", 40.0) == pytest.approx(-math.log(2))
    assert judged_weight("inconclusive", 1.0) == 0.0
    assert judged_weight("certainly", 1.0) == 0.0
    assert judged_weight("supports", math.nan) == 0.0
    assert judged_weight("supports", -3.0) == 0.0


def test_an_opinion_on_a_measured_run_weighs_nothing() -> None:
    opinion = verdict(1, "supports", run_id="r1")
    assert fold([row(1, 0.9), opinion]) == fold([row(1, 0.9)])
    assert fold([row(1, 0.9, status="failed"), opinion])["log_odds"] == pytest.approx(math.log(2))


def test_a_later_verdict_of_the_same_judge_on_the_same_run_supersedes() -> None:
    old, new = verdict(1, "supports", judge="a"), verdict(2, "refutes", run_id="run1", judge="a")
    assert fold([old, new])["log_odds"] == pytest.approx(-math.log(2))
    assert fold([old, {**new, "judge": "b"}])["log_odds"] == pytest.approx(0.0)
    back = {"id": "x", "kind": "retraction", "target": "j2"}
    assert fold([old, new, back])["log_odds"] == pytest.approx(math.log(2))


def test_a_manual_shift_is_whole_once_and_leaves_e_values_alone() -> None:
    shift = {"id": "m1", "kind": "manual", "log_odds": 7.5}
    result = fold([shift, shift, row(1, 0.9)])
    assert result["log_odds"] == pytest.approx(7.5 + fold([row(1, 0.9)])["log_odds"])
    assert result["e_support"] == fold([row(1, 0.9)])["e_support"]
    assert fold([{**shift, "log_odds": math.inf}])["log_odds"] == 0
    huge = [{**shift, "id": f"m{n}", "log_odds": 1.7e308, "bounded": bool(n % 2)} for n in range(4)]
    assert fold(huge)["confidence"] == 1 - 1e-4


def test_a_bounded_shift_shares_the_bound_of_the_opinions() -> None:
    shift = {"id": "m1", "kind": "manual", "log_odds": 7.5, "bounded": True}
    assert fold([shift])["log_odds"] == pytest.approx(math.log(3))
    assert fold([shift, verdict(1, "supports"), {**shift, "id": "m2"}])["log_odds"] == pytest.approx(math.log(3))
    assert fold([{**shift, "log_odds": 0.3}, verdict(1, "refutes")])["log_odds"] == pytest.approx(0.3 - math.log(2))


def test_flags_of_a_design_are_shown_with_it() -> None:
    result = fold([row(1, 0.9)], {**KNOWN, "warnings": ["seen before"]})
    assert measured_part(result)["flags"] == ["seen before"]
    assert result["log_odds"] == fold([row(1, 0.9)])["log_odds"]


def test_parts_add_up_to_the_log_odds() -> None:
    ledger = [*rows([4.0, 9.0]), verdict(8, "refutes"), {"id": "m1", "kind": "manual", "log_odds": -0.4}]
    result = fold(ledger)
    assert math.fsum(part["log_bayes_factor"] for part in result["parts"]) == pytest.approx(result["log_odds"])
    assert [next(iter(part)) for part in result["parts"]] == ["design_id", "judged", "manual"]


def test_established_needs_the_e_value_as_well() -> None:
    strong, manual = rows([2.0, 2.5]), [{"id": "m1", "kind": "manual", "log_odds": 5.0}]
    assert fold(strong, alpha=0.05)["established"] is True
    assert fold(manual, alpha=0.05)["established"] is False
    assert "established" not in fold(strong)


# What is promised however often one looks


def naive_says_supported(values: Sequence[float]) -> bool:
    """The rule of thumb: a tenth of confidence a run, by its sign."""
    return 0.5 + sum(0.1 if value > 0.5 else -0.1 for value in values) >= 0.8


@pytest.mark.parametrize(
    ("truth", "key"),
    [
        pytest.param(0.0, "e_support", marks=pytest.mark.slow),
        (-0.3, "e_support"),
        pytest.param(1.0, "e_refute", marks=pytest.mark.slow),
        (1.4, "e_refute"),
    ],
)
def test_false_alarms_stay_under_alpha_under_peeking(truth: float, key: str) -> None:
    rng, episodes, looks, alarms = random.Random(5), 300, 25, 0
    design = {**KNOWN, "tau": 0.0}
    for _ in range(episodes):
        values = [rng.gauss(truth, 1.0) for _ in range(looks)]
        alarms += any(fold(rows(values[:n]), design)[key] >= 10 for n in range(1, looks + 1))
    # Ville: at most 10 %, and three standard errors of this simulation
    assert alarms / episodes <= 0.1 + 3 * math.sqrt(0.09 / episodes)


def test_peeking_does_break_a_rule_without_the_guarantee() -> None:
    rng, fooled = random.Random(5), 0
    for _ in range(300):
        values = [rng.gauss(0.4, 1.0) for _ in range(25)]
        fooled += any(naive_says_supported(values[:n]) for n in range(1, 26))
    assert fooled / 300 > 0.3


def test_an_unknown_noise_keeps_the_bound() -> None:
    rng, episodes, alarms, supported = random.Random(7), 300, 0, 0
    for _ in range(episodes):
        base = [rng.gauss(0, 2.0) for _ in range(4)]
        mean = math.fsum(base) / 4
        values = [rng.gauss(0, 2.0) - mean for _ in range(12)]
        design = {"mu1": 1, "mu0": 0, "tau": 0.0, "s0": 1.0, "baseline": [b - mean for b in base]}
        found = [fold(rows(values[:n]), design) for n in (2, 3, 4, 6, 9, 12)]
        alarms += any(result["e_support"] >= 20 for result in found)
        supported += any(result["reached"] == "supported" for result in found)
    assert alarms / episodes <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / episodes)
    assert supported / episodes <= 0.25 + 3 * math.sqrt(0.25 * 0.75 / episodes)


def test_an_e_value_is_at_most_one_on_average_where_the_claim_is_false() -> None:
    rng, draws = random.Random(9), 4000
    design = {**KNOWN, "tau": 0.0}
    total = math.fsum(fold(rows([rng.gauss(0, 1), rng.gauss(0, 1)]), design)["e_support"] for _ in range(draws))
    # variance of the ratio is exp(d2) - 1 with d2 = 2
    assert total / draws <= 1 + 3 * math.sqrt((math.exp(2) - 1) / draws)
    assert total / draws >= 1 - 3 * math.sqrt((math.exp(2) - 1) / draws)
