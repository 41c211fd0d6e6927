"""Which mirrors are in force, and the notes that each leaves of its last push, in `.perpetual/mirrors`.

A note is for `status`, `doctor` and the hook that starts pushes: small, and read without a database. What counts is in
the outbox.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import UsageError, unknown
from perpetual.toolkit import confined
from perpetual.toolkit.atomic import write_atomic

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_mirrors.base import Mirror

__all__ = ["FOLDER", "Note", "configured", "folder_of", "mirror_named", "note_of", "write_note"]

FOLDER = "mirrors"  # below `.perpetual`
_LARGEST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Note:
    """How a mirror stood after its last push."""

    seq: int = 0  # the last event that was read
    waiting: int = 0  # runs
    pushed: int = 0  # runs that the mirror holds
    due_s: float | None = None  # when a run that waits is tried again, POSIX seconds
    error: str | None = None


def folder_of(lab: Lab) -> Path:
    """Returns the folder of all mirrors, which need not exist."""
    return lab.root / ".perpetual" / FOLDER


def configured(lab: Lab) -> list[str]:
    """Returns the names of the mirrors in force, each once."""
    targets = lab.options("mirrors")["targets"]
    return [*dict.fromkeys(map(str, targets))] if isinstance(targets, list) else []


def mirror_named(lab: Lab, name: str) -> Mirror:
    """Returns a mirror by its bare or full name.

    Raises:
        UsageError: if there is none.
    """
    parts: Sequence[tuple[str, Mirror]] = lab.parts("mirror")
    for full, part in parts:
        if name in (full, full.rpartition("/")[2]):
            return part
    raise UsageError(unknown("mirror", name, [full.rpartition("/")[2] for full, _ in parts]))


def _path(folder: Path, target: str) -> Path:
    return folder / f"{file_name(target)}.json"


def file_name(target: str) -> str:
    """Returns the name of a mirror's files; a full name has a slash."""
    return target.replace("/", "+")


def note_of(folder: Path, target: str) -> Note:
    """Returns the note of a mirror; an empty one before its first push, and where the note is damaged."""
    try:
        found = json.loads(confined.read_bytes(_path(folder, target), limit=_LARGEST_BYTES))
        return Note(
            int(found["seq"]),
            int(found["waiting"]),
            int(found["pushed"]),
            None if found["due_s"] is None else float(found["due_s"]),
            None if found["error"] is None else str(found["error"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Note()


def write_note(folder: Path, target: str, note: Note) -> None:
    """Replaces the note of a mirror. Raises OSError."""
    write_atomic(_path(folder, target), json.dumps(asdict(note)), durable=False)
