"""Row 14: runs that do not want to end, and folders that vanish. After the grace nothing of a run is left.

`ended` is said when every process is gone, by its identity; a process that merely has a pid of the run is left alone.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual.slots.scheduler import Launched, Sighting
from perpetual.toolkit import platform
from perpetual_supervisor import rundir
from tests.faults.supervised import Bench
from tests.support import LONG_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

# Each process says that it is there before it does what it does.
PROGRAM = """
import os, signal, sys, time
def here():
    os.write(1, b"here\\n")
def daemon():
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    os.chdir("/")
    for each in (0, 1, 2):
        if each != 1: os.close(each)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    here(); time.sleep(600); os._exit(0)
def forks():
    for _ in range(5):
        if os.fork() == 0:
            here(); time.sleep(600); os._exit(0)
def deaf():
    for each in (1, 2, 3, 10, 12, 15, 20):
        signal.signal(each, signal.SIG_IGN)
def stopped():
    if os.fork() == 0:
        deaf(); here(); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600); os._exit(0)
def walker():
    # Never the same process for long: the child goes on and the parent leaves.
    if os.fork(): return
    os.setsid()
    deaf(); here()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if os.fork(): os._exit(0)
        time.sleep(0.002)
    os._exit(0)
def again():
    # A child that is ended is started again.
    if os.fork(): return
    deaf(); here()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if os.fork() == 0: time.sleep(600)
        os.wait()
    os._exit(0)
for deed in sys.argv[1:]:
    globals()[deed]()
here()
time.sleep(600)
"""
VOICES = {"daemon": 1, "forks": 5, "deaf": 0, "stopped": 1, "walker": 1, "again": 1}
ALL = ("deaf", "daemon", "forks", "stopped", "walker", "again")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Where the runs live."""
    made = Bench(tmp_path)
    yield made
    made.close()


def _settled(bench: Bench, launched: Launched) -> Sighting:
    """How it ended; at the first moment at which that is said nothing of it may live."""
    deadline = time.monotonic() + LONG_S
    while (seen := bench.poll(launched)).state == "running":
        assert time.monotonic() < deadline, "it does not end"
    left = bench.alive()
    assert not left, f"said to have ended while {left} live"
    return seen


def _up(bench: Bench, *deeds: str) -> None:
    voices = 1 + sum(VOICES[deed] for deed in deeds)
    until(lambda: bench.text("stdout.log").count("here") >= voices, "it did not come up")


@pytest.mark.parametrize("deeds", [ALL, *(pytest.param((each,), marks=pytest.mark.slow, id=each) for each in ALL)])
def test_a_cancelled_run_is_gone_after_its_grace(bench: Bench, deeds: tuple[str, ...]) -> None:
    """Whatever it has become."""
    launched = bench.python(PROGRAM, *deeds)
    _up(bench, *deeds)
    begun = time.monotonic()
    assert bench.cancel(launched, grace_s=0.3)
    seen = _settled(bench, launched)
    assert (seen.state, seen.reason, seen.detail) == ("ended", "killed", "cancelled by the test")
    assert time.monotonic() - begun < LONG_S


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["wall_s", "no_output_s"])
def test_a_run_over_a_limit_is_gone_after_its_grace(bench: Bench, limit: str) -> None:
    """As one that is cancelled."""
    launched = bench.python(PROGRAM, *ALL, **{limit: 1.0, "grace_s": 0.3})
    seen = _settled(bench, launched)
    assert (seen.state, seen.reason) == ("ended", "timeout")


@pytest.mark.slow
def test_processes_that_a_command_leaves_behind_are_ended(bench: Bench) -> None:
    """Also where the command itself was killed by somebody."""
    launched = bench.python(PROGRAM, *ALL, grace_s=0.3)
    _up(bench, *ALL)
    child = bench.started().child
    assert child is not None
    platform.signal_process(child, signal.SIGKILL)
    seen = _settled(bench, launched)
    assert (seen.state, seen.reason, seen.signal) == ("ended", "signalled", signal.SIGKILL)
    assert "outlived the command" in str(seen.detail)


_BLIND = """
f, calls = process_tree.descendants, []
def blind(*a, **k):
    calls.append(a)
    return [] if len(calls) == 1 else f(*a, **k)
process_tree.descendants = blind
"""


def test_a_process_that_is_missed_once_is_not_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that moves from parent to parent can be, by whoever walks down the tree."""
    monkeypatch.setattr(rundir, "SHIM", bench.supervise_with(_BLIND))
    launched = bench.shell("setsid sleep 600 & exit 3", grace_s=0.0)
    seen = _settled(bench, launched)
    assert (seen.state, seen.exit_code) == ("ended", 3)
    assert "outlived the command" in str(seen.detail)


# Between a look at our children and one at theirs the command leaves, once it has got its TERM.
_COLLAPSING = """
import time
f, g, told = process_tree._children, supervisor.signal_group, []
def signal_group(group, signum):
    told.append(group)
    return g(group, signum)
