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

*Feed.* Each commit has a number, one larger than the last. `changes(since)` names each document or row written by a
later commit, once, in the order of its latest commit. `wait(since)` returns when the number has passed `since`.

*Opening.* Opening a store and reading from it change no file that holds any of the record, and a folder that may only
be read can be read. What a crash left half done stands until the next writer mends it; a reader looks past it.

*Raises.* `RevisionConflict` for an `expect_revision` that is not the present one (0 means: must not exist);
`UsageError` for an unknown kind, an undeclared index or a value that is no JSON; `TransientError` when the lock
could not be had in time; `CorruptData` for files that cannot be read; `PerpetualError` with the operating system's
words when a write fails, in which case nothing has changed.

A store is five methods (`exclusive`, `read`, `scan`, `write`, and `close` if it holds something); everything else
stands on them here, and a store overrides it where it can be faster. One that lets go of its lock before the disk has
confirmed overrides `settle`; one that can look at its own files overrides `verify`, `compact` and `describe`.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.errors import RevisionConflict, UsageError, unknown

if TYPE_CHECKING:
    from perpetual.toolkit.watch import FolderWatch

__all__ = ["KINDS", "Capabilities", "Change", "Document", "Kind", "Page", "Row", "StoreBase", "Transaction"]

Row = dict[str, Any]  # a stored row: the body's keys, and _id, _rev, _no, _seq

_META = "_meta"
_POLL_S = 0.05  # of a store that names no folder to watch


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of record: a ledger or documents; `indexes` are the fields that `find` may filter on.

    `version` is that of the bodies; it grows when their keys change their meaning, together with a step that rewrites
    the older ones (`perpetual.lab.upgrades`).
    """

    name: str
    ledger: bool = False
    prefix: str = ""  # of generated ids: "h" gives h1, h2, ...
    indexes: tuple[str, ...] = ()
    version: int = 1


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("hypothesis", prefix="h", indexes=("status",)),
        Kind("experiment", prefix="e", indexes=("status", "hypothesis_id", "spec_hash")),
        Kind("run", prefix="r", indexes=("status", "experiment_id", "analysed")),
        Kind("note", indexes=("status",)),
        Kind("setting"),
        Kind("fold"),
        Kind("key"),
        Kind("event", ledger=True, indexes=("kind", "subject")),
        Kind("evidence", ledger=True, indexes=("hypothesis_id", "experiment_id", "run_id", "kind")),
        Kind("debit", ledger=True, indexes=("run_id",)),
        Kind("intent", ledger=True, indexes=("path",)),
        Kind("verdict", ledger=True, indexes=("path",)),
    )
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store promises beyond the core."""

    multiprocess: bool = False  # several processes may write; without it the kernel refuses a second writer
    wait: bool = False  # `wait` returns within milliseconds of another process's commit
    indexes: bool = False  # `find` costs the matches, not the kind


