"""The base of doors whose deeds cross departments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.lab.flows import Desks

__all__ = ["Connected"]


class Connected:
    """Holds the departments that `Lab` connects it to."""

    _desks: Desks

    def connect(self, desks: Desks) -> None:
        """Called once, by `Lab`."""
        self._desks = desks
