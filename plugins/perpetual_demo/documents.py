"""Documents of `perpetual demo`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Demo", "DemoVerdict"]


class DemoVerdict(TypedDict):
    """What the demo found out about one hypothesis: the verdict's sentence, and its measured evidence in `nats`."""

    id: str
    statement: str
    status: str
    sentence: str | None
    confidence: float
    false_alarm_bound: float | None
    evidence: int
    nats: float
    runs: int
    run_hours: float


class Demo(TypedDict):
    """How the demo's campaign ended."""

    project: str
    path: str
    reason: str | None
    explanation: str | None
    hypotheses: list[DemoVerdict]
    runs: int
    run_hours: float
    elapsed_s: float
    report: str
    next: list[str]