@dataclass(frozen=True, slots=True)
class Document:
    """A document or ledger row as handed out. `number` orders a kind by creation; `seq` is its last commit."""

    kind: str
    id: str
    revision: int
    number: int
    seq: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the feed."""

    seq: int
    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Page:
    """Some documents in the order asked for, and the cursor of the next page or None."""

    items: tuple[Document, ...]
    next_cursor: str | None


def json_copy(value: Any, where: str = "value") -> Any:
    """A deep copy of a JSON value.

    Raises:
        UsageError: for anything that JSON cannot carry, naming where it stands.
    """
    try:
        return _plain_copy(value)
    except (_NotPlain, UnicodeEncodeError):
        return _checked_copy(value, where)


class _NotPlain(Exception):
    """A value that has to be looked at more closely."""


def _plain_copy(value: Any) -> Any:
    """The copy of what is almost always there: the very types that JSON is decoded to."""
    sort = type(value)
    if sort is dict:
        made = {}
        for key, item in value.items():
            if type(key) is not str:
                raise _NotPlain
            if not key.isascii():
                key.encode()
            kind = type(item)
            if kind is str:
                if not item.isascii():
                    item.encode()
                made[key] = item
            else:
                made[key] = item if item is None or kind is int or kind is bool else _plain_copy(item)
        return made
    if sort is list:
        return [_plain_copy(item) for item in value]
    if sort is str:
        if not value.isascii():
            value.encode()
        return value
    if value is None or sort is int or sort is bool or (sort is float and math.isfinite(value)):
        return value
    raise _NotPlain


def _checked_copy(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        if not value.isascii():
            _check_text(value, where)
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise UsageError(f"{where} is {value!r}, which JSON cannot carry", hint="leave an unknown value out")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise UsageError(f"{where} has the key {key!r}, which is no text")
            if not key.isascii():
                _check_text(key, where)
        return {key: _checked_copy(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_checked_copy(item, f"{where}[{n}]") for n, item in enumerate(value)]
    raise UsageError(f"{where} is a {type(value).__name__}, which JSON cannot carry")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise UsageError(f"{where} holds bytes that are no text (UTF-8), at character {problem.start}") from problem


def _document(kind: str, row: Row, *, fresh: bool = False) -> Document:
    """The row as handed out; a `fresh` one belongs to nobody else, so its values need no copy."""
    body = {key: value for key, value in row.items() if key[:1] != "_"}
    if not fresh:
        body = _plain_copy(body)
    return Document(kind, row["_id"], row["_rev"], row["_no"], row["_seq"], body)


def _matches(row: Row, equals: Mapping[str, Any]) -> bool:
    return all(row.get(field) == value for field, value in equals.items())


class Transaction:
    """Reads and staged writes of one `transaction()` block. Used by one thread, invalid after the block."""

    def __init__(self, store: StoreBase) -> None:
        self._store = store
        self._staged: dict[tuple[str, str], Row] = {}
        meta = store.read(_META, _META) or {"commit": 0, "counters": {}}
        self._commit_number: int = meta["commit"] + 1
        self._counters: dict[str, int] = dict(meta["counters"])
        self._over = False

    @property
    def seq(self) -> int:
        """The number that this commit will have."""
        return self._commit_number

    def get(self, kind: str, id: str) -> Document | None:
        """The document or ledger row (whose id is its number as text), or None."""
        self._store.kind(kind)
        staged = self._staged.get((kind, id))
        if staged is not None:
            return _document(kind, staged)
        row = self._store.read(kind, id)
        return None if row is None else _document(kind, row, fresh=self._store.fresh_rows)

    def find(self, kind: str, /, **equals: Any) -> list[Document]:
        """All that match, oldest first; the fields must be declared indexes."""
        self._store.check_fields(kind, equals)
        staged = {id: row for (staged_kind, id), row in self._staged.items() if staged_kind == kind}
        fresh = self._store.fresh_rows
        found = [
            _document(kind, row, fresh=fresh) for row in self._store.scan(kind, equals) if row["_id"] not in staged
        ]
        found += [_document(kind, row) for row in staged.values() if _matches(row, equals)]
        return sorted(found, key=lambda document: document.number)

    def rows(self, kind: str, since: int = 0) -> list[Document]:
        """The ledger's rows with a number above `since`, in order."""
        self._store.kind(kind, ledger=True)
        wanted = range(since + 1, self._counters.get(kind, 0) + 1)
        return [found for number in wanted if (found := self.get(kind, str(number))) is not None]

    def create(self, kind: str, body: Mapping[str, Any]) -> Document:
        """A new document with the next generated id, which is also put into the body as `id`."""
        spec = self._store.kind(kind, ledger=False)
        number = self._counters.get(kind, 0) + 1
        return self.put(kind, f"{spec.prefix}{number}", {**body, "id": f"{spec.prefix}{number}"}, expect_revision=0)

    def put(self, kind: str, id: str, body: Mapping[str, Any], *, expect_revision: int | None = None) -> Document:
        """Writes a whole document; `expect_revision` refuses the write if it has another revision by now."""
        self._store.kind(kind, ledger=False)
        present = self._row(kind, id)
        revision = present["_rev"] if present else 0
        if expect_revision is not None and expect_revision != revision:
            raise RevisionConflict(
                f"{kind} {id} has revision {revision}, not {expect_revision}", hint="read it again and repeat"
            )
        if present:
            number = present["_no"]
        else:
            number = self._counters[kind] = self._counters.get(kind, 0) + 1
        return self._stage(kind, id, revision + 1, number, body)

    def append(self, kind: str, row: Mapping[str, Any]) -> int:
        """Adds a row to a ledger and answers its number."""
        self._store.kind(kind, ledger=True)
        number = self._counters[kind] = self._counters.get(kind, 0) + 1
        self._stage(kind, str(number), 1, number, row)
        return number

    def count(self, kind: str) -> int:
        """How many documents or rows of the kind there are."""
        self._store.kind(kind)
        return self._counters.get(kind, 0)

    def _row(self, kind: str, id: str) -> Row | None:
        self._store.kind(kind)
        staged = self._staged.get((kind, id))
        return staged if staged is not None else self._store.read(kind, id)

    def _stage(self, kind: str, id: str, revision: int, number: int, body: Mapping[str, Any]) -> Document:
        if self._over:
            raise UsageError(f"{kind} {id}: the transaction is over; what is written now would be lost")
        clean: Row = json_copy(body, kind)
        for key in clean:
            if key[:1] == "_":
                raise UsageError(f"{kind} {id}: the key {key!r} is the store's own")
        row = {"_id": id, "_rev": revision, "_no": number, "_seq": self._commit_number, **clean}
        self._staged[kind, id] = row
        return _document(kind, row)

    def _mark(self) -> tuple[dict[tuple[str, str], Row], dict[str, int]]:
        """The state before an inner block; rows are replaced and never changed, so shallow copies hold it."""
        return dict(self._staged), dict(self._counters)

    def _restore(self, mark: tuple[dict[tuple[str, str], Row], dict[str, int]]) -> None:
        self._staged, self._counters = mark

    def _batch(self) -> list[tuple[str, str, Row]]:
        """What to write, the store's own counters first; empty if the block wrote nothing."""
        if not self._staged:
            return []
        meta = {"commit": self._commit_number, "counters": self._counters}
        head = {"_id": _META, "_rev": self._commit_number, "_no": 1, "_seq": self._commit_number, **meta}
        return [(_META, _META, head), *((kind, id, row) for (kind, id), row in self._staged.items())]


