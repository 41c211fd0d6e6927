"""The TinyDB store: the contract suite, many processes, deaths, full disks, broken files, and its head token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tinydb import TinyDB, where
from tinydb.table import Table

from perpetual.errors import CorruptData, PerpetualError, TransientError
from perpetual.registry import Registry
from perpetual.testing.stores import SharedStoreContract
from perpetual_tinydb.head import head
from perpetual_tinydb.store import TinyStore, open_store

OPTIONS = {"lock_timeout_s": 30.0}


class TestTinyStore(SharedStoreContract):
    """The suite."""

    factory: ClassVar[str] = "perpetual_tinydb.store:open_store"
    options: ClassVar[dict[str, Any]] = OPTIONS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[TinyStore]:
    """A fresh store."""
    opened = open_store(OPTIONS, path=folder)
    yield opened
    opened.close()


def _ns(store: TinyStore, kind: str = "hypothesis") -> list[int]:
    return [item.body["n"] for item in store.find(kind)]


def _append(store: TinyStore, n: int) -> None:
    with store.transaction() as tx:
        tx.append("event", {"n": n})


def _python(code: str, folder: Path, **given: Any) -> subprocess.Popen[str]:
    opening = (
        "import os, sys\nfrom pathlib import Path\nfrom perpetual_tinydb.store import open_store\n"
        f"store = open_store({OPTIONS!r}, path=Path({str(folder)!r}))\n"
    )
    return subprocess.Popen([sys.executable, "-c", opening + code], stdout=subprocess.PIPE, text=True, **given)


# --- many processes -------------------------------------------------------------------------------------------------


def test_eight_processes_lose_nothing(folder: Path, store: TinyStore) -> None:
    code = """
worker = int(sys.stdin.readline())
for n in range(100):
    with store.transaction() as tx:
        made = tx.create("hypothesis", {"n": 1000 * worker + n, "status": "open"})
    print(made.id, flush=True)
"""
    workers = [_python(code, folder, stdin=subprocess.PIPE) for _ in range(8)]
    try:
        for number, worker in enumerate(workers):
            assert worker.stdin is not None
            worker.stdin.write(f"{number}\n")
            worker.stdin.flush()
        answers = [worker.communicate(timeout=100)[0].split() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    ids = [id for answer in answers for id in answer]
    assert len(ids) == len(set(ids)) == 800
    assert sorted(ids) == sorted(f"h{n}" for n in range(1, 801))
    for fresh in (store, open_store(OPTIONS, path=folder)):
        assert sorted(_ns(fresh)) == sorted(1000 * w + n for w in range(8) for n in range(100))
        assert (fresh.count("hypothesis"), fresh.seq()) == (800, 800)
        assert [item.number for item in fresh.find("hypothesis", status="open")] == [*range(1, 801)]
    for number, answer in enumerate(answers):  # each process got the ids of its own documents
        mine = [store.get("hypothesis", id) for id in answer]
        assert [item.body["n"] for item in mine if item] == [1000 * number + n for n in range(100)]


def test_a_writer_that_is_killed_leaves_every_acknowledged_write(folder: Path, store: TinyStore) -> None:
    code = """
n = store.count("event")
while True:
    with store.transaction() as tx:
        tx.append("event", {"n": n, "text": "x" * 3000})
        tx.put("setting", "last", {"n": n})
    print(n, flush=True)
    n += 1
