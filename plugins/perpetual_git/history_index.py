"""Index of the history: which commits changed a path, in one SQLite file in the user's cache.

A cache keyed by commits, whose content never changes: an entry once right stays right, whatever is pushed, forced,
copied or restored. `main` is looked up in it and what is new above it is read once; the committer adds its own commit.
A file that is damaged, foreign or of another version is made anew; where none can be written, or one is locked for
long, the answer is None and the repository walks.

Commits lie on chains: each commit follows its first parent, and a chain begins where a commit's first parent was
followed by another one already. A change of a path is a row at its commit's place on the chain. A merge that took the
file from another parent has a row that leads on to that parent, as the walk of `NoteRepository.history` goes. A commit
that changed too many files has one row for all paths (the empty path), and is looked into when it is asked about.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from dulwich.objects import ObjectID

from perpetual.toolkit.caches import cache_dir
from perpetual_git.changes import TreeDiff
from perpetual_git.errors import RepositoryError
from perpetual_git.objects import Objects

__all__ = ["HistoryIndex", "index_path"]

_APPLICATION = 0x50455247  # "PERG", in the head of the file
_VERSION = 1  # of the tables and of what is in them
_WAIT_S = 5.0
_BATCH = 200  # commits in a transaction: others wait for that at most
_BEHIND = 50  # unknown commits, such as those of a push, that a committer reads on its way
_MOST_COMMITS = 1_000_000
_WIDEST = 20_000  # entries of a commit that are compared
_MOST_JUMPS = 1_000_000  # of a damaged file that leads round in circles
_TABLES = (
    "CREATE TABLE commits (id BLOB PRIMARY KEY, chain INTEGER, place INTEGER) WITHOUT ROWID",
    "CREATE TABLE chains (chain INTEGER PRIMARY KEY, above INTEGER, fork INTEGER, last INTEGER)",
    "CREATE TABLE changes (path BLOB, chain INTEGER, place INTEGER, id BLOB, blob BLOB, onward BLOB, "
    "PRIMARY KEY (path, chain, place)) WITHOUT ROWID",
)
_Place = tuple[int, int]  # chain and place on it
_Step = tuple[str | None, bool, ObjectID | None]  # the file's blob, whether the commit changed it, where it goes on
_UNUSABLE = (sqlite3.Error, OSError, KeyError, ValueError, TypeError)


class _Unread(NamedTuple):
    id: ObjectID
    tree: ObjectID
    parents: Sequence[ObjectID]


def index_path(repository: Path) -> str:
    """Returns the file of a repository's index: in the user's cache, since a project may be another user's work."""
    place = os.path.realpath(repository)
    return os.path.join(cache_dir(), f"git-history-{sha256(os.fsencode(place)).hexdigest()[:16]}.sqlite")


