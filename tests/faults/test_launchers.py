"""A launcher or a scan that is killed between two steps: one `scan` later the record is the truth, and told once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.toolkit import platform
from perpetual.toolkit.crashpoints import STEPS
from tests import support
from tests.faults.run_harness import LONG_S, approved, die, kinds, opened, single_books, supervisor_of, until

# The program in the words of the command line, without a second of imports that have nothing to do with it.
_PROGRAM = "import sys; from perpetual.cli.app import run; sys.exit(run(sys.argv[1:]))"
LAUNCH = [name for name in STEPS if name.startswith("launch:")]
SCAN = [name for name in STEPS if name.startswith("scan:")]
STORES = ["tinydb", "sqlite"]
CLAIM = {"metric": "acc", "direction": "max", "mde": 0.1, "baseline": 1.0, "noise": 0.05}
WORK = "echo up; while test ! -e go; do sleep 0.02; done; echo acc=1.5"


def _dies_at(step: str, project: Path, *words: str) -> None:
    """Runs a command that kills itself at the named step."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words],
        cwd=project,
        env={**os.environ, "PERPETUAL_DIE_AT": step},
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    assert done.returncode == -signal.SIGKILL, f"{step} was not reached: {done.stderr}"


def _settled_down(lab: Lab, run_id: str, step: str) -> None:
    """Waits for a supervisor that was on its way when its launcher died; one that was just forked will come."""
    scheduler, folder = lab.part("scheduler"), lab.runs.log_dir(run_id)

    def has_settled() -> bool:
        seen = scheduler.poll(None, folder)
        if seen.state == "absent":
            return step != "launch:forked"
        return seen.state != "running" or seen.started_at is not None

    support.until(has_settled, f"the supervisor of {run_id} never came to an end of its start")


def _check_launch(project: Path, store: str, step: str) -> None:
    with opened(project, store) as lab:
        experiment = approved(lab, WORK, **CLAIM, hypothesis_id=lab.hypotheses.add("acc rises").id)
        _dies_at(step, project, "run", experiment)
        _settled_down(lab, "r1", step)
        lab.scan()
        (found,) = single_books(lab)
        assert (found.id, found.status, found.attempt) == ("r1", "running", 1)
        assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}
        (project / "go").touch()
        assert lab.wait(["r1"], timeout_s=LONG_S) == {"r1": "done"}
        single_books(lab)
        assert (lab.runs.log_dir("r1") / "stdout.log").read_text() == "up\nacc=1.5\n"  # it ran once
        assert kinds(lab, "r1") == ["reserve", "settle"]
        assert len(lab.evidence.list().items) == 1


def test_a_launcher_that_is_killed(project: Path) -> None:
    _check_launch(project, "tinydb", "launch:forked")


@pytest.mark.slow
def test_a_run_killed_before_it_ran_stays_killed(project: Path) -> None:
    """Its launcher died first: nobody has looked since, and no later scan may start it."""
    with opened(project) as lab:
        _dies_at("launch:prepared", project, "run", approved(lab, WORK))
        assert lab.runs.get("r1").status == "launching"
        ended = lab.runs.kill("r1", grace_s=0.0)
        assert (ended.status, ended.duration_s) == ("killed", 0.0)
        assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}
        assert [found.status for found in single_books(lab)] == ["killed"]


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("step", LAUNCH)
def test_a_launcher_that_is_killed_at_each_step(project: Path, store: str, step: str) -> None:
    _check_launch(project, store, step)


@pytest.mark.slow
@pytest.mark.parametrize("step", LAUNCH[1:])  # a scan reserves nothing: what waits has its reservation
def test_a_scan_that_is_killed_while_it_starts_what_waits(project: Path, step: str) -> None:
    """The queue's runs are launched by `scan`: the same steps, and the same truth after the next one."""
    with opened(project) as lab:
        lab.queue.set_state("paused")
        lab.runs.launch(approved(lab, WORK, replicates=2), every=True)
        lab.queue.set_state("running")
        _dies_at(step, project, "scan")
        _settled_down(lab, "r1", step)
        lab.scan()
        assert [(found.id, found.status) for found in single_books(lab)] == [("r1", "running"), ("r2", "running")]
        (project / "go").touch()
        assert lab.wait(["r1", "r2"], timeout_s=LONG_S) == {"r1": "done", "r2": "done"}
        single_books(lab)


