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


class Place(TypedDict):
    """Where a run stands in the queue; `waits_for` is as of the last look, `score` in bits per run-hour."""

    run_id: str
    position: int
    priority: int
    score: float | None
    waits_for: str | None


class Queue(TypedDict):
    """What waits, in the order of starting, and its places; `state` is running, paused or draining."""

    items: list[Run]
    next_cursor: str | None
    state: str
    places: list[Place]


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
    """A process that holds memory of a device; `owner` is run, ended, foreign or unknown, `run_id` its run, if ours."""

    pid: int
    memory_bytes: int | None
    user: str | None
    name: str | None
    owner: str
    run_id: str | None


class MigPart(TypedDict):
    """A part of a device that was cut into instances; `state` and `note` as of a device."""

    uuid: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    processes: list[Process]
    run_ids: list[str]
    state: str
    note: str | None


class Device(TypedDict):
    """One GPU; `utilization` is percent, `run_ids` are our live runs that hold it.

    `state` is free, leased, used, excluded, sick or cut (into instances); `note` says why no further run gets it.
    """

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
    state: str
    note: str | None


class GpuStatus(TypedDict):
    """The machine's GPUs; `reason` says why there are none, `transient` that it may pass by itself."""

    driver: str | None
    gpus: list[Device]
    reason: str | None
    transient: bool


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


class Untracked(TypedDict):
    """A file that git does not know; where it is not `kept`, `why` says so, and `target` is a link's."""

    path: str
    path_hex: NotRequired[str]
    bytes: NotRequired[int | None]
    mode: NotRequired[str]
    sha256: NotRequired[str | None]
    target: NotRequired[str]
    kept: bool
    why: NotRequired[str]


class ProvenanceCode(TypedDict):
    """The code a run started from; `patch` is a file of the run's folder, and `why` says why there is none."""

    commit: str | None
    branch: str | None
    dirty: bool | None
    remote: str | None
    top: str | None
    patch: str | None
    patch_bytes: int | None
    patch_sha256: str | None
    why: str | None
    untracked: list[Untracked]
    untracked_left_out: int


class Interpreter(TypedDict):
    """The Python of a run; all null but `why` where its command is none that could be recognised."""

    path: str | None
    version: str | None
    packages: dict[str, str] | None
    why: str | None


class ProvenanceMachine(TypedDict):
    """Where a run was started."""

    host: str
    os: str
    kernel: str
    cpus: int | None
    memory_bytes: int | None


class ProtectedFile(TypedDict):
    """A protected path as it was; `seen` is [mtime in ns, ctime in ns, inode], `why` says what could not be read."""

    path: str
    mode: str | None
    bytes: int | None
    sha256: str | None
    target: str | None
    seen: list[int] | None
    young: bool
    why: str | None


class Protected(TypedDict):
    """The protected paths at a run's start."""

    patterns: list[str]
    sha256: str
    files: list[ProtectedFile]
    unmatched: list[str]
    problems: list[str]


class Provenance(TypedDict):
    """What a run was started from; `intact` is null where no hash of it was noted."""

    run: str
    experiment: str
    spec_hash: str
    seed: int
    argv: list[str]
    cwd: str
    git: ProvenanceCode
    environment: dict[str, str | None]
    interpreter: Interpreter
    machine: ProvenanceMachine
    gpus: list[str]
    protected: Protected
    perpetual: str
    captured_at: str
    problems: list[str]
    intact: bool | None


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


class SaidTrue(TypedDict):
    """Of the hypotheses said to be true with at least 0.8: how many, the share that is, and the mean confidence."""

    n: int
    true_share: float | None
    mean_confidence: float | None


class PolicyResult(TypedDict):
    """What a policy did at a threshold and batch size; `problem` says how it broke its contract, figures then null.

    `low` and `high` bound `run_hours`, the mean of a campaign, with 95 %.
    """

    policy: str
    threshold: float
    batch: int
    world: str
    episodes: int
    run_hours: float | None
    low: float | None
    high: float | None
    runs: float | None
    error_rate: float | None
    undecided: float | None
    brier: float | None
    ece: float | None
    said_true: SaidTrue | None
    false_support_rate: float | None
    false_support_bound: float
    problem: str | None


