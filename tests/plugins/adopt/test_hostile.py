"""Sources that are broken or meant ill: each is told in words, and nothing is half adopted, followed or executed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run

SAMPLES = Path(__file__).parents[2] / "fixtures" / "adopt"
SECRET = "outside-the-folder"


def adopt(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """The document that `perpetual adopt` answers, which is JSON without NaN whatever the source held."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    capsys.readouterr()
    assert run(["adopt", *words, "--json"]) == code, capsys.readouterr()
    document: dict[str, Any] = json.loads(capsys.readouterr().out, parse_constant=refuse)
    return document


def is_empty(folder: Path) -> bool:
    """Whether nothing was adopted, and nothing lies about."""
    with Lab.open(folder) as lab:
        assert lab.storage.verify() == []
        there = (*lab.hypotheses.list().items, *lab.experiments.list().items, *lab.runs.list().items)
    return not there and not (folder / ".perpetual" / "adopting").exists()


def everything(folder: Path) -> bytes:
    """All that the project holds, as bytes."""
    return b"".join(path.read_bytes() for path in sorted((folder / ".perpetual").rglob("*")) if path.is_file())


def change(path: Path, statement: str, *values: object) -> None:
    """One statement on a database, whose constraints are switched off."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute(statement, values)


# --- files that are not what they seem ------------------------------------------------------------------------------


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _scrambled(data: bytes) -> bytes:
    return data[:100] + bytes(b ^ 0x5A for b in data[100:])


@pytest.mark.parametrize("harm", [_cut, _scrambled])
def test_a_damaged_database_is_refused_whole(
    project: Path, capsys: pytest.CaptureFixture[str], harm: Callable[[bytes], bytes]
) -> None:
    (project / "mlflow.db").write_bytes(harm((SAMPLES / "mlflow.db").read_bytes()))
    assert adopt(capsys, "mlflow.db", code=1)["error"]["code"] == "corrupt"
    assert is_empty(project)


def test_a_damaged_project_is_not_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(SAMPLES / "agent", tmp_path / ".perpetual")
    data = bytearray((SAMPLES / "agent" / "graph.db").read_bytes())
    data[-3000:] = b"\xff" * 3000
    (tmp_path / ".perpetual" / "graph.db").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    assert adopt(capsys, code=1)["error"]["code"] == "corrupt"
    assert os.listdir(tmp_path) == [".perpetual"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", 5),
        (b"\x00" * 4096, 5),
        (b"commit\tstatus\n\xff\xfe\xff", 2),  # a table without a column of numbers
        (b"SQLite format 3\x00" + b"x" * 500, 1),
    ],
)
def test_garbage_is_refused_as_a_source(
    project: Path, capsys: pytest.CaptureFixture[str], data: bytes, code: int
) -> None:
    for name in ("results.tsv", "mlflow.db", "graph.db"):
        (project / name).write_bytes(data)
        assert adopt(capsys, name, code=code)["error"]["hint"]
    assert is_empty(project)


def test_a_table_that_ends_in_bytes_of_no_text_leaves_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = b"".join(b"%07x\t0.5\tkeep\tfine\n" % number for number in range(300))
    (project / "results.tsv").write_bytes(b"commit\tval_loss\tstatus\tdescription\n" + rows + b"abc\t\xff\xfe\tkeep\n")
    assert adopt(capsys, code=1)["error"]["code"] == "corrupt"
    assert is_empty(project)


def test_a_cell_of_megabytes_is_refused_in_words(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "results.tsv").write_text(
        "commit\tval_loss\tstatus\tdescription\nabc\t1\tkeep\t" + "x" * 5_000_000 + "\n"
    )
    assert "field larger than" in adopt(capsys, code=1)["error"]["message"]
    assert is_empty(project)


# --- links and paths ------------------------------------------------------------------------------------------------


def test_links_out_of_a_file_store_are_not_followed(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    shutil.copytree(SAMPLES / "mlruns", project / "mlruns")
    (experiment,) = [path for path in (project / "mlruns").iterdir() if len(path.name) > 5 and path.name[0] != "."]
    place = sorted(
        path for path in experiment.iterdir() if (path / "params").is_dir() and any((path / "params").iterdir())
    )[0]
    shutil.copytree(place, outside / "run")
    (place / "params" / "stolen").symlink_to(outside / "secret")
    (place / "tags" / "stolen").symlink_to(outside)
    (experiment / ("f" * 32)).symlink_to(outside / "run")
    (project / "mlruns" / "77").symlink_to(outside)
    os.mkfifo(place / "params" / "waits")
    told = adopt(capsys)
    assert told["runs"] == 4
    assert {"what": "77", "why": "is a link"} in told["skipped"]
    assert SECRET.encode() not in everything(project)


def test_links_out_of_a_project_are_not_followed(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    old = tmp_path / "old" / ".perpetual"
    shutil.copytree(SAMPLES / "agent", old)
    for place in ("runs/exp-001/stdout.log", "memory/details/lr.md"):
        (old / place).unlink()
        (old / place).symlink_to(tmp_path / "secret")
    (old / "memory" / "loop").symlink_to(old / "memory")
    told = adopt(capsys, str(old))
    assert {"what": "note details/lr.md", "why": "is a link that leads out of the folder"} in told["skipped"]
    with Lab.open() as lab:
        (note,) = lab.runs.get("r1").annotations
    assert note["text"] == "stdout.log is a link that leads out of the folder"
    assert SECRET.encode() not in everything(project)


def test_an_id_that_is_a_path_leads_nowhere(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old" / ".perpetual"
    shutil.copytree(SAMPLES / "agent", old)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "stdout.log").write_text(SECRET)
    change(old / "graph.db", "UPDATE experiments SET id = '../../../elsewhere' WHERE id = 'exp-001'")
    assert adopt(capsys, str(old))["runs"] == 4
    assert SECRET.encode() not in everything(project)


def test_artifacts_outside_the_store_are_not_listed(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / SECRET).write_text("x")
    shutil.copyfile(SAMPLES / "mlflow.db", project / "mlflow.db")
    change(project / "mlflow.db", "UPDATE runs SET artifact_uri = ?", f"file://{project}/../outside")
    adopt(capsys)
    with Lab.open() as lab:
        origins = [lab.context.need("run", item.id).body["adopted"] for item in lab.runs.list().items]
    assert [origin["artifacts"] for origin in origins] == [[]] * 4


# --- values ---------------------------------------------------------------------------------------------------------


def test_names_with_escapes_are_shown_as_text(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nasty = "\x1b[31mred\x07 \u202egnp"
    shutil.copyfile(SAMPLES / "mlflow.db", project / "mlflow.db")
    change(project / "mlflow.db", "UPDATE tags SET value = ? WHERE key = 'mlflow.runName'", nasty)
    change(project / "mlflow.db", "UPDATE experiments SET name = name || ?", nasty)
    assert run(["adopt", "mlflow.db"]) == 0
    for words in (("runs",), ("experiments",), ("hypotheses", "list"), ("status",), ("report",)):
        assert run([*words]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "\u202e" not in shown.out + shown.err


def test_values_of_every_wrong_sort(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copyfile(SAMPLES / "mlflow.db", project / "mlflow.db")
    path = project / "mlflow.db"
    change(path, "UPDATE params SET value = ? WHERE key = 'lr'", "9" * 2_000_000)
    change(path, "UPDATE latest_metrics SET value = 'many' WHERE key = 'val/loss'")
    change(path, "UPDATE metrics SET value = 'many', timestamp = 'soon' WHERE key = 'val/loss'")
    change(path, "UPDATE runs SET start_time = 1e300, end_time = 'later' WHERE status = 'KILLED'")
    change(path, "UPDATE runs SET status = 'WON' WHERE status = 'FAILED'")
    change(path, "UPDATE tags SET value = X'ff00fe' WHERE key = 'mlflow.user'")
    told = adopt(capsys, "--metric", "val/loss", "--direction", "min")
    assert told["runs"] == 3
    whys = {item["why"] for item in told["skipped"]}
    assert {"they are too long", "its status 'WON' is none that MLflow writes"} <= whys
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        assert len(str(lab.experiments.get("e2").config["lr"])) == 10_000
        assert lab.runs.get("r2").metrics["val/loss"] is None
        assert lab.runs.get("r1").started_at is None


def test_configurations_that_are_no_json_of_ours(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old" / ".perpetual"
    shutil.copytree(SAMPLES / "agent", old)
    deep = "[" * 100_000
    for number, text in ((1, '{"a": NaN, "b": 1e999}'), (2, "{nonsense"), (3, deep), (4, '"' + "x" * 2_000_000 + '"')):
        change(old / "graph.db", "UPDATE experiments SET config = ? WHERE id = ?", text, f"exp-00{number}")
    change(old / "graph.db", "UPDATE experiments SET hypothesis_id = 'hyp-999' WHERE id = 'exp-003'")
    change(old / "graph.db", "UPDATE experiments SET status = 'won' WHERE id = 'exp-005'")
    change(
        old / "graph.db",
        "UPDATE hypotheses SET prior = 'high', confidence = 'low', status = 'won' WHERE id = 'hyp-002'",
    )
    (old / "runs" / "exp-001" / "metadata.json").write_text('{"pid": "many", "started_at": [1]}')
    (old / "runs" / "exp-002" / "crash.json").write_text("null")
    left = {item["what"]: item["why"] for item in adopt(capsys, str(old))["skipped"]}
    assert left["configuration of exp-002"] == "it is no JSON"
    assert left["configuration of exp-003"] == "it is no JSON"
    assert "characters long" in left["configuration of exp-004"]
    assert left["hypothesis hyp-999 of exp-003"] == "there is no such hypothesis"
    assert "status 'won' of exp-005" in left
    assert "status 'won' of hyp-002" in left
    with Lab.open() as lab:
        assert lab.storage.verify() == []
        assert lab.experiments.get("e1").config == {"a": "nan", "b": "inf"}
        assert lab.experiments.get("e3").hypothesis_id is None


def test_impossible_numbers_are_no_values(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        "aaaaaaa\tnan\tkeep\ta",
        "bbbbbbb\tinf\tkeep\tb",
        "ccccccc\t\tkeep\tc",
        "ddddddd\t0.5\tkeep\td\textra",
        "e",
        "",
    ]
    (project / "results.tsv").write_text("commit\tval_loss\tstatus\tdescription\n" + "\n".join(rows) + "\n")
    told = adopt(capsys)
    assert told["runs"] == 1
    assert [item["what"] for item in told["skipped"]][:4] == [f"results.tsv:{line}" for line in (2, 3, 4, 6)]


def test_a_broken_file_of_one_run_costs_that_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLES / "mlruns", project / "mlruns")
    metas = sorted((project / "mlruns").glob("[1-9]*/*/meta.yaml"))
    metas[0].write_text("a: [1\n")
    metas[1].write_text("a: &a [*a, *a]\n")
    metas[2].write_bytes(b"\x00\xff")
    metas[3].write_text("- not\n- a mapping\n")
    told = adopt(capsys)
    assert len([item for item in told["skipped"] if item["why"] == "it cannot be read"]) >= 3
    with Lab.open() as lab:
        assert lab.storage.verify() == []


_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize("name", ["*a8", "0x" + "f" * 5000], ids=["bomb", "number"])
def test_a_description_that_expands_too_far_is_not_read(
    project: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shutil.copytree(SAMPLES / "mlruns", project / "mlruns")
    meta = project / "mlruns" / "0" / "meta.yaml"
    text = re.sub(r"(?m)^name:.*$", f"name: {name}", meta.read_text())
    meta.write_text((_BOMB if name[0] == "*" else "") + text)
    answer = adopt(capsys, "mlruns", "--dry-run")
    assert {"what": "0/meta.yaml", "why": "it cannot be read"} in answer["skipped"]


@pytest.mark.parametrize("uri", ["a\0b", "a%00b", "file://[", "x" * 5000], ids=["nul", "quoted", "host", "long"])
def test_a_place_for_artifacts_that_is_none_holds_none(
    project: Path, capsys: pytest.CaptureFixture[str], uri: str
) -> None:
    shutil.copy(SAMPLES / "mlflow.db", project / "mlflow.db")
    change(project / "mlflow.db", "UPDATE runs SET artifact_uri = ?", uri)
    assert adopt(capsys, "mlflow.db", "--dry-run")["runs"] == 4
