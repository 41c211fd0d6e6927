"""The present time as records hold it."""

from __future__ import annotations

from datetime import UTC, datetime

from perpetual.toolkit.units import iso

__all__ = ["present_time"]


def present_time() -> str:
    """Returns the present time, UTC, as ISO-8601 with Z."""
    return iso(datetime.now(UTC))
