"""`perpetual records`: the kinds of records that plugins bring."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["FieldOfRecord", "KindOfRecord"]


class FieldOfRecord(TypedDict):
    """One field of a kind."""

    name: str
    type: str
    required: bool
    meaning: str


class KindOfRecord(TypedDict):
    """One kind; `active` is whether rows can be written, and `reason` says why not."""

    name: str
    plugin: str
    version: str
    ledger: bool
    count: int
    active: bool
    reason: str | None
    fields: list[FieldOfRecord]
