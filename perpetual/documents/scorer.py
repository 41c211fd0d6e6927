"""The state that a scorer is given: candidates and hypotheses as numbers, with the thresholds."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict

__all__ = ["CandidateState", "HypothesisState", "PredictionState", "ScorerState"]


class PredictionState(TypedDict):
    """What the two predictions say of one replicate; `mu1` is the claim's, `mu0` that of no effect."""

    model: NotRequired[str]  # `binary`; else gaussian
    mu1: float
    mu0: float
    sigma: float | None
    tau: float


class CandidateState(PredictionState):
    """One more replicate of an experiment; `cost` is in run-hours, `p_fail` the probability that it gives no value."""

    id: str
    hypothesis_id: str
    cost: float
    p_fail: float
    n_seen: int
    n_pending: int
    n_left: NotRequired[int]
    baseline_n: NotRequired[int]


class HypothesisState(TypedDict):
    """A hypothesis with its confidence; `n_runs` are all that it had."""

    id: str
    confidence: float
    missing_replicates: NotRequired[int]
    n_runs: NotRequired[int]


class ScorerState(TypedDict):
    """Hypotheses, candidates, thresholds; `budget_left` is in run-hours, `seed` what all chance derives from."""

    hypotheses: list[HypothesisState]
    candidates: list[CandidateState]
    support: float
    refute: float
    min_information_gain_bits: float
    seed: int
    budget_left: NotRequired[float | None]
