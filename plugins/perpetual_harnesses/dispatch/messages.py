"""Reading messages of harnesses as they come: what has another form than expected counts as not being there."""

from __future__ import annotations

from perpetual.toolkit.fence import neutralise

__all__ = ["Json", "items", "last_line", "mapping", "mappings", "text"]

Json = dict[str, object]


def mapping(value: object) -> Json:
    """Returns an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """Returns a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[Json]:
    """Returns the objects of a list."""
    return [one for one in items(value) if isinstance(one, dict)]


def text(value: object) -> str | None:
    """Returns a text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def last_line(errors: str) -> str:
    """Returns the last line of what a harness wrote to standard error, as it may be shown."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return neutralise(lines[-1], 200) if lines else "it said nothing"
