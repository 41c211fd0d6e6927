"""Runs beyond their record: plans, logs, the queue, what a scan found."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict
from perpetual.documents.page import Page
from perpetual.documents.provenance import CodePreview
from perpetual.documents.status import SectionNow
from perpetual.records.ledgers import Debit, Evidence
from perpetual.records.run import Run

Change = TypedDict("Change", {"run_id": str, "experiment_id": str, "from": str | None, "to": str, "reason": str | None})


class Hours(TypedDict):
    """GPU-hours and run-hours, of one run at most."""

    gpu_hours: float
    run_hours: float


class RunPlan(Hours):
    """What a dry run would start; the hours are the worst case that each run reserves."""

    experiment_id: str
    attempt: int
    replicates: list[int]
    seeds: list[int]
    argv: list[str]
    cwd: str
    wall_s: float | None
    waits_for: str | None
    code_changed: str | None  # what of the code is not as it was approved
    isolated: CodePreview | None  # the copy that `--isolate` would make; null: none, or not known


class Logs(TypedDict):
    """A run's output; `truncated` says that the log holds more than the text."""

    run_id: str
    stream: str
    text: str
    truncated: bool


class Place(TypedDict):
    """The place of a run in the queue; `waits_for` is as of the last look, `score` in bits per run-hour."""

    run_id: str
    position: int
    priority: int
    score: float | None
    waits_for: str | None
    group: str | None
    after: list[str]  # e3, or e3:any
    stashed: bool
    until: str | None  # of a stashed run: when it is put back by itself


class RunPage(Page[Run]):
    """A page of runs; `outside` are sections of what goes on outside of the record, such as ad-hoc runs."""

    outside: NotRequired[dict[str, SectionNow]]


class Queue(TypedDict):
    """What waits, in the order of starting, and its places; `state` is running, paused or draining."""

    items: list[Run]
    next_cursor: str | None
    state: str
    places: list[Place]
    groups: dict[str, int]  # how many runs each takes at once


class ScanProblem(TypedDict):
    """A run that could not be looked at, and so stays as it is."""

    run_id: str
    code: str
    message: str


class Elsewhere(TypedDict):
    """A live run that is not this folder's to end: of another machine, or of the original of a copy."""

    run_id: str
    where: str


class Scan(TypedDict):
    """What the record has learnt: changes of runs, lines of the budget's ledger, rows of evidence."""

    changes: list[Change]
    debits: list[Debit]
    evidence: list[Evidence]
    problems: list[ScanProblem]
    elsewhere: NotRequired[list[Elsewhere]]  # where there is one


class Scanned(TypedDict):
    """What a scan found, as `Scan`; the lines of the budget's ledger and the rows of evidence are JSON."""

    changes: list[Change]
    debits: list[dict[str, object]]
    evidence: list[dict[str, object]]
    problems: list[ScanProblem]
    elsewhere: NotRequired[list[Elsewhere]]
