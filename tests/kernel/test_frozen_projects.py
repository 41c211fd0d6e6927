"""Projects that an earlier Perpetual made, kept as they were: a later one must read them, and write on.

`tests/fixtures/projects/N` holds a project of release N with each bundled store, and the export of its record: 1 of the
first one, 2 of the one that brought trust, nonces and versions of the code. They are never made anew: a change that
cannot read them needs an upgrade (`perpetual.lab.schema_upgrades`). Their evidence was weighed by earlier rules: the
first opening folds it anew, which one event says.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.testing.projects import trust_project
from perpetual.toolkit.status_file import RULES

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


_FOLDED = {
    "confidence", "log_odds", "e_support", "e_refute", "false_alarm_bound", "n_measured", "counting", "flags",
    "decided_by", "effect", "assumes", "sentence", "more_runs", "needs", "cautions",
}  # fmt: skip


def _rows(export: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The bodies of an export's rows, by kind and id."""
    found = [json.loads(line) for line in export.read_text().splitlines()]
    return {(row["kind"], row["id"]): row["body"] for row in found if "kind" in row}


def _changed_rules(lab: Lab) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in lab.events() if event.kind == "rules_changed"]


def test_a_kept_project_is_read_as_it_was(frozen: tuple[Lab, Path], tmp_path: Path) -> None:
    lab, export = frozen
    assert lab.storage.verify() == []
    lab.storage.export_file(tmp_path / "again.jsonl")
    kept, found = _rows(export), _rows(tmp_path / "again.jsonl")
    (added,) = found.keys() - kept.keys()
    assert (added[0], found[added]["kind"]) == ("event", "rules_changed")
    assert kept.keys() < found.keys()
    for key, body in kept.items():
        if key[0] == "hypothesis":  # what was stated stays; what follows from the ledger is new
            assert {name: value for name, value in body.items() if name not in _FOLDED} == {
                name: value for name, value in found[key].items() if name not in _FOLDED
            }
        else:
            assert found[key] == body
    statuses = {item.id: item.status for item in lab.hypotheses.list().items}
    assert statuses == {"h1": "supported", "h2": "open", "h3": "open"}
    runs = {run.id: run.status for run in lab.runs.list().items}
    assert runs == {"r1": "done", "r2": "done", "r3": "failed"}
    assert lab.memory.read("notes/warm-up.md") == "# Warm-up\n\nuseful from 300 steps on\n"
    assert lab.budget.totals()["limit_gpu_hours"] == 8.0


def test_a_kept_project_is_folded_anew_once(frozen: tuple[Lab, Path]) -> None:
    lab, export = frozen
    (told,) = _changed_rules(lab)
    assert told["rules"] == RULES
    assert [*told["hypotheses"]] == ["h1"], "the only one with measured evidence"
    was, now = told["hypotheses"]["h1"]["was"], told["hypotheses"]["h1"]["is"]
    before, after = _rows(export)["hypothesis", "h1"], lab.hypotheses.get("h1")
    assert {name: was[name] for name in ("confidence", "e_support")} == {
        name: before[name] for name in ("confidence", "e_support")
    }
    assert (now["confidence"], now["status"]) == (after.confidence, after.status)
    assert now["e_support"] < was["e_support"], "two runs of unknown noise say less than they did"
    assert (after.sentence or "").startswith("Leans to help:")
    with Lab.open(lab.root) as again:
        assert _changed_rules(again) == [told]
        assert again.storage.verify() == []


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
        with Lab.open(tmp_path / export.parent.name) as lab:
            assert [[*told["hypotheses"]] for told in _changed_rules(lab)] == [["h1"]]
            assert lab.storage.verify() == []
            assert [item.id for item in lab.hypotheses.list().items] == ["h1", "h2", "h3"]
