"""The states of what the record holds, as types and as the tuples that checks read."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = [
    "EXPERIMENT_STATES",
    "HYPOTHESIS_STATES",
    "NOTE_STATES",
    "Decider",
    "EvidenceKind",
    "ExperimentStatus",
    "HypothesisStatus",
    "NoteStatus",
    "Outcome",
    "RunStatus",
]

HypothesisStatus = Literal["open", "supported", "refuted", "parked"]
ExperimentStatus = Literal["proposed", "approved", "rejected", "expired", "active", "complete", "analysed"]
RunStatus = Literal["queued", "launching", "running", "done", "failed", "killed", "timeout", "lost"]
NoteStatus = Literal["candidate", "quarantined", "promoted", "rejected", "expired"]
Outcome = Literal["pass", "quarantine", "reject"]  # of the gates
EvidenceKind = Literal["measured", "judged", "manual", "retraction"]
Decider = Literal["evidence", "person", "agent"]

HYPOTHESIS_STATES: tuple[str, ...] = get_args(HypothesisStatus)
EXPERIMENT_STATES: tuple[str, ...] = get_args(ExperimentStatus)
NOTE_STATES: tuple[str, ...] = get_args(NoteStatus)
