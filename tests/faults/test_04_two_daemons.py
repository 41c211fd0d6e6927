"""Row 4: a second daemon on one project names the first and ends; what a dead one left keeps no other away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.toolkit.platform import BOOT_ID_VARIABLE
from tests.support import LONG_S, until

COMMAND = [sys.executable, "-m", "perpetual"]


@contextmanager
def _daemon(project: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A daemon that stays, once it has turned."""
    process = subprocess.Popen(
        [*COMMAND, "--project", str(project), "daemon", "--stay", "--json"], env={**os.environ, **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert json.loads(line)["cycle"] == 1, line
        yield process
    finally:
        process.kill()
        process.communicate()


def _ask(project: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [*COMMAND, "--project", str(project), *arguments, "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_the_second_names_the_first_and_changes_nothing(project: Path) -> None:
    with _daemon(project) as first:
        with Lab.open(project) as lab:
            before = lab.feed.last()
        status, document = _ask(project, "daemon")
        assert (status, document["error"]["code"]) == (6, "conflict")
        assert f"process {first.pid}" in document["error"]["message"]
        assert "perpetual daemon status" in document["error"]["hint"]
        status, document = _ask(project, "daemon", "--detach")
        assert status == 6, document
        with Lab.open(project) as lab:
            assert lab.feed.last() == before
        assert first.poll() is None
        assert _ask(project, "daemon", "status")[1]["pid"] == first.pid


def test_a_dead_one_keeps_no_other_away(project: Path) -> None:
    """The file that names the dead process stays; its lock has gone with it."""
    with _daemon(project) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
    state = json.loads((project / ".perpetual" / "services" / "daemon.json").read_text())
    assert (state["pid"], state["ended_at"]) == (first.pid, None)
    assert _ask(project, "daemon", "status")[1]["state"] == "failed"
    with _daemon(project) as second:
        assert _ask(project, "daemon", "status")[1]["pid"] == second.pid


@pytest.mark.slow
def test_a_pid_that_lives_again_keeps_no_other_away(project: Path) -> None:
    """After a restart of the machine another process may have the pid that the file names."""
    with _daemon(project) as first:
        first.kill()
        first.wait()
    path = project / ".perpetual" / "services" / "daemon.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": os.getpid()}))
    with _daemon(project, **{BOOT_ID_VARIABLE: "the next boot"}) as second:
        until(lambda: _ask(project, "daemon", "status")[1]["pid"] == second.pid)


@pytest.mark.slow
def test_eight_at_once_are_one(project: Path) -> None:
    """The first daemon turns the loop; each later one ends with exit status 6 at once."""
    words = [*COMMAND, "--project", str(project), "daemon", "--stay", "--json"]
    processes = [
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    try:
        until(lambda: sum(process.poll() is not None for process in processes) >= 7)
        assert sorted(process.returncode for process in processes if process.returncode is not None) == [6] * 7
        (one,) = [process for process in processes if process.returncode is None]
        one.terminate()
        assert one.wait(LONG_S) == 0
    finally:
        for process in processes:
            process.kill()
            process.communicate()
