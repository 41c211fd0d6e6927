"""The index: one SQLite file with an FTS5 table in the user's cache, brought up to the store's last commit at each use.

It is a cache: a file that is broken, of another version or of another record is built anew, and where no file can be
written the index is built in memory. Several processes share it; SQLite's lock lets one of them bring it up to date.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, TransientError
from perpetual.toolkit.caches import cache_dir
from perpetual_find.texts import entry_of
from perpetual_find.transaction import transaction

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Hit", "entry_of", "index_path", "opened", "search"]

_VERSION = 1  # of the tables and of what is indexed
_WAIT_S = 20.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS records (no INTEGER PRIMARY KEY, kind TEXT, id TEXT, status TEXT, tags TEXT, "
    "archived INTEGER, UNIQUE (kind, id))",
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (id, title, tags, body, tokenize = 'porter unicode61')",
)
_RANK = "bm25(words, 8.0, 4.0, 4.0, 1.0)"  # a word of the title says more than one of the text
_SNIPPET = 18  # words


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that matches, as it is indexed."""

    kind: str
    id: str
    status: str | None
    title: str
    snippet: str
    tags: list[str]
    archived: bool
    score: float


def index_path(lab: Lab) -> str:
    """Returns the file of a project's index, in the user's cache: a project's own folder may be another user's work."""
    place = f"{os.path.realpath(lab.config.folder)}\n{lab.config.project_id}"
    return os.path.join(cache_dir(), f"find-{sha256(place.encode()).hexdigest()[:16]}.sqlite")


@contextmanager
def opened(lab: Lab) -> Iterator[sqlite3.Connection]:
    """Opens the index, up to date with the record.

    Raises:
        TransientError: while another process holds it for long.
        PerpetualError: where Python's SQLite has no full-text search.
    """
    path = index_path(lab)
    connection = _ready(lab, path) or _ready(lab, path, anew=True) or _ready(lab, ":memory:")
    if connection is None:
        raise PerpetualError(
            "Python's SQLite has no full-text search (FTS5)", hint="use a Python that was built with it"
        )
    try:
        yield connection
    finally:
        connection.close()


def _ready(lab: Lab, path: str, *, anew: bool = False) -> sqlite3.Connection | None:
    """Returns a connection to an index that is up to date; None where the file cannot be used."""
    connection: sqlite3.Connection | None = None
    try:
        if path != ":memory:":
            if anew:
                _remove(path)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            os.close(os.open(path, flags, 0o600))
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = OFF")  # a cache: what a power cut breaks is built anew
        _refresh(lab, connection)
        return connection
    except (sqlite3.Error, OSError, KeyError, ValueError) as problem:  # the last two of a state that is spoilt
        if connection is not None:
            connection.close()
        if isinstance(problem, sqlite3.OperationalError) and "locked" in str(problem):
            raise TransientError("another process is building the index of this project", hint="try again") from problem
        return None


def _remove(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _refresh(lab: Lab, connection: sqlite3.Connection) -> None:
    """Indexes what the store has committed since, in one transaction: a process that dies in it leaves no half."""
    known = _state(connection).get("seq", "")
    if known and lab.storage.changes(int(known)) == (int(known), []) and _is_same_record(lab, connection):
        return
    with transaction(connection):
        if not _is_same_record(lab, connection):
            for table in ("state", "records", "words", "logs", "log_words"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
        for table in _TABLES:
            connection.execute(table)
        since = int(_state(connection).get("seq", "0"))
        present, changes = lab.storage.changes(since)
        for kind, id in changes:
            _put(lab, connection, kind, id)
        events = lab.feed.last()
        fresh = {"seq": str(present), "version": str(_VERSION), "event": str(events), "mark": _mark(lab, events)}
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", fresh.items())


def _state(connection: sqlite3.Connection) -> dict[str, str]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
        return {}
    return dict(connection.execute("SELECT name, value FROM state").fetchall())


def _is_same_record(lab: Lab, connection: sqlite3.Connection) -> bool:
    """Returns whether the index is of this version and of this record, as its last event says."""
    state = _state(connection)
    if state.get("version") != str(_VERSION) or int(state["seq"]) > lab.storage.changes(int(state["seq"]))[0]:
        return False
    return state["mark"] == _mark(lab, int(state["event"]))


def _mark(lab: Lab, number: int) -> str:
    """Returns what tells an event from that of another record."""
    found = lab.events(since=number - 1, limit=1) if number else []
    return "".join(sha256(f"{item.seq} {item.time} {item.kind} {item.subject}".encode()).hexdigest() for item in found)


def _put(lab: Lab, connection: sqlite3.Connection, kind: str, id: str) -> None:
    entry = entry_of(lab, kind, id)
    shown = entry.id if entry is not None else f"v{id}" if kind == "evidence" else id
    known = connection.execute("SELECT no FROM records WHERE kind = ? AND id = ?", (kind, shown)).fetchone()
    if known is not None:
        connection.execute("DELETE FROM words WHERE rowid = ?", known)
        connection.execute("DELETE FROM records WHERE no = ?", known)
    if entry is None:
        return
    made = connection.execute(
        "INSERT INTO records (kind, id, status, tags, archived) VALUES (?, ?, ?, ?, ?)",
        (kind, entry.id, entry.status, json.dumps(entry.tags), entry.archived),
    )
    connection.execute(
        "INSERT INTO words (rowid, id, title, tags, body) VALUES (?, ?, ?, ?, ?)",
        (made.lastrowid, entry.id, entry.title, " ".join(entry.tags), entry.body),
    )


def search(
    connection: sqlite3.Connection, match: str, kinds: Sequence[str], tags: Sequence[str], start: int, limit: int
) -> list[Hit]:
    """Returns at most `limit` matches from the number `start` on, the best first; of equals the newest first."""
    where = [f"records.kind IN ({', '.join('?' * len(kinds))})"]
    where += ["EXISTS (SELECT 1 FROM json_each(records.tags) WHERE json_each.value = ?)"] * len(tags)
    rows = connection.execute(
        f"SELECT records.kind, records.id, status, title, snippet(words, -1, '', '', '…', {_SNIPPET}), records.tags, "
        f"archived, {_RANK} AS rank FROM words JOIN records ON records.no = words.rowid "
        f"WHERE words MATCH ? AND {' AND '.join(where)} ORDER BY rank, records.no DESC LIMIT ? OFFSET ?",
        (match, *kinds, *tags, limit, start),
    )
    return [
        Hit(kind, id, status, title, snippet, json.loads(tagged), bool(archived), round(-rank, 6))
        for kind, id, status, title, snippet, tagged, archived, rank in rows
    ]
