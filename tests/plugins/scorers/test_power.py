"""`perpetual power`: numbers of runs and their chances, from a lab's record and from bare numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

from perpetual import Lab
from perpetual.api import NotFound, UsageError
from perpetual.cli.app import run
from perpetual.science import judge
from perpetual_scorers.power import power

Json = dict[str, Any]
Call = Callable[..., Json]

NOISY = "sh -c 'echo acc=1.0$PERPETUAL_SEED'"  # an sd of about 0.03


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs one command with --json and answers its one document."""

    def run_json(*arguments: str, code: int = 0) -> Json:
        capsys.readouterr()
        assert run(["--json", *arguments]) == code, capsys.readouterr()
        document: Json = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        return document

    return run_json


def decided(sd: float, n: int, size: int, claims: int = 120) -> float:
    """The share of claims with an effect of 1 and a tau of 0 that `judge` supports within n runs."""
    rng, count = Random(2), 0
    said = {"metric": "m", "claim": "improves", "mde": 1.0, "tau": 0.0, "paired": False}
    for _ in range(claims):
        baseline = [{"value": rng.gauss(0.0, sd)} for _ in range(size)]
        own = [{"value": rng.gauss(1.0, sd)} for _ in range(n)]
        looks = (judge(said, baseline, own[:look], {})["status"] for look in range(2, n + 1))
        count += next((status for status in looks if status != "open"), None) == "supported"
    return count / claims


def test_the_numbers_that_it_names_decide() -> None:
    found = power(None, mde=1.0, noise=0.6, tau=0.0, baseline_runs=4)
    n, size = found["replicates"], found["baseline_runs"]
    assert n is not None
    assert size is not None
    assert size > 4, "four baseline runs do not carry it"
    assert 0.8 <= found["chance_to_decide"] < 0.87
    assert decided(0.6, n, size) == pytest.approx(found["chance_to_decide"], abs=0.12)
    assert found["chance_to_refute"] == found["chance_to_decide"], "the same distance"
    ceiling = found["ceiling"]
    assert ceiling["baseline_runs"] == 4
    assert ceiling["chance"] < 0.8
    assert ceiling["baseline_runs_needed"] is not None
    assert f"runs without end beside 4 baseline runs have {ceiling['chance']:.0%}" in found["sentence"]
    by = {(row["replicates"], row["baseline_runs"]): row["chance_to_decide"] for row in found["chances"]}
    assert by[3, 4] < by[8, 4] < by[8, size]


@pytest.mark.slow
def test_a_higher_confidence_and_shared_seeds_change_what_it_takes() -> None:
    plain = power(None, mde=1.0, noise=0.3, baseline_runs=12, tau=0.0)
    sure = power(None, mde=1.0, noise=0.3, baseline_runs=12, tau=0.0, confidence=0.95)
    assert (plain["replicates"] or 0) < (sure["replicates"] or 0)
    assert sure["plan"]["confidence"] == 0.95
    pairs = power(None, mde=1.0, noise=0.9, baseline_runs=12, tau=0.0, rho=0.9)
    alone = power(None, mde=1.0, noise=0.9, baseline_runs=12, tau=0.0)
    assert pairs["ceiling"]["chance"] > alone["ceiling"]["chance"]


@pytest.mark.slow
def test_where_nothing_decides_it_says_so() -> None:
    found = power(None, mde=1.0, noise=30.0, baseline_runs=4, replicates=3)
    assert (found["replicates"], found["baseline_runs"], found["run_hours"]) == (None, None, None)
    assert found["chance_to_decide"] < 0.8
    assert found["now"] is not None
    assert found["now"]["chance_to_decide"] < 0.1
    assert "no 128 carry it" in found["sentence"]


