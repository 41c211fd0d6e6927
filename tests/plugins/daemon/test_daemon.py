"""`perpetual daemon` as a person runs it: real processes, real runs, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual_daemon.testing import claim
from tests.support import LONG_S, until

WORDS = [sys.executable, "-P", "-m", "perpetual", "daemon"]
QUICK = "sh -c 'echo acc=1.5$PERPETUAL_SEED'"
Starter = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    opened = Lab.open(project)
    yield opened
    opened.queue.set_state("paused")
    for run in opened.runs.live():
        opened.runs.kill(run.id, grace_s=0.0)
    opened.close()


@pytest.fixture
def started() -> Iterator[Starter]:
    """Starts daemons; each has ended when the test is over."""
    processes: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*WORDS, "--json", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
    done = subprocess.run([*WORDS, "--json", *words], capture_output=True, text=True, timeout=LONG_S, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def _end(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    out, err = process.communicate(timeout=LONG_S)
    lines = out.splitlines()
    return process.returncode, json.loads(lines[-1]) if lines else {"error": err}


def _is_up(lab: Lab) -> bool:
    return lab.services.status("daemon")["state"] == "running"


def test_it_decides_a_campaign_and_ends(lab: Lab) -> None:
    claim(lab)
    code, lines, _ = _run()
    assert (code, lines[-1]["schema"], lines[-1]["reason"]) == (0, "perpetual.daemon_exit/1", "all_decided")
    assert [line["schema"] for line in lines[:-1]] == ["perpetual.daemon_cycle/1"] * (len(lines) - 1)
    assert [line["cycle"] for line in lines[:-1]] == [*range(1, len(lines))]
    assert [run for line in lines[:-1] for run in line["launched"]] == ["r1", "r2"]
    assert lab.hypotheses.list().items[0].status == "supported"
    assert len([event for event in lab.feed.read() if event.kind == "loop_stopped"]) == 1


@pytest.mark.slow
def test_an_end_wakes_it(lab: Lab, started: Starter) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")
    claim(lab, replicates=3)
    code, end = _end(started("--interval", "3600"))  # nothing but a wake makes it turn
    assert (code, end["reason"]) == (0, "all_decided")
    assert end["cycles"] < 8  # no turn that nothing was heard for


@pytest.mark.slow
def test_a_change_of_the_record_wakes_it(lab: Lab, started: Starter) -> None:
    made = claim(lab, approve=False)
    process = started("--interval", "3600", "--wait")
    until(lambda: [event for event in lab.feed.read() if event.kind == "daemon.waits"], "it does not say that it waits")
    lab.experiments.approve(made)
    assert _end(process)[0] == 0
    events = [event.payload for event in lab.feed.read() if event.kind == "daemon.waits"]
    assert [event["reason"] for event in events] == ["waiting_for_approval"]


@pytest.mark.slow
def test_a_changed_file_wakes_it_and_acts(lab: Lab, started: Starter) -> None:
    claim(lab, approve=False)
    process = started("--interval", "3600", "--wait")
    until(lambda: [event for event in lab.feed.read() if event.kind == "daemon.waits"])
    lab.settings.set_methodology("auto_approve", "true")
    code, end = _end(process)
    assert (code, end["reason"]) == (0, "all_decided")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("methodology.yaml", "alpha: [\n"),
        ("methodology.yaml", "exploration_strategy: nonsense\n"),
        ("config.yaml", "slots:\n  loop: nonsense\n"),
    ],
)
def test_a_broken_file_holds_it_until_it_is_mended(lab: Lab, started: Starter, name: str, text: str) -> None:
    claim(lab)
    lab.queue.set_state("paused")
    process = started("--interval", "3600", "--stay")
    until(lambda: [event for event in lab.feed.read() if event.kind == "daemon.waits"])
    assert [event.payload["reason"] for event in lab.feed.read() if event.kind == "daemon.waits"] == ["stop_requested"]
    path = lab.root / ".perpetual" / name
    whole = path.read_text("utf-8")
    path.write_text(text if text.startswith("alpha") else whole + text, "utf-8")
    if name == "config.yaml":
        path.write_text(whole.replace("slots:\n", text, 1) if "slots:\n" in whole else whole + text, "utf-8")
    lab.queue.set_state("running")
    until(lambda: "cannot go on now" in str(lab.services.status("daemon")["health"]), "it does not say what is wrong")
    assert process.poll() is None
    path.write_text(whole, "utf-8")
    until(lambda: lab.hypotheses.list().items[0].status == "supported", "it does not go on")
    os.kill(process.pid, signal.SIGTERM)
    assert _end(process)[0] == 0


@pytest.mark.slow
def test_it_ends_by_term_and_runs_go_on(lab: Lab, started: Starter) -> None:
    claim(lab, command="sleep 60", replicates=1)
    process = started()
    until(lambda: _is_up(lab) and [run for run in lab.runs.live() if run.status == "running"])
    process.send_signal(signal.SIGTERM)
    code, end = _end(process)
    assert (code, end["reason"]) == (0, "stop_requested")
    lab.scan()
    assert [run.status for run in lab.runs.live()] == ["running"]


@pytest.mark.slow
def test_a_second_one_is_refused(lab: Lab, started: Starter) -> None:
    started("--stay")
    until(lambda: _is_up(lab))
    code, lines, _ = _run()
    assert (code, len(lines)) == (6, 1)
    assert "runs already" in lines[0]["error"]["message"]


@pytest.mark.slow
def test_a_killed_one_is_followed_and_nothing_is_done_twice(lab: Lab, started: Starter) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")
    claim(lab, replicates=4)
    lab.settings.set_methodology("min_replicates", "4")
    for _ in range(3):
        process = started()
        until(lambda: _is_up(lab))
        time.sleep(0.2)
        process.kill()
        process.communicate()
    assert _end(started())[0] == 0
    assert sorted(run.replicate for run in lab.runs.list().items) == [1, 2, 3, 4]
    assert len([row for row in lab.evidence.list(limit=100).items if row.kind == "measured"]) == 4
    assert lab.storage.verify() == []
    assert [event.seq for event in lab.feed.read()] == [*range(1, lab.feed.last() + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "words", "code", "reason"),
    [
        ({}, [], 0, "queue_empty"),
        ({"claim": {"approve": False}}, [], 4, "waiting_for_approval"),
        ({"claim": {"wall_s": 3600.0}, "max_run_hours": "0.01"}, [], 7, "budget_exhausted"),
        ({"claim": {"command": "sh -c 'exit 3'", "replicates": 5}}, [], 9, "failure_rate"),
        ({"claim": {"command": "sleep 60"}}, ["--max-cycles", "2", "--interval", "0.1"], 0, "max_cycles"),
        ({"claim": {"command": "sleep 60"}}, ["--once"], 0, "max_cycles"),
        ({"claim": {"command": "sleep 60"}}, ["--require-llm"], 3, "harness_down"),
    ],
)
def test_every_reason_has_its_status(lab: Lab, given: dict[str, Any], words: list[str], code: int, reason: str) -> None:
    for key, value in given.items():
        if key != "claim":
            lab.settings.set_methodology(key, value)
    if "claim" in given:
        claim(lab, **given["claim"])
    found, lines, _ = _run(*words)
    assert (found, lines[-1]["reason"]) == (code, reason)
    assert lines[-1]["explanation"]
    stops = [event.payload["reason"] for event in lab.feed.read() if event.kind == "loop_stopped"]
    assert stops == [reason]


@pytest.mark.slow
def test_it_stays_where_nothing_is_to_do(lab: Lab, started: Starter) -> None:
    process = started("--stay", "--interval", "3600")
    until(lambda: [event for event in lab.feed.read() if event.kind == "daemon.waits"])
    with lab.together():  # or it would see the proposal before it is approved
        made = claim(lab)
    until(lambda: lab.hypotheses.list().items[0].status == "supported", f"{made} is not decided")
    lab.services.stop("daemon")
    code, end = _end(process)
    assert (code, end["reason"]) == (0, "stop_requested")
    said = [event.payload["reason"] for event in lab.feed.read() if event.kind == "daemon.waits"]
    assert said == ["queue_empty", "all_decided"]  # each once


@pytest.mark.slow
def test_a_detached_one_is_started_again_after_a_crash(lab: Lab) -> None:
    claim(lab, command="sleep 60", replicates=1)
    code, lines, _ = _run("--detach")
    try:
        assert (code, lines[0]["schema"], lines[0]["state"]) == (0, "perpetual.daemon_status/1", "running")
        first = lines[0]["pid"]
        os.kill(first, signal.SIGKILL)
        until(lambda: _is_up(lab) and lab.services.status("daemon")["pid"] != first, "it was not started again")
        until(lambda: lab.runs.list().items, "the run was not started")
        assert _run("--detach")[0] == 6
    finally:
        code, lines, _ = _run_sub("stop")
    assert (code, lines[0]["state"], lines[0]["keeper"]) == (0, "stopped", None)
    lab.scan()
    assert [run.status for run in lab.runs.list().items] == ["running"]


@pytest.mark.slow
def test_a_detached_one_keeps_the_options_of_the_program(lab: Lab) -> None:
    """`--safe` stands before the command, in the process that the keeper starts too."""
    done = subprocess.run([*WORDS[:-1], "--safe", "daemon", "--detach", "--stay", "--json"], capture_output=True,
                          text=True, timeout=LONG_S, check=False)  # fmt: skip
    try:
        assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "running"), done.stdout
    finally:
        _run_sub("stop")


def _run_sub(*words: str) -> tuple[int, list[dict[str, Any]], str]:
    command = [*WORDS, words[0], "--json", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.slow
def test_its_log_is_shown(lab: Lab) -> None:
    claim(lab)
    _run()
    code, lines, _ = _run_sub("logs", "-n", "2")
    assert code == 0
    assert [line["schema"] for line in lines] == ["perpetual.daemon_log/1"] * 2
    assert lines[-1]["reason"] == "all_decided"
    path = lab.root / ".perpetual" / "services" / "daemon.jsonl"
    path.write_bytes(path.read_bytes() + b'{"cut')  # as a crash leaves it
    assert _run_sub("logs", "-n", "1")[1] == lines[-1:]


@pytest.mark.slow
def test_a_rehearsal_changes_nothing(lab: Lab) -> None:
    lab.settings.set_methodology("auto_approve", "true")
    waiting, ready = claim(lab, approve=False), claim(lab)
    before = lab.feed.last()
    code, lines, _ = _run("--dry-run")
    assert code == 0
    assert lines[0]["would_approve"] == [waiting]
    assert ready in lines[0]["ready"]
    assert (lab.feed.last(), lab.runs.list().items) == (before, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once", "--max-cycles", "2"], "--once"),
        (["--require-llm", "--harness", "none"], "--require-llm"),
        (["--interval", "soon"], "--interval"),
        (["--max-cycles", "0"], "max-cycles"),
        (["--harness", "no-such-thinker"], "no-such-thinker"),
    ],
)
def test_what_makes_no_sense_is_refused(lab: Lab, words: list[str], said: str) -> None:
    code, lines, error = _run(*words)
    assert code in (2, 3)
    assert said in error + str(lines) or "thinkers" in str(lines)
    assert lab.feed.last() == 1


@pytest.mark.slow
def test_an_agent_does_not_start_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    for words in ([], ["--detach"]):
        code, lines, _ = _run(*words)
        assert (code, lines[0]["error"]["code"]) == (4, "not_permitted"), lines
    assert _run_sub("install")[0] == 4
    assert lab.runs.list().items == ()


@pytest.mark.slow
def test_the_queue_is_moved_by_one_process(lab: Lab, started: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "true")
    claim(lab, replicates=2)
    assert _end(started())[0] == 0
    folder = lab.root / ".perpetual" / "dispatch"
    assert [name for name in os.listdir(folder) if name.startswith("wake-")] == []
    assert sorted(run.replicate for run in lab.runs.list().items) == [1, 2]
