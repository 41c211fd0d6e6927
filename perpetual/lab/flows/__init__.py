"""Deeds that cross departments. Each module is one deed; `Desks` is what they are given.

Only `perpetual.lab` imports from here: it puts each deed behind the name that users call.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Desks(NamedTuple):
    """The departments of one lab, side by side."""

    ctx: Context
    hypotheses: Hypotheses
    experiments: Experiments
    runs: RunLedger
    evidence: EvidenceLedger
    budget: Budget
    notes: Notes
    proposals: Proposals
    storage: Storage
