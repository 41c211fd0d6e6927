"""Runs through the command line: seeds, waiting, ending, retrying, logs, the queue, the budget, and GPUs that pretend.

Processes are real; every test's are ended with it.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.lab.runs import logs as log_reading

Json = dict[str, Any]
Call = Callable[..., Json]

CLAIM = ("--metric", "m", "--direction", "max", "--mde", "0.5", "--baseline", "1", "--noise", "0.1")


@pytest.fixture(autouse=True)
def end_what_runs(project: Path) -> Iterator[None]:
    """No process outlives its test."""
    yield
    with Lab.open(project) as lab:
        for item in lab.runs.live():
            if item.status != "queued":
                lab.runs.kill(item.id, grace_s=0.0)


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs one command with --json and answers its one document."""

    def run_json(*arguments: str, code: int = 0) -> Json:
        capsys.readouterr()
        assert run(["--json", *arguments]) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        assert err == ""
        document: Json = json.loads(out, parse_constant=pytest.fail)
        return document

    return run_json


@pytest.fixture
def approved(call: Call) -> Callable[..., str]:
    """Proposes and approves a shell script; answers the experiment's id."""

    def make(script: str, *options: str) -> str:
        id: str = call("propose", "--command", f"sh -c {shlex.quote(script)}", *options)["id"]
        call("approve", id)
        return id

    return make


Approved = Callable[..., str]


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def set_key(project: Path, key: str, value: str) -> None:
    """Writes a key of the methodology."""
    file = project / ".perpetual" / "methodology.yaml"
    text, count = re.subn(rf"(?m)^{key}:.*$", f"{key}: {value}", file.read_text())
    assert count == 1
    file.write_text(text)


# --- ends -------------------------------------------------------------------------------------------------------------


def test_run_answers_at_once_and_wait_at_the_end(call: Call, approved: Approved, project: Path) -> None:
    approved("while [ ! -e go ]; do sleep 0.01; done")
    started = call("run", "e1")
    assert started["status"] == "running"
    assert lives(started["pid"])
    late = call("wait", "r1", "--timeout", "0.05", code=3)
    assert (late["schema"], late["id"], late["status"]) == ("perpetual.run/1", "r1", "running")
    (project / "go").touch()
    assert call("wait", "R1", "--timeout", "30s")["status"] == "done"
    assert call("wait", "e1")["items"][0]["id"] == "r1"


def test_a_failed_run_is_exit_1_with_its_reason(call: Call, approved: Approved) -> None:
    approved("echo why >&2; exit 3", "--replicates", "2")
    failed = call("run", "e1", "--wait", code=1)
    assert failed["schema"] == "perpetual.run/1"
    assert (failed["status"], failed["exit_code"], failed["reason"]) == ("failed", 3, "exit code 3")
    assert call("wait", "e1", code=1)["items"][0]["status"] == "failed"
    assert [item["status"] for item in call("run", "e1", "--all", "--wait", code=1)["items"]] == ["failed"]
    assert call("logs", "r1", "--stderr")["text"] == "why\n"


def test_a_signal_ends_a_run_as_failed(call: Call, approved: Approved) -> None:
    approved("kill -SEGV $$")
    failed = call("run", "e1", "--wait", code=1)
    assert (failed["status"], failed["signal"], failed["exit_code"]) == ("failed", signal.SIGSEGV, None)
    assert f"signal {int(signal.SIGSEGV)}" in failed["reason"]


def test_a_run_over_its_wall_limit_is_a_timeout(call: Call, approved: Approved) -> None:
    approved("exec sleep 600", "--wall", "0.2s")
    ended = call("run", "e1", "--wait", code=1)
    assert ended["status"] == "timeout"
    assert "0.2 s" in ended["reason"]
    assert not lives(ended["pid"])
    assert ended["run_hours"] >= 0.2 / 3600


