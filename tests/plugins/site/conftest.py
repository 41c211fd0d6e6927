"""A small record without runs of its own: people and an agent, a judgement, and names that want to be more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.testing.projects import trust_project

HOSTILE = 'a | b <script>alert(1)</script> "quoted" & `code` \u202eturned \x1b[31m'
NOTE = """# What helps

A [page](https://example.org/a?b=1) of zelda says so.

| a | b |
|---|---|
| 1 | 2 |
"""


@pytest.fixture(scope="module")
def campaign(
    fresh_project: Path, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path
) -> Path:
    """Hypotheses and experiments of a person and an agent; a judgement; notes accepted, waiting and rejected."""
    folder = tmp_path_factory.mktemp("campaign") / "project"
    shutil.copytree(fresh_project, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
        patch.setenv("PERPETUAL_CACHE_DIR", str(shared_cache))
        trust_project(folder)
        with Lab.open(folder, actor="user:zelda") as lab:
            base = lab.experiments.propose(
                None, command="python train.py --data /home/zelda/data", title="baseline of zelda",
                metric="../../loss", direction="min",
            )  # fmt: skip
            lab.experiments.approve(base.id)
            lab.hypotheses.add(HOSTILE, metric="../../loss", direction="min", baseline=base.id)
            lab.evidence.add("h1", verdict="supports", strength=0.6, why="a paper <img src=x> says so")
            lab.memory.write("notes/kept.md", NOTE)
            lab.memory.write("notes/waits.md", "# Waits\n\nNot yet seen.\n")
            lab.memory.write("notes/gone.md", "# Gone\n\nWas wrong.\n")
            lab.memory.promote("notes/kept.md", "seen by zelda")
            lab.memory.promote("notes/gone.md", "seen")
            lab.memory.reject("notes/gone.md", "wrong after all")
        with Lab.open(folder, actor="mcp:codex/1.2") as agents:
            agents.hypotheses.add("an agent says so")
    return folder


@pytest.fixture
def lab(campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The lab of a copy, whose folder is the working directory."""
    folder = tmp_path / "project"
    shutil.copytree(campaign, folder, symlinks=True)
    trust_project(folder, like=campaign)
    monkeypatch.chdir(folder)
    with Lab.open(folder) as opened:
        yield opened
