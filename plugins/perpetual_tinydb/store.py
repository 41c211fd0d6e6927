"""The TinyDB store: TinyDB holds and queries the documents, a journal makes them durable.

Only the factory `open_store` is imported from outside, by the kernel once the configuration has chosen `tinydb`.
TinyDB's own JSON storage rewrites its file in place at every write and knows no second process; here a commit is one
append to a journal and costs what it writes, whatever the store holds already.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypedDict

from tinydb.table import Document as TinyDocument

from perpetual.api import (
    META,
    Capabilities,
    Change,
    PerpetualError,
    Row,
    StoreBase,
    StoreMeta,
    TransientError,
    UsageError,
)
from perpetual.toolkit.confined import UnsafePath, explain, make_folder
from perpetual.toolkit.lock import FileLock
from perpetual_tinydb.journal import LEAST_FOLD_BYTES, Journal
from perpetual_tinydb.reader import Reader
from perpetual_tinydb.tables import Database, JournalStorage, JournalTable

__all__ = ["JournalFacts", "TinyStore", "open_store"]


class JournalFacts(TypedDict):
    """What a person may want to know of the store; `files` are sizes in bytes by name."""

    mode: str
    why: str
    generation: int
    files: dict[str, int]
    compaction_problem: str | None


class TinyStore(StoreBase):
    """See `perpetual.slots.store` for the contract. Safe in threads; several processes may write."""

    # All rows are held in memory and read at every start.
    capabilities = Capabilities(multiprocess=True, wait=True, indexes=True, most_records=10_000)
    fresh_rows = True

    def __init__(self, folder: Path, *, lock_timeout_s: float, least_fold_bytes: int = LEAST_FOLD_BYTES) -> None:
        super().__init__()
        self.folder: Path = folder
        self._lock_timeout_s = lock_timeout_s
        self._lock = FileLock(folder / "lock")
        self._guard = threading.RLock()  # of the view in memory; held for a moment, not for a transaction
        self.journal = Journal(folder, self._fields, least_fold_bytes=least_fold_bytes)
        self.storage = JournalStorage(self.journal, self._is_ledger)
        self.database = Database(storage=lambda: self.storage)
        self._written = threading.local()
        self._holder: int | None = None  # the thread that holds the lock, once its view is the present one

    def _fields(self) -> dict[str, Sequence[str]]:
        return {name: kind.indexes for name, kind in self.kinds.items()}

    def _is_ledger(self, kind: str) -> bool:
        return kind in self.kinds and self.kinds[kind].ledger

    def table(self, kind: str) -> JournalTable:
        """Returns the TinyDB table of a kind."""
        table = self.database.table(kind)
        assert isinstance(table, JournalTable)
        return table

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Holds the flock on `lock`, which excludes threads too and which the kernel frees when its holder dies."""
        try:
            held = self._acquire()
        except OSError as problem:
            raise self._not_written(problem) from problem
        if not held:
            raise self._busy()
        try:
            with self._guard:
                self._look()
            self._holder = threading.get_ident()
            yield
        finally:
            self._holder = None
            self._lock.release()

    def _busy(self) -> TransientError:
        return TransientError(
            f"another process has been writing to {self.folder} for {self._lock_timeout_s:g} s",
            hint="try again when that program has ended; one that was killed holds nothing",
        )

    def _acquire(self) -> bool:
        try:
            return self._lock.acquire(timeout_s=self._lock_timeout_s)
        except FileNotFoundError:  # the first write makes the folder
            make_folder(self.folder)
            return self._lock.acquire(timeout_s=self._lock_timeout_s)

    def _refresh(self) -> None:
        """Looks for commits of others; while this thread holds the lock there are none."""
        if self._holder != threading.get_ident():
            self._look()

    def _look(self) -> None:
        try:
            self.journal.refresh()
        except UnsafePath as problem:
            raise explain(problem) or problem from problem
        except OSError as problem:
            raise PerpetualError(
                f"{problem.filename or self.folder} could not be read: {problem.strerror or problem}",
                hint="mend the folder's rights or the disk, then repeat",
                code="not_read",
            ) from problem

    def read(self, kind: str, id: str) -> Row | None:
        """Returns one row, through the index of ids."""
        with self._guard:
            self._refresh()
            if kind == META:
                return self._own_row()
            number = self.journal.number(kind, id)
            if number is None:
                return None
            found = self.table(kind).get(doc_id=number)
            return found if isinstance(found, TinyDocument) else None

    def _own_row(self) -> Row | None:
        """Returns the base's counters, which the journal knows by itself."""
        commit = self.journal.commit
        return StoreMeta(commit, self.journal.counters()).row if commit else None

    def scan(self, kind: str, equals: Mapping[str, object]) -> Iterable[Row]:
        """Returns the matching rows in order, by index and TinyDB query."""
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
        """Implements the base's method; a page costs a page."""
        with self._guard:
            self._refresh()
            numbers, used = self.journal.candidates(kind, equals)
            rest = {field: value for field, value in equals.items() if field != used}
            if newest_first:
                numbers = numbers[: bisect_left(numbers, after) if after else len(numbers)][::-1]
            elif after:
                numbers = numbers[bisect_right(numbers, after) :]
            return list(islice(self.table(kind).among(numbers, rest), limit))

    def tally(self, kind: str, equals: Mapping[str, object]) -> int:
        """Implements the base's method; where one field is asked for, by its index."""
        with self._guard:
            self._refresh()
            numbers, used = self.journal.candidates(kind, equals)
            return len(numbers) if [*equals] == [used] else super().tally(kind, equals)

    def changes(self, since: int) -> list[Change]:
        """Implements the base's method; costs what has changed."""
        with self._guard:
            self._refresh()
            return [Change(*found) for found in sorted(self.journal.changes(since))]

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        """Stages the rows in TinyDB's tables, then appends them to the journal as one commit."""
        with self._guard:
            try:
                self._refresh()
                commit = self.journal.commit
                for kind, id, row in batch:
                    if kind == META:
                        commit = row["commit"]
                        continue
                    if row["_no"] != (self.journal.number(kind, id) or row["_no"]):
                        raise UsageError(f"{kind} {id} has another number")
                    self.table(kind).replace(TinyDocument(row, doc_id=row["_no"]))
                staged = [(kind, row) for (kind, _), row in self.storage.staged.items()]
                self._written.file = self.journal.append(commit, staged)
            except OSError as problem:
                raise self._not_written(problem) from problem
            finally:
                self.storage.staged.clear()

    def _not_written(self, problem: OSError) -> PerpetualError:
        unsafe = explain(problem) if isinstance(problem, UnsafePath) else None
        if unsafe is not None:
            return unsafe
        return PerpetualError(
            f"{problem.filename or self.folder} could not be written: {problem.strerror or problem}; "
            "nothing was changed",
            hint="free some space or mend the folder's rights, then repeat",
            code="not_written",
        )

    def settle(self) -> None:
        """Waits for the disk without the lock, so that the waits of several processes become one."""
        try:
            self.journal.settle(self._written.__dict__.pop("file", None))
        except OSError as problem:
            raise PerpetualError(
                f"{self.folder}: the disk has not confirmed the last write: {problem.strerror or problem}",
                hint="see whether it stands once the disk is well: perpetual store verify",
                code="not_durable",
            ) from problem

    def verify(self) -> list[str]:
        """Checks every checksum, the order of the commits, and the indexes against the rows, all read anew."""
        with self._undisturbed():
            from perpetual_tinydb.examine import examine

            return examine(Reader(self.folder, self._fields))

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Holds the lock against compaction; without it where there is no folder, or a read-only one."""
        try:
            held = self._lock.acquire(timeout_s=self._lock_timeout_s)
        except OSError:
            yield
            return
        if not held:
            raise self._busy()
        try:
            yield
        finally:
            self._lock.release()

    def compact(self) -> None:
        """Folds the journal into a new snapshot."""
        with self.exclusive(), self._guard:
            if self.fence is not None:
                self.fence()  # the lock may be that of a folder that was put aside while it was waited for
            try:
                self._refresh()
                if self.journal.commit:
                    self.journal.compact()
            except OSError as problem:
                raise self._not_written(problem) from problem

    def describe(self) -> JournalFacts:
        """Returns the files with their sizes, and why the last compaction failed if it did."""
        with self._guard:
            self._refresh()
            return {
                "mode": "journal",
                "why": "append-only JSON lines over a snapshot, each commit synced",
                "generation": self.journal.generation,
                "files": self.journal.sizes(),
                "compaction_problem": self.journal.compaction_problem,
            }


def open_store(options: Mapping[str, float], *, path: Path) -> TinyStore:
    """Builds the provider `tinydb`; `path` is the folder of the store."""
    return TinyStore(path, lock_timeout_s=options["lock_timeout_s"])
