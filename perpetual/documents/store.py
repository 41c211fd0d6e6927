"""Statistics of the store, exports and imports."""

from __future__ import annotations

from typing import Any

from perpetual.documents import TypedDict


class StoreStats(TypedDict):
    """What the store holds and weighs; `mode` and `why` are null where it has but one way to work.

    `location` names the server of a record that is not in files of its folder.
    """

    store: str
    folder: str
    location: str | None
    mode: str | None
    why: str | None
    commit: int
    records: dict[str, int]
    bytes: int
    files: dict[str, int]
    details: dict[str, Any]


class StoreVerify(TypedDict):
    """What is wrong with the record, each a sentence."""

    ok: bool
    problems: list[str]


class StoreCompact(TypedDict):
    """What the store's files took before and take after."""

    bytes_before: int
    bytes_after: int


class StoreWritten(TypedDict):
    """A record written as JSON lines."""

    rows: int
    commit: int
    bytes: int
    sha256: str


class StoreExport(StoreWritten):
    """An exported record; the checksum is that of all lines but the last."""

    path: str


class StoreMoved(TypedDict):
    """A store that was put in the place of another, which `backup` holds."""

    rows: int
    commit: int
    backup: str | None


class StoreImport(StoreMoved):
    """A record taken over; `backup` holds the store before, and is null in a dry run."""

    path: str


StoreMigrate = TypedDict("StoreMigrate", {"from": str, "to": str, "rows": int, "commit": int, "backup": str | None})
StoreMigrate.__doc__ = "A record moved into another store; `backup` holds the old one, and is null in a dry run."
