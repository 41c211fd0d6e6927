"""Moving house: export, import, migration and upgrade, killed at every step, and `verify` against spoilt records."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.config import Config
from perpetual.errors import (
    Conflict,
    CorruptData,
    ForeignProject,
    PerpetualError,
    TransientError,
    UnknownPlugin,
    UsageError,
)
from perpetual.lab import schema_upgrades, store_migration
from perpetual.slots.store import KINDS, Row, StoreBase
from perpetual.testing.projects import trust_project
from perpetual.toolkit.crashpoints import STEPS

STORES = ("tinydb", "sqlite")
MOVES = [name for name in STEPS if name.startswith("move:")]


_MADE: list[Path] = []  # the project below, made once in a process


def _work(lab: Lab) -> None:
    lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
    measured = lab.experiments.propose(
        "h1", command="sh -c 'echo acc=1.5$PERPETUAL_SEED'", noise=0.05, replicates=2, cost_run_hours=0.001, wall_s=60.0
    )
    lab.experiments.approve(measured.id)
    for _ in range(2):
        lab.wait([lab.runs.launch(measured.id)[0].id], timeout_s=30)
    lab.experiments.propose("h1", command="true", metric="acc", direction="max", baseline=1.0, mde=0.1)
    lab.memory.write("notes/ü.md", "warm-up helps\n", message="first")
    lab.memory.write("notes/ü.md", "warm-up helps little\n")
    lab.hypotheses.add("nothing else matters", tags=["b", "a"])


@pytest.fixture
def worked(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with records of every kind: a verdict, runs, evidence, debits, notes."""
    if _MADE:
        shutil.rmtree(project)
        shutil.copytree(_MADE[0], project)
        trust_project(project)
    else:
        with Lab.open(project) as lab:
            _work(lab)
        _MADE.append(tmp_path_factory.mktemp("worked") / "project")
        shutil.copytree(project, _MADE[0])
    with Lab.open(project) as lab:
        yield lab


def exported(lab: Lab) -> bytes:
    """The whole record as bytes."""
    stream = io.BytesIO()
    lab.storage.export(stream)
    return stream.getvalue()


def spoil(lab: Lab, kind: str, change: Callable[[list[Row]], None]) -> None:
    """Rewrites the store with the rows of a kind changed, past every door."""
    store = lab.context.store

    def load(target: Any) -> int:
        rows = {name: [dict(row) for row in store.slice(name, {})] for name in store.kinds}
        change(rows[kind])
        flat = [(name, row) for name, found in rows.items() for row in found]
        return store_migration.fill(target, flat, store.meta())

    def build(path: Path) -> StoreBase:
        target = lab.context.build_store(lab.config["store"], path, claim=False)
        for name in {*store.kinds} - {*target.kinds}:  # those of plugins
            target.declare(store.kinds[name])
        # what is spoilt here is not to be noticed yet
        target.count = lambda kind, /, **equals: len(target.find(kind, **equals))  # type: ignore[method-assign]
        target.verify = list  # type: ignore[method-assign]
        return target

    store_migration.move(lab.context.folder, store, build, load, now=lab.context.clock(), config={})
    lab.context.forget_store()


# --- export and import ------------------------------------------------------------------------------------------


def test_an_export_is_lines_of_json_with_a_checksum(worked: Lab) -> None:
    lines = [json.loads(line) for line in exported(worked).splitlines()]
    assert lines[0]["schema"] == "perpetual.export/1"
    assert lines[0]["commit"] == worked.context.store.seq()
    assert lines[0]["project_id"] == worked.config.project_id
    counts = {kind: told["count"] for kind, told in lines[0]["kinds"].items()}
    assert counts["run"] == 2
    assert {"hypothesis", "experiment", "run", "evidence", "debit", "note", "intent", "event", "verdict"} <= set(counts)
    assert lines[-1]["rows"] == len(lines) - 2 == sum(counts.values())
    assert exported(worked) == exported(worked)


