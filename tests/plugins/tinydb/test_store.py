"""The TinyDB store as its callers meet it: the contract suite, many processes, deaths, full disks, rights, its head.

What is in its files is the matter of test_journal.py and test_snapshot.py.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perpetual.errors import PerpetualError, TransientError
from perpetual.testing.stores import SharedStoreContract
from perpetual_tinydb.head import head
from perpetual_tinydb.journal import Journal
from perpetual_tinydb.store import TinyStore
from tests.plugins.tinydb.helpers import (
    OPTIONS,
    append,
    contents,
    files,
    fresh,
    ns,
    python,
    state,
    tick,
    unprivileged,
)

LONG_S = 100.0


class TestTinyStore(SharedStoreContract):
    """The suite."""

    factory: ClassVar[str] = "perpetual_tinydb.store:open_store"
    options: ClassVar[dict[str, Any]] = OPTIONS


# --- writes that fail -----------------------------------------------------------------------------------------------


def test_a_full_disk_changes_nothing(folder: Path, store: TinyStore) -> None:
    """The operating system refuses to let any file grow beyond a limit, in a process of its own."""
    code = """
import json, resource, signal
from perpetual.errors import PerpetualError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with store.transaction() as tx:
    tx.create("hypothesis", {"n": 1})
file = store.folder / "journal.jsonl"
before = file.read_bytes()
tolds = []
for room in (100, 0):  # part of the commit fits, and nothing of it
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, resource.RLIM_INFINITY))
    try:
        with store.transaction() as tx:
            tx.create("hypothesis", {"n": 2, "text": "x" * 5000})
            tx.put("hypothesis", "h1", {"n": 99})
            tx.append("event", {"n": 2})
    except PerpetualError as problem:
        tolds.append(problem.document())
after = file.read_bytes()
seen = [item.body["n"] for item in store.find("hypothesis")]
counts = [store.count("hypothesis"), store.count("event"), store.seq()]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with store.transaction() as tx:
    again = tx.create("hypothesis", {"n": 3}).id
