"""What other libraries measured, as the run's metrics; each driven by the real library."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual_export.for_optuna import TrialLogger
from perpetual_export.for_sklearn import log_folds

Lines = Callable[[], list[dict[str, object]]]


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lines:
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("PERPETUAL_METRICS", str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def test_optuna_s_trials_are_lines(lines: Lines) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise ValueError
        return float(x if trial.number else 5.0)

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=4, catch=(ValueError,), callbacks=[TrialLogger("loss")])
    found = lines()
    assert [line["trial_state"] for line in found] == ["complete", "pruned", "fail", "complete"]
    assert (found[0]["best_loss"], found[3]["best_loss"]) == (5.0, study.best_value)
    assert "trial_loss" not in found[1]
    assert [line["step"] for line in found] == [0, 1, 2, 3]
    assert found[3]["param_x"] == study.best_params["x"]


def test_several_objectives_have_no_best(lines: Lines) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=["minimize", "maximize"])
    study.optimize(lambda trial: (1.0, 2.0), n_trials=1, callbacks=[TrialLogger("loss")])
    assert lines() == [{"step": 0, "trial_state": "complete", "trial_loss": 1.0, "trial_value_1": 2.0}]


def test_folds_have_their_mean(lines: Lines) -> None:
    last = log_folds({"fit_time": [1.0, 2.0], "test_acc": [0.5, 1.0], "test_f1": [0.25, float("nan")]})
    assert (last["acc"], round(last["acc_sd"], 6)) == (0.75, 0.353553)
    found = lines()
    assert found[0] == {"step": 0, "fold_acc": 0.5, "fold_f1": 0.25}
    assert found[2]["f1"] == {"type": "float", "text": "nan"}
    assert log_folds({}) == {}


@pytest.mark.slow
def test_scikit_learn_s_answers_are_understood(lines: Lines) -> None:
    pytest.importorskip("sklearn")
    script = """
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from perpetual_export.for_sklearn import log_folds, log_search

X, y = load_digits(return_X_y=True)
model = LogisticRegression(max_iter=20)
log_folds(cross_validate(model, X[:300], y[:300], cv=3, scoring=["accuracy"]))
log_search(GridSearchCV(model, {"C": [0.01, 1.0]}, cv=3).fit(X[:300], y[:300]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=300)
    found = lines()
    assert {"accuracy", "accuracy_sd"} == found[3].keys()
    assert 0.5 < float(str(found[3]["accuracy"])) < 1.0
    assert found[-1].keys() == {"best_score", "candidates", "best_C"}
    assert found[-1]["best_score"] == max(float(str(line["candidate_score"])) for line in found[4:6])


@pytest.mark.slow
def test_hydra_s_jobs_are_ad_hoc_runs(tmp_path: Path) -> None:
    pytest.importorskip("hydra")
    (tmp_path / "conf.yaml").write_text(
        "defaults: [_self_]\nlr: 0.1\nnet: {width: 8, twice: '${net.width}'}\n"
        "hydra:\n  callbacks:\n    perpetual:\n      _target_: perpetual_export.for_hydra.JobRecorder\n"
    )
    (tmp_path / "train.py").write_text(
        "import hydra, perpetual\n"
        "@hydra.main(version_base='1.3', config_path='.', config_name='conf')\n"
        "def main(config):\n"
        "    perpetual.log(loss=config.lr * 2)\n"
        "    if config.lr > 1: raise ValueError('too large')\n"
        "main()\n"
    )
    with Lab.init(tmp_path, name="hydra") as lab:
        words = [sys.executable, "-W", "ignore", "train.py"]
        subprocess.run([*words, "-m", "lr=0.1,0.2"], cwd=tmp_path, check=True, timeout=300, capture_output=True)
        subprocess.run([*words, "lr=2"], cwd=tmp_path, check=False, timeout=300, capture_output=True)
        runs = [*lab.runs.all()]
        assert [(run.status, run.metrics) for run in runs] == [
            ("failed", {"loss": 4.0}), ("done", {"loss": 0.4}), ("done", {"loss": 0.2}),
        ]  # fmt: skip
        assert runs[0].reason == "ValueError: too large"
        experiment = lab.experiments.get(runs[1].experiment_id)
        assert experiment.config == {"lr": 0.2, "net": {"width": 8, "twice": 8}}
        assert (experiment.title, "hydra" in experiment.tags) == ("train", True)

        made = lab.experiments.propose(command=f"{sys.executable} -W ignore train.py lr=0.5", metric="loss",
                                       direction="min")  # fmt: skip
        lab.experiments.approve(made.id)
        launched = lab.runs.launch(made.id)[0]
        lab.wait([launched.id], timeout_s=100)
        found = lab.runs.get(launched.id)
        assert (found.status, found.metrics) == ("done", {"loss": 1.0})  # no run in the run
        assert json.loads((tmp_path / found.log_dir / "hydra.json").read_text())["lr"] == 0.5
        assert len([*lab.runs.all()]) == 4


@pytest.mark.slow
def test_a_real_kernel_runs_a_cell(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    script = """
import nbformat
from nbclient import NotebookClient

cells = [
    "%load_ext perpetual",
    "import perpetual\\nrun = perpetual.init('by hand')\\nperpetual.log(loss=1.5)\\nrun.finish()\\nprint(run.id)",
    "%%perpetual --metric loss --direction min\\nprint('loss:', 2.5)",
    "from perpetual import Lab\\nlab = Lab.open()\\nlab.runs.list()",
]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(book, timeout=120, kernel_name="python3").execute()
# On a busy machine the text of a cell comes in several outputs.
print("".join(found.get("text", "") for cell in book.cells[1:3] for found in cell.outputs))
print(book.cells[2].outputs[-1]["data"]["text/html"], book.cells[3].outputs[-1]["data"]["text/html"])
"""
    Lab.init(tmp_path, name="kernel").close()
    kernels = tmp_path / "share" / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    env = {**os.environ, "JUPYTER_PATH": str(tmp_path / "share" / "jupyter"), "IPYTHONDIR": str(tmp_path / "ipython")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "r1" in done.stdout
    assert "loss: 2.5" in done.stdout
    assert done.stdout.count("<table>") == 2


def test_the_recipes_are_python() -> None:
    """Libraries that are not installed here: at least what stands on the page can be parsed."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "notebooks.md").read_text()
    recipes = re.findall(r'^```python title="(for_\w+\.py)"\n(.*?)^```', page, re.M | re.S)
    assert [name for name, _ in recipes] == ["for_lightning.py", "for_transformers.py", "for_keras.py"]
    for name, text in recipes:
        assert "perpetual.log(" in text
        compile(text, name, "exec")
