"""The present time as records hold it."""

from __future__ import annotations

from datetime import UTC, datetime

from perpetual.api import UsageError
from perpetual.toolkit.units import iso

__all__ = ["due_time", "present_time"]


def present_time() -> str:
    """Returns the present time, UTC, as ISO-8601 with Z."""
    return iso(datetime.now(UTC))


def due_time(text: str) -> str:
    """Returns a time that a person typed, as records hold it; without a zone it is this machine's.

    Raises:
        UsageError: for what is no time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as problem:
        raise UsageError(f"{text!r} is no time", hint="as in 2026-12-01T08:00Z") from problem
    return iso(found if found.tzinfo is not None else found.astimezone())
