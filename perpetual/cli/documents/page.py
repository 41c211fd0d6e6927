"""A page of a list, which every listing command answers."""

from __future__ import annotations

import sys
from typing import Generic, TypeVar

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """A page of a list; `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None
