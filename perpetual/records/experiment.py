"""Experiments: a command with a prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perpetual.records.lines import one_line
from perpetual.records.listing import Shown
from perpetual.records.states import ExperimentStatus

__all__ = ["Design", "Experiment", "Resources", "Score"]

Json = dict[str, object]


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
    isolate: bool = False  # each run starts in a copy of the code that was approved
    worktree: str | None = None  # the linked git worktree that it runs in, from the project's folder
    needs_artifacts: tuple[str, ...] = ()  # e3/model.pt: files that runs of experiments have left, which it starts from


@dataclass(frozen=True, slots=True)
class Design:
    """The prediction that approval freezes; `claim` None makes the experiment a baseline."""

    metric: str | None = None
    direction: str | None = None  # "max" or "min"
    kind: str = "gaussian"  # or "binary": the metric is 1 for success and 0 for failure
    baseline: float | str | None = None
    # "improves": better than nothing, planned for the mde; "at_least": better than the mde; "value": as large as it;
    # "any": some effect. In older projects "at_least" without `null_effect` means "improves".
    claim: str | None = None
    mde: float | None = None
    noise: float | None = None  # declared sd between seeds, in the metric's units
    tau: float | None = None  # sd between implementations of the same idea
    replicates: int = 1
    cost_run_hours: float | None = None
    paired: bool = False
    on_crash: str | None = None  # "supports" or "refutes", where "it runs at all" is a binary claim itself
    confirmation: bool = False  # measured on what no earlier experiment has looked at
    proxy: dict[str, Any] | None = None  # a cheaper stand-in: {args, cost_run_hours, tau}
    proxy_of: str | None = None  # the experiment that this one is the cheap stand-in for
    changes: str | None = None  # what is changed on purpose, beside the command: code, data or environment
    null_effect: float | None = None  # the effect that a support is tested against; None is none
    items: int | None = None  # test items behind each value: their luck counts
    baseline_runs: int | None = None  # runs that a number as baseline was measured with
    stop_rule: str | None = None  # `wall:SECONDS` or `exit:CODE`: a run that ends so counts at its last value
    runs_of: str | None = None  # the experiment whose runs it takes
    guards: list[Json] | None = None  # what may not get worse by more than a margin: {metric, direction, margin}
    underpowered: bool = False  # proposed although it was known to decide nothing


@dataclass(frozen=True, slots=True)
class Score:
    """Why this experiment has its place in the queue."""

    information_gain_bits: float | None
    cost_run_hours: float | None
    score: float | None  # bits per run-hour
    reason: str


@dataclass(frozen=True, slots=True)
class Experiment(Shown):
    """A command with a prediction. `status` and `runs` are folds of its runs."""

    id: str
    hypothesis_id: str | None
    title: str
    status: ExperimentStatus
    command: str | None
    cwd: str | None  # relative to the project's folder
    env: dict[str, str]
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
    # of an answer that shows results: {metric: {mean, sd, n}}, its effect, and how many runs count for nothing, by why
    metrics: Json | None = None
    effect: Json | None = None
    left_out: dict[str, int] | None = None
    archived: bool = False  # hidden from lists
    after: tuple[str, ...] = ()  # e3 or e3:any, which come first
    group: str | None = None  # of the queue
    differs: Json | None = None  # of an answer of `approve`: what is new beside what was approved like it

    def __post_init__(self) -> None:
        """Keeps the title, also of an old record, on one line: with another it could forge an answer's next one."""
        if not self.title.isprintable():
            object.__setattr__(self, "title", one_line(self.title))
