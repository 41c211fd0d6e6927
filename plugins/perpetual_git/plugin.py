"""Entry point of the memory `git`; imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import EventKind, Provider, RecordKind, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab


@hookimpl
def perpetual_memories() -> list[Provider]:
    """Notes in a bare git repository."""
    return [Provider("memory", "git", "perpetual_git.memory:open_memory", "markdown notes in a bare git repository")]


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the event that says what was taken in of a push."""
    words = "subject: main's commit; payload: notes, left_out, removed (each cut), counts"
    return [EventKind("pushed", words)]


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check that names pushed files which could be no note."""
    return [Provider("check", "pushed", "perpetual_git.check:build", "pushed files that are no notes")]


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Takes in the notes that people have pushed; reads two small files where nothing was."""
    from perpetual_git.heads import is_new

    if is_new(lab.root / ".perpetual" / "memory.git"):
        from perpetual_git.pushed import take_in

        take_in(lab)
