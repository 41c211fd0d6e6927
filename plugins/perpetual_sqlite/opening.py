"""Opening of an SQLite file: the journal that is safe here, and reading without writing.

Plugins that require `sqlite` may import it.

*Which journal.* The write-ahead log (WAL) lets readers and a writer go on side by side, but SQLite 3.7.0 to 3.51.2
can lose a commit when two connections write and checkpoint at one instant (https://www.sqlite.org/wal.html, "the
WAL-reset bug"; mended in 3.51.3, 3.50.7 and 3.44.6), and it needs memory that all its processes share, which no
network file system gives. Everywhere else the rollback journal is used, in TRUNCATE mode: with `synchronous=FULL` the
truncation that makes a commit final is synced too, which of the removal in DELETE mode only EXTRA promises.

*Reading.* A reader opens the file read-only and never with `immutable=1`: that switches off locks and the look for
changes, and a process that may not write a folder cannot know that no other does. Two states cannot be read in place
without writing: a commit that a crash cut off (a hot journal must be rolled back first) and a WAL file in a folder
where its index cannot be made. Then the file and its journal are copied in a moment of rest, mended in the copy, and
read from memory; the original stays as it is until the next writer opens it. In WAL mode a reader that may write the
folder makes the shared index (`-shm`) there, and an empty `-wal`: no content of the file.

*Locks.* SQLite locks with POSIX record locks, which a process loses when it closes any descriptor of the same file
(https://www.sqlite.org/howtocorrupt.html, section 2.2). So nothing in a process that uses this module may open and
close the database file (or its `-shm`) by itself: look at it by `os.stat` alone.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from perpetual.toolkit import confined
from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.filesystems import file_system, is_network

__all__ = [
    "Opened",
    "choose_mode",
    "create",
    "has_wal_fix",
    "needs_copy",
    "open_reading",
    "open_writing",
    "stamp",
]

# The companions of a database file that hold content of it.
_JOURNALS = ("-journal", "-wal")
# A copy-up in the middle of a connection's life gives one file two inodes: what is mapped is then not shared.
_LAYERED = frozenset({"overlay", "aufs", "unionfs"})
# File systems stamp times with the clock of the kernel's tick, 1 to 10 ms: a younger time proves nothing.
_TICK_S = 0.02
_COPY_BYTES = 1 << 20
# (device, inode) -> a descriptor that is never closed, for the reason under *Locks*.
_sources: dict[tuple[int, int], int] = {}


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file: `mode` is `wal` or `truncate`, `why` says in words how it came to that.

    `copied`: the connection holds a private copy of the state when it was opened; it is to be opened anew once
    `stamp` of the path answers something else.
    """

    connection: sqlite3.Connection
    mode: str
    why: str
    copied: bool = False


def has_wal_fix(version: tuple[int, ...]) -> bool:
    """Returns whether SQLite of that version (`sqlite3.sqlite_version_info`) is free of the WAL-reset race."""
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


def choose_mode(folder: str | os.PathLike[str]) -> tuple[str, str]:
    """Returns the journal mode for files in `folder`, and the reason in words."""
    version = sqlite3.sqlite_version
    if not has_wal_fix(sqlite3.sqlite_version_info):
        return "truncate", f"SQLite {version} can lose a commit in WAL mode (mended in 3.51.3, 3.50.7 and 3.44.6)"
    kind = file_system(folder)
    if kind is None:
        return "truncate", "the file system is unknown, and WAL needs a local one"
    if is_network(kind):
        return "truncate", f"{kind} is no local file system, and WAL needs memory that its processes share"
    if kind in _LAYERED:
        return "truncate", f"{kind} may move a file that is open, and WAL needs memory that its processes share"
    return "wal", f"SQLite {version} and the file system {kind} are fit for WAL"


def create(path: Path, build: Callable[[sqlite3.Connection], None]) -> None:
    """Makes the file with the content that `build` gives it: it is there whole or not at all, mode 0600.

    For the holder of the lock that the file's writers share; what an earlier one left half built is removed.

    Raises:
        OSError, sqlite3.Error: then there is no file.
    """
    half = path.with_name(path.name + ".new")
    names = [Path(f"{half}{end}") for end in ("", *_JOURNALS, "-shm")]
    for name in names:
        name.unlink(missing_ok=True)
    try:
        # SQLite would take the umask's mode; its own companions get that of the file.
        os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(open_writing(half, 0.0).connection) as connection:
            connection.execute("BEGIN IMMEDIATE")
            build(connection)
            connection.execute("COMMIT")
        os.replace(half, path)
    finally:
        for name in names:
            name.unlink(missing_ok=True)
    fsync_dir(path.parent)


def open_writing(path: Path, timeout_s: float, *, check: Callable[[sqlite3.Connection], None] | None = None) -> Opened:
    """Opens an existing file for writing, in autocommit mode; each commit is on stable storage when it returns.

    A commit that a crash cut off is rolled back. A file in the other journal mode is changed, unless another
    process has it open: then its mode is kept, `why` says so, and WAL is without danger only to processes that
    write and checkpoint under a lock of their own.

    `timeout_s` is for locks of SQLite's own that others hold. `check` is called before anything is changed; what it
    raises is passed on: with it a strange file stays as it is.

    Raises:
        sqlite3.Error: for what cannot be opened or is no database.
    """
    connection = _connect(path, "rw", timeout_s)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync=ON")  # fsync(2) there leaves it in the disk's own memory
        if check is not None:
            check(connection)
        mode, why = choose_mode(path.parent)
        if _mode(connection) != mode and not _convert(connection, mode, timeout_s):
            mode = _mode(connection)
            why = f"another process has the file open in {mode} mode; otherwise: {why}"
        if mode == "truncate":
            connection.execute("PRAGMA journal_mode=TRUNCATE")
    except BaseException:
        connection.close()
        raise
    return Opened(connection, mode, why)


