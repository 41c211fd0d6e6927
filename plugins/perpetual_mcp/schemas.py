"""Answers of the tools: the keys and types of their documents, from which the output schemas are made.

A record is the kernel's own. A list carries `items`, `next_cursor` and `truncated`; what an action does not answer is
null. `untrusted` lists the JSON pointers of what others wrote. Read by `perpetual_mcp.tools` alone.
"""

from __future__ import annotations

import sys
from typing import Literal, NotRequired

from perpetual.api import Evidence, Experiment, Hypothesis, Run

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = [
    "BriefAnswer",
    "BudgetAnswer",
    "EditAnswer",
    "EvidenceAnswer",
    "ExperimentsAnswer",
    "HypothesesAnswer",
    "LogsAnswer",
    "MemoryAnswer",
    "RunsAnswer",
    "ScanAnswer",
    "ShowAnswer",
    "StatusAnswer",
    "UndoAnswer",
    "WaitAnswer",
]


class EffectLine(TypedDict):
    """What was measured against the baseline; positive is better. The interval holds at every look."""

    value: float
    low: float | None
    high: float | None
    n: int
    n_baseline: int | None
    metric: str
    experiments: list[str]
    baseline: float | str
    how: str
    shrunk: NotRequired[float | None]


class HypothesisLine(TypedDict):
    """A hypothesis in short."""

    id: str
    statement: str
    status: str
    confidence: float
    false_alarm_bound: float | None
    counting: int | None
    decided_by: str | None
    evidence_count: int
    effect: NotRequired[EffectLine | None]
    sentence: NotRequired[str | None]
    stale: NotRequired[bool]


class LiveRun(TypedDict):
    """A live run in short."""

    id: str
    experiment_id: str
    replicate: int
    status: str
    started_at: str | None
    reason: str | None
    gpus: list[str]
    pid: int | None
    progress: NotRequired[dict[str, object] | None]


class LiveRuns(TypedDict):
    """What runs and what waits."""

    active: list[LiveRun]
    queued: int


class Totals(TypedDict):
    """GPU time and wall time; a limit that is null is none."""

    limit_gpu_hours: float | None
    spent_gpu_hours: float
    reserved_gpu_hours: float
    left_gpu_hours: float | None
    run_hours: float
    limit_run_hours: float | None


class HeldItem(TypedDict):
    """What came along and does not count here."""

    kind: str
    subject: str
    why: str


class TrustNow(TypedDict):
    """Whether a person here accepts the project: own, trusted or held."""

    state: str
    why: str | None
    held: list[HeldItem]
    held_total: int


class Health(TypedDict):
    """How a service fares."""

    ok: bool | None
    detail: str
    hint: str | None


class ServiceLine(TypedDict):
    """A service of a plugin: `state` is starting, running, stopped or failed."""

    name: str
    state: str
    pid: int | None
    started_at: str | None
    ended_at: str | None
    health: Health | None
    reason: str | None


class SectionLine(TypedDict):
    """Where a plugin's own work stands."""

    title: str
    lines: list[str]
    data: dict[str, object]
    error: str | None


class FamilyLine(TypedDict):
    """All tested claims together: how many of the supported are probably false, and which stand, either way."""

    tested: int
    supported: int
    expected_false: float
    base_rate: float | None
    alpha: float
    discoveries: list[str]
    sentence: str


class StatusAnswer(TypedDict):
    """Where the research stands; `next` says what to do, the most useful first."""

    schema: Literal["perpetual.status/1"]
    untrusted: list[str]
    project: str | None
    seq: int
    experiments: dict[str, int]
    hypotheses: list[HypothesisLine]
    hypotheses_total: int
    runs: LiveRuns
    budget: Totals
    memory: dict[str, int]
    approvals_waiting: int
    queue: str
    next: list[str]
    trust: TrustNow
    services: list[ServiceLine]
    sections: dict[str, SectionLine]
    family: FamilyLine | None
    truncated: bool


class BriefAnswer(TypedDict):
    """The state for an agent, in words."""

    schema: Literal["perpetual.brief/1"]
    untrusted: list[str]
    text: str
    tokens: int
    limit_tokens: int


class Spent(TypedDict):
    """What one experiment, hypothesis or day has cost."""

    gpu_hours: float
    run_hours: float
    runs: int


class BudgetAnswer(Totals):
    """What was spent, and on what: the dearest first, the newest days first."""

    schema: Literal["perpetual.budget/1"]
    untrusted: list[str]
    by_experiment: dict[str, Spent]
    by_hypothesis: dict[str, Spent]
    by_day: dict[str, Spent]
    truncated: bool


class ListedHypothesis(HypothesisLine):
    """A hypothesis in a list."""

    prior: float
    tags: list[str]
    archived: bool


class HypothesesAnswer(TypedDict):
    """A page of hypotheses, or the one that was shown, added or updated."""

    schema: Literal["perpetual.hypotheses/1"]
    untrusted: list[str]
    items: list[ListedHypothesis]
    hypothesis: Hypothesis | None
    next_cursor: str | None
    truncated: bool


class MeasuredLine(TypedDict):
    """Mean and sd of a metric over the n runs that evidence counts."""

    mean: float
    sd: float | None
    n: int


class ListedExperiment(TypedDict):
    """An experiment in a list."""

    id: str | None
    hypothesis_id: str | None
    title: str
    status: str
    replicates: int
    runs: dict[str, int]
    score: float | None
    reason: str
    stale: NotRequired[bool]
    archived: NotRequired[bool]
    metrics: NotRequired[dict[str, MeasuredLine]]
    effect: NotRequired[EffectLine | None]
    direction: NotRequired[str | None]


