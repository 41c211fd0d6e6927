"""Notes of the memory, and what the gates say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.records.listing import Shown
from perpetual.records.states import NoteStatus, Outcome

__all__ = ["Note", "Verdict"]

if TYPE_CHECKING:
    from perpetual.documents.memory import TextFinding


@dataclass(frozen=True, slots=True)
class Note(Shown):
    """A memory note; its path is its identity. `proven`: its promoted version was promoted by evidence."""

    path: str
    type: str
    status: NoteStatus
    title: str
    actor: str
    commit: str | None
    blob: str
    updated_at: str
    proven: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gates say of a text."""

    outcome: Outcome
    blocked: bool
    category: str | None
    findings: tuple[TextFinding, ...] = ()
