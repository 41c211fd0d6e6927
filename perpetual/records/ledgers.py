"""Rows of the ledgers: evidence, the budget, the feed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perpetual.records.listing import Shown
from perpetual.records.states import EvidenceKind

__all__ = ["Debit", "Event", "Evidence"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence(Shown):
    """One row of the ledger. `log_bayes_factor` is the change in log odds that it made when it was added."""

    id: str
    hypothesis_id: str
    experiment_id: str | None
    run_id: str | None
    kind: EvidenceKind
    value: float | None
    log_bayes_factor: float | None
    weight: float
    actor: str
    created_at: str
    retracted_by: str | None
    reason: str | None
    metric: str | None = None
    verdict: str | None = None
    strength: float | None = None
    log_odds: float | None = None
    target: str | None = None
    seed: int | None = None
    replicate: int | None = None
    source: str | None = None  # the file and line of the run's folder that the value was read from


@dataclass(frozen=True, slots=True)
class Debit(Shown):
    """One line of the budget's ledger: a reservation, or the settlement that ends it."""

    id: str
    run_id: str
    experiment_id: str
    hypothesis_id: str | None
    kind: str  # reserve | settle | correct (by how much more or less a lost run had used)
    gpu_hours: float
    run_hours: float
    created_at: str


@dataclass(frozen=True, slots=True)
class Event(Shown):
    """One line of the feed."""

    seq: int
    time: str
    actor: str
    kind: str
    subject: str
    payload: Json