def open_reading(path: Path, timeout_s: float) -> Opened:
    """Opens an existing file for reading, without writing anything; see *Reading* at the top of this module.

    Raises:
        OSError: for what may not be read.
        sqlite3.Error: for what is no database; with the code of a lock if it did not stand still to be copied.
    """
    opened = _in_place(path, timeout_s)
    return open_copy(path, timeout_s) if opened is None else opened


def _in_place(path: Path, timeout_s: float) -> Opened | None:
    """Returns the file itself, or None where SQLite would have to write to read it."""
    connection = _connect(path, "ro", timeout_s)
    try:
        mode = _mode(connection)  # which looks for a journal too
    except sqlite3.OperationalError as problem:
        connection.close()
        if not needs_copy(problem):
            raise
        return None
    except BaseException:
        connection.close()
        raise
    return Opened(connection, mode, _why(path, mode))


def needs_copy(problem: sqlite3.Error) -> bool:
    """Returns whether a reader was refused since SQLite would have to write: `open_reading` finds another way."""
    code = getattr(problem, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def stamp(path: Path) -> tuple[tuple[int, int, int, int], ...]:
    """Returns what changes with every change of the file: device, inode, size and time of it and of its journals."""
    found = []
    look = os.lstat if confined.is_inside(path) else os.stat
    for end in ("", *_JOURNALS):
        try:
            status = look(f"{path}{end}")
            found.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
        except FileNotFoundError:
            found.append((0, 0, 0, 0))
    return tuple(found)


def _connect(path: Path, mode: str, timeout_s: float) -> sqlite3.Connection:
    """Opens it by name: SQLite takes no descriptor, so what has the names is looked at first.

    Raises UnsafePath.
    """
    if confined.is_inside(path):
        for end in ("", *_JOURNALS, "-shm"):
            confined.check_file(f"{path}{end}", writes=mode == "rw")
    # Any thread may close it: the one that ends the program is seldom the one that opened it.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )


def _mode(connection: sqlite3.Connection) -> str:
    """Returns `wal` or `truncate`: the other rollback modes belong to the connection, not to the file."""
    ((found,),) = connection.execute("PRAGMA journal_mode").fetchall()
    return "wal" if found == "wal" else "truncate"


def _convert(connection: sqlite3.Connection, wanted: str, timeout_s: float) -> bool:
    """Changes the file's journal mode if no other process is using it at this moment."""
    connection.execute("PRAGMA busy_timeout=0")
    try:
        connection.execute(f"PRAGMA journal_mode={wanted}").fetchall()
    except sqlite3.OperationalError as problem:
        if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout={round(timeout_s * 1000)}")
    return _mode(connection) == wanted


def _why(path: Path, mode: str) -> str:
    wanted, why = choose_mode(path.parent)
    return why if wanted == mode else f"the file is in {mode} mode until a writer opens it; then: {why}"


def open_copy(path: Path, timeout_s: float) -> Opened:
    """Returns, in memory, the state that a reader sees after recovery; or the file, once a writer has recovered it."""
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    deadline = time.monotonic() + timeout_s
    with TemporaryDirectory(prefix="perpetual-sqlite-") as folder:
        copied = Path(folder) / path.name
        while True:
            before = stamp(path)
            if abs(time.time_ns() - max(part[3] for part in before)) > _TICK_S * 1e9:
                _copy_source(path, copied)
                for end in _JOURNALS:
                    Path(f"{copied}{end}").unlink(missing_ok=True)
                    try:
                        descriptor = confined.open_file(f"{path}{end}")
                        with open(descriptor, "rb") as source, open(f"{copied}{end}", "wb") as target:
                            copyfileobj(source, target)
                    except FileNotFoundError:
                        continue  # nor has the copy one
                if stamp(path) == before:
                    break
            if time.monotonic() >= deadline:
                problem = sqlite3.OperationalError(f"{path} did not stand still for a copy")
                problem.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise problem
            time.sleep(_TICK_S)
            # a process that keeps it changing has mended it, and may go on writing for long
            if (plain := _in_place(path, timeout_s)) is not None:
                return plain
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with closing(_connect(copied, "rw", 0.0)) as mended:
            mode = _mode(mended)
            mended.backup(memory)
    return Opened(memory, mode, f"read from a copy, for only a writer can mend the file; {_why(path, mode)}", True)


def _copy_source(path: Path, target: Path) -> None:
    """Copies the database file's bytes, through a descriptor that stays open."""
    status = os.lstat(path) if confined.is_inside(path) else os.stat(path)
    key = status.st_dev, status.st_ino
    source = _sources.get(key)
    if source is None:
        source = confined.open_file(path if confined.is_inside(path) else os.path.realpath(path))
        opened = os.fstat(source)
        _sources[opened.st_dev, opened.st_ino] = source
    with open(target, "wb") as file:
        offset = 0
        while piece := os.pread(source, _COPY_BYTES, offset):
            file.write(piece)
            offset += len(piece)
