"""The search index of memory: one SQLite file with an FTS5 table in the user's cache, of the record's last commit.

It holds the entries that persons or agents see, and what persons said to agents. It is a cache: a file that is broken,
of another version or of another record is built anew, and where no file can be written it is built in memory. Bringing
it up to date costs what has changed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import PerpetualError, TransientError
from perpetual.toolkit.caches import cache_dir
from perpetual_agents.memory_text import shared_at_least, shingles, sketch, text_of
from perpetual_agents.names import MEMORY, MESSAGE

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = ["Found", "Index", "index_of", "index_path", "is_person", "resembling", "search"]

_VERSION = "1"  # of the tables and of what is indexed
_WAIT_S = 20.0
_SLICE = 500  # rows in a transaction
_LONGEST = 64 * 1024  # characters of an entry that are indexed
_SHOWN = 4_000  # of them that a search answers
_TABLES = (
    "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE entries (no INTEGER PRIMARY KEY, id TEXT, scope TEXT, key TEXT, status TEXT, author TEXT, at TEXT, "
    "for_persons INTEGER, for_agents INTEGER, text TEXT)",
    "CREATE VIRTUAL TABLE words USING fts5 (key, text, tokenize = 'porter unicode61')",
    "CREATE TABLE sketches (mark INTEGER, no INTEGER, PRIMARY KEY (mark, no)) WITHOUT ROWID",
    "CREATE TABLE vectors (embedder TEXT, id TEXT, vector TEXT, PRIMARY KEY (id, embedder)) WITHOUT ROWID",
    "INSERT INTO words (words, rank) VALUES ('rank', 'bm25(4.0, 1.0)')",  # a word of the key says more
)
_NAMES = ("state", "entries", "words", "sketches", "vectors")


class Found(NamedTuple):
    """A row that a search found; `no` is even for entries and odd for what was said."""

    no: int
    id: str
    scope: str
    key: str
    status: str
    author: str
    at: str
    text: str
    rank: float

    @property
    def is_said(self) -> bool:
        """Returns whether a person said it to an agent."""
        return self.no % 2 == 1


def is_person(actor: str) -> bool:
    """Returns whether an actor's name, or that of a sender of messages, is a person's."""
    return not actor.startswith(("agent:", "mcp:", "git:", "program", "event:", "timer:", "import:"))


def index_path(lab: Lab) -> str:
    """Returns the file of a project's index, in the user's cache."""
    place = f"{os.path.realpath(lab.config.folder)}\n{lab.config.project_id}"
    return os.path.join(cache_dir(), f"agent-memory-{sha256(place.encode()).hexdigest()[:16]}.sqlite")


_indexes: weakref.WeakKeyDictionary[Lab, Index] = weakref.WeakKeyDictionary()
_guard = RLock()


def index_of(lab: Lab) -> Index:
    """Returns the index of a lab, one for each object."""
    with _guard:
        found = _indexes.get(lab)
        if found is None:
            found = _indexes[lab] = Index(index_path(lab))
        return found


class Index:
    """An index that is opened at its first use; calls from several threads follow one another."""

    def __init__(self, path: str) -> None:
        self._path, self._lock = path, RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid, self._file = 0, (0, 0)  # the process that opened it, and the file's device and inode
        self._seen = -1  # the commit of which it is known to be

    @contextmanager
    def of(self, lab: Lab) -> Iterator[sqlite3.Connection]:
        """Opens the index, up to date with the record.

        Raises:
            TransientError: while another process holds it for long, and inside of a transaction that goes on.
            PerpetualError: where Python's SQLite has no full-text search.
        """
        with self._lock:
            yielded = False
            try:
                connection = self._ready(lab)
                yielded = True
                yield connection
            except sqlite3.Error as problem:
                self._close()
                if "locked" in str(problem):
                    raise TransientError(
                        "another process is building the index of memory", hint="try again"
                    ) from problem
                if yielded:
                    _remove(self._path)
                raise TransientError("the index of memory was damaged", hint="try again: it is built anew") from problem

    def _ready(self, lab: Lab) -> sqlite3.Connection:
        """Returns a connection to an index that is up to date; one that is broken is built anew, once."""
        if self._connection is not None and (self._pid != os.getpid() or self._file != _identity(self._path)):
            self._close()
        if self._connection is not None:
            since, (present, items) = self._seen, lab.storage.changes(self._seen)
            if present == since and not items:
                return self._connection
        for path, anew in ((self._path, False), (self._path, True), (":memory:", True)):
            if self._connection is None:
                self._connection = _connected(path, anew=anew)
                if self._connection is None:
                    continue
                weakref.finalize(self, self._connection.close)
                self._pid, self._file = os.getpid(), _identity(path)
            try:
                self._seen = _refresh(lab, self._connection)
                return self._connection
            except (sqlite3.Error, KeyError, ValueError) as problem:
                self._close()
                if "locked" in str(problem):
                    raise
            except TransientError:
                self._close()
                raise
        raise PerpetualError(
            "Python's SQLite has no full-text search (FTS5)", hint="use a Python that was built with it"
        )

    def _close(self) -> None:
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()  # a connection of a parent process is not this one's to close
        self._connection, self._seen = None, -1


def _connected(path: str, *, anew: bool) -> sqlite3.Connection | None:
    """Returns a connection to the file, which is made where there is none; None where it cannot be had."""
    try:
        if path != ":memory:":
            if anew:
                _remove(path)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("PRAGMA synchronous = OFF")  # a cache: what a power cut breaks is built anew
    except (sqlite3.Error, OSError) as problem:
        if isinstance(problem, sqlite3.OperationalError) and "locked" in str(problem):
            raise
        return None
    return connection


def _remove(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _identity(path: str) -> tuple[int, int]:
    """Returns device and inode of the file; zeros for none, as of an index in memory."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _refresh(lab: Lab, connection: sqlite3.Connection) -> int:
    """Takes up what was committed since; returns the commit that the index is of then.

    Raises:
        TransientError: inside of a transaction, whose rows may never be committed.
    """
    state = _state(connection)
    since = int(state.get("seq", "0"))
    present, items = lab.storage.changes(since)
    if not _is_same(lab, state, present):
        since, state = 0, {}
        present, items = lab.storage.changes(0)
    elif present == since:
        return present
    known = int(state.get("event", "0"))
    if lab.feed.last() > _last_event(items, known):  # another process's commit, or a transaction of this thread
        present, items = lab.storage.changes(since)
        if lab.feed.last() > _last_event(items, known):
            raise TransientError("memory is not indexed inside of a transaction", hint="search before it, or after it")
    last = _last_event(items, known)
    if not state:
        with _writing(connection):
            for table in _NAMES:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _TABLES:
                connection.execute(statement)
    ours = [(kind, id) for kind, id in items if kind in (MEMORY, MESSAGE)]
    rows = {kind: lab.records(kind) for kind, _ in ours}
    for start in range(0, len(ours), _SLICE):
        with _writing(connection):  # rows are read with the lock held, so an older state never replaces a newer one
            for kind, id in ours[start : start + _SLICE]:
                row = rows[kind].get(id)
                _put_entry(connection, row) if kind == MEMORY else _put_said(connection, row)
    with _writing(connection):
        fresh = {"seq": str(present), "version": _VERSION, "event": str(last), "mark": _mark(lab, last)}
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", fresh.items())
    return present


@contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def _state(connection: sqlite3.Connection) -> dict[str, str]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
        return {}
    return dict(connection.execute("SELECT name, value FROM state").fetchall())


def _is_same(lab: Lab, state: Mapping[str, str], present: int) -> bool:
    """Returns whether the index is of this version and of this record, as its last event says."""
    if state.get("version") != _VERSION or int(state["seq"]) > present:
        return False
    return state["mark"] == _mark(lab, int(state["event"]))


def _last_event(items: Sequence[tuple[str, str]], known: int) -> int:
    return max((int(id) for kind, id in items if kind == "event"), default=known)


def _mark(lab: Lab, number: int) -> str:
    """Returns what tells an event from that of another record."""
    found = lab.events(since=number - 1, limit=1) if number else []
    return "".join(sha256(f"{it.seq} {it.time} {it.kind} {it.subject}".encode()).hexdigest() for it in found)


def _put_entry(connection: sqlite3.Connection, row: Record) -> None:
    """Indexes a version of an entry while a reader sees it, and forgets it once no reader does."""
    number, text = 2 * row.number, text_of(row["value"])[:_LONGEST]
    for_persons, for_agents = row["current"] is not None, row["shown"] is not None
    _forget(connection, number)
    if not (for_persons or for_agents):
        return
    _insert(connection, (number, row.id, row["scope"], row["key"], row["status"], row["author"], row.created_at,
                         for_persons, for_agents, text))  # fmt: skip
    marks = sketch(shingles(text))
    connection.executemany("INSERT OR IGNORE INTO sketches VALUES (?, ?)", ((mark, number) for mark in marks))


