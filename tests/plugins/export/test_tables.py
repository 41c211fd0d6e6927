"""Tables out of the record: whole, in every format, harmless in a spreadsheet, and never over another file."""

from __future__ import annotations

import csv
import io
import json
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError, UsageError
from perpetual.cli.app import run
from perpetual.records import Listing
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRecord, ImportedRun
from perpetual_export import frames
from perpetual_export.columns import number_in
from perpetual_export.rows import KINDS
from perpetual_export.tables import defused, write_file

FORMULA = '=cmd|" /C calc"!A0'
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def records(runs: int = 3) -> Iterator[ImportedRecord]:
    """One experiment with parameters from every place, and runs whose metrics differ."""
    command = "python train.py --lr 1e-2 --name '@x' --flag"
    config: dict[str, object] = {"opt": {"beta": 0.9}, "lr": 0.5, "layers": [1, 2], "token": SECRET}
    yield ImportedExperiment("e", None, FORMULA, command=command, config=config, tags=("größe", "b"))
    for number in range(runs):
        metrics = {"val_loss": number / 4, "=SUM(A1)": 1.0, "nan": None, **({"only last": 7} if number == 2 else {})}
        yield ImportedRun(f"r{number}", "e", "done", seed=number, metrics=metrics, commit="ab" * 20, run_hours=0.5)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.chdir(tmp_path)
    with Lab.init(tmp_path, name="tables") as lab:
        lab.hypotheses.add("-1+1 is\x1b[31m a <b>formula</b>", metric="val_loss", direction="min")
        lab.imports.take(Batch("export", "adhoc", "tests", records()))
        yield lab


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["export", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_a_row_of_a_run_has_parameters_and_metrics_as_columns(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*csv.DictReader(io.StringIO(printed(capsys, "--csv")))]
    assert [row["run"] for row in rows] == ["r3", "r2", "r1"]
    newest = rows[0]
    assert (newest["param.lr"], newest["param.config.lr"], newest["param.opt.beta"]) == ("1e-2", "0.5", "0.9")
    assert (newest["param.flag"], newest["param.layers"]) == ("true", "[1, 2]")
    assert (newest["seed"], newest["git_commit"], newest["run_hours"]) == ("2", "ab" * 20, "0.5")
    assert (newest["metric.val_loss"], newest["metric.nan"], newest["metric.only last"]) == ("0.5", "", "7")
    assert (rows[1]["metric.only last"], newest["tags"]) == ("", "adopted, b, größe")


def test_a_spreadsheet_finds_no_formula(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("runs", "hypotheses"):
        text = printed(capsys, "--csv", "--what", what)
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row if number_in(cell) is None]
        assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t\r")]
    assert defused("-0.5") == "-0.5"  # a number is one
    assert [defused(text)[0] for text in ("=1", "+x", "-x", "@x", "\t=1", " =1", "＝1")] == ["'"] * 7


def test_secrets_stay_out(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--csv"], ["--jsonl"], ["--jsonl", "--what", "experiments"]):
        assert SECRET not in printed(capsys, *words)


def test_json_lines_keep_types_and_unknown_values(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [json.loads(line) for line in printed(capsys, "--jsonl").splitlines()]
    assert rows[0]["metrics"] == {"val_loss": 0.5, "=SUM(A1)": 1.0, "nan": None, "only last": 7}
    assert rows[0]["parameters"]["layers"] == [1, 2]
    assert (rows[0]["title"], rows[0]["tags"], rows[0]["host"]) == (FORMULA, ["adopted", "b", "größe"], None)
    claims = printed(capsys, "--jsonl", "--what", "hypotheses")
    assert json.loads(claims)["statement"] == lab.hypotheses.get("h1").statement


def test_a_tag_chooses_rows(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.hypotheses.update("h1", tags=["größe"])
    for what, count in (("runs", 3), ("experiments", 1), ("hypotheses", 1)):
        chosen = printed(capsys, "--jsonl", "--what", what, "--tag", "größe")
        assert [json.loads(row)["tags"] for row in chosen.splitlines()].count([]) == 0
        assert chosen.count("\n") == count
        assert printed(capsys, "--jsonl", "--what", what, "--tag", "gr") == ""
    assert run(["export", "-o", "runs.csv", "--tag", "b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 3
    assert run(["export", "--what", "evidence", "--tag", "b"]) == 2
    assert run(["export", "--ro-crate", "crate", "--tag", "b"]) == 2


def test_an_empty_table_has_its_header(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--csv", "--what", "evidence").startswith("evidence,hypothesis,experiment,run,")


def test_a_file_is_written_whole_and_never_over_another(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    target = lab.root / "runs.csv"
    assert run(["export", "-o", "runs.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["format"], document["path"]) == (3, "csv", str(target))
    assert target.read_text().splitlines()[0].startswith("run,experiment,")
    target.write_text("mine")
    assert run(["export", "-o", "runs.csv"]) == 6
    assert target.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert run(["export", "-o", "runs.csv", "--force"]) == 0
    capsys.readouterr()
    assert run(["export", "-o", "runs.xlsx"]) == 2
    said = capsys.readouterr().err
    assert ".xlsx" in said
    assert ".csv, .jsonl, .parquet, .ndjson, .pq" in said
    assert not Path("runs.xlsx").exists()
    assert run(["export", "--csv", "-o", "runs.txt"]) == run(["export", "-o", "runs"]) == 0
    assert target.read_text() != "mine"
    target.unlink()
    target.symlink_to(lab.root / "elsewhere")
    assert run(["export", "-o", "runs.csv"]) == 6  # also where a link leads nowhere
    assert run(["export", "-o", "runs.csv", "--force"]) == 2
    assert run(["export", "-o", "/dev/null", "--force"]) == 2
    assert run(["export", "--csv", "-o", ".perpetual/config.yaml", "--force"]) == 2
    assert target.is_symlink()
    assert run(["export", "-o", "no/such/folder.csv"]) == 1
    assert [path.name for path in lab.root.glob(".*.tmp")] == []


def test_two_formats_and_a_file_without_a_name_are_refused(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--jsonl", "--csv"]) == run(["export", "--csv", "--parquet", "-o", "runs.csv"]) == 2
    said = capsys.readouterr().err
    assert "--csv and --jsonl exclude each other" in said
    assert "--csv and --parquet exclude each other" in said
    assert run(["export", "-o", ""]) == run(["export", "-o", "", "--force"]) == 2
    assert capsys.readouterr().err.count("-o names no file") == 2
    assert run(["export", "--csv", "--ro-crate", "crate"]) == 2


def test_two_processes_cannot_both_take_a_name(tmp_path: Path) -> None:
    target = tmp_path / "t"
    with pytest.raises(PerpetualError, match="exists already"):
        write_file(target, lambda out: (out.write(b"second"), target.write_text("first"), None)[2], replace=False)
    assert target.read_text() == "first"


def test_parquet_has_types(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run(["export", "-o", "runs.parquet"]) == 0
    table = parquet.read_table(lab.root / "runs.parquet")
    types = {name: str(table.schema.field(name).type) for name in ("seed", "param.lr", "metric.val_loss", "tainted")}
    assert types == {"seed": "int64", "param.lr": "double", "metric.val_loss": "double", "tainted": "bool"}
    assert table.column("metric.val_loss").to_pylist() == [0.5, 0.25, 0.0]
    assert table.column("metric.nan").to_pylist() == [None] * 3


def test_what_is_missing_is_named_with_the_way_out(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perpetual_export.tables.find_spec", lambda name: None)
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    assert run(["export", "--parquet", "-o", "x.parquet"]) == 1
    assert "pip install 'perpetual-lab[export]'" in capsys.readouterr().err
    assert not (lab.root / "x.parquet").exists()
    with pytest.raises(PerpetualError) as caught:
        lab.runs.df()
    assert (caught.value.code, "pip install pandas" in str(caught.value.hint)) == ("frames_missing", True)
    with pytest.raises(UsageError):
        lab.runs.df(library="excel")
    assert run(["export", "--parquet"]) == 2
    assert run(["export", "--csv", "--json"]) == 2


def test_a_data_frame_has_numbers_where_options_were_typed(lab: Lab) -> None:
    pytest.importorskip("pandas")
    frame = lab.runs.df()
    assert frame["param.lr"].tolist() == [0.01] * 3
    assert frame.groupby("experiment")["metric.val_loss"].mean().tolist() == [0.25]
    assert frame["metric.nan"].isna().all()


def test_pages_are_iterated_by_their_records(lab: Lab) -> None:
    page = lab.runs.list(limit=2)
    assert [found.id for found in page] == [found.id for found in page.items] == ["r3", "r2"]
    assert (len(page), page[0].id, page.next_cursor is None, bool(Listing((), None))) == (2, "r3", False, False)
    assert [found.id for found in lab.runs.all()] == ["r3", "r2", "r1"]
    assert [found.id for found in lab.runs.all(status="failed")] == []
    assert [found.id for found in lab.experiments.all()] == ["e1"]
    assert [found.id for found in lab.hypotheses.all()] == ["h1"]
    assert [*lab.evidence.all()] == []


def test_a_notebook_shows_escaped_tables(lab: Lab) -> None:
    page = lab.hypotheses.list()._repr_html_()
    assert "&lt;b&gt;formula&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "val_loss 0.5" in lab.runs.get("r3")._repr_html_()
    shown = replace(lab.hypotheses.get("h1"), sentence="Helps: about 0.5 better.")._repr_html_()
    names = re.findall("<tr><th>(.*?)</th>", shown)
    assert names[:4] == ["id", "status", "statement", "sentence"]
    assert len(names) == len({*names}) > 8
    assert "list(cursor=page.next_cursor)" in lab.runs.list(limit=1)._repr_html_()


def test_memory_does_not_grow_with_the_runs(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(format_: str, runs: int) -> int:
        row = {"run": "r1", "metrics": {"loss": 0.5}, "parameters": {"lr": "0.1"}, "command": "x" * 300}
        monkeypatch.setitem(KINDS, "runs", lambda lab: (row for _ in range(runs)))
        tracemalloc.start()
        assert run(["export", "-o", f"{runs}.{format_}"]) == 0
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    for format_ in ("csv", "jsonl"):
        peak(format_, 1)  # what is imported
        assert peak(format_, 3_000) < 1.2 * peak(format_, 300)
