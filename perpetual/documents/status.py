"""State of the research: status, brief, budget, errors."""

from __future__ import annotations

from typing import Any, NotRequired

from perpetual.documents import TypedDict
from perpetual.documents.ledger import Effect
from perpetual.documents.trust import TrustNow


class Totals(TypedDict):
    """GPU-hours of the budget, and run-hours used; without a limit, limits and left are null."""

    limit_gpu_hours: float | None
    spent_gpu_hours: float
    reserved_gpu_hours: float
    left_gpu_hours: float | None
    run_hours: float
    limit_run_hours: float | None  # `max_run_hours` of the methodology


class Spent(TypedDict):
    """What one experiment, hypothesis or day has cost."""

    gpu_hours: float
    run_hours: float
    runs: int


class Budget(Totals):
    """What was spent, and on what."""

    by_experiment: dict[str, Spent]
    by_hypothesis: dict[str, Spent]
    by_day: dict[str, Spent]


class HypothesisLine(TypedDict):
    """A hypothesis in the status."""

    id: str
    statement: str
    status: str
    confidence: float
    false_alarm_bound: float | None
    evidence_count: int
    counting: int | None
    decided_by: str | None
    effect: Effect | None
    sentence: str | None  # the verdict for a reader without statistics
    stale: NotRequired[bool]  # it rests on a comparison of different code, data or environment


class RunLine(TypedDict):
    """A live run in the status."""

    id: str
    experiment_id: str
    replicate: int
    status: str
    started_at: str | None
    reason: str | None
    gpus: list[str]
    pid: int | None
    progress: NotRequired[dict[str, object] | None]  # as of `perpetual runs --json`; null: not known


class RunsNow(TypedDict):
    """Live runs, and how many wait."""

    active: list[RunLine]
    queued: int


class SectionNow(TypedDict):
    """Where a plugin's own work stands; `error` says how its section failed, if it did."""

    title: str
    lines: list[str]
    data: dict[str, Any]
    error: str | None


class Health(TypedDict):
    """How a service fares, as it said last; `ok` null: it cannot tell."""

    ok: bool | None
    detail: str
    hint: str | None


class ServiceNow(TypedDict):
    """A service that ran here: `state` is starting, running, stopped or failed."""

    name: str
    state: str
    pid: int | None
    started_at: str | None
    ended_at: str | None
    health: Health | None
    reason: str | None


class FamilyNow(TypedDict):
    """All claims that were tested, looked at together; what was decided by hand is not among them.

    `expected_false` of the `supported` are probably false, by `base_rate`: the share of claims like these that is true.
    `discoveries` are the claims that stand, supported or refuted, at false discovery rate `alpha`.
    """

    tested: int
    supported: int
    expected_false: float
    base_rate: float | None
    alpha: float
    discoveries: list[str]
    sentence: str


class StatusDocument(TypedDict):
    """Where the research stands."""

    project: str
    seq: int
    experiments: dict[str, int]
    hypotheses: list[HypothesisLine]
    hypotheses_total: int
    runs: RunsNow
    budget: Totals
    memory: dict[str, int]
    approvals_waiting: int
    queue: str
    trust: TrustNow
    family: NotRequired[FamilyNow]
    next: list[str]
    services: NotRequired[list[ServiceNow]]
    sections: NotRequired[dict[str, SectionNow]]  # of plugins, by the name of the provider


class ResultLine(TypedDict):
    """A run that has ended, in the brief."""

    id: str
    experiment_id: str
    title: str
    status: str
    reason: str | None
    metrics: dict[str, float]


class ProposedLine(TypedDict):
    """An experiment that waits for a person; `command` is null where its title says it."""

    id: str
    title: str
    command: str | None


class NoteLine(TypedDict):
    """A note that agents are shown, in the brief."""

    path: str
    title: str
    status: str
    proven: NotRequired[bool]  # missing in documents that earlier versions kept


class BriefFacts(TypedDict):
    """What only the brief needs of the status."""

    proposed: list[ProposedLine]
    results: list[ResultLine]
    dead_ends: list[HypothesisLine]
    cautions: dict[str, list[str]]  # by hypothesis: what is to be known beside its confidence
    notes: list[NoteLine]
    strategy: str
    is_redacted: bool
    agents_may_approve: bool


class LabStatus(StatusDocument):
    """The status as the lab keeps it: the document, and what the brief needs."""

    brief: BriefFacts


class Brief(TypedDict):
    """Where the research stands, for an agent; a token is counted as four UTF-8 bytes."""

    text: str
    tokens: int
    limit_tokens: int


class HookContext(TypedDict):
    """What a coding agent's hook reads."""

    hookEventName: str  # noqa: N815 - harnesses name it so, and what follows
    additionalContext: str  # noqa: N815


class Hook(TypedDict):
    """A hook's answer, in the harness's own form."""

    hookSpecificOutput: HookContext  # noqa: N815


class ErrorBody(TypedDict):
    """What went wrong: a code for programs, a message that names the thing, the way out, and the exit status."""

    code: str
    message: str
    hint: str | None
    exit: int


class Error(TypedDict):
    """The answer of a command that failed; a command may add what it would have answered."""

    error: ErrorBody


class Version(TypedDict):
    """Which version this is."""

    version: str
