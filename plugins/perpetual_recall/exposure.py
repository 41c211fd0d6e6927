"""Exposures: the record's ledger of which notes were put into the context of whom."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from perpetual.api import NotPermitted
from perpetual_recall.shown import is_for_agent

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.block import Block

__all__ = ["EXPOSURE", "expose", "is_any"]

EXPOSURE = "recall.exposure"


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
