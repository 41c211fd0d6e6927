"""The documents that commands answer and that are no records: their keys and types, for the JSON schemas.

Imported by `tools/make_schemas.py` and the tests; no command needs it. `DOCUMENTS` names every schema: a record as
itself, a list as the plural, anything else as a `TypedDict` below. Keys may be added; a key that stands stays.
"""

from __future__ import annotations

import sys
from typing import Any, Generic, NotRequired, TypeVar

from perpetual.chaos import Certificate
from perpetual.records import Debit, Event, Evidence, Experiment, Hypothesis, Note, Run

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["DOCUMENTS", "DRY_RUN", "FOREIGN"]

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """A page of a list; `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None


# --- the whole ------------------------------------------------------------------------------------------------


class Totals(TypedDict):
    """GPU-hours of the budget, and run-hours used; without a limit, limit and left are null."""

    limit_gpu_hours: float | None
    spent_gpu_hours: float
    reserved_gpu_hours: float
    left_gpu_hours: float | None
    run_hours: float


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
    false_alarm_bound: float
    evidence_count: int


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


class RunsNow(TypedDict):
    """Live runs, and how many wait."""

    active: list[RunLine]
    queued: int


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
    next: list[str]


class Brief(TypedDict):
    """Where the research stands, for an agent; a token is counted as four UTF-8 bytes."""

    text: str
    tokens: int
    limit_tokens: int


class HookContext(TypedDict):
    """What a coding agent's hook reads."""

    hookEventName: str
    additionalContext: str


class Hook(TypedDict):
    """A hook's answer, in the harness's own form."""

    hookSpecificOutput: HookContext


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


# --- project and ledger ---------------------------------------------------------------------------------------


class InitFile(TypedDict):
    """One file of a harness: `action` is created, merged, unchanged, removed or conflict; `diff` in a dry run."""

    path: str
    action: str
    reason: str | None
    diff: NotRequired[str]


class Limit(TypedDict):
    """The budget's limit; null is unlimited."""

    limit_gpu_hours: float | None


class Init(TypedDict):
    """A project as `init` leaves it; `trust` is what a person must do; `dry_run` is there if nothing was written."""

    project: str
    path: str
    files: list[InitFile]
    trust: list[str]
    budget: Limit
    notes: list[str]
    dry_run: NotRequired[bool]


class Fold(TypedDict):
    """What a ledger amounts to."""

    confidence: float
    e_support: float
    e_refute: float
    false_alarm_bound: float
    evidence_count: int
    status: str


class Refolded(TypedDict):
    """A hypothesis whose stored fold differed from that of its ledger."""

    id: str
    stored: Fold
    folded: Fold


# --- runs -----------------------------------------------------------------------------------------------------

Change = TypedDict("Change", {"run_id": str, "experiment_id": str, "from": str | None, "to": str, "reason": str | None})


class RunPlan(TypedDict):
    """What a dry run would start; the hours are the worst case that each run reserves."""

    experiment_id: str
    attempt: int
    replicates: list[int]
    seeds: list[int]
    argv: list[str]
    cwd: str
    wall_s: float
    gpu_hours: float
    run_hours: float
    waits_for: str | None


class Logs(TypedDict):
    """A run's output; `truncated` says that the log holds more than the text."""

    run_id: str
    stream: str
    text: str
    truncated: bool


class Queue(TypedDict):
    """What waits, in the order of starting; `state` is running, paused or draining."""

    items: list[Run]
    next_cursor: str | None
    state: str


class ScanProblem(TypedDict):
    """A run that could not be looked at, and so stays as it is."""

    run_id: str
    code: str
    message: str


class Scan(TypedDict):
    """What the record has learnt: changes of runs, lines of the budget's ledger, rows of evidence."""

    changes: list[Change]
    debits: list[Debit]
    evidence: list[Evidence]
    problems: list[ScanProblem]


# --- memory ---------------------------------------------------------------------------------------------------


class Finding(TypedDict):
    """What a gate saw: characters `span[0]` to `span[1]` of the note's `part`, a content or a message."""

    part: str
    rule: str
    span: list[int]
    excerpt: str


