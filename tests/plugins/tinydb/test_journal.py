"""The journal: what a crash or a bad disk leaves of it, what is said of it, and that nothing acknowledged is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual.errors import CorruptData, ForeignProject
from perpetual_tinydb import journal_format
from perpetual_tinydb.store import TinyStore
from tests.plugins.tinydb.helpers import append, contents, files, fresh, ns


def _three_commits(store: TinyStore) -> list[int]:
    """Three commits, one with several rows; the length of the journal after each, the header first."""
    sizes = []
    for n in range(1, 4):
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": n, "text": "ü"})
            if n == 2:
                tx.append("event", {"n": n, "kind": "a", "map": {"n": 3, "rows": 1}})
        sizes.append((store.folder / "journal.jsonl").stat().st_size)
    header = (store.folder / "journal.jsonl").read_bytes().index(b"\n") + 1
    return [header, *sizes]


# --- the format -----------------------------------------------------------------------------------------------------


def test_the_journal_is_read_by_eye_and_by_any_json_tool(folder: Path, store: TinyStore) -> None:
    _three_commits(store)
    text = (folder / "journal.jsonl").read_text("utf-8")
    assert '"text":"ü"' in text
    found = [json.loads(line) for line in text.splitlines()]
    assert found[0]["format"] == 1
    assert [(line["n"], line["rows"]) for line in found if "n" in line] == [(1, 1), (2, 2), (3, 1)]
    assert [line["r"]["n"] for line in found if "k" in line] == [1, 2, 2, 3]


def test_a_commit_costs_what_it_writes(folder: Path, store: TinyStore) -> None:
    """However much is there already."""
    with store.transaction() as tx:
        for n in range(2000):
            tx.append("event", {"n": n, "text": "x" * 200})
    size = (folder / "journal.jsonl").stat().st_size
    append(store, 2000)
    assert (folder / "journal.jsonl").stat().st_size - size < 200


@pytest.mark.parametrize(
    "text", ['{"n":1,"rows":1', '"}\n{"n":', "\u2028\u2029\x85\x0b\x0c\x1c\r\n", '","c":"00000000"}']
)
def test_no_text_is_taken_for_the_format(folder: Path, store: TinyStore, text: str) -> None:
    """Line breaks of every sort, and what looks like the journal's own lines."""
    body = {"n": 1, "text": text, text: {"n": {"n": 1, "rows": 1}}}
    with store.transaction() as tx:
        tx.append("event", body)
    append(store, 2)
    for _ in range(2):
        found = fresh(folder).get("event", "1")
        assert found is not None
        assert found.body == body
        store.compact()
    assert store.verify() == []


# --- torn tails -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("swift")
def test_a_commit_that_was_cut_off_anywhere(folder: Path, store: TinyStore) -> None:
    """At every byte: a reader passes over it, the next writer keeps it aside, and nothing acknowledged is lost."""
    *_, begin, end = _three_commits(store)
    whole = (folder / "journal.jsonl").read_bytes()
    assert len(whole) == end
    for length in range(begin, end):
        (folder / "journal.jsonl").write_bytes(whole[:length])
        reader = fresh(folder)
        assert (ns(reader), ns(reader, "setting"), reader.seq()) == ([2], [2], 2)
        assert (folder / "journal.jsonl").stat().st_size == length, "reading writes nothing"
        writer = fresh(folder)
        append(writer, 9)
        torn = {name: data for name, data in contents(folder).items() if name.startswith("quarantine")}
        assert torn == ({f"quarantine-1-{begin}": whole[begin:length]} if length > begin else {})
        for seen in (reader, writer, fresh(folder)):  # the reader had seen the torn end
            assert (ns(seen), ns(seen, "setting"), seen.seq()) == ([2, 9], [2], 3)
        assert writer.verify() == []
        for name in torn:
            (folder / name).unlink()


@pytest.mark.usefixtures("swift")
def test_a_writer_that_knew_the_store_cuts_too(folder: Path, store: TinyStore) -> None:
    """And a reader that has read while the end was torn sees what came in its place."""
    reader = fresh(folder)
    for n in range(5):
        append(store, n)
        with (folder / "journal.jsonl").open("ab") as file:
            file.write(b'{"k":"event","r":{"_id":"' + b"9" * n)
        assert ns(reader) == [*range(n + 1)]
    append(store, 5)
    assert ns(reader) == ns(fresh(folder)) == [*range(6)]
    assert len([name for name in files(folder) if name.startswith("quarantine")]) == 5


