"""A run that is ended while it is being launched: wherever its launcher is on its way, the run does not live on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.runs import start
from perpetual.lab.runs.cancel import kill
from perpetual_supervisor import rundir
from tests.faults.run_harness import LONG_S, approved, opened, single_books
from tests.faults.supervised import Bench
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")


@contextmanager
def _halted_launch(project: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A launch of r1 that stands still before anything of it is started, until the event is set."""
    there, go_on = threading.Event(), threading.Event()
    experiment = approved(lab, "sleep 600")

    def step(name: str) -> None:
        if name == "launch:prepared":
            there.set()
            assert go_on.wait(LONG_S)

    monkeypatch.setattr(start, "step", step)

    def launch() -> None:
        with Lab.open(project) as own:
            own.runs.launch(experiment)

    launcher = threading.Thread(target=launch)
    launcher.start()
    try:
        assert there.wait(LONG_S)
        assert lab.runs.get("r1").status == "launching"
        yield go_on
    finally:
        go_on.set()
        launcher.join(LONG_S)


def _check_gone(lab: Lab) -> None:
    seen = rundir.observe(lab.runs.log_dir("r1"))
    assert seen.state == "ended"
    assert seen.exit is not None
    assert seen.exit.reason == "killed"
    (found,) = single_books(lab)
    assert found.status == "killed"
    # The latter where the supervisor read of it before it let the command go.
    assert found.reason in (f"cancelled by {lab.actor}", f"cancelled by {lab.actor} before it started")


def test_kill_waits_for_the_launcher(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(project) as lab, _halted_launch(project, lab, monkeypatch) as go_on:
        scheduler = lab.part("scheduler")
        cancel = scheduler.cancel
        tries: list[bool] = []

        def counted(*given: Any, **named: Any) -> bool:
            tries.append(cancel(*given, **named))
            go_on.set()  # only now: the first try came too early for certain
            return tries[-1]

        monkeypatch.setattr(scheduler, "cancel", counted)
        ended = kill(lab.context, "r1", grace_s=0.0, wait_s=LONG_S)
        assert tries[0] is False
        assert ended.body["status"] == "killed"
        _check_gone(lab)


def test_the_launcher_ends_what_was_killed_meanwhile(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever killed it has left: the record says so, and the launcher reads it there."""
    with opened(project) as lab:
        with _halted_launch(project, lab, monkeypatch):
            assert kill(lab.context, "r1", grace_s=0.0, wait_s=0.0).body["status"] == "launching"
        assert lab.wait(["r1"], timeout_s=LONG_S) == {"r1": "killed"}
        _check_gone(lab)


# The supervisor stands still between the record of the start and its look for a cancellation, until there is one.
_LATE = """
import time
f = supervisor.read_cancellation
def read():
    while not os.path.exists("cancel.json"):
        time.sleep(0.005)
    return f()
supervisor.read_cancellation = read
"""


def test_a_run_cancelled_while_launching_is_killed_and_not_failed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its launcher is the first to hear of it."""
    (tmp_path / "bench").mkdir()
    monkeypatch.setattr(rundir, "SHIM", Bench(tmp_path / "bench").supervise_with(_LATE))
    with opened(project) as lab:
        with _halted_launch(project, lab, monkeypatch) as go_on:
            with lab.context.store.transaction() as tx:
                run = lab.context.need(RUN, "r1")
                RunRecords(lab.context).change(tx, run, {"cancelled_by": lab.actor})
            go_on.set()
            folder = lab.runs.log_dir("r1")
            # The launcher, which reads of it in the record, may have ended it before it is seen here to have started.
            until(
                lambda: rundir.cancel(folder, by=lab.actor, grace_s=0.0) or rundir.observe(folder).state == "ended",
                "it never started",
            )
        _check_gone(lab)


_KILLED_AT_A_FILE = """
import os, signal, sys
from perpetual import Lab
from perpetual.toolkit import atomic
real, left = os.replace, [int(sys.argv[2])]
def replace(source, target, **more):
    if os.fspath(target).endswith(("spec.json", "config.json")):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return real(source, target, **more)
os.replace = replace
Lab.open().runs.launch(sys.argv[1])
"""


@pytest.mark.parametrize("file", ["1", "2"])
def test_a_launcher_killed_while_it_prepares_leaves_the_runs_own_folder(project: Path, file: str) -> None:
    """What it wrote is not taken for the files of another record's run."""
    with opened(project) as lab:
        words = [sys.executable, "-c", _KILLED_AT_A_FILE, approved(lab, "true"), file]
        assert subprocess.run(words, cwd=project, check=False).returncode == -signal.SIGKILL
        lab.scan()
        until(lambda: lab.scan() is not None and lab.runs.get("r1").status == "done")
        assert lab.runs.get("r1").annotations == ()
        assert [path.name for path in (project / ".perpetual" / "runs").iterdir()] == ["r1"]
        assert lab.storage.verify() == []
