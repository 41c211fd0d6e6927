"""The gate `duplicates`: it passes every text, and names the notes that say the same as one that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import Gate, GateFinding, GateVerdict, PerpetualError, TextProvenance

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.index import Version

__all__ = ["DuplicatesGate", "build"]

_MOST_S = 4.0  # for an index that has much to take up; a gate that takes longer than 20 s has the note quarantined


class DuplicatesGate(Gate):
    """Compares a text with the notes that its author may see; see `perpetual.slots.gate` for the contract."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        """Passes: a text alone says nothing of others."""
        return GateVerdict("pass")

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        """Passes, and names the notes that say the same; one that contradicts the text in its title is none."""
        from perpetual_recall.duplicates import near_duplicates

        try:
            alike = near_duplicates(lab, text, most_s=_MOST_S)
        except PerpetualError as problem:  # of the index: a note is written all the same, and its author reads why
            return _passed("not_compared", text, f"not compared with the other notes: {problem.message}")
        others = [it for it in alike if it.note.path != provenance.path]
        paths = _same(others, text, provenance) if others else []
        if not paths:
            return GateVerdict("pass")
        more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
        return _passed("near_duplicate", text, f"says the same as {paths[0]}{more}: change that note instead "
                       f"(agents are shown one of {'the two' if len(paths) == 1 else 'them'})")  # fmt: skip


def _same(others: Sequence[Version], text: str, provenance: TextProvenance) -> list[str]:
    """Returns the paths of those notes that do not contradict the text."""
    from perpetual_recall.duplicates import are_opposite
    from perpetual_recall.index import unwritten

    mine = unwritten(provenance.path, provenance.type, text, provenance.actor)
    return [it.note.path for it in others if not are_opposite(mine, it)]


def _passed(rule: str, text: str, words: str) -> GateVerdict:
    return GateVerdict("pass", None, (GateFinding(rule, "duplicate", 0, len(text), words),))


def build(options: Mapping[str, object]) -> DuplicatesGate:
    """Builds the provider `duplicates`."""
    return DuplicatesGate()
