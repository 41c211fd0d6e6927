"""The check `mirrors`, and the section of the status: whether each mirror holds what the record has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Check, Finding, Section, StatusSection, UsageError
from perpetual.toolkit.units import counted
from perpetual_mirrors.targets import configured, folder_of, mirror_named, note_of

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Failing", "Mirrors", "build", "build_section"]

_MOST_EVENTS = 2_000  # that the doctor looks at


class Mirrors(Check):
    """Says which mirror fails, or is behind the record."""

    def examine(self, lab: Lab) -> Finding:
        """Returns what the mirrors' notes and the events since then say."""
        targets = configured(lab)
        if not targets:
            return Finding(None, "no mirror is configured")
        failing = _failing(lab, targets)
        if failing:
            return Finding(False, "; ".join(failing), "perpetual mirror tries it now; the record has everything")
        behind = {name: count for name in targets if (count := _behind(lab, name))}
        for name in behind:
            try:
                mirror_named(lab, name)
            except UsageError as problem:  # to which no scan pushes, and of which no note tells
                return Finding(False, problem.message, "perpetual config set plugins.mirrors.targets NAME")
        if behind:
            waiting = "; ".join(f"{name}: {counted(count, 'run')} to push" for name, count in behind.items())
            return Finding(True, f"{waiting} at the next scan")
        held = [f"{name} holds {counted(note_of(folder_of(lab), name).pushed, 'run')}" for name in targets]
        return Finding(True, "; ".join(held))


def _failing(lab: Lab, targets: list[str]) -> list[str]:
    found = []
    for name in targets:
        note = note_of(folder_of(lab), name)
        if note.error is not None:
            found.append(f"the mirror {name} fails, {counted(_behind(lab, name), 'run')} waiting: {note.error}")
    return found


def _behind(lab: Lab, name: str) -> int:
    """Returns how many runs wait, those included that ended since the mirror's last push."""
    from perpetual_mirrors.outbox import ended_since

    note = note_of(folder_of(lab), name)
    return note.waiting + ended_since(lab, note.seq, limit=_MOST_EVENTS)


class Failing(StatusSection):
    """Names the mirrors that fail; says nothing where all is well."""

    def show(self, lab: Lab) -> Section | None:
        """Returns why, and how many runs wait."""
        failing = _failing(lab, configured(lab))
        if not failing:
            return None
        lines = [*failing, "runs and the record are not touched by it; perpetual mirror tries it now"]
        return Section("mirrors", [line[:200] for line in lines], {"failing": failing})


def build(options: Mapping[str, object]) -> Mirrors:
    """Builds the check; it has no options."""
    return Mirrors()


def build_section(options: Mapping[str, object]) -> Failing:
    """Builds the section; it has no options."""
    return Failing()
