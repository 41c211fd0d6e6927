"""Fifty runs at once that end in every way there is: all of them are recorded as they ended, and none is lost."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.records import Run
from perpetual.toolkit import platform
from tests.faults.run_harness import LONG_S, approved, die, opened, single_books, supervisor_of, until

ENDS = ("itself", "fails", "killed", "kill -9", "orphaned")


def _end(lab: Lab, run: Run, how: str) -> None:
    child = platform.identity_of(run.pid or 0)
    assert child is not None
    if how == "killed":
        lab.runs.kill(run.id, grace_s=1.0)
    elif how == "kill -9":
        platform.signal_process(child, signal.SIGKILL)
    elif how == "orphaned":
        die(supervisor_of(lab, run))
        die(child)


def _check(project: Path, count: int) -> None:
    with opened(project, max_concurrent_runs=str(count)) as lab:
        script = "echo up; while test ! -e go; do sleep 0.2; done; echo acc=1.5; test ! -e $PERPETUAL_RUN.fails"
        experiment = approved(lab, script, replicates=count)
        runs = lab.runs.launch(experiment, every=True)
        assert {run.status for run in runs} == {"running"}
        how = {run.id: ENDS[n % len(ENDS)] for n, run in enumerate(runs)}
        for run in runs:
            until(lab, run.id, "up")
            if how[run.id] == "fails":
                (project / f"{run.id}.fails").touch()
        for run in runs:
            _end(lab, run, how[run.id])
        (project / "go").touch()
        lab.wait([experiment], timeout_s=2 * LONG_S)
        ended = single_books(lab)
        assert [run.id for run in ended] == [run.id for run in runs]
        wanted = {"itself": "done", "fails": "failed", "killed": "killed", "kill -9": "failed", "orphaned": "lost"}
        assert {run.id: run.status for run in ended} == {id: wanted[end] for id, end in how.items()}
        for run in ended:
            assert run.signal == (signal.SIGKILL if how[run.id] == "kill -9" else run.signal)
            assert platform.start_ticks(run.pid or 0) is None
            assert run.metrics == ({"acc": 1.5} if how[run.id] in ("itself", "fails") else {})
        told = Counter(event.subject for event in lab.events() if event.kind == "run_status")
        assert set(told.values()) == {3}  # launching, running, and how it ended
        assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}


def test_one_run_of_each_end_is_recorded(project: Path) -> None:
    _check(project, len(ENDS))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fifty_runs_are_recorded(project: Path) -> None:
    _check(project, 50)
