"""Row 20: what fails again and again is stopped with a reason, and stays stopped until a person has looked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.loop import EXITS
from tests.support import LONG_S, until

COMMAND = [sys.executable, "-m", "perpetual"]
FAILS = "sh -c 'echo trying >>tried; exit 3'"


@pytest.fixture
def failing(project: Path) -> Path:
    """A project that may approve by itself, with an agent's experiment of thirty replicates that all fail."""
    with Lab.open(project) as lab:
        lab.settings.set_methodology("auto_approve", "true")
        lab.settings.set_methodology("max_concurrent_runs", "1")
    with Lab.open(project, actor="mcp:looping/1") as lab:
        lab.experiments.propose(command=FAILS, title="the same thing again", replicates=30, cost_run_hours=0.001)
    return project


def _daemon(project: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [*COMMAND, "--project", str(project), "daemon", *options, "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def _tried(project: Path) -> int:
    return len((project / "tried").read_text().splitlines())


@pytest.mark.parametrize("option", [None, pytest.param("--wait", marks=pytest.mark.slow), "--stay"])
def test_three_failures_in_a_row_end_the_daemon_with_what_it_saw(failing: Path, option: str | None) -> None:
    """Also one that is to stay: nothing but a person can help."""
    status, document = _daemon(failing, *([option] if option else []))
    assert (status, document["reason"]) == (EXITS["failure_rate"], "failure_rate")
    assert "3 of the last 3 runs failed: exit code 3" in document["explanation"]
    assert document["next"]
    assert _tried(failing) == 3
    with Lab.open(failing) as lab:
        stops = [event.payload["reason"] for event in lab.events() if event.kind == "loop_stopped"]
        assert stops == ["failure_rate"]
        assert [run.status for run in lab.runs.list().items] == ["failed"] * 3


@pytest.mark.slow
def test_the_keeper_starts_no_other(failing: Path) -> None:
    """`--detach` starts a daemon again after a crash; this is none."""
    done = subprocess.run([*COMMAND, "--project", str(failing), "daemon", "--detach"], check=False, timeout=LONG_S)
    assert done.returncode == 0
    with Lab.open(failing) as lab:
        until(lambda: lab.services.status("daemon-keeper")["state"] == "stopped")
        stops = [event.payload["reason"] for event in lab.events() if event.kind == "loop_stopped"]
        assert stops == ["failure_rate"]
    assert _tried(failing) == 3


@pytest.mark.slow
def test_a_person_who_starts_it_again_gets_three_more(failing: Path) -> None:
    """The person has seen the earlier failures: only those since count."""
    assert _daemon(failing)[0] == EXITS["failure_rate"]
    assert _daemon(failing)[0] == EXITS["failure_rate"]
    assert _tried(failing) == 6


@pytest.mark.slow
def test_what_cannot_be_started_waits_for_a_person(project: Path) -> None:
    """A missing program is no run and no failure; each daemon asks for it once, and the record grows by one stop."""
    with Lab.open(project) as lab:
        lab.settings.set_methodology("auto_approve", "true")
    with Lab.open(project, actor="mcp:looping/1") as lab:
        lab.experiments.propose(command="no-such-program --at-all", title="missing", cost_run_hours=0.001)
    grown = []
    for _ in range(2):
        status, document = _daemon(project)
        assert (status, document["reason"]) == (EXITS["waiting_for_approval"], "waiting_for_approval")
        assert "the program 'no-such-program' was not found" in document["explanation"]
        with Lab.open(project) as lab:
            assert not lab.runs.list().items
            grown.append(lab.feed.last())
    assert grown[1] == grown[0] + 1
