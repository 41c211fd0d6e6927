"""An agent's own entries of memory in a bundle: the newest accepted version of each, judged again where it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from perpetual.api import CorruptData
from perpetual_agents.memory import AgentMemory
from perpetual_agents.memory_index import is_person

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["keep", "read"]

_PAGE = 500


def read(lab: Lab, agent: str) -> list[dict[str, object]]:
    """Returns an agent's own entries, oldest first."""
    memory, found = AgentMemory(lab), list[dict[str, object]]()
    cursor: str | None = None
    while True:
        page = memory.list(agent, limit=_PAGE, cursor=cursor)
        found += [{"key": one["key"], "value": one["value"], "author": one["author"]} for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found[::-1]


def keep(lab: Lab, agent: str, entries: object) -> None:
    """Writes entries as an agent's own; the gates judge each, and a person here releases what they quarantine.

    Raises:
        CorruptData: for anything but entries.
    """
    memory = AgentMemory(lab)
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise CorruptData("the bundle's memory is no list")
    with lab.transaction():
        for one in entries:
            if not isinstance(one, Mapping) or not {"key", "value", "author"} <= one.keys():
                raise CorruptData("the bundle's memory has an entry that is none")
            # One after the other, so that an attack in pieces is seen.
            judged = memory.judge(agent, cast("str", one["key"]), one["value"])
            memory.keep(judged, author=_imported(str(one["author"])))


def _imported(author: str) -> str:
    """Returns the author of an entry that came in a file, which anyone may have written."""
    return f"import:{author}" if is_person(author) else author
