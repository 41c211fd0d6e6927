"""The index of notes: one SQLite file with an FTS5 table in the user's cache, brought up to the store's last commit.

It holds of each note the version that persons see and the one that agents are shown, and what the outcomes of runs say
of them. It is a cache: a file that is broken, of another version or of another record is built anew, and where no file
can be written the index is built in memory. SQLite's lock lets one process bring it up to date at a time.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Note, NotFound, PerpetualError, TransientError
from perpetual.toolkit.caches import cache_dir
from perpetual_recall import calls, outcomes
from perpetual_recall.cache_file import check_busy, connected, identity, remove
from perpetual_recall.duplicates import shared_at_least, shingles, sketch
from perpetual_recall.front import NOTHING, Front, front_of, split
from perpetual_recall.ranking import UNIT, UNTRIED, Utility
from perpetual_recall.shown import text_of
from perpetual_recall.words import SHORT

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = [
    "Connection", "Index", "Match", "Version", "empty_index", "forget", "index_path", "insert", "matches", "newest",
    "notes_of", "resembling", "rows_of", "unwritten", "version_of", "versions_of",
]  # fmt: skip

Connection = sqlite3.Connection
_STAGES = {"note": 0, outcomes.EXPOSURE: 1, "run": 2}  # what is taken up, and in which order
_SLICE = 200  # of them in a transaction
_VERSION = 3  # of the tables and of what is indexed
_WAIT_S = 20.0
_WHAT = "the index of the notes"
_LONGEST = 64 * 1024  # characters of a note that are indexed
_TABLES = (
    "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS versions (no INTEGER PRIMARY KEY, path TEXT, blob TEXT, for_persons INTEGER, "
    "for_agents INTEGER, note TEXT, front TEXT, body TEXT)",
    "CREATE INDEX IF NOT EXISTS versions_path ON versions (path)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (path, title, body, readers, tokenize = 'porter unicode61')",
    "CREATE TABLE IF NOT EXISTS sketches (mark INTEGER, no INTEGER, PRIMARY KEY (mark, no)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS vectors (embedder TEXT, blob TEXT, vector TEXT, PRIMARY KEY (embedder, blob)) "
    "WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS pending (stage INTEGER, id TEXT, PRIMARY KEY (stage, id)) WITHOUT ROWID",
    *outcomes.TABLES,
    *calls.TABLES,
)
_RANK = "bm25(4.0, 4.0, 1.0)"  # a word of the title says more than one of the text
_SPARE = 12  # matches that are fetched beyond those that are asked for, where some are not shown
_DROPPED = ("state", "pending", "versions", "words", "sketches", "vectors", *outcomes.NAMES, *calls.NAMES)


# What a search reads of a version: note, blob, text, front, rank, good, bad (None: in no tally), path, whether it is
# for the reader. The note is JSON, and so is the front; most of what is found is never looked at any closer.
Match = tuple[str, str, str, str, float, int | None, int | None, str, int]


class Version(NamedTuple):
    """A version of a note as a reader sees it; `bm25` is 0 where it was not searched, `cosine` None without vectors."""

    note: Note
    blob: str
    text: str
    front: Front
    bm25: float = 0.0
    utility: Utility = UNTRIED
    cosine: float | None = None


def index_path(lab: Lab) -> str:
    """Returns the file of a project's index, in the user's cache: a project's own folder may be another user's work."""
    place = f"{os.path.realpath(lab.config.folder)}\n{lab.config.project_id}"
    return os.path.join(cache_dir(), f"recall-{sha256(place.encode()).hexdigest()[:16]}.sqlite")


class _Uncommitted(TransientError):
    """An index would be of what may never be committed; of which commit, and which event was its last."""

    def __init__(self, present: int, last_event: int) -> None:
        super().__init__("the notes are not indexed inside of a transaction", hint="search before it, or after it")
        self.present, self.last_event = present, last_event

    def holds(self, lab: Lab) -> bool:
        """Returns whether the transaction goes on."""
        return lab.storage.changes(self.present) == (self.present, []) and lab.feed.last() > self.last_event


class Changes(NamedTuple):
    """What the store has written after a commit, as (kind, id), and the number of its last commit."""

    since: int
    present: int
    items: list[tuple[str, str]]


class Index:
    """An open index; calls from several threads follow one another."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, str] | None = None  # the process and the file
        self._file: tuple[int, int] | None = None  # that file's device and inode; None of an index in memory
        self._refused: _Uncommitted | None = None
        self._of: tuple[weakref.ref[Lab], str] | None = None  # the lab that was asked last, and its file
        self._until: float | None = None  # of the monotonic clock: when the present call is out of time
        self._seen: tuple[int, str] | None = None  # the state of the record that the index is known to be of

    @contextmanager
    def of(self, lab: Lab, *, most_s: float | None = None) -> Iterator[sqlite3.Connection]:
        """Opens the index, up to date with the record.

        Args:
            lab: whose record it is.
            most_s: the seconds for taking up what is new; a later call goes on from where this one came.

        Raises:
            TransientError: while another process holds it for long, or where the time was too short.
            PerpetualError: where Python's SQLite has no full-text search.
        """
        with self._lock:
            self._until = None if most_s is None else time.monotonic() + most_s
            place = (os.getpid(), self._path(lab))
            is_open = self._opened == place and (self._file is None or self._file == identity(place[1]))
            if self._connection is None or not is_open or not self._refreshed(lab, self._connection):
                self._open(lab, place)
            assert self._connection is not None
            try:
                yield self._connection
            except sqlite3.Error as problem:
                self._connection.close()
                self._connection = None
                check_busy(problem, _WHAT)
                remove(place[1])
                raise TransientError(
                    "the index of the notes was damaged", hint="try again: it is built anew"
                ) from problem

    def _path(self, lab: Lab) -> str:
        """Returns the file of a lab's index; its folder is looked up once."""
        if self._of is None or self._of[0]() is not lab:
            self._of = weakref.ref(lab), index_path(lab)
        return self._of[1]

    def _open(self, lab: Lab, place: tuple[int, str]) -> None:
        if self._connection is not None and self._opened is not None and self._opened[0] == place[0]:
            self._connection.close()
        self._connection = self._seen = None
        if self._refused is not None and self._refused.holds(lab):
            raise self._refused  # without a look at every change of the record again
        self._refused = None
        for path, anew in ((place[1], False), (place[1], True), (":memory:", False)):
            connection = connected(path, what=_WHAT, anew=anew, wait_s=_WAIT_S)
            if connection is None:
                continue
            try:
                is_usable = self._refreshed(lab, connection)
            except TransientError as problem:
                self._refused = problem if isinstance(problem, _Uncommitted) else None
                connection.close()
                raise
            if is_usable:
                self._connection, self._opened = connection, place
                self._file = None if path == ":memory:" else identity(path)
                weakref.finalize(self, connection.close)
                return
            connection.close()
        raise _unsearchable()

    def _refreshed(self, lab: Lab, connection: sqlite3.Connection) -> bool:
        """Brings the index up to date; answers whether it can be used."""
        exposure, known = str(lab.config.methodology["memory_exposure"]), None
        try:
            if self._seen is not None and connection is self._connection:
                known = _changes(lab, {"seq": str(self._seen[0])})
                if self._seen[1] == exposure and known.since == known.present:
                    return True
            seen = _refresh(lab, connection, exposure, known)
            _take_up(lab, connection, self._until)
            self._seen = seen, exposure
            return True
        except (sqlite3.Error, KeyError, ValueError) as problem:  # the last two of a state that is spoilt
            if isinstance(problem, sqlite3.OperationalError) and "locked" in str(problem):
                raise TransientError(
                    "another process is building the index of the notes", hint="try again"
                ) from problem
            return False


