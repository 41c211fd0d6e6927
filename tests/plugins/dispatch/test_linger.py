"""What moves the queue is at work before a run ends, keeps the time of a stash, and leaves when nothing is to come."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from tests.plugins.dispatch.test_dispatch import all_end, dispatchers, queued, statuses
from tests.support import LONG_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

HELD = "sh -c 'while ! test -e go; do sleep 0.02; done'"


@pytest.fixture(autouse=True)
def moving(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends move the queue, one run at a time, and what moves it stays while runs wait."""
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "true")
    with Lab.open(project) as lab:
        lab.config.methodology.set("max_concurrent_runs", "1")
    yield
    with Lab.open(project) as lab:
        lab.queue.set_state("paused")
        for each in lab.runs.live():
            lab.runs.kill(each.id, grace_s=0.0)
    until(lambda: not dispatchers(project), "what moves the queue is still there")


def sleeping(project: Path) -> int:
    """Returns the process that moves the queue, once the shell that starts it is gone.

    A process that is about to execute another program has no command line for a moment, so one look is not enough.
    """
    seen: list[int] = []

    def is_settled() -> bool:
        before, seen[:] = [*seen], dispatchers(project)
        return len(seen) == 1 and seen == before and is_python(seen[0])

    until(is_settled, "nothing moves the queue")
    return seen[0]


def is_python(pid: int) -> bool:
    """Returns whether a process runs this interpreter, and not a shell that is about to."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", sys.executable)
    except OSError:
        return False


def launchers(project: Path, ids: list[str]) -> list[int]:
    """Returns the processes that have started the runs."""
    with Lab.open(project) as lab:
        return [(lab.context.need("run", id).body["launcher"] or [])[1] for id in ids]


def test_it_is_at_work_before_the_first_end_and_leaves_after_the_last(project: Path) -> None:
    ids = queued(project, HELD, 3)
    found = sleeping(project)
    (project / "go").touch()
    all_end(project, ids)
    assert launchers(project, ids[1:]) == [found, found]
    until(lambda: not dispatchers(project), "it waits for nothing")
    assert statuses(project, ids) == ["done"] * 3


@pytest.mark.slow
def test_killed_while_it_sleeps_the_next_end_starts_another(project: Path) -> None:
    ids = queued(project, f"{HELD[:-1]}; echo $PERPETUAL_RUN >> ran'", 3)
    os.kill(sleeping(project), signal.SIGKILL)
    until(lambda: not dispatchers(project))
    (project / "go").touch()
    all_end(project, ids)
    assert (project / "ran").read_text("utf-8").split() == ids
    assert statuses(project, ids) == ["done"] * 3


@pytest.mark.slow
def test_it_hears_of_what_others_change(project: Path) -> None:
    ids = queued(project, HELD, 3)
    found = sleeping(project)
    (project / ".perpetual" / "methodology.yaml").write_text("max_concurrent_runs: 2\n", "utf-8")
    until(lambda: statuses(project, ids) == ["running", "running", "queued"], "it does not see the new limit")
    with Lab.open(project) as lab:
        lab.queue.set_state("paused")
        until(lambda: not dispatchers(project), "a paused queue needs none")
        assert lab.queue.awaited() is None
    assert run(["queue", "resume"]) == 0
    until(lambda: dispatchers(project), "a resumed one does")
    assert dispatchers(project) != [found]


@pytest.mark.slow
def test_the_end_of_a_run_without_its_supervisor_moves_the_queue(project: Path) -> None:
    first, second = queued(project, HELD, 2)
    sleeping(project)
    started = json.loads((project / ".perpetual" / "runs" / first / "started.json").read_bytes())
    os.kill(started["supervisor"]["pid"], signal.SIGKILL)
    (project / "go").touch()
    all_end(project, [first, second])
    assert statuses(project, [first, second]) == ["lost", "done"]


def stashed(project: Path, seconds: float) -> str:
    """Stashes the only run until some seconds from now, and returns its id; no run is live."""
    with Lab.open(project) as lab:
        lab.queue.set_state("paused")
        (only,) = queued(project, "true", 1)
        lab.queue.stash(only, until=datetime.now(UTC) + timedelta(seconds=seconds))
        lab.queue.set_state("running")
        lab.queue.keep_moving()
    return only


@pytest.mark.slow
def test_a_stash_has_a_clock_with_no_terminal_open(project: Path) -> None:
    only = stashed(project, 3.0)
    with Lab.open(project) as lab:
        awaited = lab.queue.awaited()
        (place,) = lab.queue.places(lab.queue.waiting().items)
    assert awaited is not None
    assert place["until"] == datetime.fromtimestamp(awaited, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    sleeping(project)
    all_end(project, [only])
    assert statuses(project, [only]) == ["done"]
    with Lab.open(project) as lab:
        assert datetime.fromisoformat(str(lab.runs.get(only).started_at)).timestamp() >= awaited
    until(lambda: not dispatchers(project))


@pytest.mark.slow
def test_a_killed_clock_is_wound_by_the_next_scan(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = stashed(project, 4.0)
    os.kill(sleeping(project), signal.SIGKILL)
    until(lambda: not dispatchers(project))
    assert run(["scan"]) == 0
    assert statuses(project, [only]) == ["queued"]
    assert dispatchers(project)
    all_end(project, [only])
    assert statuses(project, [only]) == ["done"]


@pytest.mark.slow
def test_many_callers_start_one_process(project: Path) -> None:
    stashed(project, LONG_S)
    os.kill(sleeping(project), signal.SIGKILL)
    until(lambda: not dispatchers(project))

    def call() -> None:
        with Lab.open(project) as lab:
            for _ in range(5):
                lab.queue.keep_moving()

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(dispatchers(project)) == 1


@pytest.mark.slow
def test_it_leaves_when_the_project_is_removed(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    Lab.init(other).close()
    stashed(other, LONG_S)
    sleeping(other)
    shutil.rmtree(other)
    until(lambda: not lost_dispatchers(other), "it is still there")


def lost_dispatchers(project: Path) -> list[int]:
    """Returns the processes that move the queue of a project that was removed."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "cwd") == f"{project}/.perpetual/dispatch (deleted)":
                found.append(int(folder.name))
        except OSError:
            continue
    return found
