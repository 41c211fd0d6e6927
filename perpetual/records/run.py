"""Runs: one process each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perpetual.records.listing import Shown
from perpetual.records.states import RunStatus

__all__ = ["GitState", "Run"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GitState:
    """The code a run started from."""

    commit: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True, slots=True)
class Run(Shown):
    """One process. `pid` is the command's; the supervisor's identity is in the run's folder."""

    id: str
    experiment_id: str
    attempt: int
    replicate: int
    status: RunStatus
    seed: int | None  # None of an adopted run whose source does not tell it
    scheduler: str
    native_id: str | None
    pid: int | None
    gpus: tuple[str, ...]
    started_at: str | None
    ended_at: str | None
    duration_s: float | None
    exit_code: int | None
    signal: int | None
    reason: str | None
    gpu_hours: float | None
    run_hours: float | None
    metrics: dict[str, float | None]
    log_dir: str
    git: GitState
    tainted: bool
    max_rss_bytes: int | None = None  # of its largest process
    cpu_s: float | None = None  # user and system, of all its processes
    shares_folder: bool = False  # another run was live in its working directory, whose files may be of either
    annotations: tuple[dict[str, str], ...] = ()  # {kind, text, source} beside the exit record; decides nothing
    chosen_seed: bool = False  # picked by hand, so that what it measured weighs nothing
    metric_sources: dict[str, str] = field(default_factory=dict)  # the file and line that each metric was read from
    versions: Json = field(default_factory=dict)  # {code, data, environment} that it started with, null where unknown
    host: str | None = None  # the machine that it runs or ran on, by its name; null where that is not known
    pending: bool = False  # launching, and in the queue of its scheduler's engine, whose words are the reason
    artifacts: tuple[Json, ...] = ()  # {path, size_bytes, sha256} of the files that it left to keep
    needs: tuple[Json, ...] = ()  # {artifact, run_id, size_bytes, sha256} of files of other runs that it started from
    stopped: Json | None = None  # {by, why, step, value, at_step} of one that was stopped early
    isolated: str | None = None  # the copy of the code that it runs in; afterwards what it has left there
