"""Hypotheses, and what they predict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perpetual.records.listing import Shown
from perpetual.records.states import Decider, HypothesisStatus

__all__ = ["Hypothesis", "Prediction"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a hypothesis says about a metric: the defaults of its experiments' designs."""

    metric: str | None = None
    direction: str | None = None  # "max" or "min"
    mde: float | None = None  # the smallest effect worth having, which the claim is planned for
    baseline: float | str | None = None  # a number, or the id of a baseline experiment


@dataclass(frozen=True, slots=True)
class Hypothesis(Shown):
    """A claim and what the ledger says of it. `confidence` and everything after it are folds of the evidence."""

    id: str
    statement: str
    status: HypothesisStatus
    confidence: float
    prior: float
    e_support: float
    e_refute: float
    false_alarm_bound: float | None  # of the verdict, else of the side to which the evidence leans; None if by hand
    created_at: str
    tags: tuple[str, ...]
    evidence_count: int
    prediction: Prediction = field(default_factory=Prediction)
    params: Json | None = None  # a grid of values to try: {"lr": [0.1, 0.01]}
    created_by: str | None = None
    flags: tuple[str, ...] = ()  # warnings of the fold, e.g. "seed not applied"
    # Past a threshold, and not decided before: full_scale | confirmation | evidence | lost_runs.
    needs: str | None = None
    counting: int | None = None  # rows of evidence that count: not taken back, not weightless; None of older folds
    # Of its design with most runs: {value, low, high, n, n_baseline, metric, experiments, baseline, how}; positive is
    # better, in the metric's units; n_baseline is None against a number.
    effect: Json | None = None
    decided_by: Decider | None = None  # of a hypothesis that is supported or refuted
    sentence: str | None = None  # the verdict for a reader without statistics; None before anything was measured
    more_runs: int | None = None  # like those that there are, which would decide it with a chance of 80 %
    archived: bool = False  # hidden from lists
    assumes: tuple[str, ...] = ()  # what the verdict takes for granted, each beginning with the code of its caution