@pytest.mark.slow
def test_a_lab_is_asked_what_it_has_measured(project: Path, call: Call) -> None:
    with Lab.open(project) as lab:
        hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.05, baseline=1.0)
        with pytest.raises(UsageError, match="the noise of acc is not known"):
            power(lab, hypothesis.id)
        declared = lab.experiments.propose(hypothesis.id, command="true", noise=0.04, replicates=3, cost_run_hours=0.5)
        told = power(lab, declared.id)
        assert (told["plan"]["noise_source"], told["plan"]["noise"]) == ("declared", 0.04)
        assert (told["baseline_runs"], told["ceiling"]["baseline_runs"]) == (None, None), "a number has no runs"
        assert told["run_hours"] == pytest.approx(0.5 * (told["replicates"] or math.nan))
        assert told["now"] is not None
        assert told["now"]["replicates"] == 3

        baseline = lab.experiments.propose(command=NOISY, metric="acc", direction="max", replicates=4, wall_s=60.0)
        lab.experiments.approve(baseline.id)
        lab.wait([each.id for each in lab.runs.launch(baseline.id, every=True)], timeout_s=60)
        other = lab.hypotheses.add("acc rises more", metric="acc", direction="max", mde=0.05, baseline=baseline.id)
        values = [each.metrics["acc"] or 0.0 for each in lab.runs.list(experiment_id=baseline.id).items]
        mean = math.fsum(values) / 4
        claim = lab.experiments.propose(other.id, command="true", paired=False)
        found = power(lab, claim.id)
        assert found["plan"]["noise"] == pytest.approx(math.sqrt(math.fsum((x - mean) ** 2 for x in values) / 3))
        assert (found["plan"]["noise_source"], found["plan"]["noise_runs"]) == ("measured", 4)
        assert "as measured on 4 runs" in found["sentence"]
        assert found["ceiling"]["baseline_runs"] == 4
        with pytest.raises(UsageError, match="makes no claim"):
            power(lab, baseline.id)
        with pytest.raises(NotFound):
            power(lab, "h9")
        some = lab.hypotheses.add("acc changes", metric="acc", direction="max", baseline=baseline.id)
        with pytest.raises(UsageError, match="an effect of no size"):
            power(lab, some.id)

    document = call("power", "--metric", "acc", "--mde", "0.05", "--replicates", "3", "--tau", "0")
    shape = json.loads((files("perpetual_cli") / "schemas" / "power.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(shape).validate(document)
    assert (document["schema"], document["now"]["replicates"]) == ("perpetual.power/1", 3)
    assert (document["plan"]["noise"], document["plan"]["tau"]) == (found["plan"]["noise"], 0.0)


def test_rates_are_counted(project: Path) -> None:
    with Lab.open(project) as lab:
        hypothesis = lab.hypotheses.add("it runs", metric="ok", direction="max", mde=0.4, baseline=0.4)
        made = lab.experiments.propose(hypothesis.id, command="true", kind="binary", replicates=5)
        found = power(lab, made.id)
        assert (found["plan"]["noise"], found["plan"]["noise_source"]) == (None, "rate")
        assert found["replicates"] is not None
        assert found["replicates"] > 5
        assert found["now"] is not None
        assert found["now"]["chance_to_decide"] < 0.8 <= found["chance_to_decide"]
        assert (power(lab, made.id, mde=0.55)["replicates"] or 99) < found["replicates"], "a larger effect is easier"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mde": None}, "the size of the effect is not given"),
        ({"noise": None}, "the noise of a run is not known"),
        ({"mde": -1.0}, "the mde"),
        ({"mde": math.nan}, "the mde"),
        ({"rho": 1.5}, "rho"),
        ({"baseline_runs": 0}, "--baseline-runs takes 1 to 400, not 0"),
        ({"replicates": 10**9}, "--replicates takes 1 to 400"),
        ({"confidence": 1.0}, "a confidence lies between 0.5 and 1, not 1"),
        ({"likely": 0.0}, "a chance lies between 0 and 1, not 0"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Json, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        power(None, **{"mde": 1.0, "noise": 0.5, **wrong})
    assert words in str(refused.value)


def test_it_needs_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["power", "--mde", "1", "--noise", "0.3", "--baseline-runs", "8"]) == 0
    assert "reach confidence 0.8 with a chance of" in capsys.readouterr().out
    assert run(["power", "h1"]) == 5
