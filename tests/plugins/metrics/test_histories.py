"""Histories: every value with its step, from files of every sort, whole or in pieces."""

from __future__ import annotations

import json
import math
import os
from itertools import pairwise
from pathlib import Path

import pytest

from perpetual.api import MetricReader, RunFolder
from perpetual.toolkit.confined import UnsafePath
from perpetual_metrics.readers import csv_file, metrics_log, results_file, stdout_json, stdout_text

ALL = [results_file({}), metrics_log({}), csv_file({}), stdout_json({}), stdout_text({})]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    for name in ("logs", "cwd"):
        (tmp_path / name).mkdir()
    return RunFolder(tmp_path / "logs", tmp_path / "cwd", started_at_s=1_000_000.0)


def _lines(folder: RunFolder, *rows: object, name: str = "metrics.jsonl") -> Path:
    path = folder.log_dir / name
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_every_value_has_its_step(folder: RunFolder) -> None:
    _lines(folder, {"step": 0, "acc": 0.1, "loss": 2.0}, {"step": 10, "acc": 0.2}, {"step": 20, "loss": 1.0, "time": 5})
    found = metrics_log({}).history(folder)
    assert {name: (one.axis, one.steps, one.values) for name, one in found.items()} == {
        "acc": ("step", [0, 10], [0.1, 0.2]),
        "loss": ("step", [0, 20], [2.0, 1.0]),
    }
    assert found["loss"].times == [None, 5]
    assert [*metrics_log({}).history(folder, ["loss"])] == ["loss"]


@pytest.mark.parametrize("nan", ["NaN", "Infinity", '{"type": "float", "text": "nan"}', '"nan"', "1" * 500])
def test_what_is_no_finite_number_is_there_and_none(folder: RunFolder, nan: str) -> None:
    _lines(folder, '{"step": 1, "acc": 0.5}', f'{{"step": 2, "acc": {nan}}}', '{"step": 3, "acc": "text"}')
    found = metrics_log({}).history(folder)["acc"]
    assert (found.steps, found.values) == ([1, 2], [0.5, None])


def test_torn_and_foreign_lines_cost_no_other(folder: RunFolder) -> None:
    path = _lines(
        folder,
        {"step": 1, "a": 1.0},
        '{"a": ',
        "[" * 5000,
        "{}",
        '{"step": 2, "a": 2.0}, {"a": 9}',
        {"step": 3, "a": 3.0},
    )
    with path.open("ab") as file:
        file.write(b'\xff\x00{"a": \n{"step": 4, "a": 4')
    found = metrics_log({}).history(folder)["a"]
    assert (found.steps, found.values) == ([1, 3], [1.0, 3.0])


def test_lines_that_join_to_other_objects_are_parsed_by_themselves(folder: RunFolder) -> None:
    _lines(folder, '{"a":[{}', "{}]}", {"a": 1.0, "step": 1})
    assert metrics_log({}).history(folder)["a"].values == [1.0]


def test_the_finest_name_that_most_lines_have_counts_the_steps(folder: RunFolder) -> None:
    _lines(folder, {"epoch": 1, "step": 100, "acc": 0.1}, {"epoch": 2, "step": 200, "acc": 0.2}, {"acc": 0.3})
    found = metrics_log({}).history(folder)["acc"]
    assert (found.axis, found.steps) == ("step", [100, 200, None])


def test_without_steps_values_are_counted(folder: RunFolder) -> None:
    _lines(folder, {"acc": 0.1}, {"other": 1}, {"acc": 0.2})
    found = metrics_log({}).history(folder)["acc"]
    assert (found.axis, found.steps) == (None, [1.0, 2.0])


def test_a_table_and_lines_of_text_have_steps(folder: RunFolder) -> None:
    (folder.cwd / "metrics.csv").write_text("epoch,step,val\n0,9,0.5\n0,19,\n1,29,nan\n1,3")
    table = csv_file({}).history(folder)["val"]
    assert (table.axis, table.steps, table.values) == ("step", [9.0, 29.0], [0.5, None])
    _lines(folder, "Epoch 1/3 loss=2.5", "epoch: 2/3, loss: 2.25", "nothing=here", "done", name="stdout.log")
    text = stdout_text({}).history(folder)
    assert (text["loss"].axis, text["loss"].steps, text["loss"].values) == ("epoch", [1.0, 2.0], [2.5, 2.25])
    assert text["total_epochs"].values == [3.0, 3.0]


def test_pieces_of_a_long_file_are_spread_over_it(folder: RunFolder) -> None:
    _lines(folder, *({"step": n, "acc": n / 1e4} for n in range(20_000)))
    size = (folder.log_dir / "metrics.jsonl").stat().st_size
    found = metrics_log({}).history(folder, limit_bytes=16_384)["acc"]
    assert found.steps[0] == 0
    assert found.steps[-1] == 19_999
    assert 100 < len(found.values) < 1000
    steps = [step for step in found.steps if step is not None]
    assert max(b - a for a, b in pairwise(steps)) < 20_000 / 10
    assert all(value == step / 1e4 for step, value in zip(steps, found.values, strict=True))
    assert size - 16_384 <= found.skipped_bytes < size
    whole = metrics_log({}).history(folder)["acc"]
    assert (len(whole.values), whole.skipped_bytes) == (20_000, 0)


def test_values_of_pieces_without_steps_have_no_place(folder: RunFolder) -> None:
    _lines(folder, *({"acc": n / 1e4} for n in range(5000)))
    assert set(metrics_log({}).history(folder, limit_bytes=4096)["acc"].steps) == {None}


def test_one_enormous_line_hides_what_is_in_it_alone(folder: RunFolder) -> None:
    _lines(folder, {"step": 1, "a": 1.0}, '{"a": 2.0, "x": "' + "y" * 2_000_000 + '"}', {"step": 3, "a": 3.0})
    assert metrics_log({}).history(folder)["a"].values == [1.0, 3.0]
    assert metrics_log({}).history(folder, limit_bytes=65_536)["a"].values == [1.0, 3.0]


@pytest.mark.parametrize("reader", ALL)
def test_noise_pipes_and_missing_files_are_no_history(reader: MetricReader, folder: RunFolder) -> None:
    assert reader.history(folder) == {}
    assert reader.history(RunFolder(folder.log_dir / "gone", folder.cwd / "gone", 0.0)) == {}
    for name in ("metrics.jsonl", "metrics.csv", "stdout.log"):
        (folder.log_dir / name).write_bytes(os.urandom(5000))
    assert all(math.isfinite(x) for one in reader.history(folder).values() for x in one.values if x is not None)
    for name in ("metrics.jsonl", "metrics.csv", "stdout.log"):
        (folder.log_dir / name).unlink()
        os.mkfifo(folder.log_dir / name)
    assert reader.history(folder) == {}


def test_a_link_out_of_the_folder_is_not_followed(folder: RunFolder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"password": 1}\n')
    (folder.log_dir / "metrics.jsonl").symlink_to(secret)
    with pytest.raises(UnsafePath):
        metrics_log({}).history(folder)
