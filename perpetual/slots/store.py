"""The store slot: where the record is kept. A plugin author subclasses `StoreBase`; the lab uses its public half.

The contract
------------
*What is kept.* Documents, found by (kind, id), each with a revision that grows by one at every write; and ledgers,
kinds whose rows are numbered 1, 2, 3, ... without gaps and are never changed or removed. `KINDS` names both, with
the fields that `find` may filter on. Every value is JSON; NaN, infinities and non-text keys are refused.

*Transactions.* `with store.transaction() as tx:` is the only way to write. Nothing is visible to anybody before the
block ends; at its end everything is, at once, and it is on stable storage before the block returns. A block that
raises leaves no trace. Transactions are serialisable across threads and, where `capabilities.multiprocess`, across
processes: what a block read is still true when it commits. Inside a block the same thread joins the outer
transaction; an inner block that raises takes its own writes with it. Reads inside see the block's own writes; reads
outside see committed state only and do not wait for the block. A transaction is over with its block.

*Ownership.* What is handed out is the caller's own copy; what is handed in may be changed by the caller afterwards.

*The store's own row.* What is counted (the last commit, and the numbers given in each kind) is a row too, of kind and
id `META`; it comes first in each `write`, and `StoreMeta` reads and makes it. A store may keep it in a form of its own.

*Feed.* Each commit has a number, one larger than the last. `changes(since)` names each document or row written by a
later commit, once, in the order of its latest commit. `wait(since)` returns when the number has passed `since`.

*Opening.* Opening a store and reading from it change no file that holds any of the record, and a folder that may only
be read can be read. What a crash left half done stands until the next writer mends it; a reader looks past it.

*A record in another place.* A store may keep its rows on a server; its `location` then names the place. What leads from
the project to the record (a small file with its name on the server) is in the folder at `path` and nowhere else. A new
folder gets a record of its own, and a folder that is renamed takes its record along: this is how a migration puts the
new store in the place of the old one. Passwords are secret options; neither `location` nor `describe` nor an error
shows them. Other machines write to the same record and see no folder renamed: so a migration marks the old record as
replaced (`retire`) before the new one is in force, and every writer asks for that mark (`retired`) with the lock held.
The mark is durable, is seen by every process at once, changes no row, and can be taken off. `head` differs between any
two commits and any two records.

*Raises.* `RevisionConflict` for an `expect_revision` that is not the present one (0 means: must not exist);
`UsageError` for an unknown kind, an undeclared index or a value that is no JSON; `TransientError` when the lock
could not be had in time; `CorruptData` for files that cannot be read; `PerpetualError` with the operating system's
words when a write fails, in which case nothing has changed.

A store is five methods (`exclusive`, `read`, `scan`, `write`, and `close` if it holds something); everything else
stands on them here, and a store overrides it where it can be faster. One that lets go of its lock before the disk has
confirmed overrides `settle`; one that can look at its own files overrides `verify`, `compact` and `describe`; one on a
server overrides `location`, `size_bytes`, `retire` and `retired`.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.errors import UsageError, unknown
from perpetual.slots.store_rows import (
    KINDS,
    META,
    Capabilities,
    Change,
    Document,
    Row,
    StoreKind,
    StoreMeta,
    StorePage,
    document_of,
    matches,
)
from perpetual.slots.store_transaction import Transaction
from perpetual.toolkit.units import start_of

if TYPE_CHECKING:
    from perpetual.toolkit.watch import FolderWatch

__all__ = [
    "KINDS",
    "META",
    "Capabilities",
    "Change",
    "Document",
    "StoreKind",
    "StoreMeta",
    "StorePage",
    "Row",
    "StoreBase",
    "Transaction",
]

_POLL_S = 0.05  # of a store that names no folder to watch


class StoreBase(ABC):
    """Base of every store; see the contract at the top of this module."""

    capabilities = Capabilities()
    fresh_rows = False  # each row that `read` and `scan` answer is new and the caller's own, so that none is copied
    folder: Path | None = None  # whose files change at every commit: `wait` watches it

    def __init__(self) -> None:
        self.kinds: dict[str, StoreKind] = dict(KINDS)
        self.fence: Callable[[], None] | None = None  # called with the lock held; raises where nothing may be written
        self.clean: Callable[[str, Row], Row] | None = None  # what a row becomes before it is staged
        # Mangled: a store of a plugin may have any name for its own.
        self.__open = threading.local()
        self.__watch: FolderWatch | None = None

    # --- what a store must give -----------------------------------------------------------------------------

    @abstractmethod
    def exclusive(self) -> AbstractContextManager[None]:
        """Holds the store's one writer lock, between threads and (if `multiprocess`) processes.

        Raises:
            TransientError: if it could not be had in time.
        """

    @abstractmethod
    def read(self, kind: str, id: str) -> Row | None:
        """Returns the row written last under that id, or None. The base copies it before handing it out."""

    @abstractmethod
    def scan(self, kind: str, equals: Mapping[str, object]) -> Iterable[Row]:
        """Returns the rows of the kind whose top-level fields equal the given values, in any order."""

    @abstractmethod
    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        """Puts all (kind, id, row) at once; called with the lock held. All or nothing.

        What it put is on stable storage when it returns, or when the `settle` that follows does.
        """

    def settle(self) -> None:  # noqa: B027 - where `write` is durable there is nothing left to do
        """Returns once all that reads have shown is on stable storage; called without the lock after each write.

        Called too before an effect outside the store that another process's commit is the reason of.

        Raises:
            PerpetualError: if the disk would not confirm.
        """

    def close(self) -> None:
        """Lets go of what the store holds; one that overrides it calls it."""
        if self.__watch is not None:
            self.__watch.close()
            self.__watch = None

    def verify(self) -> list[str]:
        """Returns what is wrong with the store's own files, each a sentence.

        Sums, order, structure. Changes nothing.
        """
        return []

    def compact(self) -> None:  # noqa: B027 - a store that grows no faster than its records has nothing to do
        """Gives back the room that older states take."""

    def describe(self) -> Mapping[str, object]:
        """Returns what a person may want to know: `mode` and `why` where the store chose between ways to be durable."""
        return {}

    # --- for a record that is not in its folder -----------------------------------------------------------------

    def location(self) -> str | None:
        """Names the place of a record that is not in files of its folder, without secrets; None for one that is.

        The text differs between any two records, also of one server. A folder without a record has none yet.
        """
        return None

    def size_bytes(self) -> int | None:
        """Returns the bytes that the record takes where `location` is; None where its folder's files are all of it."""
        return None

    def head(self) -> str | None:
        """Returns a token of the last commit, for answers that are kept while it is the same; None keeps no answer."""
        place = self.location()
        return None if place is None else f"{place}#{self.seq()}"

    def retire(self, successor: str | None) -> None:  # noqa: B027 - a renamed folder says as much
        """Marks the record as replaced by `successor`, for writers anywhere; None takes the mark off.

        Called with the lock held, outside of a transaction; the mark is on stable storage when it returns.
        """

    def retired(self) -> str | None:
        """Returns what the record was marked with by `retire`, None where it is in force."""
        return None

    # --- what stands on it ----------------------------------------------------------------------------------

    def declare(self, kind: StoreKind) -> None:
        """Makes a plugin's own kind known; the same declaration twice is nothing new."""
        self.kinds[kind.name] = kind

    def kind(self, name: str, *, ledger: bool | None = None) -> StoreKind:
        """Returns the declaration of a kind; `ledger` demands one sort or the other.

        Raises:
            UsageError: if it is not declared or of the other sort.
        """
        spec = self.kinds.get(name)
        if spec is None:
            raise UsageError(unknown("kind", name, self.kinds))
        if ledger is not None and spec.ledger != ledger:
            sort = "a ledger: rows are appended and stay" if spec.ledger else "no ledger"
            raise UsageError(f"{name} is {sort}")
        return spec

    @property
    def in_transaction(self) -> bool:
        """Returns whether this thread is inside a `transaction()` block."""
        return getattr(self.__open, "transaction", None) is not None

    def check_fields(self, kind: str, equals: Mapping[str, object]) -> None:
        """Raises `UsageError` unless every field is a declared index of the kind."""
        spec = self.kind(kind)
        for field in equals:
            if field not in spec.indexes:
                raise UsageError(unknown(f"index of {kind}", field, spec.indexes))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Opens a transaction: atomic, serialisable, durable before it returns; joins the thread's open one."""
        outer: Transaction | None = getattr(self.__open, "transaction", None)
        if outer is not None:
            before = outer._mark()
            try:
                yield outer
            except BaseException:
                outer._restore(before)
                raise
            return
        batch: list[tuple[str, str, Row]] = []
        with self.exclusive():
            if self.fence is not None:
                self.fence()
            transaction = Transaction(self)
            self.__open.transaction = transaction
            try:
                yield transaction
                batch = transaction._batch()
                if batch:
                    self.write(batch)
            finally:
                self.__open.transaction = None
                transaction._over = True
        if batch:
            self.settle()

    def get(self, kind: str, id: str) -> Document | None:
        """Returns the committed document or ledger row (the open transaction's, inside one), or None."""
        inside: Transaction | None = getattr(self.__open, "transaction", None)
        if inside is not None:
            return inside.get(kind, id)
        self.kind(kind)
        row = self.read(kind, id)
        return None if row is None else document_of(kind, row, fresh=self.fresh_rows)

    def find(self, kind: str, /, **equals: object) -> list[Document]:
        """Returns all that match, oldest first; the fields must be declared indexes."""
        inside: Transaction | None = getattr(self.__open, "transaction", None)
        if inside is not None:
            return inside.find(kind, **equals)
        self.check_fields(kind, equals)
        return [document_of(kind, row, fresh=self.fresh_rows) for row in self.slice(kind, equals)]

    def slice(
        self,
        kind: str,
        equals: Mapping[str, object],
        *,
        after: int = 0,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Returns at most `limit` committed rows beyond the number `after` (0: from the start), in order of creation.

        A store that keeps its rows in order overrides this, so that a page costs a page.
        """
        rows = sorted(self.scan(kind, equals), key=lambda row: row["_no"], reverse=newest_first)
        if after:
            rows = [row for row in rows if (row["_no"] < after if newest_first else row["_no"] > after)]
        return rows if limit is None else rows[:limit]

    def page(
        self, kind: str, /, *, limit: int, cursor: str | None = None, newest_first: bool = False, **equals: object
    ) -> StorePage:
        """Returns at most `limit` matches after `cursor`, by creation; `next_cursor` is None on the last page."""
        if limit < 1:
            raise UsageError(f"a page holds at least one item, not {limit}")
        after = start_of(cursor)
        self.check_fields(kind, equals)
        inside: Transaction | None = getattr(self.__open, "transaction", None)
        staged = inside.staged(kind) if inside is not None else {}
        rows = self.slice(kind, equals, after=after, newest_first=newest_first, limit=limit + 1 + len(staged))
        found = [document_of(kind, row, fresh=self.fresh_rows) for row in rows if row["_id"] not in staged]
        if staged:  # what is not committed yet, in its place
            found += [document_of(kind, row) for row in staged.values() if matches(row, equals)
                      and (not after or (row["_no"] < after if newest_first else row["_no"] > after))]  # fmt: skip
            found.sort(key=lambda document: document.number, reverse=newest_first)
        items = tuple(found[:limit])
        return StorePage(items, str(items[-1].number) if len(found) > limit else None)

    def rows(self, kind: str, since: int = 0, limit: int | None = None) -> list[Document]:
        """Returns the ledger's rows with a number above `since`, in order, at most `limit`; costs the rows answered."""
        self.kind(kind, ledger=True)
        last = self.count(kind)
        if limit is not None:
            last = min(last, since + limit)
        return [found for number in range(since + 1, last + 1) if (found := self.get(kind, str(number))) is not None]

    def count(self, kind: str, /, **equals: object) -> int:
        """Returns how many documents or rows of the kind there are, or how many of them match, as `find` finds them."""
        inside: Transaction | None = getattr(self.__open, "transaction", None)
        if inside is not None:
            return inside.count(kind, **equals)
        if equals:
            self.check_fields(kind, equals)
            return self.tally(kind, equals)
        self.kind(kind)
        return self.meta().counters.get(kind, 0)

    def tally(self, kind: str, equals: Mapping[str, object]) -> int:
        """Returns how many committed rows match.

        A store with indexes overrides this, so that no row is read.
        """
        return sum(1 for _ in self.scan(kind, equals))

    def meta(self) -> StoreMeta:
        """Returns the number of the last commit, and of each kind the last number.

        Committed state, also inside a block.
        """
        return StoreMeta.of(self.read(META, META))

    def seq(self) -> int:
        """Returns the number of the last commit, 0 in an empty store."""
        return self.meta().commit

    def changes(self, since: int) -> list[Change]:
        """Returns each document or row written after commit `since`, once, ordered by its latest commit."""
        found = [
            Change(row["_seq"], kind, row["_id"])
            for kind in self.kinds
            for row in self.scan(kind, {})
            if row["_seq"] > since
        ]
        return sorted(found, key=lambda change: (change.seq, change.kind, change.id))

    def wait(self, since: int, timeout_s: float) -> int:
        """Returns the commit number once it has passed `since`, or the present one after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        if self.folder is not None and self.__watch is None:
            from perpetual.toolkit.watch import FolderWatch

            self.__watch = FolderWatch(self.folder)
        while (number := self.seq()) <= since and (left := deadline - time.monotonic()) > 0:
            if self.__watch is None:
                time.sleep(min(_POLL_S, left))
            else:
                self.__watch.wait(lambda: self.seq() > since, left)
        return number
