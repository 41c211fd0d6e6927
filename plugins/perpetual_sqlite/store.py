"""The SQLite store: one database, a table for each kind, ledgers that no program can change.

Only the factory `open_store` is imported from outside, by the kernel once the configuration has chosen `sqlite`.
A writer holds the flock on `lock` before it begins in SQLite: the kernel hands that on at once, where SQLite's own
waiting looks again every now and then. Which journal keeps a commit safe is `perpetual_sqlite.opening`'s affair.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, TypeVar

from perpetual.api import (
    META,
    Capabilities,
    Change,
    CorruptData,
    PerpetualError,
    Row,
    StoreBase,
    StoreMeta,
    TransientError,
    UsageError,
)
from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.confined import UnsafePath, explain, make_folder
from perpetual.toolkit.filesystems import file_sizes
from perpetual.toolkit.lock import FileLock
from perpetual_sqlite import layout
from perpetual_sqlite.connections import Connections, Handle
from perpetual_sqlite.head import FILE
from perpetual_sqlite.opening import choose_mode, create, needs_copy

__all__ = ["DatabaseFacts", "SqliteStore", "open_store"]

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_CORRUPT = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
)

_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_Answer = TypeVar("_Answer")
_Stored: TypeAlias = tuple[int, int, str, str, int]  # number, seq, body, id, revision

_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class DatabaseFacts(TypedDict):
    """What a person may want to know of the store; `files` are sizes in bytes by name."""

    mode: str
    why: str
    sqlite: str  # its version
    files: dict[str, int]


class SqliteStore(StoreBase):
    """See `perpetual.slots.store` for the contract. Safe in threads; several processes may write."""

    capabilities = Capabilities(multiprocess=True, wait=True, indexes=True)
    fresh_rows = True

    def __init__(self, folder: Path, *, lock_timeout_s: float) -> None:
        super().__init__()
        self.folder: Path = folder
        self._file = folder / FILE
        self._lock_timeout_s = lock_timeout_s
        self._connections = Connections(self._file, lock_timeout_s)
        self._lock, self._process = FileLock(folder / "lock"), os.getpid()

    # --- writing --------------------------------------------------------------------------------------------

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Holds the flock on `lock`, and a transaction in SQLite against programs that do not know that lock."""
        process = os.getpid()
        with self._locked():
            handle = self._begin()
            try:
                yield
            finally:
                if process == os.getpid():
                    self._end(handle)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._process != os.getpid():
            # A forked child shares its parent's descriptor: what it unlocked would be unlocked for both.
            self._lock, self._process = FileLock(self._lock.path), os.getpid()
        lock, process = self._lock, self._process
        try:
            try:
                got = lock.acquire(timeout_s=self._lock_timeout_s)
            except FileNotFoundError:
                make_folder(self.folder)
                got = lock.acquire(timeout_s=self._lock_timeout_s)
        except OSError as problem:
            raise self._error_of(problem, writing=True) from problem
        if not got:
            raise TransientError(
                f"another process has been writing to {self.folder} for {self._lock_timeout_s:g} s",
                hint="try again when that program has ended; one that was killed holds nothing",
            )
        try:
            yield
        finally:
            if process == os.getpid():
                lock.release()

    def _begin(self) -> Handle:
        try:
            handle = self._connections.writing()
            if handle is None:
                create(self._file, lambda connection: layout.build(connection, self.kinds.values()))
                fsync_dir(self.folder.parent)  # the folder may be as new, and all that is in it goes with its name
                handle = self._present()
            handle.connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError) as problem:
            self._connections.drop()
            raise self._error_of(problem, writing=True) from problem
        handle.begun = True
        return handle

    def _present(self) -> Handle:
        """Returns this thread's connection for writing to a file that must exist."""
        handle = self._connections.writing()
        if handle is None:
            raise FileNotFoundError(f"{self._file} was removed")
        return handle

    def _end(self, handle: Handle) -> None:
        """Rolls back what was not committed."""
        handle.begun = False
        if self._connections.held() is handle and handle.connection.in_transaction:
            try:
                handle.connection.execute("ROLLBACK")
            except sqlite3.Error:
                self._connections.drop()  # closing rolls back too, or leaves it to the next opening

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        """Writes all rows and the commit; they are on stable storage when it returns."""
        handle = self._present()
        if not handle.begun:
            raise UsageError("a transaction does not go on in a forked child", hint="begin one there")
        try:
            for kind, id, row in batch:
                if kind == META:
                    handle.connection.execute(
                        "UPDATE _meta SET commit_number = ?, counters = ?", (row["commit"], _encode(row["counters"]))
                    )
                else:
                    self._put(handle, layout.table(self.kinds[kind]), id, row)
            handle.connection.execute("COMMIT")
        except BaseException as problem:
            handle.begun = False
            self._connections.drop()  # with what it knew of tables that are rolled back
            if isinstance(problem, (sqlite3.Error, OSError)):
                raise self._error_of(problem, writing=True) from problem
            raise
        self._stamp_anew(handle)

    def _put(self, handle: Handle, table: layout.Table, id: str, row: Row) -> None:
        if table.kind not in handle.ready:
            self._prepare(handle, table)
        body = _encode({key: value for key, value in row.items() if key[:1] != "_"})
        head = (row["_no"],) if table.kind.ledger else (row["_no"], id, row["_rev"])
        handle.connection.execute(table.insert, (*head, row["_seq"], body))

    def _prepare(self, handle: Handle, table: layout.Table) -> None:
        """Makes what the kind lacks: its table where a plugin declared it, an index that is new."""
        present = _names(handle.connection)
        for name, statement in table.parts.items():
            if name not in present:
                handle.connection.execute(statement)
        handle.ready.add(table.kind)

    def _stamp_anew(self, handle: Handle) -> None:
        """Gives the file a later time at each commit, within one tick of the file system's clock too: `head` reads it.

        In WAL mode a commit is seen only once the shared index says so, which a watcher of the folder does not
        notice; this change of the time is what it notices.
        """
        before, after = handle.seen, self._connections.look()
        if before is None or after is None or not handle.is_of(after):
            raise self._not_written("it was replaced or removed meanwhile")
        if after.st_mtime_ns <= before.st_mtime_ns or handle.opened.mode == "wal":
            later = max(before.st_mtime_ns, after.st_mtime_ns) + 1
            with suppress(PermissionError):  # only its owner may: others write as the clock ticks
                os.utime(self._file, ns=(after.st_atime_ns, later))

    # --- reading --------------------------------------------------------------------------------------------

    def read(self, kind: str, id: str) -> Row | None:
        """Returns one row, by the index on ids or the number."""
        if kind == META:
            return self._own_row()
        table = layout.table(self.kinds[kind])
        if not table.kind.ledger:
            found = self._ask(table, table.select + "id = ?", (id,))
        elif _NUMBER.fullmatch(id):
            found = self._ask(table, table.select + "number = ?", (int(id),))
        else:
            return None
        return self._row(table, found[0]) if found else None

    def scan(self, kind: str, equals: Mapping[str, object]) -> Iterable[Row]:
        """Returns all matching rows of one moment."""
        return self.slice(kind, equals)

    def slice(
        self,
        kind: str,
        equals: Mapping[str, object],
        *,
        after: int = 0,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Reads a page by an index, in the order that its entries have; costs what it answers."""
        table = layout.table(self.kinds[kind])
        terms, values = layout.condition(equals)
        order = f" ORDER BY number {'DESC' if newest_first else 'ASC'} LIMIT ?"
        rows: list[Row] = []
        while True:
            bounds, places = list(terms), list(values)
            if after:
                bounds.append("number < ?" if newest_first else "number > ?")
                places.append(after)
            wanted = -1 if limit is None else limit - len(rows)
            found: list[_Stored] = self._ask(
                table, table.select + (" AND ".join(bounds) or "1") + order, (*places, wanted)
            )
            some = [self._row(table, each) for each in found]
            for field, value in equals.items():
                some = [row for row in some if row.get(field) == value]
            rows += some
            if limit is None or len(rows) >= limit or len(found) < wanted:
                return rows
            after = found[-1][0]  # some only looked like matches: go on behind them

    def tally(self, kind: str, equals: Mapping[str, object]) -> int:
        """Counts as the base does; by an index where SQL and Python surely agree on what is equal: on text."""
        terms, values = layout.condition(equals)
        if len(values) < len(equals) or not all(isinstance(value, str) for value in values):
            return super().tally(kind, equals)
        table = layout.table(self.kinds[kind])
        return sum(count for (count,) in self._ask(table, table.count + " AND ".join(terms), tuple(values)))

    def changes(self, since: int) -> list[Change]:
        """Reads the changes by the indexes on `seq`, in one snapshot."""
        found = self._query(lambda handle: self._changes(handle, since))
        return sorted(found or [], key=lambda change: (change.seq, change.kind, change.id))

    def _changes(self, handle: Handle, since: int) -> list[Change]:
        found = []
        with _snapshot(handle.connection) as connection:
            names = _names(connection)
            for table in map(layout.table, [*self.kinds.values()]):
                if table.name in names:
                    rows = connection.execute(table.feed, (since,)).fetchall()
                    found += [Change(seq, table.kind.name, id) for seq, id in rows]
        return found

    def seq(self) -> int:
        """Reads the number alone: every search and every watcher asks for it."""
        found = self._query(lambda handle: handle.connection.execute("SELECT commit_number FROM _meta").fetchall())
        return int(found[0][0]) if found else 0

    def _own_row(self) -> Row | None:
        found = self._query(lambda handle: handle.connection.execute("SELECT * FROM _meta").fetchall())
        if not found:
            return None
        ((_, number, counters),) = found
        try:
            counts = json.loads(counters)
        except ValueError as problem:
            raise self._corrupt(f"its counters are none: {problem}") from problem
        return StoreMeta(number, counts).row

    def _ask(self, table: layout.Table, sql: str, values: tuple[int | str, ...]) -> list[Any]:
        """Returns the rows that the kind's table answers, in the SQL's columns; none where it has no table yet."""

        def ask(handle: Handle) -> list[Any]:
            try:
                return handle.connection.execute(sql, values).fetchall()
            except sqlite3.OperationalError as problem:
                if getattr(problem, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR or table.name in _names(
                    handle.connection
                ):
                    raise
                return []

        return self._query(ask) or []

    def _query(self, ask: Callable[[Handle], _Answer]) -> _Answer | None:
        """Returns the answer of `ask`, or None where there is no file."""
        for is_last in (False, True):
            try:
                handle = self._connections.reading()
                return None if handle is None else ask(handle)
            except (sqlite3.Error, OSError) as problem:
                handle = self._connections.held()
                if handle is None or not handle.begun:
                    self._connections.drop()  # what it remembers of the file may be wrong
                if is_last or not (isinstance(problem, sqlite3.Error) and needs_copy(problem)):
                    raise self._error_of(problem, writing=False) from problem
        raise AssertionError("the last attempt answers or raises")

    def _row(self, table: layout.Table, found: _Stored) -> Row:
        number, seq, body, id, revision = found
        try:
            row, end = _decode(body)
            if type(row) is not dict or end != len(body):
                raise ValueError("it is no object")
        except (ValueError, TypeError) as problem:
            raise self._corrupt(f"row {number} of {table.kind.name} is no JSON document: {problem}") from problem
        row["_id"], row["_rev"], row["_no"], row["_seq"] = id, revision, number, seq
        return row

    # --- looking after it -----------------------------------------------------------------------------------

    def verify(self) -> list[str]:
        """Runs SQLite's own check of the file, then checks what it cannot know: counters, numbers, triggers, JSON."""
        try:
            return self._query(self._verify) or []
        except CorruptData as problem:
            return [problem.message]

    def _verify(self, handle: Handle) -> list[str]:
        with _snapshot(handle.connection) as connection:
            faults = [
                f"{self._file}: {line}" for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"
            ]
            if faults:
                return faults
            ((_, commit, counters),) = connection.execute("SELECT * FROM _meta").fetchall()
            counts = json.loads(counters)
            names = _names(connection)
            for kind in [*self.kinds.values()]:
                table = layout.table(kind)
                if table.name in names:
                    faults += [
                        f"{self._file}: {kind.name}: {wrong}"
                        for wrong in layout.faults(connection, table, names, counts.get(kind.name, 0), commit)
                    ]
                elif counts.get(kind.name, 0):
                    faults.append(f"{self._file}: {kind.name}: the table is missing")
        return faults

    def compact(self) -> None:
        """Rewrites the database without what is unused, and empties its log."""
        if self.in_transaction:
            raise UsageError("a store is not compacted inside a transaction")
        if not os.path.lexists(self._file):
            return
        with self._locked():
            if self.fence is not None:
                self.fence()  # the lock may be that of a folder that was put aside while it was waited for
            try:
                connection = self._present().connection
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except (sqlite3.Error, OSError) as problem:
                self._connections.drop()
                raise self._error_of(problem, writing=True) from problem

    def describe(self) -> DatabaseFacts:
        """Returns the journal mode with its reason, SQLite's version, and each file with its size in bytes."""
        opened = self._query(lambda handle: handle.opened)
        mode, why = (opened.mode, opened.why) if opened else choose_mode(self.folder)
        return {"mode": mode, "why": why, "sqlite": sqlite3.sqlite_version, "files": file_sizes(self.folder)}

    def close(self) -> None:
        """Closes the connections of all threads."""
        super().close()
        self._connections.close()

    # --- reports ---------------------------------------------------------------------------------------------

    def _error_of(self, problem: sqlite3.Error | OSError, *, writing: bool) -> PerpetualError:
        """Returns the contract's error for a problem."""
        if isinstance(problem, UnsafePath):
            return explain(problem) or self._corrupt(str(problem))
        if isinstance(problem, OSError):
            words, code = problem.strerror or str(problem), None
        else:
            words, code = str(problem), getattr(problem, "sqlite_errorcode", None)
        kind = None if code is None else code & 0xFF
        if kind in _BUSY:
            return TransientError(
                f"another program has held {self._file} for {self._lock_timeout_s:g} s: {words}", hint="try again"
            )
        if kind in _CORRUPT or (code is None and isinstance(problem, sqlite3.OperationalError)):
            return self._corrupt(words)
        if writing:
            return self._not_written(words)
        return PerpetualError(
            f"{self._file} cannot be read: {words}", hint="mend the rights of the file and its folder"
        )

    def _not_written(self, words: str) -> PerpetualError:
        return PerpetualError(
            f"{self._file} could not be written: {words}; nothing was changed",
            hint="free some space or mend the folder's rights, then repeat",
            code="not_written",
        )

    def _corrupt(self, words: str) -> CorruptData:
        return CorruptData(
            f"{self._file} is damaged: {words}",
            hint="the file was changed from outside: put back a copy of it, or save what `sqlite3 FILE .recover` finds",
        )


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Holds one state for several reads."""
    if connection.in_transaction:
        yield connection
        return
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.execute("ROLLBACK")


def _names(connection: sqlite3.Connection) -> set[str]:
    """Returns the names of all tables, indexes and triggers."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}


def open_store(options: Mapping[str, float], *, path: Path) -> SqliteStore:
    """Builds the provider `sqlite`; `path` is the folder of the store."""
    return SqliteStore(path, lock_timeout_s=options["lock_timeout_s"])
