"""What the kernel's tests share: a lab with real runs, and a way to bring an experiment to a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.records import Experiment, Hypothesis

    Campaign = Callable[..., tuple[Hypothesis, Experiment]]


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    """A fresh project's lab; what it started has ended when the test is over."""
    from perpetual import Lab

    opened = Lab.open(project)
    yield opened
    opened.queue.set_state("paused")
    for run in [*opened.runs.live()]:
        if opened.runs.get(run.id).status in ("queued", "launching", "running"):
            opened.runs.kill(run.id, grace_s=0.0)
    opened.close()


@pytest.fixture
def campaign(lab: Lab) -> Campaign:
    """Makes a hypothesis "acc rises by 0.1 above 1.0" with an approved experiment.

    Called as `campaign(command, **design)`. The default command measures about 1.55, a little different for each
    seed; `value` asks for another first digit or two, e.g. `value="0.7"`.
    """

    def make(
        command: str | None = None, *, value: str = "1.5", approve: bool = True, **given: Any
    ) -> tuple[Hypothesis, Experiment]:
        hypothesis = lab.hypotheses.add(
            given.pop("statement", "acc rises"), metric="acc", direction="max", mde=0.1, baseline=1.0
        )
        specification = {"noise": 0.05, "replicates": 2, "cost_run_hours": 0.001, "wall_s": 60.0, **given}
        text = command or f"sh -c 'echo acc={value}$PERPETUAL_SEED'"
        experiment = lab.experiments.propose(hypothesis.id, command=text, **specification)
        if approve:
            experiment = lab.experiments.approve(experiment.id)
        return hypothesis, experiment

    return make
