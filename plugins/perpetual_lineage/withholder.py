"""The withholder `lineage`: notes that agents are not offered before a scan has decided on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import NotFound, PathRefused
from perpetual_recall.withheld import Withholder

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["LineageWithholder", "build"]

_FEW = 30  # notes of which reading the texts is quicker than importing SQLite


class LineageWithholder(Withholder):
    """Withholds notes whose source is taken back, and those whose last day is past."""

    def withheld(self, lab: Lab, paths: Sequence[str]) -> Mapping[str, str]:
        """Returns why, for each path that agents are not offered."""
        asked = [path for path in paths if _says_something(lab, path)] if len(paths) <= _FEW else [*paths]
        if not asked:
            return {}
        from perpetual_lineage.ancestry import is_over, lost
        from perpetual_lineage.folding import state_of
        from perpetual_lineage.index import index_of
        from perpetual_lineage.stages import reason_of

        with index_of(lab).of(lab) as connection:
            found = {path: reason_of(why) for path, why in lost(connection, asked).items()}
            for path in asked:
                known = state_of(connection, path)
                if path not in found and known is not None and is_over(known):
                    found[path] = f"its last day was {known.expires}"
        return found


def _says_something(lab: Lab, path: str) -> bool:
    """Returns whether a version of the note has front matter with a key that counts here."""
    for for_agent in (False, True):
        try:
            text = lab.memory.read(path, exposed_only=for_agent)
        except (NotFound, PathRefused):
            continue
        if text.startswith("---") and ("derived_from" in text or "expires" in text):
            return True
    return False


def build(options: Mapping[str, object]) -> LineageWithholder:
    """Returns the withholder."""
    return LineageWithholder()
