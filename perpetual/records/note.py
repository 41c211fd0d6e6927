"""Notes of the memory, and what the gates say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Note", "Verdict"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """A memory note; its path is its identity."""

    path: str
    type: str
    status: str  # candidate | quarantined | promoted | rejected | expired
    title: str
    actor: str
    commit: str | None
    blob: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gates say of a text."""

    outcome: str  # pass | quarantine | reject
    blocked: bool
    category: str | None
    findings: tuple[Json, ...] = ()
