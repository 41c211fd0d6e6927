"""Types of the stored rows of each kind of record: the keys of the record of that name, and the lab's own.

Imported by type checkers alone. A key that came later is missing in older rows: it is `NotRequired` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from perpetual.documents.ledger import Effect
from perpetual.documents.memory import Finding
from perpetual.documents.provenance import CodeStateDocument, KeptCode, Need, Versions
from perpetual.records.states import (
    Decider,
    EvidenceKind,
    ExperimentStatus,
    HypothesisStatus,
    NoteStatus,
    Outcome,
    RunStatus,
)

Json = dict[str, object]


class Annotation(TypedDict):
    """What was seen beside a run's exit record; decides nothing."""

    kind: str
    text: str
    source: str


class ClaimKey(TypedDict):
    """Whether a design claims something."""

    claim: str | None


class DesignKeys(TypedDict):
    """What makes two experiments replicates of one design."""

    command: str | None
    env: dict[str, str]
    cwd: str | None
    config: dict[str, object]
    design: ClaimKey
    resources: NotRequired[ResourcesBody]


class CapturedBody(TypedDict, total=False):
    """What a run's row gets of its captures; empty where nothing was kept."""

    git: dict[str, object]
    provenance_sha256: str
    versions: Mapping[str, object]
    annotations: list[Annotation]


class PredictionBody(TypedDict):
    """What a hypothesis says about a metric."""

    metric: str | None
    direction: str | None
    mde: float | None
    baseline: float | str | None


class FoldKeys(TypedDict):
    """What a hypothesis' evidence amounts to; the meanings are those of `Hypothesis`."""

    confidence: float
    log_odds: float
    e_support: float
    e_refute: float
    false_alarm_bound: float | None
    n_measured: int
    evidence_count: int
    counting: int
    flags: list[str]
    status: HypothesisStatus
    needs: NotRequired[str | None]
    decided_by: NotRequired[Decider | None]
    effect: NotRequired[Effect | None]
    effects: NotRequired[dict[str, Effect]]
    cautions: NotRequired[list[str]]
    assumes: NotRequired[list[str]]
    sentence: NotRequired[str | None]
    more_runs: NotRequired[int | None]


class HypothesisBody(FoldKeys):
    """A row of the kind `hypothesis`."""

    id: str
    statement: str
    prior: float
    prediction: PredictionBody
    params: Json | None
    tags: list[str]
    created_at: str
    created_by: str | None
    parked: bool
    restated: NotRequired[bool]
    archived: NotRequired[bool]
    checked_for_secrets: NotRequired[bool]


class ResourcesBody(TypedDict):
    """What one run of an experiment needs at most."""

    gpus: int
    gpu_memory_bytes: int | None
    cpus: int | None
    wall_s: float | None
    no_output_s: NotRequired[float | None]
    memory_bytes: NotRequired[int | None]
    nodes: NotRequired[int | None]
    scheduler: NotRequired[str | None]
    engine: NotRequired[Json]
    isolate: NotRequired[bool]
    worktree: NotRequired[str | None]
    needs_artifacts: NotRequired[list[str]]


class Proxy(TypedDict):
    """A cheaper stand-in for an experiment: the words that its command gets, and what it costs."""

    args: str
    cost_run_hours: float
    tau: float


class GuardBody(TypedDict):
    """What may not get worse by more than the margin, in the metric's units."""

    metric: str
    direction: str
    margin: float


class DesignBody(TypedDict):
    """The prediction that approval freezes."""

    metric: str | None
    direction: str | None
    kind: str
    baseline: float | str | None
    claim: str | None
    mde: float | None
    noise: float | None
    tau: float | None
    replicates: int
    cost_run_hours: float | None
    paired: bool
    on_crash: NotRequired[str | None]
    confirmation: NotRequired[bool]
    proxy: NotRequired[Proxy | None]
    proxy_of: NotRequired[str | None]
    changes: NotRequired[str | None]
    null_effect: NotRequired[float | None]
    items: NotRequired[int | None]
    baseline_runs: NotRequired[int | None]
    guards: NotRequired[list[GuardBody] | None]
    stop_rule: NotRequired[str | None]
    runs_of: NotRequired[str | None]
    underpowered: NotRequired[bool]


class ScoreBody(TypedDict):
    """Why an experiment has its place in the queue."""

    information_gain_bits: float | None
    cost_run_hours: float | None
    score: float | None
    reason: str


