"""The chance to decide against the rule itself: simulated claims, judged after each run."""

from __future__ import annotations

import math
from random import Random

import pytest

from perpetual.science import judge
from perpetual_scorers.looks import chances
from perpetual_scorers.proposing.planning import MOST_RUNS, Plan, Rates, most_log_e, one_look

NEAR = 0.1  # three standard errors of 250 simulated claims


def judged(plan: Plan, runs: int, *, claims: int = 250, claim: str = "improves") -> dict[int, tuple[float, float]]:
    """Shares of simulated claims that `judge` supports, and that it surely supports, within each number of runs."""
    rng = Random(1)
    first: dict[int, list[int]] = {n: [0, 0] for n in range(2, runs + 1)}
    rho, sd = plan.rho or 0.0, plan.sd
    said = {"metric": "m", "claim": claim, "mde": plan.mde, "tau": plan.tau, "paired": plan.rho is not None}
    for _ in range(claims):
        size = plan.n_baseline or 0
        shared = [rng.gauss(0.0, sd * math.sqrt(rho)) for _ in range(max(size, runs))]
        apart, shift = sd * math.sqrt(1 - rho), plan.effect + rng.gauss(0.0, plan.tau)
        baseline: object = [{"seed": at, "value": shared[at] + rng.gauss(0.0, apart)} for at in range(size)]
        if not size:
            n = plan.typed_n
            baseline = {"value": rng.gauss(0.0, sd / math.sqrt(n)) if n else 0.0, "n": n}
        first_seed = size if plan.rho is None else 0  # of a plan without a correlation no seed is shared
        own = [{"seed": first_seed + at, "value": shift + shared[at] + rng.gauss(0.0, apart)} for at in range(runs)]
        seen = [False, False]
        for n in range(2, runs + 1):
            found = judge(said, baseline, own[:n], {"support": plan.support, "refute": plan.refute})
            if found["status"] == "refuted":
                break
            for at, is_there in enumerate((True, found["e_support"] >= 20)):
                if found["status"] == "supported" and is_there and not seen[at]:
                    seen[at] = True
                    first[n][at] += 1
    return {n: tuple(sum(first[m][at] for m in range(2, n + 1)) / claims for at in (0, 1)) for n in first}  # type: ignore[misc]


CASES = {
    "beside 4 runs": (Plan(1.0, 0.4, 4, mde=1.0, tau=0.25), "improves"),
    "shared seeds": (Plan(1.0, 0.9, 8, mde=1.0, tau=0.25, rho=0.8), "improves"),
    "a typed number": (Plan(1.0, 0.5, None, mde=1.0, typed_n=5, tau=0.25), "improves"),
    "at least": (Plan(2.0, 0.4, 6, null=1.0, mde=1.0, tau=0.25), "at_least"),
    "0.95": (Plan(1.0, 0.4, 8, mde=1.0, tau=0.0, support=0.95, refute=0.05), "improves"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if at < 2 else pytest.mark.slow) for at, name in enumerate(CASES)]
)
def test_the_chances_are_those_of_the_rule(case: str) -> None:
    plan, claim = CASES[case]
    truth = judged(plan, 6, claim=claim)
    for found in chances(plan, 6):
        if found.n in (3, 4, 6):
            assert found.support == pytest.approx(truth[found.n][0], abs=NEAR), found.n
            assert found.sure_support == pytest.approx(truth[found.n][1], abs=NEAR), found.n
    if plan.rho is None and plan.support == 0.8:  # one look is near by, from five runs on
        assert one_look(plan, 6) == pytest.approx(truth[6][0], abs=1.5 * NEAR)


def test_both_verdicts_are_as_likely_where_each_is_right() -> None:
    plan = Plan(1.0, 0.5, 6, mde=1.0, tau=0.25)
    true, none = (chances(plan._replace(effect=effect), 12)[-1] for effect in (1.0, 0.0))
    assert none.refute == pytest.approx(true.support, abs=0.05)
    assert max(true.refute, none.support) < 0.1


def test_a_small_baseline_is_a_ceiling() -> None:
    plan = Plan(1.0, 0.6, 4, mde=1.0, tau=0.25)
    few, more = (chances(plan._replace(n_baseline=size), MOST_RUNS, paths=100)[-1].support for size in (4, 16))
    assert few < 0.7 < 0.8 < more
    assert most_log_e(plan) < most_log_e(plan._replace(n_baseline=16))
    assert chances(plan, 40, paths=50) == chances(plan, 40, paths=50), "the draws are seeded"
    support = [found.support for found in chances(plan, 60, paths=200)]
    assert support == sorted(support)


def rates_judged(plan: Rates, runs: int, claims: int = 100) -> float:
    """The share of claims of a rate that `judge` supports."""
    rng, count = Random(3), 0
    for _ in range(claims):
        own = [{"seed": at, "value": float(rng.random() < plan.rate)} for at in range(runs)]
        hits = sum(rng.random() < plan.baseline for _ in range(plan.trials or 0))
        baseline = plan.baseline if plan.trials is None else {"value": hits / plan.trials, "n": plan.trials}
        said = {"metric": "ok", "kind": "binary", "claim": "improves", "mde": plan.mde}
        for n in range(2, runs + 1):
            status = judge(said, baseline, own[:n], {})["status"]
            if status != "open":
                count += status == "supported"
                break
    return count / claims


@pytest.mark.parametrize("trials", [None, pytest.param(6, marks=pytest.mark.slow)])
def test_the_chances_of_rates_are_those_of_the_rule(trials: int | None) -> None:
    plan = Rates(0.8, 0.4, trials, mde=0.4)
    assert chances(plan, 10)[-1].support == pytest.approx(rates_judged(plan, 10), abs=1.5 * NEAR)