def children(pid):
    found = f(pid)
    while told and pid == os.getpid() and platform.start_ticks(told[0]) is not None:
        time.sleep(0.005)
    return found
process_tree._children, supervisor.signal_group = children, signal_group
"""


def test_children_of_a_process_that_ends_at_term_get_their_term(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those in a session of their own, whom a signal to the command's group does not reach."""
    monkeypatch.setattr(rundir, "SHIM", bench.supervise_with(_COLLAPSING))
    polite = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    launched = bench.shell(f'setsid sh -c "{polite}" & echo up; read x < $GATE')
    until(lambda: bench.text("stdout.log") == "up\nup\n", "it did not come up")
    assert bench.cancel(launched, grace_s=LONG_S)
    seen = bench.wait(launched)
    assert (seen.reason, seen.signal) == ("killed", signal.SIGTERM)
    assert bench.text("stdout.log") == "up\nup\nsaved\n"


def test_another_process_of_the_same_pid_is_left_alone(bench: Bench) -> None:
    """By poll, wait and cancel, by id and by folder: the record names other start ticks."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:
        now = bench.identity(stranger.pid)
        former = now._replace(start_ticks=now.start_ticks - 1)
        folder = bench.spec("true").log_dir
        record = {"supervisor": former._asdict(), "child": former._asdict(), "started_at": "2026-11-21T00:00:00.000Z",
                  "wall_s": 0.0, "grace_s": 0.0}  # fmt: skip
        (folder / "started.json").write_text(json.dumps(record))
        native_id = f"{former.boot_id}/{former.pid}/{former.start_ticks}"
        for known in (native_id, None):
            assert bench.scheduler.poll(known, folder).state == "lost"
            assert bench.scheduler.wait(known, folder, 0.01).state == "lost"
            assert bench.scheduler.cancel(known, folder, by="the test", grace_s=0.0) is False
        shutil.rmtree(folder)
        assert bench.scheduler.poll(native_id, folder).state == "lost"
        assert bench.scheduler.cancel(native_id, folder, by="the test", grace_s=0.0) is False
        stranger.communicate()
        assert stranger.returncode == 0


@pytest.mark.parametrize(
    "how",
    ["cancel", *(pytest.param(each, marks=pytest.mark.slow) for each in ("wall", "silence", "exit", "supervisor"))],
)
def test_a_folder_that_vanishes_under_its_run(bench: Bench, how: str) -> None:
    """The run is ended all the same; how it ended is lost with its record, and nobody invents it."""
    limits = {"wall_s": 3.0 if how == "wall" else None, "no_output_s": 3.0 if how == "silence" else None}
    launched = bench.shell("setsid sleep 600 & echo up; read x < $GATE; exit 5", **limits)
    until(lambda: bench.text("stdout.log") == "up\n", "it did not come up")
    supervisor = bench.started().supervisor
    shutil.rmtree(bench.folder / "run")
    if how not in ("wall", "silence"):
        seen = bench.poll(launched)
        assert (seen.state, seen.reason) == ("running", None)
        assert "removed" in str(seen.detail)
    assert bench.poll(None).state == "absent"
    assert bench.cancel(None) is False
    assert bench.scheduler.wait(launched.native_id, bench.folder / "run", 0.0).state in ("running", "lost")
    if how == "cancel":
        assert bench.cancel(launched) is True
    elif how == "exit":
        bench.open()
    elif how == "supervisor":
        platform.signal_process(supervisor, signal.SIGTERM)
    seen = bench.wait(launched)
    assert (seen.state, seen.reason, seen.exit_code, seen.duration_s) == ("lost", None, None, None)
    assert not bench.alive()
    assert bench.cancel(launched) is False
    assert not (bench.folder / "run").exists(), "nothing is written where the folder was"


@pytest.mark.slow
def test_a_folder_that_vanishes_under_an_orphan(bench: Bench) -> None:
    """Nothing is known of it any more, and nothing is signalled."""
    launched = bench.shell("echo up; read x < $GATE")
    until(lambda: bench.text("stdout.log") == "up\n", "it did not come up")
    started = bench.started()
    assert platform.signal_process(started.supervisor, signal.SIGKILL)
    assert platform.wait_gone(started.supervisor, LONG_S)
    shutil.rmtree(bench.folder / "run")
    assert (bench.poll(launched).state, bench.poll(launched).detail) == ("lost", "its folder was removed")
    assert bench.cancel(launched) is False
    bench.open()
    assert started.child is not None
    assert platform.wait_gone(started.child, LONG_S)
