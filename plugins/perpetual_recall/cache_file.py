"""A SQLite file in the user's cache: how it is opened, removed, and known from another file of its name."""

from __future__ import annotations

import contextlib
import os
import sqlite3

from perpetual.api import TransientError

__all__ = ["check_busy", "connected", "identity", "remove"]


def connected(path: str, *, what: str, anew: bool, wait_s: float) -> sqlite3.Connection | None:
    """Returns a connection to the file, which is made where there is none; None where it cannot be had.

    Args:
        path: the file; `:memory:` for none.
        what: what it holds, in words.
        anew: whether one that is there is removed first.
        wait_s: seconds to wait for another process that writes.

    Raises:
        TransientError: while another process holds it for longer.
    """
    try:
        if path != ":memory:":
            if anew:
                remove(path)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            os.close(os.open(path, flags, 0o600))
        connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
    except (sqlite3.Error, OSError):
        return None
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = PERSIST")  # its file is kept, not made for each change
        connection.execute("PRAGMA synchronous = OFF")  # a cache: what a power cut breaks is built anew
    except sqlite3.Error as problem:
        connection.close()
        check_busy(problem, what)
        return None
    return connection


def check_busy(problem: Exception, what: str) -> None:
    """Raises TransientError where another process holds the file, which is then no reason to build it anew."""
    if isinstance(problem, sqlite3.OperationalError) and "locked" in str(problem):
        raise TransientError(f"another process is building {what}", hint="try again") from problem


def remove(path: str) -> None:
    """Removes the file and those that SQLite keeps beside it."""
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def identity(path: str) -> tuple[int, int] | None:
    """Returns device and inode of the file of that name, None for none: one that was replaced is another one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
