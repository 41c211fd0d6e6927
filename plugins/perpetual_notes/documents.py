"""What `perpetual memory new` answers without a type."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["NoteType"]


class NoteType(TypedDict):
    """A type of note: the folder in which its notes go, and its empty form."""

    type: str
    folder: str
    template: str
