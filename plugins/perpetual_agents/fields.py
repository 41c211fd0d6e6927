"""Fields of a record whose names are in a mapping, as `lab.records` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import Never

__all__ = ["given"]


def given(fields: Mapping[str, object]) -> dict[str, Never]:
    """Returns fields to be passed on by name; their values are checked by the kind that they are written to."""
    return cast("dict[str, Never]", dict(fields))
