"""Driving a harness in a lab's name: what is chosen, booked, recorded and ended; `perpetual ask` and `perpetual turns`.

The harness is a program without a model (`perpetual_harnesses.testing.agent`), in the place of Claude Code's adapter.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotFound, NotPermitted, PerpetualError, Refused, UsageError
from perpetual.cli.app import run
from perpetual.toolkit import platform
from perpetual_harnesses.asking import asked, turn_named
from perpetual_harnesses.dispatch.base import Limits
from perpetual_harnesses.dispatch.driving import OWN_TOOLS, Driving
from perpetual_harnesses.dispatch.marks import end_lost
from perpetual_harnesses.dispatch.records import SESSION, TURN
from perpetual_harnesses.testing import AGENT, living
from tests.support import until


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is the whole PATH, but for what the shell needs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PERPETUAL_SERVER_WAIT_S", "0")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


def install(folder: Path, name: str, way: str, behaviour: str) -> None:
    """Puts a program there that is the scripted harness."""
    file = folder / name
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{AGENT}" {way} {behaviour}\n')
    file.chmod(0o755)


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


def used(lab: Lab) -> dict[str, float]:
    return {name: lab.budget.used_of_day(name) for name in ("calls", "tokens", "usd")}


def test_a_question_is_answered_recorded_and_debited(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")
    found = asked(lab, "What is the answer?")
    assert (found["outcome"], found["text"]) == ("server_missing", "The answer is 42. (prompt 1)")
    assert (found["harness"], found["dispatcher"], found["tokens"], found["cost"]) == ("claude-code", "acp", 15, 0.25)
    assert used(lab) == {"calls": 1, "tokens": 15, "usd": 0.25}
    assert turn_named(lab, found["id"]) == found


def test_the_server_of_the_lab_is_handed_over(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "server")
    assert asked(lab, "What is the answer?")["outcome"] == "done"


def test_a_session_goes_on_and_its_sum_is_not_debited_twice(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "sums")
    with pytest.raises(NotFound, match="no session"):
        asked(lab, "And?", go_on=True)
    first = asked(lab, "What is the answer?")
    second = asked(lab, "And?", go_on=True)
    assert second["session_id"] == first["session_id"]
    assert second["text"].endswith("(prompt 2)")
    assert used(lab)["usd"] == pytest.approx(0.5)
    (session,) = lab.records(SESSION).find()
    assert (session["turns"], session["usd"]) == (2, 0.5)
    with pytest.raises(Conflict, match="is of claude-code"):
        Driving(lab).drive("And?", session=session, harness="codex")


def test_what_is_unknown_stays_booked(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "unknown")
    turn = Driving(lab).drive("?", with_lab=False, limits=Limits(30.0, tokens=1000, usd=0.5))
    assert (turn["outcome"], turn["tokens_in"], turn["usd"]) == ("usage_unknown", None, None)
    assert used(lab) == {"calls": 1, "tokens": 1000, "usd": 0.5}


def test_a_cap_of_the_day_starts_nothing(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")
    assert run(["methodology", "set", "max_calls_per_day", "1"]) == 0
    lab.config.refresh()
    asked(lab, "?")
    with pytest.raises(Refused) as caught:
        asked(lab, "?")
    assert caught.value.code == "budget_of_day"
    assert [turn["outcome"] for turn in lab.records(TURN).find()] == ["server_missing", "budget_cut"]
    assert lab.records(TURN).find()[1]["state"] == "refused"


def test_the_second_call_with_a_key_is_the_first_ones_turn(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")
    first = asked(lab, "?", idempotency_key="one")
    assert asked(lab, "?", idempotency_key="one")["id"] == first["id"]
    with pytest.raises(Conflict, match="another prompt"):
        asked(lab, "And?", idempotency_key="one")
    assert used(lab)["calls"] == 1


def test_policy_is_never_more_than_the_projects(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "ask")
    refused = asked(lab, "?", allow=["execute"])
    assert refused["refused"] == ["rm -rf data"]
    assert "permission_refused" in refused["outcomes"]
    assert run(["config", "set", "plugins.harnesses.allow", '["execute"]']) == 0
    lab.config.refresh()
    assert asked(lab, "?", allow=["read"])["refused"] == ["rm -rf data"]
    assert asked(lab, "?", allow=["execute"])["refused"] == []
    assert Driving(lab).allowed() == {"execute"}
    with pytest.raises(UsageError, match="did you mean execute"):
        asked(lab, "?", allow=["exec"])


def test_a_list_of_permissions_that_came_with_a_project_does_not_count(project: Path, programs: Path) -> None:
    config = project / ".perpetual/config.yaml"
    own = "plugins:\n  harnesses:\n    allow: [execute]\n    command: [sh, -c, 'touch x']\n"
    config.write_text(config.read_text().replace("plugins:\n", own, 1))
    with Lab.open(project) as lab:
        assert Driving(lab).allowed() == frozenset()
        assert "command" not in [one.row.name for one in Driving(lab).harnesses()]


def test_nothing_is_driven_in_a_held_project(
    project: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "another user"))
    with Lab.open(project) as lab, pytest.raises(NotPermitted) as caught:
        asked(lab, "?")
    assert caught.value.code == "not_trusted"


def test_a_driven_agent_drives_no_other(lab: Lab, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")
    monkeypatch.setenv("PERPETUAL_DISPATCH", "x")
    with pytest.raises(NotPermitted, match="cannot drive another"):
        asked(lab, "?")


def test_what_can_be_driven_is_chosen(lab: Lab, programs: Path) -> None:
    with pytest.raises(NotFound) as caught:
        Driving(lab).choose()
    assert caught.value.code == "harness_not_installed"
    assert "npm install -g opencode-ai" in str(caught.value.hint)
    install(programs, "codex-acp", "acp", "answer")
    assert Driving(lab).choose().row.name == "codex"
    install(programs, "opencode", "acp", "answer")
    (lab.root / ".opencode").mkdir()
    assert Driving(lab).choose().row.name == "opencode"
    lab.scaffold(["codex"])
    assert Driving(lab).choose().row.name == "codex"
    with pytest.raises(NotFound, match="claude-code cannot be driven: claude is not installed"):
        Driving(lab).choose("claude-code")
    with pytest.raises(NotFound, match="did you mean codex"):
        Driving(lab).choose("codx")


@pytest.mark.parametrize("session", ["--yolo", "a b", "x\n", ""])
def test_a_session_is_never_an_option_of_a_command(lab: Lab, programs: Path, session: str) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")
    record = lab.records(SESSION).add(harness="claude-code", session=session or "-", purpose="ask", dispatcher="acp",
                                      turns=1)  # fmt: skip
    with pytest.raises(UsageError, match="cannot be the name of a session"):
        Driving(lab).drive("?", session=record)
    with pytest.raises(UsageError, match="cannot be the name of a model"):
        Driving(lab).drive("?", model="--dangerously-skip-permissions")
    for prompt in ("", " \n", "x" * (1 << 20) + "x"):
        with pytest.raises(UsageError, match="the prompt is"):
            Driving(lab).drive(prompt)
    assert lab.records(TURN).find() == []


def test_any_command_is_a_harness(lab: Lab, programs: Path) -> None:
    words = json.dumps([sys.executable, "-c", "print(input() + '!')"])
    assert run(["config", "set", "plugins.harnesses.command", words]) == 0
    lab.config.refresh()
    found = asked(lab, "hear me", harness="command")
    assert (found["text"], found["dispatcher"]) == ("hear me!", "argv")
    assert found["outcomes"] == ["server_missing", "usage_unknown"]
    record = lab.records(SESSION).add(harness="command", session="s1", purpose="ask", dispatcher="argv", turns=1)
    with pytest.raises(PerpetualError, match="cannot go on with a session"):
        Driving(lab).drive("?", session=record)
    assert lab.records(TURN).find()[-1]["state"] == "refused"


@pytest.mark.slow
@pytest.mark.parametrize("is_watched", [True, False], ids=["alone", "with its watch"])
def test_what_a_killed_driver_has_left_is_ended(project: Path, programs: Path, is_watched: bool) -> None:
    """By the watch at once; where that was killed too, by the next turn."""
    install(programs, "claude-agent-acp", "acp", "hang")
    process = subprocess.Popen([sys.executable, "-P", "-m", "perpetual", "ask", "?"], cwd=project,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    with Lab.open(project) as lab:
        until(lambda: lab.records(TURN).find(state="going"))
        mark = str(lab.records(TURN).find(state="going")[0]["mark"])
        until(lambda: len(living(mark)) >= 2)
        (watch,) = [one for one in psutil.Process(process.pid).children() if mark in one.cmdline()]
        if not is_watched:
            watch.kill()
        process.send_signal(signal.SIGKILL)
        process.wait()
        if is_watched:
            until(lambda: living(mark) == [], "the watch has ended nothing")
        else:
            assert len(living(mark)) >= 1
        install(programs, "claude-agent-acp", "acp", "answer")
        asked(lab, "?")
        assert living(mark) == []
        assert [turn["state"] for turn in lab.records(TURN).find()] == ["lost", "ended"]
        assert used(lab)["calls"] == 2
    assert end_lost() == []


@pytest.mark.slow
def test_a_run_that_a_driven_harness_starts_outlives_the_turn(project: Path, programs: Path) -> None:
    words = json.dumps(["sh", "-c", f"cat >/dev/null; {sys.executable} -P -m perpetual run e1"])
    assert run(["config", "set", "plugins.harnesses.command", words]) == 0
    with Lab.open(project) as lab:
        made = lab.experiments.propose(command="sleep 600", metric="loss", direction="min")
        lab.experiments.approve(made.id)
        found = asked(lab, "start it", harness="command")
        assert "r1" in found["text"], found
        lab.scan()
        try:
            assert lab.runs.get("r1").status == "running"
            assert found["left"] == []
        finally:
            lab.runs.kill("r1")


def test_ask_on_the_command_line(project: Path, programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(programs, "claude-agent-acp", "acp", "server")
    assert run(["ask", "What is the answer?", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"text", "session_id", "tokens", "cost", "tools"} <= found.keys()
    assert "error" not in found
    assert run(["ask", "--continue", "And?"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "The answer is 42. (prompt 2)\n"
    assert "15 tokens" in captured.err
    assert run(["turns", "list", "--json"]) == 0
    assert [item["id"] for item in json.loads(capsys.readouterr().out)["items"]] == ["turn-2", "turn-1"]
    assert run(["turns", "show", "turn-1"]) == 0
    assert "The answer is 42" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("behaviour", "status", "code"),
    [
        ("login", 4, "auth_required"),
        ("die", 3, "broken_stream"),
        ("ask", 3, "server_missing"),
        ("silent", 1, "no_answer"),
    ],
)
def test_a_failure_has_its_name_and_exit_status(
    project: Path, programs: Path, capsys: pytest.CaptureFixture[str], behaviour: str, status: int, code: str
) -> None:
    install(programs, "claude-agent-acp", "acp", behaviour)
    assert run(["ask", "?", "--json"]) == status
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["error"]["code"], found["error"]["exit"]) == (code, code, status)


@pytest.mark.slow
def test_a_question_that_is_interrupted_is_cancelled(project: Path, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "hang")
    process = subprocess.Popen([sys.executable, "-P", "-m", "perpetual", "ask", "?", "--json"], cwd=project,
                               stdout=subprocess.PIPE)  # fmt: skip
    with Lab.open(project) as lab:
        until(lambda: lab.records(TURN).find(state="going"))
        mark = str(lab.records(TURN).find(state="going")[0]["mark"])
        until(lambda: len(living(mark)) >= 2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 130
        assert json.loads(out)["outcome"] == "cancelled"
        assert living(mark) == []


@pytest.mark.slow
def test_turns_without_number_leave_no_process(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "leave")
    for _ in range(3):
        turn = Driving(lab).drive("?", with_lab=False)
        assert living(str(turn["mark"])) == []
        assert turn["outcome"] == "leftover_processes"


@pytest.mark.slow
def test_of_two_calls_with_a_key_one_begins(project: Path, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "hang")
    words = [sys.executable, "-P", "-m", "perpetual", "ask", "?", "--idempotency-key", "k", "--timeout", "6"]
    both = [subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=60)[1] for process in both]
    assert sorted(process.returncode for process in both) == [6, 7], said
    with Lab.open(project) as lab:
        assert len(lab.records(TURN).find()) == 1
        assert used(lab)["calls"] == 1


def test_a_session_is_driven_once_at_a_time(lab: Lab, programs: Path) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")
    first = asked(lab, "?")
    me = platform.identity_of(os.getpid())
    assert me is not None
    lab.records(TURN).add(harness="claude-code", dispatcher="acp", purpose="ask", mark="x", driver=[*me], state="going",
                          session=first["session_id"])  # fmt: skip
    with pytest.raises(Conflict, match="of this session goes on"):
        asked(lab, "And?", go_on=True)


def test_an_answer_that_cannot_be_recorded_is_shown(
    project: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(programs, "claude-agent-acp", "acp", "answer")

    def fail(*_: object, **__: object) -> None:
        raise PerpetualError("the disk is full")

    monkeypatch.setattr("perpetual.lab.budget.Budget.reconcile", fail)
    assert run(["ask", "?"]) == 1
    captured = capsys.readouterr()
    assert "The answer is 42" in captured.out
    assert "could not be recorded: the disk is full" in captured.err


def test_a_program_of_the_project_is_named(lab: Lab, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(lab.root, "claude-agent-acp", "acp", "answer")
    monkeypatch.setenv("PATH", f"{lab.root}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(NotFound, match="lies in the project and is not started"):
        Driving(lab).choose()


def test_the_tools_of_the_lab_are_known() -> None:
    from perpetual_mcp.tools import TOOLS

    assert set(OWN_TOOLS) == {tool.name for tool in TOOLS}
