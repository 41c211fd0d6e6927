"""Metric readers on the folders that real programs leave behind."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual.api import MetricReader, MetricValue, RunFolder
from perpetual.toolkit.confined import UnsafePath
from perpetual_metrics.readers import (
    CsvFile,
    MetricsLog,
    StdoutText,
    csv_file,
    metrics_log,
    results_file,
    stdout_json,
    stdout_text,
)

ALL = [results_file({}), metrics_log({}), csv_file({}), stdout_json({}), stdout_text({})]
FILES = ("results.json", "metrics.jsonl", "results.csv", "metrics.csv", "stdout.log")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    logs, cwd = tmp_path / "logs", tmp_path / "cwd"
    logs.mkdir()
    cwd.mkdir()
    return RunFolder(logs, cwd, started_at_s=1_000_000.0)


@pytest.mark.parametrize("reader", ALL)
def test_a_reader_finds_nothing_in_an_empty_folder(reader: MetricReader, folder: RunFolder) -> None:
    assert reader.read(folder) == {}


def test_a_results_file_is_read_with_its_sources(folder: RunFolder) -> None:
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


@pytest.mark.parametrize(("name", "reader"), [("results.json", results_file({})), ("results.csv", csv_file({}))])
def test_files_of_the_previous_run_are_not_read(folder: RunFolder, name: str, reader: MetricReader) -> None:
    path = folder.cwd / name
    path.write_text('{"acc": 0.5}' if name.endswith("json") else "acc\n0.5\n")
    started_ns = int(folder.started_at_s * 1e9)
    os.utime(path, ns=(started_ns, started_ns - 100_000_001))
    assert reader.read(folder) == {}
    os.utime(path, ns=(started_ns, started_ns - 4_000_001))  # a tick of the kernel's clock
    assert reader.read(folder)["acc"].value == 0.5
    os.utime(path, ns=(started_ns, started_ns - 2_000_000_000))  # a file system of whole seconds
    assert reader.read(folder)["acc"].value == 0.5


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
        ("val_acc: 0,75", "val_acc", None),
        ("reward = 1,234.5", "reward", None),
        ("reward = 1,234,567 steps", "reward", None),
        ("val_acc: 93,5%", "val_acc", None),
        ("acc=0,loss=3", "acc", 0.0),
        ("acc: 1, 2", "acc", 1.0),
    ],
)
def test_a_number_in_a_line_of_text_is_found(folder: RunFolder, line: str, name: str, value: float | None) -> None:
    (folder.log_dir / "stdout.log").write_text(f"start\n{line}\n")
    assert stdout_text({}).read(folder)[name] == MetricValue(value, "stdout.log:2")


def test_a_comma_between_digits_is_a_gap_of_the_curve(folder: RunFolder) -> None:
    (folder.log_dir / "stdout.log").write_text("step 1 acc: 0.5\nstep 2 acc: 0,75\n")
    values = [*stdout_text({}).history(folder)["acc"].values]
    assert values[0] == 0.5
    assert values[1] is None or math.isnan(values[1])


def test_a_number_that_is_cut_is_none(folder: RunFolder) -> None:
    """Of a very long line the beginning is looked at, and its last number may not be whole."""
    for length in range(1980, 2000):
        (folder.log_dir / "stdout.log").write_text("acc: 0.5 " + "x" * (length - 9) + " loss: 2.25\n")
        found = stdout_text({}).read(folder)
        assert found["acc"].value == 0.5
        assert "loss" not in found or found["loss"].value == 2.25


@pytest.mark.parametrize("line", ["loss: two", "http://host:80/x", "took 12:30:01", "version: 1.2.3", "key: 0x10"])
def test_lines_without_a_metric_give_none(folder: RunFolder, line: str) -> None:
    (folder.log_dir / "stdout.log").write_text(line + "\n")
    assert stdout_text({}).read(folder) == {}


@pytest.mark.parametrize("reader", ALL)
def test_anything_but_a_file_blocks_no_reader(reader: MetricReader, folder: RunFolder) -> None:
    """A pipe without a writer would wait for ever; a folder cannot be read."""
    for name in FILES:
        os.mkfifo(folder.log_dir / name)
        (folder.cwd / name).mkdir()
    assert reader.read(folder) == {}


@pytest.mark.parametrize("reader", ALL)
@pytest.mark.parametrize("place", ["log_dir", "cwd"])
def test_a_link_out_of_the_run_is_not_followed(
    reader: MetricReader, place: str, folder: RunFolder, tmp_path: Path
) -> None:
    """Nothing outside is read; the refusal is shown beside the run's other metrics."""
    (tmp_path / "outside").mkdir()
    for name in FILES:
        (tmp_path / "outside" / name).write_text('{"acc": 0.5}\nacc: 0.5\n')
        (getattr(folder, place) / name).symlink_to(tmp_path / "outside" / name)
    found = None
    with suppress(UnsafePath):
        found = reader.read(folder)
    assert not found


def test_a_link_that_stays_in_the_working_directory_is_followed(folder: RunFolder) -> None:
    (folder.cwd / "latest").mkdir()
    (folder.cwd / "latest" / "results.json").write_text('{"acc": 0.5}')
    (folder.cwd / "results.json").symlink_to("latest/results.json")
    assert results_file({}).read(folder)["acc"].value == 0.5


