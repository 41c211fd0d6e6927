"""Whose run a folder holds: decided by the kernel, before a project that came from elsewhere may do anything.

A record that names a live process proves nothing: the folder may be a copy of the one that the process works for, and
the record may have been imported. So no scheduler that the project names is asked. What proves it is a supervisor that
works in this very folder, or a record that was written in it on this machine.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from perpetual.toolkit import confined, lock, platform
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.platform import Identity

__all__ = [
    "ARTIFACTS",
    "CHECKPOINTS",
    "LOCK",
    "NEEDS",
    "NONCE_VARIABLE",
    "STARTED",
    "folder_of",
    "is_locked",
    "is_ours",
    "supervisor_here",
]

LOCK = "supervisor.lock"
STARTED = "started.json"  # the supervisor's record of the start
# Folders of a run: what it keeps, from what it goes on, and what it needs of others.
ARTIFACTS, CHECKPOINTS, NEEDS = "artifacts", "checkpoints", "needs"
NONCE_VARIABLE = "PERPETUAL_RUN_NONCE"
_DELETED = " (deleted)"
_LARGEST_BYTES = 1 << 20  # of the record; a supervisor's has less than a thousandth of it


def is_locked(run_dir: Path) -> bool:
    """Returns whether a supervisor holds the lock of this folder.

    A file that a run has put in the place of the lock file is none.
    """
    path = run_dir / LOCK
    is_own = False
    try:
        found = os.lstat(path)
        is_own = found.st_uid == os.geteuid()
        return stat.S_ISREG(found.st_mode) and lock.is_locked(path)
    except OSError as exc:
        # A file of ours that may not be opened is one from which the run has taken the right.
        if exc.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ELOOP) or (
            exc.errno == errno.EACCES and is_own
        ):
            return False
        raise


def folder_of(pid: int) -> str | None:
    """Returns the folder in which a process works, as the platform names it; None where it does not say."""
    if sys.platform == "darwin":
        import psutil

        try:
            found: str = psutil.Process(pid).cwd()
        except (OSError, psutil.Error):
            return None
        return found
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def supervisor_here(identity: Identity, run_dir: Path) -> Identity | None:
    """Returns the supervisor that an identity names, as it can be signalled now, if it is proven to be of this folder.

    It has the recorded number and start, and works in this very folder, or in the one of that name that was removed.
    The boot is not asked for: a process that works here is of this boot, whatever the record or the environment says.
    """
    if platform.start_ticks(identity.pid) != identity.start_ticks:
        return None
    # Where a process's folder may not be seen, the lock of this one says whether a supervisor is at work in it.
    if not (_works_in(identity.pid, run_dir) if folder_of(identity.pid) is not None else is_locked(run_dir)):
        return None
    found = platform.identity_of(identity.pid)
    return found if found is not None and found.start_ticks == identity.start_ticks else None


def _works_in(pid: int, folder: Path) -> bool:
    if sys.platform != "darwin":
        try:
            here = os.stat(folder)
        except OSError:
            return folder_of(pid) == os.path.abspath(folder) + _DELETED
        try:
            return os.path.samestat(os.stat(f"/proc/{pid}/cwd"), here)
        except OSError:
            return False
    found = folder_of(pid)
    try:
        return found is not None and os.path.samefile(found, folder)
    except OSError:
        return False


def is_ours(run_dir: Path) -> bool:
    """Returns whether what is in this folder was written in it, by a supervisor of this user on this machine.

    Not so of a copy, a clone, a restored backup, or the folder of a run on another machine. A record of an earlier
    version says too little: of that one a supervisor must be at work here. Raises nothing.
    """
    try:
        found = os.lstat(run_dir)
        if found.st_uid != os.geteuid():
            return False
        supervisor, host_id, folder = _home(run_dir)
        if supervisor_here(supervisor, run_dir) is not None:
            return True
        return host_id == this_host().id and folder == found.st_ino
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # no record, or none of a supervisor
        return False


def _home(run_dir: Path) -> tuple[Identity, object, object]:
    """Returns the supervisor, the machine and the inode of the folder that the record of the start names."""
    import json

    found = json.loads(confined.read_bytes(run_dir / STARTED, limit=_LARGEST_BYTES))
    boot_id, pid, ticks = (found["supervisor"][key] for key in ("boot_id", "pid", "start_ticks"))
    if type(boot_id) is not str or type(pid) is not int or type(ticks) is not int or not 0 < pid < 1 << 31:
        raise ValueError("it names no process")
    return Identity(boot_id, pid, ticks), found.get("host_id"), found.get("folder")
