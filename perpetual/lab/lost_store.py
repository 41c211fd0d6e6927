"""Remains of a record whose store was lost: folders of runs and committed notes beside an empty store.

An empty store there would number anew, and the next run would meet the folder of another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from perpetual.errors import CorruptData

__all__ = ["found", "refusal"]

_RUNS, _NOTES = "runs", os.path.join("memory.git", "refs", "heads", "main")


def found(folder: Path) -> str | None:
    """Returns a path, relative to the project directory, of what only a record with rows can have made."""
    try:
        with os.scandir(folder / _RUNS) as entries:
            for entry in entries:
                if entry.name[:1] == "r" and entry.name[1:].isdecimal():
                    return f"{_RUNS}/{entry.name}"
    except (FileNotFoundError, NotADirectoryError):
        pass
    return os.path.dirname(os.path.dirname(os.path.dirname(_NOTES))) if os.path.lexists(folder / _NOTES) else None


def refusal(folder: Path, remains: str) -> CorruptData:
    """Returns the error for an empty store beside remains of a record."""
    return CorruptData(
        f"the store of {folder} is empty, but {remains} is there: the record was lost",
        hint="put back a backup of .perpetual/store, or perpetual store import FILE; "
        "to begin anew, move runs and memory.git away",
        code="record_lost",
    )
