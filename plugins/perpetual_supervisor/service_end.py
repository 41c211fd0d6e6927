"""The end of a service by its files: its process is asked, and killed only if it holds the service's lock."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from perpetual.api import TransientError
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.lock import is_locked
from perpetual.toolkit.service_state import path_of, state_of

__all__ = ["end_service", "file_name"]

_LOOK_S = 0.05
_KILLED_S = 10.0  # until a killed process is gone


def file_name(name: str) -> str:
    """Returns the name of a service's files; a qualified name has a slash."""
    return name.replace("/", "--")


def end_service(folder: str, name: str, *, grace_s: float) -> None:
    """Asks a service to end, waits, and kills its process after `grace_s`; does nothing where none runs.

    Args:
        folder: the project directory.
        name: of the service.
        grace_s: between asking and killing.

    Raises:
        TransientError: if it goes on and its process cannot be identified, or outlives the kill.
    """
    lock = path_of(folder, file_name(name), "lock")
    if _is_over(lock, 0.0):
        return
    request = path_of(folder, file_name(name), "stop")
    write_atomic(request, "", durable=False)
    if not _is_over(lock, grace_s):
        _kill(folder, name, lock)
    with suppress(FileNotFoundError):
        os.unlink(request)


def _is_over(lock: str, timeout_s: float) -> bool:
    """Returns whether no process holds the lock, or none within the time."""
    deadline = time.monotonic() + timeout_s
    while is_locked(lock):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_S)  # no system tells another process that a lock was let go
    return True


def _kill(folder: str, name: str, lock: str) -> None:
    """Kills the process that holds the lock; what a file says of it is not believed."""
    import psutil

    pid: object = state_of(folder, file_name(name))["pid"]
    try:
        process = psutil.Process(pid) if type(pid) is int else None
        opened = [found.path for found in process.open_files()] if process is not None else []
        is_holder = any(os.path.samefile(path, lock) for path in opened if os.path.exists(path))
    except (psutil.Error, OSError):
        process, is_holder = None, False
    if process is not None and is_holder:
        with suppress(psutil.NoSuchProcess):
            process.kill()
        if not _is_over(lock, _KILLED_S):
            raise TransientError(f"the service {name} goes on, though process {pid} was killed", hint="try again")
    elif not _is_over(lock, _LOOK_S):
        raise TransientError(f"the service {name} goes on, and its process is not known",
                             hint=f"find out which process holds {lock}, and end it")  # fmt: skip