def test_quarantined_bytes_are_never_replaced(folder: Path, store: TinyStore) -> None:
    """Two crashes at one place leave two files; one crash that is seen twice leaves one."""
    append(store, 1)
    size = (folder / "journal.jsonl").stat().st_size
    torn = [b'{"k":"a', b'{"k":"b', b'{"k":"b', b'{"k":"c']
    for end in torn:
        with (folder / "journal.jsonl").open("ab") as file:
            file.write(end)
        append(store, 2)
        with (folder / "journal.jsonl").open("r+b") as file:
            file.truncate(size)
    kept = {name: data for name, data in contents(folder).items() if name.startswith("quarantine")}
    stem = f"quarantine-1-{size}"
    assert kept == {stem: torn[0], f"{stem}-2": torn[1], f"{stem}-3": torn[3]}


def test_a_compaction_keeps_the_torn_end_aside(folder: Path, store: TinyStore) -> None:
    append(store, 1)
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"k":"event"')
    store.compact()
    assert (ns(store), [name for name in files(folder) if name.startswith("quarantine")]) == (
        [1],
        [name for name, data in contents(folder).items() if data == b'{"k":"event"'],
    )
    assert len(files(folder)) == 5


@pytest.mark.parametrize("from_end", [1, 3, 20, 30, 31])
def test_verify_names_an_acknowledged_commit_that_became_unreadable(
    folder: Path, store: TinyStore, from_end: int
) -> None:
    """A flipped bit in the very last line looks like a torn end; it is kept aside whole, and looked at."""
    *_, begin, end = _three_commits(store)
    data = bytearray((folder / "journal.jsonl").read_bytes())
    data[end - from_end] ^= 1
    (folder / "journal.jsonl").write_bytes(data)
    assert ns(fresh(folder), "setting") == [2]
    writer = fresh(folder)
    append(writer, 9)
    (problem,) = writer.verify()
    assert f"quarantine-1-{begin}" in problem
    assert (folder / f"quarantine-1-{begin}").read_bytes() == data[begin:]


def test_a_torn_end_that_was_not_overwritten_is_no_problem(folder: Path, store: TinyStore) -> None:
    append(store, 1)
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"k":"event"')
    assert store.verify() == []
    append(store, 2)
    assert len(files(folder)) == 3
    assert store.verify() == []


# --- damage ---------------------------------------------------------------------------------------------------------


def _refuses_everything(folder: Path, where: str) -> None:
    """Reading, writing and compacting name the file and the place, and change nothing."""
    before = contents(folder)
    deeds: list[Callable[[TinyStore], object]] = [
        lambda store: store.get("event", "1"),
        lambda store: append(store, 1),
        lambda store: store.compact(),
        lambda store: store.seq(),
    ]
    damaged = fresh(folder)
    for deed in deeds:
        with pytest.raises(CorruptData) as caught:
            deed(damaged)
        assert where in caught.value.message, where
        assert (caught.value.exit, caught.value.code) == (1, "corrupt")
        assert caught.value.hint
    (problem,) = damaged.verify()
    assert where in problem
    assert contents(folder) == before, "what is left is never overwritten"


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_a_flipped_bit_anywhere_before_the_last_line_is_found(folder: Path, store: TinyStore) -> None:
    """In each byte of each line, line feeds too; the commit that it belongs to is named by its first byte."""
    sizes = _three_commits(store)
    path = folder / "journal.jsonl"
    whole = path.read_bytes()
    last_line = whole.rindex(b"\n", 0, -1) + 1
    begins = [0, *sizes]
    for position in range(last_line):
        for bit in {0, position % 8, 6}:
            data = bytearray(whole)
            data[position] ^= 1 << bit
            path.write_bytes(data)
            begin = max(size for size in begins if size <= position)
            with pytest.raises(CorruptData) as caught:
                fresh(folder).seq()
            assert f"{path} cannot be read at byte {begin}:" in caught.value.message, (position, bit)
    for position in (0, 20, sizes[0], sizes[1] + 5, last_line - 1):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        _refuses_everything(folder, f"{path} cannot be read at byte {max(size for size in begins if size <= position)}")
    path.write_bytes(whole)
    assert ns(store, "setting") == [3]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda lines: [], "does not begin as a journal does"),
        (lambda lines: [b""], "does not begin as a journal does"),
        (lambda lines: [b"\x00" * 500], "does not begin as a journal does"),
        (lambda lines: [b"[]", *lines[1:]], "does not begin as a journal does"),
        (lambda lines: lines[1:], "does not begin as a journal does"),
        (lambda lines: [lines[0][:-1], *lines[1:]], "does not begin as a journal does"),
        (lambda lines: [*lines[:4], *lines[5:]], "lost rows"),
        (lambda lines: [*lines[:3], *lines[6:]], "commit 3 follows commit 1"),
        (lambda lines: [*lines[:3], b"garbage", *lines[3:]], "checksum"),
        (lambda lines: [*lines[:3], b"", *lines[3:]], "checksum"),
        (lambda lines: [*lines[:3], b"\x00" * 4096, *lines[3:]], "checksum"),
        (lambda lines: [*lines[:3], lines[3][:20] + lines[4], *lines[5:]], "checksum"),
    ],
    ids=["empty", "one empty line", "zeros", "a list", "no header", "a header cut short", "a row is gone",
         "a commit is gone", "a line of garbage", "an empty line", "a page of zeros", "lines run together"],
)  # fmt: skip
def test_a_broken_journal_is_named(
    folder: Path, store: TinyStore, damage: Callable[[list[bytes]], list[bytes]], what: str
) -> None:
    _three_commits(store)
    path = folder / "journal.jsonl"
    good = path.read_bytes()
    path.write_bytes(b"".join(line + b"\n" for line in damage(good.split(b"\n")[:-1])))
    _refuses_everything(folder, str(path))
    with pytest.raises(CorruptData) as caught:
        fresh(folder).seq()
    assert what in caught.value.message
    with pytest.raises(CorruptData):
        append(store, 9)  # to who had it open before, too
    path.write_bytes(good)
    assert ns(store, "setting") == [3]
    append(store, 4)
    assert ns(fresh(folder)) == [2, 4]


