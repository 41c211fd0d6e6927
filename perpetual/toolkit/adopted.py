"""Earlier work, as whoever reads another tool's files hands it to `lab.adoption.take`.

`key` names a record by what it is in its source, whatever folder the source lies in: the same key is the same record,
so that taking it over twice is taking it over once. Times are UTC, ISO 8601; what is not known is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["AdoptedExperiment", "AdoptedHypothesis", "AdoptedNote", "AdoptedRun", "Skipped"]


@dataclass(frozen=True, slots=True)
class AdoptedHypothesis:
    """A claim, or the question that a group of runs was about."""

    key: str
    statement: str
    prior: float = 0.5
    metric: str | None = None
    direction: str | None = None
    tags: tuple[str, ...] = ()
    created_at: str | None = None
    parked: bool = False
    confidence: float | None = None  # one that somebody typed in: it becomes a manual row
    verdict: str | None = None  # supported or refuted, by hand: likewise
    why: str = ""  # of that row


@dataclass(frozen=True, slots=True)
class AdoptedExperiment:
    """Something that was tried, or was to be tried."""

    key: str
    hypothesis: str | None  # its key
    title: str
    command: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""
    tags: tuple[str, ...] = ()
    metric: str | None = None
    direction: str | None = None
    gpus: int = 0
    created_at: str | None = None
    is_rejected: bool = False


@dataclass(frozen=True, slots=True)
class AdoptedRun:
    """One process that has ended.

    `logs` are files for the run's folder by the name that they get there; one that stays where it is, is named in
    `annotations`. `series` writes the metrics' history as JSON lines into the path it is called with.
    """

    key: str
    experiment: str  # its key
    status: str  # done | failed | killed | timeout | lost
    reason: str | None = None
    seed: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_s: float | None = None
    exit_code: int | None = None
    gpus: tuple[str, ...] = ()
    gpu_hours: float | None = None
    run_hours: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)  # where each metric was read
    commit: str | None = None
    logs: Mapping[str, Path] = field(default_factory=dict)
    series: Callable[[Path], None] | None = None
    annotations: tuple[dict[str, Any], ...] = ()  # {kind, text, source}
    origin: Mapping[str, Any] = field(default_factory=dict)  # what else its source says of it, kept as it is


@dataclass(frozen=True, slots=True)
class AdoptedNote:
    """A text for memory; it goes through the gates like any other."""

    key: str
    path: str
    text: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is not taken over, and why."""

    what: str
    why: str
