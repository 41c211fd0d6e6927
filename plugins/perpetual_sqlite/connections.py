"""The store's connections: one for each thread, opened anew where the path has another file. For `store.py` alone.

SQLite forbids to carry a connection into a forked child, even to close it there: it would act on locks that the child
does not have. A child therefore forgets its parent's connections without closing them, and opens its own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from pathlib import Path

from perpetual.api import CorruptData, ForeignProject, StoreKind
from perpetual.toolkit.confined import look
from perpetual_sqlite.layout import APPLICATION_ID, LAYOUT
from perpetual_sqlite.opening import Opened, open_reading, open_writing, stamp

__all__ = ["Connections", "Handle"]

Place = tuple[int, int]  # device and inode


class Handle:
    """One open connection. It is closed with its last reference, which is that of its thread."""

    def __init__(self, opened: Opened, place: Place, *, writes: bool) -> None:
        self.opened, self.place, self.writes = opened, place, writes
        self.connection = opened.connection
        self.stamp: object = None  # of a copy
        self.seen: os.stat_result | None = None  # the file when this was last handed out
        self.ready: set[StoreKind] = set()  # those whose tables are known to be whole
        self.begun = False  # inside a transaction it stays what it is

    def is_of(self, status: os.stat_result | None) -> bool:
        """Returns whether that file is the one that is open."""
        return status is not None and (status.st_dev, status.st_ino) == self.place

    def close(self) -> None:
        """Closes it; what was not committed is rolled back."""
        self.connection.close()

    def __del__(self) -> None:
        self.connection.close()


class Connections:
    """Hands each thread its connection to one file. Safe in threads, and after a fork."""

    def __init__(self, file: Path, timeout_s: float) -> None:
        self.file, self._timeout_s = file, timeout_s
        self._name = os.fspath(file)  # stat is asked for it at each read
        self._start()
        _known.add(self)

    def reading(self) -> Handle | None:
        """Returns this thread's connection, of either sort, for reading, or None where there is no file.

        Raises:
            OSError, sqlite3.Error, CorruptData, ForeignProject: for a file that cannot be opened or is no store.
        """
        handle = self._present()
        if handle is not None:
            return handle
        return None if self.is_absent() else self._open(writes=False)

    def writing(self) -> Handle | None:
        """Returns this thread's connection for writing, or None where there is no file."""
        handle = self._present()
        if handle is not None and handle.writes:
            return handle
        self.drop()
        return None if self.is_absent() else self._open(writes=True)

    def held(self) -> Handle | None:
        """Returns this thread's connection, to any file."""
        return getattr(self._local, "handle", None)

    def is_absent(self) -> bool:
        """Returns whether there is no file yet.

        Raises:
            CorruptData: if it is gone and its journal is not, which a new file of the name must not get.
        """
        if self.look() is not None:
            return False
        journals = zip(("-journal", "-wal"), stamp(self.file)[1:], strict=True)
        lost = [end for end, (_, _, size, _) in journals if size]
        if self.look() is not None:
            return False  # it has come meanwhile
        if lost:
            raise CorruptData(
                f"{self.file} is gone, and its journal {self.file.name}{lost[0]} is not",
                hint="put the database back beside its journal; without it, move the journal away",
            )
        return True

    def drop(self) -> None:
        """Closes this thread's connection; the next use opens another."""
        handle = self.held()
        if handle is not None:
            self._local.handle = None
            handle.close()

    def close(self) -> None:
        """Closes every thread's connection."""
        with self._guard:
            handles = [*self._handles]
            self._handles.clear()
            self._local = threading.local()
        for handle in handles:
            handle.close()

    def look(self) -> os.stat_result | None:
        """Returns the file at the path, which need not be the one that is open."""
        return look(self._name)

    def _start(self) -> None:
        self._guard = threading.Lock()
        self._local = threading.local()
        self._handles: weakref.WeakSet[Handle] = weakref.WeakSet()

    def _present(self) -> Handle | None:
        """Returns this thread's connection if it may still be used."""
        handle = self.held()
        if handle is None or handle.begun:
            return handle
        seen = handle.seen = self.look()
        if handle.is_of(seen) and (not handle.opened.copied or handle.stamp == stamp(self.file)):
            return handle
        self.drop()
        return None

    def _open(self, *, writes: bool) -> Handle:
        while True:
            before = stamp(self.file)
            if writes:
                opened = open_writing(self.file, self._timeout_s, check=self._check)
            else:
                opened = open_reading(self.file, self._timeout_s)
            handle = Handle(opened, before[0][:2], writes=writes)
            if opened.copied:
                handle.stamp = before
            handle.seen = self.look()
            if handle.is_of(handle.seen):
                break  # else the file was replaced meanwhile, and this may be either of the two
        if not writes:
            self._check(handle.connection)
        with self._guard:
            self._handles.add(handle)
            self._local.handle = handle
        return handle

    def _check(self, connection: sqlite3.Connection) -> None:
        ((application,),) = connection.execute("PRAGMA application_id").fetchall()
        ((layout,),) = connection.execute("PRAGMA user_version").fetchall()
        if application != APPLICATION_ID:
            raise CorruptData(
                f"{self.file} holds no store of Perpetual's",
                hint="something else was put in its place: move that away and put back a copy of the store",
            )
        if layout > LAYOUT:
            raise ForeignProject(
                f"{self.file} was written by a newer Perpetual: layout {layout}, this one knows {LAYOUT}",
                hint="upgrade perpetual-lab",
            )

    def _forget(self) -> None:
        """Abandons, in a forked child, the parent's connections: they must neither be used nor closed, so they stay."""
        handles = [*self._handles]
        if handles:
            import ctypes

            for handle in handles:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
        self._start()


_known: weakref.WeakSet[Connections] = weakref.WeakSet()


def _forget_all() -> None:
    for connections in [*_known]:
        connections._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
