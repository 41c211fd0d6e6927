"""Runs that are started from inside a run: detects their supervisors, which the outer run's end leaves alone.

For the end of a run's processes: its supervisor (`supervisor.py`), and `rundir.py` where that is lost. Only light
parts of the standard library at the top.
"""

from __future__ import annotations

import os

from perpetual.toolkit import platform
from perpetual_supervisor import plainjson


def is_supervisor(pid: int) -> bool:
    """Returns whether this process is proven to be a run's supervisor: the processes below it belong to that run.

    Its command line says so, its working directory is a run's and it holds the lock there, and the record of the start
    names it, or there is none yet and the run is still to be launched. A process that only looks like one does not
    count.
    """
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
        if len(words) < 3 or os.path.basename(words[-2]) != b"shim.py":
            return False
        folder = f"/proc/{pid}/cwd"  # leads there when the folder was renamed, too
        if not _holds_lock(pid, f"{folder}/supervisor.lock"):
            return False
        # In this order: the record of the start is there before `launch.json` goes.
        is_starting = os.path.exists(f"{folder}/launch.json")
        try:
            started = plainjson.read(f"{folder}/started.json")
        except FileNotFoundError:
            return is_starting
        identity = platform.identity_of(pid)
        if not isinstance(started, dict):
            return False
        return identity is not None and bool(started["supervisor"] == identity._asdict())
    except (OSError, ValueError, KeyError, TypeError):
        return False  # gone, of another user, or no record of ours: nothing is proven


def _holds_lock(pid: int, path: str) -> bool:
    """Returns whether the process has this lock file open and the lock is held."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place would be waited on
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            pass
        files = f"/proc/{pid}/fd"
        return any(os.path.samestat(os.fstat(descriptor), os.stat(f"{files}/{each}")) for each in os.listdir(files))
    finally:
        os.close(descriptor)