"""
    acknowledged = -1
    for round in range(10):
        worker = _python(code, folder)
        assert worker.stdout is not None
        for _ in range(3 + round):
            acknowledged = int(worker.stdout.readline())
        worker.kill()  # at whatever it is doing: it goes on while we come to this line
        rest = worker.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        found = [row.body["n"] for row in store.rows("event")]
        assert found == [*range(len(found))]
        assert len(found) - 1 in (acknowledged, acknowledged + 1)  # the last one may have been cut off after its commit
        last = store.get("setting", "last")
        assert last is not None
        assert last.body["n"] == found[-1]
        assert json.loads((folder / "store.json").read_bytes())["_meta"]
    assert acknowledged >= 60
    _append(store, len(store.rows("event")))  # and no lock is left


def test_a_lock_that_another_process_holds_is_a_transient_error(folder: Path) -> None:
    holder = _python(
        "with store.transaction() as tx:\n    print('held', flush=True)\n    sys.stdin.readline()\n",
        folder,
        stdin=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        impatient = open_store({"lock_timeout_s": 0.05}, path=folder)
        with pytest.raises(TransientError) as caught:
            _append(impatient, 1)
        assert str(folder) in caught.value.message
        assert (caught.value.exit, impatient.rows("event")) == (3, [])
    finally:
        holder.communicate("\n", timeout=20)
    _append(impatient, 1)


# --- what can go wrong with files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b"\x00" * len(data),
        lambda data: b"[]",
        lambda data: b"{}",
        lambda data: b'{"_meta": {}}',
        lambda data: b'{"_meta": []}',
        lambda data: b'{"_meta": {"1": {"_id": "_meta"}}}',
        lambda data: data.replace(b'"_id"', b'"id"'),
        lambda data: data.replace(b'"event":{"1"', b'"event":{"x"'),
        lambda data: data.replace(b'"hypothesis":{', b'"hypothesis":[],"lost":{'),
        lambda data: data.replace("ü".encode(), b"\xff"),
    ],
    ids=[
        "empty",
        "torn",
        "one byte short",
        "zeros",
        "a list",
        "no tables",
        "no counters",
        "counters that are none",
        "a counter row without numbers",
        "rows without ids",
        "a number that is none",
        "a table that is none",
        "no UTF-8",
    ],
)
def test_a_broken_file_is_named(folder: Path, store: TinyStore, damage: Any) -> None:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1, "text": "ü"})
        tx.append("event", {"n": 1})
    file = folder / "store.json"
    good = file.read_bytes()
    assert damage(good) != good
    file.write_bytes(damage(good))
    for deed in (
        lambda: store.find("hypothesis"),
        lambda: _append(store, 2),
        lambda: open_store(OPTIONS, path=folder).find("hypothesis"),
    ):
        with pytest.raises(CorruptData) as caught:
            deed()
        assert str(file) in caught.value.message
        assert caught.value.hint
    assert file.read_bytes() == damage(good)  # what is left is never overwritten
    file.write_bytes(good)
    assert _ns(store) == [1]
    _append(store, 2)


def test_a_full_disk_changes_nothing(folder: Path, store: TinyStore) -> None:
    """The operating system refuses to let any file grow beyond a limit, in a process of its own."""
    code = """
import json, resource, signal
from perpetual.errors import PerpetualError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with store.transaction() as tx:
    tx.create("hypothesis", {"n": 1})
file = store._file
before = file.read_bytes()
resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, resource.RLIM_INFINITY))
try:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 2, "text": "x" * 5000})
        tx.put("hypothesis", "h1", {"n": 99})
        tx.append("event", {"n": 2})
except PerpetualError as problem:
    told = problem.document()
else:
    told = None
after = file.read_bytes()
seen = [item.body["n"] for item in store.find("hypothesis")]
counts = [store.count("hypothesis"), store.count("event"), store.seq()]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with store.transaction() as tx:
    again = tx.create("hypothesis", {"n": 3}).id
left = sorted(os.listdir(file.parent))
print(json.dumps([told, before == after, seen, counts, again, left]))
"""
    worker = _python(code, folder)
    out, _ = worker.communicate(timeout=30)
    told, same, seen, counts, again, left = json.loads(out)
    assert told is not None, "the write went through"
    assert (told["code"], told["exit"]) == ("not_written", 1)
    assert "store.json" in told["message"]
    assert "File too large" in told["message"]
    assert "nothing was changed" in told["message"]
    assert told["hint"]
    assert (same, seen, counts, again) == (True, [1], [1, 0, 1], "h2")
    assert left == ["lock", "store.json"]  # no half-written file stays
    assert _ns(store) == [1, 3]


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "open"])
def test_a_write_that_fails_changes_nothing(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1, "status": "open"})
    before = (folder / "store.json").read_bytes()
    real = getattr(os, call)

    def refuse(*args: Any, **given: Any) -> Any:
        if call == "open" and not str(args[0]).endswith(".tmp"):
            return real(*args, **given)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(PerpetualError) as caught, store.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 2, "status": "parked"})
    assert caught.value.code == "not_written"
    assert "No space left on device" in caught.value.message
    assert (folder / "store.json").read_bytes() == before
    assert _ns(store) == [1]
    assert [item.id for item in store.find("hypothesis", status="open")] == ["h1"]
    assert store.find("hypothesis", status="parked") == []
    with store.transaction() as tx:
        assert tx.put("hypothesis", "h1", {"n": 3}).revision == 2
    assert sorted(os.listdir(folder)) == ["lock", "store.json"]


def test_a_restored_backup_is_what_counts(folder: Path, store: TinyStore) -> None:
    _append(store, 1)
    file = folder / "store.json"
    backup, old = file.read_bytes(), head(str(folder))
    _append(store, 2)
    file.write_bytes(backup)
    assert [row.body["n"] for row in store.rows("event")] == [1]
    assert head(str(folder)) != old
    _append(store, 3)
    assert [row.body["n"] for row in store.rows("event")] == [1, 3]


def test_files_are_private(folder: Path, store: TinyStore) -> None:
    _append(store, 1)
    assert (folder.stat().st_mode & 0o777, (folder / "store.json").stat().st_mode & 0o777) == (0o700, 0o600)


# --- the head token -------------------------------------------------------------------------------------------------


def test_every_commit_has_a_head_of_its_own(folder: Path, store: TinyStore) -> None:
    assert head(str(folder)) == ""
    seen = []
    for n in range(200):
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": n % 2})  # the same length, again and again, within one tick of the clock
        seen.append(head(str(folder)))
        assert head(str(folder)) == seen[-1]
    assert len(set(seen)) == 200
    with store.transaction() as tx:
        tx.find("setting")
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.put("setting", "x", {"n": 1 / 0})
    assert head(str(folder)) == seen[-1]


def test_another_process_s_commit_changes_the_head(folder: Path, store: TinyStore) -> None:
    _append(store, 1)
    code = """
