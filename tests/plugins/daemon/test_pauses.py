"""A daemon that sleeps in a pause: it says until when, and an edit of the methodology wakes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from tests.support import LONG_S, until

pytestmark = pytest.mark.slow


@contextmanager
def _daemon(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that would look by itself in an hour."""
    words = [sys.executable, "-m", "perpetual", "--project", str(root), "daemon", "--interval", "3600", "--json"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _pauses(lab: Lab) -> list[str]:
    waits = [event.payload for event in lab.events() if event.kind == "daemon.waits"]
    return [str(each["explanation"]) for each in waits if each["reason"] == "paused"]


@pytest.mark.parametrize("key", ["quiet_hours", "max_run_hours_per_day"])
def test_an_edit_ends_a_pause(project: Path, key: str) -> None:
    now = datetime.now().astimezone()
    with Lab.open(project) as lab:
        made = lab.experiments.propose(command="sleep 0.5", replicates=2, wall_s=60.0)
        lab.experiments.approve(made.id)
        lab.wait([lab.runs.launch(made.id)[0].id], timeout_s=LONG_S)
        hours = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
        lab.settings.set_methodology(key, hours if key == "quiet_hours" else str(60.1 / 3600))
        with _daemon(project) as process:
            until(lambda: _pauses(lab) or process.poll() is not None)
            words = "quiet hours until" if key == "quiet_hours" else "the day's run-hours are used up"
            assert [pause.startswith(words) for pause in _pauses(lab)] == [True]
            assert len(lab.runs.list().items) == 1
            lab.settings.unset_methodology(key)
            assert process.wait(LONG_S) == 0
        assert [run.status for run in lab.runs.list().items] == ["done", "done"]
        assert len(_pauses(lab)) == 1  # said once
