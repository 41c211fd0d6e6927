"""`perpetual auth` and `perpetual chat`: who is logged in, and the terminal for a coding agent."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_harnesses.login import logins


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is the whole PATH, but for what the shell needs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return folder


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def states(project: Path) -> dict[str, tuple[bool, bool | None, str | None]]:
    with Lab.open(project) as lab:
        return {one["harness"]: (one["installed"], one["signed_in"], one["how"]) for one in logins(lab)}


def test_each_harness_is_asked_by_its_own_command(
    project: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs, "claude", 'test "$*" = "auth status" && echo \'{"loggedIn": true}\'')
    program(programs, "codex", 'test -z "$CLAUDECODE" && echo "Not logged in"; exit 1')
    program(programs, "opencode", "echo '0 credentials'")
    monkeypatch.setenv("CLAUDECODE", "1")
    found = states(project)
    assert found["claude-code"] == (True, True, "claude auth status")
    assert found["codex"] == (True, False, "codex login status")
    assert found["opencode"] == (True, False, "opencode auth list")
    assert found["cursor"] == (False, None, None)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert states(project)["codex"] == (True, True, "OPENAI_API_KEY is set")


def test_a_program_of_the_project_is_not_started(
    project: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(project, "claude", "touch started; echo '\"loggedIn\": true'")
    monkeypatch.setenv("PATH", f"{project}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert states(project)["claude-code"][1] is None
    assert run(["chat", "--json"]) == 5
    assert run(["ask", "?", "--json"]) == 5
    assert not (project / "started").exists()


def test_a_command_that_hangs_is_not_known(project: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perpetual_harnesses.login.ASKED_FOR_S", 0.3)
    program(programs, "claude", "sleep 600")
    assert states(project)["claude-code"] == (True, None, "claude auth status")


def test_auth_on_the_command_line(project: Path, programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(programs, "claude", "echo '\"loggedIn\": false'")
    assert run(["auth"]) == 0
    shown = capsys.readouterr().out
    assert "perpetual auth login claude-code" in shown
    assert "npm install -g @openai/codex" in shown
    assert run(["auth", "--json"]) == 0
    assert {item["harness"] for item in json.loads(capsys.readouterr().out)["items"]} >= {"claude-code", "codex"}


def test_what_would_be_started_is_said(project: Path, programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chat", "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "harness_not_installed"
    program(programs, "codex", "true")
    assert run(["chat", "--json", "--", "--model", "x"]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == [str(programs / "codex"), "--model", "x"]
    assert run(["auth", "login", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == [str(programs / "codex"), "login"]
    assert run(["chat"]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_chat_becomes_the_agent_at_a_terminal(project: Path, programs: Path) -> None:
    program(programs, "codex", 'echo "here $PWD $1 [$CLAUDECODE]"')
    leader, follower = pty.openpty()
    (project / "below").mkdir()
    words = [sys.executable, "-P", "-m", "perpetual", "chat", "--harness", "codex", "--", "hello"]
    done = subprocess.run(words, stdin=follower, stdout=follower, stderr=follower, cwd=project / "below", timeout=60,
                          check=False, env={**os.environ, "CLAUDECODE": "1"})  # fmt: skip
    assert done.returncode == 0
    said = os.read(leader, 10_000).decode()
    os.close(leader)
    os.close(follower)
    assert f"here {project} hello []" in said.replace("\r\n", "")
