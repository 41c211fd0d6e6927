"""The records that Python answers: frozen, typed, with units in the names. Floor 0.

Their JSON is the promise of the machine interface: `to_json(record)` gives exactly these keys, and the schemas in
`perpetual/cli/schemas/` are derived from these classes. A store keeps the same keys (and may keep more).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

__all__ = [
    "ENDED",
    "LIVE",
    "Debit",
    "Design",
    "Event",
    "Evidence",
    "Experiment",
    "GitState",
    "Hypothesis",
    "Listing",
    "Note",
    "Prediction",
    "Resources",
    "Run",
    "Score",
    "Verdict",
    "from_json",
    "to_json",
]

Json = dict[str, Any]

# The statuses of a run.
LIVE = ("queued", "launching", "running")
ENDED = ("done", "failed", "killed", "timeout", "lost")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a hypothesis says about a metric: the defaults of its experiments' designs."""

    metric: str | None = None
    direction: str | None = None  # "max" or "min"
    mde: float | None = None  # the effect that is weighed against none, in the metric's units
    baseline: float | str | None = None  # a number, or the id of a baseline experiment


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A claim and what the ledger says of it. `confidence` and everything after it are folds of the evidence."""

    id: str
    statement: str
    status: str  # open | supported | refuted | parked
    confidence: float
    prior: float
    e_support: float
    e_refute: float
    false_alarm_bound: float | None  # of the verdict, else of the side to which the evidence leans; None if by hand
    created_at: str
    tags: tuple[str, ...]
    evidence_count: int
    prediction: Prediction = field(default_factory=Prediction)
    params: Json | None = None  # a grid of values to try: {"lr": [0.1, 0.01]}
    created_by: str | None = None
    flags: tuple[str, ...] = ()  # warnings of the fold, e.g. "seed not applied"
    # Past a threshold, and not decided before: full_scale | confirmation | evidence | killed_runs.
    needs: str | None = None
    counting: int | None = None  # rows of evidence that count: not taken back, not weightless; None of older folds
    # Of its design with most runs: {value, low, high, n, n_baseline, metric, experiments, baseline, how}; positive is
    # better, in the metric's units; n_baseline is None against a number.
    effect: Json | None = None
    decided_by: str | None = None  # evidence | person | agent, of a hypothesis that is supported or refuted


@dataclass(frozen=True, slots=True)
class Resources:
    """What one run of an experiment needs at most."""

    gpus: int = 0
    gpu_memory_bytes: int | None = None
    cpus: int | None = None
    wall_s: float | None = None
    no_output_s: float | None = None  # a run that writes nothing for so long is ended
    memory_bytes: int | None = None  # main memory, on each node
    nodes: int | None = None  # machines; None is one, or what the scheduler's engine decides
    scheduler: str | None = None  # that starts its runs; None is the configured one
    engine: Json = field(default_factory=dict)  # the options of that scheduler which were asked for


@dataclass(frozen=True, slots=True)
class Design:
    """The prediction that approval freezes; `claim` None makes the experiment a baseline."""

    metric: str | None = None
    direction: str | None = None  # "max" or "min"
    kind: str = "gaussian"  # or "binary": the metric is 1 for success and 0 for failure
    baseline: float | str | None = None
    claim: str | None = None  # "at_least", "value": an effect of the mde is weighed against none; "any": some effect
    mde: float | None = None
    noise: float | None = None  # declared sd between seeds, in the metric's units
    tau: float | None = None  # sd between implementations of the same idea
    replicates: int = 1
    cost_run_hours: float | None = None
    paired: bool = False
    on_crash: str | None = None  # "supports" or "refutes", where "it runs at all" is a binary claim itself
    confirmation: bool = False  # measured on what no earlier experiment has looked at
    proxy: Json | None = None  # a cheaper stand-in: {args, cost_run_hours, tau}
    proxy_of: str | None = None  # the experiment that this one is the cheap stand-in for
    changes: str | None = None  # what is changed on purpose, beside the command: code, data or environment


@dataclass(frozen=True, slots=True)
class Score:
    """Why this experiment stands where it stands in the queue."""

    information_gain_bits: float | None
    cost_run_hours: float | None
    score: float | None  # bits per run-hour
    reason: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """A command with a prediction. `status` and `runs` are folds of its runs."""

    id: str
    hypothesis_id: str | None
    title: str
    status: str  # proposed | approved | rejected | expired | active | complete | analysed
    command: str | None
    cwd: str | None  # relative to the project's folder
    env: Json
    config: Json
    notes: str
    tags: tuple[str, ...]
    priority: int
    resources: Resources
    design: Design
    spec_hash: str
    score: Score
    runs: dict[str, int]
    proposed_by: str
    approved_by: str | None
    created_at: str
    extends: str | None = None  # the experiment of which this one is more replicates
    renews: str | None = None  # the baseline that it replaces under today's code
    cautions: tuple[str, ...] = ()  # of its hypothesis's, those that name it
    differs: Json | None = None  # of an answer of `approve`: what is new beside what was approved like it

    def __post_init__(self) -> None:
        """Keeps the title, also of an old record, on one line: with another it could forge an answer's next one."""
        if not self.title.isprintable():
            object.__setattr__(self, "title", one_line(self.title))


