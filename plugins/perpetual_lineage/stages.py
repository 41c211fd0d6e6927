"""The promotion stages `lineage` and `expiry`: what takes a note back without new evidence on the note itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import PromotionStage, StageVerdict
from perpetual_lineage.derivation import derivation_of, today

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Note
    from perpetual_lineage.ancestry import Lost

__all__ = ["ExpiryStage", "LineageStage", "expiry", "left_to_person", "lineage", "reason_of"]

_LONGEST = 480  # characters of a reason


class LineageStage(PromotionStage):
    """Quarantines a note while a note that it derives from is taken back."""

    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        """Returns `quarantine` with the source that was taken back, else `abstain`.

        The evidence of an abstention names a source whose loss is left to a person.
        """
        if not derivation_of(text, lab.part("memory").normalise, path=note.path).sources:
            return StageVerdict("abstain", "it names no source")
        from perpetual_lineage.ancestry import lost, spared
        from perpetual_lineage.index import index_of

        with index_of(lab).of(lab) as connection:
            found = lost(connection, [note.path]).get(note.path)
            left = spared(connection, [note.path]).get(note.path)
        if left is not None:
            said = left_to_person(left)
            return StageVerdict("abstain", said, {"source": left.source, "lines": [f"for a person to review: {said}"]})
        if found is None:
            return StageVerdict("abstain", "none of its sources was taken back")
        return StageVerdict("quarantine", reason_of(found), {"source": found.source, "through": found.through})


class ExpiryStage(PromotionStage):
    """Expires a note after its last day."""

    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        """Returns `expire` after the day of the front matter, unless a person has promoted the version since."""
        day = derivation_of(text, lab.part("memory").normalise).expires
        if day is None:
            return StageVerdict("abstain", "it names no last day")
        if day >= today():
            return StageVerdict("abstain", f"it holds until {day}")
        from perpetual_lineage.folding import state_of
        from perpetual_lineage.index import index_of

        with index_of(lab).of(lab) as connection:
            known = state_of(connection, note.path)
        if known is not None and known.vouched > known.seq and known.vouched_day > day.isoformat():
            said = f"it was to hold until {day}; the promotion of {known.vouched_day} came later, and counts"
            return StageVerdict("abstain", said, {"expires": day.isoformat(), "promoted": known.vouched_day})
        return StageVerdict("expire", f"its last day was {day}", {"expires": day.isoformat()})


def left_to_person(found: Lost) -> str:
    """Returns in one printable line why a promoted note that has lost its ground stays until a person decides."""
    return f"{reason_of(found)}; that was an agent's process, so the promoted version stays until a person decides"


def reason_of(found: Lost) -> str:
    """Returns in one printable line why a note has lost its ground."""
    through = "" if found.through == found.source else f" (through {found.through})"
    line = f"derived from {found.source}{through}, {found.why}".replace(";", ",")
    line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def lineage(options: Mapping[str, object]) -> LineageStage:
    """Returns the stage on sources."""
    return LineageStage()


def expiry(options: Mapping[str, object]) -> ExpiryStage:
    """Returns the stage on last days."""
    return ExpiryStage()
