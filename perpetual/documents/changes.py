"""What `lab.experiments.edit` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpetual.documents import TypedDict


class ExperimentChanges(TypedDict, total=False):
    """New values of fields of `propose`; a field that is left out stays, and None clears it."""

    command: str | None
    title: str | None
    config: Mapping[str, object] | None
    notes: str
    cwd: str | None
    env: Mapping[str, str] | None
    tags: Sequence[str]
    priority: int
    metric: str | None
    direction: str | None
    mde: float | None
    noise: float | None
    tau: float | None
    baseline: float | str | None
    paired: bool | None
    items: int | None
    baseline_runs: int | None
    stop_rule: str | None
    guards: Sequence[str]
    kind: str
    claim: str | None
    on_crash: str | None
    confirmation: bool
    proxy: Mapping[str, object] | None
    proxy_of: str | None
    changes: str | None
    underpowered: bool
    replicates: int
    cost_run_hours: float | None
    gpus: int
    gpu_memory_bytes: int | None
    cpus: int | None
    wall_s: float | None
    no_output_s: float | None
    memory_bytes: int | None
    nodes: int | None
    scheduler: str | None
    engine: Mapping[str, object] | None
    isolate: bool | None
    needs_artifacts: Sequence[str]
