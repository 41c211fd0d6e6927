"""Projects of the format before: one file, opened, read, converted at the first write, kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual.errors import CorruptData
from perpetual.toolkit.atomic import write_atomic
from perpetual_tinydb import journal as journal_module
from perpetual_tinydb import legacy
from perpetual_tinydb.head import head
from perpetual_tinydb.store import TinyStore
from tests.plugins.tinydb.helpers import append, files, fresh, ns, state


def _legacy(folder: Path) -> bytes:
    """A `store.json` as the version before wrote it."""
    tables = {
        "_meta": {"1": {"_id": "_meta", "_rev": 3, "_no": 1, "_seq": 3, "commit": 3,
                        "counters": {"hypothesis": 2, "event": 1}}},
        "hypothesis": {
            "1": {"_id": "h1", "_rev": 2, "_no": 1, "_seq": 3, "n": 1, "status": "open", "id": "h1", "text": "ü"},
            "2": {"_id": "h2", "_rev": 1, "_no": 2, "_seq": 1, "n": 2, "status": "parked", "id": "h2"},
        },
        "event": {"1": {"_id": "1", "_rev": 1, "_no": 1, "_seq": 2, "n": 1, "kind": "a", "subject": "h1"}},
    }  # fmt: skip
    folder.mkdir(parents=True)
    data = json.dumps(tables, ensure_ascii=False).encode()
    (folder / "store.json").write_bytes(data)
    return data


def _is_the_legacy_state(store: TinyStore) -> None:
    assert [(item.id, item.revision, item.number, item.seq) for item in store.find("hypothesis")] == [
        ("h1", 2, 1, 3),
        ("h2", 1, 2, 1),
    ]
    assert [item.id for item in store.find("hypothesis", status="parked")] == ["h2"]
    assert ns(store)[:1] == [1]
    assert [(change.seq, change.kind) for change in store.changes(0)][:3] == [
        (1, "hypothesis"), (2, "event"), (3, "hypothesis"),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["a write", "a compaction"])
def test_a_project_of_the_format_before_is_opened_and_converted(folder: Path, way: str) -> None:
    data = _legacy(folder)
    reader, writer = fresh(folder), fresh(folder)
    _is_the_legacy_state(reader)
    assert (reader.seq(), reader.verify(), files(folder)) == (3, [], ["lock", "store.json"])
    token = head(str(folder))
    assert token
    if way == "a write":
        append(writer, 2)
    else:
        writer.compact()
    assert (folder / "store.json.old").read_bytes() == data
    assert "store.json" not in files(folder)
    assert head(str(folder)) != token
    for seen in (reader, writer, fresh(folder)):
        _is_the_legacy_state(seen)
        assert seen.verify() == []
    with writer.transaction() as tx:
        assert tx.create("hypothesis", {"n": 3}).id == "h3"
        assert tx.put("hypothesis", "h1", {"n": 1}).revision == 3
    assert ns(reader, "hypothesis") == [1, 2, 3]
    assert (folder / "store.json.old").read_bytes() == data


def test_a_previous_format_that_is_still_written_is_converted_whole(folder: Path) -> None:
    """A process of the version before goes on for a while: what it commits is seen, and converted with the rest."""
    data = _legacy(folder)
    store = fresh(folder)
    assert ns(store, "hypothesis") == [1, 2]
    write_atomic(folder / "store.json", data.replace(b'"n": 2', b'"n": 22'))
    assert ns(store, "hypothesis") == [1, 22]
    write_atomic(folder / "store.json", data.replace(b'"n": 2', b'"n": 23'))
    append(store, 2)
    assert ns(store, "hypothesis") == ns(fresh(folder), "hypothesis") == [1, 23]


@pytest.mark.parametrize("was", ["nothing", "the format before"])
@pytest.mark.parametrize("when", ["before the second look", "after it"])
def test_a_journal_that_comes_between_two_looks_of_a_reader(
    folder: Path, monkeypatch: pytest.MonkeyPatch, was: str, when: str
) -> None:
    """The first writer is no error to who looks at that very moment, and what it wrote is read."""
    if was != "nothing":
        _legacy(folder)
    store, writer = fresh(folder), fresh(folder)
    once = iter([True])

    def head_meanwhile(path: str) -> str:
        told = head(path)
        if next(once, False):
            append(writer, 2)
            writer.compact()
            told = told if when == "after it" else head(path)
        return told

    monkeypatch.setattr("perpetual_tinydb.reader.head", head_meanwhile)
    assert ns(store) == ([2] if was == "nothing" else [1, 2])
    assert store.seq() == writer.seq()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b"\x00" * len(data),
        lambda data: b"[]",
        lambda data: b"{}",
        lambda data: b'{"_meta": []}',
        lambda data: data.replace(b'"_id"', b'"id"'),
        lambda data: data.replace(b'"event": {"1"', b'"event": {"x"'),
        lambda data: data.replace(b'"hypothesis": {"1"', b'"hypothesis": [], "lost": {"1"'),
        lambda data: data.replace("ü".encode(), b"\xff"),
    ],
    ids=["empty", "torn", "one byte short", "zeros", "a list", "no tables", "counters that are none",
         "rows without ids", "a number that is none", "a table that is none", "no UTF-8"],
)  # fmt: skip
def test_a_broken_file_of_the_format_before_is_named(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    good = _legacy(folder)
    assert damage(good) != good
    (folder / "store.json").write_bytes(damage(good))
    store = fresh(folder)
    for deed in (lambda: store.find("hypothesis"), lambda: append(store, 2), store.compact):
        with pytest.raises(CorruptData) as caught:
            deed()
        assert str(folder / "store.json") in caught.value.message
        assert caught.value.hint
    assert (folder / "store.json").read_bytes() == damage(good)
    assert files(folder) == ["lock", "store.json"]
    (folder / "store.json").write_bytes(good)
    append(store, 2)
    _is_the_legacy_state(fresh(folder))


def test_a_conversion_that_was_cut_off(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the journal is there the old file counts; with both the journal does, and the next compaction tidies."""
    data = _legacy(folder)
    expected = state(fresh(folder))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("write_atomic", "retire"):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(folder, tmp_path / "copy")
        store = fresh(tmp_path / "copy")
        with monkeypatch.context() as patched:
            patched.setattr(legacy if name == "retire" else journal_module, name, die)
            with pytest.raises(KeyboardInterrupt):
                append(store, 2)
        for seen in (store, fresh(tmp_path / "copy")):
            assert state(seen) == expected
        append(store, 3)
        assert ns(fresh(tmp_path / "copy")) == [1, 3]
        store.compact()
        assert (tmp_path / "copy" / "store.json.old").read_bytes() == data
        assert len(files(tmp_path / "copy")) == 5
        assert ns(fresh(tmp_path / "copy")) == [1, 3]
