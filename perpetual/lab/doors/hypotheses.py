"""`lab.hypotheses`, with the deeds that cross departments attached."""

from __future__ import annotations

from typing import Any

from perpetual.lab.doors.connected import Connected
from perpetual.lab.hypotheses import Hypotheses
from perpetual.records import Hypothesis

__all__ = ["HypothesesDoor"]


class HypothesesDoor(Connected, Hypotheses):
    """`lab.hypotheses`."""

    def update(self, id: str, **changes: Any) -> Hypothesis:
        """See `perpetual.lab.flows.judge.update`: statement, prior, confidence, status, tags, why."""
        from perpetual.lab.flows import judge as _judge

        return _judge.update(self._desks, id, **changes)
