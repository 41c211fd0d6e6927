"""The index of lineage: one SQLite file in the user's cache, folded from the feed of events.

It holds of each note its sources, its last day and when it was taken back, what was rejected (`tombstones`), and the
writes of the last hour by their authors. It is a cache: a file that is broken, of another version or of another record
is built anew, and where no file can be written the index is built in memory. SQLite's lock lets one process bring it
up to date at a time. Texts of rejected versions that a newer one has replaced are kept in the ledger
`lineage.tombstone`, by which a new index has them again.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING

from perpetual.api import Event, TransientError
from perpetual.toolkit.caches import cache_dir
from perpetual_lineage import folding
from perpetual_recall.cache_file import check_busy, connected, identity, remove

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Connection", "Index", "index_of", "index_path"]

Connection = sqlite3.Connection
_VERSION = "2"  # of the tables and of what is folded
_WAIT_S = 10.0
_WHAT = "the index of lineage"
_PAGE = 1_000  # events
_indexes: weakref.WeakKeyDictionary[Lab, Index] = weakref.WeakKeyDictionary()
_making = RLock()


def index_path(lab: Lab) -> str:
    """Returns the file of a project's index, in the user's cache: a project's own folder may be another user's work."""
    place = f"{os.path.realpath(lab.config.folder)}\n{lab.config.project_id}"
    return os.path.join(cache_dir(), f"lineage-{sha256(place.encode()).hexdigest()[:16]}.sqlite")


class Index:
    """An open index; calls from several threads follow one another."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, str] | None = None  # the process and the file
        self._file: tuple[int, int] | None = None  # that file's device and inode; None of an index in memory
        self._seen: int | None = None  # the newest event that it is known to be of

    @contextmanager
    def of(self, lab: Lab) -> Iterator[sqlite3.Connection]:
        """Opens the index, up to date with the feed.

        Raises:
            TransientError: while another process holds it for long, or once it was found damaged.
        """
        with self._lock:
            place = (os.getpid(), index_path(lab))
            last = lab.feed.last()
            is_same = self._opened == place and (self._file is None or self._file == identity(place[1]))
            is_open = self._connection is not None and is_same
            # The three gates of a write ask one after the other: what was of this event is of it still.
            if not is_open or (last != self._seen and not _refreshed(lab, self._connection)):
                self._open(lab, place)
            self._seen = last
            assert self._connection is not None
            try:
                yield self._connection
            except sqlite3.Error as problem:
                self._connection.close()
                self._connection = self._seen = None
                check_busy(problem, _WHAT)
                remove(place[1])
                raise TransientError(
                    "the index of lineage was damaged", hint="try again: it is built anew"
                ) from problem

    def _open(self, lab: Lab, place: tuple[int, str]) -> None:
        if self._connection is not None and self._opened is not None and self._opened[0] == place[0]:
            self._connection.close()
        self._connection = None
        for path, anew in ((place[1], False), (place[1], True), (":memory:", False)):
            connection = connected(path, what=_WHAT, anew=anew, wait_s=_WAIT_S)
            if connection is not None and _refreshed(lab, connection):
                self._connection, self._opened = connection, place
                self._file = None if path == ":memory:" else identity(path)
                weakref.finalize(self, connection.close)
                return
            if connection is not None:
                connection.close()
        raise TransientError("the index of lineage cannot be built", hint="try again")


def index_of(lab: Lab) -> Index:
    """Returns the index of a lab, one for each."""
    with _making:
        found = _indexes.get(lab)
        if found is None:
            found = _indexes[lab] = Index()
        return found


def _refreshed(lab: Lab, connection: sqlite3.Connection | None) -> bool:
    """Brings the index up to date; answers whether it can be used."""
    if connection is None:
        return False
    try:
        state = _state(connection)
        if _is_same(lab, state) and int(state["event"]) == lab.feed.last():
            return True
        has_more = True
        while has_more:  # page by page, so that a call that was cut off loses little
            with connection:  # commits at its end, and rolls back after any error
                connection.execute("BEGIN IMMEDIATE")
                has_more = _fold(lab, connection)
        return True
    except (sqlite3.Error, KeyError, ValueError) as problem:  # the last two of a state that is spoilt
        check_busy(problem, _WHAT)
        return False


def _fold(lab: Lab, connection: sqlite3.Connection) -> bool:
    """Folds the next events; answers whether there may be more."""
    state = _state(connection)  # another process may have brought it further meanwhile
    if not _is_same(lab, state):
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        for table in ("CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID", *folding.TABLES):
            connection.execute(table)
        folding.start(lab, connection)
        state = {"event": "0"}
    place = int(state["event"])
    events = lab.events(since=place, limit=_PAGE)
    if events:
        folding.fold(lab, connection, events)
        place = events[-1].seq
        fresh = {"version": _VERSION, "event": str(place), "mark": _mark(events[-1:])}
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", fresh.items())
    return len(events) == _PAGE


def _state(connection: sqlite3.Connection) -> dict[str, str]:
    try:
        return dict(connection.execute("SELECT name, value FROM state").fetchall())
    except sqlite3.OperationalError as problem:
        check_busy(problem, _WHAT)
        return {}  # a new file


def _is_same(lab: Lab, state: dict[str, str]) -> bool:
    """Returns whether the index is of this version and of this record, as its last event says."""
    if state.get("version") != _VERSION:
        return False
    place = int(state["event"])
    return _mark(lab.events(since=place - 1, limit=1)) == state["mark"]


def _mark(events: Sequence[Event]) -> str:
    """Returns what tells an event from that of another record."""
    return "".join(sha256(f"{it.seq} {it.time} {it.kind} {it.subject}".encode()).hexdigest() for it in events)
