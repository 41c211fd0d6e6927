"""Checks of the doctor and sections of the status that plugins bring, each asked on its own. Floor 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from perpetual.errors import PerpetualError, PluginError
from perpetual.records import one_line
from perpetual.slots.sections import MOST_LINES, Check, Finding, Section, StatusSection
from perpetual.toolkit.contained import limited
from perpetual.toolkit.jsoncopy import json_copy

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck
    from perpetual.documents.status import NoteLine, SectionNow
    from perpetual.lab import Lab

__all__ = ["offered_notes", "plugin_checks", "progress_of", "status_sections"]

_LONGEST = 200  # characters of a line


def plugin_checks(lab: Lab) -> list[tuple[int, DoctorCheck]]:
    """Returns what each plugin's check found, as its order and `{check, ok, detail, hint}`."""
    orders = {offer.qualified_name: offer.provider.order for offer in lab.registry.offers("check")}
    return [
        (
            orders.get(name, 100),
            {"check": name.rpartition("/")[2], "ok": found.ok, "detail": found.detail, "hint": found.hint},
        )
        for name, part in _parts(lab, "check")
        for found in (_examined(name, part, lab),)
    ]


def _examined(name: str, part: Check, lab: Lab) -> Finding:
    try:
        found = limited(name, lambda: part.examine(lab))
        if not isinstance(found, Finding):
            raise TypeError(f"it answered a {type(found).__name__} instead of a Finding")
        return Finding(found.ok, one_line(found.detail), None if found.hint is None else one_line(found.hint))
    except Exception as problem:  # noqa: BLE001 - a plugin's check may raise anything; the others are still asked
        return Finding(False, f"the check {name} failed: {_words(problem)}", "perpetual plugins list names its plugin")


def status_sections(lab: Lab, *, live: bool = False) -> dict[str, SectionNow]:
    """Returns `{title, lines, data, error}` of each plugin's section, or `live` one, by its provider's name."""
    sections: dict[str, SectionNow] = {}
    for name, part in _parts(lab, "status_section"):
        shown = _shown(name, part, lab, live=live)
        if shown is not None:
            sections[name.rpartition("/")[2]] = shown
    return sections


def offered_notes(lab: Lab, limit: int) -> list[NoteLine]:
    """Returns the notes that the retriever offers to agents; none where there is no retriever, or it fails."""
    if not lab.context.store.count("note"):
        return []  # without the import of a retriever
    try:
        ((name, part),) = lab.parts("retriever")
        found = limited(name, partial(part.offer, lab, limit=limit))
        return [{"path": it.path, "title": it.title, "status": it.status, "proven": it.proven} for it in found]
    except Exception:  # noqa: BLE001 - a plugin may raise anything; the rest of the status is still shown
        return []


def progress_of(lab: Lab, run_ids: Sequence[str]) -> dict[str, dict[str, object]]:
    """Returns how far live runs are, by run; a plugin that fails says nothing of any."""
    found: dict[str, dict[str, object]] = {}
    for name, part in _parts(lab, "status_section"):
        try:
            said = limited(name, partial(part.progress, lab, run_ids))
            found |= json_copy({id: dict(now) for id, now in said.items()}, "progress")
        except Exception:  # noqa: BLE001, S112 - a plugin may raise anything; runs are shown without their progress
            continue
    return found


def _shown(name: str, part: StatusSection, lab: Lab, *, live: bool) -> SectionNow | None:
    try:
        found = limited(name, lambda: part.live(lab) if live else part.show(lab))
        if found is None:
            return None
        if not isinstance(found, Section):
            raise TypeError(f"it answered a {type(found).__name__} instead of a Section")
        lines = [one_line(str(line))[:_LONGEST] for line in found.lines][:MOST_LINES]
        data = json_copy(dict(found.data), "the data of a section")
        return {"title": one_line(found.title)[:_LONGEST], "lines": lines, "data": data, "error": None}
    except Exception as problem:  # noqa: BLE001 - a plugin's section may raise anything; the status is still shown
        return {"title": "", "lines": [], "data": {}, "error": one_line(_words(problem))}


def _parts(lab: Lab, slot: str) -> Iterator[tuple[str, Any]]:
    try:
        yield from lab.parts(slot)
    except PerpetualError as problem:  # wrong options: the doctor and `config show` name them
        yield f"plugins/{slot}", _Failing(problem)


class _Failing(Check, StatusSection):
    """Raises the problem that kept a slot's parts from being built."""

    def __init__(self, problem: PerpetualError) -> None:
        self._problem = problem

    def examine(self, lab: Lab) -> Finding:
        raise self._problem

    def show(self, lab: Lab) -> Section | None:
        raise self._problem


def _words(problem: Exception) -> str:
    return problem.message if isinstance(problem, PluginError) else f"{type(problem).__name__}: {problem}"
