"""Row 3: the machine was restarted. What ran is lost, and whoever has its pids now is nobody's to signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual.toolkit import platform
from perpetual_supervisor import rundir
from tests.faults.supervised import Bench
from tests.support import LONG_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Where the runs live."""
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def stranger() -> Iterator[tuple[subprocess.Popen[bytes], platform.Identity]]:
    """A process that writes a line at each TERM and CONT, and ends with its standard input."""
    program = (
        "import signal, sys\n"
        "for each in (15, 18): signal.signal(each, lambda *a: print('signalled', flush=True))\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        identity = platform.identity_of(process.pid)
        assert identity is not None
        yield process, identity
        process.kill()


def test_after_a_restart_a_run_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of it, and by id or by folder; one that ended before has ended."""
    before = bench.shell("exit 6", name="before")
    bench.wait(before, name="before")
    launched = bench.shell("echo up; read x < $GATE")
    started = bench.started()
    assert started.child is not None
    for each in (started.supervisor, started.child):
        assert platform.signal_process(each, signal.SIGKILL)
        assert platform.wait_gone(each, LONG_S)
    monkeypatch.setenv(platform.BOOT_ID_VARIABLE, "the next boot")
    for known in (launched, None):
        for seen in (bench.poll(known), bench.wait(known)):
            assert (seen.state, seen.detail) == ("lost", "reboot")
            assert (seen.reason, seen.exit_code, seen.duration_s, seen.age_s) == (None, None, None, None)
        assert bench.cancel(known) is False
    assert (bench.poll(before, name="before").state, bench.poll(before, name="before").exit_code) == ("ended", 6)


def test_a_held_lock_is_of_this_boot(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an environment says that a test has left: the run lives, and can be ended."""
    launched = bench.shell("echo up; read x < $GATE")
    with monkeypatch.context() as restarted:
        restarted.setenv(platform.BOOT_ID_VARIABLE, "the next boot")
        for known in (launched, None):
            assert bench.poll(known).state == "running"
        assert bench.cancel(None, grace_s=0.0)
    assert bench.wait(launched).reason == "killed"


@pytest.mark.parametrize("same_ticks", [True, False])
def test_processes_that_have_the_pids_now_are_left_alone(
    bench: Bench, stranger: tuple[subprocess.Popen[bytes], platform.Identity], same_ticks: bool
) -> None:
    """Even where it was started at the same tick after its boot."""
    process, identity = stranger
    former = identity._replace(boot_id="the boot before", start_ticks=identity.start_ticks - (0 if same_ticks else 1))
    folder = bench.spec("true").log_dir
    record = {"supervisor": former._asdict(), "child": former._asdict(), "started_at": "2026-11-21T00:00:00.000Z",
              "wall_s": 1.0, "grace_s": 1.0}  # fmt: skip
    (folder / "started.json").write_text(json.dumps(record))
    native_id = f"{former.boot_id}/{former.pid}/{former.start_ticks}"
    for known in (native_id, None):
        seen = bench.scheduler.poll(known, folder)
        assert (seen.state, seen.detail, seen.overdue) == ("lost", "reboot", False)
        assert bench.scheduler.cancel(known, folder, by="the test", grace_s=0.0) is False
    (folder / "started.json").unlink()
    seen = bench.scheduler.poll(native_id, folder)
    assert (seen.state, seen.detail) == ("lost", "reboot; its folder was removed")
    assert bench.scheduler.cancel(native_id, folder, by="the test", grace_s=0.0) is False
    assert process.communicate()[0] == b"", "the stranger was signalled"
    assert process.returncode == 0


def test_remains_of_a_launcher_before_the_restart_are_replaced(bench: Bench) -> None:
    """Though a process lives that has its pid and its ticks."""
    spec = bench.spec("sh", "-c", f"{bench.count()} exit 2")
    mine = platform.identity_of(os.getpid())
    assert mine is not None
    left = {"argv": ["sh", "-c", "exit 1"], "cwd": "/", "env": {}, "wall_s": None, "grace_s": 1.0,
            "max_log_bytes": None, "launcher": mine._replace(boot_id="the boot before")._asdict()}  # fmt: skip
    (spec.log_dir / "launch.json").write_text(json.dumps(left))
    assert bench.poll().state == "absent"
    launched = bench.scheduler.launch(spec)
    assert (bench.wait(launched).exit_code, bench.ran()) == (2, 1)
    assert rundir.observe(spec.log_dir).state == "ended"
