"""A perpetual-agent project is taken over in its place: moved aside whole, and put into a project of ours."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run

SAMPLE = Path(__file__).parents[2] / "fixtures" / "adopt" / "agent"
BACKUP = ".perpetual-agent-backup"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with such a project, as working directory."""
    folder = tmp_path / "old"
    shutil.copytree(SAMPLE, folder / ".perpetual")
    monkeypatch.chdir(folder)
    return folder


def adopt(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """The document that `perpetual adopt` answers."""
    capsys.readouterr()
    assert run(["adopt", *words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def change(folder: Path, statement: str, *values: object) -> None:
    """One statement on its database."""
    with closing(sqlite3.connect(folder / "graph.db")) as connection, connection:
        connection.execute(statement, values)


def test_the_project_is_moved_aside_whole_and_taken_over(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = bytes_of(old / ".perpetual")
    told = adopt(capsys)
    assert told["moved"] == {"from": str(old / ".perpetual"), "to": str(old / BACKUP)}
    assert bytes_of(old / BACKUP) == before
    assert [told[name] for name in ("hypotheses", "experiments", "runs", "notes")] == [3, 6, 4, 2]
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        assert lab.evidence.refold(check=True) == []
        assert lab.config["project"] == "old lab"
        claims = lab.hypotheses.list().items
        rows = lab.evidence.list().items
        experiments = lab.experiments.list().items
        text = lab.memory.read("details/lr.md")
        actors = {event.actor for event in lab.events() if event.kind not in ("project_created", "budget_set")}
    assert [(item.status, item.confidence, item.prior) for item in claims] == [
        ("open", pytest.approx(0.7), 0.6),
        ("parked", 0.5, 0.5),
        ("supported", pytest.approx(0.9), 0.75),
    ]
    assert [(row.kind, row.hypothesis_id, row.reason) for row in rows] == [
        ("manual", "h1", "typed in perpetual-agent"),
        ("manual", "h3", "typed in perpetual-agent"),
    ]
    assert [item.status for item in experiments] == [*["analysed"] * 3, "proposed", "proposed", "analysed"]
    assert experiments[0].config == {"lr": 0.1}
    assert experiments[1].config == {"value": [1, 2]}
    assert experiments[0].command == "echo val_loss: 0.25"
    assert experiments[1].command == "sh -c 'echo oops >&2; exit 3'"
    assert text == "# Learning rate\n0.1 works"
    assert actors == {"adopt:perpetual-agent"}


def test_a_guess_is_called_one(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adopt(capsys)
    with Lab.open() as lab:
        first, second, third, guessed = lab.runs.list().items[::-1]
        log = lab.runs.logs("r1")["text"]
    assert (first.status, first.exit_code, first.reason, first.metrics) == ("done", 0, None, {"val_loss": 0.25})
    assert first.metric_sources == {"val_loss": "stdout.log:1"}
    assert log == "val_loss: 0.25\n"
    assert (second.status, second.exit_code, second.gpus) == ("failed", 3, ("0", "1"))
    assert (third.status, third.reason) == ("killed", "killed with perpetual-agent")
    # It ended with status 4; the earlier tool recorded no status and called it done.
    assert (guessed.status, guessed.exit_code, guessed.ended_at) == ("done", None, None)
    assert guessed.reason == "perpetual-agent took it for done; its exit status was never recorded"


def test_omitted_records_are_listed(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = {item["what"]: item["why"] for item in adopt(capsys)["skipped"]}
    assert left["note bad.md"] == "the note bad.md was rejected: prompt_injection"
    assert left["approval of exp-005"] == "an approval binds a whole specification; a person gives it anew"
    assert not [what for what in left if "report_interval_hours" in what]  # which means the same here
    assert left["prior 1.0 of hyp-003"] == "no belief can be that: 0.9999 stands for it"
    assert not [what for what in left if "max_concurrent_runs" in what]


def test_the_budget_of_the_adopted_project_goes_on(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(old / ".perpetual", "UPDATE budget_log SET gpu_hours = 150.0 WHERE experiment_id = 'exp-006'")
    change(old / ".perpetual", "INSERT INTO budget_log (experiment_id, gpu_hours) VALUES (NULL, 2.0)")
    budget = adopt(capsys)["budget"]
    assert budget["limit_gpu_hours"] == 100.0
    assert budget["debited_gpu_hours"] == pytest.approx(150.0, abs=1e-3)
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        totals = lab.budget.totals()
    assert totals["spent_gpu_hours"] == pytest.approx(150.0, abs=1e-3)
    assert (totals["reserved_gpu_hours"], totals["left_gpu_hours"]) == (0.0, 0.0)
    again = adopt(capsys)
    assert again["budget"]["debited_gpu_hours"] == 0.0
    assert [item for item in again["skipped"] if item["what"].startswith("2.000 GPU-hours")]


def test_a_methodology_is_carried_over_key_by_key(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old / ".perpetual" / "methodology.yaml").write_text(
        "max_concurrent_runs: 2\nconfidence_support_threshold: 0.9\nauto_approve: true\n"
        "exploration_strategy: bayesian\nproposal_batch_size: many\nnonsense: 1\n"
    )
    left = [item["what"] for item in adopt(capsys)["skipped"] if item["what"].startswith("methodology")]
    assert sorted(left) == [
        "methodology auto_approve: True",
        "methodology exploration_strategy: bayesian",
        "methodology nonsense: 1",
        "methodology proposal_batch_size: many",
    ]
    with Lab.open() as lab:
        methodology = lab.config.methodology
        assert (methodology["max_concurrent_runs"], methodology["confidence_support_threshold"]) == (2, 0.9)
        assert methodology["auto_approve"] is False


def test_adopting_a_project_twice_adds_nothing(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adopt(capsys)
    with Lab.open() as lab:
        seq = lab.status()["seq"]
    again = adopt(capsys)
    assert [again[name] for name in ("hypotheses", "experiments", "runs", "notes", "moved")] == [0, 0, 0, 0, None]
    assert again["known"] == {"hypotheses": 3, "experiments": 6, "runs": 4, "notes": 2}
    with Lab.open() as lab:
        assert lab.status()["seq"] == seq


def test_a_dry_run_moves_nothing(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = bytes_of(old)
    told = adopt(capsys, "--dry-run")
    assert (told["dry_run"], told["experiments"], told["moved"]["to"]) == (True, 6, str(old / BACKUP))
    assert bytes_of(old) == before
    assert run(["adopt", "--dry-run"]) == 0
    assert "would be moved" in capsys.readouterr().out


def test_a_folder_of_the_backup_s_name_keeps_it(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old / BACKUP).mkdir()
    assert adopt(capsys)["moved"]["to"] == str(old / f"{BACKUP}-2")
    assert not any((old / BACKUP).iterdir())


def test_an_agent_does_not_move_a_person_s_files(
    old: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bytes_of(old)
    monkeypatch.setenv("CLAUDECODE", "1")
    assert adopt(capsys, code=4)["error"]["code"] == "not_permitted"
    assert bytes_of(old) == before


def test_a_takeover_that_was_cut_off_after_the_move_goes_on(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.rename(old / ".perpetual", old / BACKUP)
    told = adopt(capsys)
    assert (told["experiments"], told["moved"], told["budget"]["limit_gpu_hours"]) == (6, None, 100.0)
    assert told["budget"]["debited_gpu_hours"] > 0


def test_a_takeover_that_was_cut_off_after_the_init_goes_on(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.rename(old / ".perpetual", old / BACKUP)
    Lab.init(old, name="old lab").close()
    told = adopt(capsys)
    assert (told["experiments"], told["budget"]["limit_gpu_hours"]) == (6, 100.0)
    assert told["budget"]["debited_gpu_hours"] > 0


def test_from_another_project_nothing_is_moved_or_charged(
    old: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chdir(project)
    before = bytes_of(old)
    told = adopt(capsys, str(old))
    assert (told["moved"], told["experiments"], told["notes"]) == (None, 6, 2)
    assert told["budget"]["debited_gpu_hours"] == 0.0
    assert bytes_of(old) == before
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        paths = [note.path for note in lab.memory.list().items if note.status == "candidate"]
        assert lab.budget.limit_gpu_hours() is None
    assert {path.partition("/")[0] for path in paths} == {"adopted"}
    assert sorted(path.split("/", 2)[2] for path in paths) == ["details/lr.md", "project.md"]


def test_a_living_run_holds_the_move_up(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        told = {"pid": process.pid, "started_at": datetime.now(UTC).isoformat()}
        folder = old / ".perpetual" / "runs" / "exp-001"
        (folder / "done.json").unlink()
        (folder / "metadata.json").write_text(json.dumps(told))
        change(old / ".perpetual", "UPDATE experiments SET status = 'running' WHERE id = 'exp-001'")
        refused = adopt(capsys, code=6)
        assert f"exp-001 is still running (process {process.pid})" in refused["error"]["message"]
        assert (old / ".perpetual" / "graph.db").exists()
        process.communicate(b"\n")
    assert adopt(capsys)["runs"] == 4
    with Lab.open() as lab:
        first = lab.runs.get("r1")
    assert (first.status, first.reason) == (
        "lost",
        "perpetual-agent last knew it as running; how it ended was never recorded",
    )


@pytest.mark.slow
def test_a_number_that_another_process_was_given_holds_nothing_up(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = old / ".perpetual" / "runs" / "exp-001"
    (folder / "metadata.json").write_text(json.dumps({"pid": os.getpid(), "started_at": "2020-01-01T00:00:00+00:00"}))
    change(old / ".perpetual", "UPDATE experiments SET status = 'running' WHERE id = 'exp-001'")
    assert adopt(capsys)["runs"] == 4


def test_a_long_log_stays_where_it_is(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = old / ".perpetual" / "runs" / "exp-001" / "stdout.log"
    path.write_bytes(b"x" * (1024 * 1024 + 1))
    adopt(capsys)
    with Lab.open() as lab:
        (note,) = lab.runs.get("r1").annotations
        assert not (lab.runs.log_dir("r1") / "stdout.log").exists()
    assert note["kind"] == "log"
    assert note["source"] == str(old / BACKUP / "runs" / "exp-001" / "stdout.log")


def test_adopted_experiments_are_not_approved(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adopt(capsys)
    assert run(["retry", "r2", "--json"]) == 4
    assert "adopted from earlier work" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run(["approve", "e2", "--json"]) == 6
    assert run(["run", "e4", "--json"]) == 4
    assert run(["run", "e4", "echo val_loss: 0.1", "--wait", "--json"]) == 0


@pytest.mark.parametrize("words", [("status",), ("init",)])
def test_the_other_commands_name_the_way(old: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert run([*words, "--json"]) == 6
    assert "perpetual adopt" in json.loads(capsys.readouterr().out)["error"]["hint"]


def test_a_metric_of_the_logs_becomes_evidence_without_weight(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt(capsys, "--metric", "val_loss", "--dry-run")["experiments"] == 6
    assert adopt(capsys, "--metric", "score", code=2)["error"]["code"] == "usage"
    assert adopt(capsys, "--metric", "val_loss")["evidence"] == 2
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        rows = [row for row in lab.evidence.list().items if row.kind == "measured"]
        assert lab.hypotheses.get("h1").confidence == pytest.approx(0.7)
    assert [(row.value, row.weight, row.source) for row in rows] == [
        (0.25, 0.0, "stdout.log:1"),
        (0.5, 0.0, "stdout.log:1"),
    ]


def test_settings_that_cannot_be_read_are_named(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old / ".perpetual" / "methodology.yaml").write_text("a: [1\n")
    (old / ".perpetual" / "config.yaml").write_text("project: 7\nbudget_gpu_hours: plenty\n")
    told = adopt(capsys)
    left = {item["what"] for item in told["skipped"]}
    assert {"methodology.yaml", "budget_gpu_hours"} <= left
    assert (told["project"], told["budget"]["limit_gpu_hours"]) == ("7", None)


def test_nothing_is_moved_where_another_project_is_meant(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bytes_of(old)
    capsys.readouterr()
    assert run(["--project", "a-slip", "adopt", str(old), "--json"]) == 5
    assert "a-slip" in json.loads(capsys.readouterr().out)["error"]["message"]
    shutil.copytree(SAMPLE, tmp_path / "other" / ".perpetual")
    monkeypatch.chdir(tmp_path / "other")
    assert adopt(capsys, str(old), code=6)["error"]["code"] == "foreign_project"
    assert bytes_of(old) == before
    monkeypatch.chdir(tmp_path)
    assert adopt(capsys, str(old))["moved"]["from"] == str(old / ".perpetual")


def test_a_project_that_is_named_is_taken_over_from_afar(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["--project", str(old), "adopt", str(old), "--json"]) == 0
    assert (old / BACKUP / "graph.db").exists()
    assert run(["--project", str(old), "status"]) == 0
