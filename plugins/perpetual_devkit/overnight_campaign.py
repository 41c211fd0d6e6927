"""The campaign of an overnight test, as a program: sets a project up and registers claims, crashes and hangs.

Everything has an idempotency key and seeds derive from the project's fixed id, so two projects with the same number of
claims train on the same seeds. A claim is decided only once all its replicates are measured: verdict and confidence
then depend on no order of runs.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from perpetual import Lab
from perpetual.toolkit.atomic import write_atomic

__all__ = ["CLAIMS", "METRIC", "PROJECT_ID", "REPLICATES", "Task", "set_up"]

PROJECT_ID = "perpetual-overnight-0001"
METRIC = "score"
REPLICATES = 2  # of each arm
MOST_RUNS = 3  # live at once
_NO_OUTPUT_S = 1.0
_WALL_S = 60.0
_COST_RUN_HOURS = 0.0005
_COMMENTED = 5  # of the newest runs: a comment takes longer than a run
_ANY_ATTEMPTS = 50  # how often a replicate may be tried again after the loss of its run
METHODOLOGY: dict[str, object] = {
    "auto_approve": True,
    "auto_propose": False,  # what is registered is what runs, so that it comes out the same however it is interrupted
    "auto_retry": ["lost", "oom", "preempted"],
    "exploration_strategy": "round_robin",
    "kill_grace_s": 1.0,
    "max_attempts": _ANY_ATTEMPTS,
    "max_concurrent_runs": MOST_RUNS,
    "min_information_gain_bits": 0.0,
    "min_replicates": REPLICATES,
    "memory_write_on_completion": True,
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that a treatment raises the score by `effect`, on so many GPUs."""

    name: str
    effect: float
    gpus: int = 0


# In this order, and from the first again where there are to be more.
CLAIMS = (Claim("gain", 0.6), Claim("loss", -0.6), Claim("on a GPU", 0.6, gpus=1), Claim("little", 0.15))


@dataclass(frozen=True, slots=True)
class Task:
    """What the program is to set up: a project in `folder`, and so many claims with runs of `seconds`."""

    folder: str
    kept_in: str  # the name of a store
    claims: int
    seconds: float
    gpu: bool = False
    model: str | None = None  # the URL of the model server that comments on runs


def set_up(task: Task) -> bool:
    """Creates the project and registers its claims; what is there already stays as it is.

    Returns whether it asks the model: only where a plugin brings thinkers.
    """
    folder = Path(task.folder)
    with Lab.init(folder, store=task.kept_in, project_id=PROJECT_ID, methodology=METHODOLOGY) as lab:
        write_atomic(folder / "train.py", Path(__file__).with_name("overnight_run.py").read_bytes(), mode=0o644)
        if task.gpu:
            lab.settings.set_config("gpus", "overnight")
        asks = task.model is not None and "thinker" in lab.registry.slots
        if asks:
            words = [sys.executable, os.path.join(os.path.dirname(__file__), "overnight_model.py"), task.model]
            lab.settings.set_config("plugins.thinker.command.command", json.dumps(words))
            lab.settings.set_config("plugins.thinker.command.timeout_s", "2")
            lab.settings.set_config("plugins.thinkers.analyse_runs", str(_COMMENTED))
            lab.settings.set_config("plugins.thinkers.propose", "false")
            lab.settings.set_config("plugins.thinkers.verdicts", "false")  # the runs alone decide
            lab.settings.set_config("slots.thinker", "command")
        for number in range(1, task.claims + 1):
            _register(lab, number, CLAIMS[(number - 1) % len(CLAIMS)], task)
            if number in (1, 2, 3):
                _spoilt(lab, ("crash", "oom", "hang")[number - 1], task)
    return asks


def _register(lab: Lab, number: int, claim: Claim, task: Task) -> None:
    hypothesis = lab.hypotheses.add(
        f"Change {number} ({claim.name}) raises the score.",
        metric=METRIC, direction="max", mde=0.3, idempotency_key=f"{number}:hypothesis",
    )  # fmt: skip
    arms = [
        (None, number * 1e-6, "baseline"),  # a command of its own for each, so that no two share a baseline
        (hypothesis.id, round(claim.effect + number * 1e-6, 6), "treatment"),
    ]
    baseline: str | None = None
    for hypothesis_id, effect, name in arms:
        made = lab.experiments.propose(
            hypothesis_id,
            command=_command(task, "--effect", repr(effect)),
            title=f"{name} {number}",
            metric=METRIC,
            direction="max",
            baseline=baseline,
            paired=None if baseline is None else True,
            replicates=REPLICATES,
            cost_run_hours=_COST_RUN_HOURS,
            wall_s=_WALL_S,
            gpus=claim.gpus if task.gpu and baseline is not None else 0,
            idempotency_key=f"{number}:{name}",
        )
        baseline = made.id


def _spoilt(lab: Lab, fault: str, task: Task) -> None:
    """Registers an experiment without a claim that crashes, runs out of memory once, or hangs."""
    lab.experiments.propose(
        command=_command(task, "--fault", fault), title=fault, metric=METRIC, direction="max", wall_s=_WALL_S,
        cost_run_hours=_COST_RUN_HOURS, no_output_s=_NO_OUTPUT_S if fault == "hang" else None,
        idempotency_key=fault,
    )  # fmt: skip


def _command(task: Task, *arguments: str) -> str:
    words = arguments if "--fault" in arguments else ("--fault", "none", *arguments)
    return shlex.join([sys.executable, "-S", "train.py", "--seconds", repr(task.seconds), *words])


def main() -> int:
    """Reads the task as one line of JSON from standard input, and answers whether a model is asked."""
    asks = set_up(Task(**json.loads(sys.stdin.readline())))
    sys.stdout.write(json.dumps({"asks": asks}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
