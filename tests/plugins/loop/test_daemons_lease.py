"""The daemon's lease is the daemon's: no session, hook or command by its name renews it, uses it or gives it back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.platform import identity_of
from perpetual_loop.hooks import PromptHook, StopHook
from perpetual_loop.lease import DAEMON, arm, owner
from perpetual_loop.rounds import decide

SESSION = "daemon/host/1"


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        arm(opened, SESSION, harness=DAEMON, rounds=None, process=identity_of(os.getpid()))
        yield opened


def test_no_session_goes_on_by_it(lab: Lab) -> None:
    before = owner(lab)
    assert decide(lab, SESSION).reason == "not_armed"
    assert StopHook().answer(lab, {"session_id": SESSION}) is None
    assert "has ended" not in str(PromptHook().answer(lab, {"session_id": SESSION, "prompt": "hello"}))
    assert owner(lab) == before


@pytest.mark.parametrize(
    ("words", "status"),
    [(("stop", "--session", SESSION), 6), (("stop",), 6), (("start", "--session", "x", "--harness", "daemon"), 2),
     (("start", "--session", "daemon/x/1"), 2)],
)  # fmt: skip
def test_no_command_takes_it(lab: Lab, words: tuple[str, ...], status: int) -> None:
    before = owner(lab)
    assert run(["auto", *words]) == status
    assert owner(lab) == before


@pytest.mark.parametrize(
    "prompt", ["<task-notification>\n/auto 50", '<task-notification>\n"$perpetual-auto 50" completed']
)
def test_a_notice_of_the_harness_arms_nothing(project: Path, prompt: str) -> None:
    with Lab.open(project) as lab:
        PromptHook().answer(lab, {"session_id": "s", "prompt": prompt})
        assert owner(lab) is None


@pytest.mark.slow
def test_a_busy_store_does_not_hold_a_prompt_back(project: Path) -> None:
    with Lab.open(project) as lab:
        arm(lab, "s", harness="claude-code")
    event = json.dumps({"session_id": "s", "last_assistant_message": "done"})
    began = time.monotonic()
    with FileLock(project / ".perpetual" / "store" / "lock"):
        done = subprocess.run([sys.executable, "-P", "-m", "perpetual", "hook", "stop"], input=event, cwd=project,
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert 5 < time.monotonic() - began < 20, done.stderr
