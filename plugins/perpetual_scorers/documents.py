"""Documents of `perpetual bench-policy`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["BenchPolicy", "PolicyResult", "PolicySaidTrue"]


class PolicySaidTrue(TypedDict):
    """Of the hypotheses said to be true with at least 0.8: how many, the share that is, and the mean confidence."""

    n: int
    true_share: float | None
    mean_confidence: float | None


class PolicyResult(TypedDict):
    """What a policy did in one cell; where `problem` says how it broke its contract, the figures are null.

    `low` and `high` bound `run_hours`, the mean of a campaign, by a 95 % bootstrap over campaigns; `undecided` is of
    the hypotheses of a campaign, in the mean. `error_rate` is of the decided ones. `false_support_rate` is the share of
    the untrue ones that were said to be supported; optional stopping can bring it to `false_support_bound` at most.
    """

    policy: str
    threshold: float
    batch: int
    world: str
    episodes: int
    run_hours: float | None
    low: float | None
    high: float | None
    runs: float | None
    error_rate: float | None
    undecided: float | None
    brier: float | None
    ece: float | None
    said_true: PolicySaidTrue | None
    false_support_rate: float | None
    false_support_bound: float
    problem: str | None


class BenchPolicy(TypedDict):
    """Policies compared in simulated research; `path` is the file that was written, if one was."""

    seed: int
    episodes: int
    world: str
    results: list[PolicyResult]
    path: str | None
