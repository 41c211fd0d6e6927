"""The document of `perpetual watch --json`: one frame."""

from __future__ import annotations

from perpetual.documents import TypedDict
from perpetual.documents.status import HypothesisLine, ProposedLine, Totals

__all__ = ["Watch", "WatchEvent", "WatchGpu", "WatchRun"]


class WatchRun(TypedDict):
    """A run that is live or ended last; `curve` is the declared metric over its steps, thinned, null in gaps."""

    id: str
    experiment_id: str
    title: str
    replicate: int
    status: str
    metric: str | None
    value: float | None  # of the metric, once the run has ended
    curve: list[float | None]
    progress: str | None
    reason: str | None
    gpus: list[str]


class WatchGpu(TypedDict):
    """A GPU of this machine."""

    index: int
    name: str | None
    state: str
    utilization: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    run_ids: list[str]


class WatchEvent(TypedDict):
    """One of the newest events; `text` is its payload in short."""

    seq: int
    time: str
    actor: str
    kind: str
    subject: str
    text: str


class Watch(TypedDict):
    """What one frame shows; `gpus_reason` says why there is no GPU."""

    project: str
    seq: int
    queue: str
    services: list[str]  # that run or have failed, each with its state
    hypotheses: list[HypothesisLine]
    hypotheses_total: int
    runs: list[WatchRun]
    live: int
    queued: int
    gpus: list[WatchGpu]
    gpus_reason: str | None
    budget: Totals
    approvals: list[ProposedLine]
    approvals_total: int
    code_changed: int  # experiments whose code was changed since their approval
    events: list[WatchEvent]
