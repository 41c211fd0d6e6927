"""Runs still to be launched, where the noise is unknown: against the evidence rule and simulations of it."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from perpetual.science import judge, propose, score_candidates
from perpetual.science.evalues import Statistic, log_e
from perpetual_scorers.proposing.planning import statistic_of
from perpetual_scorers.proposing.prospects import Setting, expected_log_e, prospect, seed_correlation, stand_in
from perpetual_scorers.proposing.strategies import STRATEGIES, verdict_probability


def claim(name: str, hypothesis: str = "H1", /, **more: Any) -> dict[str, Any]:
    base = {"id": name, "hypothesis_id": hypothesis, "mu1": 1.0, "mu0": 0.0, "sigma": None, "s0": 0.8, "tau": 0.1}
    return {**base, "cost": 1.0, "p_fail": 0.0, "n_seen": 0, "n_pending": 0, "baseline_id": "b", **more}


def baseline(n: int, name: str = "b", /, **more: Any) -> dict[str, Any]:
    row = {"id": f"run of {name}", "kind": "baseline", "baseline_id": name, "cost": 1.0, "p_fail": 0.0}
    return {**row, "n_seen": n, "n_pending": 0, **more}


def state(*candidates: dict[str, Any], seed: int = 0, **confidences: float) -> dict[str, Any]:
    names = {row["hypothesis_id"] for row in candidates if "hypothesis_id" in row}
    known = dict.fromkeys(sorted(names), 0.5) | confidences
    hypotheses = [{"id": name, "confidence": p} for name, p in known.items()]
    return {"hypotheses": hypotheses, "candidates": list(candidates), "seed": seed}


def scores(given: dict[str, Any], **config: Any) -> dict[str, float]:
    return {row["candidate_id"]: row["score"] for row in score_candidates(given, config)}


# --- what the e-value is expected to reach ----------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.8, 1.0, 3.0, 8.0, 60.0])
def test_the_quick_e_value_is_that_of_the_evidence_rule(nu: float) -> None:
    for n in (1.0, 2.5, 8.0, 40.0):
        for t in (0.0, 0.5, 1.5, 3.0, 7.0):
            assert expected_log_e(t * t, nu, n) == pytest.approx(log_e(Statistic(t, 1.0, nu, n)), abs=0.1)


@pytest.mark.parametrize(("n", "baseline_n"), [(2, 2), (5, 4), (4, 12), (9, None), (3, 1)])
def test_a_prospect_is_the_e_value_of_the_expected_statistic(n: int, baseline_n: int | None) -> None:
    found = statistic_of(1.5, 1.0, n, baseline_n)
    assert prospect(Setting(1.5, 0.0, None), n, baseline_n).d2 == pytest.approx(2 * max(log_e(found), 0.0), abs=0.2)


def test_one_run_says_nothing_and_a_baseline_bounds_what_many_say() -> None:
    alone = Setting(2.0, 0.0, None)
    assert prospect(alone, 1, 4).d2 == 0
    assert prospect(alone, 5, 0).d2 == 0
    assert prospect(alone, 400, 4).d2 < prospect(alone, 8, 8).d2
    assert prospect(Setting(2.0, 1.0, None), 400, 400).d2 < 4 / 1.0**2


def test_shared_seeds_say_more_the_more_of_their_luck_they_share() -> None:
    found = [prospect(Setting(1.2, 0.0, rho), 6, 6).d2 for rho in (None, 0.5, 0.8, 0.95, 7.0)]
    assert found[1:] == sorted(found[1:])
    assert found[2] > 1.5 * found[0]
    pairs = [prospect(Setting(1.2, 0.0, 0.9), n, 6).d2 for n in (6, 12)]
    assert pairs[1] < 1.1 * pairs[0], "beyond the baseline's seeds there are no pairs"


def test_the_chance_of_a_verdict_is_that_of_drawn_evidence() -> None:
    rng, p, d2, spread, draws = Random(4), 0.4, 2.0, 5.0, 40_000
    passed = 0
    for _ in range(draws):
        sign = 1 if rng.random() < p else -1
        odds = math.log(p / (1 - p)) + rng.gauss(sign * d2 / 2, math.sqrt(spread))
        passed += not math.log(0.25) < odds < math.log(4)
    assert verdict_probability(p, d2, spread, 0.8, 0.2) == pytest.approx(passed / draws, abs=0.01)
    assert verdict_probability(0.9, d2, spread, 0.8, 0.2) == verdict_probability(p, 0.0, spread, 0.8, 0.2) == 0.0


def test_the_chance_of_a_verdict_is_about_that_of_the_lab() -> None:
    """Of judged campaigns of one look with 6 runs on shared seeds: the plan is no fancy."""
    rng, decided, trials, rho = Random(8), 0, 120, 0.8
    for trial in range(trials):
        effect, arms = float(trial % 2), []
        luck = [rng.gauss(0, math.sqrt(rho)) for _ in range(6)]
        for mean in (effect, 0.0):
            values = [mean + 0.8 * (one + rng.gauss(0, math.sqrt(1 - rho))) for one in luck]
            arms.append([{"seed": n, "value": value, "status": "done"} for n, value in enumerate(values)])
        found = judge({"metric": "m", "direction": "max", "mde": 1.0, "tau": 0.0}, arms[1], arms[0], {})
        decided += found["status"] != "open"
    planned = prospect(Setting(1 / 0.8, 0.0, rho), 6, 6)
    assert verdict_probability(0.5, planned.d2, planned.spread, 0.8, 0.2) == pytest.approx(decided / trials, abs=0.2)


# --- worth ------------------------------------------------------------------------------------------------------------


def test_the_second_run_is_worth_more_than_the_first() -> None:
    first, second = (scores(state(claim("a", n_seen=n), baseline(6)))["a"] for n in (0, 1))
    assert second > first > 0


def test_few_degrees_of_freedom_are_worth_less() -> None:
    few, many = (scores(state(claim("a", n_seen=2), baseline(n)))["a"] for n in (2, 12))
    assert many > few > 0


def test_shared_seeds_are_worth_what_they_share() -> None:
    found = [scores(state(claim("a", rho=rho), baseline(6)))["a"] for rho in (0.0, 0.5, 0.9)]
    assert found == sorted(found)
    assert found[2] > 1.5 * found[0]


def test_a_stand_in_that_shows_too_much_is_worth_less() -> None:
    honest, biased, lying = (scores(state(claim("a", bias=bias), baseline(6)))["a"] for bias in (0.0, -0.3, 0.5))
    assert honest > biased > lying == 0


def test_stand_ins_bring_no_verdict_by_themselves() -> None:
    cheap: dict[str, Any] = {"cost": 0.3, "tau": 0.6, "baseline_id": "c"}
    rows = [claim("full"), baseline(6), baseline(6, "c")]
    alone = scores(state(claim("cheap", **cheap), *rows))["cheap"]
    beside = scores(state(claim("cheap", proxy=True, **cheap), *rows))["cheap"]
    assert 0 < beside < alone / 2
    rows[0]["n_seen"] = 2
    seen = scores(state(claim("cheap", proxy=True, **cheap), *rows))["cheap"]
    assert seen == pytest.approx(scores(state(claim("cheap", **cheap), *rows))["cheap"])


def test_what_has_brought_little_is_expected_to_bring_little() -> None:
    """20 runs beside 20 that leave a claim at even odds: its effect is neither what was planned for nor none."""
    stuck, fresh = claim("stuck", n_seen=20), claim("fresh", "H2", n_seen=20)
    assert scores(state(stuck, fresh, baseline(20), H1=0.5, H2=0.75))["stuck"] < 0.1
    assert propose(state(stuck, claim("new", "H2"), baseline(20)), 1, {}) == ["new"]


def test_a_claim_near_its_verdict_is_offered_its_last_runs() -> None:
    """The minimum gain is that of a run at even odds: at 0.94 of 0.95 no single run has many bits left."""
    given = state(claim("a", n_seen=6), baseline(6), H1=0.94)
    assert propose(given, 1, {"support": 0.95, "refute": 0.05}) == ["a"]
    assert propose(state(claim("a", s0=9.0), baseline(6)), 1, {}) == [], "nine times the effect in noise"


# --- baseline runs ----------------------------------------------------------------------------------------------------


def test_a_baseline_run_is_worth_what_it_adds_to_all_that_share_it() -> None:
    worth = []
    for shared in (1, 2, 4):
        rows = [claim(f"c{n}", f"H{n}", n_seen=6) for n in range(shared)]
        worth.append(scores(state(*rows, baseline(3)))["run of b"])
    assert worth[1] == pytest.approx(2 * worth[0])
    assert worth[2] == pytest.approx(4 * worth[0])
    others = [claim("x", "H8", n_seen=6, baseline_id="other"), claim("y", "H9", n_seen=6)]
    assert scores(state(*others, baseline(3), H9=0.9))["run of b"] == 0


def test_a_thin_baseline_is_run_before_its_claims_and_a_thick_one_after_them() -> None:
    claims = [claim(f"c{n}", f"H{n}", n_seen=6) for n in range(4)]
    assert propose(state(*claims, baseline(2)), 1, {}) == ["run of b"]
    assert propose(state(*claims, baseline(30)), 1, {}) != ["run of b"]
    assert propose(state(*claims, baseline(2, cost=500.0)), 1, {}) != ["run of b"]


def test_a_baseline_that_never_ran_is_run_first() -> None:
    claims = [claim(f"c{n}", f"H{n}", rho=0.0) for n in range(3)]
    assert propose(state(*claims, baseline(0)), 1, {}) == ["run of b"]
    (bare,) = propose(state(*claims, {"kind": "baseline", "baseline_id": "b", "cost": 1.0}), 1, {})
    assert bare == "b", "a baseline goes by its own name where the candidate has none"
    counted = [{**row, "baseline_n": 5} for row in claims]
    assert propose(state(*counted, {"kind": "baseline", "baseline_id": "b", "cost": 9.0}), 1, {}) != ["b"]


def test_each_baseline_run_lowers_the_worth_of_the_next() -> None:
    claims = [claim(f"c{n}", f"H{n}", n_seen=6) for n in range(3)]
    found = [scores(state(*claims, baseline(3, n_pending=n)))["run of b"] for n in (0, 2, 6)]
    assert found == sorted(found, reverse=True)
    assert (
        scores(state(*claims, baseline(3, n_pending=3)))["run of b"] < scores(state(*claims, baseline(3)))["run of b"]
    )


def test_a_baseline_run_says_whom_it_serves_and_why_it_is_not_offered() -> None:
    claims = [claim(f"c{n}", f"H{n}", n_seen=6) for n in range(3)]
    (row,) = [each for each in score_candidates(state(*claims, baseline(3)), {}) if each["hypothesis_id"] == ""]
    assert row["offered"]
    assert row["reason"].endswith("bit expected of 3 claims for 1 run-hour")
    decided = score_candidates(state(*claims, baseline(3), H0=0.9, H1=0.9, H2=0.1), {})
    assert decided[-1]["reason"] == "no open hypothesis is compared with it"
    (dear,) = score_candidates({**state(claims[0], baseline(3)), "budget_left": 0.5}, {})[1:]
    assert dear["reason"] == "needs 1 run-hour, 0.5 are left"
    (idle,) = score_candidates(state(claims[0], baseline(3, n_left=0)), {})[1:]
    assert idle["reason"] == "no replicate left"


def some_state(seed: int) -> dict[str, Any]:
    """Up to five hypotheses on two baselines, with up to three designs each."""
    rng = Random(seed)
    kinds: list[dict[str, Any]] = [{}, {"rho": 0.7}, {"proxy": True}]
    hypotheses = [{"id": f"h{n}", "confidence": rng.uniform(0.22, 0.78)} for n in range(rng.randint(1, 5))]
    rows = [
        claim(f"{row['id']}-{n}", str(row["id"]), s0=rng.uniform(0.3, 1.5), tau=rng.uniform(0, 0.5), n_left=3,
              cost=rng.uniform(0.3, 3.0), n_seen=rng.randint(0, 4), n_pending=rng.randint(0, 1),
              baseline_id=rng.choice("ab"), **rng.choice(kinds))
        for row in hypotheses
        for n in range(rng.randint(1, 3))
    ]  # fmt: skip
    rows += [baseline(rng.randint(0, 5), name, cost=rng.uniform(0.3, 3.0), n_left=3) for name in "ab"]
    return {"hypotheses": hypotheses, "candidates": rows, "seed": seed}


@pytest.mark.parametrize("name", ["hypothesis_driven", "decisive", "greedy"])
def test_a_batch_is_one_pick_after_the_other(name: str) -> None:
    for seed in range(25):
        batch, given = propose(some_state(seed), 5, {"strategy": name}), some_state(seed)
        rows = {row["id"]: row for row in given["candidates"]}
        picked: list[str] = []
        while len(picked) < 5 and (one := propose(given, 1, {"strategy": name})):
            picked += one
            rows[one[0]]["n_pending"] += 1
            rows[one[0]]["n_left"] -= 1
        assert batch == picked, seed


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_takes_baseline_runs(name: str) -> None:
    found: set[str] = set()
    for seed in range(40):
        given = state(*(claim(f"c{n}", f"H{n}", n_seen=6) for n in range(3)), baseline(2), seed=seed)
        picks = propose(given, 2, {"strategy": name})
        assert propose(given, 2, {"strategy": name}) == picks
        found |= {*picks}
        assert all(math.isfinite(row["score"]) for row in score_candidates(given, {"strategy": name}))
    assert "run of b" in found


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"cost": -1.0}, "cost must not be negative"),
        ({"cost": None}, "cost must be a finite number"),
        ({"n_seen": "many"}, "n_seen must be a finite number"),
    ],
)
def test_a_broken_baseline_is_named(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        propose(state(claim("a"), baseline(3, **broken)), 1, {})


# --- what pairs teach -------------------------------------------------------------------------------------------------


def drawn_pairs(rho: float, claims: int, size: int, seed: int = 1) -> list[list[tuple[float, float]]]:
    rng, found = Random(seed), []
    for number in range(claims):
        luck = [rng.gauss(0, math.sqrt(rho)) for _ in range(size)]
        own = math.sqrt(1 - rho)
        found.append([(number + one + rng.gauss(0, own), one + rng.gauss(0, own)) for one in luck])
    return found


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_the_correlation_of_seeds_is_learned_from_pairs(rho: float) -> None:
    assert seed_correlation(drawn_pairs(rho, 30, 40)) == pytest.approx(rho, abs=0.06)
    few = [seed_correlation(drawn_pairs(rho, 1, 4, seed)) or 0.0 for seed in range(300)]
    assert sum(few) / 300 <= rho + 0.12, "few pairs are drawn towards none"
    assert all(0 <= one <= 1 for one in few)


def test_fewer_than_three_pairs_teach_nothing() -> None:
    assert seed_correlation([]) is None
    assert seed_correlation([[(1.0, 1.0), (2.0, 2.0)]]) is None
    assert seed_correlation([[(1.0, 1.0)], [(2.0, 2.0)], [(3.0, 3.0)]]) is None, "one of each claim shows no spread"
    assert seed_correlation([[(1.0, 1.0)] * 3]) == 0.0
    assert stand_in([(1.0, 0.5, 0.1)] * 2) is None


def test_a_stand_in_is_learned_from_its_pairs() -> None:
    rng = Random(2)

    def pair() -> tuple[float, float, float]:
        full = rng.gauss(0.5, 1.0)
        return full + 0.4 + rng.gauss(0, 0.3) + rng.gauss(0, 0.5), full, 0.25

    found = stand_in([pair() for _ in range(3000)])
    assert found is not None
    assert found.bias == pytest.approx(0.4, abs=0.04)
    assert found.tau == pytest.approx(0.3, abs=0.06)
    three = stand_in([(0.6, 0.1, 0.01), (0.9, 0.5, 0.01), (0.2, -0.4, 0.01)])
    assert three is not None
    assert three.bias == pytest.approx(0.5)
    assert three.tau == pytest.approx(math.sqrt(0.01 / 3)), (
        "the spread is all noise, and the mean of three is uncertain"
    )
