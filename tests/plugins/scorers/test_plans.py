"""What a number of runs can decide at one look: statistics, noise, plans, and what is known to be hopeless."""

from __future__ import annotations

import math
from random import Random

import pytest

from perpetual.science import judge
from perpetual.science.evalues import arm, log_e, two_arms
from perpetual_scorers.proposing.planning import (
    Noise,
    Plan,
    Rates,
    bars,
    chance,
    critical,
    is_hopeless,
    noise_of,
    one_look,
    plan_of,
    runs_for,
    statistic_of,
    two_variances,
)


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
    assert not is_hopeless(ordinary._replace(sd=2.0), 3)
    assert is_hopeless(ordinary._replace(sd=3.5), 3), "three replicates find it hardly more often than luck does"
    assert not is_hopeless(ordinary._replace(sd=3.5, n_baseline=32), 40)
    assert is_hopeless(ordinary._replace(sd=6.0), 400), "the baseline alone is less certain than that"
    assert is_hopeless(Rates(0.92, 0.9, None, mde=0.02), 5)
    assert not is_hopeless(Rates(0.8, 0.4, None, mde=0.4), 3)
    assert not is_hopeless(Rates(0.92, 0.9, None, mde=0.02), 10_000)


def test_one_look_at_a_rate_is_binomial() -> None:
    plan = Rates(0.9, 0.3, None, mde=0.6)
    said = {"metric": "ok", "kind": "binary", "claim": "improves", "mde": 0.6}
    status = [judge(said, 0.3, [{"value": float(at < k)} for at in range(4)], {})["status"] for k in range(5)]
    assert status == ["refuted", "refuted", "refuted", "open", "supported"]
    assert one_look(plan, 4) == pytest.approx(0.9**4)
    assert one_look(plan._replace(rate=0.3), 4, -1.0) == pytest.approx(1 - 4 * 0.3**3 * 0.7 - 0.3**4)
    assert one_look(plan._replace(rate=1.0), 8) == pytest.approx(1.0)
