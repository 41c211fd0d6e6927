"""Row 19: the model server fails in every way; the loop goes on, and no answer that is stored is paid again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import perpetual_devkit.overnight_model
from perpetual import Lab
from perpetual_devkit.overnight_model import WAYS, ModelServer
from tests.support import until

SCRIPT = os.path.abspath(perpetual_devkit.overnight_model.__file__)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    made = ModelServer()
    yield made
    made.close()


@pytest.fixture
def asking(project: Path, server: ModelServer) -> Path:
    """A project whose thinker comments on every run."""
    with Lab.open(project, actor="user:test") as lab:
        lab.settings.set_methodology("auto_approve", "true")
        for key, value in (
            ("plugins.thinker.command.command", json.dumps([sys.executable, SCRIPT, server.url])),
            ("plugins.thinker.command.timeout_s", "3"),
            ("plugins.thinkers.propose", "false"),
            ("slots.thinker", "command"),
        ):
            lab.settings.set_config(key, value)
    return project


@contextmanager
def _daemon(project: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "perpetual", "--project", str(project), "daemon", "--stay", "--json"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _propose(lab: Lab, number: int) -> str:
    """Proposes a run, which the daemon approves, starts, and has commented on."""
    return lab.experiments.propose(command=f"echo run {number}", title=f"run {number}", cost_run_hours=0.001).id


def _is_done(lab: Lab, experiment: str) -> bool:
    return [run.status for run in lab.runs.list(experiment_id=experiment).items] == ["done"]


def _used(lab: Lab) -> int:
    return len([row for row in lab.records("thinkers.thought").find() if row["state"] == "used"])


def test_each_way_of_failing_is_got_over(asking: Path, server: ModelServer) -> None:
    """The run of each turn ends while the server is down; its question is asked again later, and answered once."""
    with Lab.open(asking) as lab, _daemon(asking) as daemon:
        for number, way in enumerate(WAYS, 1):
            server.is_down = True
            experiment = _propose(lab, number)
            until(lambda number=number: server.failed == number, f"not asked: {way}")  # type: ignore[misc]
            assert _is_done(lab, experiment), "the loop waits for no model"
            server.is_down = False
            until(lambda number=number: _used(lab) == number, f"not got over: {way}")  # type: ignore[misc]
        assert daemon.poll() is None
        until(lambda: [row["failures"] for row in lab.records("thinkers.breaker").find()] == [0])
    assert {len(numbers) for numbers in server.answered.values()} == {1}
    assert len(server.answered) == len(WAYS)


def test_a_stored_answer_is_not_paid_again(asking: Path, server: ModelServer) -> None:
    """The daemon is killed as soon as an answer is stored, four times; the next one uses it."""
    with Lab.open(asking) as lab:
        for number in range(1, 5):
            with _daemon(asking) as daemon:
                _propose(lab, number)
                until(lambda number=number: len(lab.records("thinkers.reply").find()) == number)  # type: ignore[misc]
                daemon.send_signal(signal.SIGKILL)
        with _daemon(asking):
            until(lambda: _used(lab) == 4)
        stored = [row["request_id"] for row in lab.records("thinkers.reply").find()]
        assert len(stored) == len({*stored}) == 4
    assert {question: len(numbers) for question, numbers in server.answered.items()} == dict.fromkeys(stored, 1)


def test_retries_stay_inside_the_cap_of_the_day(asking: Path, server: ModelServer) -> None:
    """A call without an answer counts: it may have been paid. The runs go on without comments."""
    with Lab.open(asking, actor="user:test") as lab:
        lab.settings.set_methodology("max_calls_per_day", "2")
    server.is_down = True
    with Lab.open(asking) as lab, _daemon(asking):
        _propose(lab, 1)
        until(lambda: server.failed == 1)
        server.is_down = False
        until(lambda: _used(lab) == 1)
        second = _propose(lab, 2)
        until(lambda: _is_done(lab, second))
        until(lambda: "thinkers.capped" in [event.kind for event in lab.events()])
    assert (server.failed, len(server.answered)) == (1, 1)
