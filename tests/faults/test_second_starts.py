"""A run whose launcher died is started again, once: at the folder's level and at the record's.

And the steps at which tests have the program die: that they are taken, and that only who is told to dies.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.loop.steps import Launches
from perpetual.toolkit import platform
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.crashpoints import STEPS
from perpetual_supervisor import rundir
from tests.faults.run_harness import dead_process

LONG_S = 60.0
ROOT = Path(__file__).parents[2]


def _launch(folder: Path, script: str) -> rundir.Started:
    return rundir.launch(
        folder, argv=["sh", "-c", script], cwd="/", env={"PATH": os.defpath}, wall_s=LONG_S, grace_s=1.0
    )


def _left_behind(folder: Path, launcher: platform.Identity | None, script: str) -> None:
    """A folder as a launcher leaves it that died before a supervisor was at work."""
    spec = {"argv": ["sh", "-c", script], "cwd": "/", "env": {"PATH": os.defpath}, "wall_s": LONG_S, "grace_s": 1.0,
            "max_log_bytes": None, "launcher": launcher and launcher._asdict()}  # fmt: skip
    (folder / "launch.json").write_text(json.dumps(spec))


def test_remains_of_a_dead_launcher_are_replaced(tmp_path: Path) -> None:
    _left_behind(tmp_path, dead_process(), "echo old")
    _launch(tmp_path, "echo new")
    seen = rundir.wait(tmp_path, LONG_S)
    assert seen.exit is not None
    assert (seen.state, seen.exit.exit_code) == ("ended", 0)
    assert (tmp_path / "stdout.log").read_text() == "new\n"
    assert not (tmp_path / "launch.json").exists()


@pytest.mark.parametrize("known", [True, False])
def test_a_launcher_that_may_be_at_work_is_left_alone(tmp_path: Path, known: bool) -> None:
    _left_behind(tmp_path, platform.identity_of(os.getpid()) if known else None, "echo old")
    with pytest.raises(FileExistsError, match="a launcher is at work"):
        _launch(tmp_path, "echo new")
    assert "echo old" in (tmp_path / "launch.json").read_text()


def test_a_dead_launchers_supervisor_that_turns_up_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the run, the new launcher's supervisor finds it taken, and the launch has succeeded all the same."""
    _left_behind(tmp_path, dead_process(), f"echo old >> {tmp_path / 'ran'}")
    late = tmp_path / "python"
    answer = tmp_path / "answer"
    # Supervisors leave their launcher at once, so the first is heard before the second is sent after it.
    heard = f"while ! test -s {answer}; do sleep 0.01; done"
    late.write_text(f'#!/bin/sh\n{sys.executable} "$@" > {answer}\n{heard}\nexec {sys.executable} "$@"\n')
    late.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(late))
    started = _launch(tmp_path, f"echo new >> {tmp_path / 'ran'}")
    assert started.child is not None
    assert answer.read_text() == "started " + (tmp_path / "started.json").read_text()
    seen = rundir.wait(tmp_path, LONG_S)
    assert (seen.state, seen.started) == ("ended", started)
    assert (tmp_path / "ran").read_text() == "new\n"


def test_a_run_that_came_through_after_all_is_not_a_failed_one(project: Path) -> None:
    """Its launcher died, it went back to the queue, and only then did its supervisor start it."""
    with Lab.open(project) as lab:
        experiment = lab.experiments.propose(command="echo acc=1.0", metric="acc", direction="max")
        lab.experiments.approve(experiment.id)
        lab.queue.set_state("paused")
        run = lab.runs.launch(experiment.id)[0]
        ctx = lab.context
        with ctx.store.transaction() as tx:
            RunRecords(lab.context).change(tx, ctx.need(RUN, run.id), {"launcher": [*dead_process()]})
        hold = project / "hold"
        hold.touch()
        script = f"while test -e {hold}; do sleep 0.02; done; echo acc=2.0"
        started = _launch(lab.runs.log_dir(run.id), script)
        lab.queue.set_state("running")
        changes = lab.scan()["changes"]
        assert [(change["from"], change["to"]) for change in changes] == [("queued", "running")]
        found = lab.runs.get(run.id)
        assert started.child is not None
        assert (found.pid, found.started_at) == (started.child.pid, started.started_at)
        hold.unlink()
        assert lab.wait([run.id], timeout_s=LONG_S) == {run.id: "done"}
        assert lab.runs.get(run.id).metrics == {"acc": 2.0}
        assert [row.body["kind"] for row in ctx.store.rows("debit")] == ["reserve", "settle"]