@pytest.mark.parametrize("name", STORES)
def test_the_round_trip_is_byte_identical(worked: Lab, tmp_path: Path, name: str) -> None:
    file = tmp_path / "record.jsonl"
    answer = worked.storage.export_file(file)
    assert (answer["path"], file.stat().st_mode & 0o777) == (str(file), 0o600)
    with Lab.init(tmp_path / "other", name="other", store=name) as other:
        made = other.storage.import_file(file)
        assert made["rows"] == answer["rows"]
        assert exported(other) == file.read_bytes()
        assert other.config.project_id == worked.config.project_id  # the seeds of what is still to run derive from it
        assert other.hypotheses.get("h1") == worked.hypotheses.get("h1")
        assert other.runs.list().items == worked.runs.list().items
        assert other.storage.verify() == []
        assert other.memory.read("notes/ü.md") == "warm-up helps little\n"
        assert other.hypotheses.add("and on it goes").id == "h3"
        other.memory.write("notes/b.md", "rebuilt with git\n")
        told = [version.message.splitlines()[0] for version in other.memory.history("notes/ü.md")]
        assert told == ["change notes/ü.md", "first"]
    with Lab.open(tmp_path / "other") as again:
        assert again.hypotheses.get("h3").statement == "and on it goes"


def test_an_export_replaces_no_file_of_a_record_and_no_device(worked: Lab, tmp_path: Path) -> None:
    """As root, a file would take the place of /dev/null itself."""
    (tmp_path / "beside").symlink_to(worked.root / ".perpetual")
    os.mkfifo(tmp_path / "pipe")
    before = exported(worked)
    for place in (worked.root / ".perpetual" / "config.yaml", tmp_path / "beside" / "store" / "journal.jsonl"):
        with pytest.raises(UsageError, match=r"is inside a \.perpetual"):
            worked.storage.export_file(place)
    for place in (tmp_path / "pipe", Path("/")):
        with pytest.raises(PerpetualError, match="it is not a regular file"):
            worked.storage.export_file(place)
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert exported(worked) == before


def test_only_a_fresh_project_takes_an_import(worked: Lab, tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    worked.storage.export_file(file)
    before = exported(worked)
    with pytest.raises(Conflict) as caught:
        worked.storage.import_file(file)
    assert "hypothesis" in caught.value.message
    assert exported(worked) == before


def test_a_dry_run_changes_nothing(worked: Lab, tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    rows = worked.storage.export_file(file)["rows"]
    with Lab.init(tmp_path / "other") as other:
        before = exported(other)
        assert other.storage.import_file(file, dry_run=True)["rows"] == rows
        assert other.storage.migrate("sqlite", dry_run=True)["backup"] is None
        assert (exported(other), other.config["store"]) == (before, "tinydb")
        assert not (other.context.folder / "backups").exists()


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda lines: [], 1),
        (lambda lines: lines[:-1], None),
        (lambda lines: lines[:3] + lines[4:], None),
        (lambda lines: [lines[0], lines[1].replace(b'"number":1', b'"number":2'), *lines[2:]], None),
        (lambda lines: [b"{}\n", *lines[1:]], 1),
        (lambda lines: [b"nonsense\n", *lines[1:]], 1),
        (lambda lines: [lines[0]], 1),
        (lambda lines: [*lines, b"more\n"], None),
    ],
    ids=["empty", "no end", "a row less", "a changed row", "no header", "no JSON", "a header alone", "more behind"],
)
def test_a_damaged_export_is_refused(worked: Lab, tmp_path: Path, damage: Any, line: int | None) -> None:
    file = tmp_path / "record.jsonl"
    worked.storage.export_file(file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(damage(lines)))
    with Lab.init(tmp_path / "other") as other:
        before = exported(other)
        with pytest.raises(CorruptData) as caught:
            other.storage.import_file(file)
        assert str(file) in caught.value.message
        if line is not None:
            assert f"{file}:{line}:" in caught.value.message
        assert exported(other) == before