def _check_scan(project: Path, store: str, step: str) -> None:
    """Three runs have ended: two with a result, one without memory, which is tried again."""
    with opened(project, store, auto_retry="oom") as lab:
        claim = lab.hypotheses.add("acc rises").id
        lab.runs.launch(
            approved(lab, "echo acc=1.$PERPETUAL_SEED", **CLAIM, replicates=2, hypothesis_id=claim), every=True
        )
        lab.runs.launch(approved(lab, "echo MemoryError; exit 1"))
        for id in ("r1", "r2", "r3"):
            assert lab.part("scheduler").wait(None, lab.runs.log_dir(id), LONG_S).state == "ended"
        _dies_at(step, project, "scan")
        lab.wait(["e1", "e2"], timeout_s=LONG_S)
        runs = single_books(lab)
        assert [(found.id, found.status, found.attempt) for found in runs] == [
            ("r1", "done", 1),
            ("r2", "done", 1),
            ("r3", "failed", 1),
            ("r4", "failed", 2),
        ]
        assert [row.run_id for row in lab.evidence.list().items] == ["r1", "r2"]
        assert [event.subject for event in lab.events() if event.kind == "run_retried"] == ["r4"]
        assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}


@pytest.mark.slow
def test_a_scan_that_is_killed(project: Path) -> None:
    _check_scan(project, "tinydb", "scan:evidence")


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("step", SCAN)
def test_a_scan_that_is_killed_at_each_step(project: Path, store: str, step: str) -> None:
    _check_scan(project, store, step)


@pytest.mark.slow
@pytest.mark.parametrize("step", LAUNCH)
def test_a_retry_that_is_killed_at_each_step(project: Path, step: str) -> None:
    with opened(project) as lab:
        lab.runs.launch(approved(lab, "echo up; exit 1"))
        lab.wait(["r1"], timeout_s=LONG_S)
        _dies_at(step, project, "retry", "r1")
        _settled_down(lab, "r2", step)
        lab.wait(["r2"], timeout_s=LONG_S)
        assert [(found.id, found.status, found.attempt) for found in single_books(lab)] == [
            ("r1", "failed", 1),
            ("r2", "failed", 2),
        ]
        assert (lab.runs.log_dir("r2") / "stdout.log").read_text() == "up\n"


# --- the folder of a live run is removed ------------------------------------------------------------------------------


def test_a_run_whose_folder_was_removed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told, it can still be killed, other runs are not held up, and its books are closed."""
    with opened(project) as lab:
        (gone,) = lab.runs.launch(approved(lab, "echo up; exec sleep 600"))
        until(lab, gone.id, "up")
        child = platform.identity_of(gone.pid or 0)
        shutil.rmtree(lab.runs.log_dir(gone.id))
        other = approved(lab, "true")
        assert lab.wait([lab.runs.launch(other)[0].id], timeout_s=LONG_S) == {"r2": "done"}
        found = lab.scan()
        assert [(item["run_id"], item["code"]) for item in found["problems"]] == [("r1", "folder_removed")]
        assert found["changes"] == []
        capsys.readouterr()
        for words in (["scan"], ["runs"], ["runs", "r1"], ["logs", "r1"], ["status"], ["queue"]):
            assert run(words) in (0, 1, 5), words
            assert "Traceback" not in capsys.readouterr().err
        assert lab.wait([gone.id], timeout_s=0.1) == {gone.id: "running"}
        ended = lab.runs.kill(gone.id, grace_s=0.0)
        assert child is not None
        assert platform.wait_gone(child, LONG_S)
        assert (ended.status, ended.duration_s) == ("lost", None)
        assert "folder was removed" in str(ended.reason)
        assert [found.status for found in single_books(lab)] == ["lost", "done"]


def test_a_run_whose_folder_was_removed_and_that_has_ended(project: Path) -> None:
    with opened(project) as lab:
        (gone,) = lab.runs.launch(approved(lab, "echo up; exec sleep 600"))
        until(lab, gone.id, "up")
        keeper, child = supervisor_of(lab, gone), platform.identity_of(gone.pid or 0)
        shutil.rmtree(lab.runs.log_dir(gone.id))
        assert child is not None
        die(child)
        assert platform.wait_gone(keeper, LONG_S)
        assert [(item["run_id"], item["to"]) for item in lab.scan()["changes"]] == [("r1", "lost")]
        assert "folder was removed" in str(lab.runs.get("r1").reason)
        single_books(lab)
