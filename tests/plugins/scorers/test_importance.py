"""The importance of a sweep's parameters: what is said of functions whose shares are known, and where nothing is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from perpetual_scorers.documents import ParameterImportance, SweepImportance
from perpetual_scorers.importance_bench import cell
from perpetual_scorers.space import Value, parameters_of, settings_of
from perpetual_scorers.sweep_importance import CAUTION, LEAST_SETTINGS, importance_of, true_shares

Response = Callable[[Mapping[str, Any]], float | None]
LR, DECAY = "lr=log:1e-4..1e-1", "decay=0.0..0.2"


def found(
    specs: Sequence[str],
    response: Response,
    *,
    conditions: Sequence[str] = (),
    settings: int | None = 16,
    runs: int = 2,
    noise: float = 0.02,
    method: str = "quasi",
) -> SweepImportance:
    """What is said of settings that were measured."""
    parameters, rng = parameters_of(specs, conditions), Random(1)
    seen: list[tuple[dict[str, Value], list[float | None]]] = []
    for one in settings_of(parameters, method, settings, "tests"):
        true = response(one.values)
        values = [None if true is None else true + rng.gauss(0, noise) for _ in range(runs)]
        seen.append((one.values, values))
    return importance_of(parameters, seen, "min", "tests")


def shares(told: SweepImportance) -> dict[str, ParameterImportance]:
    assert told["reason"] is None
    return {one["name"]: one for one in told["parameters"]}


def test_a_parameter_that_does_all_has_it_all_and_the_others_nothing() -> None:
    told = found([LR, DECAY, "opt=a,b,c"], lambda v: 0.3 * math.log10(v["lr"]))
    lr, decay, opt = (shares(told)[name] for name in ("lr", "decay", "opt"))
    assert lr["share"] is not None
    assert lr["share"] > 0.6
    for one in (decay, opt):
        assert one["share"] is not None
        assert one["share"] < 0.15
        assert one["low"] == 0.0
    assert told["spread"] == pytest.approx(0.26, rel=0.35)  # 0.3 * 3 / sqrt(12)
    assert told["noise"] == pytest.approx(0.02, rel=2.0)
    assert told["caution"] is None


def test_two_parameters_share_what_they_do_by_variance() -> None:
    # variances of 2u and u are 4 to 1
    told = shares(found(["a=0.0..1.0", "b=0.0..1.0"], lambda v: 2 * v["a"] + v["b"], settings=32))
    for name, true in (("a", 0.8), ("b", 0.2)):
        one = told[name]
        assert one["share"] == pytest.approx(true, abs=0.1)
        assert one["low"] is not None
        assert one["high"] is not None
        assert one["low"] <= true <= one["high"]


def test_what_parameters_do_only_together_is_the_share_of_neither() -> None:
    told = shares(found(["a=-1.0..1.0", "b=-1.0..1.0"], lambda v: v["a"] * v["b"], settings=32))
    assert all((one["share"] or 0.0) < 0.1 for one in told.values())


def test_words_without_an_order_and_a_bowl_have_their_share() -> None:
    levels = {"a": 0.0, "b": 1.0, "c": 0.0}
    told = shares(found(["c=a,b,c", "d=1,2,3"], lambda v: levels[v["c"]], settings=None, method="grid"))
    assert (told["c"]["share"] or 0.0) > 0.85
    assert told["c"]["values"] == 3
    bowl = shares(found([LR], lambda v: 0.1 * (math.log10(v["lr"]) + 2.5) ** 2))
    assert (bowl["lr"]["share"] or 0.0) > 0.9


def test_a_parameter_with_a_condition_is_weighed_where_it_is_there() -> None:
    told = shares(
        found(
            ["opt=sgd,adam"],
            lambda v: 10.0 if v["opt"] == "adam" else 10 * v["momentum"],
            conditions=["opt=sgd: momentum=0.0..1.0"],
            settings=24,
        )
    )
    assert told["momentum"]["when"] == {"opt": ["sgd"]}
    assert (told["momentum"]["share"] or 0.0) > 0.8  # among all settings opt would take most of it
    assert 0.3 < (told["opt"]["share"] or 0.0) < 0.8  # truly 6.25 / (6.25 + 100 / 24) = 0.6


def test_runs_that_give_nothing_or_diverge_are_poor_and_flatten_nothing() -> None:
    def response(v: Mapping[str, Any]) -> float | None:
        return None if v["lr"] > 0.05 else 1e9 if v["lr"] > 0.02 else v["decay"]

    told = found([LR, DECAY], response, settings=24, runs=1)
    assert told["spread"] is not None
    assert told["spread"] < 1.0
    assert all(0 <= (one["low"] or 0.0) <= (one["high"] or 0.0) <= 1 for one in told["parameters"])


def test_noise_alone_is_said_to_say_little() -> None:
    assert found([LR, DECAY], lambda _: 0.0, noise=0.1)["caution"] == CAUTION


def test_nothing_is_said_of_too_little() -> None:
    few = found([LR, DECAY], lambda v: v["decay"], settings=LEAST_SETTINGS - 1)
    assert few["reason"] == "too few settings have run to say: 7, and 8 are needed"
    assert (few["parameters"], few["spread"]) == ([], None)
    wide = [f"p{i}=0.0..1.0" for i in range(6)]
    assert "11, and 12 are needed" in str(found(wide, lambda v: v["p0"], settings=11)["reason"])
    assert found([LR, DECAY], lambda _: 1.0, noise=0.0)["reason"] == "every run measured the same"
    assert "too few" in str(found([LR, DECAY], lambda _: None)["reason"])


def test_of_a_parameter_that_was_not_varied_nothing_is_said() -> None:
    parameters = parameters_of([LR, "opt=a,b"])
    rows = [({**one.values, "opt": "a"}, [float(i)]) for i, one in enumerate(settings_of(parameters, "quasi", 12, "k"))]
    told = {one["name"]: one for one in importance_of(parameters, rows, "max", "k")["parameters"]}
    assert (told["opt"]["share"], told["opt"]["reason"]) == (None, "no two of its values have run")
    assert told["lr"]["share"] is not None


def test_the_same_runs_say_the_same() -> None:
    assert found([LR, DECAY], lambda v: v["decay"]) == found([LR, DECAY], lambda v: v["decay"])


def test_the_true_shares_of_a_known_function_are_its_variances() -> None:
    parameters = parameters_of(["a=0.0..1.0", "b=0.0..1.0"])
    told = true_shares(parameters, lambda v: 2 * float(v["a"]) + float(v["b"]), "k")
    assert told == {"a": pytest.approx(0.8, abs=0.01), "b": pytest.approx(0.2, abs=0.01)}
    assert true_shares(parameters, lambda _: 1.0, "k") == {"a": 0.0, "b": 0.0}


@pytest.mark.slow
def test_the_range_holds_the_truth_in_most_worlds() -> None:
    """Three worlds; the bench has 25 of each sort."""
    held, error, length = cell("mixed", 2, 16, 3)
    assert held >= 0.8
    assert error < 0.15
    assert 0.05 < length < 0.8


@pytest.mark.slow
def test_of_very_many_settings_a_part_is_looked_at() -> None:
    many = found(["a=0.0..1.0"], lambda v: v["a"], settings=160, runs=1)
    assert many["settings"] == 120
    assert (shares(many)["a"]["share"] or 0.0) > 0.9
