"""The documents of `perpetual daemon`."""

from __future__ import annotations

from typing import Required

from perpetual.documents import TypedDict
from perpetual.documents.services import ServiceLine

__all__ = ["DaemonCycle", "DaemonExit", "DaemonLog", "DaemonPlan", "DaemonStatus", "DaemonUnit"]


class DaemonCycle(TypedDict):
    """One turn of the loop: a line of `perpetual daemon --json`.

    `done` are the runs whose end was recorded. `paused` says why nothing is launched now although there may be
    something to do, and `resumes_at` when that ends (UTC). `reason` is why the loop stops, or what it waits for.
    """

    cycle: int
    done: list[str]
    analysed: list[str]
    proposed: list[str]
    approved: list[str]
    launched: list[str]
    spent_gpu_hours: float
    reserved_gpu_hours: float
    run_hours: float
    open: int
    paused: str | None
    resumes_at: str | None
    reason: str | None
    explanation: str | None


class DaemonExit(TypedDict):
    """The last line: why the daemon ended, in words, and what the project has used so far."""

    reason: str
    explanation: str
    cycles: int
    spent_gpu_hours: float
    run_hours: float
    next: list[str]


class DaemonLog(TypedDict, total=False):
    """A line of the daemon's log: a turn, an error and when it is tried again, or the end and after how many turns.

    `time` is in seconds since 1970, UTC.
    """

    time: Required[float]
    turn: DaemonCycle
    error: str
    failures: int
    retry_s: float
    reason: str
    explanation: str
    cycles: int


class DaemonPlan(TypedDict):
    """What `perpetual daemon --dry-run` would do first; nothing was changed.

    `strategy` turns the loop, `companions` work beside it; `would_propose` and `would_approve` count experiments,
    `ready` are the experiments that have replicates left to start.
    """

    strategy: str
    companions: list[str]
    would_propose: int
    would_approve: list[str]
    ready: list[str]
    live: int
    reason: str | None
    explanation: str | None


class DaemonStatus(ServiceLine):
    """The daemon as a service; `keeper` is the process that starts it again after a crash, null where none runs."""

    keeper: ServiceLine | None
    log: str


class DaemonUnit(TypedDict):
    """What `perpetual daemon install` wrote, or would write with `--print`: a systemd unit or a launchd agent."""

    path: str
    text: str
    manager: str
    installed: bool
