"""Versions of a note, and which of them a reader is shown."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual.toolkit.agents import mark

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Note

__all__ = ["every_note", "has_notes", "is_for_agent", "text_of"]

_PAGE = 500  # notes
_filled: weakref.WeakSet[Lab] = weakref.WeakSet()  # labs in which a note was seen


def has_notes(lab: Lab) -> bool:
    """Returns whether the lab has had a note; it is looked up until there is one.

    Inside of a transaction a look reads every note that the transaction has written, so many writes in one would cost
    the square of their number.
    """
    if lab not in _filled:
        if not lab.memory.list(limit=1).items:
            return False
        _filled.add(lab)
    return True


def is_for_agent(lab: Lab) -> bool:
    """Returns whether an agent reads what the lab answers, by its shell or by its name."""
    return lab.actor.startswith(("agent:", "mcp:")) or mark(os.environ, lab.config["agent_marks"]) is not None


def text_of(lab: Lab, note: Note, *, for_agent: bool) -> str | None:
    """Returns the version that a reader is shown, None for none; of a rejected one no reader sees more than agents."""
    try:
        return lab.memory.read(note.path, exposed_only=for_agent or note.status == "rejected")
    except NotFound:
        return None


def every_note(lab: Lab, *, folder: str = "", status: str | None = None) -> Iterator[Note]:
    """Yields every note, or those below a folder or of a status, oldest first, a page at a time."""
    cursor: str | None = None
    while True:
        page = lab.memory.list(folder=folder, status=status, limit=_PAGE, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
