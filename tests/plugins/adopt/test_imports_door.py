"""`lab.imports` against broken callers: each is refused by row and field, and nothing of its batch is written."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, NotFound, PerpetualError, UsageError
from perpetual.registry import Registry
from perpetual.toolkit.import_records import (
    Batch,
    ImportedExperiment,
    ImportedHypothesis,
    ImportedNote,
    ImportedRun,
    Taken,
)

SECRET = "sk-ant-api03-" + "a1B2" * 23 + "AA"
E1 = ImportedExperiment("e", None, "one", metric="acc", direction="max")


def take(lab: Lab, *records: Any, **options: Any) -> Taken:
    """Imports records as the plugin `adopt`."""
    return lab.imports.take(Batch("adopt", "notebook", "mine", records, **options))


def loose(make: Callable[..., Any], *values: Any, **fields: Any) -> Any:
    """A record with fields that its types do not allow."""
    return make(*values, **fields)


BAD = {
    "no record": ({"key": "e"}, "row 2 is dict"),
    "empty key": (loose(ImportedHypothesis, " ", "is it"), "key"),
    "number for a key": (loose(ImportedHypothesis, 5, "is it"), "key"),
    "empty statement": (loose(ImportedHypothesis, "h", " "), "statement"),
    "prior": (loose(ImportedHypothesis, "h", "is it", prior=math.nan), "prior"),
    "confidence": (loose(ImportedHypothesis, "h", "is it", confidence=1), "confidence"),
    "verdict": (loose(ImportedHypothesis, "h", "is it", verdict="maybe"), "verdict"),
    "long statement": (loose(ImportedHypothesis, "h", "x" * 4_001), "statement"),
    "long tag": (loose(ImportedHypothesis, "h", "is it", tags=("z" * 101,)), "tags"),
    "secret in a metric's name": (loose(ImportedRun, "r", "e", "done", metrics={SECRET: 1.0}), "metrics"),
    "tags": (loose(ImportedHypothesis, "h", "is it", tags="one"), "tags"),
    "time": (loose(ImportedExperiment, "x", None, "t", created_at="yesterday"), "created_at"),
    "time without zone": (loose(ImportedExperiment, "x", None, "t", created_at="2026-01-01T00:00"), "created_at"),
    "direction": (loose(ImportedExperiment, "x", None, "t", direction="up"), "direction"),
    "gpus": (loose(ImportedExperiment, "x", None, "t", gpus=-1), "gpus"),
    "config": (loose(ImportedExperiment, "x", None, "t", config=[1]), "config"),
    "config in JSON": (loose(ImportedExperiment, "x", None, "t", config={"a": {1}}), "config"),
    "secret metric": (loose(ImportedExperiment, "x", None, "t", metric=SECRET), "metric"),
    "status": (loose(ImportedRun, "r", "e", "excellent"), "status"),
    "seed": (loose(ImportedRun, "r", "e", "done", seed="7"), "seed"),
    "duration": (loose(ImportedRun, "r", "e", "done", duration_s="long"), "duration_s"),
    "negative hours": (loose(ImportedRun, "r", "e", "done", gpu_hours=-1.0), "gpu_hours"),
    "metrics": (loose(ImportedRun, "r", "e", "done", metrics={"acc": "high"}), "metrics"),
    "infinite metric": (loose(ImportedRun, "r", "e", "done", metrics={"acc": math.inf}), "metrics"),
    "huge metric": (loose(ImportedRun, "r", "e", "done", metrics={"acc": 10**400}), "metrics"),
    "commit": (loose(ImportedRun, "r", "e", "done", commit=SECRET), "commit"),
    "callable": (loose(ImportedRun, "r", "e", "done", series=lambda path: None), "series"),
    "annotation": (loose(ImportedRun, "r", "e", "done", annotations=({"kind": "log"},)), "annotations"),
    "surrogate": (loose(ImportedRun, "r", "e", "done", reason="\ud800"), "reason"),
    "secret key": (loose(ImportedHypothesis, SECRET, "is it"), "key"),
    "note": (loose(ImportedNote, "n", "a.md", None), "text"),
    **{
        f"file {name!r}": (loose(ImportedRun, "r", "e", "done", logs={name: Path("x")}), "logs")
        for name in ("../x", "/x", "a/b", "a\\b", "", ".", "..", ".hidden", "adopted.json", "metrics.jsonl", "x\0",
                     "x\n", "é", "x" * 200)
    },
    "many files": (loose(ImportedRun, "r", "e", "done", logs={f"f{n}": Path("x") for n in range(33)}), "logs"),
}  # fmt: skip


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_wrong_field_is_named_with_its_row_and_nothing_is_written(project: Path, dry_run: bool) -> None:
    with Lab.open() as lab:
        for name, (record, field) in BAD.items():
            with pytest.raises(UsageError) as caught:
                take(lab, E1, record, dry_run=dry_run)
            assert caught.value.code == "bad_import", name
            message = str(caught.value)
            assert "row 2" in message, name
            assert field in message, name
            assert SECRET not in message, name
        assert lab.experiments.list().items == ()
        assert lab.storage.verify() == []


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("records", "error"),
    [
        ([ImportedRun("r", "nothing", "done")], NotFound),
        ([ImportedExperiment("x", "nothing", "t")], NotFound),
        ([ImportedExperiment("x", None, "t", hypothesis_id="h9")], NotFound),
        ([ImportedHypothesis("h", "is it"), ImportedRun("r", "h", "done")], NotFound),
        ([E1, ImportedExperiment("x", "e", "t")], NotFound),
        ([E1, ImportedHypothesis("e", "is it")], Conflict),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused_in_a_rehearsal_too(
    project: Path, records: list[Any], error: type[PerpetualError], dry_run: bool
) -> None:
    with Lab.open() as lab:
        with pytest.raises(error):
            take(lab, *records, dry_run=dry_run)
        assert lab.hypotheses.list().items == ()
        assert lab.experiments.list().items == ()


def test_a_rehearsal_follows_what_an_earlier_import_took(project: Path) -> None:
    with Lab.open() as lab:
        take(lab, E1)
        told = take(lab, E1, ImportedRun("r", "e", "done"), ImportedRun("r", "e", "done"), dry_run=True)
        assert (told.runs, told.known["experiments"], told.known["runs"]) == (1, 1, 1)
        assert lab.runs.list().items == ()


def test_a_kind_of_source_belongs_to_its_plugin(project: Path) -> None:
    with Lab.open() as lab:
        for kind in ("mlflow:1", "acme.csv", "", "A", "x y", "x" * 60, "../x"):
            with pytest.raises(UsageError) as caught:
                lab.imports.take(Batch("adopt", kind, "mine", [E1]))
            assert caught.value.code == "bad_import"
        with pytest.raises(NotFound):
            lab.imports.take(Batch("absent", "x", "mine", [E1]))


class _Hypothesis(ImportedHypothesis):
    """A class of a plugin's own, whose fields may answer anything."""