class VerdictDocument(TypedDict):
    """What the gates say: `pass`, `quarantine` or `reject`."""

    outcome: str
    blocked: bool
    category: str | None
    findings: list[Finding]


class MemoryWrite(TypedDict):
    """What became of a note; `commit` is null if it was not accepted."""

    path: str
    status: str
    verdict: VerdictDocument
    commit: str | None


class NoteVersion(TypedDict):
    """One commit of a note; `blob` is null where it removed the note."""

    commit: str
    when: str
    author: str
    message: str
    blob: str | None


class NoteHit(TypedDict):
    """A note that a search found; `excerpt` is where its words stand."""

    path: str
    type: str
    status: str
    title: str
    actor: str
    commit: str | None
    blob: str
    updated_at: str
    excerpt: str


class NoteHistory(TypedDict):
    """A note's versions, newest first; `truncated` tells that there are older ones."""

    items: list[NoteVersion]
    next_cursor: str | None
    truncated: bool


# --- settings and machine ---------------------------------------------------------------------------------------


class Setting(TypedDict):
    """A key in force: its value and where that comes from (flag, environment, project, user, default)."""

    key: str
    value: Any
    origin: str
    meaning: str


class Process(TypedDict):
    """A process that holds memory of a device."""

    pid: int
    memory_bytes: int | None
    user: str | None
    name: str | None


class MigPart(TypedDict):
    """A part of a device that was cut into instances."""

    uuid: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None


class Device(TypedDict):
    """One GPU; `utilization` is percent, `run_ids` are our live runs that hold it."""

    index: int
    uuid: str | None
    name: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    utilization: float | None
    temperature_celsius: float | None
    power_watts: float | None
    compute_mode: str | None
    processes: list[Process]
    mig: list[MigPart]
    run_ids: list[str]
    healthy: bool
    error: str | None


class GpuStatus(TypedDict):
    """The machine's GPUs; `reason` says why there are none."""

    driver: str | None
    gpus: list[Device]
    reason: str | None


class DoctorCheck(TypedDict):
    """One thing looked at; `ok` is null where it does not apply."""

    check: str
    ok: bool | None
    detail: str
    hint: str | None


class Doctor(TypedDict):
    """What could go wrong with this machine and project."""

    ok: bool
    checks: list[DoctorCheck]


class Completion(TypedDict):
    """A shell's completion script."""

    shell: str
    script: str


# --- the store --------------------------------------------------------------------------------------------------


class StoreStats(TypedDict):
    """What the store holds and weighs; `mode` and `why` are null where it has but one way to work."""

    store: str
    folder: str
    mode: str | None
    why: str | None
    commit: int
    records: dict[str, int]
    bytes: int
    files: dict[str, int]
    details: dict[str, Any]


class StoreVerify(TypedDict):
    """What is wrong with the record, each a sentence."""

    ok: bool
    problems: list[str]


class StoreCompact(TypedDict):
    """What the store's files took before and take after."""

    bytes_before: int
    bytes_after: int


class StoreExport(TypedDict):
    """An exported record; the checksum is that of all lines but the last."""

    path: str
    rows: int
    commit: int
    bytes: int
    sha256: str


class StoreImport(TypedDict):
    """A record taken over; `backup` holds the store before, and is null in a dry run."""

    path: str
    rows: int
    commit: int
    backup: str | None


StoreMigrate = TypedDict("StoreMigrate", {"from": str, "to": str, "rows": int, "commit": int, "backup": str | None})
StoreMigrate.__doc__ = "A record moved into another store; `backup` holds the old one, and is null in a dry run."


# --- plugins ----------------------------------------------------------------------------------------------------


class ProviderLine(TypedDict):
    """What a plugin offers for a slot: `state` is active, available or failed."""

    slot: str
    name: str
    qualified_name: str
    state: str
    reason: str | None


class OptionLine(TypedDict):
    """A key of a provider's section in config.yaml."""

    key: str
    type: str
    default: Any
    meaning: str


class ProviderInFull(ProviderLine):
    """A provider with its factory and options."""

    summary: str
    factory: str
    requires: list[str]
    options: list[OptionLine]


