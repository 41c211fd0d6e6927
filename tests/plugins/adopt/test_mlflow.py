"""MLflow's runs, from samples that MLflow itself wrote: both stores answer the same."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run

SAMPLES = Path(__file__).parents[2] / "fixtures" / "adopt"
STORES = ("mlruns", "mlflow.db")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def adopt(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """The document that `perpetual adopt` answers."""
    capsys.readouterr()
    assert run(["adopt", *words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, project: Path) -> str:
    """One of the two samples, beside the project."""
    source, target = SAMPLES / request.param, project / request.param
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
    return str(request.param)


def bytes_of(path: Path) -> dict[str, bytes]:
    """Every file at or below a path."""
    files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    return {str(item): item.read_bytes() for item in files}


def test_runs_with_all_that_is_known_of_them(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = bytes_of(Path(store))
    told = adopt(capsys, "--metric", "val/loss", "--experiment", "vision/resnet ünïcode ☃")
    assert (told["kind"], told["hypotheses"], told["experiments"], told["runs"]) == ("mlflow", 1, 3, 3)
    assert told["evidence"] == 2
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        assert lab.evidence.refold(check=True) == []
        base, child, crashed = lab.runs.list().items[::-1]
        experiments = lab.experiments.list().items
        statement = lab.hypotheses.get("h1").statement
        body = lab.context.need("run", "r1").body["adopted"]
        series = [json.loads(row) for row in (lab.runs.log_dir("r1") / "metrics.jsonl").read_text().splitlines()]
    assert statement.startswith("MLflow experiment vision/resnet ünïcode ☃")
    assert [item.title for item in experiments] == ["base/line ☃", "child", "crashing"]
    assert experiments[0].config == {"lr": "0.1", "opt/name": "sgd"}
    assert (base.status, child.status, crashed.status) == ("done", "done", "failed")
    assert base.metrics == {"broken": None, "endless": None, "val/loss": 0.25}
    assert base.git.commit == COMMIT
    assert body["tags"]["team"] == "räumlich"
    assert "Child of the run" in experiments[1].notes
    assert child.seed == 7
    assert crashed.reason == "MLflow says FAILED"
    assert base.started_at is not None
    assert base.ended_at is not None
    assert base.started_at < base.ended_at
    assert base.run_hours == pytest.approx((base.duration_s or 0.0) / 3600.0)
    assert base.gpu_hours is None
    losses = [(row["step"], row["val/loss"]) for row in series if "val/loss" in row]
    assert losses == [(0, 1.0), (1, 0.5), (2, 0.25)]
    assert [row["broken"] for row in series if "broken" in row] == ["nan"]
    assert bytes_of(Path(store)) == before


def test_deleted_and_running_mlflow_runs_are_left_out(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = adopt(capsys)
    assert (told["hypotheses"], told["runs"]) == (2, 4)
    left = {item["what"].split(" (")[0]: item["why"] for item in told["skipped"]}
    assert left == {
        "run still going": "it is RUNNING there; adopt again when it has ended",
        "run thrown away": "it was deleted there",
        "experiment a deleted one": "it was deleted there",
    }
    with Lab.open() as lab:
        assert {run.status for run in lab.runs.list().items} == {"done", "failed", "killed"}
        assert lab.evidence.list().items == ()


def test_adopting_mlflow_twice_adds_nothing(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = adopt(capsys), adopt(capsys)
    assert first["runs"] == second["known"]["runs"] == 4
    assert (second["hypotheses"], second["experiments"], second["runs"]) == (0, 0, 0)


@pytest.mark.slow
def test_a_missing_folder_of_a_run_is_made_again(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    adopt(capsys)
    with Lab.open() as lab:
        folders = {path.name: bytes_of(path) for path in (lab.root / ".perpetual" / "runs").iterdir()}
    shutil.rmtree(".perpetual/runs")
    adopt(capsys)
    assert {path.name: bytes_of(path) for path in Path(".perpetual/runs").absolute().iterdir()} == folders


def test_two_stores_in_one_folder_are_distinguished_by_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLES / "mlruns", project / "mlruns")
    shutil.copyfile(SAMPLES / "mlflow.db", project / "mlflow.db")
    refused = adopt(capsys, code=2)
    assert "mlruns" in refused["error"]["message"]
    assert adopt(capsys, "sqlite:///mlflow.db")["runs"] == 4


def test_the_artifacts_of_a_database_are_no_file_store(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copyfile(SAMPLES / "mlflow.db", project / "mlflow.db")
    (project / "mlruns" / "1" / "abc" / "artifacts").mkdir(parents=True)
    assert adopt(capsys)["runs"] == 4


def test_artifacts_are_listed_and_not_copied(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLES / "mlruns", project / "mlruns")
    adopt(capsys, "--experiment", "vision/resnet ünïcode ☃")
    with Lab.open() as lab:
        origin = lab.context.need("run", "r1").body["adopted"]
        names = {path.name for path in lab.runs.log_dir("r1").iterdir()}
    assert origin["artifacts"] == [{"path": "models/model.txt", "bytes": 7}]
    assert names == {"adopted.json", "metrics.jsonl"}


def test_rows_that_are_only_in_the_log_of_a_database_are_read(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copyfile(SAMPLES / "mlflow.db", project / "mlflow.db")
    with closing(sqlite3.connect("mlflow.db", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("PRAGMA wal_autocheckpoint=0")
        writer.execute("UPDATE runs SET status='FINISHED', end_time=start_time+1000 WHERE status='RUNNING'")
        before = sorted(path.name for path in project.iterdir())
        content = Path("mlflow.db").read_bytes()
        assert adopt(capsys)["runs"] == 5
        assert sorted(path.name for path in project.iterdir()) == before
        assert Path("mlflow.db").read_bytes() == content


def test_an_unknown_metric_is_a_wrong_option(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no run of" in adopt(capsys, "--metric", "val_loss", code=2)["error"]["message"]
    assert "has no experiment" in adopt(capsys, "--experiment", "nothing", code=2)["error"]["message"]
    assert "more or less endless" in adopt(capsys, "--metric", "endless", code=2)["error"]["message"]
    assert adopt(capsys, "--direction", "max", code=2)["error"]["code"] == "usage"


def test_the_next_commands_measure_the_best_again(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = adopt(capsys, "--metric", "val/loss")
    assert [("again: child" in step, "again: base/line" in step) for step in told["next"][:2]] == [
        (True, False),
        (False, True),
    ]
    assert told["next"][-1] == "perpetual approve e5 e6"


def test_the_option_from_chooses_between_two_tools(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLES / "mlruns", project / "mlruns")
    (project / "results.tsv").write_text("commit\tscore\tstatus\nabc1234\t0.5\tkeep\n")
    refused = adopt(capsys, code=2)["error"]
    assert refused["hint"] == "--from autoresearch or --from mlflow"
    assert "--from perpetual-agent" not in refused["hint"]
    assert adopt(capsys, "--from", "perpetual-agent", code=5)["error"]["code"] == "not_found"
    assert adopt(capsys, "--from", "mlflow")["runs"] == 4
    assert adopt(capsys, "results.tsv", "--direction", "max")["runs"] == 1
    hint = adopt(capsys, ".perpetual", code=5)["error"]["hint"]
    assert all(word in hint for word in ("graph.db", ".tsv", "mlruns/", "mlflow.db"))
