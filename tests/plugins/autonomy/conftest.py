"""A user's own configuration, and a lab in which an agent's experiments have run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.testing.projects import trust_project
from tests.support import LONG_S

AGENT = "agent:claude-code"
OWN = {"claim-run": {"run_hours": 0.1, "run_hours_per_day": 0.1, "incident_rate": 0.3, "proposers": [AGENT]}}
PROGRAM = "import sys\nprint('acc=0.5')\nsys.exit(int('--fail' in sys.argv))\n"


@pytest.fixture
def own() -> Callable[..., None]:
    """Writes the ceilings of the user's own configuration: `own(sections)`."""

    def write(sections: dict[str, Any] | None = None) -> None:
        path = Path(os.environ["HOME"], ".config", "perpetual", "config.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"plugins": {"autonomy": OWN if sections is None else sections}}))

    return write


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One experiment without incident earns a right, for tests of what follows."""
    monkeypatch.setattr("perpetual_autonomy.rights.clean_needed", lambda attempt, rate: attempt)


@pytest.fixture(scope="session")
def measured(fresh_project: Path, tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Path:
    """A project with the agent's claim h1 and its experiment e1, which a person approved and which has run."""
    folder = tmp_path_factory.mktemp("measured") / "project"
    shutil.copytree(fresh_project, folder)
    trust_project(folder)
    (folder / "train.py").write_text(PROGRAM)
    with Lab.open(folder, actor=AGENT) as agent, Lab.open(folder, actor="user:test") as person:
        agent.hypotheses.add("smaller steps help", metric="acc", direction="max", mde=0.1, baseline=0.5, prior=0.6)
        ran(agent, person, 0.1)
    return folder


@pytest.fixture
def agent(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The agent in a copy of it, which is the working directory."""
    folder = tmp_path / "project"
    shutil.copytree(measured, folder)
    trust_project(folder, like=measured)
    monkeypatch.chdir(folder)
    with Lab.open(folder, actor=AGENT) as lab:
        yield lab


@pytest.fixture
def person(agent: Lab) -> Iterator[Lab]:
    with Lab.open(agent.root, actor="user:test") as lab:
        yield lab


@pytest.fixture
def loop(agent: Lab) -> Iterator[Lab]:
    with Lab.open(agent.root, actor="loop") as lab:
        yield lab


def propose(lab: Lab, number: float, words: str = "", **given: Any) -> str:
    """The id of a proposal of the same program with another number."""
    command = f"python3 train.py --lr {number}{words}"
    made = lab.experiments.propose("h1", command=command, **{"cost_run_hours": 0.01, "noise": 0.3, **given})
    return made.id


def ran(agent: Lab, person: Lab, number: float, words: str = "", **given: Any) -> str:
    """The id of an experiment that a person approved and that has ended."""
    id = propose(agent, number, words, **given)
    person.experiments.approve(id)
    person.wait([run.id for run in person.runs.launch(id)], timeout_s=LONG_S)
    return id