@pytest.mark.parametrize("reader", [results_file({}), metrics_log({}), stdout_json({})])
@pytest.mark.parametrize("number", ["9" * 5000, "1" + "0" * 399, "-1e400", "NaN", "-Infinity"])
def test_a_number_beyond_a_float_is_said(reader: MetricReader, folder: RunFolder, number: str) -> None:
    for name in FILES:
        (folder.log_dir / name).write_text(f'{{"loss": {number}, "acc": 0.5}}\n')
    assert {name: item.value for name, item in reader.read(folder).items()} == {"loss": None, "acc": 0.5}


@pytest.mark.parametrize("reader", ALL)
def test_endlessly_nested_json_is_no_metric(reader: MetricReader, folder: RunFolder) -> None:
    for name in FILES:
        (folder.log_dir / name).write_text('{"a":' * 100_000 + "1" + "}" * 100_000 + '\n{"acc": 0.5}\n')
    assert {name: item.value for name, item in reader.read(folder).items()} in ({"acc": 0.5}, {})


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ({"type": "float", "text": "nan"}, None),
        ({"type": "float", "text": "-inf"}, None),
        ({"type": "int", "text": hex(2**70)}, float(2**70)),
        ({"type": "int", "text": hex(-(2**70))}, -float(2**70)),
        ({"type": "int", "text": "0x" + "f" * 300}, None),
        ({"type": "int", "text": "0xf..."}, None),
    ],
)
def test_typed_numbers_of_the_run_log_are_read(folder: RunFolder, typed: dict[str, str], value: float) -> None:
    (folder.log_dir / "metrics.jsonl").write_text(
        json.dumps({"loss": typed, "name": {"type": "str", "text": "1"}}) + "\n"
    )
    assert metrics_log({}).read(folder) == {"loss": MetricValue(value, "metrics.jsonl:1")}


def test_the_end_of_a_very_long_log_is_read(folder: RunFolder) -> None:
    """From a line's start on, and with the lines' own numbers; what comes before is counted in pieces of a MiB."""
    last = 100_000
    lines = [f'{{"loss": {number}.0, "n{number}": 1}}' for number in range(1, last + 1)]
    (folder.log_dir / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    found = MetricsLog(limit_bytes=100).read(folder)
    assert found["loss"] == MetricValue(float(last), f"metrics.jsonl:{last}")
    assert {f"n{last - 1}", f"n{last}"} <= found.keys()
    assert f"n{last - 10}" not in found
    (folder.log_dir / "stdout.log").write_text("x" * 60 + "loss: 1.0\n" + "y" * 95 + "\n")
    assert StdoutText(limit_bytes=100).read(folder) == {}  # a piece of a line could be a piece of a name


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_s_last_row(folder: RunFolder) -> None:
    (folder.cwd / "results.csv").write_text('step,"val, loss",acc\n1,2.5,0.1\n2,2.25,0.2\n')
    assert csv_file({}).read(folder) == {
        "val, loss": MetricValue(2.25, "results.csv:3"),
        "acc": MetricValue(0.2, "results.csv:3"),
    }


def test_an_empty_cell_is_no_value(folder: RunFolder) -> None:
    """Loggers of training write the validation's columns in rows of their own."""
    rows = "epoch,step,train_loss,val_loss\n0,9,0.7,\n0,9,,0.8\n1,19,0.6,\n"
    (folder.log_dir / "metrics.csv").write_bytes(b"\xef\xbb\xbf" + rows.replace("\n", "\r\n").encode())
    assert csv_file({}).read(folder) == {
        "train_loss": MetricValue(0.6, "metrics.csv:4"),
        "val_loss": MetricValue(0.8, "metrics.csv:3"),
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("loss,acc\n2.5,0.5\n2.0", {"loss": 2.5, "acc": 0.5}),  # torn by a kill
        ("loss,acc\n2.5,0.5\n2.0,0.75", {"loss": 2.0, "acc": 0.75}),  # by hand, without an end of line
        ("loss,acc\n2.5,0.5\nnan,-Inf\n", {"loss": None, "acc": None}),
        ("loss,acc\n1e400,1_000\n", {"loss": None}),
        ("loss,name,ok\n2.5,baseline,True\n", {"loss": 2.5}),
        ("loss,acc\n2.5,0.5,9,9\n", {"loss": 2.5, "acc": 0.5}),
        ("loss\n" + '"' + "x" * 200_000 + "\n", {}),
        ("\n\n", {}),
        ("loss,,__proto__\n1,2,3\n", {"loss": 1.0, "__proto__": 3.0}),
    ],
)
def test_csv_tables_of_every_kind_are_read(folder: RunFolder, text: str, values: dict[str, float | None]) -> None:
    (folder.log_dir / "results.csv").write_text(text)
    assert {name: item.value for name, item in csv_file({}).read(folder).items()} == values


def test_an_older_table_is_another_run_s(folder: RunFolder) -> None:
    path = folder.cwd / "metrics.csv"
    path.write_text("loss\n1.0\n")
    os.utime(path, (999_000, 999_000))
    assert csv_file({}).read(folder) == {}


def test_a_table_too_long_to_have_its_names_is_none(folder: RunFolder) -> None:
    (folder.log_dir / "metrics.csv").write_text("loss,acc\n1.0,2.0\n3.0,4.0\n")
    assert CsvFile(limit_bytes=10).read(folder) == {}
