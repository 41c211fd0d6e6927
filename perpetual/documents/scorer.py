"""The state that a scorer is given: candidates and hypotheses as numbers, with the thresholds."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict

__all__ = ["CandidateState", "HypothesisState", "PredictionState", "ScorerState"]


class PredictionState(TypedDict):
    """What the two predictions say of one replicate; `mu1` is the claim's, `mu0` that of no effect.

    `sigma` is noise that is known; `s0` what it seems to be, where it is not.
    """

    model: NotRequired[str]  # `binary`; else gaussian
    mu1: float
    mu0: float
    sigma: float | None
    s0: NotRequired[float]
    tau: float
    bias: NotRequired[float]  # what a stand-in shows too much


class CandidateState(PredictionState):
    """One more replicate of an experiment; `cost` is in run-hours, `p_fail` the probability that it gives no value.

    One of kind `baseline` is one more run of a baseline: it has no hypothesis and no prediction, and is in the state of
    a scorer that `weighs_baselines`.
    """

    id: str
    hypothesis_id: str
    cost: float
    p_fail: float
    n_seen: int
    n_pending: int
    n_left: NotRequired[int]
    baseline_n: NotRequired[int]
    baseline_id: NotRequired[str]
    rho: NotRequired[float]  # correlation of the seeds that it shares with its baseline
    proxy: NotRequired[bool]  # a stand-in, which brings no verdict by itself
    kind: NotRequired[str]


class HypothesisState(TypedDict):
    """A hypothesis with its confidence; `n_runs` are all that it had."""

    id: str
    confidence: float
    missing_replicates: NotRequired[int]
    n_runs: NotRequired[int]


class ScorerState(TypedDict):
    """Hypotheses, candidates, thresholds; `budget_left` is in run-hours, `seed` what all chance derives from.

    `explore_fraction` (the share of picks that are drawn at random) and `cost_exponent` (a worth is divided by its
    run-hours to this power) are there where the methodology sets them.
    """

    hypotheses: list[HypothesisState]
    candidates: list[CandidateState]
    support: float
    refute: float
    min_information_gain_bits: float
    seed: int
    budget_left: NotRequired[float | None]
    explore_fraction: NotRequired[float]
    cost_exponent: NotRequired[float]