from perpetual_tinydb.head import head
for line in sys.stdin:
    with store.transaction() as tx:
        tx.put("setting", "x", {"n": 1})
    print(head(str(store._file.parent)), flush=True)
"""
    peer = _python(code, folder, stdin=subprocess.PIPE)
    try:
        assert peer.stdin is not None
        assert peer.stdout is not None
        seen = [head(str(folder))]
        for _ in range(20):
            peer.stdin.write("go\n")
            peer.stdin.flush()
            told = peer.stdout.readline().strip()
            seen.append(head(str(folder)))
            assert seen[-1] == told
            _append(store, 1)
            seen.append(head(str(folder)))
        assert len(set(seen)) == 41
    finally:
        peer.kill()
        peer.communicate()


def test_the_offered_head_is_this_one_and_is_light() -> None:
    offer = Registry().choose("store", "tinydb")
    assert offer.provider.head == "perpetual_tinydb.head:head"
    code = "import sys, perpetual_tinydb.head\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert not {"tinydb", "perpetual.api", "json", "pathlib", "pluggy"} & set(out.split())


# --- TinyDB ---------------------------------------------------------------------------------------------------------


def test_tinydb_is_the_query_engine(store: TinyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    search, insert = Table.search, Table.insert

    def spied_search(self: Table, condition: Any) -> Any:
        asked.append(("search", self.name))
        return search(self, condition)

    def spied_insert(self: Table, document: Any) -> int:
        asked.append(("insert", self.name))
        return insert(self, document)

    monkeypatch.setattr(Table, "search", spied_search)
    monkeypatch.setattr(Table, "insert", spied_insert)
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1, "status": "open"})
        tx.create("hypothesis", {"n": 2, "status": "parked"})
    assert [name for deed, name in asked if deed == "insert"].count("hypothesis") == 2
    asked.clear()
    assert [item.body["n"] for item in store.find("hypothesis", status="parked")] == [2]
    assert asked == [("search", "hypothesis")]


def test_the_file_is_a_tinydb_file(folder: Path, store: TinyStore) -> None:
    with store.transaction() as tx:
        for n in range(1, 4):
            tx.create("hypothesis", {"n": n, "status": "open" if n % 2 else "parked", "text": "ü"})
    with TinyDB(folder / "store.json", access_mode="r", encoding="utf-8") as plain:
        found = plain.table("hypothesis").search(where("status") == "open")
    assert [(row.doc_id, row["_id"], row["n"]) for row in found] == [(1, "h1", 1), (3, "h3", 3)]
    assert "ü" in (folder / "store.json").read_text("utf-8")  # readable as it was written


def test_readers_do_not_wait_for_a_writer(store: TinyStore) -> None:
    _append(store, 1)
    inside, leave = threading.Event(), threading.Event()

    def write() -> None:
        with store.transaction() as tx:
            tx.append("event", {"n": 2})
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=write)
    thread.start()
    assert inside.wait(20)
    read: list[int] = []
    reader = threading.Thread(target=lambda: read.extend(row.body["n"] for row in store.rows("event")))
    reader.start()
    reader.join(2.0)
    blocked = reader.is_alive()
    leave.set()
    thread.join(20)
    reader.join(20)
    assert not blocked
    assert read == [1]
