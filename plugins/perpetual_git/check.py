"""The check `pushed`: files that people have pushed and that could be no note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Check, Finding, PerpetualError, printable
from perpetual.toolkit.units import counted
from perpetual_git.memory import GitMemory

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Pushed", "build"]

_MOST_EVENTS = 2_000  # of the feed that are looked at
_NAMED = 3


class Pushed(Check):
    """Names the files of the memory's repository that the scans have left out, as the newest events say."""

    def examine(self, lab: Lab) -> Finding:
        """Returns which files are there still, and why each is no note."""
        memory = lab.part("memory")
        if not isinstance(memory, GitMemory):
            return Finding(None, "the memory takes no pushes")
        left_out: dict[str, str] = {}
        for event in lab.events(since=max(0, lab.feed.last() - _MOST_EVENTS)):
            if event.kind == "git.pushed":
                left_out |= {str(one["path"]): str(one["why"]) for one in event.payload["left_out"]}
                for one in event.payload["notes"]:
                    left_out.pop(str(one["path"]), None)
        there = {path: why for path, why in left_out.items() if _is_there(memory, path)}
        if not there:
            return Finding(True, "every pushed file is a note")
        named = "; ".join(f"{printable(path)}: {printable(why)}" for path, why in [*there.items()][:_NAMED])
        more = f"; and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
        return Finding(False, f"{counted(len(there), 'pushed file')} not taken in: {named}{more}"[:1000],
                       "correct or remove it in a clone, and push: perpetual memory clone FOLDER")  # fmt: skip


def _is_there(memory: GitMemory, path: str) -> bool:
    """Returns whether main has the file; of one that is not named by its path, that it may have."""
    try:
        return path == "*" or path.startswith("(") or memory.read(path) is not None
    except PerpetualError:
        return True  # a damaged repository is the doctor's to name elsewhere


def build(options: Mapping[str, object]) -> Pushed:
    """Builds the check; it has no options."""
    return Pushed()