def _unsearchable() -> PerpetualError:
    return PerpetualError(
        "Python's SQLite has no full-text search (FTS5)",
        hint="perpetual config set slots.retriever linear, or use a Python that was built with it",
    )


def empty_index() -> sqlite3.Connection:
    """Returns an index without a note, in memory, which the caller closes.

    Raises:
        PerpetualError: where Python's SQLite has no full-text search.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        _create(connection)
    except sqlite3.Error as problem:
        connection.close()
        raise _unsearchable() from problem
    return connection


def _create(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO words (words, rank) VALUES ('rank', ?)", (_RANK,))


def _refresh(lab: Lab, connection: sqlite3.Connection, exposure: str, known: Changes | None) -> int:
    """Notes what the store has committed since, for `_take_up`, and answers the commit that the index is of then.

    Args:
        lab: whose record it is.
        connection: to the index.
        exposure: the methodology's `memory_exposure`, by which versions are shown.
        known: what was written after a commit; asked for where it is of another one than the index.
    """
    state = _state(connection)
    known = known if known is not None and str(known.since) == state.get("seq") else _changes(lab, state)
    is_same = _is_same(lab, state, known, exposure)
    if is_same and known.since == known.present:
        return known.present
    base = state if is_same else {}  # an index of another record says nothing of this one's events
    if (events := lab.feed.last()) > _last_event(base, known) or not is_same:
        known = _changes(lab, base)  # another process may have committed meanwhile
    if events > _last_event(base, known):
        # Inside of a transaction notes read as they may never be committed: an index of them could show agents what no
        # person has promoted. What was committed before is in the index, if there is one.
        if is_same and _is_taken_up(connection, state):
            return known.since
        raise _Uncommitted(known.present, _last_event(base, known))
    with connection:  # commits at its end, and rolls back after any error
        connection.execute("BEGIN IMMEDIATE")
        if (now := _state(connection)) != state:  # another process was here
            state, known = now, _changes(lab, now)
            is_same = _is_same(lab, state, known, exposure)
        if not is_same:
            for table in _DROPPED:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            _create(connection)
            state, known = {}, _changes(lab, {})
        rows = ((_STAGES[kind], id) for kind, id in known.items if kind in _STAGES)
        connection.executemany("INSERT OR IGNORE INTO pending VALUES (?, ?)", rows)
        last = _last_event(state, known)  # what came meanwhile is read again the next time
        fresh = {"seq": str(known.present), "version": str(_VERSION), "event": str(last), "mark": _mark(lab, last),
                 "exposure": exposure, "read": state.get("read", "0")}  # fmt: skip
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", fresh.items())
    return known.present


def _is_taken_up(connection: sqlite3.Connection, state: Mapping[str, str]) -> bool:
    """Returns whether nothing is left for `_take_up`."""
    return state["read"] == state["event"] and not connection.execute("SELECT 1 FROM pending LIMIT 1").fetchone()


def _take_up(lab: Lab, connection: sqlite3.Connection, until: float | None) -> None:
    """Takes up what `_refresh` has noted, notes before exposures before runs, a slice in a transaction.

    Raises:
        TransientError: once it is `until` and something is left; the slices that were taken up stay so.
    """
    is_late = False
    while not _is_taken_up(connection, _state(connection)):
        if is_late:
            raise TransientError("the index of the notes is being built", hint="try again: it goes on where it was")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            state = _state(connection)
            read = calls.take_events(lab, connection, int(state["read"]), int(state["event"]))
            connection.execute("INSERT OR REPLACE INTO state VALUES ('read', ?)", (str(read),))
            found = connection.execute(
                "SELECT stage, id FROM pending ORDER BY stage, length(id), id LIMIT ?", (_SLICE,)
            ).fetchall()
            stages = {stage for stage, _ in found[:1]}  # what an exposure names is a run that may come before others
            for stage, id in [one for one in found if one[0] in stages]:
                if stage == _STAGES["note"]:
                    _put(lab, connection, id)
                elif stage == _STAGES["run"]:
                    outcomes.settle(lab, connection, id)
                elif (named := outcomes.expose(lab, connection, id)) is not None:
                    connection.execute("INSERT OR IGNORE INTO pending VALUES (?, ?)", (_STAGES["run"], named))
                connection.execute("DELETE FROM pending WHERE stage = ? AND id = ?", (stage, id))
        is_late = until is not None and time.monotonic() > until  # after a slice: every call comes further


def _state(connection: sqlite3.Connection) -> dict[str, str]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
        return {}
    return dict(connection.execute("SELECT name, value FROM state").fetchall())


def _changes(lab: Lab, state: Mapping[str, str]) -> Changes:
    since = int(state.get("seq", "0"))
    return Changes(since, *lab.storage.changes(since))


def _last_event(state: Mapping[str, str], known: Changes) -> int:
    """Returns the number of the last event that is committed."""
    return max((int(id) for kind, id in known.items if kind == "event"), default=int(state.get("event", "0")))


def _is_same(lab: Lab, state: Mapping[str, str], known: Changes, exposure: str) -> bool:
    """Returns whether the index is of this version, of these rules and of this record, as its last event says."""
    if state.get("version") != str(_VERSION) or state["exposure"] != exposure or known.since > known.present:
        return False
    return state["mark"] == _mark(lab, int(state["event"]))


def _mark(lab: Lab, number: int) -> str:
    """Returns what tells an event from that of another record."""
    found = lab.events(since=number - 1, limit=1) if number else []
    return "".join(sha256(f"{item.seq} {item.time} {item.kind} {item.subject}".encode()).hexdigest() for item in found)


def forget(connection: sqlite3.Connection, path: str) -> None:
    """Takes every version of a note out of an index."""
    for number, text in connection.execute("SELECT no, body FROM versions WHERE path = ?", (path,)).fetchall():
        connection.executemany(
            "DELETE FROM sketches WHERE mark = ? AND no = ?", ((mark, number) for mark in sketch(shingles(text)))
        )
        connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
        connection.execute("DELETE FROM versions WHERE no = ?", (number,))


def _put(lab: Lab, connection: sqlite3.Connection, path: str) -> None:
    """Indexes the versions of a note that a reader sees, and forgets its earlier ones."""
    forget(connection, path)
    try:
        note = lab.memory.get(path)
    except NotFound:
        return
    whole, shown = (text_of(lab, note, for_agent=it) for it in (False, True))
    for text, readers in ((whole, (True, whole == shown)), (shown if shown != whole else None, (False, True))):
        if text is not None:
            insert(connection, Version(note, lab.part("memory").blob_id(text), text, front_of(text)), readers)


def insert(
    connection: Connection, version: Version, readers: tuple[bool, bool] = (True, True), number: int | None = None
) -> None:
    """Puts a version into an index, for persons and for agents; of equal matches a higher number comes first."""
    note, text, front, (_, body) = version.note, version.text, version.front, split(version.text)
    made = connection.execute(
        "INSERT INTO versions (no, path, blob, for_persons, for_agents, note, front, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, note.path, version.blob, *readers, json.dumps(astuple(note)),
         "" if front == NOTHING else json.dumps([front.scope, front.contradicts]), text),
    )  # fmt: skip
    connection.execute(
        "INSERT INTO words (rowid, path, title, body) VALUES (?, ?, ?, ?)",
        (made.lastrowid, note.path, note.title, body[:_LONGEST]),
    )
    connection.executemany(
        "INSERT INTO sketches VALUES (?, ?)", ((mark, made.lastrowid) for mark in sketch(shingles(text)))
    )


def _match_of(words: Sequence[str]) -> str:
    """Returns the query of FTS5 for any of the words, or what begins with a long one; its parser sees no raw text."""
    return " OR ".join(f'"{word}"{" *" * (len(word) > SHORT)}' for word in words)


def rows_of(connection: sqlite3.Connection, words: Sequence[str], *, for_agents: bool, most: int) -> list[Match]:
    """Returns what the index holds of at most `most` versions, the best first; of equals the newest first.

    Nearly every version is for both sorts of readers, so the readers are looked at afterwards, and only where that
    leaves too few are more of the matches fetched.
    """
    match, fetched = _match_of(words), most
    reader = "for_agents" if for_agents else "for_persons"
    while True:
        rows: list[Match] = connection.execute(
            f"SELECT note, versions.blob, body, front, found.score, good, bad, versions.path, {reader} FROM "
            "(SELECT rowid AS no, rank AS score FROM words WHERE words MATCH ? ORDER BY rank, rowid DESC LIMIT ?) "
            "AS found JOIN versions ON versions.no = found.no "
            "LEFT JOIN tallies ON tallies.path = versions.path AND tallies.blob = versions.blob "
            "ORDER BY found.score, found.no DESC",
            (match, fetched),
        ).fetchall()
        shown = [row for row in rows if row[-1]][:most]
        if len(shown) == most or len(rows) < fetched:
            return shown
        fetched = 4 * fetched + _SPARE


def matches(connection: sqlite3.Connection, words: Sequence[str], *, for_agents: bool, most: int) -> list[Version]:
    """Returns at most `most` versions, the best first; of equals the newest first."""
    return versions_of(rows_of(connection, words, for_agents=for_agents, most=most))


def resembling(connection: sqlite3.Connection, parts: frozenset[str], *, for_agents: bool, most: int) -> list[Version]:
    """Returns at most `most` versions that may say the same; those first that share most of the shingles' sketch."""
    marks = sketch(parts)
    rows = connection.execute(
        "SELECT note, blob, body, front FROM "
        f"(SELECT no, COUNT(*) AS shared FROM sketches WHERE mark IN ({', '.join('?' * len(marks))}) "
        "GROUP BY no HAVING shared >= ?) AS found JOIN versions ON versions.no = found.no "
        f"WHERE {'for_agents' if for_agents else 'for_persons'} ORDER BY shared DESC, found.no DESC LIMIT ?",
        (*marks, shared_at_least(len(marks)), most),
    ).fetchall()
    return _versions(rows)


