"""Notes that derive from others, and their statuses."""

from __future__ import annotations

from collections.abc import Sequence

from perpetual import Lab


def derived(*sources: str, body: str = "# D\n\nSo it holds elsewhere too.\n", **fields: str) -> str:
    """The text of a note with these sources."""
    lines = [f"derived_from: [{', '.join(sources)}]"] if sources else []
    return "\n".join(["---", *lines, *(f"{name}: {value}" for name, value in fields.items()), "---", body])


def statuses(lab: Lab, paths: Sequence[str]) -> list[str]:
    """The status of each note."""
    return [str(lab.memory.get(path).status) for path in paths]
