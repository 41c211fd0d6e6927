"""`perpetual aa` on a project: what it runs, whom it asks, how it goes on, and that nothing of it is evidence."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perpetual import Lab
from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.cli.app import run
from perpetual_scorers.aa_test import aa_plan_of, aa_test

Json = dict[str, Any]
Call = Callable[..., Json]

# A metric between 0.80000 and 0.89972, fixed by the seed.
SCRIPT = "echo m=0.8$(printf %04d $((PERPETUAL_SEED % 9973)))"


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs one command with --json and answers its one document."""

    def run_json(*arguments: str, code: int = 0) -> Json:
        capsys.readouterr()
        assert run(["--json", *arguments]) == code, capsys.readouterr()
        document: Json = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        return document

    return run_json


def baseline(call: Call, script: str = SCRIPT, *options: str, replicates: int = 2) -> None:
    """Proposes, approves and runs a baseline e1."""
    call("propose", "--command", f"sh -c {shlex.quote(script)}", "--metric", "m", "--direction", "max",
         "--replicates", str(replicates), *options)  # fmt: skip
    call("approve", "e1")
    call("run", "e1", "--all", "--wait")


def as_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")


def test_two_arms_are_run_interleaved_on_fresh_seeds_and_are_no_evidence(call: Call) -> None:
    baseline(call)
    call("hypotheses", "add", "it helps", "--metric", "m", "--direction", "max", "--mde", "0.05")
    call("propose", "-h", "h1", "--command", "true", "--baseline", "e1")
    plan = call("aa", "e1", "--dry-run", "--runs", "4")
    assert (plan["schema"], plan["missing"], plan["needs_approval"], plan["arms"]) == (
        "perpetual.aa_plan/1",
        4,
        True,
        [],
    )
    assert call("experiments")["items"][-1]["id"] == "e2", "a dry run proposes nothing"

    found = call("aa", "e1", "--runs", "4", "--items", "100")
    shape = json.loads((files("perpetual_cli") / "schemas" / "aa.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(shape).validate(found)
    assert (found["schema"], found["arms"], found["test"]) == ("perpetual.aa/1", ["e3", "e4"], 1)
    assert (found["n"], found["own"], found["seeds"], found["pairs"], found["shared_pairs"]) == (6, 2, 5, 2, 1)
    assert {rule["rule"] for rule in found["rules"]} == {
        "keep_if_better", "keep_if_better_3", "two_sigma", "permutation_peeking", "perpetual_supported",
        "perpetual_helps",
    }  # fmt: skip
    assert found["rules"][0]["said_improved"] == 0.5
    assert found["noise_sd"] > 0
    assert found["seed_correlation"] == 1.0, "the seed fixes the value"
    assert found["item_luck"] == pytest.approx(
        (2 * found["item_rate"] * (1 - found["item_rate"]) / 100) ** 0.5, rel=0.02
    )
    assert (found["mde"], found["mde_is_noise"]) == (0.05, False), "the smallest claim against e1"
    assert found["drift"].keys() >= {"found", "slope", "lag1", "later_better"}
    assert all(isinstance(line, str) for line in found["advice"])

    runs = {item["id"]: item for item in call("runs")["items"] if item["experiment_id"] in ("e3", "e4")}
    order = [runs[id] for id in sorted(runs, key=lambda id: int(id[1:]))]
    assert [(item["experiment_id"], item["seed"]) for item in order] == [
        ({"A": "e3", "B": "e4"}[slot["arm"]], slot["seed"]) for slot in plan["runs"]
    ]
    assert {item["seed"] for item in order}.isdisjoint(
        item["seed"] for item in call("runs", "--experiment", "e1")["items"]
    )
    for id in ("e3", "e4"):
        arm = call("experiments", id)
        assert (arm["hypothesis_id"], arm["design"]["claim"]) == (None, None)
        assert "aa" in arm["tags"]
    assert call("evidence", "list")["items"] == []


@pytest.mark.slow
def test_run_again_it_runs_nothing_and_again_it_starts_another(call: Call) -> None:
    baseline(call)
    first = call("aa", "e1", "--runs", "4")
    assert call("aa", "e1") == first
    assert call("aa", "e1", "--no-run") == first
    assert call("aa", "e1", "--runs", "6", code=6)["error"]["code"] == "other_size"
    second = call("aa", "e1", "--again", "--runs", "4")
    assert (second["test"], second["n"], second["arms"]) == (2, 10, ["e4", "e5"])
    assert call("aa", "e4", code=6)["error"]["hint"] == "perpetual aa e1"


def test_it_goes_on_where_it_was_cut_off(call: Call, project: Path) -> None:
    baseline(call)
    with Lab.open(project) as lab:
        plan = aa_plan_of(lab, "e1", runs=4)

        def cut(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            launch = lab.runs.launch
            launched: list[int] = []

            def once(*arguments: Any, **options: Any) -> Any:
                if launched:
                    cut()
                launched.append(options["seed"])
                return launch(*arguments, **options)

            patch.setattr(lab.runs, "launch", once)
            with pytest.raises(KeyboardInterrupt):
                aa_test(lab, "e1", runs=4)
        lab.wait(["r3"])
        assert aa_plan_of(lab, "e1")["missing"] == 3
        assert aa_test(lab, "e1")["pairs"] == 2
        runs = [run for id in ("e2", "e3") for run in lab.runs.named([id])]
        assert sorted(run.seed or 0 for run in runs) == sorted(slot["seed"] for slot in plan["runs"])


def test_an_agent_proposes_and_a_person_approves(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline(call, replicates=1)
    with monkeypatch.context() as patch:
        as_agent(patch)
        assert call("aa", "e1", "--runs", "4", code=4)["error"]["code"] == "not_permitted"
        assert call("aa", "e1", "--runs", "4", code=4)["error"]["code"] == "not_permitted"
    assert [item["status"] for item in call("experiments")["items"]] == ["analysed", "proposed", "proposed"]
    call("approve", "e2", "e3")
    as_agent(monkeypatch)
    assert call("aa", "e1")["pairs"] == 2


def test_typing_it_approves_no_command_that_was_not_approved(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        as_agent(patch)
        call("propose", "--command", "sh -c 'touch owned; echo m=1'", "--metric", "m", "--direction", "max")
    assert call("aa", "e1", code=4)["error"]["code"] == "not_approved"
    assert not Path("owned").exists()
    assert {item["status"] for item in call("experiments")["items"]} == {"proposed"}


def test_what_an_agent_tags_as_an_arm_is_not_approved_for_it(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline(call, replicates=1)
    command = call("experiments", "e1")["command"]
    with monkeypatch.context() as patch:
        as_agent(patch)
        tags = ("--tag", "aa", "--tag", "aa:e1:1:A", "--metric", "m", "--direction", "max")
        call("propose", "--command", "sh -c 'touch owned; echo m=1'", "--replicates", "4", *tags)
        call("propose", "--command", command, "--replicates", "4", "--gpus", "8", *tags)
    found = call("aa", "e1", "--runs", "4")
    assert found["arms"] == ["e4", "e5"]
    assert [call("experiments", id)["status"] for id in ("e2", "e3")] == ["proposed", "proposed"]
    with monkeypatch.context() as patch:
        as_agent(patch)
        many = ("--tag", "aa", "--tag", "aa:e1:2:A", "--metric", "m", "--direction", "max")
        call("propose", "--command", command, "--replicates", "400", *many)
    assert call("aa", "e1", code=6)["error"]["code"] == "other_size", "400 runs are not what was asked for"
    assert not Path("owned").exists()


def test_the_budget_holds_all_of_it_or_nothing_is_started(call: Call, project: Path) -> None:
    baseline(call, SCRIPT, "--wall", "1h", replicates=1)
    call("methodology", "set", "max_run_hours", "5")
    error = call("aa", "e1", code=7)["error"]
    assert (error["code"], error["message"][:6]) == ("budget", "8 runs")
    assert len(call("experiments")["items"]) == 1
    assert call("aa", "e1", "--runs", "4")["pairs"] == 2


@pytest.mark.slow
def test_runs_without_a_value_and_of_other_code_are_said(call: Call) -> None:
    script = Path("train.sh")
    script.write_text(SCRIPT)
    call("propose", "--command", "sh train.sh", "--metric", "m", "--direction", "max", "--replicates", "2")
    call("approve", "e1")
    call("run", "e1", "--all", "--wait")
    assert call("aa", "e1", "--no-run", code=1)["error"]["code"] == "too_few_runs"
    script.write_text(f"test -e failed || {{ touch failed; exit 1; }}; {SCRIPT}")
    call("methodology", "set", "max_concurrent_runs", "1")
    found = call("aa", "e1", "--runs", "4")
    assert (found["n"], found["own"], found["other_version"], found["without_value"]) == (3, 0, 2, 1)
    assert found["advice"][0].startswith("1 run of the A/A test gave no value")
    assert found["advice"][1].startswith("2 earlier runs left out")


def test_wrong_wishes_start_nothing(call: Call, project: Path) -> None:
    baseline(call, replicates=1)
    call("propose", "--metric", "m", "--direction", "max")
    call("propose", "--command", "true")
    with Lab.open(project) as lab:
        wrong: list[tuple[type[PerpetualError], Callable[[], object]]] = [
            (UsageError, lambda: aa_test(lab, "e1", runs=5)),
            (UsageError, lambda: aa_test(lab, "e1", runs=2)),
            (UsageError, lambda: aa_test(lab, "e1", runs=10**9)),
            (UsageError, lambda: aa_test(lab, "e1", items=1)),
            (UsageError, lambda: aa_test(lab, "e1", mde=float("nan"))),
            (UsageError, lambda: aa_test(lab, "e1", direction="up")),
            (UsageError, lambda: aa_test(lab, "e3")),
            (UsageError, lambda: aa_test(lab, "e3", metric="m")),
            (Conflict, lambda: aa_test(lab, "e2")),
            (Conflict, lambda: aa_plan_of(lab, "e2")),
        ]
        for kind, deed in wrong:
            with pytest.raises(kind) as caught:
                deed()
            assert caught.value.hint or "the mde" in caught.value.message
        assert len(lab.experiments.list().items) == 3
    for options in (("--no-run", "--again"), ("--no-run", "--dry-run"), ("--no-run", "--runs", "4")):
        assert run(["aa", "e1", *options]) == 2
