"""Data of a store: kinds with their indexes, stored rows, and the documents made of them.

Read through `perpetual.slots.store`, which names what plugin authors need of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

from perpetual.toolkit.jsoncopy import plain_copy

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Body = TypeVar("Body", default="Row")
else:
    from typing import TypeVar

    Body = TypeVar("Body")

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
    "document_of",
    "matches",
]

Row: TypeAlias = dict[str, Any]  # a stored row: the body's keys, and _id, _rev, _no, _seq

META = "_meta"  # kind and id of the store's own row


class StoreMeta(NamedTuple):
    """The store's own row: the number of its last commit, and by kind the last number that was given."""

    commit: int
    counters: Mapping[str, int]

    @classmethod
    def of(cls, row: Row | None) -> StoreMeta:
        """Returns what a store has kept; of an empty one nothing was committed yet."""
        return cls(0, {}) if row is None else cls(row["commit"], row["counters"])

    @property
    def row(self) -> Row:
        """Returns the row as a store keeps it: its revision and its commit are the last commit's."""
        own = {"_id": META, "_rev": self.commit, "_no": 1, "_seq": self.commit}
        return {**own, "commit": self.commit, "counters": dict(self.counters)}

    @property
    def entry(self) -> tuple[str, str, Row]:
        """Returns the row as it is written, with its kind and id."""
        return META, META, self.row


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A sort of record: a ledger or documents; `indexes` are the fields that `find` may filter on.

    `version` is that of the bodies; it grows when their keys change their meaning, together with a step that rewrites
    the older ones (`perpetual.lab.schema_upgrades`).
    """

    name: str
    ledger: bool = False
    prefix: str = ""  # of generated ids: "h" gives h1, h2, ...
    indexes: tuple[str, ...] = ()
    version: int = 1


KINDS: dict[str, StoreKind] = {
    kind.name: kind
    for kind in (
        StoreKind("hypothesis", prefix="h", indexes=("status",)),
        StoreKind("experiment", prefix="e", indexes=("status", "hypothesis_id", "spec_hash")),
        StoreKind("run", prefix="r", indexes=("status", "experiment_id", "analysed")),
        StoreKind("note", indexes=("status",)),
        StoreKind("setting"),
        StoreKind("fold"),
        StoreKind("key"),
        StoreKind("event", ledger=True, indexes=("kind", "subject")),
        StoreKind("evidence", ledger=True, indexes=("hypothesis_id", "experiment_id", "run_id", "kind")),
        StoreKind("debit", ledger=True, indexes=("run_id",)),
        StoreKind("intent", ledger=True, indexes=("path",)),
        StoreKind("verdict", ledger=True, indexes=("path",)),
    )
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store promises beyond the core."""

    multiprocess: bool = False  # several processes may write; without it the kernel refuses a second writer
    wait: bool = False  # `wait` returns within milliseconds of another process's commit
    indexes: bool = False  # `find` costs the matches, not the kind
    most_records: int | None = None  # beyond so many another store serves better, which the doctor says


@dataclass(frozen=True, slots=True)
class Document(Generic[Body]):
    """A document or ledger row as handed out. `number` orders a kind by creation; `seq` is its last commit."""

    kind: str
    id: str
    revision: int
    number: int
    seq: int
    body: Body


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the feed."""

    seq: int
    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class StorePage(Generic[Body]):
    """Some documents in the order asked for, and the cursor of the next page or None."""

    items: tuple[Document[Body], ...]
    next_cursor: str | None


def document_of(kind: str, row: Row, *, fresh: bool = False) -> Document:
    """Returns the row as handed out; a `fresh` one has no other owner, so its values need no copy."""
    body = {key: value for key, value in row.items() if key[:1] != "_"}
    if not fresh:
        body = plain_copy(body)
    return Document(kind, row["_id"], row["_rev"], row["_no"], row["_seq"], body)


def matches(row: Row, equals: Mapping[str, object]) -> bool:
    """Returns whether the row's fields have these values."""
    return all(row.get(field) == value for field, value in equals.items())
