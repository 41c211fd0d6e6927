"""The TinyDB store: TinyDB holds and queries the documents, this file makes them durable.

Only the factory `open_store` is imported from outside, by the kernel once the configuration has chosen `tinydb`.
TinyDB's own JSON storage rewrites its file in place and knows no second process; here the tables live in memory,
a commit writes them to a new file that replaces the old one by rename, and every reader first looks at the file's
stat. A commit therefore costs the size of the store.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

from tinydb import TinyDB, where
from tinydb.queries import QueryLike
from tinydb.storages import Storage
from tinydb.table import Document as TinyDocument

from perpetual.api import Capabilities, CorruptData, PerpetualError, Row, StoreBase, TransientError
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.lock import FileLock
from perpetual_tinydb.head import FILE

__all__ = ["TinyStore", "open_store"]

Tables = dict[str, dict[str, Any]]


class _Tables(Storage):
    """TinyDB's storage interface over tables that this module loads and saves."""

    def __init__(self) -> None:
        self.tables: Tables = {}

    def read(self) -> Tables:
        return self.tables

    def write(self, data: Tables) -> None:
        self.tables = data


class TinyStore(StoreBase):
    """See `perpetual.slots.store` for the contract. Safe in threads; several processes may write."""

    capabilities = Capabilities(multiprocess=True)

    def __init__(self, folder: Path, *, lock_timeout_s: float) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = folder / FILE
        self._lock_timeout_s = lock_timeout_s
        self._lock = FileLock(folder / "lock")
        self._guard = threading.RLock()  # of the tables in memory; held for a moment, not for a transaction
        self._stamp: tuple[int, int, int] | None = None
        self._load()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """The flock on `lock`, which excludes threads too and which the kernel frees when its holder dies."""
        if not self._lock.acquire(timeout_s=self._lock_timeout_s):
            raise TransientError(
                f"somebody else has been writing to {self._file.parent} for {self._lock_timeout_s:g} s",
                hint="try again; `perpetual doctor` names who holds the store",
            )
        try:
            yield
        finally:
            self._lock.release()

    def read(self, kind: str, id: str) -> Row | None:
        """One row, through the id index built when the file was read."""
        with self._guard:
            self._refresh()
            number = self._ids.get(kind, {}).get(id)
            if number is None:
                return None
            found = self._db.table(kind).get(doc_id=number)
            return dict(found) if isinstance(found, TinyDocument) else None

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        """All matching rows, by a TinyDB query."""
        with self._guard:
            self._refresh()
            table = self._db.table(kind)
            if not equals:
                return [dict(row) for row in table.all()]
            tests: list[QueryLike] = [where(field) == value for field, value in equals.items()]
            return [dict(row) for row in table.search(reduce(lambda a, b: a & b, tests))]  # type: ignore[operator]

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        """Changes the tables in memory, then replaces the file; if that fails the memory is read anew."""
        with self._guard:
            self._write(batch)

    def _write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        self._refresh()
        try:
            for kind, id, row in batch:
                table = self._db.table(kind)
                number = row["_no"]
                if table.contains(doc_id=number):
                    table.remove(doc_ids=[number])
                table.insert(TinyDocument(row, doc_id=number))
                self._ids.setdefault(kind, {})[id] = number
            tables = self._storage.tables
            ordered = {"_meta": tables["_meta"], **tables}
            write_atomic(self._file, json.dumps(ordered, allow_nan=False, ensure_ascii=False, separators=(",", ":")))
        except OSError as problem:
            self._stamp = None
            raise PerpetualError(
                f"{self._file} could not be written: {problem.strerror or problem}; nothing was changed",
                hint="free some space or mend the folder's rights, then repeat",
                code="not_written",
            ) from problem
        except BaseException:
            self._stamp = None
            raise
        self._stamp = self._stat()

    def close(self) -> None:
        """Nothing is held open between calls."""
        self._db.close()

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._file)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _refresh(self) -> None:
        stamp = self._stat()
        if stamp != self._stamp or stamp is None:
            self._load()

    def _load(self) -> None:
        # The stamp is taken before the bytes: a replacement in between shows as a difference at the next look.
        stamp = self._stat()
        storage = _Tables()
        ids: dict[str, dict[str, int]] = {}
        if stamp is not None:
            storage.tables, ids = self._parse(self._file.read_bytes())
        self._storage = storage
        self._db = TinyDB(storage=lambda: storage)
        self._ids = ids
        self._stamp = stamp

    def _parse(self, data: bytes) -> tuple[Tables, dict[str, dict[str, int]]]:
        """The tables of the file, and the number of each id."""
        try:
            tables: Tables = json.loads(data)
            ids = {kind: dict(_numbers(rows)) for kind, rows in tables.items()}
            head = tables["_meta"]["1"]
            if not isinstance(head["commit"], int) or not isinstance(head["counters"], dict):
                raise ValueError("its counters are none")
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            told = str(problem) if isinstance(problem, ValueError) else "it does not hold what a store holds"
            raise CorruptData(
                f"{self._file} cannot be read: {told}",
                hint="the file was changed from outside; put back a copy of it",
            ) from problem
        return tables, ids


def _numbers(rows: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The (id, number) of each row of a table; raises for what was not written by a store."""
    for number, row in rows.items():
        if int(number) != row["_no"] or not isinstance(row["_rev"], int) or not isinstance(row["_seq"], int):
            raise ValueError(f"row {number} is not a store's")
        yield row["_id"], row["_no"]


def open_store(options: Mapping[str, Any], *, path: Path) -> TinyStore:
    """Factory of the provider `tinydb`; `path` is the folder of the store."""
    return TinyStore(path, lock_timeout_s=float(options["lock_timeout_s"]))
