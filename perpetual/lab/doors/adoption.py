"""`lab.adoption`, with the deeds that cross departments attached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from perpetual.lab.context import Context
from perpetual.lab.flows import Desks
from perpetual.lab.rights import is_agent

if TYPE_CHECKING:
    from perpetual.lab.flows.adopt import Item as Adopted

__all__ = ["AdoptionDoor"]


class AdoptionDoor:
    """`lab.adoption`: earlier work, which a plugin reads from another tool's files."""

    def __init__(self, desks: Desks, make: Callable[[Context], Any]) -> None:
        self._desks, self._make = desks, make

    def take(self, items: Iterable[Adopted], *, kind: str, source: str, **options: Any) -> dict[str, Any]:
        """Takes it into the record in the name `adopt:<kind>`; see `perpetual.lab.flows.adopt.adopt`.

        An agent that adopts stays one, in the name `agent:adopt:<kind>`: files that say something are its word for it.
        """
        from perpetual.lab.flows.adopt import adopt

        name = f"agent:adopt:{kind}" if is_agent(self._desks.ctx.actor) else f"adopt:{kind}"
        other = self._make(self._desks.ctx.acting_as(name))
        return adopt(other.desks, items, kind=kind, source=source, by=self._desks.ctx.actor, **options)

    def id_of(self, kind: str, key: str) -> str | None:
        """The id that a record of that source has here, or None."""
        from perpetual.lab.flows.adopt import adopted_id

        return adopted_id(self._desks, kind, key)
