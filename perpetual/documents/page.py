"""A page of a list, which every listing command answers."""

from __future__ import annotations

from typing import Generic, TypeVar

from perpetual.documents import TypedDict

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """A page of a list; `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None
