"""Snapshots: a compaction changes nothing that anybody can see, is cut off without harm, and damage is named."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perpetual.errors import CorruptData, PerpetualError
from perpetual.toolkit.atomic import write_atomic
from perpetual_tinydb import journal as journal_module
from perpetual_tinydb.journal import Journal
from perpetual_tinydb.store import TinyStore
from tests.plugins.tinydb.helpers import append, contents, files, fill, folding, fresh, ns, python, state

# --- compaction -----------------------------------------------------------------------------------------------------


def test_a_compaction_changes_nothing_that_is_seen(folder: Path, store: TinyStore) -> None:
    """Again and again, with writes between, for who compacted, who had it open and who opens it."""
    reader = fresh(folder)
    for generation in range(2, 6):
        fill(store)
        before = state(store)
        assert state(reader) == before
        store.compact()
        assert files(folder) == [
            "journal.jsonl", "lock", f"snapshot-{generation}.index", f"snapshot-{generation}.jsonl",
        ]  # fmt: skip
        for seen in (store, reader, fresh(folder)):
            assert state(seen) == before
            assert seen.describe()["generation"] == generation
        assert store.verify() == []
        page = reader.page("hypothesis", limit=3, newest_first=True)
        assert [item.number for item in page.items] == [store.count("hypothesis") - n for n in range(3)]


def test_an_empty_store_has_nothing_to_compact(folder: Path, store: TinyStore) -> None:
    store.compact()
    assert files(folder) == ["lock"]
    assert (store.seq(), store.verify()) == (0, [])


def test_a_snapshot_is_read_by_eye(folder: Path, store: TinyStore) -> None:
    fill(store)
    store.compact()
    rows = [json.loads(line) for line in (folder / "snapshot-2.jsonl").read_text("utf-8").split("\n")[:-1]]
    assert [(row["k"], row["r"]["_no"]) for row in rows] == [
        (kind, number)
        for kind, last in (("event", 7), ("hypothesis", 7), ("setting", 3))
        for number in range(1, last + 1)
    ]
    assert "ü" in (folder / "snapshot-2.jsonl").read_text("utf-8")


def test_another_process_s_compaction_is_seen(folder: Path, store: TinyStore) -> None:
    peer = python(
        "for line in sys.stdin:\n    exec(line)\n    print(store.seq(), flush=True)\n", folder, stdin=subprocess.PIPE
    )
    assert peer.stdin is not None
    assert peer.stdout is not None

    def ask(code: str) -> int:
        assert peer.stdin is not None
        assert peer.stdout is not None
        peer.stdin.write(code + "\n")
        peer.stdin.flush()
        return int(peer.stdout.readline())

    try:
        fill(store)
        before = state(store)
        assert ask("store.compact()") == 8
        assert state(store) == before
        append(store, 8)
        assert ask("store.compact(); store.compact()") == 9
        append(store, 9)
        assert ask("pass") == 10
        assert store.describe()["generation"] == 4
        assert ns(store) == [*range(1, 10)]
    finally:
        peer.kill()
        peer.communicate()


def test_a_reader_of_the_generation_before_goes_on(folder: Path, store: TinyStore) -> None:
    """What it has open stays readable after the files are gone, until it looks again."""
    fill(store)
    store.compact()
    append(store, 8)
    reader = fresh(folder)
    assert reader.seq() == 9
    view = reader.journal
    store.compact()
    append(store, 9)
    assert [row["n"] for number in range(1, 9) if (row := view.row("event", number))] == [*range(1, 9)]
    assert view.number("hypothesis", "h5") == 5
    assert len([*view.changes(0)]) == 18
    assert ns(reader) == [*range(1, 10)]


@pytest.mark.parametrize("step", ["_header", "_open_snapshot"])
def test_a_compaction_during_an_opening_loses_nothing(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The journal was read and names a snapshot that is gone by now: it begins anew."""
    fill(store)
    store.compact()
    before = state(store)
    real = getattr(Journal, step)
    compacted: list[bool] = []

    def late(self: Journal, *given: Any) -> Any:
        if step == "_header":
            answer = real(self, *given)
        if len(compacted) < 3:
            compacted.append(True)
            monkeypatch.setattr(Journal, step, real)
            fresh(folder).compact()
            monkeypatch.setattr(Journal, step, late)
        return answer if step == "_header" else real(self, *given)

    monkeypatch.setattr(Journal, step, late)
    assert state(fresh(folder)) == before
    assert len(compacted) == 3


