"""Exposures: the record's ledger of which notes were put into the context of whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual.api import NotFound, NotPermitted, PerpetualError
from perpetual_recall.shown import is_for_agent, text_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_recall.block import Block

__all__ = ["EXPOSURE", "add_to_context", "expose", "is_any"]

EXPOSURE = "recall.exposure"
_MOST = 20  # notes of a context; the ones that were read first go first
_LOOKED_AT = 50  # exposures among which an actor's last one is looked for


def is_any(lab: Lab) -> bool:
    """Returns whether any exposure was recorded; without the import of SQLite."""
    return bool(lab.records(EXPOSURE).list(limit=1).items)


def expose(lab: Lab, block: Block, *, run: str | None = None, session: str | None = None) -> str | None:
    """Records that a block was given to the lab's actor; answers the exposure's id.

    None where nothing was recorded: for a person, for a block of which nothing is shown nor withheld, for the same
    notes as the last time, and in a project that is held.
    """
    if not (block.notes or block.holdout) or not is_for_agent(lab):
        return None
    ledger = lab.records(EXPOSURE)
    notes = [{"path": note.path, "blob": note.blob} for note in block.notes]
    held = block.holdout
    drawn, chance, runs = ([asdict(note) for note in held.notes], held.chance, held.runs) if held else (None,) * 3
    for last in ledger.list(limit=1, newest_first=True).items:
        known = [last.fields.get(key) for key in ("notes", "run", "session", "drawn", "holdout", "runs")]
        if (last.created_by, known) == (lab.actor, [notes, run, session, drawn, chance, runs]):
            return None
    try:
        return ledger.append(
            notes=notes, run=run, session=session, tokens=block.tokens, drawn=drawn, holdout=chance, runs=runs
        ).id
    except NotPermitted:
        return None  # a held project is only read


def add_to_context(lab: Lab, paths: Sequence[str]) -> str | None:
    """Records that the lab's actor read these notes beside those of its context; answers the exposure's id.

    A context begins with a block, or with the first note that is read within a day. None where nothing was recorded:
    for a person, for notes that are in the context, and where nothing can be written, since reading works there too.
    """
    if not paths or not is_for_agent(lab):
        return None

    try:
        last = _context(lab)
        known: list[object] = [*last["notes"]] if last is not None else []
        new = [version for version in _versions(lab, paths) if version not in known]
        if not new:
            return None
        notes, session = [*known, *new][-_MOST:], last["session"] if last is not None else None
        return lab.records(EXPOSURE).append(notes=notes, run=None, session=session).id
    except (PerpetualError, OSError):
        return None


def _context(lab: Lab) -> Record | None:
    """Returns the actor's last exposure, if runs of now would count for it."""
    from perpetual_recall.outcomes import agent_of, earliest

    since, name = earliest(datetime.now(UTC).isoformat()), agent_of(lab.actor)
    for found in lab.records(EXPOSURE).list(limit=_LOOKED_AT, newest_first=True).items:
        if agent_of(found.created_by) == name and found["run"] is None:
            return found if found.created_at >= since else None
    return None


def _versions(lab: Lab, paths: Sequence[str]) -> Iterator[dict[str, str]]:
    memory = lab.part("memory")
    for path in dict.fromkeys(paths):
        try:
            note = lab.memory.get(path)
        except NotFound:
            continue  # removed meanwhile: no version of it can be credited
        text = text_of(lab, note, for_agent=True)
        if text is not None:
            yield {"path": note.path, "blob": memory.blob_id(text)}
