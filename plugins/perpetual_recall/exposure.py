"""Exposures: the record's ledger of which notes were put into the context of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import NotPermitted
from perpetual_recall.shown import is_for_agent

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.block import Block

__all__ = ["expose"]


def expose(lab: Lab, block: Block, *, run: str | None = None, session: str | None = None) -> str | None:
    """Records that a block was given to the lab's actor; answers the exposure's id.

    None where nothing was recorded: for a person, for an empty block, for the same notes as the last time, and in a
    project that is held.
    """
    if not block.notes or not is_for_agent(lab):
        return None
    from perpetual_recall.outcomes import EXPOSURE

    ledger = lab.records(EXPOSURE)
    notes = [{"path": note.path, "blob": note.blob} for note in block.notes]
    for last in ledger.list(limit=1, newest_first=True).items:
        if (last.created_by, last["notes"], last["run"], last["session"]) == (lab.actor, notes, run, session):
            return None
    try:
        return ledger.append(notes=notes, run=run, session=session, tokens=block.tokens).id
    except NotPermitted:
        return None  # a held project is only read
