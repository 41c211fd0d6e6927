"""Projects that an earlier Perpetual made, kept as they were: a later one must read them, and write on.

`tests/fixtures/projects/N` holds a project of release N with each bundled store, and the export of its record: 1 of the
first one, 2 of the one that brought trust, nonces and versions of the code. They are never made anew: a change that
cannot read them needs an upgrade (`perpetual.lab.schema_upgrades`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.testing.projects import trust_project

PROJECTS = Path(__file__).parents[1] / "fixtures" / "projects"
KEPT = sorted(str(path.relative_to(PROJECTS)) for path in PROJECTS.glob("*/*") if path.is_dir())


@pytest.fixture(params=KEPT)
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """A copy of a kept project, and the export that belongs to it."""
    kept = PROJECTS / request.param
    shutil.copytree(kept / "perpetual", tmp_path / ".perpetual")
    trust_project(tmp_path)
    with Lab.open(tmp_path) as lab:
        yield lab, kept.parent / "export.jsonl"


def test_there_are_kept_projects() -> None:
    assert {"1/sqlite", "1/tinydb", "2/sqlite", "2/tinydb"} <= set(KEPT)


def test_a_kept_project_is_read_as_it_was(frozen: tuple[Lab, Path], tmp_path: Path) -> None:
    lab, export = frozen
    assert lab.storage.verify() == []
    lab.storage.export_file(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == export.read_bytes()
    statuses = {item.id: item.status for item in lab.hypotheses.list().items}
    assert statuses == {"h1": "supported", "h2": "open", "h3": "open"}
    runs = {run.id: run.status for run in lab.runs.list().items}
    assert runs == {"r1": "done", "r2": "done", "r3": "failed"}
    assert lab.memory.read("notes/warm-up.md") == "# Warm-up\n\nuseful from 300 steps on\n"
    assert lab.budget.totals()["limit_gpu_hours"] == 8.0


def test_a_kept_project_goes_on(frozen: tuple[Lab, Path]) -> None:
    lab, _ = frozen
    assert lab.hypotheses.add("written by a later version").id == "h4"
    assert lab.evidence.add("h2", verdict="supports", strength=0.5, why="seen here").hypothesis_id == "h2"
    lab.memory.write("notes/new.md", "the memory is rebuilt from the record\n")
    told = [version.message.splitlines()[0] for version in lab.memory.history("notes/warm-up.md")]
    assert told == ["change notes/warm-up.md", "first"]
    experiment = lab.experiments.approve(lab.experiments.propose(command="true", cost_run_hours=0.001, wall_s=60.0).id)
    run = lab.runs.launch(experiment.id)[0]
    assert (run.id, lab.wait([run.id], timeout_s=30)) == ("r4", {"r4": "done"})
    assert lab.storage.verify() == []


def test_a_kept_export_is_taken_over(tmp_path: Path) -> None:
    for export in sorted(PROJECTS.glob("*/export.jsonl")):
        with Lab.init(tmp_path / export.parent.name, name="later") as lab:
            lab.storage.import_file(export)
            assert lab.storage.verify() == []
            assert [item.id for item in lab.hypotheses.list().items] == ["h1", "h2", "h3"]