def test_a_supervisor_that_is_about_to_start_is_waited_for(project: Path) -> None:
    """It may yet fail: until it has recorded its start the run stays `launching`."""
    from perpetual.toolkit.lock import FileLock

    with Lab.open(project) as lab:
        experiment = lab.experiments.propose(command="echo acc=1.0", metric="acc", direction="max")
        lab.experiments.approve(experiment.id)
        lab.queue.set_state("paused")
        run = lab.runs.launch(experiment.id)[0]
        ctx, folder = lab.context, lab.runs.log_dir(run.id)
        gone = dead_process()
        with ctx.store.transaction() as tx:
            RunRecords(lab.context).change(tx, ctx.need(RUN, run.id), {"status": "launching", "launcher": [*gone]})
        folder.mkdir(parents=True)
        _left_behind(folder, gone, "echo acc=1.0")
        with FileLock(folder / "supervisor.lock"):
            assert lab.scan()["changes"] == []
            assert lab.runs.get(run.id).status == "launching"
        lab.queue.set_state("running")
        lab.wait([run.id], timeout_s=LONG_S)
        assert lab.runs.get(run.id).status == "done"
        assert (folder / "stdout.log").read_text() == "acc=1.0\n"


def test_the_loop_stops_only_if_nothing_was_live_when_it_looked(project: Path) -> None:
    """Another loop may record the last run's end in between: what follows from it was not looked at yet."""
    with Lab.open(project) as lab:
        assert lab.loop.stop_reason(Launches((), idle=False)) is None
        assert lab.loop.stop_reason(lab.loop.launch()) == (
            "queue_empty",
            "nothing is running, approved or worth proposing",
        )


# --- Ctrl-C


def test_ctrl_c_right_after_a_file_was_replaced_is_still_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an error of the file system that says nothing was changed."""
    replace = os.replace

    def interrupted(source: str, target: Path) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "file", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "new"}


# --- steps


TAKEN = re.compile(r'^ +step\("([^"]+)"(?:, (?:turn\.number|0))?\)(?:  #.*)?$', re.MULTILINE)


def test_the_program_takes_every_named_step_at_its_places() -> None:
    taken = [
        name
        for folder in ("perpetual", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(
            r'^ +step\("([^"]+)"(?:, (?:turn\.number|0))?\)(?:  #.*)?$', path.read_text(), re.MULTILINE
        )
    ]
    assert set(taken) == set(STEPS)
    # Reserved by a person and by the loop; weighed and settled at the end, and again where a late end corrects it.
    # A step of an agent is a request to a model or a call of a tool.
    several = {"launch:reserved", "scan:evidence", "scan:settled", "agent:begun", "agent:effect", "agent:done"}
    assert {name for name in STEPS if taken.count(name) > 1} == several


def test_only_the_marked_process_dies() -> None:
    code = "import os, subprocess, sys; from perpetual.toolkit.crashpoints import step\n" + (
        "assert 'PERPETUAL_DIE_AT' not in os.environ\n"
        "step('launch:noted')\n"
        "late = 'from perpetual.toolkit.crashpoints import step; step(\"scan:ended\")'\n"
        "print(subprocess.run([sys.executable, '-c', late]).returncode, flush=True)\n"
        "step('scan:ended')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PERPETUAL_DIE_AT": "scan:ended"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-9, "0\n", "")