class StoreBase(ABC):
    """Base of every store; see the contract at the top of this module."""

    capabilities = Capabilities()
    fresh_rows = False  # each row that `read` and `scan` answer is new and the caller's own, so that none is copied
    folder: Path | None = None  # whose files change at every commit: `wait` watches it

    def __init__(self) -> None:
        self.kinds: dict[str, Kind] = dict(KINDS)
        self.fence: Callable[[], None] | None = None  # called with the lock held; raises where nothing may be written
        self._open = threading.local()
        self._watch: FolderWatch | None = None

    # --- what a store must give -----------------------------------------------------------------------------

    @abstractmethod
    def exclusive(self) -> AbstractContextManager[None]:
        """Holds the store's one writer lock, between threads and (if `multiprocess`) processes.

        Raises:
            TransientError: if it could not be had in time.
        """

    @abstractmethod
    def read(self, kind: str, id: str) -> Row | None:
        """The row written last under that id, or None. The base copies it before handing it out."""

    @abstractmethod
    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        """The rows of the kind whose top-level fields equal the given values, in any order."""

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
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def verify(self) -> list[str]:
        """What is wrong with the store's own files, each a sentence: sums, order, structure. Changes nothing."""
        return []

    def compact(self) -> None:  # noqa: B027 - a store that grows no faster than its records has nothing to do
        """Gives back the room that older states take."""

    def describe(self) -> dict[str, Any]:
        """What a person may want to know: `mode` and `why` where the store chose between ways to be durable."""
        return {}

    # --- what stands on it ----------------------------------------------------------------------------------

    def declare(self, kind: Kind) -> None:
        """Makes a plugin's own kind known; the same declaration twice is nothing new."""
        self.kinds[kind.name] = kind

    def kind(self, name: str, *, ledger: bool | None = None) -> Kind:
        """The declaration of a kind; `ledger` demands one sort or the other.

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

    def check_fields(self, kind: str, equals: Mapping[str, Any]) -> None:
        """Raises `UsageError` unless every field is a declared index of the kind."""
        spec = self.kind(kind)
        for field in equals:
            if field not in spec.indexes:
                raise UsageError(unknown(f"index of {kind}", field, spec.indexes))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """See the contract: atomic, serialisable, durable before it returns; joins the thread's open one."""
        outer: Transaction | None = getattr(self._open, "transaction", None)
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
            self._open.transaction = transaction
            try:
                yield transaction
                batch = transaction._batch()
                if batch:
                    self.write(batch)
            finally:
                self._open.transaction = None
                transaction._over = True
        if batch:
            self.settle()

    def get(self, kind: str, id: str) -> Document | None:
        """The committed document or ledger row (the open transaction's, inside one), or None."""
        inside: Transaction | None = getattr(self._open, "transaction", None)
        if inside is not None:
            return inside.get(kind, id)
        self.kind(kind)
        row = self.read(kind, id)
        return None if row is None else _document(kind, row, fresh=self.fresh_rows)

    def find(self, kind: str, /, **equals: Any) -> list[Document]:
        """All that match, oldest first; the fields must be declared indexes."""
        inside: Transaction | None = getattr(self._open, "transaction", None)
        if inside is not None:
            return inside.find(kind, **equals)
        self.check_fields(kind, equals)
        return [_document(kind, row, fresh=self.fresh_rows) for row in self.slice(kind, equals)]

    def slice(
        self,
        kind: str,
        equals: Mapping[str, Any],
        *,
        after: int = 0,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """At most `limit` committed rows beyond the number `after` (0: from the start), in order of creation.

        A store that keeps its rows in order overrides this, so that a page costs a page.
        """
        rows = sorted(self.scan(kind, equals), key=lambda row: row["_no"], reverse=newest_first)
        if after:
            rows = [row for row in rows if (row["_no"] < after if newest_first else row["_no"] > after)]
        return rows if limit is None else rows[:limit]

    def page(
        self,
        kind: str,
        /,
        *,
        limit: int,
        cursor: str | None = None,
        newest_first: bool = False,
        **equals: Any,
    ) -> Page:
        """At most `limit` matches after `cursor`, by creation; `next_cursor` is None on the last page."""
        if limit < 1:
            raise UsageError(f"a page holds at least one item, not {limit}")
        after = 0
        if cursor is not None:
            if not cursor.isdecimal():
                raise UsageError(f"{cursor!r} is no cursor", hint="use the next_cursor of the page before")
            after = int(cursor)
        if getattr(self._open, "transaction", None) is not None:
            found = self.find(kind, **equals)  # with what is not committed yet
            if newest_first:
                found = [item for item in reversed(found) if not after or item.number < after]
            else:
                found = [item for item in found if item.number > after]
        else:
            self.check_fields(kind, equals)
            rows = self.slice(kind, equals, after=after, newest_first=newest_first, limit=limit + 1)
            found = [_document(kind, row, fresh=self.fresh_rows) for row in rows]
        items = tuple(found[:limit])
        return Page(items, str(items[-1].number) if len(found) > limit else None)

    def rows(self, kind: str, since: int = 0, limit: int | None = None) -> list[Document]:
        """The ledger's rows with a number above `since`, in order, at most `limit`; costs the rows answered."""
        self.kind(kind, ledger=True)
        last = self.count(kind)
        if limit is not None:
            last = min(last, since + limit)
        return [found for number in range(since + 1, last + 1) if (found := self.get(kind, str(number))) is not None]

    def count(self, kind: str) -> int:
        """How many documents or rows of the kind there are."""
        inside: Transaction | None = getattr(self._open, "transaction", None)
        if inside is not None:
            return inside.count(kind)
        self.kind(kind)
        meta = self.read(_META, _META)
        count: int = meta["counters"].get(kind, 0) if meta else 0
        return count

    def seq(self) -> int:
        """The number of the last commit, 0 in an empty store."""
        meta = self.read(_META, _META)
        number: int = meta["commit"] if meta else 0
        return number

    def changes(self, since: int) -> list[Change]:
        """Each document or row written after commit `since`, once, ordered by its latest commit."""
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
        if self.folder is not None and self._watch is None:
            from perpetual.toolkit.watch import FolderWatch

            self._watch = FolderWatch(self.folder)
        while (number := self.seq()) <= since and (left := deadline - time.monotonic()) > 0:
            if self._watch is None:
                time.sleep(min(_POLL_S, left))
            else:
                self._watch.wait(lambda: self.seq() > since, left)
        return number