_DEEP = "[" * 5000 + "]" * 5000


_ODD = (
    (1, "kinds", "null"), (1, "commit", "1e999"), (1, "commit", _DEEP), (1, "project_id", r'"\ud800"'),
    (2, "id", "null"), (2, "kind", "[]"), (2, "kind", '"x"'), (2, "number", "null"), (2, "revision", "1.5"),
    (2, "seq", "1" + "0" * 19), (2, "seq", "1e999"), (2, "body", "[]"), (2, "body", '{"_id": "other"}'),
    (2, "body", _DEEP), (2, "body", r'{"a": "\ud800"}'), (2, "body", '{"a": NaN}'),
)  # fmt: skip


def test_an_export_of_odd_values_is_refused_by_its_line(worked: Lab, tmp_path: Path) -> None:
    """Its checksum is right: whoever wrote it made one."""
    file = tmp_path / "record.jsonl"
    worked.storage.export_file(file)
    whole = file.read_bytes().splitlines(keepends=True)[:-1]
    with Lab.init(tmp_path / "other") as other:
        before = exported(other)
        for number, field, value in _ODD:
            changed = json.dumps({**json.loads(whole[number - 1]), field: "HERE"}).replace('"HERE"', value)
            lines = [*whole[: number - 1], changed.encode() + b"\n", *whole[number:]]
            end = {"rows": len(lines) - 1, "sha256": sha256(b"".join(lines)).hexdigest()}
            file.write_bytes(b"".join([*lines, json.dumps(end).encode() + b"\n"]))
            with pytest.raises(CorruptData, match=rf"record\.jsonl:{number}:"):
                other.storage.import_file(file)
            assert exported(other) == before, (field, value)


