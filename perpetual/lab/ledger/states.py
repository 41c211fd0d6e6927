"""The states of what the record holds, as every department and flow names them. Floor 2, below the departments."""

from __future__ import annotations

from perpetual.records import ENDED, LIVE

__all__ = ["ENDED", "EXPERIMENT_STATES", "HYPOTHESIS_STATES", "LIVE", "NOTE_STATES"]

HYPOTHESIS_STATES = ("open", "supported", "refuted", "parked")
EXPERIMENT_STATES = ("proposed", "approved", "rejected", "expired", "active", "complete", "analysed")
NOTE_STATES = ("candidate", "quarantined", "promoted", "rejected", "expired")
