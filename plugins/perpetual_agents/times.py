"""The present time as records hold it."""

from __future__ import annotations

from datetime import UTC, datetime

from perpetual.api import UsageError
from perpetual.toolkit.units import iso, posix_of

__all__ = ["due_time", "present_time", "seconds_until"]


def present_time() -> str:
    """Returns the present time, UTC, as ISO-8601 with Z."""
    return iso(datetime.now(UTC))


def seconds_until(time: str | None) -> float:
    """Returns the seconds until a time of a record; 0 for one that is over, and for none."""
    return 0.0 if time is None else max(0.0, posix_of(time) - datetime.now(UTC).timestamp())


def due_time(text: str) -> str:
    """Returns a time that a person typed, as records hold it; without a zone it is this machine's.

    Raises:
        UsageError: for what is no time.
    """
    try:
        found = datetime.fromisoformat(text)
        return iso(found if found.tzinfo is not None else found.astimezone())
    except (ValueError, OverflowError, OSError) as problem:
        raise UsageError(f"{text[:60]!r} is no time", hint="as in 2026-12-01T08:00Z") from problem