def test_kill_ends_what_ignores_term(call: Call, approved: Approved) -> None:
    """TERM is ignored by the command and by a child in a session of its own; KILL after the grace ends both."""
    approved("trap '' TERM; setsid sleep 600 & echo $!; echo ready; wait")
    started = call("run", "e1")
    while "ready" not in call("logs", "r1")["text"]:
        pass
    child = int(call("logs", "r1")["text"].split()[0])
    killed = call("kill", "r1", "--grace", "0.1")
    assert (killed["id"], killed["status"], killed["signal"]) == ("r1", "killed", signal.SIGKILL)
    assert "cancelled by user:" in killed["reason"]
    assert not lives(started["pid"])
    assert not lives(child)
    assert call("kill", "r1", code=6)["error"]["code"] == "conflict"
    assert call("scan")["changes"] == []


def test_a_supervisor_that_was_killed_leaves_a_lost_run(call: Call, approved: Approved) -> None:
    approved("exec sleep 600")
    started = call("run", "e1")
    supervisor = int(started["native_id"].split("/")[1])
    os.kill(supervisor, signal.SIGKILL)
    os.kill(started["pid"], signal.SIGKILL)
    lost = call("wait", "r1", code=1)
    assert (lost["status"], lost["exit_code"]) == ("lost", None)
    assert "without an exit record" in lost["reason"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo nothing", "was not found"),
        ("echo m=nan", "NaN, infinite, beyond"),
        ("echo m=inf", "NaN, infinite, beyond"),
    ],
)
def test_a_metric_that_never_comes(call: Call, approved: Approved, script: str, said: str) -> None:
    """The run is done and costs what it costs; there is no evidence, and the reason says so. It may be retried."""
    call("hypotheses", "add", "m grows")
    approved(script, "-h", "h1", *CLAIM)
    ended = call("run", "e1", "--wait", code=1)
    assert ended["status"] == "done"
    assert ended["reason"].startswith("no_metric: m ")
    assert said in ended["reason"]
    assert ended["run_hours"] > 0
    assert call("evidence", "list")["items"] == []
    assert call("hypotheses", "show", "h1")["confidence"] == 0.5
    assert call("budget")["by_experiment"]["e1"]["runs"] == 1
    assert call("retry", "r1")["attempt"] == 2


