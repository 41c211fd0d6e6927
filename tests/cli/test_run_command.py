"""`run COMMAND`, `approve --all`, `propose --approve --run` and `kill EXPERIMENT`: several steps in one."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.lab.queue import Queue

Json = dict[str, Any]
Call = Callable[..., Json]
MEASURES = f'{shlex.quote(sys.executable)} -c \'import os; print("acc:", 1 + int(os.environ["PERPETUAL_SEED"]) % 9)\''


@pytest.fixture(autouse=True)
def end_what_runs(project: Path) -> Iterator[None]:
    """No process outlives its test."""
    yield
    with Lab.open(project) as lab:
        for item in lab.runs.live():
            lab.runs.kill(item.id, grace_s=0.0)


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def run_json(*words: str, code: int = 0) -> Json:
        capsys.readouterr()
        assert run(["--json", *words]) == code, capsys.readouterr()
        document: Json = json.loads(capsys.readouterr().out)
        return document

    return run_json


def test_a_command_alone_is_a_baseline_that_typing_it_approves(call: Call) -> None:
    words = (
        "--replicates",
        "2",
        "--metric",
        "acc",
        "--direction",
        "max",
        "--title",
        "base",
        "--wall",
        "1m",
        "--tag",
        "t",
    )
    found = call("run", MEASURES, *words, "--wait")
    assert [(item["status"], item["experiment_id"]) for item in found["items"]] == [("done", "e1")] * 2
    made = call("experiments", "e1")
    assert (made["command"], made["title"], made["status"], made["tags"]) == (MEASURES, "base", "analysed", ["t"])
    assert made["approved_by"].startswith("user:")
    assert (made["design"]["metric"], made["design"]["direction"], made["design"]["claim"]) == ("acc", "max", None)
    assert made["resources"]["wall_s"] == 60
    assert call("run", "echo", "--", "acc: 3", "--title", "x")["experiment_id"] == "e2"
    assert call("experiments", "e2")["command"] == "echo 'acc: 3' --title x"


def test_what_a_baseline_amounts_to_is_said(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "echo acc: 3", "--replicates", "2", "--wait"]) == 0
    assert (
        "acc: 3 in all 2 runs; do they use PERPETUAL_SEED?\nnext: perpetual try 'python train.py ...' --against e1\n"
        in capsys.readouterr().out
    )


def test_a_word_of_an_ids_form_is_always_an_id(call: Call) -> None:
    assert call("run", "e99", code=5)["error"]["code"] == "not_found"
    assert call("run", "H1", code=5)["error"]["code"] == "not_found"
    call("run", "true", "--wait")
    assert call("run", "e1", "--metric", "acc", code=2)["error"]["message"].startswith("--metric is for a COMMAND")


def test_a_command_that_cannot_start_leaves_nothing(call: Call) -> None:
    before = call("status")["seq"]
    assert call("run", "no-such-program --x", code=1)["error"]["code"] == "command_not_found"
    assert call("run", "true", "--replicates", "0", code=2)["error"]["code"] == "usage"
    assert call("run", "true", "--gpus", "99", code=1)["schema"] == "perpetual.error/1"
    plan = call("run", "true", "--replicates", "3", "--dry-run")
    assert (plan["schema"], plan["replicates"]) == ("perpetual.run_plan/1", [1, 2, 3])
    assert call("status")["seq"] == before


def test_several_proposals_are_approved_at_once(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("approve", "--all", "--yes")["items"] == []
    for number in range(2):
        call("propose", "--command", f"true {number}")
    assert "--yes" in call("approve", "--all", code=2)["error"]["hint"]  # no terminal to ask at
    assert call("approve", "--all", "e1", code=2)["error"]["code"] == "usage"
    monkeypatch.setenv("CLAUDECODE", "1")
    assert call("approve", "--all", "--yes", code=4)["error"]["code"] == "not_permitted"
    assert call("propose", "--command", "true 9", "--approve", code=4)["error"]["code"] == "not_permitted"
    monkeypatch.delenv("CLAUDECODE")
    assert [item["status"] for item in call("approve", "--all", "--yes")["items"]] == ["approved"] * 2
    assert len(call("experiments")["items"]) == 2


def test_a_proposal_is_approved_and_run_at_once(call: Call) -> None:
    made = call("propose", "--command", "true", "--replicates", "2", "--approve", "--run")
    assert (made["id"], made["started"]) == ("e1", ["r1", "r2"])
    assert call("propose", "--command", "true x", "--approve")["status"] == "approved"
    assert call("propose", "--command", "true y", "--run", code=2)["error"]["code"] == "usage"
    assert call("propose", "--command", "true y", "--approve", "--dry-run", code=2)["error"]["code"] == "usage"


def test_what_must_wait_is_not_said_to_have_started(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    call("queue", "pause")
    made = call("propose", "--command", "true", "--approve", "--run")
    assert (made["started"], made["queued"]) == ([], ["r1"])
    assert run(["propose", "--command", "true x", "--approve", "--run"]) == 0
    said = capsys.readouterr().out
    assert "started" not in said
    assert "r2  queued: replicate 1 of e2 waits (the queue is paused (perpetual queue resume))" in said


def test_a_change_of_the_order_is_answered(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nothing waits, and the queue shows nothing of it."""
    for number in range(2):
        call("propose", "--command", f"true {number}")
    for command, words in (
        ("group big --parallel 2", "group big: at most 2 runs at once"),
        ("group big --parallel 0", "group big: none: it is held"),
        ("after E2 e1:any", "e2 comes after e1:any"),
        ("after e2", "e2 comes after nothing"),
        ("priority e2 5", "e2 has priority 5"),
    ):
        assert run(["queue", *command.split()]) == 0
        assert words in capsys.readouterr().out.splitlines()


def test_kill_ends_every_live_run_of_an_experiment(call: Call) -> None:
    call("run", "sleep 600", "--replicates", "2")
    ended = call("kill", "e1", "--grace", "0")["items"]
    assert {item["id"]: item["status"] for item in ended} == {"r1": "killed", "r2": "killed"}
    assert call("kill", "e1", code=6)["error"]["message"] == "e1 has no live run"


def test_a_run_that_waits_for_a_secret_is_not_said_to_start_by_itself(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Queue, "moves", lambda self: True)  # it starts no process that would outlive the test
    assert run(["methodology", "set", "max_concurrent_runs", "1"]) == 0
    assert run(["run", "sleep 60"]) == 0
    capsys.readouterr()
    assert run(["run", "true", "--title", "plain"]) == 0
    assert "1 waits; it starts by itself as runs end" in capsys.readouterr().err
    monkeypatch.setenv("LOOK_API_TOKEN", "0123456789abcdef")
    assert run(["run", "true", "--title", "secret"]) == 0
    said = capsys.readouterr().err
    assert "1 run will wait for LOOK_API_TOKEN" in said
    assert "perpetual wait e3" in said
    assert "by itself" not in said
    monkeypatch.setenv("PERPETUAL_RUN_SECRETS", "LOOK_API_TOKEN=env:OTHER")
    assert run(["run", "true", "--title", "known"]) == 0
    assert "it starts by itself" in capsys.readouterr().err