def test_first_rows_that_are_gone_are_found_by_verify(folder: Path, store: TinyStore) -> None:
    """The first commit taken out whole, by hand: every line that is left is right."""
    for n in range(3):
        append(store, n)
    path = folder / "journal.jsonl"
    kept = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([kept[0], *kept[3:]]))
    (problem,) = fresh(folder).verify()
    assert problem == f"{path}: event 1 is missing"


def test_rows_that_no_store_writes_are_named(folder: Path, store: TinyStore) -> None:
    """Their checksums are right, and what they hold is not."""
    append(store, 1)
    path = folder / "journal.jsonl"
    good = path.read_bytes()
    rows: list[Any] = [{}, {"_id": "2"}, {"_id": "2", "_no": None, "_rev": 1, "_seq": 2}, []]
    for row in rows:
        path.write_bytes(
            good + journal_format.seal(f'{{"k":"event","r":{json.dumps(row)}') + journal_format.commit_line(2, 1)
        )
        with pytest.raises(CorruptData) as caught:
            fresh(folder).seq()
        assert "holds what no store writes" in caught.value.message
        assert str(path) in caught.value.message


def test_a_journal_that_is_gone_beside_its_snapshot_is_named(folder: Path, store: TinyStore) -> None:
    """An empty store would be made in its place, and the snapshot removed in time."""
    append(store, 1)
    store.compact()
    (folder / "journal.jsonl").rename(folder / "elsewhere")
    for seen in (store, fresh(folder)):
        with pytest.raises(CorruptData) as caught:
            append(seen, 2)
        assert f"{folder / 'journal.jsonl'} is missing" in caught.value.message
    (folder / "elsewhere").rename(folder / "journal.jsonl")
    append(store, 2)
    assert ns(fresh(folder)) == [1, 2]


def test_a_view_that_is_lost_inside_a_block_is_no_empty_store(folder: Path, store: TinyStore) -> None:
    """What is there is never begun anew."""
    append(store, 1)
    with store.transaction() as tx:
        tx.append("event", {"n": 2})
        store.journal.forget()
    assert ns(store) == ns(fresh(folder)) == [1, 2]


def test_a_newer_format_is_refused_by_name(folder: Path, store: TinyStore) -> None:
    append(store, 1)
    path = folder / "journal.jsonl"
    path.write_bytes(journal_format.seal('{"format":2,"anything":[1,2]') + b"what only the next version knows\n")
    before = contents(folder)
    for deed in (store.seq, lambda: append(store, 2), store.compact, lambda: fresh(folder).find("event")):
        with pytest.raises(ForeignProject) as caught:
            deed()
        assert f"{path} has format 2; this Perpetual knows 1" in caught.value.message
        assert caught.value.exit == 6
        assert "upgrade" in str(caught.value.hint)
    assert contents(folder) == before


def test_a_writer_without_the_lock_is_named(folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who replaces the journal while a block is open would lose what the block writes."""
    append(store, 1)
    other = (folder / "journal.jsonl").read_bytes()
    opened = fresh(folder)

    def overtaken() -> None:
        with opened.transaction() as tx:
            tx.append("event", {"n": 2})
            (folder / "new").write_bytes(other)
            (folder / "new").replace(folder / "journal.jsonl")

    with pytest.raises(CorruptData) as caught:
        overtaken()
    assert "does not hold the lock" in caught.value.message
    assert ns(opened) == [1]
