"""Deeds that cross departments. Each module is one deed; `Desks` is what they are given.

Only `perpetual.lab` imports from here: it puts each deed behind the name that users call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.lab.budget import Budget
    from perpetual.lab.context import Context
    from perpetual.lab.evidence import EvidenceLedger
    from perpetual.lab.experiments import Experiments
    from perpetual.lab.hypotheses import Hypotheses
    from perpetual.lab.memory import Notes
    from perpetual.lab.proposals import Proposals
    from perpetual.lab.runs import RunLedger
    from perpetual.lab.storage import Storage

__all__ = ["Desks"]


class Desks:
    """The departments of one lab, side by side; each is made when it is first asked for."""

    def __init__(self, lab: Lab, ctx: Context) -> None:
        self._lab, self.ctx = lab, ctx

    def seen_by(self, ctx: Context) -> Desks:
        """Returns the same departments beside another context."""
        return Desks(self._lab, ctx)

    @property
    def hypotheses(self) -> Hypotheses:
        """`lab.hypotheses`."""
        return self._lab.hypotheses

    @property
    def experiments(self) -> Experiments:
        """`lab.experiments`."""
        return self._lab.experiments

    @property
    def runs(self) -> RunLedger:
        """`lab.runs`."""
        return self._lab.runs

    @property
    def evidence(self) -> EvidenceLedger:
        """`lab.evidence`."""
        return self._lab.evidence

    @property
    def budget(self) -> Budget:
        """`lab.budget`."""
        return self._lab.budget

    @property
    def notes(self) -> Notes:
        """`lab.memory`."""
        return self._lab.memory

    @property
    def proposals(self) -> Proposals:
        """`lab.proposals`."""
        return self._lab.proposals

    @property
    def storage(self) -> Storage:
        """`lab.storage`."""
        return self._lab.storage
