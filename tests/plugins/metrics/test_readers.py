"""Metric readers on the folders that real programs leave behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from perpetual.api import MetricReader, MetricValue, RunFolder
from perpetual_metrics.readers import metrics_log, results_file, stdout_json, stdout_text


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    logs, cwd = tmp_path / "logs", tmp_path / "cwd"
    logs.mkdir()
    cwd.mkdir()
    return RunFolder(logs, cwd, started_at_s=1_000_000.0)


@pytest.mark.parametrize("reader", [results_file({}), metrics_log({}), stdout_json({}), stdout_text({})])
def test_nothing_there(reader: MetricReader, folder: RunFolder) -> None:
    assert reader.read(folder) == {}


def test_results_file(folder: RunFolder) -> None:
    path = folder.cwd / "results.json"
    path.write_text(json.dumps({"metrics": {"val_loss": 2.21, "n": 3, "ok": True, "name": "x"}, "seed": 3}))
    assert results_file({}).read(folder) == {
        "val_loss": MetricValue(2.21, "results.json:val_loss"),
        "n": MetricValue(3.0, "results.json:n"),
    }


def test_an_older_results_file_is_another_runs(folder: RunFolder) -> None:
    path = folder.cwd / "results.json"
    path.write_text('{"val_loss": 1.0}')
    os.utime(path, (999_000, 999_000))
    assert results_file({}).read(folder) == {}
    os.utime(path, (1_000_001, 1_000_001))
    assert results_file({}).read(folder)["val_loss"].value == 1.0


def test_a_garbage_results_file_is_no_result(folder: RunFolder) -> None:
    (folder.log_dir / "results.json").write_text('{"val_loss": ')
    assert results_file({}).read(folder) == {}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", '"nan"'])
def test_a_number_that_is_none_is_said(folder: RunFolder, text: str) -> None:
    (folder.log_dir / "metrics.jsonl").write_text(f'{{"step": 1, "loss": 3.0}}\n{{"step": 2, "loss": {text}}}\n')
    assert metrics_log({}).read(folder) == {"loss": MetricValue(None, "metrics.jsonl:2")}


def test_the_last_value_counts_and_torn_lines_do_not(folder: RunFolder) -> None:
    lines = '{"step": 1, "loss": 3.0, "acc": 0.5}\nnot json\n{"step": 2, "loss": 2.0}\n{"step": 3, "lo'
    (folder.log_dir / "metrics.jsonl").write_text(lines)
    found = metrics_log({}).read(folder)
    assert found == {"loss": MetricValue(2.0, "metrics.jsonl:3"), "acc": MetricValue(0.5, "metrics.jsonl:1")}


def test_json_on_stdout_among_other_lines(folder: RunFolder) -> None:
    (folder.log_dir / "stdout.log").write_bytes(b'hello \xff\n{"epoch": 1, "val_bpc": 2.5}\ndone\n')
    assert stdout_json({}).read(folder) == {"val_bpc": MetricValue(2.5, "stdout.log:2")}


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("val_loss: 2.21", "val_loss", 2.21),
        ("val_loss=2.21", "val_loss", 2.21),
        ("  epoch 3 | val/acc: 0.93 | lr: 1e-4", "val/acc", 0.93),
        ("step 10, loss=-0.5, acc=.25", "acc", 0.25),
        ("step 10, loss=-0.5, acc=.25", "loss", -0.5),
        ("accuracy: 93%", "accuracy", 93.0),
        ("loss: nan", "loss", None),
        ("loss: inf", "loss", None),
    ],
)
def test_text_lines(folder: RunFolder, line: str, name: str, value: float | None) -> None:
    (folder.log_dir / "stdout.log").write_text(f"start\n{line}\n")
    assert stdout_text({}).read(folder)[name] == MetricValue(value, "stdout.log:2")


@pytest.mark.parametrize("line", ["loss: two", "http://host:80/x", "took 12:30:01", "version: 1.2.3", "key: 0x10"])
def test_what_is_no_metric(folder: RunFolder, line: str) -> None:
    (folder.log_dir / "stdout.log").write_text(line + "\n")
    assert stdout_text({}).read(folder) == {}