def _put_said(connection: sqlite3.Connection, row: Record) -> None:
    """Indexes what a person said to an agent, once."""
    number = 2 * row.number + 1
    if not is_person(row["sender"]) or not row["text"].strip():
        return
    if connection.execute("SELECT 1 FROM entries WHERE no = ?", (number,)).fetchone():
        return
    _insert(connection, (number, row.id, row["agent"], row.id, "said", row["sender"], row.created_at, True, True,
                         row["text"][:_LONGEST]))  # fmt: skip


def _insert(connection: sqlite3.Connection, entry: tuple[object, ...]) -> None:
    connection.execute(f"INSERT INTO entries VALUES ({', '.join('?' * len(entry))})", entry)
    connection.execute("INSERT INTO words (rowid, key, text) VALUES (?, ?, ?)", (entry[0], entry[3], entry[-1]))


def _forget(connection: sqlite3.Connection, number: int) -> None:
    found = connection.execute("SELECT text FROM entries WHERE no = ?", (number,)).fetchone()
    if found is None:
        return
    marks = sketch(shingles(found[0]))
    connection.executemany("DELETE FROM sketches WHERE mark = ? AND no = ?", ((mark, number) for mark in marks))
    connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
    connection.execute("DELETE FROM vectors WHERE id = (SELECT id FROM entries WHERE no = ?)", (number,))
    connection.execute("DELETE FROM entries WHERE no = ?", (number,))


def search(
    connection: sqlite3.Connection, match: str, scopes: Sequence[str], *, for_agents: bool, said: bool, most: int
) -> list[Found]:
    """Returns at most `most` rows of the scopes that match, the best first."""
    reader = "for_agents" if for_agents else "for_persons"
    marks = ", ".join("?" * len(scopes))
    rows = connection.execute(
        f"SELECT no, id, scope, entries.key, status, author, at, substr(entries.text, 1, {_SHOWN}), rank "
        "FROM words CROSS JOIN entries ON entries.no = words.rowid "
        f"WHERE words MATCH ? AND scope IN ({marks}) AND {reader} {'' if said else 'AND no % 2 = 0'} "
        "ORDER BY rank LIMIT ?",
        (match, *scopes, most),
    ).fetchall()
    return [Found(*row) for row in rows]


def resembling(connection: sqlite3.Connection, scope: str, text: str, *, most: int) -> list[Found]:
    """Returns at most `most` entries of a scope that may say the same as a text, those that share most first."""
    marks = sketch(shingles(text))
    if not marks:
        return []
    rows = connection.execute(
        "SELECT no, id, scope, key, status, author, at, text, 0.0 FROM "
        f"(SELECT no AS number, COUNT(*) AS shared FROM sketches WHERE mark IN ({', '.join('?' * len(marks))}) "
        "GROUP BY no HAVING shared >= ?) JOIN entries ON no = number WHERE scope = ? AND for_agents "
        "ORDER BY shared DESC, no DESC LIMIT ?",
        (*marks, shared_at_least(len(marks)), scope, most),
    ).fetchall()
    return [Found(*row) for row in rows]