class BenchPolicy(TypedDict):
    """Policies compared in simulated research; `path` is the file that was written, if one was."""

    seed: int
    episodes: int
    world: str
    results: list[PolicyResult]
    path: str | None


class Report(TypedDict):
    """The research written up; `path` is where it was written, if it was."""

    format: str
    path: str | None
    text: str


class AdoptionKnown(TypedDict):
    """How much of it was in the record before."""

    hypotheses: int
    experiments: int
    runs: int
    notes: int


class AdoptionSkipped(TypedDict):
    """What was not taken over."""

    what: str
    why: str


class AdoptionBudget(TypedDict):
    """What the earlier runs used, as far as it is known, and what of it was debited here."""

    gpu_hours: float
    run_hours: float
    debited_gpu_hours: float
    limit_gpu_hours: float | None


class Adoption(TypedDict):
    """What was taken over of earlier work; the counts are of what is new, `known` of what was there already.

    `moved` is `{from, to}` where another tool's folder was moved aside. `is_complete` is false where a limit left more.
    """

    source: str
    kind: str
    name: str
    project: str
    path: str
    moved: dict[str, str] | None
    hypotheses: int
    experiments: int
    runs: int
    evidence: int
    notes: int
    known: AdoptionKnown
    skipped: list[AdoptionSkipped]
    budget: AdoptionBudget
    is_complete: bool
    dry_run: bool
    next: list[str]


class ReportProblem(TypedDict):
    """One thing in a report that does not match; `where` is a place in the file, `source` one in the record."""

    number: str
    where: str
    claimed: str
    found: str
    source: str


class Verification(TypedDict):
    """A report held to the record as it stood after the event `seq`.

    `checked` counts numbers, `pictures` those drawn again, `logs` the runs whose files were read again; `notes` say what
    could not be looked at.
    """

    ok: bool
    format: str
    seq: int
    checked: int
    pictures: int
    logs: int
    problems: list[ReportProblem]
    notes: list[str]


class ArmValue(TypedDict):
    """What one run measured, and the line of its folder that it was read from."""

    run_id: str
    seed: int
    value: float
    source: str | None


class ArmMetric(TypedDict):
    """The seeds of an arm folded; `low` and `high` bound the mean with 95 %, null where nothing can be said."""

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    values: list[ArmValue]


class RunLeftOut(TypedDict):
    """A run that says nothing here, and why."""

    id: str
    why: str


class ComparedArm(TypedDict):
    """An experiment with the newest attempt of each replicate, or a run by itself."""

    id: str
    experiment_id: str
    hypothesis_id: str | None
    title: str
    runs: list[str]
    left_out: list[RunLeftOut]
    metrics: dict[str, ArmMetric]


class Difference(TypedDict):
    """A field that is not the same in every arm; null where an arm lacks it."""

    field: str
    values: dict[str, Any]


class ComparedPair(TypedDict):
    """Two arms and a metric: `difference` is a - b; `better` is named only where the interval excludes 0."""

    metric: str
    direction: str | None
    a: str
    b: str
    n_a: int
    n_b: int
    paired: bool
    difference: float
    low: float | None
    high: float | None
    separable: bool
    better: str | None
    verdict: str


class Comparison(TypedDict):
    """Experiments or runs side by side."""

    arms: list[ComparedArm]
    differences: list[Difference]
    metrics: list[str]
    pairs: list[ComparedPair]
    notes: list[str]


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
    "adoption": Adoption,
    "bench_policy": BenchPolicy,
    "brief": Brief,
    "budget": Budget,
    "chaos": Certificate,
    "comparison": Comparison,
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
    "provenance": Provenance,
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
    "verification": Verification,
    "version": Version,
}

# An experiment that a dry run would propose has no id yet.
DRY_RUN = frozenset({"experiment", "experiments"})

# In another program's form, so without our `schema` key.
FOREIGN: dict[str, Any] = {"hook": Hook}