print(json.dumps([tolds, before == after, seen, counts, again, sorted(os.listdir(file.parent))]))
"""
    tolds, same, seen, counts, again, left = json.loads(python(code, folder).communicate(timeout=30)[0])
    assert len(tolds) == 2, "a write went through"
    for told in tolds:
        assert (told["code"], told["exit"]) == ("not_written", 1)
        assert str(folder) in told["message"]
        assert "nothing was changed" in told["message"]
        assert told["hint"]
    assert "no space left" in tolds[0]["message"]
    assert "File too large" in tolds[1]["message"]
    assert (same, seen, counts, again) == (True, [1], [1, 0, 1], "h2")
    assert left == ["journal.jsonl", "lock"]  # no half-written file stays
    assert ns(store, "hypothesis") == [1, 3]


def _refusing(call: str, *, but: Callable[[Any], bool] = lambda _: False) -> Callable[..., Any]:
    real = getattr(os, call)

    def refuse(*args: Any, **given: Any) -> Any:
        if but(args[0]):
            return real(*args, **given)
        raise OSError(errno.ENOSPC, "No space left on device")

    return refuse


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "open"])
def test_a_first_write_that_fails_changes_nothing(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, call, _refusing(call, but=lambda path: str(path).endswith("lock")))
        with pytest.raises(PerpetualError) as caught:
            append(store, 1)
    assert caught.value.code == "not_written"
    assert "No space left on device" in caught.value.message
    for seen in (store, fresh(folder)):
        assert (ns(seen), seen.seq()) == ([], 0)
    assert files(folder) == ["lock"]
    append(store, 2)
    assert (ns(store), store.seq()) == ([2], 1)


@pytest.mark.parametrize("way", ["refused", "a part", "not opened"])
def test_a_write_that_fails_changes_nothing(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1, "status": "open"})
    before = contents(folder)
    writer = fresh(folder)
    assert ns(writer, "hypothesis") == [1]  # its first write opens the file for it
    real = os.write
    with monkeypatch.context() as patched:
        if way == "not opened":
            patched.setattr(os, "open", _refusing("open", but=lambda path: str(path).endswith("lock")))
        elif way == "refused":
            patched.setattr(os, "write", _refusing("write"))
        else:
            patched.setattr(os, "write", lambda descriptor, data: real(descriptor, data[: len(data) // 2]))
        with pytest.raises(PerpetualError) as caught, writer.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 2, "status": "parked"})
    assert caught.value.code == "not_written"
    assert "o space left" in caught.value.message
    assert contents(folder) == before
    for seen in (writer, store, fresh(folder)):
        assert ns(seen, "hypothesis") == [1]
        assert [item.id for item in seen.find("hypothesis", status="open")] == ["h1"]
        assert seen.find("hypothesis", status="parked") == []
        assert seen.seq() == 1
    with writer.transaction() as tx:
        assert tx.put("hypothesis", "h1", {"n": 3}).revision == 2
    assert files(folder) == ["journal.jsonl", "lock"]


@pytest.mark.parametrize("call", ["lstat", "open", "pread"])
def test_a_file_that_cannot_be_read_is_named(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    append(store, 1)
    reader = fresh(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, _refusing(call, but=lambda path: str(path).endswith("lock")))
        for deed in (reader.seq, lambda: ns(reader), lambda: append(reader, 2), lambda: reader.changes(0)):
            with pytest.raises(PerpetualError) as caught:
                deed()
            assert (caught.value.code, caught.value.exit) == ("not_read", 1)
            assert str(folder) in caught.value.message
    append(reader, 3)
    assert ns(store) == [1, 3]


def test_half_a_write_that_cannot_be_taken_back_is_cut_by_the_next(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(store, 1)
    size = (folder / "journal.jsonl").stat().st_size
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:40]))
        patched.setattr(os, "ftruncate", _refusing("ftruncate"))
        with pytest.raises(PerpetualError) as caught:
            append(store, 2)
    assert caught.value.code == "not_written"
    assert (folder / "journal.jsonl").stat().st_size == size + 40
    for seen in (store, fresh(folder)):
        assert (ns(seen), seen.seq()) == ([1], 1)
    append(store, 3)
    assert (ns(fresh(folder)), store.seq()) == ([1, 3], 2)
    assert len((folder / f"quarantine-1-{size}").read_bytes()) == 40


def test_a_disk_that_does_not_confirm_is_named(folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write is there, and whether a power cut would leave it nobody knows: another code than for `not_written`."""
    append(store, 1)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync" if hasattr(os, "fdatasync") else "fsync", refuse)
        with pytest.raises(PerpetualError) as caught:
            append(store, 2)
        assert (caught.value.code, caught.value.exit) == ("not_durable", 1)
        assert str(folder) in caught.value.message
        assert "Input/output error" in caught.value.message
        assert "perpetual store verify" in str(caught.value.hint)
        assert ns(store) == [1, 2]
        other = fresh(folder)
        assert ns(other) == [1, 2]
        with pytest.raises(PerpetualError):  # for who acts on what another process wrote
            other.settle()
    append(store, 3)
    assert (ns(fresh(folder)), store.verify()) == ([1, 2, 3], [])


def test_the_disk_is_waited_for_without_the_lock(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write meanwhile, and one wait of the disk serves them all."""
    append(store, 1)
    asked: list[int] = []
    real = os.fdatasync if hasattr(os, "fdatasync") else os.fsync

    def slow(descriptor: int) -> None:
        asked.append(descriptor)
        if len(asked) == 1:
            append(fresh(folder), 3)
        real(descriptor)

    monkeypatch.setattr(os, real.__name__, slow)
    append(store, 2)
    assert ns(store) == [1, 2, 3]
    assert len(asked) == 2


def test_a_compaction_keeps_to_the_fence(folder: Path, store: TinyStore) -> None:
    """Who has waited for the lock of a folder that was put aside meanwhile must not rewrite what stands there now."""
    append(store, 1)
    before = contents(folder)

    def fence() -> None:
        raise TransientError("moved")

    store.fence = fence
    with pytest.raises(TransientError, match="moved"):
        store.compact()
    assert contents(folder) == before


def test_a_file_that_goes_while_sizes_are_read_is_left_out(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process compacts: what was listed is no longer there when it is looked at."""
    append(store, 1)
    (folder / "gone").touch()

    def listed(paths: Iterable[Path]) -> list[Path]:
        found = sorted(paths)
        (folder / "gone").unlink(missing_ok=True)
        return found

    monkeypatch.setattr("perpetual.toolkit.filesystems.sorted", listed, raising=False)
    assert [*store.describe()["files"]] == ["journal.jsonl", "lock"]


# --- rights, backups ------------------------------------------------------------------------------------------------


def test_files_are_private(folder: Path, store: TinyStore) -> None:
    append(store, 1)
    store.compact()
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"k"')
    append(store, 2)
    names = files(folder)
    assert len(names) == 5
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {(folder / name).stat().st_mode & 0o777 for name in names} == {0o600}


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_folder_that_may_only_be_read_can_be_read(folder: Path, store: TinyStore, is_torn: bool) -> None:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1, "status": "open"})
    store.compact()
    append(store, 2)
    seen_before = state(store)
    if is_torn:
        with (folder / "journal.jsonl").open("ab") as file:
            file.write(b'{"k":"event"')
    before = contents(folder)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        with unprivileged():
            reader = fresh(folder)
            assert state(reader) == seen_before
            assert reader.page("hypothesis", limit=1).items[0].body["n"] == 1
            assert reader.wait(0, 1.0) == 2
            reader.settle()
            assert reader.verify() == []
            assert reader.describe()["generation"] == 2
            reader.close()
            deeds: tuple[Callable[[], object], ...] = (lambda: append(reader, 3), reader.compact)
            for deed in deeds:
                with pytest.raises(PerpetualError) as caught:
                    deed()
                assert caught.value.code == "not_written"
                assert str(folder) in caught.value.message
                assert "Permission denied" in caught.value.message
            assert state(reader) == seen_before
    finally:
        folder.chmod(0o700)
    assert contents(folder) == before
    for path in folder.iterdir():
        path.chmod(0o600)
    append(reader, 3)
    assert ns(store) == [2, 3]