class _Batch(Batch):
    """Likewise."""


@pytest.mark.parametrize("batch", [None, 5, {"plugin": "adopt"}, [E1], _Batch("adopt", "x", "s", [E1])])
def test_an_invalid_batch_is_refused(project: Path, batch: Any) -> None:
    with Lab.open() as lab:
        with pytest.raises(UsageError) as caught:
            lab.imports.take(batch)
        assert caught.value.code == "bad_import"
        assert lab.experiments.list().items == ()


@pytest.mark.parametrize(
    "record",
    [
        _Hypothesis("h", "is it"),
        ImportedRun("r", "e", "done", gpu_hours=1e300),
        ImportedRun("r", "e", "done", run_hours=1.1e10),
        ImportedRun("r", "e", "done", duration_s=1e300),
    ],
)
def test_a_row_that_the_ledger_cannot_hold_is_refused_by_number(project: Path, record: Any) -> None:
    with Lab.open() as lab:
        for dry_run in (True, False):
            with pytest.raises(UsageError, match="row 2") as caught:
                take(lab, E1, record, dry_run=dry_run)
            assert caught.value.code == "bad_import"
        assert lab.experiments.list().items == ()


def test_a_wrong_field_of_the_batch_is_refused(project: Path) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"plugin": 5},
        {"kind": None},
        {"source": 5},
        {"source": "x" * 2000},
        {"folder": "."},
        {"records": "abc"},
        {"records": b"abc"},
        {"records": None},
        {"records": 5},
        {"charge": 1},
        {"dry_run": None},
    )
    with Lab.open() as lab:
        for given in wrong:
            with pytest.raises(UsageError) as caught:
                lab.imports.take(Batch(**{"plugin": "adopt", "kind": "x", "source": "s", "records": [], **given}))
            assert caught.value.code == "bad_import", given


