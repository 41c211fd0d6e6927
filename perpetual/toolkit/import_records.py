"""Records of foreign work, as a plugin hands them to `lab.imports.take`.

`key` names a record by what it is in its source, wherever the source lies: the same key is the same record, so that a
second import adds nothing. Times are UTC, ISO 8601; an unknown value is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = [
    "EndStatus",
    "Batch",
    "ImportedExperiment",
    "ImportedHypothesis",
    "ImportedNote",
    "ImportedRecord",
    "ImportedRun",
    "Remark",
    "Taken",
]

EndStatus = Literal["done", "failed", "killed", "timeout", "lost"]

Direction = Literal["max", "min"]


@dataclass(frozen=True, slots=True)
class ImportedHypothesis:
    """A claim, or the question that a group of runs was about."""

    key: str
    statement: str
    prior: float = 0.5
    metric: str | None = None
    direction: str | None = None  # max | min
    tags: tuple[str, ...] = ()
    created_at: str | None = None
    parked: bool = False
    confidence: float | None = None  # entered by hand in the source: it becomes a manual row
    verdict: str | None = None  # supported | refuted, by hand: likewise
    why: str = ""  # of that row


@dataclass(frozen=True, slots=True)
class ImportedExperiment:
    """Something that was tried, or was to be tried."""

    key: str
    hypothesis: str | None  # its key
    title: str
    command: str | None = None
    config: Mapping[str, object] = field(default_factory=dict)  # JSON
    notes: str = ""
    tags: tuple[str, ...] = ()
    metric: str | None = None
    direction: str | None = None  # max | min
    gpus: int = 0
    created_at: str | None = None
    is_rejected: bool = False
    hypothesis_id: str | None = None  # instead of `hypothesis`: one that this project has


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One process that has ended.

    `logs` are files for the run's folder by the name that they get there, each below the batch's `folder`. `series` is
    the metrics' history, a mapping a step; the lab writes it as `metrics.jsonl`.
    """

    key: str
    experiment: str  # its key
    status: EndStatus
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
    series: Iterable[Mapping[str, object]] | None = None
    annotations: tuple[Mapping[str, str], ...] = ()  # {kind, text, source}
    origin: Mapping[str, object] = field(default_factory=dict)  # what else its source says of it, JSON


@dataclass(frozen=True, slots=True)
class ImportedNote:
    """A text for memory; it passes the gates like any other."""

    key: str
    path: str
    text: str
    message: str | None = None


ImportedRecord = ImportedHypothesis | ImportedExperiment | ImportedRun | ImportedNote


@dataclass(frozen=True, slots=True)
class Batch:
    """Foreign records in the order hypothesis, experiment, run; each may name one that came before it, ever.

    `records` is read as a stream, some hundred records at a time.
    """

    plugin: str  # that imports, as `perpetual plugins list` names it
    kind: str  # of the source: a bare word for a bundled plugin, PLUGIN.WORD for any other
    source: str  # its name, as events give it
    records: Iterable[ImportedRecord]
    folder: Path | None = None  # below which the runs' logs lie; nothing is read through a link out of it
    charge: bool = False  # debit the budget with the GPU-hours that the runs used
    dry_run: bool = False  # check and count, and write nothing


@dataclass(frozen=True, slots=True)
class Remark:
    """A part of a record that the lab did not take as it was, and why."""

    what: str
    why: str


@dataclass(slots=True)
class Taken:
    """The counts of an import: new records, and those that an earlier import took."""

    hypotheses: int = 0
    experiments: int = 0
    runs: int = 0
    evidence: int = 0
    notes: int = 0
    known: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("hypotheses", "experiments", "runs", "notes"), 0)
    )
    remarks: list[Remark] = field(default_factory=list)  # the first 200
    unlisted_remarks: int = 0
    gpu_hours: float = 0.0
    run_hours: float = 0.0
    debited_gpu_hours: float = 0.0
    experiments_total: int = 0  # of the project, afterwards