@pytest.mark.parametrize("step", ["_header", "_open_snapshot", "_advance", "_apply"])
def test_a_reader_that_is_interrupted_goes_on_from_nothing(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Ctrl-C comes between any two steps; what was loaded half is not taken for the whole."""
    append(store, 1)
    store.compact()
    for n in (2, 3):
        append(store, n)
    expected, reader = state(store), fresh(folder)
    real = getattr(Journal, step)

    def interrupted(self: Journal, *given: Any) -> Any:
        real(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.seq()
    assert state(reader) == expected


def test_opening_and_reading_write_nothing(folder: Path, store: TinyStore) -> None:
    """Not even a folder."""
    assert state(store)["seq"] == 0
    assert (store.verify(), store.describe()["files"]) == ([], {})
    assert not folder.exists()


def test_a_restored_backup_is_what_counts(folder: Path, store: TinyStore) -> None:
    append(store, 1)
    file = folder / "journal.jsonl"
    backup, old = file.read_bytes(), head(str(folder))
    tick(file)
    append(store, 2)
    file.write_bytes(backup)
    assert ns(store) == [1]
    assert head(str(folder)) != old
    append(store, 3)
    assert ns(store) == [1, 3]
    for number in range(4, 7):
        append(store, number)
    other = fresh(folder)
    assert ns(other) == [1, 3, 4, 5, 6]
    file.write_bytes(backup)
    for number in range(10, 30):  # it has outgrown what `other` knows before `other` looks again
        append(store, number)
    assert ns(other) == ns(store) == [1, *range(10, 30)]
    append(other, 30)
    assert ns(store) == [1, *range(10, 31)]
    assert store.verify() == []


@pytest.mark.parametrize("is_seen", [False, True], ids=["nobody has looked since", "and written on"])
def test_a_restored_backup_that_grew_again_to_the_same_length(folder: Path, store: TinyStore, is_seen: bool) -> None:
    """Put back in place, then written on by somebody else: as many commits, rows and bytes as before, others though."""
    append(store, 1)
    file = folder / "journal.jsonl"
    backup = file.read_bytes()
    append(store, 2)
    size = file.stat().st_size
    tick(file)
    file.write_bytes(backup)
    other = fresh(folder)
    append(other, 3)
    assert file.stat().st_size == size
    if is_seen:
        append(other, 4)
        assert ns(store) == [1, 3, 4]
    append(store, 5)
    assert ns(store) == ns(other) == ns(fresh(folder)) == ([1, 3, 4, 5] if is_seen else [1, 3, 5])
    assert store.verify() == []


def test_a_folder_that_was_put_back_whole_is_what_counts(folder: Path, store: TinyStore, tmp_path: Path) -> None:
    append(store, 1)
    store.compact()
    append(store, 2)
    before = state(store)
    shutil.copytree(folder, tmp_path / "backup")
    append(store, 3)
    store.compact()
    append(store, 4)
    old = head(str(folder))
    folder.rename(tmp_path / "broken")
    shutil.copytree(tmp_path / "backup", folder)
    assert head(str(folder)) != old
    assert state(store) == state(fresh(folder)) == before
    append(store, 5)
    assert ns(fresh(folder)) == [1, 2, 5]
