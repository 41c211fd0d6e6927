"""`perpetual try` with real runs: from a command to a sentence, and each way on which it stops before that."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.science.wording import leans
from perpetual.testing.projects import trust_project
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual_try.trial import Trial, Wanted, answer, start
from tests.support import until

Json = dict[str, Any]
Call = Callable[..., Json]

# Noise from the seed and the options, so that no two arms measure the same.
PROGRAM = """\
import os, random, sys, time
def option(name):
    return float(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else 0.0
time.sleep(option("--sleep"))
if "--fail" in sys.argv:
    sys.exit("no such layer")
seed = os.environ["PERPETUAL_SEED"]
if "--uneven" in sys.argv:
    print("val_acc:", [0.9, 0.8, 0.95, 1.0][int(os.environ["PERPETUAL_RUN"][1:]) % 4])
    sys.exit()
if "--mute" not in sys.argv:
    print("epoch: 3 val_acc:", 0.5 + option("--gain") + random.Random(seed + str(sys.argv)).gauss(0, 0.01))
"""
AGAINST = ("--against", "e1")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, fresh_project: Path, shared_state: Path) -> Path:
    """A project whose baseline e1 was run by `run COMMAND`; copied for each test."""
    folder = tmp_path_factory.mktemp("try") / "project"
    shutil.copytree(fresh_project, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
        for name in AGENT_VARIABLES:
            patch.delenv(name, raising=False)
        trust_project(folder)
        (folder / "train.py").write_text(PROGRAM)
        patch.chdir(folder)
        words = ["run", f"{sys.executable} train.py", "--replicates", "4", "--metric", "val_acc", "--direction", "max"]
        assert run([*words, "--wait", "--title", "baseline"]) == 0
    return folder


@pytest.fixture
def lab_folder(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The prepared project; whatever a test starts is ended with it."""
    folder = tmp_path / "project"
    shutil.copytree(measured, folder, symlinks=True)
    trust_project(folder, like=measured)
    monkeypatch.chdir(folder)
    yield folder
    with Lab.open(folder) as lab:
        for item in lab.runs.live():
            lab.runs.kill(item.id, grace_s=0.0)


@pytest.fixture
def call(lab_folder: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def run_json(*words: str, code: int = 0) -> Json:
        capsys.readouterr()
        assert run(["--json", *words]) == code, capsys.readouterr()
        document: Json = json.loads(capsys.readouterr().out)
        return document

    return run_json


def command(options: str) -> str:
    return f"{sys.executable} train.py {options}"


def test_one_command_goes_from_an_idea_to_its_verdict(call: Call) -> None:
    found = call("try", command("--gain 0.5"), *AGAINST)
    assert found["schema"] == "perpetual.try/1"
    assert (found["experiment"], found["hypothesis"], found["verdict"]) == ("e2", "h1", "supported")
    assert found["statement"] == "--gain 0.5 raises val_acc against e1"
    effect = found["effect"]
    head = "Helps" if effect["low"] > 0 else "Leans to help"  # three runs give a wide interval on some seeds
    assert found["sentence"].startswith(f"{head}: about 0.")
    assert effect["low"] < 0.5 < effect["high"]
    assert (effect["n"], effect["n_baseline"], effect["metric"]) == (3, 4, "val_acc")
    assert found["runs"] == [item["run_id"] for item in found["measured"]] == ["r5", "r6", "r7"]
    assert call("hypotheses", "show", "h1")["prediction"]["direction"] == "max"
    again = call("try", command("--gain 0.5"), *AGAINST)
    assert again == found, "the same change is the same trial"
    assert len(call("hypotheses", "list")["items"]) == 1
    sure = call("try", command("--gain 0.6"), *AGAINST, "--replicates", "6")
    assert sure["sentence"].startswith("Helps: ")
    call("try", "--more", sure["experiment"], code=6)  # more runs would be a second opinion


def test_options_that_a_trial_of_before_lacks_are_named(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["try", command("--gain 0.5"), *AGAINST, "--replicates", "1"]
    call(*words)
    assert run([*words[:-1], "2", "--mde", "0.1"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "without this --mde and --replicates, and stays as it was; perpetual try --more e2 adds runs" in said
    assert run(words) == 0
    assert "without this" not in capsys.readouterr().err


def test_a_command_that_ignores_its_seed_asks_for_no_more_runs(
    call: Call, lab_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equal values count as one, so that --until-decided would run for nothing."""
    found = call("try", "echo val_acc: 0.9", *AGAINST, "--until-decided", "--max", "9")
    assert (found["verdict"], len(found["runs"]), found["next"]) == ("open", 3, None)
    assert "do they use PERPETUAL_SEED?" in found["sentence"]
    assert run(["try", "e2"]) == 0
    assert "have the command use PERPETUAL_SEED" in capsys.readouterr().out


def test_what_leans_names_the_runs_that_make_it_sure_and_they_are_run(call: Call, lab_folder: Path) -> None:
    found = call("try", command("--uneven"), *AGAINST)
    with Lab.open(lab_folder) as lab:
        claim = lab.hypotheses.get("h1")
    assert leans(claim.status, claim.false_alarm_bound, claim.effect), found["sentence"]
    assert found["sentence"].startswith("Leans to help: ")
    assert found["next"] == f"perpetual try --more e2 --replicates {found['more_runs']}"
    assert any(step.startswith("perpetual try --more e2") for step in call("status")["next"])
    more = call("try", "--more", "e2", "--replicates", "1")
    assert more["effect"]["n"] == 4

    with (lab_folder / "train.py").open("a") as file:
        file.write("# another version\n")
    runs = len(call("runs")["items"])
    call("try", "--more", "e2", "--replicates", "1", code=6)
    assert len(call("runs")["items"]) == runs, "runs of other code would count for nothing"


def test_undecided_names_the_runs_that_would_probably_decide_and_more_adds_them(call: Call) -> None:
    found = call("try", command("--gain 0.02"), *AGAINST, "--replicates", "2")
    assert found["verdict"] == "open"
    if found["more_runs"] is not None:
        assert f"{found['more_runs']} more run" in found["sentence"]
        assert found["next"] == f"perpetual try --more e2 --replicates {found['more_runs']}"
        assert found["next"] in call("status")["next"], "the same step everywhere"
    more = call("try", "--more", "e2", "--replicates", "1")
    assert (more["experiment"], len(more["runs"])) == ("e2", 3)
    assert more["effect"]["n"] == 3
    assert call("try", "e3")["runs"] == more["runs"], "an id of more runs is that of the trial"


def test_a_baseline_that_still_runs_is_awaited(call: Call) -> None:
    call("run", command("--sleep 0.8"), "--replicates", "2")
    call("try", command("--gain 0.5"), "--against", "e2", "--dry-run", "--direction", "max", code=6)
    found = call("try", command("--sleep 0.8 --gain 0.5"), "--against", "e2", "--direction", "max")
    assert found["effect"]["n_baseline"] == 2
    assert found["effect"]["value"] == pytest.approx(0.5, abs=0.1)


def test_a_baseline_that_has_measured_nothing_names_a_way_that_is_open(call: Call) -> None:
    """More runs of one that has all of them are refused, and were the advice."""
    call("run", command("--fail"), "--metric", "val_acc", "--direction", "max", "--wait", code=1)
    said = call("try", command("--gain 1"), "--against", "e2", code=6)["error"]["hint"]
    assert said == "perpetual runs --experiment e2 says why; perpetual run 'COMMAND' --wait records a new baseline"
    call("propose", "--command", command("--gain 2"), "--metric", "val_acc", "--direction", "max", "--approve")
    said = call("try", command("--gain 1"), "--against", "e3", code=6)["error"]["hint"]
    assert said == "perpetual run e3 --all --wait"


def test_until_decided_stops_at_a_verdict_or_at_its_maximum(call: Call) -> None:
    found = call("try", command("--gain 0.0"), *AGAINST, "--replicates", "2", "--until-decided", "--max", "5")
    assert found["verdict"] == "open"
    assert len(found["runs"]) == 5
    found = call("try", command("--gain 0.4"), *AGAINST, "--replicates", "2", "--until-decided")
    assert (found["verdict"], len(found["runs"]) <= 12) == ("supported", True)


def test_what_failed_or_measured_nothing_is_exit_1_and_says_why(call: Call) -> None:
    found = call("try", command("--fail"), *AGAINST, "--replicates", "2", code=1)
    assert found["sentence"] == "Not measured: 2 runs failed, exit code 1: no such layer."
    assert (found["effect"], found["next"]) == (None, "perpetual logs r6 --stderr")
    found = call("try", command("--mute"), *AGAINST, "--replicates", "1", code=1)
    assert found["sentence"].startswith("Not measured: 1 run done, no_metric")


def test_an_agent_stops_at_the_proposal_and_a_person_goes_on(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    refused = call("try", command("--gain 0.3"), *AGAINST, code=4)
    assert (refused["experiment"], refused["hypothesis"]) == ("e2", "h1")
    assert "perpetual try e2" in refused["error"]["message"]
    assert call("try", "e2", "--yes", code=4)["error"]["code"] == "not_permitted"
    assert call("run", command(""), code=4)["error"]["code"] == "not_permitted"
    assert call("experiments", "e2")["status"] == "proposed"
    assert call("runs", "--experiment", "e2")["items"] == []
    monkeypatch.delenv("CLAUDECODE")
    assert call("try", "e2", code=4)["error"]["hint"] == "perpetual approve e2, or --yes"
    assert call("try", command("--gain 0.3"), *AGAINST)["experiment"] == "e2"  # typed: that approves it


def test_changed_code_is_said_before_anything_runs(call: Call, lab_folder: Path) -> None:
    (lab_folder / "train.py").write_text(PROGRAM + "# another learning rate\n")
    refused = call("try", command("--gain 0.3"), *AGAINST, code=6)["error"]
    assert refused["code"] == "stale"
    assert "train.py" in refused["message"]
    assert "perpetual rebaseline e1" in refused["hint"]
    assert call("hypotheses", "list")["items"] == []
    found = call("try", command(""), *AGAINST, "--changes", "code", "--replicates", "2")
    assert found["statement"] == "changed code raises val_acc against e1"
    assert found["flags"] == []
    stale = call("try", command("--gain 0.3"), *AGAINST, "--anyway", "--replicates", "2")
    assert stale["sentence"].startswith("Undecided, as baseline and claim ran on other code")
    assert stale["next"] == "perpetual rebaseline e1"
    call("rebaseline", "e1")
    call("propose", "--command", "true")
    assert [item["id"] for item in call("approve", "--all", "--yes")["items"]] == ["e4", "e5"]
    call("run", "e4", "--all", "--wait")
    found = call("try", command("--gain 0.3"), *AGAINST, "--replicates", "2")
    assert found["next"] != "perpetual rebaseline e1"
    assert not any("stale" in flag for flag in found["flags"])


def test_a_smoke_run_counts_for_nothing_and_stops_what_cannot_work(call: Call) -> None:
    found = call("try", command("--gain 0.4"), *AGAINST, "--replicates", "2", "--smoke", "30s")
    assert (found["smoke"]["status"], found["smoke"]["measured"]) == ("done", True)
    assert found["smoke"]["run_id"] not in found["runs"]
    assert found["effect"]["n"] == 2
    assert found["smoke"]["run_id"] not in {row["run_id"] for row in call("evidence", "list")["items"]}
    assert call("try", command("--mute"), *AGAINST, "--smoke", code=1)["error"]["code"] == "smoke_failed"
    assert len(call("hypotheses", "list")["items"]) == 1, "what the smoke run stopped is not even claimed"
    slow = call("try", command("--sleep 0.6"), *AGAINST, "--replicates", "1", "--smoke", "0.2")
    assert (slow["smoke"]["status"], slow["smoke"]["measured"]) == ("timeout", False)


def test_a_dry_run_and_what_cannot_start_write_nothing(call: Call) -> None:
    before = call("status")["seq"]
    plan = call("try", command("--gain 0.3"), *AGAINST, "--dry-run")
    assert plan["schema"] == "perpetual.try_plan/1"
    assert (plan["experiment"], plan["metric"], plan["direction"], plan["against"]) == (None, "val_acc", "max", "e1")
    assert plan["forecast"]["runs"] == 4
    for words, code in (
        ((command(""), *AGAINST), 2),  # nothing differs
        (("no-such-program", *AGAINST), 1),
        ((command("--gain 1"), "--against", "e9"), 5),
        ((command("--gain 1"), "--against", "0.5"), 2),
        ((command("--gain 1"), *AGAINST, "--metric", "loss"), 2),
        ((command("--gain 1"), *AGAINST, "--mde", "nan"), 2),
        ((command("--gain 1"), *AGAINST, "--replicates", "0"), 2),
        ((command("--gain 1"), *AGAINST, "--gpus", "64"), 1),
        ((command("--gain 1"), *AGAINST, "--max", "3"), 2),
        ((command("--gain 1"),), 2),
        (("e1",), 2),
        (("e99",), 5),
        (("e1", "--mde", "1"), 2),
    ):
        answer = call("try", *words, code=code)
        assert answer["schema"] == "perpetual.error/1", words
        assert not re.search(r"\be2\b", json.dumps(answer)), "it names what was never recorded"
    assert call("status")["seq"] == before


def test_the_budget_is_used_up_run_by_run_and_refuses_by_exit_7(call: Call) -> None:
    call("methodology", "set", "max_run_hours", "0.015")
    found = call("try", command("--gain 0.5"), *AGAINST, "--replicates", "2", "--wall", "36s")
    assert len(found["runs"]) == 2, "what the first run did not use is free for the second"
    assert call("try", command("--gain 0.6"), *AGAINST, "--wall", "1h", code=7)["error"]["code"] == "budget"
    assert len(call("hypotheses", "list")["items"]) == 1


def test_a_key_answers_what_the_first_call_made(call: Call) -> None:
    words = ("try", command("--gain 0.3"), *AGAINST, "--replicates", "2", "--idempotency-key", "k")
    assert call(*words) == call(*words)
    baseline = ("run", command("--gain 0.3"), "--wait", "--idempotency-key", "k2")
    assert call(*baseline) == call(*baseline)


def test_ctrl_c_ends_the_waiting_alone(lab_folder: Path) -> None:
    words = [sys.executable, "-m", "perpetual", "try", command("--sleep 600"), *AGAINST, "--replicates", "1", "--plain"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiter:
        with Lab.open(lab_folder) as lab:
            until(lambda: [item.status for item in lab.runs.live()] == ["running"])
        os.kill(waiter.pid, signal.SIGINT)
        out, err = waiter.communicate(timeout=30)
    assert (waiter.returncode, out) == (130, "")
    assert "hint: perpetual wait e2 follows, perpetual kill e2 ends them" in err
    with Lab.open(lab_folder) as lab:
        assert [item.status for item in lab.runs.live()] == ["running"]


def test_python_does_the_same(lab_folder: Path) -> None:
    with Lab.open(lab_folder) as lab:
        trial = Trial(lab, Wanted(command=command("--gain 0.5"), against="e1", replicates=2))
        assert trial.plan["experiment"] is None
        id = trial.record()
        lab.wait([item.id for item in start(lab, id)])
        assert start(lab, id) == ()
        assert answer(lab, id)["effect"]["n"] == 2  # type: ignore[index]


def test_people_read_the_plan_then_a_line_for_each_run_then_the_sentence(
    lab_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["try", command("--gain 0.5"), *AGAINST, "--replicates", "2"]) == 0
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[0] == "try: --gain 0.5 raises val_acc against e1"
    assert [line.split()[:2] for line in lines[-2:]] == [["r5", "done"], ["r6", "done"]]
    assert out.splitlines()[0] == "e2 of h1: --gain 0.5 raises val_acc against e1"
    assert "nats" not in out + err
    assert "bits" not in out + err
