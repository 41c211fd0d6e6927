"""The whole rule for one claim: verdicts, cautions that fire and do not, hostile input, many items at once."""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

import pytest

from perpetual.science import judge, judge_many
from perpetual.science.evidence import quantity

CLAIM: dict[str, Any] = {
    "metric": "acc", "direction": "max", "kind": "gaussian", "claim": "improves", "mde": 0.3, "noise": None,
    "tau": None, "paired": True, "items": None, "prior": 0.5, "opinions": [], "changes": [],
}  # fmt: skip
BASE = (0.10, -0.12, 0.05, -0.03, 0.02, -0.08)
GOOD = (0.62, 0.55, 0.70, 0.58)


def run(value: object, seed: object = None, **more: Any) -> dict[str, Any]:
    return {"seed": seed, "value": value, "status": "done", "by": None, **more}


def runs(values: Any, first_seed: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [run(value, first_seed + n, **more) for n, value in enumerate(values)]


def said(own: Any = GOOD, base: Any = BASE, config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The verdict on values, or on runs and baselines as they are."""
    own = runs(own, 100) if own and not isinstance(own[0], dict) else own
    base = runs(base) if isinstance(base, tuple) else base
    return {**judge({**CLAIM, **more}, base, own, config or {})}


# Verdicts


def test_verdicts_of_plain_runs() -> None:
    good, bad = said(), said([-value for value in GOOD])
    assert (good["status"], bad["status"], said([0.2, 0.1])["status"]) == ("supported", "refuted", "open")
    effect = good["effect"]
    assert effect["value"] == pytest.approx(math.fsum(GOOD) / 4 - math.fsum(BASE) / 6)
    assert (effect["n"], effect["n_baseline"], effect["metric"]) == (4, 6, "acc")
    assert 0 < effect["low"] < effect["value"] < effect["high"]
    assert said([])["status"] == said([0.6])["status"] == "open"
    assert said([])["effect"] is said([0.6])["effect"] is None


def test_a_smaller_metric_may_be_better() -> None:
    mirrored = said([-value for value in GOOD], tuple(-value for value in BASE), direction="min")
    plain = said()
    for key in ("confidence", "e_support", "e_refute", "status"):
        assert mirrored[key] == pytest.approx(plain[key])
    assert mirrored["effect"]["value"] == pytest.approx(plain["effect"]["value"])  # positive means better


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 7.0, 1e6, 1e12])
def test_neither_unit_nor_origin_matter(factor: float) -> None:
    for more in ({}, {"noise": 0.1}, {"tau": 0.05}, {"claim": "at_least"}, {"paired": False}):
        plain = said(**more)
        scaled = {key: value * factor for key, value in ({"mde": 0.3} | more).items() if type(value) is float}
        other = said(
            [factor * (value + 3) for value in GOOD], tuple(factor * (value + 3) for value in BASE), **(more | scaled)
        )
        for key in ("confidence", "log_odds", "e_support", "e_refute"):
            assert other[key] == pytest.approx(plain[key], rel=1e-6), (more, key)


def test_at_least_is_a_harder_claim_than_improves() -> None:
    between = [0.18, 0.21, 0.16, 0.2, 0.19, 0.17, 0.2, 0.18]
    assert said(between, claim="improves", tau=0.0)["status"] == "supported"
    assert said(between, claim="at_least", tau=0.0)["status"] == "refuted"
    assert said(claim="at_least", tau=0.0)["status"] == "supported"


def test_any_effect_is_some_effect_on_either_side_where_no_direction_is_claimed() -> None:
    worse = [-value for value in GOOD]
    assert said(worse, claim="any", mde=None, direction=None)["status"] == "supported"
    assert said(worse, claim="any", mde=None, direction="max")["status"] == "refuted"
    rates: dict[str, Any] = {"claim": "any", "mde": None, "kind": "binary"}
    assert said([0] * 9, 0.9, **rates, direction=None)["status"] == "supported"
    assert said([0] * 9, 0.9, **rates, direction="max")["status"] == "refuted"


@pytest.mark.parametrize("direction", ["max", "min"])
def test_rates_beside_a_number_a_count_and_runs(direction: str) -> None:
    hit = int(direction == "max")
    own, rate = [hit] * 11 + [1 - hit], 0.3 if hit else 0.7
    binary: dict[str, Any] = {"kind": "binary", "direction": direction, "mde": 0.2}
    number = said(own, rate, **binary)
    count = said(own, {"value": rate, "n": 40}, **binary)
    sampled = said(own, tuple([hit] * 12 + [1 - hit] * 28), **binary)
    assert number["status"] == count["status"] == sampled["status"] == "supported"
    assert count["e_support"] == pytest.approx(sampled["e_support"])
    assert count["e_support"] < number["e_support"]
    assert count["effect"]["n_baseline"] == sampled["effect"]["n_baseline"] == 40
    assert number["effect"]["value"] == pytest.approx(11 / 12 - 0.3)
    against = said([1 - value for value in own], rate, **binary)
    assert against["status"] == "refuted"
    half = said([*own, 0.5], rate, **binary)
    assert half["e_support"] == number["e_support"]
    assert "weightless_runs" in half["cautions"]
    assert "weightless_runs" not in number["cautions"]
    assert said(own, (0.5, 0.25), **binary)["e_support"] == 1.0


def test_failures_that_an_agent_kills_do_not_make_a_rate() -> None:
    killed = [*runs([1] * 9), *(run(None, status="killed", by="agent") for _ in range(9))]
    for base in (0.5, {"value": 0.5, "n": 40}, tuple([0, 1] * 20)):
        assert said([1] * 9, base, kind="binary", mde=0.2)["status"] == "supported"
        assert said(killed, base, kind="binary", mde=0.2)["status"] == "open"


def test_a_number_that_was_measured_with_few_runs_is_known_less() -> None:
    found = [said(base=base)["e_support"] for base in ({"value": 0.0, "n": n} for n in (1, 3, 10, 1000))]
    assert found == sorted(found)
    assert found[0] < 0.2 * found[-1]
    assert found[-1] <= said(base=0.0)["e_support"]


def test_more_replicates_than_measured_leave_it_open() -> None:
    assert said(config={"min_replicates": 5})["status"] == "open"
    assert said(config={"support": 0.9999})["status"] == "open"
    assert said(config={"confidence_support_threshold": 0.9999})["status"] == "open"
    assert said(config={"alpha": 0.05})["established"] is True


def test_prior_and_opinions_cannot_carry_a_verdict() -> None:
    yes = [{"kind": "judged", "verdict": "supports", "strength": 1.0, "actor": f"a{n}"} for n in range(9)]
    weak = [0.12, 0.05, 0.1]
    plain, pushed = said(weak), said(weak, prior=0.99, opinions=yes)
    assert abs(pushed["log_odds"] - plain["log_odds"]) <= math.log(3) + 1e-9
    assert pushed["status"] == "open"
    assert pushed["e_support"] == plain["e_support"]
    assert said([], prior=0.99, opinions=yes)["status"] == "open"
    no = [{**opinion, "verdict": "refutes"} for opinion in yes]
    assert said(prior=0.01, opinions=no)["e_support"] == said()["e_support"]


def test_pairs_on_shared_seeds_carry_what_the_arms_alone_cannot() -> None:
    rng = Random(4)
    luck = [rng.gauss(0, 1) for _ in range(6)]
    base = [run(each, seed) for seed, each in enumerate(luck)]
    own = [run(each + 0.4 + rng.gauss(0, 0.05), seed) for seed, each in enumerate(luck)]
    paired, alone = said(own, base, paired=True, tau=0.0), said(own, base, paired=False, tau=0.0)
    assert paired["status"] == "supported"
    assert alone["status"] == "open"
    other_seeds = said([{**each, "seed": f"x{each['seed']}"} for each in own], base, paired=True, tau=0.0)
    assert other_seeds["e_support"] == pytest.approx(alone["e_support"])
    assert paired["effect"]["high"] - paired["effect"]["low"] < alone["effect"]["high"] - alone["effect"]["low"]


def test_seeds_that_pull_apart_make_an_effect_less_certain() -> None:
    rng = Random(4)
    luck = [rng.gauss(0, 1) for _ in range(6)]
    base = [run(each, seed) for seed, each in enumerate(luck)]
    values = [2.2 - each + rng.gauss(0, 0.05) for each in luck]
    apart = said([run(each, seed) for seed, each in enumerate(values)], base, tau=0.0, paired=False)
    fresh = said([run(each, 50 + seed) for seed, each in enumerate(values)], base, tau=0.0, paired=False)
    assert apart["e_support"] < fresh["e_support"]


def test_seeds_are_the_same_as_a_number_or_as_text() -> None:
    base = [run(value, seed) for seed, value in enumerate(BASE)]
    number = [run(value, seed) for seed, value in enumerate(GOOD)]
    for kind in (str, float):
        assert said([{**each, "seed": kind(each["seed"])} for each in number], base) == said(number, base)


def test_one_seed_run_twice_is_one_draw() -> None:
    twice = said([run(value, n // 2) for n, value in enumerate((0.6, 0.64, 0.5, 0.56))])
    once = said([run(0.62, 0), run(0.53, 1)])
    assert twice["n_measured"] == 2
    assert twice["e_support"] == pytest.approx(once["e_support"])
    assert "correlated_seeds" in twice["cautions"]


def test_a_diverged_seed_neither_hides_an_effect_nor_makes_one() -> None:
    rng = Random(3)
    base = tuple(rng.gauss(0, 0.5) for _ in range(6))
    own = [2 + rng.gauss(0, 0.5) for _ in range(8)]
    hidden = said([*own[:-1], -10.0], base, mde=1.0)
    assert hidden["status"] == "supported"
    assert "outlier" in hidden["cautions"]
    same = [rng.gauss(0, 0.5) for _ in range(8)]
    assert said(same, (*base[:-1], -40.0), mde=1.0)["status"] != "supported"
    assert "outlier" not in said(own, base, mde=1.0)["cautions"]


def test_runs_killed_because_they_look_bad_leave_it_open() -> None:
    rng = Random(10)
    drawn = [rng.gauss(0, 1) for _ in range(40)]
    base = tuple(rng.gauss(0, 1) for _ in range(10))
    kept = [run(value) if value > 0.3 else run(None, status="killed", by="agent", last_value=value) for value in drawn]
    alone = [each for each in kept if each["value"] is not None]
    assert said(alone, base, mde=1.0, tau=0.0)["status"] == "supported"
    both = said(kept, base, mde=1.0, tau=0.0)
    assert both["status"] == "open"
    assert {"killed_runs", "lost_runs"} <= {*both["cautions"]}


def test_runs_killed_below_a_number_leave_it_open() -> None:
    """No run of a baseline shows how bad one may be: the number itself counts as seen, else half of all nulls pass."""
    supported, picked = 0, 0
    for seed in range(100):
        rng = Random(seed)
        drawn = [rng.gauss(0, 1) for _ in range(12)]
        kept = [run(value) if value > 0.5 else run(None, status="killed", by="agent") for value in drawn]
        alone = [each for each in kept if each["value"] is not None]
        supported += said(kept, 0.0, mde=1.0)["status"] == "supported"
        picked += said(alone, 0.0, mde=1.0)["status"] == "supported"
    assert supported <= 15
    assert picked >= 50
    good = [*runs((2.1, 1.8, 2.4, 2.0, 1.7)), run(None, status="failed")]
    assert said(good, 0.0, mde=0.3, tau=0.0)["status"] == "supported"


def test_a_design_on_other_code_weighs_nothing_beside_one_that_counts() -> None:
    """Neither may it take another one's weight: its mean with what says nothing would undo a verdict."""
    base = runs((1.0, 1.04, 0.96, 1.01), code="a")
    own = runs((1.3, 1.33, 1.28, 1.31), code="a")
    claim = {"metric": "m", "direction": "max", "mde": 0.1, "tau": 0.0}
    alone = judge(claim, base, own, {})
    for value in (0.2, 1.3, 9.0):
        other = runs((value, value + 0.03, value - 0.02, value, value + 0.01), code="b")
        both = judge([claim, claim], base, [own, other], {})
        assert (both["e_support"], both["confidence"]) == pytest.approx((alone["e_support"], alone["confidence"]))
        assert "stale" in both["cautions"]


def test_a_pair_whose_run_is_lost_counts_at_the_worst_value_too() -> None:
    base = [run(value, seed=seed) for seed, value in enumerate((1.0, 1.01, 0.99, 1.0))]
    own: list[Any] = [run(1.3, seed=0), run(1.33, seed=1)]
    lost = run(None, seed=2, status="failed")
    alone, held = (said(each, base, mde=0.1, tau=0.0) for each in (own, [*own, lost]))
    assert (alone["status"], held["status"]) == ("supported", "open")
    again = said([*own, lost, run(1.31, seed=2)], base, mde=0.1, tau=0.0)
    assert again["status"] == "supported", "its seed was run again, and gave a value"
    assert "lost_runs" in again["cautions"]
    elsewhere = said([*own, lost, run(1.31, seed=3)], base, mde=0.1, tau=0.0)
    assert elsewhere["e_support"] < again["e_support"] / 2


def test_a_value_that_diverged_is_a_lost_run() -> None:
    for value in (math.nan, math.inf, -math.inf, 10**400, None):
        found = said([*runs(GOOD), run(value)])
        assert "lost_runs" in found["cautions"]
        assert found["e_support"] == pytest.approx(said([*runs(GOOD), run(None, status="failed")])["e_support"])


# Several designs


def test_designs_of_one_baseline_are_folded_together() -> None:
    base = runs(BASE)
    lists = [runs(GOOD[:2], 10), runs(GOOD[2:], 20)]
    both = judge([CLAIM, CLAIM], base, lists, {})
    assert both["status"] == "supported"
    assert "shared_baseline" in both["cautions"]
    assert both["n_measured"] == 4
    assert both["e_support"] == pytest.approx(judge([CLAIM, CLAIM], [base, base], lists, {})["e_support"])
    apart = judge([CLAIM, CLAIM], [base, runs([0.03, 0.0, -0.04, 0.06])], lists, {})
    assert "shared_baseline" not in apart["cautions"]
    assert apart["e_support"] != pytest.approx(both["e_support"])
    typed = judge([CLAIM, CLAIM], [0.0, {"value": 0.1, "n": 4}], lists, {})
    assert (typed["n_measured"], typed["cautions"].count("typed_baseline")) == (4, 1)
    assert judge([CLAIM, CLAIM], [{"value": 0.0, "n": None}, 0.1], lists, {})["n_measured"] == 4


def test_runs_as_many_as_claims_are_a_baseline_all_the_same() -> None:
    lists = [runs(GOOD[:2], 10), runs(GOOD[2:], 20)]
    for more in ({}, {"order": 3}):
        two = [{"value": 0.1, **more}, {"value": -0.1, **more}]
        found = judge([CLAIM, CLAIM], two, lists, {})
        assert found["effect"] is not None
        assert found["effect"]["n_baseline"] == 2
        assert "typed_baseline" not in found["cautions"]


def test_claims_compared_with_other_versions_of_a_baseline_are_weighed_apart() -> None:
    """Each claim's runs are compared with the baseline's of their own code, never with the other's noise."""
    rng = Random(1)
    old = [run(rng.gauss(0, 0.01), code="old") for _ in range(4)]
    new = [run(rng.gauss(5, 1.0), code="new") for _ in range(4)]
    first = [run(rng.gauss(1, 0.01), code="old") for _ in range(3)]
    second = [run(rng.gauss(6, 1.0), code="new") for _ in range(3)]
    claim = {**CLAIM, "paired": False, "tau": 0.0}
    both = judge([claim, claim], [*old, *new], [first, second], {})
    one, other = (judge(claim, base, own, {}) for base, own in ((old, first), (new, second)))
    # Of two equally large the first is weighed as if alone, the other as a factor: with fewer degrees of freedom.
    assert 3 * one["e_support"] < both["e_support"] < one["e_support"] * other["e_support"]


def test_opinions_of_every_claim_count() -> None:
    opinion = {"verdict": "supports", "strength": 1.0, "actor": "a"}
    lists = [runs([0.1, 0.2]), runs([0.1, 0.15])]
    plain = judge([CLAIM, CLAIM], 0.0, lists, {})
    second = judge([CLAIM, {**CLAIM, "opinions": [opinion]}], 0.0, lists, {})
    assert second["log_odds"] == pytest.approx(plain["log_odds"] + math.log(2))


# Cautions


def test_no_caution_of_runs_that_give_no_cause() -> None:
    own = [run(value, seed, order=2 * seed, items=[value + 0.1, value - 0.1]) for seed, value in enumerate(GOOD)]
    base = [run(value, seed, order=2 * seed + 1, items=[value + 0.1, value - 0.1]) for seed, value in enumerate(BASE)]
    assert said(own, base)["cautions"] == []


@pytest.mark.parametrize(
    ("code", "own", "base", "more"),
    [
        ("typed_baseline", GOOD, 0.0, {}),
        ("lone_baseline", GOOD, (0.1,), {}),
        ("lone_baseline", GOOD, [*runs((0.1,)), run(None, status="failed")], {}),
        ("lost_runs", [*runs(GOOD), run(None, status="failed")], BASE, {}),
        ("lost_runs", GOOD, [*runs(BASE), run(None, status="timeout")], {}),
        ("killed_runs", [*runs(GOOD), run(None, status="killed", by="agent")], BASE, {}),
        ("correlated_seeds", GOOD, BASE, {"paired": False}),
        ("correlated_seeds", [run(0.6, 1), run(0.6, 2), run(0.6, 3)], BASE, {}),
        ("correlated_seeds", GOOD, (0.1, 0.1, 0.1), {}),
        ("drift", [run(value, order=9 + n) for n, value in enumerate(GOOD)],
         [run(value, order=n) for n, value in enumerate(BASE)], {}),
        ("one_test_set", GOOD, BASE, {}),
        ("outlier", [*runs(GOOD), *runs((0.61, 0.57, -40.0))], BASE, {}),
        ("misfit", [9.0, 9.1, 8.9, 9.05], BASE, {"claim": "value"}),
        ("stale", [run(value, code="b") for value in GOOD], [run(value, code="a") for value in BASE], {}),
        ("stale", [run(value, data="b") for value in GOOD], [run(value, data="a") for value in BASE], {}),
        ("stale", [run(value, environment="b") for value in GOOD], [run(value, environment="a") for value in BASE], {}),
    ],
)  # fmt: skip
def test_a_caution_fires_where_there_is_cause(code: str, own: Any, base: Any, more: dict[str, Any]) -> None:
    found = said(own, base, **more)
    assert code in found["cautions"]
    if code == "stale":
        assert found["status"] == "open"
        assert (found["e_support"], found["n_measured"]) == (1.0, 4)
        aspect = next(iter({"code", "data", "environment"} & own[0].keys()))
        meant = said(own, base, changes=[aspect])
        assert "stale" not in meant["cautions"]
        assert meant["status"] == "supported"


@pytest.mark.parametrize(
    ("code", "own", "base", "more"),
    [
        ("typed_baseline", GOOD, {"value": 0.0, "n": 5}, {}),
        ("lone_baseline", GOOD, (0.1, 0.2), {}),
        ("lone_baseline", (1, 1, 0), (1,), {"kind": "binary"}),
        ("killed_runs", [*runs(GOOD), run(None, status="killed", by=None)], BASE, {}),
        ("drift", [run(value, order=2 * n) for n, value in enumerate(GOOD)],
         [run(value, order=2 * n + 1) for n, value in enumerate(BASE)], {}),
        ("drift", GOOD, BASE, {}),
        ("one_test_set", [run(value / 10 + 0.5) for value in GOOD], 0.5, {"items": 1000}),
        ("outlier", [*runs(GOOD), *runs((0.61, 0.57, 0.9))], BASE, {}),
        ("misfit", [0.3, 0.35, 0.28, 0.31], BASE, {"claim": "value"}),
        ("stale", [run(value, code="a") for value in GOOD], [run(value) for value in BASE], {}),
        ("shared_baseline", GOOD, BASE, {}),
    ],
)  # fmt: skip
def test_a_caution_does_not_fire_without_cause(code: str, own: Any, base: Any, more: dict[str, Any]) -> None:
    assert code not in said(own, base, **more)["cautions"]


def test_luck_of_test_items_counts() -> None:
    own, base = [0.86, 0.85, 0.87], (0.82, 0.81, 0.83, 0.82)
    few = said(own, base, mde=0.02, tau=0.0, items=100)
    many = said(own, base, mde=0.02, tau=0.0, items=1_000_000)
    unknown = said(own, base, mde=0.02, tau=0.0)
    assert few["status"] == "open"
    assert many["status"] == unknown["status"] == "supported"
    assert few["e_support"] < many["e_support"] <= unknown["e_support"]
    percent = said([100 * each for each in own], tuple(100 * each for each in base), mde=2.0, tau=0.0, items=100)
    assert percent["e_support"] == pytest.approx(few["e_support"])


# Hostile callers


@pytest.mark.parametrize(
    ("key", "claim", "baseline", "own", "config"),
    [
        ("claim must be", "abc", 0.0, [], {}),
        ("claim must be", [], 0.0, [], {}),
        ("claim must be", [3], 0.0, [[]], {}),
        ("claim must be", None, 0.0, [], {}),
        ("claims need", [CLAIM, CLAIM], 0.0, [[]], {}),
        ("claims need", [CLAIM, CLAIM], [0.0, 1.0, 2.0], [[], []], {}),
        ("direction", {**CLAIM, "direction": "up"}, 0.0, [], {}),
        ("kind", {**CLAIM, "kind": "poisson"}, 0.0, [], {}),
        ("claim must be one of", {**CLAIM, "claim": "wins"}, 0.0, [], {}),
        ("mde", {**CLAIM, "mde": "big"}, 0.0, [], {}),
        ("mde", {**CLAIM, "mde": -1.0}, 0.0, [], {}),
        ("mde", {**CLAIM, "mde": math.nan}, 0.0, [], {}),
        ("mde", {**CLAIM, "claim": "at_least", "mde": None}, 0.0, [], {}),
        ("noise", {**CLAIM, "noise": -0.1}, 0.0, runs(GOOD), {}),
        ("tau", {**CLAIM, "tau": math.inf}, 0.0, runs(GOOD), {}),
        ("prior", {**CLAIM, "prior": "even"}, 0.0, [], {}),
        ("items", {**CLAIM, "items": 1}, 0.0, runs(GOOD), {}),
        ("items", {**CLAIM, "items": "many"}, 0.0, runs(GOOD), {}),
        ("changes", {**CLAIM, "changes": "code"}, 0.0, [], {}),
        ("changes", {**CLAIM, "changes": ["luck"]}, 0.0, [], {}),
        ("opinions", {**CLAIM, "opinions": 3}, 0.0, [], {}),
        ("opinion", {**CLAIM, "opinions": [3]}, 0.0, [], {}),
        ("verdict", {**CLAIM, "opinions": [{"verdict": "great"}]}, 0.0, [], {}),
        ("strength", {**CLAIM, "opinions": [{"verdict": "supports", "strength": "much"}]}, 0.0, [], {}),
        ("baseline", CLAIM, "2.3", [], {}),
        ("baseline", CLAIM, None, [], {}),
        ("baseline", CLAIM, True, [], {}),
        ("baseline", CLAIM, math.nan, [], {}),
        ("baseline", CLAIM, {"value": None, "n": 3}, [], {}),
        ("n of a baseline", CLAIM, {"value": 1.0, "n": 0}, [], {}),
        ("baseline", {**CLAIM, "kind": "binary"}, 1.5, [run(1)], {}),
        ("run must be", CLAIM, [1.0, 2.0], [], {}),
        ("run must be", CLAIM, 0.0, [3.0], {}),
        ("runs", CLAIM, 0.0, 7, {}),
        ("runs", CLAIM, 0.0, "ab", {}),
        ("runs", [CLAIM], 0.0, [None], {}),
        ("value", CLAIM, 0.0, [run("0.3")], {}),
        ("value", CLAIM, 0.0, [run([0.3])], {}),
        ("last_value", CLAIM, 0.0, [run(0.3, last_value="x")], {}),
        ("order", CLAIM, 0.0, [run(0.3, order="first")], {}),
        ("seed", CLAIM, 0.0, [run(0.3, seed=[1])], {}),
        ("status", CLAIM, 0.0, [run(0.3, status="Failed")], {}),
        ("status", CLAIM, 0.0, [run(0.3, status=["done"])], {}),
        ("items", CLAIM, 0.0, [run(0.3, items=5)], {}),
        ("items", CLAIM, 0.0, [run(0.3, items=["a", "b"])], {}),
        ("items", CLAIM, 0.0, [run(0.3, items=[1, 0]), run(0.3, items=[1, 0, 1])], {}),
        ("config", CLAIM, 0.0, [], None),
        ("support", CLAIM, 0.0, runs(GOOD), {"support": 7}),
        ("support", CLAIM, 0.0, runs(GOOD), {"support": 0.0}),
        ("refute", CLAIM, 0.0, runs(GOOD), {"refute": -1}),
        ("refute", CLAIM, 0.0, runs(GOOD), {"refute": "low"}),
        ("alpha", CLAIM, 0.0, runs(GOOD), {"alpha": "x"}),
        ("min_replicates", CLAIM, 0.0, runs(GOOD), {"min_replicates": "two"}),
    ],
)  # fmt: skip
def test_hostile_input_is_refused_by_the_name_of_its_key(
    key: str, claim: Any, baseline: Any, own: Any, config: Any
) -> None:
    with pytest.raises(ValueError, match=key):
        judge(claim, baseline, own, config)
    (refused,) = judge_many([[claim, baseline, own, config]])
    assert key in refused["error"]  # type: ignore[typeddict-item]


def test_numbers_of_any_size_are_judged() -> None:
    for size in (1e-320, 1e-300, 1e-160, 1e100, 1e300, 1.7e308):
        for own in ((size, -size, 0.0), (size, size / 2), (size,) * 4, (-size, 1.0, 2.0)):
            for base in ((size, -size, size / 3), (0.0, 0.0), (1.0,), -size, {"value": size, "n": 1e300}):
                for more in ({}, {"mde": size}, {"mde": size, "noise": size, "tau": size}, {"mde": None}):
                    found = said(list(own), base, **more)
                    assert json.dumps(found, allow_nan=False)


def test_many_are_answered_in_order_and_errors_in_place() -> None:
    item = [CLAIM, runs(BASE), runs(GOOD, 100), {}]
    wrong: list[Any] = [[CLAIM, 0.0], 3, [], None, [CLAIM, "x", [], {}], [{**CLAIM, "kind": 3}, 0.0, [], {}]]
    found = judge_many([item, *wrong, item])
    assert found[0] == found[-1] == judge(CLAIM, runs(BASE), runs(GOOD, 100), {})
    assert [[*each] for each in found[1:-1]] == [["error"]] * len(wrong)
    assert judge_many([]) == []


# A null, and what is promised of it


def test_a_null_looks_good_as_seldom_as_promised() -> None:
    """300 nulls, six looks: P(ever e >= 20) <= 5 %, P(ever supported) <= 25 %, by the binomial's 99.9 %."""
    rng, episodes, alarms, supported = Random(20), 300, 0, 0
    for episode in range(episodes):
        sigma = 10 ** rng.uniform(-2, 2)
        base = [run(rng.gauss(0, sigma), seed) for seed in range(rng.choice([2, 4, 8]))]
        own = [run(rng.gauss(0, sigma * rng.choice([1, 1, 3])), seed) for seed in range(10)]
        claim = {**CLAIM, "mde": quantity({"mde": sigma}, "mde"), "paired": episode % 2 == 0, "tau": 0.0}
        found = [judge(claim, base, own[:n], {}) for n in (2, 3, 4, 6, 8, 10)]
        alarms += any(each["e_support"] >= 20 for each in found)
        supported += any(each["status"] == "supported" for each in found)
    assert alarms <= binomial_quantile(episodes, 0.05, 0.999)
    assert supported <= binomial_quantile(episodes, 0.25, 0.999)


def binomial_quantile(n: int, p: float, level: float) -> int:
    total = 0.0
    for k in range(n + 1):
        total += math.comb(n, k) * p**k * (1 - p) ** (n - k)
        if total >= level:
            return k
    return n
