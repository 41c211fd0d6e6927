"""What the commands of bundled plugins answer."""

from __future__ import annotations

from typing import Any

from perpetual_cli.documents.typed import TypedDict


class PolicySaidTrue(TypedDict):
    """Of the hypotheses said to be true with at least 0.8: how many, the share that is, and the mean confidence."""

    n: int
    true_share: float | None
    mean_confidence: float | None


class PolicyResult(TypedDict):
    """What a policy did in one cell; where `problem` says how it broke its contract, the figures are null.

    `low` and `high` bound `run_hours`, the mean of a campaign, by a 95 % bootstrap over campaigns; `undecided` is of
    the hypotheses of a campaign, in the mean. `error_rate` is of the decided ones. `false_support_rate` is the share of
    the untrue ones that were said to be supported; optional stopping can bring it to `false_support_bound` at most.
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
    said_true: PolicySaidTrue | None
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


class Chaos(TypedDict):
    """What was done and what came of it; `killed_in` counts the kills by what the writer was doing.

    `present` are those of the acknowledged transactions that are there, `transactions` all that are there: one whose
    writer died before it could answer may be there too. `kept` is the scratch folder if something is wrong.
    """

    store: str
    provider: str
    version: str
    python: str
    platform: str
    file_system: str | None
    seed: int
    kills: int
    writers: int
    killed_in: dict[str, int]
    acknowledged: int
    present: int
    transactions: int
    problems: list[str]
    duration_s: float
    kept: str | None
    ok: bool


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

    `checked` counts numbers, `pictures` those drawn again, `logs` the runs whose files were read again; `notes` say
    what could not be looked at.
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
    seed: int | None
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
    """Two arms and a metric: `difference` is a - b; `better` is named only where the interval excludes 0.

    `effect` is that of a claim (a) against its baseline (b), as its hypothesis shows it: positive is better.
    """

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
    effect: dict[str, Any] | None


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
    false_alarm_bound: float | None
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
