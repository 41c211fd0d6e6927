"""One lock file, one holder: flock(2) on Linux and macOS, `msvcrt.locking` on Windows.

Used by stores, the registry's cache and run directories. flock and not lockf: a POSIX record lock is dropped
by any close of the file in the process. flock and not a lock library: those poll, and hand over 25 to 125 ms
late. The kernel frees the lock when its holder dies. The lock file is never removed: two holders could
otherwise lock two files of the same name.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from types import TracebackType

from perpetual.toolkit import confined

_Path = str | os.PathLike[str]
_SHORTEST_WAIT_S = 0.0002
_LONGEST_WAIT_S = 0.05


class FileLock:
    """An exclusive lock between processes and between threads. Not reentrant; usable as a context manager.

    Two instances on one path exclude each other, also inside one process; one instance may be shared by
    threads. The descriptor is close-on-exec: a program that is started while the lock is held does not hold
    it on.
    """

    def __init__(self, path: _Path) -> None:
        """Opens nothing yet. The folder of `path` must exist when the lock is acquired."""
        self.path = os.fspath(path)
        self._turn = threading.Lock()
        self._descriptor: int | None = None

    def acquire(self, blocking: bool = True, timeout_s: float | None = None) -> bool:
        """Takes the lock; False if it was not free (at once, or within `timeout_s`).

        Without a timeout it waits in the kernel and wakes at the release; with one it tries again after a
        twentieth of the time waited so far, 0.2 to 50 ms. A concurrent `is_locked` counts as a holder for its
        microseconds.
        Raises ValueError for a timeout without blocking, OSError if the file cannot be opened or locked.
        """
        if not blocking and timeout_s is not None:
            raise ValueError("a timeout needs blocking=True")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._turn.acquire(blocking, -1 if timeout_s is None else max(0.0, timeout_s)):
            return False
        try:
            self._descriptor = _open_locked(self.path, blocking, deadline)
        finally:
            if self._descriptor is None:
                self._turn.release()
        return self._descriptor is not None

    def release(self) -> None:
        """Frees the lock. Raises RuntimeError if it is not held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            raise RuntimeError(f"{self.path}: released without being held")
        try:
            # Unlocked by name: closing alone would leave it locked while a forked child has a copy.
            _unlock(descriptor)
        finally:
            os.close(descriptor)
            self._turn.release()

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def open_locked(path: _Path) -> int | None:
    """Returns a descriptor of `path` (made if missing) that holds its lock; None if the lock is not free.

    For handing it on: a process that inherits the descriptor holds the lock on, and it is free when the last copy is
    closed. Close-on-exec until then. Raises OSError.
    """
    return _open_locked(os.fspath(path), False, None)


def is_locked(path: _Path) -> bool:
    """Returns whether a process, this one included, holds the lock on `path`. Never waits, creates nothing."""
    try:
        descriptor = confined.open_file(path)
    except (FileNotFoundError, NotADirectoryError, confined.UnsafePath):
        return False  # a link or a pipe in its place is no lock of ours
    try:
        if not _try_lock(descriptor, shared=True):
            return True
        _unlock(descriptor)
        return False
    finally:
        os.close(descriptor)


def _open_locked(path: str, blocking: bool, deadline: float | None) -> int | None:
    """Returns a descriptor that holds the lock, or None."""
    descriptor = confined.open_file(path, os.O_RDWR | os.O_CREAT)
    held = False
    try:
        if blocking and deadline is None:
            _wait_lock(descriptor)
            held = True
        else:
            held = _retry_lock(descriptor, deadline)
    finally:
        if not held:
            os.close(descriptor)
    return descriptor if held else None


def _retry_lock(descriptor: int, deadline: float | None) -> bool:
    begun = time.monotonic()
    while not _try_lock(descriptor):
        now = time.monotonic()
        if deadline is None or now >= deadline:
            return False
        # A holder is gone in a millisecond, or stays: after a long wait the looks are rare.
        wait_s = min(max(_SHORTEST_WAIT_S, (now - begun) / 20), _LONGEST_WAIT_S)
        time.sleep(min(wait_s, deadline - now))
    return True


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _wait_lock(descriptor: int) -> None:
        while not _try_lock(descriptor):
            time.sleep(_LONGEST_WAIT_S)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
        # A probe asks for a shared lock, so that probes never see each other.
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            _flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_lock(descriptor: int) -> None:
        _flock(descriptor, fcntl.LOCK_EX)

    def _flock(descriptor: int, kind: int) -> None:
        try:
            fcntl.flock(descriptor, kind)
        except OSError as exc:
            if exc.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                reason = f"{exc.strerror}: this file system locks no files, and work needs one that does"
                raise OSError(exc.errno, reason) from exc
            raise

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
