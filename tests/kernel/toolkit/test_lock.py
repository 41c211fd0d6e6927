"""The file lock: between processes, between threads, and what a probe sees."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from perpetual.toolkit.lock import FileLock, is_locked

fcntl = pytest.importorskip("fcntl")
ROOT = Path(sys.modules[FileLock.__module__].__file__ or "").parents[2]


@contextmanager
def other_holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock until its stdin is closed or it is killed."""
    program = (
        "import sys\n"
        "from perpetual.toolkit.lock import FileLock\n"
        "with FileLock(sys.argv[1]):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield holder
        finally:
            holder.kill()


def test_another_process_is_kept_out_until_the_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    mine = FileLock(path)
    with other_holder(path) as holder:
        assert is_locked(path)
        assert not mine.acquire(blocking=False)
        begin = time.monotonic()
        assert not mine.acquire(timeout_s=0.1)
        assert 0.1 <= time.monotonic() - begin < 30.0
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert mine.acquire(blocking=False)
    assert is_locked(path)
    mine.release()
    assert not is_locked(path)
    assert path.exists()


@pytest.mark.parametrize("timeout_s", [None, 20.0])
def test_a_waiter_gets_the_lock_when_it_is_released(tmp_path: Path, timeout_s: float | None) -> None:
    path = tmp_path / "lock"
    got: list[bool] = []
    with other_holder(path) as holder:
        mine = FileLock(path)
        waiter = threading.Thread(target=lambda: got.append(mine.acquire(timeout_s=timeout_s)))
        waiter.start()
        assert holder.stdin is not None
        holder.stdin.close()
        waiter.join()
    assert got == [True]
    mine.release()


@pytest.mark.parametrize("shared_instance", [True, False])
def test_threads_exclude_each_other(tmp_path: Path, shared_instance: bool) -> None:
    path = tmp_path / "lock"
    one = FileLock(path)
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        guard = one if shared_instance else FileLock(path)
        for _ in range(50):
            with guard:
                inside += 1
                most = max(most, inside)
                time.sleep(0)  # lets the others run, were they allowed to
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most) == (0, 1)


def test_one_instance_is_not_reentrant_and_its_timeouts_hold(tmp_path: Path) -> None:
    guard = FileLock(tmp_path / "lock")
    with guard:
        assert not guard.acquire(blocking=False)
        assert not guard.acquire(timeout_s=0.02)
    assert guard.acquire(timeout_s=0.0)
    guard.release()


def test_misuse_of_a_lock_raises(tmp_path: Path) -> None:
    guard = FileLock(tmp_path / "lock")
    with pytest.raises(RuntimeError, match="without being held"):
        guard.release()
    with pytest.raises(ValueError, match="blocking"):
        guard.acquire(blocking=False, timeout_s=1.0)
    astray = FileLock(tmp_path / "missing" / "lock")
    with pytest.raises(FileNotFoundError):
        astray.acquire()
    (tmp_path / "missing").mkdir()
    assert astray.acquire(blocking=False), "a failed acquire must not keep the turn"
    astray.release()


def test_a_probe_creates_nothing_and_probes_do_not_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    assert not path.exists()
    path.touch()
    with path.open() as probe:
        fcntl.flock(probe, fcntl.LOCK_SH)  # as another probe does, for its microseconds
        assert not is_locked(path)
        assert not FileLock(path).acquire(blocking=False)
    assert not is_locked(path)


def test_a_program_started_meanwhile_does_not_hold_the_lock_on(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    guard = FileLock(path)
    guard.acquire()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False):
        guard.release()
        assert not is_locked(path)


def test_a_copied_descriptor_does_not_hold_a_released_lock(tmp_path: Path) -> None:
    """What a forked worker would have: a copy of the open file."""
    path = tmp_path / "lock"
    guard = FileLock(path)
    guard.acquire()
    (descriptor,) = [found.fd for found in psutil.Process().open_files() if found.path == str(path)]
    copy = os.dup(descriptor)
    try:
        guard.release()
        assert not is_locked(path)
    finally:
        os.close(copy)


def test_a_file_system_that_cannot_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some network file systems: the bare words of the kernel lead nobody to the cause."""

    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    guard = FileLock(tmp_path / "lock")
    for timeout_s in (None, 0.01):
        with pytest.raises(OSError, match="No locks available: this file system locks no files") as told:
            guard.acquire(timeout_s=timeout_s)
        assert told.value.errno == errno.ENOLCK
    monkeypatch.undo()
    with guard:  # nothing is held of the tries
        assert is_locked(tmp_path / "lock")