def test_files_come_from_the_source_alone(project: Path, tmp_path: Path) -> None:
    source, private = tmp_path / "source", tmp_path / "private.txt"
    source.mkdir()
    private.write_text("private")
    (source / "link").symlink_to(private)
    (source / "up").symlink_to(tmp_path)
    (source / "large").touch()
    os.truncate(source / "large", 17 * 1024 * 1024)
    (source / "good").write_text(f"token {SECRET}\n")
    with Lab.open() as lab:
        for path in (source / "link", source / "up" / "private.txt", private, source / ".." / "private.txt", source,
                     source / "missing", source / "large"):  # fmt: skip
            for dry_run in (True, False):
                with pytest.raises(UsageError, match=r"r: the file a\.log"):
                    take(lab, E1, ImportedRun("r", "e", "done", logs={"a.log": path}), folder=source, dry_run=dry_run)
        with pytest.raises(UsageError, match="in which folder"):
            take(lab, E1, ImportedRun("r", "e", "done", logs={"a.log": source / "good"}))
        assert lab.experiments.list().items == ()
        take(lab, E1, ImportedRun("r", "e", "done", logs={"a.log": source / "good"}), folder=source)
        assert "token" in (lab.root / ".perpetual/runs/r1/a.log").read_text()


@pytest.mark.parametrize("point", [5, {"acc": math.nan}, {"acc": {1}}])
def test_a_series_is_data(project: Path, point: Any) -> None:
    with Lab.open() as lab:
        with pytest.raises(UsageError, match="series: point 2"):
            take(lab, E1, ImportedRun("r", "e", "done", series=[{"step": 1, "acc": 0.5}, point]))
        assert lab.experiments.list().items == ()


def test_no_secret_gets_in_anywhere(project: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(SECRET)
    with Lab.open() as lab:
        take(
            lab,
            ImportedHypothesis("h", f"is {SECRET} it", tags=("t",), why=SECRET, confidence=0.6),
            ImportedExperiment("e", "h", SECRET, command=f"x {SECRET}", notes=SECRET,
                               config={"token": SECRET, "a": [SECRET]}),
            ImportedRun(
                "r", "e", "failed", reason=SECRET, sources={"acc": SECRET}, origin={"why": SECRET},
                annotations=({"kind": "log", "text": SECRET, "source": SECRET},), logs={"a": tmp_path / "a"},
                series=[{"step": 1, "note": SECRET, "acc": 0.5}],
            ),
            ImportedNote("n", "a.md", SECRET, SECRET),
            folder=tmp_path,
        )  # fmt: skip
        assert lab.storage.verify() == []
    for path in (project / ".perpetual").rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_a_plugin_of_another_distribution_has_kinds_of_its_own(project: Path) -> None:
    registry = Registry(extra=[("acme", "mlflow", "1", type("Plugin", (), {}))])
    with Lab.open(registry=registry) as lab:
        for kind in ("mlflow", "autoresearch", "other.table", "mlflow.", "mlflow.a:b", "mlflow.a.b"):
            with pytest.raises(UsageError, match=r"not the plugin mlflow's"):
                lab.imports.take(Batch("acme/mlflow", kind, "mine", [E1]))
        lab.imports.take(Batch("adopt", "mlflow", "mine", [E1]))
        assert lab.imports.take(Batch("mlflow", "mlflow.runs", "mine", [E1])).experiments == 1
        assert (lab.imports.id_of("mlflow", "e"), lab.imports.id_of("mlflow.runs", "e")) == ("e1", "e2")
        assert lab.experiments.get("e2").proposed_by == "adopt:mlflow.runs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_a_source_may_belong_to_another_user(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "a"
    log.write_text("text")
    os.chown(log, 1234, -1)
    with Lab.open() as lab:
        take(lab, E1, ImportedRun("r", "e", "done", logs={"a": log}), folder=tmp_path)
        assert (lab.root / ".perpetual/runs/r1/a").read_text() == "text"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_note_does_not_take_the_key_of_another_record(project: Path, dry_run: bool) -> None:
    with Lab.open() as lab:
        take(lab, ImportedHypothesis("d", "is it"))
        with pytest.raises(Conflict, match="d was imported as another record"):
            take(lab, ImportedNote("d", "notes/clash.md", "text"), dry_run=dry_run)
        assert lab.memory.list().items == ()


def test_a_note_of_another_source_stays(project: Path) -> None:
    """Also one that a person wrote; a rehearsal says the same."""
    first, second = (ImportedNote("n", "notes/plan.md", text) for text in ("Warm-up helps.", "Warm-up hurts."))
    with Lab.open() as lab:
        take(lab, first)
        for dry_run in (True, False):
            taken = lab.imports.take(Batch("adopt", "elsewhere", "theirs", [second], dry_run=dry_run))
            assert (taken.notes, taken.known["notes"]) == (0, 0)
            (remark,) = taken.remarks
            assert remark.what == "note notes/plan.md"
            assert "is another note" in remark.why
        assert lab.memory.read("notes/plan.md") == "Warm-up helps."
        assert len(lab.memory.history("notes/plan.md")) == 1
        assert take(lab, first).known["notes"] == 1
