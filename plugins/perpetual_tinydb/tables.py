"""TinyDB over the journal: its tables, documents and queries, with writes that cost what they write.

TinyDB converts a whole table at every update and scans it for a document's id. Here a table reads single rows from the
journal's view, and an update hands TinyDB an overlay that copies what is touched. Built on the public storage, table
and document classes and on four methods of `Table` with a leading underscore (`_read_table`, `_update_table`,
`_get_next_id`, `_query_cache`), whose shape a test holds. Used by `store` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from tinydb import TinyDB, where
from tinydb.queries import QueryLike
from tinydb.storages import Storage
from tinydb.table import Document, Table

from perpetual.api import Row, UsageError
from perpetual_tinydb.journal import Journal

__all__ = ["Database", "JournalStorage", "JournalTable"]


class JournalStorage(Storage):
    """The rows as TinyDB asks for them, and those that wait for their commit."""

    def __init__(self, journal: Journal, ledgers: Callable[[str], bool]) -> None:
        self.journal, self.is_ledger = journal, ledgers
        self.staged: dict[tuple[str, int], Row] = {}

    def row(self, kind: str, number: int) -> Row | None:
        """Returns the row as of the coming commit, decoded anew unless it waits for it; None if there is none."""
        return self.staged.get((kind, number)) or self.journal.row(kind, number)

    def read(self) -> dict[str, dict[str, Row]]:
        """Returns all tables; nothing in this store asks for them, but TinyDB's own `tables()` does."""
        return {kind: {} for kind in self.journal.counters()}

    def write(self, data: dict[str, dict[str, Row]]) -> None:
        """Raises an error: a table that is written whole would forget what it has not read."""
        raise UsageError("the store's tables are written row by row, through a transaction")


class _Rows(Mapping[str, Row]):
    """A table's rows by number as text, each decoded when it is asked for."""

    def __init__(self, storage: JournalStorage, kind: str) -> None:
        self._storage, self._kind = storage, kind

    def __getitem__(self, key: str) -> Row:
        row = self._storage.row(self._kind, int(key))
        if row is None:
            raise KeyError(key)
        return row

    def __iter__(self) -> Iterator[str]:
        return (str(number) for number in range(1, self._storage.journal.last(self._kind) + 1) if str(number) in self)

    def __len__(self) -> int:
        return self._storage.journal.last(self._kind)


class _Overlay(MutableMapping[int, Row]):
    """What TinyDB's updates see of a table: rows by number; what they set is staged, and nothing else is read."""

    def __init__(self, storage: JournalStorage, kind: str) -> None:
        self._storage, self._kind, self._rows = storage, kind, _Rows(storage, kind)

    def __getitem__(self, number: int) -> Row:
        row = self._rows[str(number)]
        self._check(number)  # TinyDB changes in place what it takes from here
        self._storage.staged[self._kind, number] = row
        return row

    def __contains__(self, number: object) -> bool:
        return str(number) in self._rows

    def __setitem__(self, number: int, row: Row) -> None:
        if number in self:
            self._check(number)
        self._storage.staged[self._kind, number] = row

    def __delitem__(self, number: int) -> None:
        raise UsageError(f"{self._kind} {number}: what was recorded is not removed")

    def _check(self, number: int) -> None:
        if self._storage.is_ledger(self._kind):
            raise UsageError(f"{self._kind} {number} is a row of a ledger: rows are appended and stay")

    def __iter__(self) -> Iterator[int]:
        return (int(key) for key in self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class JournalTable(Table):
    """A TinyDB table whose reads cost their answer and whose writes cost what they write."""

    _storage: JournalStorage

    def among(self, numbers: Iterable[int], equals: Mapping[str, object]) -> Iterator[Document]:
        """Yields the documents with these numbers that match, in the order given, by TinyDB's own queries."""
        tests: list[QueryLike] = [where(field) == value for field, value in equals.items() if value is not None]
        absent = [field for field, value in equals.items() if value is None]  # a missing field equals null
        for number in numbers:
            row = self._storage.row(self.name, number)
            if row is None or (tests and not all(test(row) for test in tests)):
                continue
            if not absent or all(row.get(field) is None for field in absent):
                yield self.document_class(row, number)

    def search(self, cond: QueryLike) -> list[Document]:
        """Searches as TinyDB does, but never in the cache of another state: other processes write too."""
        self.clear_cache()
        return super().search(cond)

    def replace(self, document: Document) -> None:
        """Puts a whole document in place of the one with its number, or as a new one."""

        def updater(table: MutableMapping[int, Row]) -> None:
            table[document.doc_id] = dict(document)

        self._update_table(updater)

    def _read_table(self) -> Any:
        return _Rows(self._storage, self.name)

    def _update_table(self, updater: Callable[[Any], None]) -> None:
        staged = dict(self._storage.staged)
        try:
            updater(_Overlay(self._storage, self.name))
        except BaseException:
            self._storage.staged = staged  # all of an update or nothing
            raise
        self.clear_cache()

    def _get_next_id(self) -> int:
        numbers = [number for kind, number in self._storage.staged if kind == self.name]
        return max(self._storage.journal.last(self.name), *numbers, 0) + 1


class Database(TinyDB):
    """TinyDB with these tables."""

    table_class = JournalTable
    default_storage_class = JournalStorage  # type: ignore[assignment]  # TinyDB names its own default as the type
