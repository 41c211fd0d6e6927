"""Runs of a command that no experiment has: a baseline or an exploration is made for it. Used by `run COMMAND`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from perpetual.api import NotPermitted, PerpetualError, UsageError, line
from perpetual.toolkit.units import counted, shown_number

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Run
    from perpetual.documents.runs import RunPlan

__all__ = ["Launch", "Spec", "is_id", "measured_line", "plan", "refuse_spec", "start"]

_LONGEST_TITLE = 80


def is_id(word: str) -> bool:
    """Returns whether a word has the form of an id: such a word never names a program."""
    return re.fullmatch(r"[hervHERV]\d+", word.strip(), re.ASCII) is not None


class Spec(TypedDict, total=False):
    """What is said of an experiment that `run COMMAND` makes; what is left out is as `propose` has it."""

    replicates: int | None
    metric: str | None
    direction: str | None
    title: str | None
    wall_s: float | None
    gpus: int | None
    tags: Sequence[str] | None


class Launch(NamedTuple):
    """What is asked of the runs."""

    command: str | None
    every: bool = False
    seed: int | None = None
    gpus: Sequence[int] = ()
    key: str | None = None
    isolate: bool = False

    def start(self, lab: Lab, id: str) -> Sequence[Run]:
        """Starts runs of an experiment."""
        return lab.runs.launch(id, command=self.command, every=self.every, seed=self.seed, gpus=self.gpus,
                               isolate=self.isolate, idempotency_key=self.key)  # fmt: skip

    def plan(self, lab: Lab, id: str) -> RunPlan:
        """Returns what `start` would do."""
        return lab.runs.plan(id, command=self.command, every=self.every, seed=self.seed, gpus=self.gpus,
                             isolate=self.isolate)  # fmt: skip


def refuse_spec(spec: Spec, id: str) -> None:
    """Raises UsageError where something is said of an experiment that exists."""
    given = [name for name, value in spec.items() if value is not None]
    if given:
        flag = {"wall_s": "wall", "tags": "tag"}.get(given[0], given[0])
        raise UsageError(f"--{flag} is for a COMMAND without an experiment, not for {id}",
                         hint=f"perpetual experiments {id} shows what it has")  # fmt: skip


def plan(lab: Lab, spec: Spec, launch: Launch) -> RunPlan:
    """Returns what would be started, after every check that `start` makes; nothing is written.

    Raises:
        NotPermitted: for an agent.
        PerpetualError: as `lab.experiments.propose` and `lab.runs.plan`.
    """
    _refuse_agents(lab)
    found: list[RunPlan] = []
    with lab.together(undo=True):
        found.append(launch.plan(lab, _proposed(lab, spec, launch, key=None)))
    return found[0]


def start(lab: Lab, spec: Spec, launch: Launch) -> Sequence[Run]:
    """Makes an experiment for the command and starts its runs: typing the command approves it.

    Nothing stays behind where the command cannot be started.

    Raises:
        As `plan`.
    """
    _refuse_agents(lab)
    if launch.key is None:
        plan(lab, spec, launch)
    id = _proposed(lab, spec, launch, key=launch.key and f"{launch.key}:experiment")
    try:
        return launch.start(lab, id)
    except PerpetualError:
        if lab.experiments.get(id).status == "proposed":
            lab.experiments.withdraw(id, why="its command could not be started")
        raise


def _proposed(lab: Lab, spec: Spec, launch: Launch, *, key: str | None) -> str:
    title = spec.get("title") or line(launch.command)
    cut = title if len(title) <= _LONGEST_TITLE or spec.get("title") else title[: _LONGEST_TITLE - 3] + "..."
    given = {name: value for name, value in spec.items() if value is not None}
    return lab.experiments.propose(**{**given, "title": cut}, idempotency_key=key).id  # type: ignore[arg-type]


def _refuse_agents(lab: Lab) -> None:
    if lab.settings.withholds:
        raise NotPermitted(
            "running a command without an approved experiment is for a person",
            hint="perpetual propose --command '...' proposes it, for a person to approve",
        )


def measured_line(runs: Sequence[Run], metric: str | None) -> str | None:
    """Returns mean and spread of what these runs measured; None without a metric that they all have."""
    names = [metric] if metric is not None else [*{name: None for run in runs for name in run.metrics}]
    if len(names) != 1:
        return None
    values = [value for run in runs if run.status == "done" and (value := run.metrics.get(names[0])) is not None]
    if not values:
        return None
    if len(values) > 1 and len({*values}) == 1:
        return f"{line(names[0])}: {shown_number(values[0])} in all {len(values)} runs; do they use PERPETUAL_SEED?"
    spread = f", sd {shown_number(stdev(values))}" if len(values) > 1 else ""
    return f"{line(names[0])}: mean {shown_number(fmean(values), '.4g')}{spread}; {counted(len(values), 'run')}"
