"""The chance to decide against the rule itself: simulated claims, judged after each run."""

from __future__ import annotations

import math
from random import Random

import pytest

from perpetual.science import judge
from perpetual.science.evalues import arm, log_e, two_arms
from perpetual.science.looks import chances, is_hopeless
from perpetual.science.planning import (
    MOST_RUNS,
    Noise,
    Plan,
    Rates,
    bars,
    chance,
    critical,
    most_log_e,
    noise_of,
    one_look,
    plan_of,
    runs_for,
    statistic_of,
    two_variances,
)

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


def test_statistics_of_moments_are_those_of_values() -> None:
    rng = Random(5)
    for n, size in ((2, 4), (6, 3), (5, 5), (9, 1), (4, None)):
        own = [rng.gauss(1.0, 2.0) for _ in range(n)]
        base = arm([rng.gauss(0.0, 1.0) for _ in range(size)]) if size else None
        wanted = two_arms([own], base, tau=0.5, typed_n=None if size else 3.0)
        mine = arm(own)
        base_var = base.ss / (base.n - 1) if base and base.n > 1 else 0.0
        found = two_variances(mine.mean - (base.mean if base else 0.0), n, mine.ss / (n - 1), size, base_var,
                              typed_n=None if size else 3.0, fixed=0.25)  # fmt: skip
        assert wanted is not None
        assert [*found] == pytest.approx([*wanted])


def test_a_critical_statistic_gives_the_e_value() -> None:
    found = statistic_of(1.0, 1.0, 6, 4, tau=0.2)
    assert found is not None
    t = math.exp(critical(found, math.log(20)))
    assert log_e(found._replace(effect=t * math.sqrt(found.v))) == pytest.approx(math.log(20), abs=0.05)
    assert math.isinf(critical(statistic_of(1.0, 1.0, 2, None) or found, math.log(1e6)))
    assert chance(None, 20) == chance(found, 1.0) == 0.0


def test_runs_that_are_needed_rise_with_the_noise() -> None:
    needed = [runs_for(1.0, sd, 16, 20.0) or 0 for sd in (0.3, 0.5, 0.6)]
    assert 0 < needed[0] < needed[1] < needed[2]
    assert runs_for(1.0, 3.0, 4, 20.0) is None
    assert runs_for(-1.0, 0.1, 4, 20.0) is None


def test_noise_is_pooled_within_arms() -> None:
    noise = noise_of([[1.0, 1.2, 0.8, 1.0], [5.0, 5.3, 4.7], [7.0, 7.0], [9.0]])
    assert noise is not None
    assert noise.df == 5
    assert noise.sd == pytest.approx(math.sqrt((0.08 + 0.18) / 5))
    assert noise_of([[1.0, 2.0]]) is None, "one degree of freedom says little"
    assert Noise(1.0, 3.0).low == pytest.approx(0.62, abs=0.01)  # chi squared of 3: 7.81 at 95 %
    diverged = noise_of([[1.0, 1.1, 0.9, 1.05, -50.0, 0.95]])
    assert diverged is not None
    assert diverged.sd < 0.2


DESIGN = {"kind": "gaussian", "mde": 0.1, "direction": "min", "tau": 0.025, "noise": 0.05, "paired": True}
RULE = {"support": 0.8, "refute": 0.2, "prior": 0.5, "least": 2}


def test_a_plan_is_read_from_a_design() -> None:
    plan = plan_of(DESIGN, RULE, 0.04, [1.0, 1.1], 4)
    assert plan == Plan(0.1, 0.04, 4, 0.0, 0.1, None, 0.0, 0.025, 2.0, **RULE)  # type: ignore[arg-type]
    number = plan_of({**DESIGN, "baseline_runs": 3, "null_effect": 0.1}, RULE, 0.04, 2.3, None)
    assert isinstance(number, Plan)
    assert (number.typed_n, number.rho, number.null, number.effect) == (3, None, 0.1, 0.2)
    rates = plan_of({**DESIGN, "kind": "binary", "items": None}, RULE, 0.0, 0.7, None)
    assert isinstance(rates, Rates)
    assert [rates.rate, rates.baseline] == pytest.approx([0.4, 0.3])
    assert rates.trials is None


def test_a_prior_moves_the_bar_of_its_own_verdict_only() -> None:
    even, held = Plan(1.0, 1.0, 4), Plan(1.0, 1.0, 4, prior=0.25)
    assert bars(even, 1.0)[0] == pytest.approx(math.log(4))
    assert bars(held, 1.0)[0] == pytest.approx(math.log(12))
    assert bars(held, -1.0)[0] == pytest.approx(math.log(4)), "what was measured must pass by itself"


def test_only_what_is_known_to_be_hopeless_is() -> None:
    ordinary = Plan(1.0, 1.0, 4, mde=1.0, tau=0.25)
    assert not is_hopeless(ordinary, 3)
    assert not is_hopeless(ordinary._replace(sd=1.5), 5)
    assert is_hopeless(ordinary._replace(sd=3.0), 3), "three replicates find it no more often than luck does"
    assert not is_hopeless(ordinary._replace(sd=3.0, n_baseline=32), 40)
    assert is_hopeless(ordinary._replace(sd=6.0), 400), "the baseline alone is less certain than that"
    assert is_hopeless(Rates(0.92, 0.9, None, mde=0.02), 5)
    assert not is_hopeless(Rates(0.8, 0.4, None, mde=0.4), 3)