class HistoryIndex:
    """The index of the repository at `path`. `step` says what the walk does for a path at one commit."""

    def __init__(self, path: Path, objects: Objects, step: Callable[[ObjectID, list[bytes]], _Step]) -> None:
        self._path = index_path(path)
        self._objects, self._step = objects, step
        self._diff = TreeDiff(objects)
        self._is_behind = False
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None  # the process and the inode

    def close(self) -> None:
        """Closes the file. It may be used again."""
        connection, self._connection = self._connection, None
        if connection is not None and self._opened is not None and self._opened[0] == os.getpid():
            connection.close()

    def add(self, parent: ObjectID | None, commit: ObjectID, path: list[bytes], blobs: tuple[str | None, ...]) -> None:
        """Adds a commit just made, of one file whose blob was `blobs[0]` and is `blobs[1]`; a failure is no matter.

        Where much above the parent is not known yet, nothing is added: the next question reads it all.
        """
        with contextlib.suppress(*_UNUSABLE, RepositoryError):
            if self._is_behind:
                return
            database = self._database()
            if parent is not None and _place(database, parent) is None:
                self._is_behind = True  # until that many are read
                self._learn(database, parent, most=_BEHIND)
                self._is_behind = False
            with database:  # commits at its end, and rolls back after any error
                database.execute("BEGIN IMMEDIATE")
                if _place(database, commit) is not None:
                    return
                place = _put(database, commit, parent)
                if blobs[0] != blobs[1]:
                    row = (b"/".join(path), *place, _raw(commit), _raw(blobs[1]))
                    database.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, NULL)", row)

    def changes(self, head: ObjectID, path: list[bytes], limit: int) -> list[tuple[ObjectID, str | None]] | None:
        """Returns the newest `limit` commits that changed the file, with its blob; None where no index can tell."""
        if not all(path):
            return None
        for _ in range(2):
            try:
                database = self._database()
                place = _place(database, head)
                if place is None:
                    self._learn(database, head, most=_MOST_COMMITS)
                    self._is_behind = False
                    place = _placed(database, head)
                return self._found(database, place, path, limit)
            except RepositoryError:
                return None  # the walk says what is damaged, if it comes there
            except sqlite3.OperationalError as problem:
                if "locked" in str(problem) or "readonly" in str(problem):
                    return None
                self._discard()
            except _UNUSABLE:
                self._discard()
        return None

    # --- asking ---

    def _found(
        self, database: sqlite3.Connection, place: _Place | None, path: list[bytes], limit: int
    ) -> list[tuple[ObjectID, str | None]]:
        found: list[tuple[ObjectID, str | None]] = []
        for _ in range(_MOST_JUMPS):
            if place is None or len(found) >= limit:
                return found
            place = self._along(database, place, path, limit, found)
        raise ValueError("it leads round in circles")

    def _along(
        self,
        database: sqlite3.Connection,
        start: _Place,
        path: list[bytes],
        limit: int,
        found: list[tuple[ObjectID, str | None]],
    ) -> _Place | None:
        """Adds the changes on one chain to `found`; returns where the file's history goes on."""
        chain, last = start
        rows = database.execute(
            "SELECT path, id, blob, onward FROM changes WHERE path IN (?, x'') AND chain = ? AND place <= ? "
            "ORDER BY place DESC LIMIT ?",
            (b"/".join(path), chain, last, limit),
        ).fetchall()
        for key, raw, blob, onward in rows:
            commit = _id(raw)
            if not key:
                known, is_change, goes_on = self._step(commit, path)
                if is_change:
                    found.append((commit, known))
                return None if goes_on is None else _placed(database, goes_on)
            if onward is not None:
                return _placed(database, _id(onward))
            found.append((commit, None if blob is None else _id(blob).decode()))
            if len(found) == limit:
                return None
        above, fork = database.execute("SELECT above, fork FROM chains WHERE chain = ?", (chain,)).fetchone()
        return None if above is None else (above, fork)

    # --- learning ---

    def _learn(self, database: sqlite3.Connection, head: ObjectID, *, most: int) -> None:
        """Reads the commits that are not known yet, parents first, a batch to a transaction.

        Raises:
            RepositoryError: there are more than `most`; or an object is missing or damaged.
        """
        unread = self._unread(database, head, most)
        trees = {item.id: item.tree for item in unread}
        for start in range(0, len(unread), _BATCH):
            rows = [(item, self._rows(item, trees)) for item in unread[start : start + _BATCH]]
            with database:  # commits at its end, and rolls back after any error
                database.execute("BEGIN IMMEDIATE")
                for item, changes in rows:
                    if _place(database, item.id) is not None:
                        continue  # by another process meanwhile
                    place = _put(database, item.id, item.parents[0] if item.parents else None)
                    database.executemany(
                        "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
                        [(path, *place, _raw(item.id), _raw(blob), _raw(onward)) for path, blob, onward in changes],
                    )

    def _unread(self, database: sqlite3.Connection, head: ObjectID, most: int) -> list[_Unread]:
        seen: dict[ObjectID, _Unread] = {}
        order: list[_Unread] = []
        stack = [(head, False)]
        while stack:
            commit_id, is_done = stack.pop()
            if is_done:
                order.append(seen[commit_id])
                continue
            if commit_id in seen or _place(database, commit_id) is not None:
                continue
            commit = self._objects.commit(commit_id)
            seen[commit_id] = _Unread(commit_id, commit.tree, tuple(commit.parents))
            if len(seen) > most:
                raise RepositoryError(self._objects.path, f"it has more than {most} new commits")
            stack.append((commit_id, True))
            stack += [(parent, False) for parent in reversed(commit.parents)]
        return order

    def _rows(
        self, item: _Unread, known: Mapping[ObjectID, ObjectID]
    ) -> list[tuple[bytes, str | None, ObjectID | None]]:
        """Returns path, blob, and the parent that had the file already, for each change of a commit."""
        trees = [known.get(parent) or self._objects.commit(parent).tree for parent in item.parents]
        changed = self._diff.changed(trees[0] if trees else None, item.tree, most=_WIDEST)
        if changed is None:
            return [(b"", None, None)]
        others = [*zip(item.parents, trees, strict=True)][1:]
        memo: dict[tuple[ObjectID, int], str | None] = {}
        rows: list[tuple[bytes, str | None, ObjectID | None]] = []
        for path, blob in changed.items():
            parts = path.split(b"/")
            memo.clear()  # its keys are of one path
            same = (parent for parent, tree in others if self._objects.blob_at(tree, parts, memo) == blob)
            rows.append((path, blob, next(same, None)))
        return rows

    # --- the file ---

    def _database(self) -> sqlite3.Connection:
        """Returns the connection, opened anew where another process has replaced the file, and after a fork."""
        present = (os.getpid(), _inode(self._path))
        if self._connection is not None and self._opened == present:
            return self._connection
        self.close()
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        self._opened = (os.getpid(), _inode(self._path))
        connection = sqlite3.connect(
            self._path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = OFF")  # a cache: what a power cut breaks is made anew
            connection.execute("PRAGMA journal_mode = PERSIST")
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _discard(self) -> None:
        self.close()
        for name in (self._path, f"{self._path}-journal"):
            with contextlib.suppress(OSError):
                os.unlink(name)


def _inode(path: str) -> int:
    """Returns the file's inode, 0 where none is; a link is not followed."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0
    if not os.path.isfile(path) or os.path.islink(path):
        raise OSError(f"{path} is no file")
    return found.st_ino


def _prepare(database: sqlite3.Connection) -> None:
    """Makes the tables in an empty file; raises ValueError for a file of something else."""
    if _head(database) == (_APPLICATION, _VERSION):
        return
    with database:  # commits at its end, and rolls back after any error
        database.execute("BEGIN IMMEDIATE")
        if _head(database) == (_APPLICATION, _VERSION):
            return  # by another process meanwhile
        if database.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
            raise ValueError("it is something else")
        for table in _TABLES:
            database.execute(table)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")


def _head(database: sqlite3.Connection) -> tuple[int, int]:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return application, version


def _raw(name: ObjectID | str | None) -> bytes | None:
    return None if name is None else bytes.fromhex(name if isinstance(name, str) else name.decode())


def _id(raw: object) -> ObjectID:
    if not isinstance(raw, bytes) or len(raw) != 20:
        raise ValueError("it holds what is no object's name")
    return ObjectID(raw.hex().encode())


def _place(database: sqlite3.Connection, commit: ObjectID) -> _Place | None:
    found: _Place | None = database.execute("SELECT chain, place FROM commits WHERE id = ?", (_raw(commit),)).fetchone()
    return found


def _placed(database: sqlite3.Connection, commit: ObjectID) -> _Place:
    found = _place(database, commit)
    if found is None:
        raise KeyError(commit)
    return found


def _put(database: sqlite3.Connection, commit: ObjectID, parent: ObjectID | None) -> _Place:
    """Gives a commit its place: after its first parent, or at the beginning of a chain of its own."""
    above, fork = (None, None) if parent is None else _placed(database, parent)
    chain, place = above, -1 if fork is None else fork
    moved = database.execute("UPDATE chains SET last = last + 1 WHERE chain = ? AND last = ?", (chain, place)).rowcount
    if not moved:
        chain = database.execute("INSERT INTO chains (above, fork, last) VALUES (?, ?, 0)", (above, fork)).lastrowid
        place = -1
    assert chain is not None
    database.execute("INSERT INTO commits VALUES (?, ?, ?)", (_raw(commit), chain, place + 1))
    return chain, place + 1
