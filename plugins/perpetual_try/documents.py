"""The documents of `perpetual try`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Forecast", "Measured", "Smoke", "TriedEffect", "Tried", "TryPlan"]


class Forecast(TypedDict):
    """What runs like earlier ones would take: one run's seconds and memory, all runs' hours; null is not known."""

    duration_s: float | None
    memory_bytes: int | None
    run_hours: float | None
    gpu_hours: float | None
    runs: int  # that it is taken from
    source: str  # the experiment, or the smoke run, that they are of


class Smoke(TypedDict):
    """A short run that counts for nothing; `measured` says whether it gave the metric."""

    run_id: str
    status: str
    duration_s: float | None
    memory_bytes: int | None
    measured: bool


class TryPlan(TypedDict):
    """What `try` would do. `experiment` and `hypothesis` are null unless the same was tried before."""

    experiment: str | None
    hypothesis: str | None
    statement: str
    command: str
    cwd: str | None
    env: dict[str, str]
    config: dict[str, object]
    needs: str
    metric: str
    direction: str
    against: str
    mde: float | None
    changes: str | None
    replicates: int
    status: str
    stale: list[str]  # aspects in which runs of now are not comparable with the baseline's
    forecast: Forecast | None


class TriedEffect(TypedDict):
    """What was measured against the baseline, with its interval; positive is better, in the metric's units."""

    value: float
    low: float | None
    high: float | None
    n: int
    n_baseline: int | None
    metric: str


class Measured(TypedDict):
    """A run of the trial."""

    run_id: str
    status: str
    value: float | None
    reason: str | None


class Tried(TypedDict):
    """What a trial has come to. `more_runs` is how many more would decide with a chance of 80 %; null is not known."""

    experiment: str
    hypothesis: str
    runs: list[str]
    effect: TriedEffect | None
    verdict: str
    sentence: str
    statement: str
    confidence: float
    false_alarm_bound: float | None
    measured: list[Measured]
    missing: int
    more_runs: int | None
    flags: list[str]
    smoke: Smoke | None
    next: str | None