class SpecificationBody(TypedDict):
    """What approval binds."""

    command: str | None
    cwd: str | None
    env: dict[str, str]
    config: Json
    resources: ResourcesBody
    design: DesignBody


class Seal(TypedDict):
    """The field that makes an approval count here: a keyed hash of all that approval wrote."""

    approved_mark: str


class SeenBefore(TypedDict, total=False):
    """What had been measured when a claim was proposed, as `perpetual.lab.evidence.warnings.seen_before` says."""

    seen_before: list[str]
    passed_over: list[str]


class DraftBody(SpecificationBody, SeenBefore):
    """An experiment that is to be proposed."""

    hypothesis_id: str | None


class ExperimentBody(DraftBody):
    """A row of the kind `experiment`; `status` and `runs` are folds of its runs."""

    id: str
    title: str
    status: ExperimentStatus
    notes: str
    tags: list[str]
    priority: int
    spec_hash: str
    score: ScoreBody
    runs: dict[str, int]
    proposed_by: str
    created_at: str
    approved_by: str | None
    approved_at: NotRequired[str]
    approved_hash: NotRequired[str]
    approved_mark: NotRequired[str]
    approved_code: NotRequired[CodeStateDocument]
    cautions: NotRequired[list[str]]
    after: NotRequired[list[str]]
    group: NotRequired[str | None]
    extends: NotRequired[str | None]
    extended_by: NotRequired[list[str]]
    renews: NotRequired[str | None]
    renewed_by: NotRequired[list[str]]
    shared_by: NotRequired[list[str]]
    archived: NotRequired[bool]
    checked_for_secrets: NotRequired[bool]


class GitBody(TypedDict):
    """The code that a run started from."""

    commit: str | None
    dirty: bool | None


class ArtifactBody(TypedDict):
    """A file that a run left to keep."""

    path: str
    size_bytes: int
    sha256: str | None


class StoppedBody(TypedDict):
    """Why and where a run was stopped early; `at_step` is where complete runs of both arms had stood at its step."""

    by: str
    why: str
    step: float
    value: float
    at_step: dict[str, float]


class RunBody(TypedDict):
    """A row of the kind `run`."""

    id: str
    experiment_id: str
    hypothesis_id: str | None
    attempt: int
    replicate: int
    status: RunStatus
    seed: int
    spec_hash: str
    scheduler: str
    native_id: str | None
    pid: int | None
    gpus: list[str]
    wanted_gpus: list[int]
    started_at: str | None
    ended_at: str | None
    duration_s: float | None
    exit_code: int | None
    signal: int | None
    reason: str | None
    gpu_hours: float | None
    run_hours: float | None
    metrics: dict[str, float | None]
    metric_sources: dict[str, str]
    items: NotRequired[str | None]
    log_dir: str
    git: GitBody
    tainted: bool
    chosen_seed: bool
    created_at: str
    created_by: str
    environment: NotRequired[str | None]
    held: NotRequired[bool]
    priority: NotRequired[int | None]
    stashed: NotRequired[str | None]
    stashed_by: NotRequired[str]
    max_rss_bytes: NotRequired[int | None]
    cpu_s: NotRequired[float | None]
    is_seed_known: NotRequired[bool]
    gpu_numbers: NotRequired[list[int]]
    annotations: NotRequired[list[Annotation]]
    versions: NotRequired[Versions]
    host: NotRequired[str | None]
    pending: NotRequired[bool]
    nonce: NotRequired[str]
    launcher: NotRequired[tuple[str, int, int]]  # boot id, pid and start, as JSON a list
    launcher_host: NotRequired[str]
    launching_at: NotRequired[str]
    launch_over: NotRequired[bool]
    lives_in: NotRequired[str]
    grace_s: NotRequired[float]
    cancel_grace_s: NotRequired[float]
    cancelled_by: NotRequired[str]
    stopped: NotRequired[StoppedBody | None]
    on_overrun: NotRequired[str]
    analysed: NotRequired[bool]
    analysis: NotRequired[list[str]]
    code_held: NotRequired[bool]
    code_accepted: NotRequired[list[str]]
    code_accepted_mark: NotRequired[str]
    provenance_sha256: NotRequired[str]
    artifacts: NotRequired[list[ArtifactBody]]
    needs: NotRequired[list[Need]]
    shares_folder: NotRequired[bool]
    isolated: NotRequired[str | None]
    kept: NotRequired[KeptCode]
    kept_mark: NotRequired[str]
    requeued: NotRequired[int]
    found_again: NotRequired[bool]
    checked_for_secrets: NotRequired[bool]


