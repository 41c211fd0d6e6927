"""What arrives in wandb, MLflow and trackio, read with the libraries' own readers; kills and a server that is away."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Secret
from perpetual_metrics.wandb_files import history
from perpetual_mirrors.for_mlflow import Mlflow
from perpetual_mirrors.pushing import push_all
from perpetual_mirrors.starting import push
from perpetual_mirrors.targets import folder_of, note_of
from tests.plugins.mirrors.test_mirrors import record
from tests.support import until

pytestmark = pytest.mark.slow


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


def test_wandb_folders_hold_every_value_also_after_a_kill(lab: Lab) -> None:
    """Killed while it pushes; afterwards each run is there once, whole, and its file is wandb's own."""
    record(lab, *(f"run {n}" for n in range(4)), steps=200)
    folder = folder_of(lab) / "wandb"
    words = [sys.executable, "-P", "-m", "perpetual_mirrors", str(lab.root), "wandb", "--answer"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: [*folder.glob("wandb/offline-run-*-r2")])  # begun only when r1 was noted as pushed
        process.send_signal(signal.SIGKILL)
    (found,) = push(lab, ["wandb"])
    assert (found["waiting"], found["error"]) == ([], None)
    assert "r1" not in found["pushed"]
    names = sorted(path.name.rpartition("-")[2] for path in folder.glob("wandb/offline-run-*"))
    assert names == ["r1", "r2", "r3", "r4"]
    for path in folder.glob("wandb/offline-run-*/run-*.wandb"):
        with path.open("rb") as file:
            values = [point.value for point in history(file) if point.name == "loss"]
        assert values == pytest.approx([1 / (1 + step) for step in range(200)])


@pytest.mark.filterwarnings("default")  # MLflow's use of SQLAlchemy is its own affair
def test_mlflow_has_points_parameters_and_the_end_and_a_server_that_is_away_harms_nothing(lab: Lab) -> None:
    record(lab, "a", "b")
    found = push_all(lab, "mlflow", Mlflow(None, None))
    assert found is not None
    assert (found["pushed"], found["error"]) == (["r1", "r2"], None)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{folder_of(lab) / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("test")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.`perpetual.run` = 'r1'")
    (run,) = runs
    assert (run.info.status, run.info.end_time - run.info.start_time) == ("FINISHED", 60_000)
    assert run.data.params == {"lr": "0.1", "net.width": "8"}
    assert run.data.tags["mlflow.source.git.commit"] == "c" * 40
    points = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "loss")]
    assert points == [(step, 1 / (1 + step)) for step in range(5)]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        away = push_all(lab, "away", Mlflow(None, Secret("plugins.mlflow.uri", lambda: address)))
    assert away is not None
    assert (away["pushed"], away["waiting"]) == ([], ["r1", "r2"])
    assert away["error"]
    assert note_of(folder_of(lab), "away").due_s


def test_trackio_has_every_value_once(lab: Lab) -> None:
    record(lab, "a", "b")
    (found,) = push(lab, ["trackio"])
    assert (found["pushed"], found["error"]) == (["r1", "r2"], None)
    (found,) = push(lab, ["trackio"], rebuild=True)
    assert (found["pushed"], found["error"]) == (["r1", "r2"], None)
    program = (
        "import json, trackio\n"
        "from trackio.sqlite_storage import SQLiteStorage as Store\n"
        "runs = sorted(trackio.Api().runs('test'), key=lambda run: run.name)\n"
        "print(json.dumps([[run.name, run.config['lr'], run.config['_Group'],"
        " [row['loss'] for row in Store.get_logs('test', run.name, run_id=run.id)]] for run in runs]))"
    )
    env = {**os.environ, "TRACKIO_DIR": found["folder"], "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=100)
    values = [pytest.approx(1 / (1 + step)) for step in range(5)]
    assert json.loads(done.stdout.splitlines()[-1]) == [
        ["r1 e1 warm-up", 0.1, "e1", values],
        ["r2 e1 warm-up", 0.1, "e1", values],
    ], done.stderr


def test_an_address_that_came_with_the_project_is_not_followed(lab: Lab) -> None:
    """Only what this user has set counts: a pulled file sends no run anywhere."""
    record(lab, "a")
    (lab.root / "address").write_text("http://127.0.0.1:9")
    path = lab.root / ".perpetual" / "config.yaml"
    text = path.read_text()
    assert "plugins:\n" in text
    path.write_text(text.replace("plugins:\n", "plugins:\n  mlflow:\n    uri: file:address\n", 1))
    (found,) = push(lab, ["mlflow"])
    assert found["pushed"] == []
    assert "not accepted" in (found["error"] or "")
    assert found["waiting"] == ["r1"]
