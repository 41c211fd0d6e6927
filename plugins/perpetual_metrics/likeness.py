"""Experiments that repeat another one but for a change: what proposers of variations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.api import Experiment

__all__ = ["arguments_like"]


def arguments_like(item: Experiment) -> dict[str, object]:
    """Returns the arguments of `lab.experiments.propose` that repeat an experiment, but for its command and config."""
    design, resources = item.design, item.resources
    return {
        "cwd": item.cwd,
        "env": item.env,
        "kind": design.kind,
        "claim": design.claim,
        "on_crash": design.on_crash,
        "metric": design.metric,
        "direction": design.direction,
        "mde": design.mde,
        "noise": design.noise,
        "tau": design.tau,
        "baseline": design.baseline,
        "paired": design.paired,
        "items": design.items,
        "baseline_runs": design.baseline_runs,
        "guards": [f"{guard['metric']}:{guard['direction']}:{guard['margin']!r}" for guard in design.guards or ()],
        "stop_rule": design.stop_rule,
        "cost_run_hours": design.cost_run_hours,
        "gpus": resources.gpus,
        "cpus": resources.cpus,
        "gpu_memory_bytes": resources.gpu_memory_bytes,
        "memory_bytes": resources.memory_bytes,
        "nodes": resources.nodes,
        "scheduler": resources.scheduler,
        "engine": resources.engine,
        "wall_s": resources.wall_s,
        "no_output_s": resources.no_output_s,
        "isolate": resources.isolate,
    }