def test_an_interrupted_wait_leaves_the_run_alone(call: Call, approved: Approved, project: Path) -> None:
    approved("exec sleep 600")
    command = [sys.executable, "-m", "perpetual", "run", "e1", "--wait"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as waiter:
        assert waiter.stderr is not None
        assert waiter.stderr.readline().startswith("r1  running")
        waiter.send_signal(signal.SIGINT)
        assert waiter.stderr.read().splitlines()[-2:] == [
            "error: interrupted; r1 goes on",
            "hint: perpetual wait e1 follows, perpetual kill e1 ends them",
        ]
    assert waiter.returncode == 130
    seen = call("runs", "r1")
    assert seen["status"] == "running"
    assert lives(seen["pid"])


INTERRUPTED = """
import os, signal, sys
from perpetual import Lab
from perpetual.cli.app import run

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass

class Dropped:
    def __del__(self):
        interrupt()

def dropped():
    Dropped()

def replaced():
    try:
        interrupt()
    except KeyboardInterrupt:
        raise ImportError("cannot import")

def wait(self, *given, then=Lab.wait, **named):
    {how}()
    return then(self, *given, **named)

Lab.wait = wait
sys.exit(run(["run", "e1", "--wait"]))
"""


@pytest.mark.parametrize("how", ["dropped", "replaced"])
def test_an_interrupt_that_python_loses_ends_the_wait(approved: Approved, project: Path, how: str) -> None:
    """Python drops an exception that a destructor raises, and has an import fail with an error of its own."""
    approved("exec sleep 600")
    command = [sys.executable, "-c", INTERRUPTED.replace("{how}", how)]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert "error: interrupted; r1 goes on\n" in ended.stderr
    assert ended.returncode == 130


# --- seeds ------------------------------------------------------------------------------------------------------------


def seed_of(project: Path, group: str, replicate: int) -> int:
    """The rule in words: a hash of project id, seed group and replicate, as an integer in [0, 2^31)."""
    (line,) = [text for text in (project / ".perpetual/config.yaml").read_text().splitlines() if "project_id" in text]
    digest = sha256(f"{line.split()[1]}\n{group}\n{replicate}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def test_seeds_are_drawn_and_not_chosen(call: Call, approved: Approved, project: Path) -> None:
    """By experiment and replicate, whatever the order; a paired design shares its baseline's; a retry keeps its own."""
    call("hypotheses", "add", "m grows")
    approved("echo m=1 $PERPETUAL_SEED", "--replicates", "2", "--metric", "m")
    approved("echo $PERPETUAL_SEED; exit 1", "-h", "h1", *CLAIM, "--baseline", "e1", "--paired", "--replicates", "2")
    plan = call("run", "e1", "--all", "--dry-run")
    base = call("run", "e1", "--all", "--wait")["items"]
    assert [item["seed"] for item in base] == [seed_of(project, "e1", 1), seed_of(project, "e1", 2)] == plan["seeds"]
    assert call("logs", "r1")["text"].split()[1] == str(base[0]["seed"])
    paired = call("run", "e2", "--all", "--wait", code=1)["items"]
    assert [item["seed"] for item in paired] == [item["seed"] for item in base]
    assert call("retry", "r3", "--dry-run")["seeds"] == [base[0]["seed"]]
    again = call("retry", "r3")
    assert (again["seed"], again["replicate"], again["attempt"]) == (base[0]["seed"], 1, 2)


@pytest.mark.parametrize("seed", [0, 42, 2**31 - 1])
def test_a_seed_picked_by_hand_weighs_nothing(call: Call, approved: Approved, seed: int) -> None:
    call("hypotheses", "add", "m grows")
    approved("echo m=9; echo $PERPETUAL_SEED", "-h", "h1", *CLAIM, "--replicates", "3")
    assert call("run", "e1", "--seed", str(seed), "--wait")["seed"] == seed
    assert call("logs", "r1", "--tail", "1")["text"] == f"{seed}\n"
    (row,) = call("evidence", "list")["items"]
    assert (row["weight"], row["log_bayes_factor"], row["seed"]) == (0.0, 0.0, seed)
    assert "picked by hand" in row["reason"]
    assert call("hypotheses", "show", "h1")["confidence"] == 0.5
    assert call("run", "e1", "--wait")["seed"] != seed
    assert call("evidence", "list")["items"][1]["weight"] == 1.0


# --- starting ---------------------------------------------------------------------------------------------------------


def test_a_command_typed_by_a_person_completes_the_spec(call: Call, project: Path) -> None:
    call("propose", "--title", "to be completed")
    assert call("propose", "--title", "approved empty")["command"] is None
    call("approve", "e2")
    assert call("run", "e2", code=2)["error"]["hint"].startswith("perpetual run e2")
    plan = call("run", "e1", "--dry-run", "--", "sh", "-c", "echo 'a  b'")
    assert plan["argv"] == ["sh", "-c", "echo 'a  b'"]
    assert call("experiments", "e1")["status"] == "proposed"  # a dry run completes nothing
    call("run", "e1", "--wait", "--", "sh", "-c", "echo 'a  b'")
    completed = call("experiments", "e1")
    assert completed["command"] == """sh -c 'echo '"'"'a  b'"'"''"""
    assert completed["approved_by"].startswith("user:")
    assert call("logs", "r1")["text"] == "a  b\n"
    (event,) = [item for item in call("events")["items"] if item["kind"] == "spec_completed"]
    assert event["payload"]["spec_hash"] == completed["spec_hash"]
    assert call("run", "e2", "true", "--wait")["status"] == "done"


def test_a_dry_run_says_what_a_run_would_do(call: Call, approved: Approved, project: Path) -> None:
    approved("echo 1", "--replicates", "2", "--wall", "36s")
    plan = call("run", "e1", "--all", "--dry-run")
    assert plan["schema"] == "perpetual.run_plan/1"
    assert (plan["experiment_id"], plan["replicates"], plan["attempt"]) == ("e1", [1, 2], 1)
    assert (plan["argv"], plan["cwd"]) == (["sh", "-c", "echo 1"], str(project))
    assert (plan["wall_s"], plan["gpu_hours"], plan["run_hours"]) == (36.0, 0.0, pytest.approx(0.01))
    assert plan["waits_for"] is None
    assert call("runs")["items"] == []
    assert not (project / ".perpetual/runs").exists()


def test_a_key_starts_one_run(call: Call, approved: Approved) -> None:
    approved("exit 1", "--replicates", "3")
    first = call("run", "e1", "--idempotency-key", "a", "--wait", code=1)
    assert call("run", "e1", "--idempotency-key", "a") == first
    both = call("run", "e1", "--all", "--idempotency-key", "b", "--wait", code=1)
    assert call("run", "e1", "--all", "--idempotency-key", "b") == both
    retried = call("retry", "r1", "--idempotency-key", "c")
    assert call("retry", "r1", "--idempotency-key", "c")["id"] == retried["id"] == "r4"
    assert call("retry", "r1", code=6)["error"]["message"] == "r1 has been retried already by r4"
    assert len(call("runs")["items"]) == 4


def test_two_processes_share_the_replicates(call: Call, approved: Approved, project: Path) -> None:
    """Who comes second finds what is left, or nothing; no replicate is started twice."""
    approved("true", "--replicates", "3")
    command = [sys.executable, "-m", "perpetual", "run", "e1", "--all", "--json"]
    both = [subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert sorted(process.wait(timeout=60) for process in both) == [0, 6]
    waited = call("wait", "e1", "--timeout", "30s")["items"]
    assert [(item["id"], item["replicate"], item["status"]) for item in waited] == [
        (f"r{number}", number, "done") for number in (1, 2, 3)
    ]
    assert len(call("runs")["items"]) == 3


def test_an_opinion_on_a_run(call: Call, approved: Approved) -> None:
    call("hypotheses", "add", "m grows")
    approved("echo looks good", "-h", "h1")
    call("run", "e1", "--wait")
    row = call("evidence", "add", "h1", "--verdict", "supports", "--why", "read its output", "--run", "R1")
    assert (row["run_id"], row["experiment_id"]) == ("r1", "e1")
    assert row["log_bayes_factor"] == pytest.approx(math.log(2))


def test_the_environment_of_a_run(call: Call, approved: Approved, project: Path) -> None:
    (project / "sub").mkdir()
    approved("pwd; echo $LR; cat $PERPETUAL_CONFIG; echo $PERPETUAL_RUN $CUDA_VISIBLE_DEVICES end",
             "--env", "LR=0.1 x", "-c", '{"a": [1, "ü"]}', "--cwd", "sub")  # fmt: skip
    call("run", "e1", "--wait")
    lines = call("logs", "r1")["text"].splitlines()
    assert lines[:2] == [str(project / "sub"), "0.1 x"]
    assert json.loads(lines[2].removesuffix("r1 end") if lines[2].endswith("end") else lines[2]) == {"a": [1, "ü"]}
    assert lines[-1].endswith("r1 end")


# --- logs -------------------------------------------------------------------------------------------------------------


def test_logs_neutralise_terminal_escapes(call: Call, approved: Approved, capsys: pytest.CaptureFixture[str]) -> None:
    approved(r"printf 'a\033]0;title\007\rb\nc\377\n'")
    call("run", "e1", "--wait")
    assert call("logs", "r1") == {
        "schema": "perpetual.logs/1", "run_id": "r1", "stream": "stdout", "text": "a\x1b]0;title\x07\nb\nc\ufffd\n",
        "truncated": False,
    }  # fmt: skip
    assert run(["logs", "r1"]) == 0
    assert capsys.readouterr().out == "a\\x1b]0;title\\x07\nb\nc\ufffd\n"


@pytest.mark.parametrize(
    ("text", "tail", "kept"),
    [
        ("1\\n2\\n3\\n", 2, "2\n3\n"),
        ("1\\n2\\n3", 2, "2\n3"),
        ("1\\n2\\n3\\n", 3, "1\n2\n3\n"),
        ("1\\n2\\n3\\n", 9, "1\n2\n3\n"),
        ("1\\n2\\n3\\n", 0, ""),
        ("1\\r\\n2\\r3\\n", 2, "2\n3\n"),
        ("", 5, ""),
    ],
)
def test_the_tail_of_a_log(
    call: Call, approved: Approved, capsys: pytest.CaptureFixture[str], text: str, tail: int, kept: str
) -> None:
    """The same lines as JSON and as a stream."""
    approved(f"printf '{text}'")
    call("run", "e1", "--wait")
    answer = call("logs", "r1", "--tail", str(tail))
    whole = call("logs", "r1")["text"]
    assert (answer["text"], answer["truncated"]) == (kept, kept != whole)
    assert run(["logs", "r1", "--tail", str(tail)]) == 0
    assert capsys.readouterr().out == kept


@pytest.mark.slow
def test_a_long_log_is_bounded_as_json_and_whole_as_text(
    call: Call, approved: Approved, capsys: pytest.CaptureFixture[str]
) -> None:
    approved("seq 1 300000")
    call("run", "e1", "--wait")
    answer = call("logs", "r1")
    assert answer["truncated"] is True
    assert len(answer["text"]) == 1024 * 1024
    assert answer["text"].endswith("\n300000\n")
    assert run(["logs", "r1"]) == 0
    assert capsys.readouterr().out == "".join(f"{number}\n" for number in range(1, 300001))
    assert run(["logs", "r1", "--tail", "100000"]) == 0
    assert capsys.readouterr().out.startswith("200001\n")


def test_following_ends_with_the_run_and_records_nothing(
    call: Call, approved: Approved, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line comes out, also the one written at the very end; how it ended stands on standard error."""
    approved("echo first; while [ ! -e go ]; do sleep 0.01; done; printf last; exit 4")
    call("run", "e1")
    threading.Timer(0.2, (project / "go").touch).start()
    assert run(["logs", "r1", "-f"]) == 0
    out, err = capsys.readouterr()
    assert out == "first\nlast"
    assert err == "r1 has ended: failed (exit code 4); perpetual scan records it\n"
    assert call("runs", "r1")["status"] == "running"
    assert run(["runs", "r1"]) == 0
    assert "it has ended since: failed (exit code 4); perpetual scan records it" in capsys.readouterr().out
    assert call("scan")["changes"][0]["to"] == "failed"
    assert run(["runs", "r1"]) == 0
    assert "ended since" not in capsys.readouterr().out
    assert run(["logs", "r1", "-f", "--tail", "1"]) == 0
    assert capsys.readouterr() == ("last", "r1 has ended: failed (exit code 4)\n")
    assert call("logs", "r1", "-f", code=2)["error"]["code"] == "usage"


def test_a_log_that_is_cut_while_it_is_followed(call: Call, approved: Approved, project: Path) -> None:
    """The supervisor cuts a log to its limit in place; who follows it goes on behind the cut, and is told."""
    approved("echo 0123456789; while [ ! -e go ]; do sleep 0.01; done")
    call("run", "e1")
    while not call("logs", "r1")["text"]:
        pass
    with Lab.open(project) as lab:
        pieces = lab.runs.stream("r1", follow=True)
        assert next(pieces) == "0123456789\n"
        os.truncate(project / ".perpetual/runs/r1/stdout.log", 4)
        (project / "go").touch()
        assert "".join(pieces) == log_reading.CUT


def test_a_run_without_output_says_why(call: Call, approved: Approved) -> None:
    approved("true")
    call("queue", "pause")
    call("run", "e1")
    error = call("logs", "r1", code=5)["error"]
    assert error["code"] == "no_output"
    assert "queued" in error["message"]
    call("kill", "r1")
    assert "it is killed" in call("logs", "r1", code=5)["error"]["message"]


# --- the queue --------------------------------------------------------------------------------------------------------


def test_a_paused_queue_starts_nothing(call: Call, approved: Approved, project: Path) -> None:
    """Runs wait in the order of priority; a scan that starts nothing writes nothing; resumed, scan starts them."""
    approved("true")
    approved("true", "--priority", "7")
    assert call("queue", "pause") == {
        "schema": "perpetual.queue/1",
        "state": "paused",
        "items": [],
        "next_cursor": None,
        "places": [],
        "groups": {},
    }
    waiting = call("run", "e1")
    assert (waiting["status"], waiting["pid"]) == ("queued", None)
    assert "nothing starts" in waiting["hint"]
    assert "perpetual wait" in waiting["hint"]
    assert "paused" in waiting["reason"]
    call("run", "e2")
    assert call("run", "e1", "--dry-run", code=6)["error"]["code"] == "conflict"
    file = project / ".perpetual/store/journal.jsonl"
    before = file.read_bytes()
    assert call("scan")["changes"] == []
    assert file.read_bytes() == before
    queue = call("queue", "--limit", "1")
    assert ([item["id"] for item in queue["items"]], queue["next_cursor"]) == (["r2"], "1")
    (place,) = queue["places"]
    assert (place["run_id"], place["position"], place["priority"]) == ("r2", 1, 7)
    second = call("queue", "--cursor", "1")
    assert [item["id"] for item in second["items"]] == ["r1"]
    assert [(item["run_id"], item["position"], item["priority"]) for item in second["places"]] == [("r1", 2, 0)]
    assert "paused" in second["places"][0]["waits_for"]
    assert call("wait", "r1", "--timeout", "0", code=3)["status"] == "queued"

    assert call("queue", "resume")["state"] == "running"
    assert [(item["run_id"], item["from"]) for item in call("scan")["changes"]] == [("r2", "queued"), ("r1", "queued")]
    assert [item["status"] for item in call("wait", "r1", "r2", "--timeout", "30s")["items"]] == ["done", "done"]
    kinds = [item["payload"]["state"] for item in call("events")["items"] if item["kind"] == "queue_changed"]
    assert kinds == ["paused", "running"]


def test_a_draining_queue_takes_nothing_new(call: Call, approved: Approved) -> None:
    approved("exit 1", "--replicates", "2")
    call("run", "e1", "--wait", code=1)
    call("queue", "drain")
    for arguments in (("run", "e1"), ("run", "e1", "--dry-run"), ("retry", "r1"), ("retry", "r1", "--dry-run")):
        error = call(*arguments, code=7)["error"]
        assert (error["code"], error["hint"]) == ("draining", "perpetual queue resume")
    assert len(call("runs")["items"]) == 1


def test_more_runs_than_may_live_at_once(call: Call, approved: Approved, project: Path) -> None:
    set_key(project, "max_concurrent_runs", "1")
    approved("while [ ! -e go ]; do sleep 0.01; done", "--replicates", "2")
    first, second = call("run", "e1", "--all")["items"]
    assert (first["status"], second["status"]) == ("running", "queued")
    assert "max_concurrent_runs is 1" in second["reason"]
    assert call("status")["runs"]["queued"] == 1
    killed = call("kill", "r2")
    assert (killed["status"], killed["duration_s"]) == ("killed", 0.0)
    assert "taken from the queue" in killed["reason"]
    call("retry", "r2")
    (project / "go").touch()
    assert [item["id"] for item in call("wait", "e1", "--timeout", "30s")["items"]] == ["r1", "r3"]


# --- the budget -------------------------------------------------------------------------------------------------------


def test_a_run_that_exceeds_the_run_hours_is_refused_with_numbers(
    call: Call, approved: Approved, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--all starts what fits, and a refused run leaves no trace."""
    set_key(project, "max_run_hours", "0.25")
    approved("true", "--wall", "20m")
    error = call("run", "e1", code=7)["error"]
    assert error["code"] == "budget"
    assert "0.333 run-hours and 0.250" in error["message"]
    assert "max_run_hours" in error["hint"]
    assert call("run", "e1", "--dry-run", code=7)["error"] == error
    assert call("runs")["items"] == []
    approved("exec sleep 600", "--wall", "6m", "--replicates", "3")
    assert len(call("run", "e2", "--all")["items"]) == 2
    assert run(["run", "e2", "--all"]) == 7
    call("kill", "r1", "--grace", "0")
    capsys.readouterr()
    assert run(["run", "e2", "--all"]) == 0  # what r1 did not use is free again
    assert capsys.readouterr().err == ""


def test_all_tells_what_the_budget_does_not_hold(
    call: Call, approved: Approved, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_key(project, "max_run_hours", "0.015")
    approved("true", "--wall", "36s", "--replicates", "3")
    capsys.readouterr()
    assert run(["run", "e1", "--all"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("r1  running")
    assert err == "2 of 3 replicates do not fit the budget and stay missing\n"


# --- GPUs -------------------------------------------------------------------------------------------------------------

PRETENDER = """
from perpetual.api import Gpu, GpuBackend, Provider, GpuReading, hookimpl

@hookimpl
def perpetual_gpu_backends():
    return [Provider("gpus", "pretended", "pretended_gpus:build", "two devices that are not there")]

class Two(GpuBackend):
    def read(self, deadline_s=5.0):
        return GpuReading("1.0", tuple(
            Gpu(index=n, uuid=f"GPU-{n}", name="P", memory_total_bytes=None, memory_used_bytes=None,
                memory_free_bytes=None, utilization=None, temperature_celsius=None, power_watts=None,
                compute_mode=None, processes=(), healthy=True, error=None) for n in range(2)), None)

def build(options):
    return Two()
"""


@pytest.fixture
def two_gpus(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A backend with two devices, installed as any plugin is: a module and an entry point on the path."""
    site = tmp_path / "site"
    metadata = site / "perpetual_plugin_pretended-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "pretended_gpus.py").write_text(PRETENDER)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: perpetual-plugin-pretended\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[perpetual.plugins]\npretended = pretended_gpus\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    config = project / ".perpetual" / "config.yaml"
    config.write_text(config.read_text().replace("gpus: nvml", "gpus: pretended"))
    yield
    sys.modules.pop("pretended_gpus", None)


@pytest.mark.usefixtures("two_gpus")
def test_gpus_are_leased_and_debited(call: Call, approved: Approved) -> None:
    """Each run sees its own device; who finds none free waits for one and takes the one that was asked for."""
    approved("echo $CUDA_VISIBLE_DEVICES; exec sleep 600", "--gpus", "1", "--replicates", "3", "--wall", "1h")
    call("budget", "set", "4")
    picked = call("run", "e1", "-g", "1")
    assert picked["gpus"] == ["GPU-1"]
    assert call("run", "e1")["gpus"] == ["GPU-0"]
    third = call("run", "e1", "-g", "0")
    assert (third["status"], third["gpus"]) == ("queued", [])
    assert third["reason"] == "needs 1 GPU, 0 of 1 are free: GPU 0 is held by r2"
    while not call("logs", "r1")["text"]:
        pass
    assert call("logs", "r1")["text"] == "GPU-1\n"
    assert call("budget")["reserved_gpu_hours"] == 3.0
    call("kill", "r1", "--grace", "0")
    assert call("scan")["changes"] == []  # the free device is not the one that r3 waits for
    killed = call("kill", "r2", "--grace", "0")
    assert killed["gpu_hours"] == pytest.approx(killed["duration_s"] / 3600) == killed["run_hours"]
    assert call("scan")["changes"][0]["run_id"] == "r3"
    assert call("runs", "r3")["gpus"] == ["GPU-0"]
    spent = call("budget")
    assert 0 < spent["spent_gpu_hours"] < 0.1
    assert spent["reserved_gpu_hours"] == 1.0


@pytest.mark.usefixtures("two_gpus")
def test_the_budget_of_gpu_hours_refuses_with_numbers(call: Call, approved: Approved) -> None:
    approved("true", "--gpus", "2", "--wall", "1h")
    call("budget", "set", "1.5")
    error = call("run", "e1", code=7)["error"]
    assert error["code"] == "budget"
    assert "2.000 GPU-hours and 1.500" in error["message"]
    assert "perpetual budget set" in error["hint"]
    assert call("run", "e1", "-g", "0", code=2)["error"]["code"] == "usage"
    assert call("run", "e1", "-g", "0", "-g", "5", code=2)["error"]["message"] == "there is no GPU 5"
    assert call("runs")["items"] == []
    call("budget", "set", "2")
    assert call("run", "e1", "--wait")["gpus"] == ["GPU-0", "GPU-1"]
