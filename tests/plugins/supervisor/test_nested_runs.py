"""Runs that are started from inside a run: they are nobody else's to end; what only looks like one is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual.toolkit import platform
from perpetual.toolkit.lock import FileLock
from perpetual_supervisor import rundir
from perpetual_supervisor.nested_runs import is_supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

PATHS = [str(Path(platform.__file__).parents[2]), str(Path(rundir.__file__).parents[1])]
LONG_S = 30.0  # never reached, unless the test fails

# A command that launches a run; given: where, and what it does besides: leave, wait, or adopt what loses its parent.
LAUNCHER = """
import os, sys
from pathlib import Path
from perpetual_supervisor import process_tree, rundir
if sys.argv[2] == "adopt":
    process_tree.set_subreaper()
rundir.launch(Path(sys.argv[1]), argv=["sh", "-c", "read x < $GATE; exit 7"], cwd="/", env=dict(os.environ),
              wall_s=None, grace_s=1.0)
print("launched", flush=True)
sys.exit(5) if sys.argv[2] == "exit" else sys.stdin.read() or __import__("time").sleep(600)
"""

# Looks like a supervisor in all but what the arguments take away or add.
PRETENDER = """
import fcntl, os, sys, time
os.chdir(sys.argv[1])
lock = open("supervisor.lock", "a")
if os.path.exists("hold"):
    fcntl.flock(lock, fcntl.LOCK_EX)
open("up", "w").close()
time.sleep(600)
"""


def _until(condition: object, text: str) -> None:
    deadline = time.monotonic() + LONG_S
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline, text
        time.sleep(0.005)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """What the inner run waits for; whatever waits is let go at the end."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    keep = os.open(path, os.O_RDWR)
    yield path
    os.write(keep, b"\n" * 8)
    for folder in ("inner", "outer"):
        assert rundir.wait(tmp_path / folder, LONG_S).state not in ("running", "orphaned")
    os.close(keep)


def _outer(folder: Path, gate: Path, how: str, wall_s: float | None = None) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(PATHS), "GATE": str(gate)}
    argv = [sys.executable, "-c", LAUNCHER, str(folder / "inner"), how]
    rundir.launch(folder / "outer", argv=argv, cwd=folder, env=environment, wall_s=wall_s, grace_s=0.5)
    _until(lambda: (folder / "outer" / "stdout.log").read_text() == "launched\n", "the inner run was not launched")


@pytest.mark.parametrize("how", ["exit", "cancel", pytest.param("wall", marks=pytest.mark.slow)])
def test_a_run_lives_on_when_the_one_that_launched_it_ends(tmp_path: Path, gate: Path, how: str) -> None:
    _outer(tmp_path, gate, how, wall_s=8.0 if how == "wall" else None)
    if how == "cancel":
        assert rundir.cancel(tmp_path / "outer", by="tester", grace_s=0.2)
    outer = rundir.wait(tmp_path / "outer", LONG_S).exit
    assert outer is not None
    assert (outer.reason, outer.exit_code) == {
        "exit": ("exited", 5),
        "cancel": ("killed", None),
        "wall": ("timeout", None),
    }[how]
    assert "outlived" not in str(outer.detail)
    inner = rundir.observe(tmp_path / "inner")
    assert inner.state == "running"
    gate.write_text("\n")
    ended = rundir.wait(tmp_path / "inner", LONG_S).exit
    assert ended is not None
    assert (ended.reason, ended.exit_code, ended.detail) == ("exited", 7, None)


@pytest.mark.slow
def test_the_end_of_an_orphan_is_none_of_the_runs_that_it_launched(tmp_path: Path, gate: Path) -> None:
    """Even where it keeps their supervisors below itself, as a process manager does."""
    _outer(tmp_path, gate, "adopt")
    started = rundir.read_started(tmp_path / "outer")
    assert started is not None
    assert platform.signal_process(started.supervisor, signal.SIGKILL)
    assert platform.wait_gone(started.supervisor, LONG_S)
    assert rundir.cancel(tmp_path / "outer", by="tester", grace_s=0.2)
    assert rundir.observe(tmp_path / "outer").state == "lost"
    assert rundir.observe(tmp_path / "inner").state == "running"


def test_only_what_is_proven_is_a_supervisor(tmp_path: Path) -> None:
    program, folder = tmp_path / "shim.py", tmp_path / "run"
    program.write_text(PRETENDER)
    folder.mkdir()
    (folder / "hold").touch()
    with subprocess.Popen([sys.executable, "-I", "-S", str(program), str(folder)]) as process:
        try:
            _until((folder / "up").exists, "it did not come up")
            assert not is_supervisor(process.pid), "there is no record at all"
            (folder / "launch.json").touch()
            assert is_supervisor(process.pid), "it is about to start a command"
            identity = platform.identity_of(process.pid)
            assert identity is not None
            for claimed, proven in ((identity._replace(start_ticks=identity.start_ticks - 1), False), (identity, True)):
                (folder / "started.json").write_text(json.dumps({"supervisor": claimed._asdict()}))
                assert is_supervisor(process.pid) is proven
            (folder / "launch.json").unlink()
            assert is_supervisor(process.pid)
            (folder / "started.json").write_text("{")
            assert not is_supervisor(process.pid), "its record cannot be read"
            folder.rename(tmp_path / "elsewhere")
            (tmp_path / "elsewhere" / "started.json").write_text(json.dumps({"supervisor": identity._asdict()}))
            assert is_supervisor(process.pid), "it has gone with its folder"
        finally:
            process.kill()
    assert not is_supervisor(process.pid)


def test_a_lock_held_by_another_process_proves_nothing(tmp_path: Path) -> None:
    program, folder = tmp_path / "shim.py", tmp_path / "run"
    program.write_text(PRETENDER.replace('open("supervisor.lock", "a")', "None"))
    folder.mkdir()
    (folder / "launch.json").touch()
    with (
        FileLock(folder / "supervisor.lock"),
        subprocess.Popen([sys.executable, "-I", "-S", str(program), str(folder)]) as process,
    ):
        try:
            _until((folder / "up").exists, "it did not come up")
            assert not is_supervisor(process.pid)
        finally:
            process.kill()


@pytest.mark.parametrize("claim", ["the name", pytest.param("a record of another", marks=pytest.mark.slow)])
def test_a_false_supervisor_is_ended_with_the_run(tmp_path: Path, claim: str) -> None:
    program, folder = tmp_path / "shim.py", tmp_path / "claimed"
    program.write_text(PRETENDER)
    folder.mkdir()
    mine = platform.identity_of(os.getpid())
    assert mine is not None
    if claim != "the name":
        (folder / "hold").touch()
        (folder / "started.json").write_text(json.dumps({"supervisor": mine._asdict()}))
    script = (
        f"setsid {sys.executable} -I -S {program} {folder} & echo $!; while [ ! -e {folder}/up ]; do :; done; exit 4"
    )
    environment = {"PATH": os.environ["PATH"]}
    rundir.launch(tmp_path / "run", argv=["sh", "-c", script], cwd="/", env=environment, wall_s=LONG_S, grace_s=1.0)
    record = rundir.wait(tmp_path / "run", LONG_S).exit
    assert record is not None
    assert (record.exit_code, record.detail) == (4, "processes that outlived the command and were ended: 1")
    assert platform.start_ticks(int((tmp_path / "run" / "stdout.log").read_text())) is None