def unwritten(path: str, type: str, text: str, actor: str) -> Version:
    """Returns a version of a text that no index holds; without the id of its blob."""
    lines = (line.strip().lstrip("#").strip() for line in split(text)[1].splitlines())
    title = next((line for line in lines if line), path)[:120]
    return Version(Note(path, type, "candidate", title, actor, None, "", ""), "", text, front_of(text))


def newest(connection: sqlite3.Connection, limit: int) -> list[Version]:
    """Returns the newest versions that agents are shown."""
    rows = connection.execute(
        "SELECT note, blob, body, front FROM versions WHERE for_agents ORDER BY no DESC LIMIT ?", (limit,)
    ).fetchall()
    return _versions(rows)


def version_of(connection: sqlite3.Connection, path: str) -> Version | None:
    """Returns the version of a note that agents are shown."""
    rows = connection.execute(
        "SELECT note, blob, body, front FROM versions WHERE path = ? AND for_agents", (path,)
    ).fetchall()
    return next(iter(_versions(rows)), None)


def versions_of(rows: Sequence[Match]) -> list[Version]:
    """Returns the versions of what a search found."""
    return [
        Version(
            note, blob, text, _front(front) if front else NOTHING, -score,
            UNTRIED if good is None or bad is None else Utility(good / UNIT, bad / UNIT),
        )
        for note, (_, blob, text, front, score, good, bad, _, _) in zip(notes_of(rows), rows, strict=True)
    ]  # fmt: skip


def notes_of(rows: Sequence[Match] | Sequence[tuple[str, str, str, str]]) -> list[Note]:
    """Returns the notes with which rows begin; their JSON is read at once, which is quicker than one by one."""
    return [Note(*fields) for fields in json.loads(f"[{','.join([row[0] for row in rows])}]")]


def _versions(rows: Sequence[tuple[str, str, str, str]]) -> list[Version]:
    """Returns the versions of rows of note, blob, text and front."""
    return [
        Version(note, blob, text, _front(front) if front else NOTHING)
        for note, (_, blob, text, front) in zip(notes_of(rows), rows, strict=True)
    ]


def _front(text: str) -> Front:
    scope, contradicts = json.loads(text)
    return Front(scope, tuple(contradicts))
