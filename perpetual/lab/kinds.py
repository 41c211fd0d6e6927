"""The kinds of the record: a name that knows the type of its rows, and the type of a row as a store hands it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias, overload

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import _GeneratorContextManager

    from perpetual.lab import bodies
    from perpetual.slots.store import StoreBase, Transaction
    from perpetual.slots.store_rows import Body, Document, StorePage

    class KindName(Generic[Body]):
        """The name of a kind whose rows have bodies of the type `Body`; a plain text when it runs."""

        def __init__(self, name: str) -> None: ...

    class _Reads:
        """What a store and a transaction of it read, with the types of the bodies of each kind."""

        @overload
        def get(self, kind: KindName[Body], id: str) -> Document[Body] | None: ...
        @overload
        def get(self, kind: str, id: str) -> Document | None: ...
        def get(self, kind: object, id: str) -> object: ...
        @overload
        def find(self, kind: KindName[Body], /, **equals: object) -> list[Document[Body]]: ...
        @overload
        def find(self, kind: str, /, **equals: object) -> list[Document]: ...
        def find(self, kind: object, /, **equals: object) -> object: ...
        @overload
        def rows(self, kind: KindName[Body], since: int = 0, limit: int | None = None) -> list[Document[Body]]: ...
        @overload
        def rows(self, kind: str, since: int = 0, limit: int | None = None) -> list[Document]: ...
        def rows(self, kind: object, since: int = 0, limit: int | None = None) -> object: ...
        def count(self, kind: KindName[Body] | str, /, **equals: object) -> int: ...

    class LabTransaction(_Reads, Transaction):
        """A transaction of the store in force, with the types of the bodies of each kind."""

        @overload
        def create(self, kind: KindName[Body], body: Mapping[str, object]) -> Document[Body]: ...
        @overload
        def create(self, kind: str, body: Mapping[str, object]) -> Document: ...
        def create(self, kind: object, body: Mapping[str, object]) -> object: ...
        @overload
        def put(
            self, kind: KindName[Body], id: str, body: Mapping[str, object], *, expect_revision: int | None = None
        ) -> Document[Body]: ...
        @overload
        def put(
            self, kind: str, id: str, body: Mapping[str, object], *, expect_revision: int | None = None
        ) -> Document: ...
        def put(
            self, kind: object, id: str, body: Mapping[str, object], *, expect_revision: int | None = None
        ) -> object: ...
        def append(self, kind: KindName[Body] | str, row: Mapping[str, object]) -> int: ...

    class LabStore(_Reads, StoreBase):
        """The store in force, with the types of the bodies of each kind."""

        @overload
        def page(
            self,
            kind: KindName[Body],
            /,
            *,
            limit: int,
            cursor: str | None = None,
            newest_first: bool = False,
            **equals: object,
        ) -> StorePage[Body]: ...
        @overload
        def page(
            self, kind: str, /, *, limit: int, cursor: str | None = None, newest_first: bool = False, **equals: object
        ) -> StorePage: ...
        def page(
            self,
            kind: object,
            /,
            *,
            limit: int,
            cursor: str | None = None,
            newest_first: bool = False,
            **equals: object,
        ) -> object: ...
        def transaction(self) -> _GeneratorContextManager[LabTransaction]: ...

else:
    KindName, LabStore, LabTransaction = str, object, object  # the last two are types alone

__all__ = [
    "DEBIT",
    "EVENT",
    "EVIDENCE",
    "EXPERIMENT",
    "HYPOTHESIS",
    "INTENT",
    "KEY",
    "NOTE",
    "RUN",
    "VERDICT",
    "EventRow",
    "EvidenceRow",
    "ExperimentRow",
    "HypothesisRow",
    "KindName",
    "LabStore",
    "LabTransaction",
    "NoteRow",
    "RunRow",
]

HYPOTHESIS: KindName[bodies.HypothesisBody] = KindName("hypothesis")
EXPERIMENT: KindName[bodies.ExperimentBody] = KindName("experiment")
RUN: KindName[bodies.RunBody] = KindName("run")
NOTE: KindName[bodies.NoteBody] = KindName("note")
KEY: KindName[bodies.KeyBody] = KindName("key")
EVENT: KindName[bodies.EventBody] = KindName("event")
EVIDENCE: KindName[bodies.EvidenceBody] = KindName("evidence")
DEBIT: KindName[bodies.DebitBody] = KindName("debit")
INTENT: KindName[bodies.IntentBody] = KindName("intent")
VERDICT: KindName[bodies.VerdictBody] = KindName("verdict")

HypothesisRow: TypeAlias = "Document[bodies.HypothesisBody]"
ExperimentRow: TypeAlias = "Document[bodies.ExperimentBody]"
RunRow: TypeAlias = "Document[bodies.RunBody]"
NoteRow: TypeAlias = "Document[bodies.NoteBody]"
EventRow: TypeAlias = "Document[bodies.EventBody]"
EvidenceRow: TypeAlias = "Document[bodies.EvidenceBody]"
