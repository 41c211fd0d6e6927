"""A project with a measured run and one without a value, made once, and a thinker that says what a test wants."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.testing.projects import trust_project
from perpetual_thinkers.base import Reply, Request, Thinker, ThinkerError
from perpetual_thinkers.thinking import Thinking

PROGRAM = "import sys\nif '--dry' not in sys.argv: print('score:', 0.61)\n"
NEVER = threading.Event()
Answer = str | Reply | Exception


class Scripted(Thinker):
    """Answers what it was given, the last answer again and again; keeps the requests."""

    def __init__(self, *answers: object) -> None:
        self.answers = [one if isinstance(one, (str, Reply, Exception)) else json.dumps(one) for one in answers]
        self.asked: list[Request] = []

    def think(self, request: Request) -> Reply:
        self.asked.append(request)
        if not self.answers:
            raise ThinkerError("it has nothing to say")
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Reply) else Reply(found, 100, 20, 0.01, "scripted-1")


class Clock:
    """A time that a test moves on."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def on(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture(scope="session")
def measured(fresh_project: Path, tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Path:
    """h1 with e1, which measured 0.61, and e2, which makes no claim and gave no value."""
    folder = tmp_path_factory.mktemp("measured") / "project"
    shutil.copytree(fresh_project, folder)
    trust_project(folder)
    (folder / "train.py").write_text(PROGRAM)
    with Lab.open(folder, actor="user:test") as lab:
        lab.settings.set_methodology("proposal_batch_size", "2")
        lab.settings.set_config("slots.thinker", "command")
        claim = lab.hypotheses.add("smaller steps help", metric="score", direction="max", mde=0.1, baseline=0.5)
        for more in ({"noise": 0.1}, {"claim": "none"}):
            words = f"{sys.executable} train.py --lr 0.1 --opt adam" + (" --dry" if "claim" in more else "")
            made = lab.experiments.propose(claim.id, command=words, cost_run_hours=0.01, config={"layers": 2}, **more)
            lab.experiments.approve(made.id)
            lab.runs.launch(made.id)
            lab.wait([made.id], timeout_s=60)
    return folder


@pytest.fixture
def root(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is also the working directory."""
    folder = tmp_path / "project"
    shutil.copytree(measured, folder)
    trust_project(folder, like=measured)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def lab(root: Path, clock: Clock) -> Iterator[Lab]:
    with Lab.open(root, actor="agent:thinker-scripted", clock=clock) as lab:
        yield lab


@pytest.fixture
def person(root: Path) -> Iterator[Lab]:
    with Lab.open(root, actor="user:test") as lab:
        yield lab


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def thinking(lab: Lab, clock: Clock) -> Callable[..., Thinking]:
    """Makes the work of a thinker on the lab: `thinking(thinker)`."""

    def make(thinker: Thinker, **options: object) -> Thinking:
        return Thinking(lab, thinker, "command", now=clock, draw=lambda: 0.5)

    return make


def steps(thinking: Thinking, most: int = 20) -> int:
    """Does all there is to do; returns how many steps it took."""
    for number in range(most):
        if not thinking.step(NEVER):
            return number
    return most
