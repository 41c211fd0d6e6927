"""Pages of records, what yields every page's records, and how a notebook shows both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar, overload

__all__ = ["Listing", "Paged", "Shown", "every"]

T = TypeVar("T")
_PAGE_ITEMS = 500


class Shown:
    """Base of what a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Returns the record as HTML, its texts escaped; made by the plugin `export`."""
        return str(import_module("perpetual_export.html").html_of(self))


@dataclass(frozen=True, slots=True)
class Listing(Shown, Sequence[T]):
    """A page of records, which it iterates over; `next_cursor` is None on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        return self.items[place]

    def __len__(self) -> int:
        return len(self.items)


def every(pages: Callable[..., Listing[T]], **filters: str | int | None) -> Iterator[T]:
    """Yields the records of every page that `pages(limit=, cursor=, **filters)` returns, one page at a time."""
    cursor: str | None = None
    while True:
        page = pages(limit=_PAGE_ITEMS, cursor=cursor, **filters)
        yield from page
        cursor = page.next_cursor
        if cursor is None:
            return


class Paged(Generic[T]):
    """A component of the lab whose `list` returns pages."""

    list: Callable[..., Listing[T]]

    def all(self, **filters: str | None) -> Iterator[T]:
        """Yields every record, in the order of `list` and by its filters; holds one page in memory."""
        return every(self.list, **filters)
