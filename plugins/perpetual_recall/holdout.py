"""Hold-outs: promoted notes that an agent's block leaves out by chance, so that what they do can be seen.

Each promoted note of a block is withheld by a draw of its own. The draw follows from the project, the agent, the note's
path and the number of the agent's runs that were started (`perpetual_recall.outcomes` says which are its own): asking
again gives the same block, until one is started. What is drawn on are the notes that the block would show: none takes
the place of one that is withheld.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from perpetual_recall.calls import started
from perpetual_recall.outcomes import agent_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpetual import Lab
    from perpetual_recall.index import Connection, Version

__all__ = ["Drawn", "Holdout", "drawn", "point"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A promoted version of a note, and whether it is shown."""

    path: str
    blob: str
    shown: bool


@dataclass(frozen=True, slots=True)
class Holdout:
    """The draws of a block: the chance of each to be withheld, and how many runs the agent had started."""

    notes: tuple[Drawn, ...]
    chance: float
    runs: int


def drawn(lab: Lab, connection: Connection, versions: Sequence[Version], chance: float) -> Holdout | None:
    """Returns the draws on the promoted ones of these versions; None where there is none."""
    promoted = [it for it in versions if it.note.status == "promoted" and it.blob == it.note.blob]
    if not promoted:
        return None
    agent = agent_of(lab.actor)
    runs = started(connection, agent)
    notes = [
        Drawn(it.note.path, it.blob, point(lab.config.project_id, agent, it.note.path, runs) >= chance)
        for it in promoted
    ]
    return Holdout(tuple(notes), chance, runs)


def point(*words: str | int) -> float:
    """Returns a number in [0, 1) that follows from the words."""
    return int.from_bytes(sha256(json.dumps(words).encode()).digest()[:8], "big") / 2**64