class PluginLine(TypedDict):
    """A plugin: `state` is active, available, disabled or failed."""

    name: str
    qualified_name: str
    slots: list[str]
    version: str
    state: str
    reason: str | None
    providers: list[ProviderLine]


class Problem(TypedDict):
    """What the configuration asks for and no plugin gives."""

    slot: str
    name: str
    message: str
    hint: str | None


class Plugins(TypedDict):
    """Every plugin found, and what the configuration misses."""

    items: list[PluginLine]
    next_cursor: str | None
    problems: list[Problem]


class Plugin(TypedDict):
    """One plugin in full."""

    name: str
    qualified_name: str
    slots: list[str]
    version: str
    state: str
    reason: str | None
    providers: list[ProviderInFull]
    hooks: list[str]


class ContractCheck(TypedDict):
    """One thing that a provider must be; `ok` is null where its factory does not tell."""

    check: str
    ok: bool | None
    detail: str


class PromiseChecked(TypedDict):
    """One promise of a slot, as its contract suite found it; `ok` is null where it could not be told."""

    promise: str
    ok: bool | None
    detail: str


class ProviderChecked(TypedDict):
    """How a provider compares with its slot; a plugin that did not load has no slot.

    `suite` is the contract suite; `suite_reason` says why there is none, why it did not run, or not to its end.
    """

    plugin: str
    slot: str | None
    name: str
    qualified_name: str
    ok: bool | None
    checks: list[ContractCheck]
    suite: str | None
    suite_reason: str | None
    promises: list[PromiseChecked]


class PluginNew(TypedDict):
    """A new plugin's distribution; `dry_run` is there if nothing was written."""

    name: str
    slot: str
    distribution: str
    package: str
    path: str
    files: list[str]
    dry_run: NotRequired[bool]


class PluginsCheck(TypedDict):
    """How the providers compare with their slots."""

    items: list[ProviderChecked]
    next_cursor: str | None
    ok: bool


# --- bundled plugins' commands ----------------------------------------------------------------------------------


class Report(TypedDict):
    """The research written up; `path` is where it was written, if it was."""

    format: str
    path: str | None
    text: str


class DemoVerdict(TypedDict):
    """What the demo found out about one hypothesis; `nats` is its measured evidence."""

    id: str
    statement: str
    status: str
    confidence: float
    false_alarm_bound: float
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


class NoteText(TypedDict):
    """A note, with its text where it was asked for."""

    content: NotRequired[str]


# name -> a record or a TypedDict; of a tuple, the keys of all and the words of the last
DOCUMENTS: dict[str, Any] = {
    "brief": Brief,
    "budget": Budget,
    "chaos": Certificate,
    "completion": Completion,
    "config": Page[Setting],
    "demo": Demo,
    "doctor": Doctor,
    "error": Error,
    "event": Event,
    "events": Page[Event],
    "evidence": Evidence,
    "evidence_list": Page[Evidence],
    "experiment": Experiment,
    "experiments": Page[Experiment],
    "gpu_status": GpuStatus,
    "hypotheses": Page[Hypothesis],
    "hypothesis": Hypothesis,
    "init": Init,
    "logs": Logs,
    "memory_write": MemoryWrite,
    "methodology": Page[Setting],
    "note": (Note, NoteText),
    "note_history": NoteHistory,
    "note_hits": Page[NoteHit],
    "notes": Page[Note],
    "plugin": Plugin,
    "plugin_new": PluginNew,
    "plugins": Plugins,
    "plugins_check": PluginsCheck,
    "queue": Queue,
    "refold": Page[Refolded],
    "report": Report,
    "run": Run,
    "run_plan": RunPlan,
    "runs": Page[Run],
    "scan": Scan,
    "setting": Setting,
    "status": StatusDocument,
    "store_compact": StoreCompact,
    "store_export": StoreExport,
    "store_import": StoreImport,
    "store_migrate": StoreMigrate,
    "store_stats": StoreStats,
    "store_verify": StoreVerify,
    "version": Version,
}

# An experiment that a dry run would propose has no id yet.
DRY_RUN = frozenset({"experiment", "experiments"})

# In another program's form, so without our `schema` key.
FOREIGN: dict[str, Any] = {"hook": Hook}
