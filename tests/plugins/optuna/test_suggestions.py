"""Optuna's samplers and pruners on real sweeps: candidates, and nothing else."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError, UsageError
from perpetual_optuna import suggestions
from perpetual_optuna.suggestions import candidates, dropped, require_optuna, suggest
from perpetual_scorers import sweeps
from perpetual_scorers.space import parameters_of

SCORE = """
import math, sys
x, opt = float(sys.argv[1]), sys.argv[2]
if x > 50:
    raise SystemExit(3)
print("m=%.6f" % (-abs(math.log10(x) - 1) - (opt == "adam") - 1 / float(sys.argv[3])))
"""
COMMAND = f"{sys.executable} score.py {{x}} {{opt}} 9"
PARAMETERS = ["x=log:0.01..100.0", "opt=sgd,adam"]


@pytest.fixture
def lab(project: Path) -> Any:
    (project / "score.py").write_text(SCORE, "utf-8")
    with Lab.open() as opened:
        yield opened


def made(lab: Lab, command: str = COMMAND, **more: Any) -> str:
    given: dict[str, Any] = {"metric": "m", "direction": "max", "settings": 12, "runs": 12, "method": "random", **more}
    return sweeps.new(lab, command, PARAMETERS, **given)["id"]


def loss(settings: Sequence[Mapping[str, Any]]) -> float:
    each = [abs(math.log10(float(values["x"])) - 1) + (values["opt"] == "adam") for values in settings]
    return math.fsum(each) / len(each)


@pytest.mark.parametrize("direction", ["max", "min"])
def test_a_sampler_draws_where_the_metric_is_good(lab: Lab, direction: str) -> None:
    """After 24 settings by lot the next 12 are better in the mean."""
    found = sweeps.show(lab, made(lab, settings=24, direction=direction))
    sign = -1 if direction == "max" else 1
    for item in found["settings"]:
        item["n"], item["mean"] = 1, sign * loss([item["parameters"]])
        item["values"] = [item["mean"]]
    parameters = parameters_of(PARAMETERS)
    by_lot = [item["parameters"] for item in found["settings"]]
    fresh = candidates(found, parameters, 12, seed="a")
    assert len(fresh) == 12
    assert loss(fresh) < 0.7 * loss(by_lot)
    assert fresh == candidates(found, parameters, 12, seed="a") != candidates(found, parameters, 12, seed="b")
    assert all(0.01 <= float(values["x"]) <= 100 for values in fresh)


def test_what_is_suggested_is_no_evidence(lab: Lab) -> None:
    id = made(lab, settings=4, runs=4)
    before = sweeps.run(lab, id, wait=True)
    after = suggest(lab, id, 3)
    assert len(after["settings"]) == 7
    for now, earlier in zip(after["settings"], before["settings"], strict=False):
        assert (now["parameters"], now["values"]) == (earlier["parameters"], earlier["values"])
    assert all(item["n"] == 0 for item in after["settings"][4:])
    assert (after["runs"], after["best"]) == (before["runs"], before["best"])


def test_the_same_sweep_has_the_same_suggestions(lab: Lab) -> None:
    id = made(lab)
    first = suggest(lab, id, 2)["settings"]
    twin = made(lab)
    assert [item["parameters"] for item in suggest(lab, twin, 2)["settings"][:12]] == [
        item["parameters"] for item in first[:12]
    ]
    again = suggest(lab, id, 2)["settings"]
    assert [item["parameters"] for item in again[: len(first)]] == [item["parameters"] for item in first]
    assert len({repr(item["parameters"]) for item in again}) == 16


def test_a_parameter_with_a_condition_is_drawn_where_it_holds(lab: Lab) -> None:
    id = sweeps.new(
        lab, "echo {x} {opt} {momentum}", ["x=2..9", "opt=sgd,adam"], conditions=["opt=sgd: momentum=0.8..0.99"],
        metric="m", direction="max", method="random", settings=4,
    )["id"]  # fmt: skip
    for item in suggest(lab, id, 12)["settings"]:
        assert ("momentum" in item["parameters"]) == (item["parameters"]["opt"] == "sgd")
        assert isinstance(item["parameters"]["x"], int)


def test_a_small_space_is_used_up(lab: Lab) -> None:
    id = sweeps.new(lab, "echo {a}", ["a=1,2,3"], metric="m", direction="min")["id"]
    assert len(suggest(lab, id, 5)["settings"]) == 3


def test_a_pruner_names_the_poor_half_of_a_rung(lab: Lab) -> None:
    id = made(lab, f"{sys.executable} score.py {{x}} {{opt}} {{rung}}", rungs=[1, 3, 9], runs=9)
    found = sweeps.run(lab, id, wait=True)
    poor = dropped(lab, id)
    values = {item["id"]: item["curve"][0] for item in found["settings"] if item["curve"]}
    full = {item["id"] for item in found["settings"] if item["n"]}
    assert poor
    assert not full & {*poor}
    kept = [value for name, value in values.items() if name not in poor and value is not None]
    lost = [value for name, value in values.items() if name in poor and value is not None]
    assert sum(lost) / len(lost) < sum(kept) / len(kept)
    assert {*poor} <= {*dropped(lab, id, pruner="third")}
    assert sweeps.show(lab, id) == found
    with pytest.raises(UsageError, match="no rungs"):
        dropped(lab, made(lab))
    with pytest.raises(UsageError, match="unknown pruner 'best'"):
        dropped(lab, id, pruner="best")


def test_what_is_wrong_or_missing_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    id = made(lab)
    with pytest.raises(UsageError, match="1 to 100 settings, not 0"):
        suggest(lab, id, 0)
    with pytest.raises(UsageError, match="unknown sampler 'cma'"):
        suggest(lab, id, 1, sampler="cma")
    monkeypatch.setattr(suggestions, "find_spec", lambda name: None if name == "torch" else object())
    require_optuna("tpe")
    with pytest.raises(PerpetualError, match="gp needs torch") as caught:
        suggest(lab, id, 1, sampler="gp")
    assert (caught.value.code, caught.value.hint) == ("optuna_missing", "pip install torch")
    monkeypatch.setattr(suggestions, "find_spec", lambda _: None)
    with pytest.raises(PerpetualError, match="tpe needs optuna") as caught:
        suggest(lab, id, 1)
    assert "perpetual-lab[optuna]" in str(caught.value.hint)
    assert len(sweeps.show(lab, id)["settings"]) == 12
