"""Row 2: a run's command, its supervisor or its launcher is killed, at each step of its life.

Afterwards the run is said to be what it really is, nothing of it is left, and the command never ran twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual.slots.scheduler import LaunchError
from perpetual.toolkit import platform
from perpetual_supervisor import rundir
from tests.faults.supervised import Bench
from tests.support import LONG_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Where the runs live."""
    made = Bench(tmp_path)
    yield made
    made.close()


def _lost(name: str, patch: str, ran: int, state: str) -> object:
    return pytest.param(patch, ran, state, id=name, marks=pytest.mark.slow)


def test_a_killed_command_keeps_its_signal_and_last_words(bench: Bench) -> None:
    """Its signal and its last words are kept, and it leaves no zombie."""
    launched = bench.shell("echo first; echo last; echo error >&2; exec sleep 600")
    until(lambda: bench.text("stderr.log"), "it did not come so far")
    child = bench.started().child
    assert child is not None
    assert platform.signal_process(child, signal.SIGKILL)
    seen = bench.wait(launched)
    assert (seen.state, seen.reason, seen.signal, seen.exit_code) == ("ended", "signalled", signal.SIGKILL, None)
    assert (bench.text("stdout.log"), bench.text("stderr.log")) == ("first\nlast\n", "error\n")
    assert not Path(f"/proc/{child.pid}").exists(), "it is still a zombie"


# Where the supervisor dies, how often the command has run then, and what is to be said of it.
_START = "f = supervisor.Run.{0}\ndef g(self, *a):\n    {1}\nsupervisor.Run.{0} = g\n"
_BEFORE, _AFTER = "die()", "r = f(self, *a); die()"
_UNTOLD = """
import time
def answer(*a):
    while not os.path.exists("../cwd/run.ran"):
        time.sleep(0.005)
    die()
supervisor.answer = answer
"""
# Its end of the launcher's pipe is closed, and it is still to be found: as every process, a moment before its end.
_SLOWLY = _UNTOLD.replace("    die()", "    os.close(1); time.sleep(0.3); die()")
_REPLACE = "f = os.replace\ndef g(a, b):\n    {0}\nos.replace = g\n"


@pytest.mark.parametrize(
    ("patch", "ran", "state"),
    [
        _lost("before the fork", _START.format("_fork", _BEFORE), 0, "absent"),
        _lost("before the record of the start", _START.format("_record_start", _BEFORE), 0, "absent"),
        _lost(
            "while the record of the start is written",
            _REPLACE.format("die() if b == 'started.json' else f(a, b)"),
            0,
            "absent",
        ),
        pytest.param(
            _START.format("_record_start", _AFTER), 0, "lost", id="between the record of the start and the command"
        ),
        _lost("before the launcher is told", _UNTOLD, 1, "lost"),
        _lost("before the launcher is told, slowly", _SLOWLY, 1, "lost"),
    ],
)
def test_a_supervisor_that_dies_at_the_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, patch: str, ran: int, state: str
) -> None:
    """The launch says so, and what was started by then is ended."""
    monkeypatch.setattr(rundir, "SHIM", bench.supervise_with(patch))
    spec = bench.spec("sh", "-c", f"trap '' TERM; {bench.count()} read x < $GATE", grace_s=0.2)
    with pytest.raises(LaunchError, match="the supervisor died"):
        bench.scheduler.launch(spec)
    until(lambda: not bench.alive(), "something of it lives on")
    seen = bench.wait()
    assert (seen.state, seen.exit_code, seen.reason) == (state, None, None)
    assert bench.ran() == ran
    assert not (spec.log_dir / "launch.json").exists(), "it may hold secrets"
    assert bench.cancel() is False


@pytest.mark.slow
def test_a_supervisor_that_dies_while_it_runs(bench: Bench) -> None:
    """The command is running while it lives, and lost from then on."""
    launched = bench.shell(f"{bench.count()} read x < $GATE; exit 3")
    supervisor = bench.started().supervisor
    assert platform.signal_process(supervisor, signal.SIGKILL)
    assert platform.wait_gone(supervisor, LONG_S)
    assert (bench.poll(launched).state, bench.poll(launched).pid) == ("running", launched.pid)
    with pytest.raises(LaunchError, match="had its run"):
        bench.shell(bench.count())
    bench.open()
    seen = bench.wait(launched)
    assert (seen.state, seen.exit_code, seen.duration_s) == ("lost", None, None)
    assert bench.ran() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patch", "state", "exit_code"),
    [
        ("supervisor.record_exit = lambda *a: die()", "lost", None),
        (_REPLACE.format("die() if b == 'exit.json' else f(a, b)"), "lost", None),
        (_REPLACE.format("f(a, b); b == 'exit.json' and die()"), "ended", 3),
    ],
    ids=["between reaping and the record", "while the record is written", "after the record"],
)
def test_a_supervisor_that_dies_at_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, patch: str, state: str, exit_code: int | None
) -> None:
    """Only a whole record counts; a temporary file is none."""
    monkeypatch.setattr(rundir, "SHIM", bench.supervise_with(patch))
    launched = bench.shell(f"{bench.count()} echo done, exit code 3; exit 3")
    seen = bench.wait(launched)
    assert (seen.state, seen.exit_code) == (state, exit_code)
    assert (bench.ran(), bench.text("stdout.log")) == (1, "done, exit code 3\n")
    assert bench.poll(launched) == seen
    assert bench.cancel(launched) is False


_LAUNCHER = """
import os, sys
from pathlib import Path
from perpetual_supervisor import rundir
folder = Path(sys.argv[1])
rundir.launch(folder, argv=["sh", "-c", sys.argv[2]], cwd=folder.parent / "cwd", env=dict(os.environ), wall_s=None,
              grace_s=1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("step", "starts"), [("launch:spec", False), ("launch:forked", True)])
def test_a_dead_launcher_leaves_a_run_that_starts_once(bench: Bench, step: str, starts: bool) -> None:
    """Before there is a supervisor nothing has run and the next launch starts it; afterwards it runs its course."""
    spec = bench.spec("sh", "-c", f"{bench.count()} exit 4")
    environment = {**os.environ, "PERPETUAL_DIE_AT": step, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCHER, str(spec.log_dir), f"{bench.count()} exit 4"], env=environment, check=False
    )
    assert done.returncode == -signal.SIGKILL
    if not starts:
        assert (bench.poll().state, bench.ran()) == ("absent", 0)
        bench.shell(f"{bench.count()} exit 4")
    until(lambda: bench.poll().state == "ended", "it was never started")
    assert (bench.poll().exit_code, bench.ran()) == (4, 1)
    with pytest.raises(LaunchError, match="had its run"):
        bench.scheduler.launch(spec)
    assert bench.ran() == 1