def test_an_export_that_is_not_there_is_a_bad_value(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        lab.storage.import_file(tmp_path / "nothing")
    with pytest.raises(PerpetualError) as caught:
        lab.storage.export_file(tmp_path / "no" / "folder.jsonl")
    assert "folder.jsonl" in caught.value.message


# --- migration --------------------------------------------------------------------------------------------------


def test_migration_takes_everything_along(worked: Lab) -> None:
    before = exported(worked)
    told = worked.storage.migrate("sqlite")
    assert (told["from"], told["to"]) == ("tinydb", "sqlite")
    assert (worked.config["store"], Config(worked.root)["store"]) == ("sqlite", "sqlite")
    assert exported(worked) == before
    assert worked.storage.verify() == []
    assert (Path(told["backup"] or "") / "journal.jsonl").exists()
    worked.hypotheses.add("a third one")
    back = worked.storage.migrate("tinydb")
    assert back["backup"] != told["backup"]
    assert worked.hypotheses.get("h3").statement == "a third one"
    assert worked.storage.verify() == []


def test_an_impossible_target_of_a_migration_is_named(worked: Lab) -> None:
    with pytest.raises(Conflict):
        worked.storage.migrate("tinydb")
    with pytest.raises(UnknownPlugin):
        worked.storage.migrate("sqlit")
    assert worked.config["store"] == "tinydb"


def test_another_store_is_not_chosen_past_the_record(worked: Lab) -> None:
    with pytest.raises(Conflict) as caught:
        worked.settings.set_config("store", "sqlite")
    assert "migrate sqlite" in str(caught.value.hint)
    assert worked.config["store"] == "tinydb"
    worked.settings.set_config("store", "tinydb")  # the same one is nothing new


def _die_at(step: str, code: str, *arguments: object) -> int:
    """Runs Python in a process that ends itself at that step; its return code."""
    environment = {**os.environ, "PERPETUAL_DIE_AT": step}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.parametrize("step", MOVES)
def test_a_migration_that_is_killed_leaves_one_store_in_force(worked: Lab, step: str) -> None:
    before = exported(worked)
    code = "import sys\nfrom perpetual import Lab\nLab.open(sys.argv[1]).storage.migrate('sqlite')"
    assert _die_at(step, code, worked.root) == -signal.SIGKILL
    decided = step not in ("move:built", "move:retired")
    for _ in range(2):
        with Lab.open(worked.root) as lab:
            assert exported(lab) == before
            assert lab.config["store"] == ("sqlite" if decided else "tinydb")
            assert lab.storage.verify() == []
    assert not (worked.context.folder / "moving.json").exists()
    backups = [*(worked.context.folder / "backups").glob("*/journal.jsonl")]
    assert len(backups) == (1 if decided else 0)
    with Lab.open(worked.root) as lab:  # and what was left half built is in nobody's way
        if not decided:
            lab.storage.migrate("sqlite")
        lab.hypotheses.add("life goes on")
        assert lab.storage.verify() == []


@pytest.mark.parametrize("step", MOVES)
def test_an_import_that_is_killed_leaves_one_store_in_force(worked: Lab, tmp_path: Path, step: str) -> None:
    file = tmp_path / "record.jsonl"
    worked.storage.export_file(file)
    with Lab.init(tmp_path / "other") as other:
        before = exported(other)
    code = "import sys\nfrom perpetual import Lab\nLab.open(sys.argv[1]).storage.import_file(sys.argv[2])"
    assert _die_at(step, code, tmp_path / "other", file) == -signal.SIGKILL
    with Lab.open(tmp_path / "other") as other:
        assert exported(other) == (before if step in ("move:built", "move:retired") else file.read_bytes())


def test_a_process_that_has_the_old_store_open_goes_on_with_the_new_one(worked: Lab) -> None:
    with Lab.open(worked.root) as slow:
        assert slow.hypotheses.get("h1").id == "h1"
        worked.storage.migrate("sqlite")
        assert slow.hypotheses.get("h2").statement == "nothing else matters"
        assert slow.config["store"] == "sqlite"
        assert slow.hypotheses.add("written to the new one").id == "h3"
        assert worked.hypotheses.get("h3").statement == "written to the new one"
        assert worked.storage.verify() == []


def test_a_write_to_a_store_that_was_moved_is_refused(worked: Lab) -> None:
    with Lab.open(worked.root) as slow:
        old = slow.context.store  # as a deed holds it that begins before the move and writes after it
        worked.storage.migrate("sqlite")
        with pytest.raises(TransientError) as caught, old.transaction() as tx:
            tx.create("hypothesis", {})
        assert (caught.value.code, caught.value.exit) == ("store_moved", 3)
        assert slow.hypotheses.add("the next deed goes through").id == "h3"
    assert worked.storage.verify() == []


def test_a_writer_that_waits_meanwhile_is_sent_to_the_new_store(worked: Lab) -> None:
    errors: list[PerpetualError] = []
    with Lab.open(worked.root) as slow:
        slow.hypotheses.get("h1")

        def write() -> None:
            for n in range(3):
                try:
                    slow.hypotheses.add(f"number {n}")
                except TransientError as problem:
                    errors.append(problem)

        with worked.context.store.exclusive():
            thread = threading.Thread(target=write)
            thread.start()  # waits for the lock, or comes later: either way it must not write to the old store
        worked.storage.migrate("sqlite")
        thread.join(30)
        assert not thread.is_alive()
    assert [error.code for error in errors] in (["store_moved"], [])
    with Lab.open(worked.root) as lab:
        assert len(lab.hypotheses.list().items) == 5 - len(errors)
        assert lab.storage.verify() == []


def test_two_moves_at_once_are_one(worked: Lab) -> None:
    from perpetual.toolkit.lock import FileLock

    before = exported(worked)
    with FileLock(worked.context.folder / "moving.lock"), pytest.raises(Conflict):
        worked.storage.migrate("sqlite")
    assert exported(worked) == before


def test_a_new_store_that_does_not_hold_what_was_written_is_not_taken(
    worked: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = exported(worked)
    rows_of = store_migration.rows_of
    monkeypatch.setattr(store_migration, "rows_of", lambda store: [*rows_of(store)][:-1])
    fill = store_migration.fill
    monkeypatch.setattr(store_migration, "fill", lambda *given: fill(*given) + 1)
    with pytest.raises(CorruptData):
        worked.storage.migrate("sqlite")
    monkeypatch.undo()
    assert (exported(worked), worked.config["store"]) == (before, "tinydb")
    assert not (worked.context.folder / "store.new").exists()


def test_a_plan_that_cannot_be_read_is_named(worked: Lab) -> None:
    plan = worked.context.folder / "moving.json"
    plan.write_text("{", "utf-8")
    with pytest.raises(CorruptData) as caught, Lab.open(worked.root) as lab:
        lab.hypotheses.list()
    assert str(plan) in caught.value.message
    plan.unlink()


# --- upgrades ---------------------------------------------------------------------------------------------------


@pytest.fixture
def second_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later Perpetual, in which a hypothesis has its statement in capitals."""
    monkeypatch.setitem(KINDS, "hypothesis", replace(KINDS["hypothesis"], version=2))

    def shout(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "statement": body["statement"].upper()}

    monkeypatch.setitem(schema_upgrades.UPGRADES, ("hypothesis", 1), shout)


def test_every_kind_carries_a_version(lab: Lab) -> None:
    found = lab.context.store.get("setting", "kinds")
    assert found is not None
    assert found.body == {name: kind.version for name, kind in KINDS.items()}


def test_an_older_project_is_upgraded_with_a_backup(worked: Lab, second_version: None) -> None:
    untouched = [row for row in exported(worked).splitlines() if b'"kind":"run"' in row]
    with Lab.open(worked.root) as lab:
        assert lab.hypotheses.get("h2").statement == "NOTHING ELSE MATTERS"
        assert [row for row in exported(lab).splitlines() if b'"kind":"run"' in row] == untouched
        assert lab.storage.verify() == []
        assert lab.hypotheses.add("third").statement == "third"
    [backup] = (worked.context.folder / "backups").iterdir()
    assert b"nothing else matters" in (backup / "journal.jsonl").read_bytes()
    with Lab.open(worked.root) as lab:  # once
        assert lab.hypotheses.get("h3").statement == "third"
    assert len([*(worked.context.folder / "backups").iterdir()]) == 1


def test_a_project_without_versions_is_of_the_first(worked: Lab, second_version: None) -> None:
    with worked.context.store.transaction() as tx:
        tx.put("setting", "kinds", {})
    with Lab.open(worked.root) as lab:
        assert lab.hypotheses.get("h2").statement == "NOTHING ELSE MATTERS"


def test_a_newer_project_is_refused_by_name(worked: Lab) -> None:
    with worked.context.store.transaction() as tx:
        tx.put("setting", "kinds", {**schema_upgrades.versions_of(KINDS), "run": 7})
    with pytest.raises(ForeignProject) as caught, Lab.open(worked.root) as lab:
        lab.hypotheses.list()
    assert "'run'" in caught.value.message
    assert "version 7" in caught.value.message
    assert caught.value.exit == 6


def test_a_newer_export_is_refused_by_name(worked: Lab, tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    worked.storage.export_file(file)
    with pytest.MonkeyPatch.context() as patched, Lab.init(tmp_path / "other") as other:
        patched.setitem(KINDS, "run", replace(KINDS["run"], version=0))
        with pytest.raises(Conflict) as caught:
            other.storage.import_file(file)
    assert "'run'" in caught.value.message


# --- verify -----------------------------------------------------------------------------------------------------


def test_a_sound_record_has_no_problems(worked: Lab) -> None:
    assert worked.storage.verify() == []


def _set(rows: list[Row], id: str, **changes: Any) -> None:
    next(row for row in rows if row["_id"] == id).update(changes)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("run", lambda rows: _set(rows, "r1", experiment_id="e99"), "r1: its experiment_id is e99"),
        ("evidence", lambda rows: _set(rows, "1", run_id="r99"), "1: its run_id is r99"),
        ("experiment", lambda rows: _set(rows, "e1", hypothesis_id="h9"), "e1: its hypothesis_id is h9"),
        ("event", lambda rows: rows.pop(3), "missing 4"),
        ("run", lambda rows: rows.pop(0), "missing 1"),
        ("event", lambda rows: _set(rows, "2", _seq=9999), "written by commit 9999"),
        ("event", lambda rows: _set(rows, "2", _rev=2), "event 2: revision 2"),
        ("event", lambda rows: _set(rows, "3", _seq=1), "not in the order of their commits"),
        ("hypothesis", lambda rows: _set(rows, "h1", confidence=0.123), "its confidence is 0.123"),
        ("hypothesis", lambda rows: _set(rows, "h1", status="refuted"), "its status is 'refuted'"),
        ("experiment", lambda rows: _set(rows, "e1", runs={"done": 7}), "its runs is {'done': 7}"),
        ("debit", lambda rows: _set(rows, "2", run_id="r2", kind="reserve"), "has a second reserve"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_record_is_named(worked: Lab, kind: str, change: Callable[[list[Row]], None], words: str) -> None:
    spoil(worked, kind, change)
    before = exported(worked)
    worked.context.store.verify = list  # type: ignore[method-assign]  # a store that finds nothing wrong with its own files
    problems = worked.storage.verify()
    assert [problem for problem in problems if words in problem], problems
    assert exported(worked) == before  # looking changes nothing


def test_a_damaged_budget_is_named(worked: Lab) -> None:
    kept = {"rows": 2, "spent_gpu_hours": 5.0, "run_hours": 0.0, "reserved": {}}
    with worked.context.store.transaction() as tx:
        tx.put("fold", "budget", kept)
    assert any("the kept budget says spent_gpu_hours 5.0" in problem for problem in worked.storage.verify())


def test_compaction_keeps_everything(worked: Lab) -> None:
    before = exported(worked)
    told = worked.storage.compact()
    assert told["bytes_after"] > 0
    assert exported(worked) == before
    assert worked.storage.verify() == []


def test_stats_say_what_is_there(worked: Lab) -> None:
    told = worked.storage.stats()
    assert (told["store"], told["records"]["run"], told["commit"]) == ("tinydb", 2, worked.context.store.seq())
    assert told["bytes"] == sum(told["files"].values()) > 0
    assert told["mode"] == "journal"


def test_rows_that_no_plugin_declares_are_not_left_behind(worked: Lab, tmp_path: Path) -> None:
    from perpetual.slots.store import StoreKind

    worked.context.store.declare(StoreKind("acme_sample", prefix="s"))
    with worked.context.store.transaction() as tx:
        tx.create("acme_sample", {"n": 1})
    with Lab.open(worked.root) as lab:  # without that plugin
        deeds: list[Callable[[], object]] = [
            lambda: lab.storage.migrate("sqlite"),
            lambda: lab.storage.export_file(tmp_path / "x.jsonl"),
        ]
        for deed in deeds:
            with pytest.raises(Conflict) as caught:
                deed()
            assert "acme_sample" in caught.value.message
        assert lab.config["store"] == "tinydb"
    assert not (tmp_path / "x.jsonl").exists()
    worked.storage.migrate("sqlite")  # with it
    worked.context.store.declare(StoreKind("acme_sample", prefix="s"))
    assert worked.context.store.find("acme_sample")[0].body == {"n": 1, "id": "s1"}