@dataclass(frozen=True, slots=True)
class GitState:
    """The code a run started from."""

    commit: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One process. `pid` is the command's; the supervisor's identity stands in the run's folder."""

    id: str
    experiment_id: str
    attempt: int
    replicate: int
    status: str  # queued | launching | running | done | failed | killed | timeout | lost
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
    annotations: tuple[Json, ...] = ()  # {kind, text, source}: what was seen beside the exit record; decides nothing
    chosen_seed: bool = False  # picked by hand, so that what it measured weighs nothing
    metric_sources: Json = field(default_factory=dict)  # the file and line that each metric was read from
    versions: Json = field(default_factory=dict)  # {code, data, environment} that it started with, null where unknown
    host: str | None = None  # the machine that it runs or ran on, by its name; null where that is not known
    pending: bool = False  # launching, and in the queue of its scheduler's engine, whose words are the reason


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row of the ledger. `log_bayes_factor` is the change in log odds that it made when it was added."""

    id: str
    hypothesis_id: str
    experiment_id: str | None
    run_id: str | None
    kind: str  # measured | judged | manual | retraction
    value: float | None
    log_bayes_factor: float | None
    weight: float
    actor: str
    created_at: str
    retracted_by: str | None
    reason: str | None
    metric: str | None = None
    verdict: str | None = None
    strength: float | None = None
    log_odds: float | None = None
    target: str | None = None
    seed: int | None = None
    replicate: int | None = None
    source: str | None = None  # the file and line of the run's folder that the value was read from


@dataclass(frozen=True, slots=True)
class Debit:
    """One line of the budget's ledger: a reservation, or the settlement that ends it."""

    id: str
    run_id: str
    experiment_id: str
    hypothesis_id: str | None
    kind: str  # reserve | settle | correct (by how much more or less a lost run had used)
    gpu_hours: float
    run_hours: float
    created_at: str


@dataclass(frozen=True, slots=True)
class Note:
    """A memory note; its path is its identity."""

    path: str
    type: str
    status: str  # candidate | quarantined | promoted | rejected | expired
    title: str
    actor: str
    commit: str | None
    blob: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gates say of a text."""

    outcome: str  # pass | quarantine | reject
    blocked: bool
    category: str | None
    findings: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the feed."""

    seq: int
    time: str
    actor: str
    kind: str
    subject: str
    payload: Json


T = TypeVar("T")


class Listing(NamedTuple, Generic[T]):
    """A page of records; `next_cursor` is None on the last one."""

    items: tuple[T, ...]
    next_cursor: str | None


R = TypeVar("R")

_NESTED: dict[tuple[str, str], type] = {
    ("Hypothesis", "prediction"): Prediction,
    ("Experiment", "resources"): Resources,
    ("Experiment", "design"): Design,
    ("Experiment", "score"): Score,
    ("Run", "git"): GitState,
}


def one_line(text: str) -> str:
    """The text on one line: white space as single blanks, other control characters written as their escapes."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " if c.isspace() else _escape(ord(c)) for c in text)
    return " ".join(text.split())


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def from_json(cls: type[R], data: Mapping[str, Any]) -> R:
    """The record of class `cls` in a stored body; keys that the class does not have are left aside.

    Raises:
        KeyError: naming a key that must be there.
    """
    values: dict[str, Any] = {}
    for spec in fields(cast(Any, cls)):
        if spec.name not in data:
            continue  # the class has a default, or its constructor names what is missing
        value = data[spec.name]
        if spec.name == "seed" and data.get("is_seed_known") is False:
            value = None  # older records hold 0 there
        nested = _NESTED.get((cls.__name__, spec.name))
        if nested is not None and value is not None:
            value = from_json(nested, value)
        elif isinstance(value, list):
            value = tuple(value)
        values[spec.name] = value
    try:
        return cls(**values)
    except TypeError as problem:
        raise KeyError(f"{cls.__name__}: {problem}") from problem


def to_json(record: Any) -> Any:
    """The JSON of a record: its fields as they are, tuples as lists."""
    if is_dataclass(record) and not isinstance(record, type):
        return {spec.name: to_json(getattr(record, spec.name)) for spec in fields(record)}
    if isinstance(record, (list, tuple)):
        return [to_json(item) for item in record]
    if isinstance(record, dict):
        return {key: to_json(item) for key, item in record.items()}
    return record
