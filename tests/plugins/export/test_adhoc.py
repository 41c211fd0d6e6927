"""Ad-hoc runs: kept, marked, no evidence; and nothing that goes wrong with them reaches the training."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest

import perpetual
from perpetual import Lab
from perpetual.cli.app import run as run_command
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRun
from perpetual.toolkit.lock import FileLock
from perpetual_export import adhoc, run_log

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.chdir(tmp_path)
    with Lab.init(tmp_path, name="adhoc") as lab:
        yield lab
    adhoc.finish()
    assert run_log.sink is None


@pytest.fixture
def call(lab: Lab, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def printed_by(*arguments: str) -> str:
        capsys.readouterr()
        assert run_command([*arguments]) == 0, capsys.readouterr()
        return capsys.readouterr().out

    return printed_by


def left(lab: Lab) -> list[str]:
    return [path.name for path in (lab.root / ".perpetual" / "adhoc").iterdir()]


def script(lab: Lab, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    (lab.root / "train.py").write_text("import os, perpetual\n" + text)
    return subprocess.run(
        [sys.executable, "train.py"], cwd=lab.root, env={**os.environ, **env}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_a_run_is_kept_marked_and_no_evidence(lab: Lab) -> None:
    config = {"lr": 0.1, "seed": 3, "api_key": SECRET, "inf": float("inf"), "net": object()}
    with perpetual.init("first look", config=config, tags=["x"], metric="loss", direction="min") as run:
        assert run.is_recording
        perpetual.log(step=1, loss=2.0, key=SECRET)
        run.log(step=2, loss=1.5, acc=float("nan"))
    found = lab.runs.get(run.id or "")
    assert (found.status, found.seed, found.metrics) == ("done", 3, {"loss": 1.5, "acc": None})
    assert found.annotations[0]["kind"] == "ad-hoc"
    assert found.chosen_seed  # which takes every weight from what it measured
    experiment = lab.experiments.get(found.experiment_id)
    assert (experiment.title, experiment.hypothesis_id, experiment.approved_by) == ("first look", None, None)
    assert {"ad-hoc", "x"} <= {*experiment.tags}
    assert experiment.config["lr"] == 0.1
    assert (experiment.config["inf"], experiment.config["net"], "seed" in experiment.config) == ("inf", "object", False)
    assert [*lab.evidence.all()] == []
    series = (lab.root / found.log_dir / "metrics.jsonl").read_text()
    assert [json.loads(line)["loss"] for line in series.splitlines()] == [2.0, 1.5]
    assert SECRET not in series + json.dumps(experiment.config)
    assert left(lab) == []


def test_runs_of_one_configuration_are_replicates(lab: Lab) -> None:
    for seed in (1, 2):
        with perpetual.init("mlp", config=argparse.Namespace(lr=0.1, seed=seed)):
            perpetual.log(loss=seed)
    with perpetual.init("mlp", config=SimpleNamespace(lr=0.2)):
        pass
    runs = [(run.experiment_id, run.replicate, run.seed) for run in lab.runs.all()]
    assert runs == [("e2", 1, None), ("e1", 2, 2), ("e1", 1, 1)]


def test_runs_that_nobody_planned_are_no_share_of_a_plan(lab: Lab, call: Callable[..., str]) -> None:
    for seed in (1, 2, 3):
        perpetual.init("mlp", seed=seed).finish()
    perpetual.init("mlp", seed=4).finish(failed="it diverged")
    lab.experiments.propose(command="true", replicates=2)
    shown = call("experiments") + call("experiments", "e1")
    assert shown.count("3 done") == 2
    assert "(of 1)" not in shown
    assert "none (of 2)" in shown


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"metric": "loss", "direction": "sideways"}, "direction must be 'max' or 'min', not 'sideways'"),
        ({"metric": "loss", "direction": ["min"]}, "direction must be 'max' or 'min', not list"),
        ({"metric": "loss"}, "metric 'loss' needs a direction"),
        ({"metric": object(), "direction": "min"}, "metric must be a name, not 'object'"),
        ({"direction": "min"}, "direction belongs to a metric"),
        ({"seed": "abc"}, "seed must be a whole number from 0 on, not 'abc'"),
        ({"seed": -1}, "seed must be a whole number from 0 on, not -1"),
        ({"seed": True}, "seed must be a whole number from 0 on, not True"),
    ],
)
def test_what_is_of_no_use_is_said_once_and_the_run_goes_on(
    lab: Lab, capsys: pytest.CaptureFixture[str], given: dict[str, Any], words: str
) -> None:
    with perpetual.init("odd", **given) as run:
        perpetual.log(loss=1.0)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"perpetual.init: {words}")
    found = lab.runs.get(run.id or "")
    assert (found.status, found.seed, found.metrics) == ("done", None, {"loss": 1.0})
    assert lab.experiments.get(found.experiment_id).design.metric is None


def test_a_seed_of_another_library_is_one(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    class Scalar:
        def item(self) -> int:
            return 3

    with perpetual.init("numpy", seed=cast("int", Scalar())) as run:  # as numpy draws one
        pass
    assert lab.runs.get(run.id or "").seed == 3
    assert capsys.readouterr().err == ""


def test_what_is_no_name_of_a_metric_is_left_out_and_named(lab: Lab) -> None:
    with perpetual.init("names"):
        perpetual.log({"a\nb": 1, "\x1b[2J": 2, "": 3, "x" * 201: 4, "loss": 5})
    (run,) = lab.runs.list().items
    assert run.metrics == {"loss": 5.0}
    (said,) = [each["text"] for each in run.annotations if each["kind"] == "metrics"]
    assert said.startswith("no names of metrics, and left out: 'a\\nb', '\\x1b[2J', '' and 1 more")


def test_an_exception_passes_and_is_the_reason(lab: Lab) -> None:
    with pytest.raises(ZeroDivisionError), perpetual.init("a"):
        _ = 1 // 0
    with pytest.raises(KeyboardInterrupt), perpetual.init("b"):
        raise KeyboardInterrupt
    perpetual.init("c").finish(failed="it diverged")
    assert [(run.status, run.reason) for run in lab.runs.all()] == [
        ("failed", "it diverged"),
        ("killed", "KeyboardInterrupt"),
        ("failed", "ZeroDivisionError: integer division or modulo by zero"),
    ]


def test_without_init_nothing_is_recorded(lab: Lab) -> None:
    perpetual.log(loss=1.0)
    perpetual.finish()
    assert not (lab.root / ".perpetual" / "adhoc").exists()


def test_a_launched_run_is_answered_as_it_is(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERPETUAL_RUN", "r7")
    monkeypatch.setenv("PERPETUAL_METRICS", str(tmp_path / "m.jsonl"))
    with perpetual.init("again") as run:
        run.log(loss=1.0)
    assert (run.id, run.is_recording) == ("r7", False)
    assert json.loads((tmp_path / "m.jsonl").read_text()) == {"loss": 1.0}
    assert [*lab.runs.all()] == []


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK"])
def test_other_ranks_record_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "0")
    perpetual.init("rank 0").finish()
    monkeypatch.setenv(name, "3")
    with perpetual.init("rank 3") as run:
        perpetual.log(loss=1.0)
    assert not run.is_recording
    assert [run.experiment_id for run in lab.runs.all()] == ["e1"]


def test_a_forked_child_records_nothing(lab: Lab) -> None:
    done = script(
        lab,
        "run = perpetual.init('parent')\nperpetual.log(loss=1)\nchild = os.fork()\n"
        "if not child:\n    perpetual.log(loss=2)\n    run.finish()\n"
        "    raise SystemExit(perpetual.init().is_recording)\n"
        "assert os.waitpid(child, 0)[1] == 0\n",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [(run.status, run.metrics) for run in lab.runs.all()] == [("done", {"loss": 1.0})]


def test_the_end_of_a_script_is_the_run_s(lab: Lab) -> None:
    failed = script(lab, "perpetual.init(config={'lr': 1})\nperpetual.log(loss=1)\nraise ValueError('boom')\n")
    assert "ValueError: boom" in failed.stderr
    (run,) = lab.runs.all()
    assert (run.status, run.reason) == ("failed", "ValueError: boom")
    assert lab.experiments.get(run.experiment_id).command == "python train.py"


def test_a_killed_process_leaves_a_run_that_a_scan_calls_lost(lab: Lab) -> None:
    killed = script(lab, "perpetual.init()\nperpetual.log(loss=1)\nos.kill(os.getpid(), 9)\n")
    assert killed.returncode == -signal.SIGKILL
    assert [*lab.runs.all()] == []
    lab.scan()
    (run,) = lab.runs.all()
    assert (run.status, run.metrics, run.ended_at, run.run_hours) == ("lost", {"loss": 1.0}, None, None)
    lab.scan()
    assert (len([*lab.runs.all()]), left(lab)) == (1, [])


def test_a_scan_that_records_a_killed_one_says_no_nothing_has_changed(lab: Lab, call: Callable[..., str]) -> None:
    script(lab, "perpetual.init()\nos.kill(os.getpid(), 9)\n")
    assert call("scan") == "recorded: perpetual events shows what\n"
    assert call("scan") == "nothing has changed\n"


def test_a_live_run_is_shown_until_it_is_recorded(lab: Lab, call: Callable[..., str]) -> None:
    assert "ad-hoc" not in call("status") + call("runs")
    run = perpetual.init("live \x1b[31mone", metric="acc", direction="max")
    for step in range(3):
        perpetual.log(step=step, loss=1.0, acc=step / 4, **{SECRET: 1.0})
    with open(run_log.sink or "", "a") as file:
        file.write('{"step": 3, "acc": 0.9')  # torn: the line is being written
    for text in (call("status"), call("runs"), call("runs", "--status", "running")):
        assert "ad-hoc runs, not in the record yet and no evidence" in text
        assert f"one (pid {os.getpid()}): running" in text
        assert "step 2, acc 0.5, loss 1\n" in text
        assert "\x1b" not in text
        assert SECRET not in text
    for other in (("--status", "done"), ("--tag", "x")):
        assert "ad-hoc" not in call("runs", *other)
    found = json.loads(call("--json", "runs"))
    shape = json.loads((files("perpetual_cli") / "schemas" / "runs.json").read_text("utf-8"))
    jsonschema.validate(found, shape)
    (now,) = found["outside"]["ad-hoc"]["data"]["runs"]
    assert (now["state"], now["axis"], now["step"], now["metrics"]) == (
        "running",
        "step",
        2.0,
        {"acc": 0.5, "loss": 1.0},
    )
    assert ([*lab.runs.all()], [*lab.evidence.all()], [*lab.experiments.all()]) == ([], [], [])
    run.finish()
    assert lab.live_sections() == {}
    assert "ad-hoc runs" not in call("status")
    assert len([*lab.runs.all()]) == 1


def test_a_killed_process_is_shown_as_unfinished(lab: Lab, call: Callable[..., str]) -> None:
    script(lab, "perpetual.init('gone')\nperpetual.log(epoch=7, loss=float('nan'))\nos.kill(os.getpid(), 9)\n")
    text = call("status")
    assert "gone: its process ended without finish; perpetual scan records it as lost, epoch 7, loss not finite" in text
    folder = next((lab.root / ".perpetual" / "adhoc").iterdir())
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**facts, "host": "another"}))
    assert "not known here" in call("status")
    (folder / "run.json").write_text("[]")  # spoilt: a scan sets it aside
    assert "ad-hoc" not in call("status")
    (folder / "run.json").write_text(json.dumps(facts))
    lab.scan()
    assert lab.live_sections() == {}
    assert [run.status for run in lab.runs.all()] == ["lost"]


def test_a_run_that_goes_on_is_left_alone(lab: Lab) -> None:
    run = perpetual.init("live")
    lab.scan()
    assert [*lab.runs.all()] == []
    run.finish()
    assert [found.status for found in lab.runs.all()] == ["done"]


def test_nothing_that_goes_wrong_reaches_the_training(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def said() -> int:
        return len(capsys.readouterr().err.splitlines())

    run = perpetual.init("busy")
    with FileLock(lab.root / ".perpetual" / "adopt.lock"):
        run.finish()
    assert (run.id, said(), len(left(lab))) == (None, 1, 1)
    lab.scan()  # it ended in order, so it is recorded as it ended
    assert [found.status for found in lab.runs.all()] == ["done"]

    with monkeypatch.context() as patch:
        patch.setattr("perpetual.toolkit.atomic.write_atomic", _no_room)
        with perpetual.init("full") as run:
            perpetual.log(loss=1.0)
        assert (run.is_recording, said()) == (False, 1)
        patch.setattr("perpetual_export.adhoc._begin", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            perpetual.init("interrupted")
    elsewhere = tmp_path.parent
    monkeypatch.chdir(elsewhere)
    perpetual.init("no project here").finish()
    assert said() == 1
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "another user's"))
    perpetual.init("held", project=lab.root).finish()
    assert said() == 1
    monkeypatch.undo()
    assert len([*lab.runs.all()]) == 1


def _no_room(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_spoilt_folders_are_set_aside_and_hold_up_no_other(lab: Lab) -> None:
    base = lab.root / ".perpetual" / "adhoc"
    host = json.dumps({"host": "?"})
    spoilt = {"a": "{", "b": "[]", "c": '{"started_at": 5, "tags": 3, "config": 7}', "d": host}
    for name, text in spoilt.items():
        (base / name).mkdir(parents=True)
        (base / name / "run.json").write_text(text)
        (base / name / "metrics.jsonl").write_text('{"loss": 1}\n[[[[\n{"x": 1e999}\n{"to')
    (base / "e").mkdir()
    (base / "f").symlink_to(lab.root)
    (base / "c" / "end.json").write_text('{"status": "done", "duration_s": -5, "ended_at": "yesterday"}')
    perpetual.init("good")
    perpetual.finish()
    lab.scan()
    assert sorted(left(lab)) == ["a.unreadable", "b.unreadable", "c.unreadable", "d", "e.unreadable", "f"]
    assert [run.status for run in lab.runs.all()] == ["done"]


def test_two_runs_at_once_are_one(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    first = perpetual.init("first")
    assert perpetual.init("second") is first
    assert "a run has begun already" in capsys.readouterr().err
    perpetual.finish()
    first.finish()
    assert [run.experiment_id for run in lab.runs.all()] == ["e1"]


def test_an_ad_hoc_baseline_weighs_nothing(lab: Lab) -> None:
    """The same door as adopted work: what is put under a hypothesis there has a weight of 0."""
    claim = lab.hypotheses.add("it helps", metric="loss", direction="min")
    lab.imports.take(
        Batch(
            "export", "adhoc", "tests",
            [ImportedExperiment("e", None, "e", metric="loss", direction="min", hypothesis_id=claim.id),
             ImportedRun("r", "e", "done", metrics={"loss": 0.0})],
        )
    )  # fmt: skip
    assert [row.weight for row in lab.evidence.all()] == [0.0]
    assert lab.hypotheses.get(claim.id).confidence == 0.5


def test_texts_that_are_no_utf_8_lose_no_run(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    run = perpetual.init("odd \ud800", config={"k\ud800": 1}, tags="a\udcff", metric=" ", direction="min")
    run.log(**{"m\ud800": 1.0, "self": 2.0}, loss=3.0, text="\udfff", note="\U0001f600")
    run.finish()
    (said,) = capsys.readouterr().err.splitlines()
    assert "metric must be a name, not ' '" in said
    (found,) = lab.runs.all()
    assert found.metrics == {"m?": 1.0, "self": 2.0, "loss": 3.0}
    assert "a?" in lab.experiments.get(found.experiment_id).tags
    (line,) = (lab.root / found.log_dir / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["note"] == "\U0001f600"


def test_what_is_set_aside_is_said(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    run = perpetual.init("spoilt")
    (folder,) = (lab.root / ".perpetual" / "adhoc").iterdir()
    (folder / "run.json").write_text("[]")
    run.finish()
    assert f"its files stay in .perpetual/{adhoc.FOLDER}" in capsys.readouterr().err
    lab.scan()
    assert f"{folder}.unreadable" in capsys.readouterr().err


def test_folders_that_cannot_be_recorded_hold_up_no_other(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perpetual_export.left_over._MOST", 1)
    base = lab.root / ".perpetual" / "adhoc"
    (base / "spoilt.unreadable").mkdir(parents=True)
    for name in ("a", "b"):
        (base / name).mkdir()
        (base / name / "run.json").write_text(json.dumps({"title": name, "host": this_host().id}))
    lab.scan()
    lab.scan()
    assert [run.status for run in lab.runs.all()] == ["lost", "lost"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_a_pool_s_workers_record_nothing(lab: Lab, how: str) -> None:
    """They import the program again, before they know whose workers they are."""
    done = script(
        lab,
        "import multiprocessing\nrun = perpetual.init('pool')\nperpetual.log(loss=1)\n"
        "def work(n):\n    perpetual.log(loss=n)\n    return n\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context({how!r}).Pool(2) as pool:\n        pool.map(work, range(7, 9))\n",
    )
    assert (done.returncode, done.stderr) == (0, "")
    lab.scan()
    assert [(run.status, run.metrics) for run in lab.runs.all()] == [("done", {"loss": 1.0})]
