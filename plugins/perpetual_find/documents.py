"""The document of `perpetual find`."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict

__all__ = ["Found", "FoundItem"]


class FoundItem(TypedDict):
    """A record that was found: the best match has the highest score. Of kind `log` it is a run's output."""

    kind: str
    id: str
    status: str | None
    title: str
    snippet: str  # around the words, on one line
    tags: list[str]
    archived: bool
    score: float  # BM25; comparable within one answer alone
    file: NotRequired[str]  # of a log: the file in the run's folder, and the line that `snippet` shows
    line: NotRequired[int | None]  # null: in the end of a file that is too long to count


class Found(TypedDict):
    """A page of records, the best match first; `match` is `all` words, or `any` where no record has them all."""

    query: str
    match: str
    items: list[FoundItem]
    next_cursor: str | None