def test_a_journal_that_outgrows_its_snapshot_is_folded(folder: Path, store: TinyStore) -> None:
    """By itself, beyond 1 MiB and the size of the snapshot."""
    generations = []
    for n in range(40):
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": n, "text": "x" * 100_000})
            tx.append("event", {"n": n, "text": "x" * 20_000})
        generations.append(store.describe()["generation"])
    assert generations[7] == 1
    assert generations[8] == 2
    assert generations[-1] == 5
    sizes = store.describe()["files"]
    assert sizes["journal.jsonl"] < 2**20 + 130_000
    assert len(files(folder)) == 4
    for seen in (store, fresh(folder)):
        assert ns(seen) == [*range(40)]
        assert (ns(seen, "setting"), seen.seq(), seen.verify()) == ([39], 40, [])


# --- a compaction that fails or dies --------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "write"])
def test_no_room_for_a_compaction_never_fails_the_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The commit stands, the half snapshot gives its room back, and it is tried again a MiB later."""
    store = folding(folder)
    real, tried = getattr(os, call), []

    def refuse(*given: Any, **named: Any) -> Any:
        # a file's own write goes through the journal's append as well: only the new header's is refused
        ours = {"open": "snapshot-" in str(given[0]), "write": call == "write" and b'{"format"' in bytes(given[1])}
        if ours.get(call, True):
            tried.append(call)
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given, **named)

    append(store, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        for n in range(1, 30):
            append(store, n)
        assert ns(store) == ns(fresh(folder)) == [*range(30)]
        assert 1 <= len(tried) <= 3, "it is tried at every commit"
        assert files(folder) == ["journal.jsonl", "lock"]
        assert "No space left on device" in (store.describe()["compaction_problem"] or "")
        with pytest.raises(PerpetualError) as caught:
            store.compact()
        assert caught.value.code == "not_written"
        assert (ns(store), files(folder)) == ([*range(30)], ["journal.jsonl", "lock"])
    for n in range(30, 60):
        append(store, n)
    assert store.describe()["generation"] > 1
    assert store.describe()["compaction_problem"] is None
    assert (ns(fresh(folder)), store.verify()) == ([*range(60)], [])
    store.close()


def test_a_folder_that_does_not_confirm_keeps_the_snapshot_that_is_named(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal was replaced and only then the disk refused: what it names must not be tidied away."""
    fill(store)
    calls = []

    def refuse(*given: Any) -> None:
        write_atomic(*given)
        calls.append(given)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "write_atomic", refuse)
        before = state(store)
        with pytest.raises(PerpetualError):
            store.compact()
    assert len(calls) == 1
    assert state(store) == state(fresh(folder)) == before
    assert store.verify() == []