class _EvidenceFacts(TypedDict):
    """What rows of evidence say, each sort some of it."""

    kind: EvidenceKind
    metric: NotRequired[str | None]
    verdict: NotRequired[str | None]
    strength: NotRequired[float | None]
    log_odds: NotRequired[float | None]
    target: NotRequired[str]
    seed: NotRequired[int | None]
    replicate: NotRequired[int]
    source: NotRequired[str | None]
    spec_hash: NotRequired[str]
    status: NotRequired[RunStatus]
    versions: NotRequired[Versions | None]
    post_hoc: NotRequired[bool]
    judge: NotRequired[str]  # this one and the next two are the fold's own, and never written
    bounded: NotRequired[bool]
    content_hash: NotRequired[str]


class NewEvidence(_EvidenceFacts):
    """A row of evidence before the ledger has taken it."""

    experiment_id: NotRequired[str | None]
    run_id: NotRequired[str | None]
    value: NotRequired[float | None]
    weight: NotRequired[float]
    reason: NotRequired[str | None]


class EvidenceBody(_EvidenceFacts):
    """A row of the ledger `evidence`."""

    hypothesis_id: str
    experiment_id: str | None
    run_id: str | None
    value: float | None
    log_bayes_factor: float | None
    weight: float
    actor: str
    created_at: str
    reason: str | None


class FoldRow(EvidenceBody):
    """A row of evidence as the fold takes it: numbered, and with the owner of an opinion."""

    id: str
    no: int
    design_id: str | None


class Model(TypedDict, total=False):
    """A design as `perpetual.science.confidence` takes it."""

    model: str
    metric: str | None
    mu1: float | None
    mu0: float
    mde: float | None
    sigma: float | None
    tau: float | None
    s0: float | None
    nu0: float
    claim: str
    on_crash: str | None
    one_sided: bool
    null: float
    rate: float
    baseline_count: list[float]
    typed_n: float | None
    baseline_id: str
    baseline: list[float]
    baseline_seeds: list[int | None]
    paired: bool
    luck: float | None
    lost: list[float | None]
    baseline_lost: list[float | None]
    stopped: list[tuple[int, float]]
    rung: list[tuple[int, float]]
    baseline_stopped: list[tuple[int, float]]
    baseline_rung: list[tuple[int, float]]
    equal: str
    baseline_equal: str
    share: float
    stale: list[str]
    warnings: list[str]
    guard_of: str
    margin: float


class DebitBody(TypedDict):
    """A row of the ledger `debit`: of a run, or a `use` of a request, which has `key`, `day` and `uses` instead."""

    run_id: str
    experiment_id: str
    hypothesis_id: str | None
    kind: str
    gpu_hours: float
    run_hours: float
    created_at: str
    key: NotRequired[str]
    day: NotRequired[str]
    uses: NotRequired[dict[str, float]]


class EventBody(TypedDict):
    """A row of the ledger `event`."""

    time: str
    actor: str
    kind: str
    subject: str
    payload: Json


class NoteBody(TypedDict):
    """A row of the kind `note`; `exposed` and `promoted` are numbers and hashes of versions."""

    path: str
    type: str
    status: NoteStatus
    title: str
    actor: str
    commit: str | None
    blob: str
    updated_at: str
    intent: NotRequired[int]
    exposed: int | None
    promoted: NotRequired[int | None]
    earlier: NotRequired[list[tuple[int, bool]]]  # versions that were promoted before, each with whether it is proven
    proven: NotRequired[bool]


class IntentBody(TypedDict):
    """A row of the ledger `intent`: a note as it is to be committed."""

    path: str
    author: str
    message: str
    when: str
    content: str
    blob: str


class VerdictBody(TypedDict):
    """A row of the ledger `verdict`: what the gates said of a version of a note."""

    path: str
    blob: str | None
    outcome: Outcome
    category: str | None
    findings: list[Finding]
    content: str | None
    actor: str
    time: str


class KeyBody(TypedDict):
    """A row of the kind `key`: what was made under an idempotency key."""

    deed: str
    made: str
