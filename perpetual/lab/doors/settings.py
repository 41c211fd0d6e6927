"""`lab.settings`, with the deeds that cross departments attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perpetual.lab.doors.connected import Connected
from perpetual.lab.settings import Settings
from perpetual.toolkit.config_keys import Item

__all__ = ["SettingsDoor"]

_DECIDING = (
    "confidence_support_threshold",
    "confidence_refute_threshold",
    "min_replicates",
    "require_confirmation",
    "alpha",
)


class SettingsDoor(Connected, Settings):
    """`lab.settings`."""

    moved: Sequence[dict[str, Any]] = ()  # hypotheses that the last setting moved, as `evidence.refold` answers them

    def set_methodology(self, name: str, text: str) -> Item:
        """Writes one key; where it says when a hypothesis is decided, every fold is made anew."""
        return self._refolded(super().set_methodology(name, text))

    def unset_methodology(self, name: str) -> Item:
        """Takes one key out of the file; where it says when a hypothesis is decided, every fold is made anew."""
        return self._refolded(super().unset_methodology(name))

    def _refolded(self, item: Item) -> Item:
        from perpetual.lab.flows import judge as _judge

        self.moved = _judge.refold_all(self._desks) if item.key in _DECIDING else []
        return item
