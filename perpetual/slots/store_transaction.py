"""Reads and staged writes of one `transaction()` block of a store; see the contract in `perpetual.slots.store`.

Made by `StoreBase.transaction` alone, and read through `perpetual.slots.store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.errors import RevisionConflict, UsageError
from perpetual.slots.store_rows import META, Document, Row, StoreMeta, document_of, matches
from perpetual.toolkit.jsoncopy import json_copy

if TYPE_CHECKING:
    from perpetual.slots.store import StoreBase

__all__ = ["Transaction"]


class Transaction:
    """Reads and staged writes of one `transaction()` block. Used by one thread, invalid after the block."""

    def __init__(self, store: StoreBase) -> None:
        self._store = store
        self._staged: dict[tuple[str, str], Row] = {}
        meta = StoreMeta.of(store.read(META, META))
        self._commit_number = meta.commit + 1
        self._counters = dict(meta.counters)
        self._over = False

    @property
    def seq(self) -> int:
        """Returns the number that this commit will have."""
        return self._commit_number

    def get(self, kind: str, id: str) -> Document | None:
        """Returns the document or ledger row (whose id is its number as text), or None."""
        self._store.kind(kind)
        staged = self._staged.get((kind, id))
        if staged is not None:
            return document_of(kind, staged)
        row = self._store.read(kind, id)
        return None if row is None else document_of(kind, row, fresh=self._store.fresh_rows)

    def find(self, kind: str, /, **equals: object) -> list[Document]:
        """Returns all that match, oldest first; the fields must be declared indexes."""
        self._store.check_fields(kind, equals)
        staged = self.staged(kind)
        fresh = self._store.fresh_rows
        found = [
            document_of(kind, row, fresh=fresh) for row in self._store.scan(kind, equals) if row["_id"] not in staged
        ]
        found += [document_of(kind, row) for row in staged.values() if matches(row, equals)]
        return sorted(found, key=lambda document: document.number)

    def rows(self, kind: str, since: int = 0, limit: int | None = None) -> list[Document]:
        """Returns the ledger's rows with a number above `since`, in order, at most `limit`; costs the rows answered."""
        self._store.kind(kind, ledger=True)
        last = self._counters.get(kind, 0)
        if limit is not None:
            last = min(last, since + limit)
        return [found for number in range(since + 1, last + 1) if (found := self.get(kind, str(number))) is not None]

    def create(self, kind: str, body: Mapping[str, object]) -> Document:
        """Returns a new document with the next generated id, which is also put into the body as `id`."""
        spec = self._store.kind(kind, ledger=False)
        number = self._counters.get(kind, 0) + 1
        return self.put(kind, f"{spec.prefix}{number}", {**body, "id": f"{spec.prefix}{number}"}, expect_revision=0)

    def put(self, kind: str, id: str, body: Mapping[str, object], *, expect_revision: int | None = None) -> Document:
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

    def append(self, kind: str, row: Mapping[str, object]) -> int:
        """Adds a row to a ledger and answers its number."""
        self._store.kind(kind, ledger=True)
        number = self._counters[kind] = self._counters.get(kind, 0) + 1
        self._stage(kind, str(number), 1, number, row)
        return number

    def staged(self, kind: str) -> dict[str, Row]:
        """Returns the rows of the kind that the block has written, by id; they are not to be changed."""
        return {id: row for (staged_kind, id), row in self._staged.items() if staged_kind == kind}

    def count(self, kind: str, /, **equals: object) -> int:
        """Returns how many documents or rows of the kind there are, or how many of them match."""
        if equals:
            return len(self.find(kind, **equals))
        self._store.kind(kind)
        return self._counters.get(kind, 0)

    def _row(self, kind: str, id: str) -> Row | None:
        self._store.kind(kind)
        staged = self._staged.get((kind, id))
        return staged if staged is not None else self._store.read(kind, id)

    def _stage(self, kind: str, id: str, revision: int, number: int, body: Mapping[str, object]) -> Document:
        if self._over:
            raise UsageError(f"{kind} {id}: the transaction is over; what is written now would be lost")
        clean: Row = json_copy(dict(body), kind)
        if self._store.clean is not None:
            clean = self._store.clean(kind, clean)
        for key in clean:
            if key[:1] == "_":
                raise UsageError(f"{kind} {id}: the key {key!r} is the store's own")
        row = {"_id": id, "_rev": revision, "_no": number, "_seq": self._commit_number, **clean}
        self._staged[kind, id] = row
        return document_of(kind, row)

    def _mark(self) -> tuple[dict[tuple[str, str], Row], dict[str, int]]:
        """Returns the state before an inner block; rows are replaced and never changed, so shallow copies hold it."""
        return dict(self._staged), dict(self._counters)

    def _restore(self, mark: tuple[dict[tuple[str, str], Row], dict[str, int]]) -> None:
        self._staged, self._counters = mark

    def _batch(self) -> list[tuple[str, str, Row]]:
        """Returns what to write, the store's own counters first; empty if the block wrote nothing."""
        if not self._staged:
            return []
        meta = StoreMeta(self._commit_number, self._counters)
        return [meta.entry, *((kind, id, row) for (kind, id), row in self._staged.items())]
