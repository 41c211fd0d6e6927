"""`perpetual overturn`: which runs would change a verdict, held against what such runs do to the record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perpetual import Lab
from perpetual.api import Experiment, Hypothesis, NotFound
from perpetual.cli.app import run
from perpetual_scorers.overturn import COUNTS, overturn
from perpetual_scorers.plan_documents import OverturnOption

Json = dict[str, Any]
Measure = Callable[..., Experiment]


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


@pytest.fixture
def measure(lab: Lab) -> Measure:
    """Proposes and runs one experiment whose runs measure these values, one after another."""

    def make(values: list[float], hypothesis: Hypothesis | None = None, **given: Any) -> Experiment:
        command = f"sh -c 'echo acc=$(cat {given.pop('file', 'value')})'"
        extends = given.pop("extends", None)
        if extends is not None:
            made = lab.experiments.propose(extends=extends, replicates=len(values))
        else:
            id = hypothesis.id if hypothesis else None
            given = {"metric": "acc", "direction": "max", "cost_run_hours": 0.5, "wall_s": 60.0, **given}
            made = lab.experiments.propose(id, command=command, replicates=len(values), **given)
        lab.experiments.approve(made.id)
        for value in values:
            (lab.root / command.split("cat ")[1].rstrip(")'")).write_text(str(value))
            lab.wait([lab.runs.launch(made.id)[0].id], timeout_s=60)
        return made

    return make


def option(found: Json, arm: str, runs: int, becomes: str) -> OverturnOption:
    (one,) = [each for each in found["options"] if (each["arm"], each["runs"], each["becomes"]) == (arm, runs, becomes)]
    return one  # type: ignore[no-any-return]


def test_a_verdict_is_overturned_by_the_runs_that_it_names(lab: Lab, measure: Measure) -> None:
    baseline = measure([1.0, 1.04, 0.97])
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    nothing = overturn(lab, hypothesis.id)
    assert (nothing["options"], nothing["cheapest"]) == ([], None)
    assert "nothing was measured yet" in nothing["sentence"]

    measure([1.21, 1.23, 1.18], hypothesis, paired=False)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"
    found: Json = {**overturn(lab, hypothesis.id)}
    assert found["is_exact"] is True
    assert {each["runs"] for each in found["options"]} <= {*COUNTS}
    one = option(found, "baseline", 1, "open")
    assert one["side"] == "at_least"
    assert one["outcome"] is not None
    assert one["command"] == f"perpetual propose --extends {baseline.id} --replicates 1"
    for each in found["options"]:
        assert 0 <= each["chance"] <= 1
        assert each["run_hours"] > 0
    assert found["cheapest"]["runs"] * 1.0 <= COUNTS[-1]
    assert f"{hypothesis.id} is supported; " in found["sentence"]

    measure([one["outcome"] + 0.01], extends=baseline.id)
    assert lab.hypotheses.get(hypothesis.id).status == "open", "as it said"


def test_an_open_one_is_decided_by_the_runs_that_it_names(lab: Lab, measure: Measure) -> None:
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
    claim = measure([1.1, 1.03, 1.02], hypothesis, baseline_runs=8)
    assert lab.hypotheses.get(hypothesis.id).status == "open"
    found: Json = {**overturn(lab, hypothesis.id)}
    assert {each["arm"] for each in found["options"]} == {"claim"}, "a number has no further runs"
    cheapest = found["cheapest"]
    assert cheapest["chance"] >= 0.05
    assert cheapest["command"] == f"perpetual propose --extends {claim.id} --replicates {cheapest['runs']}"
    assert "would" in found["sentence"]
    shape = json.loads((files("perpetual_cli") / "schemas" / "overturn.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(shape).validate({"schema": "perpetual.overturn/1", **found})


def test_a_persons_word_is_overturned_by_no_run(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
    lab.hypotheses.update(hypothesis.id, status="supported")
    found = overturn(lab, hypothesis.id)
    assert found["options"] == []
    assert "by a person's word, which no run changes" in found["sentence"]
    with pytest.raises(NotFound):
        overturn(lab, "h9")
    assert run(["overturn", hypothesis.id]) == 0
    assert "which no run changes" in capsys.readouterr().out


def test_a_rate_is_overturned_by_so_many_failures(lab: Lab, measure: Measure) -> None:
    hypothesis = lab.hypotheses.add("it runs", metric="acc", direction="max", mde=0.6, baseline=0.3)
    measure([1, 1, 1, 1], hypothesis, kind="binary")
    assert lab.hypotheses.get(hypothesis.id).status == "supported"
    found: Json = {**overturn(lab, hypothesis.id)}
    one = option(found, "claim", 3, "open")
    assert one["side"] == "at_most"
    assert one["outcome"] in (0.0, 1.0, 2.0)
    assert found["is_exact"] is True