_DYING = """
import shutil, signal
from perpetual_tinydb.journal_format import seal
CALLS = ("open", "write", "fsync", "fdatasync", "replace", "unlink", "ftruncate", "rename")
torn = len(sys.argv) > 1
source = store.folder

def die_at(number):
    left = [number]
    def counted(real):
        def call(*given, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = real(*given, **named)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer
        return call
    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))

number = 0
while True:
    number += 1
    copy = source.parent / f"died-{number}"
    shutil.copytree(source, copy)
    child = os.fork()
    if child == 0:
        opened = open_store({"lock_timeout_s": 1.0}, path=copy)
        opened.seq()
        die_at(number)
        opened.compact()
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
print(number)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_torn", [False, True])
def test_a_compaction_that_dies_at_any_step_leaves_one_generation_whole(
    folder: Path, store: TinyStore, tmp_path: Path, is_torn: bool
) -> None:
    """Killed before and after each call to the operating system that changes something."""
    fill(store)
    store.compact()
    append(store, 8)
    if is_torn:
        with (folder / "journal.jsonl").open("ab") as file:
            file.write(b'{"k":"event"')
    before = state(store)
    steps = int(python(_DYING, folder).communicate(timeout=60)[0])
    assert steps > 25
    generations = set()
    for number in range(1, steps + 1):
        seen = fresh(tmp_path / f"died-{number}")
        assert state(seen) == before, number
        generations.add(seen.describe()["generation"])
        assert seen.verify() == [], number
        append(seen, 9)
        assert ns(fresh(seen.folder)) == [*range(1, 10)]
        seen.compact()
        assert len(files(seen.folder)) == 4 + is_torn, number  # what the dead one left is tidied away
        assert ns(fresh(seen.folder)) == [*range(1, 10)]
        kept = [data for name, data in contents(seen.folder).items() if name.startswith("quarantine")]
        assert kept == ([b'{"k":"event"'] if is_torn else [])
    assert generations == {2, 3}


# --- damage ---------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> list[tuple[int, int, dict[str, Any]]]:
    """(begin, end, row) of each line."""
    found, begin = [], 0
    for line in path.read_bytes().split(b"\n")[:-1]:
        found.append((begin, begin + len(line) + 1, json.loads(line)))
        begin += len(line) + 1
    return found


def test_a_flipped_bit_in_any_row_is_found_when_it_is_read(folder: Path, store: TinyStore) -> None:
    """And by verify; the other rows are read, and written, as before."""
    fill(store)
    store.compact()
    path = folder / "snapshot-2.jsonl"
    whole = path.read_bytes()
    rows = _lines(path)
    for begin, end, line in rows:
        kind, id = line["k"], line["r"]["_id"]
        for position in {begin, begin + 9, (begin + end) // 2, end - 12, end - 2}:
            data = bytearray(whole)
            data[position] ^= 1 << position % 7
            path.write_bytes(data)
            seen = fresh(folder)
            for deed in (partial(seen.get, kind, id), partial(seen.find, kind)):
                with pytest.raises(CorruptData) as caught:
                    deed()
                assert f"{path} cannot be read at byte {begin}:" in caught.value.message
                assert caught.value.hint
            (problem,) = seen.verify()
            assert f"{path} cannot be read at byte {begin}:" in problem
            other = "event" if kind != "event" else "setting"
            assert ns(seen, other) == ns(store, other)
    path.write_bytes(whole)
    assert fresh(folder).verify() == []


def test_a_damaged_row_stops_the_compaction_and_not_the_commit(folder: Path, store: TinyStore) -> None:
    fill(store)
    store.compact()
    path = folder / "snapshot-2.jsonl"
    begin = _lines(path)[3][0]
    data = bytearray(path.read_bytes())
    data[begin + 20] ^= 1
    path.write_bytes(data)
    writer = folding(folder)
    for n in range(60):
        with writer.transaction() as tx:
            tx.put("setting", "x", {"n": n, "text": "x" * 100})
    assert writer.seq() == 68
    assert f"{path} cannot be read at byte {begin}" in (writer.describe()["compaction_problem"] or "")
    with pytest.raises(CorruptData) as caught:
        writer.compact()
    assert f"{path} cannot be read at byte {begin}" in caught.value.message
    assert files(folder) == ["journal.jsonl", "lock", "snapshot-2.index", "snapshot-2.jsonl"]
    assert path.read_bytes() == data
    assert ns(fresh(folder), "setting")[-1] == 59


def test_a_block_that_met_damage_and_goes_on_loses_nothing(folder: Path, store: TinyStore) -> None:
    """The error is caught inside the block, and what is written after it goes behind what was there."""
    fill(store)
    store.compact()
    append(store, 8)
    path = folder / "snapshot-2.jsonl"
    good = path.read_bytes()
    path.write_bytes(b"#" + good[1:])
    writer = fresh(folder)
    with writer.transaction() as tx:
        with pytest.raises(CorruptData):
            tx.get("event", "1")
        assert tx.append("event", {"n": 9}) == 9
    path.write_bytes(good)
    assert ns(fresh(folder)) == [*range(1, 10)]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda path: path.unlink(), "snapshot-2.jsonl is missing"),
        (lambda path: path.write_bytes(b""), "it has 0 bytes and had"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes and had"),
        (lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2])), "bytes and had"),
        (lambda path: path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[0]), "and had"),
    ],
    ids=["missing", "empty", "a byte short", "rows are gone", "longer"],
)
@pytest.mark.parametrize("has_index", [True, False])
def test_a_snapshot_that_is_not_whole_is_named(
    folder: Path, store: TinyStore, damage: Callable[[Path], object], what: str, has_index: bool
) -> None:
    """Rows that are gone to a line's end leave a file that reads well: its length is known."""
    fill(store)
    store.compact()
    append(store, 8)
    path = folder / "snapshot-2.jsonl"
    good = path.read_bytes()
    damage(path)
    if not has_index:
        (folder / "snapshot-2.index").unlink()
    before = contents(folder)
    seen = fresh(folder)
    for deed in (seen.seq, lambda: ns(seen), lambda: append(seen, 9), seen.compact):
        with pytest.raises(CorruptData) as caught:
            deed()
        assert what in caught.value.message
        assert str(folder) in caught.value.message
    (problem,) = seen.verify()
    assert what in problem
    assert contents(folder) == before
    path.write_bytes(good)
    append(seen, 9)
    assert ns(seen) == ns(fresh(folder)) == [*range(1, 10)]