class ExperimentsAnswer(TypedDict):
    """Experiments: the one that was proposed in full, several in short."""

    schema: Literal["perpetual.experiments/1"]
    untrusted: list[str]
    items: list[ListedExperiment]
    experiment: Experiment | None
    warnings: NotRequired[list[str]]
    next_cursor: str | None
    truncated: bool


class EditAnswer(TypedDict):
    """The fields that an edit changed, and the experiments whose approval ended with it."""

    schema: Literal["perpetual.edited/1"]
    untrusted: list[str]
    id: str
    status: str
    before: dict[str, object]
    after: dict[str, object]
    voided: list[str]
    truncated: bool


class UndoAnswer(TypedDict):
    """The deed that was taken back, in words and by its events."""

    schema: Literal["perpetual.undone/1"]
    untrusted: list[str]
    what: str
    kind: str
    subjects: list[str]
    seqs: list[int]
    time: str
    dry_run: bool
    truncated: bool


class ListedRun(TypedDict):
    """A run in a list."""

    id: str
    experiment_id: str
    replicate: int
    attempt: int
    status: str
    duration_s: float | None
    metrics: dict[str, float | None]
    reason: str | None


class RunsAnswer(TypedDict):
    """A page of runs, newest first, or those that were started; one run in full."""

    schema: Literal["perpetual.runs/1"]
    untrusted: list[str]
    items: list[ListedRun]
    run: Run | None
    warnings: NotRequired[list[str]]
    progress: NotRequired[dict[str, object] | None]
    next_cursor: str | None
    truncated: bool


class LogsAnswer(TypedDict):
    """The end of a run's output; `truncated` says that the log holds more."""

    schema: Literal["perpetual.logs/1"]
    untrusted: list[str]
    run_id: str
    stream: Literal["stdout", "stderr"]
    text: str
    truncated: bool


class ListedEvidence(TypedDict):
    """A row of the ledger; `log_bayes_factor` in nats, positive for the hypothesis."""

    id: str
    hypothesis_id: str
    run_id: str | None
    kind: str
    value: float | None
    log_bayes_factor: float | None
    weight: float
    actor: str
    retracted_by: str | None
    reason: str | None


class EvidenceAnswer(TypedDict):
    """A page of the ledger, oldest first, or the row that was added."""

    schema: Literal["perpetual.evidence_list/1"]
    untrusted: list[str]
    items: list[ListedEvidence]
    evidence: Evidence | None
    next_cursor: str | None
    truncated: bool


# Functional, for the word `from`: a run that was found in another state.
ScanChange = TypedDict(
    "ScanChange", {"run_id": str, "experiment_id": str, "from": str, "to": str, "reason": str | None}
)


class ScanDebit(TypedDict):
    """What a run has used."""

    run_id: str
    gpu_hours: float
    run_hours: float


class ScanProblem(TypedDict):
    """A run that could not be looked at, and so stays as it is."""

    run_id: str
    code: str
    message: str


# Functional, for the word `from`: a hypothesis whose status has changed.
VerdictChange = TypedDict(
    "VerdictChange",
    {"hypothesis_id": str, "from": str, "to": str, "confidence": float | None, "sentence": str | None},
)


class LiveLine(TypedDict):
    """A live run, and how far it is; what is not known is null."""

    id: str
    experiment_id: str
    status: str
    elapsed_s: float | None
    left_s: float | None
    declared_s: float | None
    step: float | None
    total_steps: float | None
    reason: str | None


class NewsAnswer(TypedDict):
    """What has happened since an event, and what goes on; `seq` is the newest event that was read."""

    untrusted: list[str]
    seq: int
    changes: list[ScanChange]
    verdicts: list[VerdictChange]
    others: list[str]
    live: list[LiveLine]
    queued: int
    next: list[str]
    truncated: bool


class ScanAnswer(NewsAnswer):
    """The news, and what this scan itself has recorded of debits and problems."""

    schema: Literal["perpetual.scan/1"]
    evidence: list[ListedEvidence]
    debits: list[ScanDebit]
    problems: list[ScanProblem]


class WaitAnswer(NewsAnswer):
    """The news at the end of a wait: `because` is ended, attention, timeout or nothing."""

    schema: Literal["perpetual.wait/1"]
    because: str
    attention: list[str]
    ended: list[ListedRun]


class Price(TypedDict):
    """What a version of a note was measured to earn: the uplift of the score, its 90 % interval, and for its tokens."""

    uplift: float
    low: float
    high: float
    pairs: int
    tokens: float
    per_1000_tokens: float
    low_per_1000_tokens: float
    high_per_1000_tokens: float


class ListedNote(TypedDict):
    """A note in a list; `excerpt` is where a search found its words, `price` that of its newest version, by worth."""

    path: str
    type: str
    status: str
    title: str
    updated_at: str
    excerpt: str | None
    price: Price | None


class Version(TypedDict):
    """A version of a note."""

    commit: str
    when: str
    author: str
    message: str


class Written(TypedDict):
    """What became of a note that was written."""

    path: str
    status: str
    verdict: dict[str, object]
    commit: str | None


class ShownNote(TypedDict):
    """A note with its text, or a part of it; `price` is that of this text, null where it was not measured."""

    path: str
    type: str
    status: str
    title: str
    updated_at: str
    content: str
    price: Price | None


class ShowAnswer(TypedDict):
    """One record, or a page of a kind: the document of the tool of that kind."""

    schema: str
    untrusted: list[str]
    truncated: bool


class MemoryAnswer(TypedDict):
    """Notes: a page of them, one with its text, what was written, or the versions of one."""

    schema: Literal["perpetual.notes/1"]
    untrusted: list[str]
    items: list[ListedNote]
    note: ShownNote | None
    written: Written | None
    history: list[Version] | None
    next_cursor: str | None
    truncated: bool
