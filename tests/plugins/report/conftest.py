"""A small campaign, run once for the module: every sort of row, and names that want to be more than names."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.testing.projects import trust_project
from perpetual.toolkit.agents import AGENT_VARIABLES

HOSTILE = 'a | b <script>alert(1)</script> "quoted" & `code` # **x** $y_1$ \u202eturned \x1b[31m'
TRAIN = """
import os, random, sys
random.seed(int(os.environ["PERPETUAL_SEED"]))
value = float(sys.argv[1]) + random.gauss(0.0, 0.01)
if "silent" in sys.argv:
    raise SystemExit(0)
print(f"epoch 1: loss={value + 0.5:.6f}")
print(f"loss={value!r} steps=120")
raise SystemExit(3 if "crash" in sys.argv else 0)
"""


def settle(lab: Lab, experiment_id: str) -> None:
    """Approves an experiment, runs every replicate and waits for them."""
    lab.experiments.approve(experiment_id)
    lab.wait([run.id for run in lab.runs.launch(experiment_id, every=True)], timeout_s=60)


def propose(lab: Lab, hypothesis_id: str | None, words: str, *, title: str, replicates: int) -> str:
    """An experiment that prints a loss."""
    command = f"{sys.executable} train.py {words}"
    design: dict[str, Any] = {"metric": "loss", "direction": "min", "cost_run_hours": 0.001, "noise": 0.01}
    design["wall_s"] = 600.0  # a machine that stands still for a while must not end one of them
    made = lab.experiments.propose(hypothesis_id, command=command, title=title, replicates=replicates, **design)
    return made.id


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path) -> Path:
    """h1 supported, h2 refuted, judged and partly taken back, h3 only crashes and silence, h4 untouched."""
    folder = tmp_path_factory.mktemp("report") / "project"
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith("PERPETUAL_") or name in AGENT_VARIABLES:
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
        patch.setenv("PERPETUAL_CACHE_DIR", str(shared_cache))
        # One run after the other: rows are numbered in the order in which runs end, and the tests name some of both.
        methodology = {"alpha": 0.1, "memory_write_on_completion": False, "max_concurrent_runs": 1}
        # The seeds derive from the project's id: with a fixed one every number is the same each time.
        with Lab.init(
            folder,
            name="<i>study</i>",
            project_id="report-tests-0001",
            budget_gpu_hours=2.0,
            methodology=methodology,
        ) as lab:
            (folder / "train.py").write_text(TRAIN)
            base = propose(lab, None, "2.0", title="baseline <b>", replicates=3)
            settle(lab, base)
            better = lab.hypotheses.add("warm-up helps", metric="loss", direction="min", mde=0.1, baseline=base)
            settle(lab, propose(lab, better.id, "1.8 --lr 0.1", title="warm-up", replicates=3))
            settle(lab, propose(lab, better.id, "1.85 --lr 0.2", title="warm-up, once", replicates=1))
            worse = lab.hypotheses.add(HOSTILE, metric="loss", direction="min", mde=0.1, baseline=base)
            settle(lab, propose(lab, worse.id, "2.1", title=HOSTILE, replicates=2))
            lab.evidence.add(worse.id, verdict="supports", strength=0.8, why="a paper <img src=x> says so")
            lab.evidence.retract("v5", why="it read the wrong file")
            lab.hypotheses.update(worse.id, confidence=0.1, why="prior study")
            dead = lab.hypotheses.add(
                "smoothing helps", prior=0.3, metric="loss", direction="min", mde=0.1, baseline=2.0
            )
            settle(lab, propose(lab, dead.id, "1.9 crash", title="crashes", replicates=1))
            settle(lab, propose(lab, dead.id, "1.9 silent", title="says nothing", replicates=1))
            lab.hypotheses.add("nobody tried")
            lab.memory.write("notes/a.md", "# A note <u>\nwords")
    return folder


@pytest.fixture
def study(campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the campaign of its own, as working directory."""
    folder = tmp_path / "study"
    shutil.copytree(campaign, folder, symlinks=True)
    trust_project(folder, like=campaign)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def lab(study: Path) -> Iterator[Lab]:
    """The copy's lab."""
    with Lab.open(study) as opened:
        yield opened
