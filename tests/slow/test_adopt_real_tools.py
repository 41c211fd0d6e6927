"""Work that the real tools write today, taken over: MLflow through both of its local stores, perpetual-agent by its
command line.

Each tool is installed once into an environment of its own in the cache, at a pinned version; it never meets ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.toolkit.lock import FileLock
from tests.fixtures.registries import fetch

FIXTURES = Path(__file__).parents[1] / "fixtures" / "adopt"
OUTSIDE = dict(os.environ)  # before a test clears it: pip needs the user's own configuration
MLFLOW = ("mlflow-skinny==3.17.2", "sqlalchemy>=2,<3", "alembic>=1.10,<2")
AGENT = ("perpetual-agent==0.1.0",)
NAME = "vision/resnet ünïcode ☃"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def environment(what: tuple[str, ...]) -> Path:
    """The programs of an environment that holds these distributions, the same for every session that wants them."""
    cache = Path(OUTSIDE.get("XDG_CACHE_HOME") or Path(OUTSIDE["HOME"]) / ".cache")
    version = f"{sys.version_info.major}.{sys.version_info.minor} {what}"
    folder = cache / "perpetual-adopt-tools" / hashlib.sha256(version.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "installing.lock"):
        if not (folder / "installed").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], env=OUTSIDE, check=True)
            install = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            fetch([*install, "--disable-pip-version-check", *what], cwd=folder, env=OUTSIDE, limit_s=400)
            (folder / "installed").touch()
    return folder / "venv" / "bin"


def drive(python: Path, script: str, *words: str, folder: Path, **more: str) -> None:
    """Runs one of the writing scripts with a tool's own Python."""
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8", **more}
    done = subprocess.run(
        [str(python), str(FIXTURES / script), *words],
        cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def adopt(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The document that `perpetual adopt` answers."""
    capsys.readouterr()
    assert run(["adopt", *words, "--json"]) == 0, capsys.readouterr()
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def bytes_of(path: Path) -> dict[str, bytes]:
    """Every file at or below a path."""
    files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    return {str(item): item.read_bytes() for item in files}


@pytest.mark.parametrize(
    ("variables", "source"),
    [
        ({}, "mlflow.db"),  # what it does when nobody says anything
        ({"MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}, "mlflow.db"),
        ({"MLFLOW_TRACKING_URI": "file:./mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"}, "mlruns"),
    ],
    ids=["default", "sqlite", "files"],
)
def test_a_real_mlflow_store_is_adopted(
    project: Path, capsys: pytest.CaptureFixture[str], variables: dict[str, str], source: str
) -> None:
    drive(environment(MLFLOW) / "python", "write_mlflow.py", folder=project, **variables)
    before = bytes_of(project / source)
    told = adopt(capsys, "--metric", "val/loss")
    assert told["source"].endswith(source)
    assert [told[name] for name in ("hypotheses", "experiments", "runs", "evidence")] == [2, 4, 4, 2]
    assert sorted(item["why"] for item in told["skipped"]) == [
        "it is RUNNING there; adopt again when it has ended",
        "it was deleted there",
        "it was deleted there",
    ]
    assert bytes_of(project / source) == before
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        (claim,) = [item for item in lab.hypotheses.list().items if NAME in item.statement]
        titles = {item.id: item.title for item in lab.experiments.list(hypothesis_id=claim.id).items}
        runs = {titles[item.experiment_id]: item for item in lab.runs.list().items if item.experiment_id in titles}
        origin = lab.context.need("run", runs["base/line ☃"].id).body["adopted"]
        lines = (lab.runs.log_dir(runs["base/line ☃"].id) / "metrics.jsonl").read_text().splitlines()
    base = runs["base/line ☃"]
    assert base.metrics == {"broken": None, "endless": None, "val/loss": 0.25}
    assert base.git.commit == "0123456789abcdef0123456789abcdef01234567"
    assert (runs["child"].seed, runs["crashing"].status) == (7, "failed")
    assert [entry["path"] for entry in origin["artifacts"]] == ["models/model.txt"]
    assert [json.loads(line).get("val/loss") for line in lines[-3:]] == [1.0, 0.5, 0.25]
    assert adopt(capsys, source)["known"]["runs"] == 4


def test_mlflow_s_run_that_has_ended_since_is_taken_by_the_next_call(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = environment(MLFLOW) / "python"
    drive(python, "write_mlflow.py", folder=project)
    assert adopt(capsys)["runs"] == 4
    end = (
        "from mlflow.tracking import MlflowClient as C; c = C();"
        "[c.set_terminated(r.info.run_id) for r in c.search_runs(['0'], \"attributes.status = 'RUNNING'\")]"
    )
    subprocess.run([str(python), "-c", end], cwd=project, check=True, capture_output=True, timeout=100)
    again = adopt(capsys)
    assert (again["hypotheses"], again["runs"], again["known"]["runs"]) == (0, 1, 4)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the script reaps the runs with prctl")
def test_a_real_perpetual_agent_project_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = environment(AGENT)
    drive(Path(sys.executable), "write_agent.py", str(programs / "perpetual"), folder=tmp_path)
    monkeypatch.chdir(tmp_path)
    before = {str(Path(name).relative_to(tmp_path / ".perpetual")) for name in bytes_of(tmp_path / ".perpetual")}
    content = [*bytes_of(tmp_path / ".perpetual").values()]
    told = adopt(capsys)
    backup = Path(told["moved"]["to"])
    assert {str(Path(name).relative_to(backup)) for name in bytes_of(backup)} == before
    assert [*bytes_of(backup).values()] == content
    assert [told[name] for name in ("hypotheses", "experiments", "runs", "notes")] == [3, 6, 4, 2]
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        assert lab.evidence.refold(check=True) == []
        assert lab.budget.limit_gpu_hours() == 100.0
        runs = {item.experiment_id: item for item in lab.runs.list().items}
        statuses = [(item.status, round(item.confidence, 6)) for item in lab.hypotheses.list().items]
    assert statuses == [("open", 0.7), ("parked", 0.5), ("supported", 0.9)]
    assert runs["e1"].metrics == {"val_loss": 0.25}
    assert runs["e3"].reason == "killed with perpetual-agent"
    # Whether its watchdog lived long enough to see an exit status is chance; a guess is never told as one.
    for run_ in runs.values():
        assert run_.exit_code is not None or run_.reason is not None
    assert adopt(capsys)["known"] == {"hypotheses": 3, "experiments": 6, "runs": 4, "notes": 2}
