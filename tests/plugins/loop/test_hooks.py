"""`perpetual hook`: what Claude Code and Codex call, with the JSON that they write, in processes of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Harness
from perpetual.cli.app import run
from perpetual.toolkit.agents import DISPATCH
from perpetual_harnesses.template import claude_code, codex
from perpetual_loop.handover import handovers
from perpetual_loop.harness_hook import HarnessHook
from perpetual_loop.hooks import build_prompt, build_stop
from perpetual_loop.lease import arm, lease_of, owner
from perpetual_loop.testing import HarnessHookContract


class TestPrompt(HarnessHookContract):
    @pytest.fixture
    def harness_hook(self) -> HarnessHook:
        return build_prompt({})


class TestStop(HarnessHookContract):
    @pytest.fixture
    def harness_hook(self) -> HarnessHook:
        return build_stop({})


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers the loss")
        yield lab


def _call(name: str, event: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the hook with what a harness writes to its standard input."""
    said = event if isinstance(event, str) else json.dumps(event)
    return subprocess.run(
        [sys.executable, "-m", "perpetual", "hook", name], input=said, capture_output=True, text=True, timeout=60,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def _prompted(lab: Lab, prompt: str, session: str = "s-1", **more: str) -> str:
    answer = build_prompt({}).answer(lab, {"session_id": session, "prompt": prompt, **more})
    assert answer is not None
    output: Any = answer["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    return str(output["additionalContext"])


def _stopped(lab: Lab, session: str = "s-1", **more: object) -> Mapping[str, object] | None:
    return build_stop({}).answer(lab, {"session_id": session, "hook_event_name": "Stop", **more})


def test_auto_goes_on_as_asked_and_leaves_a_handover(lab: Lab) -> None:
    """As the harnesses call it."""
    armed = _call("user-prompt", {"session_id": "s-1", "prompt": "/auto 1", "hook_event_name": "UserPromptSubmit"})
    context = json.loads(armed.stdout)["hookSpecificOutput"]["additionalContext"]
    assert context.startswith("# The state of the research")
    assert context.endswith("1 times at most, for as long as the record moves and something is left that is not a "
                            "person's to do. Make one round a turn.")  # fmt: skip
    event = {"session_id": "s-1", "hook_event_name": "Stop", "last_assistant_message": "I added h2."}
    lab.hypotheses.add("another")
    first = _call("stop", event)
    assert json.loads(first.stdout)["decision"] == "block"
    assert json.loads(first.stdout)["reason"].startswith("Go on with the next round of /auto (0 left after it)")
    lab.hypotheses.add("a third")
    last = _call("stop", {**event, "stop_hook_active": True})
    assert (last.returncode, last.stdout, last.stderr) == (0, "", "")
    (found,) = handovers(lab)
    assert found.last_words == "I added h2."
    assert found.armed is not None
    assert found.armed.endswith("; ended: 1 of 1 further round made")


def test_an_active_daemon_and_another_session_are_named_to_the_agent(lab: Lab) -> None:
    arm(lab, "d-1", harness="daemon", rounds=None)
    assert "/auto is not in force: the daemon owns the loop until" in _prompted(lab, "/auto")
    assert _stopped(lab) is None
    found = owner(lab)
    assert found is not None
    assert found.session == "d-1"


def test_another_prompt_of_the_person_ends_it(lab: Lab) -> None:
    _prompted(lab, "/auto 5")
    assert "/auto has ended: the person wrote something else" in _prompted(lab, "what is h1?")
    assert owner(lab) is None
    _prompted(lab, "/auto 5")
    assert "/auto has ended: the person stopped it" in _prompted(lab, "/stop")
    _prompted(lab, "/auto 5")
    assert "has ended" not in _prompted(lab, "what is h1?", session="of another")
    assert "has ended" not in _prompted(lab, "<task-notification>a task ended</task-notification>")
    assert owner(lab) is not None


def test_any_prompt_of_an_armed_session_passes_the_fast_path(lab: Lab) -> None:
    _prompted(lab, "/auto 5")
    lab.status()  # kept
    done = _call("user-prompt", {"session_id": "s-1", "prompt": "what is h1?"})
    assert "/auto has ended" in done.stdout
    assert owner(lab) is None


def test_the_harness_is_known_by_its_event(lab: Lab) -> None:
    _prompted(lab, "$perpetual-auto 2", turn_id="t-1")
    found = lease_of(lab)
    assert found is not None
    assert (found.harness, found.rounds) == ("codex", 2)


def test_a_session_that_was_not_armed_ends_its_turn(lab: Lab) -> None:
    lab.status()
    assert _stopped(lab, last_assistant_message="done") is None
    assert [one.last_words for one in handovers(lab)] == ["done"]
    assert _stopped(lab, last_assistant_message="of a turn that did other work") is None
    assert [one.last_words for one in handovers(lab)] == ["done"]


def test_the_end_of_a_subagent_is_none_of_the_session(lab: Lab) -> None:
    _prompted(lab, "/auto 5")
    lab.hypotheses.add("another")
    assert build_stop({}).answer(lab, {"session_id": "s-1", "hook_event_name": "SubagentStop"}) is None
    found = owner(lab)
    assert found is not None
    assert found.rounds_left == 5


@pytest.mark.parametrize("name", ["stop", "user-prompt", "session-start", "of-tomorrow"])
def test_hooks_are_silent_where_the_lab_drives_the_harness(lab: Lab, name: str) -> None:
    done = _call(name, {"session_id": "s-1", "prompt": "/auto"}, **{DISPATCH: "c-1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert owner(lab) is None


@pytest.mark.parametrize("arguments", [["stop"], ["of-tomorrow"], [], ["stop", "--new-option"], ["stop", "x"]])
def test_an_error_is_said_on_standard_error_alone(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Exit 2 of a Stop hook has Claude Code go on."""
    (project / ".perpetual" / "config.yaml").write_text("store: [")
    assert run(["hook", *arguments]) == 0
    assert run(["--json", "hook", *arguments]) == 0
    assert run(["hook", *arguments, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("no answer of perpetual hook: ")


@pytest.mark.parametrize("said", ["", "{", "[1]", "null", '{"session_id": 1}', "[" * 100_000, '{"prompt": "/auto"}'])
def test_what_is_no_event_arms_nothing(lab: Lab, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from perpetual.cli import fastpath

    for name in ("stop", "user-prompt"):
        monkeypatch.setattr(fastpath, "_input", [said.encode()])
        assert run(["hook", name]) == 0
    assert owner(lab) is None


def test_outside_of_a_project_it_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = _call("stop", {"session_id": "s-1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_HARNESS = """
import subprocess, sys
said = subprocess.run(["sh", "-c", sys.argv[1] + " || true"], input=sys.argv[2].encode(), stdout=subprocess.PIPE)
print("called", flush=True)
input()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_killed_harness_frees_the_loop_at_once(lab: Lab, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.symlink_to(sys.executable)
    hook = f"{shlex.quote(sys.executable)} -m perpetual hook user-prompt"
    event = json.dumps({"session_id": "s-1", "prompt": "/auto 5"})
    words = [str(program), "-I", "-S", "-c", _HARNESS, hook, event]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "called\n"
        found = owner(lab)
        assert found is not None
        assert (found.session, found.process and found.process.pid) == ("s-1", harness.pid)
        harness.kill()
        harness.wait()
    assert owner(lab) is None
    lab.hypotheses.add("another")
    assert _stopped(lab) is not None  # the session was resumed in another process


# --- what init writes, and other versions of the program ------------------------------------------------------------

_OLD = """#!/bin/sh
case "$2" in
  session-start | user-prompt) echo '{"hookSpecificOutput": {}}';;
  *) echo "error: unknown hook '$2'" >&2; exit 2;;
esac
"""  # what a version that does not know the name answers


def _commands(harness: Harness, program: str) -> dict[str, str]:
    plans = harness.scaffold(project="p", command=(program,)).files
    found: dict[str, str] = {}
    for plan in plans:
        if plan.keys[:1] == ("hooks",):
            item: Any = plan.value
            found[plan.keys[1]] = item[0]["hooks"][0]["command"]
    return found


@pytest.mark.parametrize("build", [claude_code, codex])
@pytest.mark.parametrize("is_there", [True, False], ids=["older", "missing"])
def test_a_scaffolded_stop_is_harmless_beside_an_older_program(build: Any, is_there: bool, tmp_path: Path) -> None:
    """Whichever version wrote the scaffold, a colleague may have another one, or none."""
    program = tmp_path / "my tools" / "perpetual"
    program.parent.mkdir()
    if is_there:
        program.write_text(_OLD)
        program.chmod(0o755)
    commands = _commands(build({}), str(program))
    assert shlex.split(commands["Stop"])[:3] == [str(program), "hook", "stop"]
    for shell in ("sh", "bash"):
        done = subprocess.run(
            [shell, "-c", commands["Stop"]], input="{}", capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("build", [claude_code, codex])
def test_other_hooks_have_names_that_older_programs_know(build: Any) -> None:
    names = {event: command.split()[2] for event, command in _commands(build({}), "perpetual").items()}
    assert names.pop("Stop") == "stop"
    assert {*names.values()} <= {"user-prompt", "session-start"}
