"""The SQLite store beyond the contract: its journal modes, other programs at the file, deaths, full disks, forks."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from perpetual.errors import CorruptData, ForeignProject, PerpetualError, TransientError, UsageError
from perpetual.slots.store import StoreBase, StoreKind
from perpetual.testing.memory_store import InMemoryStore
from perpetual_sqlite import opening
from perpetual_sqlite.head import head
from perpetual_sqlite.store import SqliteStore, open_store

OPTIONS = {"lock_timeout_s": 30.0}
as_root = pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="becomes another user")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store"


@pytest.fixture
def file(folder: Path) -> Path:
    """Its database."""
    return folder / "store.sqlite"


@pytest.fixture
def store(folder: Path) -> Iterator[SqliteStore]:
    """A fresh store."""
    opened = open_store(OPTIONS, path=folder)
    yield opened
    opened.close()


def _ns(store: StoreBase, kind: str = "hypothesis", /, **equals: Any) -> list[Any]:
    return [item.body["n"] for item in store.find(kind, **equals)]


def _append(store: StoreBase, n: int) -> None:
    with store.transaction() as tx:
        tx.append("event", {"n": n})


def _in_thread(deed: Callable[[], Any]) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(deed()))
    thread.start()
    thread.join(30)
    return answers[0]


def _raw(file: Path, *statements: str) -> list[tuple[Any, ...]]:
    """What another program does that knows nothing of stores."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def _python(code: str, folder: Path, **given: Any) -> subprocess.Popen[str]:
    start = (
        "import json, os, shutil, sys, tempfile\nfrom pathlib import Path\n"
        "from perpetual.errors import PerpetualError\n"
        "from perpetual_sqlite.store import open_store\n"
        f"store = open_store({OPTIONS!r}, path=Path({str(folder)!r}))\n"
    )
    return subprocess.Popen([sys.executable, "-c", start + code], stdout=subprocess.PIPE, text=True, **given)


def _answer(code: str, folder: Path) -> Any:
    worker = _python(code, folder, stderr=subprocess.PIPE)
    out, told = worker.communicate(timeout=60)
    assert worker.returncode == 0, told
    return json.loads(out)


# --- files and modes ------------------------------------------------------------------------------------------------


def test_reading_writes_nothing(folder: Path, store: SqliteStore) -> None:
    assert (store.seq(), store.find("hypothesis"), store.verify(), head(str(folder))) == (0, [], [], "")
    assert store.describe()["files"] == {}
    store.compact()
    assert not folder.exists()
    _append(store, 1)
    before = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}
    other = open_store(OPTIONS, path=folder)
    assert _ns(other, "event") == [1]
    assert (other.seq(), other.count("event"), len(other.changes(0)), other.verify()) == (1, 1, 1, [])
    other.close()
    assert {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_files_are_private(folder: Path, store: SqliteStore) -> None:
    _append(store, 1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert "store.sqlite" in os.listdir(folder)


@pytest.mark.parametrize("mode", ["wal", "truncate"])
def test_describe_names_the_mode_and_its_reason(
    folder: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(opening, "choose_mode", lambda folder: (mode, "for this reason"))
    _append(store, 1)
    told = store.describe()
    assert (told["mode"], told["why"], told["sqlite"]) == (mode, "for this reason", sqlite3.sqlite_version)
    assert told["files"]["store.sqlite"] > 4096
    assert ("store.sqlite-wal" in told["files"]) is (mode == "wal")
    assert _raw(folder / "store.sqlite", "PRAGMA journal_mode")[0][0] == ("wal" if mode == "wal" else "delete")


def test_a_store_that_another_sqlite_left_in_wal_mode(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(opening, "choose_mode", lambda folder: ("wal", "then"))
        before = open_store(OPTIONS, path=folder)
        _append(before, 1)
        before.close()
    monkeypatch.setattr(opening, "choose_mode", lambda folder: ("truncate", "now"))
    after = open_store(OPTIONS, path=folder)
    assert _ns(after, "event") == [1]
    assert after.describe()["mode"] == "wal"
    _append(after, 2)
    assert after.describe()["mode"] == "truncate"
    assert _ns(after, "event") == [1, 2]
    after.close()


def test_the_head_changes_with_each_commit(folder: Path, store: SqliteStore) -> None:
    """Also with those that come faster than the file system's clock ticks, and with no other deed."""
    seen = [head(str(folder))]
    for n in range(40):
        _append(store, n)
        seen.append(head(str(folder)))
        assert store.count("event") == n + 1
        with pytest.raises(UsageError):
            _append(store, object())  # type: ignore[arg-type]
        assert head(str(folder)) == seen[-1]
    assert len(set(seen)) == 41


@pytest.mark.parametrize("mode", ["wal", "truncate"])
def test_a_clock_that_stops_or_goes_back_harms_nothing(
    folder: Path, file: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The time of the file grows all the same, so that no token comes twice."""
    monkeypatch.setattr(opening, "choose_mode", lambda folder: (mode, "the test says so"))
    _append(store, 0)
    ahead_ns = file.stat().st_mtime_ns + 3_600_000_000_000
    os.utime(file, ns=(ahead_ns, ahead_ns))
    for n in range(1, 4):
        _append(store, n)
        assert file.stat().st_mtime_ns == ahead_ns + n


# --- other programs at the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET body = '{}'",
        "UPDATE event SET seq = 7 WHERE number = 2",
        "DELETE FROM event WHERE number = 1",
        "DELETE FROM event",
        "INSERT OR REPLACE INTO event VALUES (2, 1, '{}')",
        "REPLACE INTO event VALUES (1, 1, '{}')",
        "INSERT INTO event VALUES (9, 1, '{}')",
        "INSERT INTO event (seq, body) VALUES (1, '{}')",
        "UPDATE OR REPLACE event SET number = 1 WHERE number = 2",
        "INSERT INTO event VALUES (1, 1, '{}') ON CONFLICT (number) DO UPDATE SET body = '{}'",
    ],
)
def test_no_door_changes_a_ledger(store: SqliteStore, file: Path, statement: str) -> None:
    _append(store, 1)
    _append(store, 2)
    with pytest.raises(sqlite3.IntegrityError, match="ledger"):
        _raw(file, statement)
    assert _ns(store, "event") == [1, 2]
    assert store.verify() == []


def test_a_ledger_of_a_plugin_is_kept_too(store: SqliteStore, file: Path) -> None:
    store.declare(StoreKind("it's a log", ledger=True))
    with store.transaction() as tx:
        tx.append("it's a log", {"n": 1})
    ((table,),) = _raw(file, "SELECT name FROM sqlite_master WHERE name LIKE 'kind %' AND type = 'table'")
    with pytest.raises(sqlite3.IntegrityError, match="it's a log is a ledger"):
        _raw(file, f'DELETE FROM "{table}"')


def test_another_program_that_writes_is_waited_for(folder: Path, file: Path, store: SqliteStore) -> None:
    _append(store, 1)
    impatient = open_store({"lock_timeout_s": 0.05}, path=folder)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TransientError) as caught:
            _append(impatient, 2)
        assert str(file) in caught.value.message
        assert caught.value.exit == 3
        assert _ns(impatient, "event") == [1]  # reading goes on
        other.execute("ROLLBACK")
    _append(impatient, 2)
    assert _ns(store, "event") == [1, 2]
    impatient.close()


def test_a_lock_that_another_process_holds_is_a_transient_error(folder: Path) -> None:
    holder = _python(
        "with store.transaction() as tx:\n    print('held', flush=True)\n    sys.stdin.readline()\n",
        folder,
        stdin=subprocess.PIPE,
    )
    impatient = open_store({"lock_timeout_s": 0.05}, path=folder)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TransientError) as caught:
            _append(impatient, 1)
        assert str(folder) in caught.value.message
        assert impatient.rows("event") == []
    finally:
        holder.communicate("\n", timeout=60)
    _append(impatient, 1)
    impatient.close()


@pytest.mark.slow
def test_eight_processes_lose_nothing(folder: Path, store: SqliteStore) -> None:
    code = """
for n in range(25):
    with store.transaction() as tx:
        made = tx.create("hypothesis", {"n": os.getpid(), "status": "open"})
        tx.append("event", {"n": n})
    print(made.id, flush=True)
"""
    workers = [_python(code, folder) for _ in range(8)]
    try:
        answers = [worker.communicate(timeout=60)[0].split() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert sorted(id for answer in answers for id in answer) == sorted(f"h{n}" for n in range(1, 201))
    assert (store.count("hypothesis"), store.count("event"), store.seq()) == (200, 200, 200)
    for worker, answer in zip(workers, answers, strict=True):
        found = [store.get("hypothesis", id) for id in answer]
        assert {item.body["n"] for item in found if item} == {worker.pid}
    assert store.verify() == []


def test_a_writer_that_is_killed_leaves_every_acknowledged_write(folder: Path, store: SqliteStore) -> None:
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
    for round in range(6):
        worker = _python(code, folder)
        assert worker.stdout is not None
        for _ in range(3 + round):
            acknowledged = int(worker.stdout.readline())
        worker.kill()  # at whatever it is doing: it goes on while we come to this line
        rest = worker.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        found = _ns(store, "event")
        assert found == [*range(len(found))]
        assert len(found) - 1 in (acknowledged, acknowledged + 1)  # the last one may have been cut off after its commit
        last = store.get("setting", "last")
        assert last is not None
        assert last.body["n"] == found[-1]
        assert store.verify() == []
    assert acknowledged >= 30
    _append(store, len(store.rows("event")))  # and no lock is left


# --- what can go wrong with files -----------------------------------------------------------------------------------


@pytest.fixture
def one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """No write-ahead log: all that is committed is in the database, which can be copied and replaced alone."""
    monkeypatch.setattr(opening, "choose_mode", lambda folder: ("truncate", "the test says so"))


def _crash(folder: Path, file: Path) -> None:
    """A writer that dies with half a commit in the file."""
    code = """
from perpetual_sqlite import opening
opening.choose_mode = lambda folder: ("truncate", "the test says so")
handle = store._connections.writing()
handle.connection.execute("PRAGMA cache_size=1")
handle.connection.execute("BEGIN IMMEDIATE")
handle.connection.execute("UPDATE hypothesis SET body = '{}'")
handle.connection.execute("UPDATE _meta SET commit_number = 99")
for n in range(300):
    handle.connection.execute("INSERT INTO setting VALUES (?, ?, 1, 99, ?)", (n, str(n), "x" * 500))
os._exit(0)
"""
    assert _python(code, folder).communicate(timeout=60)[0] == ""
    assert Path(f"{file}-journal").stat().st_size > 0


@pytest.mark.usefixtures("one_file")
def test_half_a_commit_is_looked_past_and_mended_by_the_next_writer(
    folder: Path, file: Path, store: SqliteStore
) -> None:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1})
    reader = open_store(OPTIONS, path=folder)
    assert _ns(reader) == [1]  # it has the file open when the writer dies
    store.close()
    _crash(folder, file)
    before = file.read_bytes(), Path(f"{file}-journal").read_bytes()
    fresh = open_store(OPTIONS, path=folder)
    for each in (reader, fresh):
        assert (_ns(each), each.seq(), each.find("setting"), each.verify()) == ([1], 1, [], [])
        assert "copy" in each.describe()["why"]
    assert (file.read_bytes(), Path(f"{file}-journal").read_bytes()) == before
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 2})
    for each in (store, reader, fresh):
        assert (_ns(each), each.seq()) == ([1, 2], 2)
        assert "copy" not in each.describe()["why"]
        each.close()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may enter: pytest's are private."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@as_root
@pytest.mark.parametrize("state", ["truncate", "wal", "crashed"])
def test_a_folder_that_may_only_be_read(monkeypatch: pytest.MonkeyPatch, public: Path, state: str) -> None:
    folder, file = public / "store", public / "store" / "store.sqlite"
    store = open_store(OPTIONS, path=folder)
    monkeypatch.setattr(opening, "choose_mode", lambda folder: ("wal" if state == "wal" else "truncate", "so it is"))
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1})
    store.close()
    if state == "crashed":
        _crash(folder, file)
    for path in folder.iterdir():
        path.chmod(0o644)
    folder.chmod(0o555)
    before = sorted(os.listdir(folder))
    code = """
os.setuid(65534)
found = [item.body["n"] for item in store.find("hypothesis")], store.seq(), store.verify(), len(store.changes(0))
try:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 2})
except PerpetualError as problem:
    found = *found, problem.document()
print(json.dumps([*found, os.access(store.folder, os.W_OK)]))
"""
    ns, seq, wrong, changes, told, writable = _answer(code, folder)
    assert (ns, seq, wrong, changes, writable) == ([1], 1, [], 1, False)
    assert (told["code"], told["exit"]) == ("not_written", 1)
    assert "Permission denied" in told["message"]
    assert told["hint"]
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"\x00" * len(data),
        lambda data: b"this is no database " * 500,
        lambda data: data[: len(data) // 2],
        lambda data: data[:100] + b"\xff" * 20000 + data[20100:],
    ],
    ids=["empty", "zeros", "garbage", "torn", "pages overwritten"],
)
def test_a_broken_file_is_named_and_left(folder: Path, file: Path, damage: Callable[[bytes], bytes]) -> None:
    first = open_store(OPTIONS, path=folder)
    with first.transaction() as tx:
        for n in range(50):
            tx.create("hypothesis", {"n": n, "text": "x" * 500})
    first.close()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    store = open_store(OPTIONS, path=folder)
    for deed in (lambda: store.find("hypothesis"), lambda: _append(store, 2), lambda: store.seq()):
        with pytest.raises(CorruptData) as caught:
            deed()
        assert str(file) in caught.value.message
        assert caught.value.hint
    assert store.verify() != []
    assert file.read_bytes() == damage(good)  # what is left is never overwritten
    file.write_bytes(good)
    assert len(_ns(store)) == 50
    _append(store, 2)
    store.close()


def test_another_database_in_its_place(folder: Path, file: Path, store: SqliteStore) -> None:
    folder.mkdir()
    _raw(file, "CREATE TABLE hypothesis (n)")
    with pytest.raises(CorruptData, match="holds no store"):
        store.find("hypothesis")
    with pytest.raises(CorruptData, match="holds no store"):
        _append(store, 1)
    assert _raw(file, "SELECT name FROM sqlite_master") == [("hypothesis",)]


def test_a_newer_layout_is_refused(file: Path, store: SqliteStore) -> None:
    _append(store, 1)
    store.close()
    _raw(file, "PRAGMA user_version=2")
    with pytest.raises(ForeignProject, match="newer"):
        store.seq()
    with pytest.raises(ForeignProject, match="newer"):
        _append(store, 2)


@pytest.mark.parametrize("body", ["'{'", "'[1]'", "'{} {}'", "5", "x'ff'", "CAST(x'7b22ff227d' AS TEXT)"])
def test_a_row_that_is_no_document_is_named(store: SqliteStore, file: Path, body: str) -> None:
    with store.transaction() as tx:
        tx.put("setting", "a", {"n": 1})
        tx.put("setting", "b", {"n": 2})
    _raw(file, f"UPDATE setting SET body = {body} WHERE id = 'b'")
    with pytest.raises(CorruptData) as caught:
        store.find("setting")
    assert str(file) in caught.value.message
    found = store.get("setting", "a")
    assert found is not None
    assert found.body == {"n": 1}


@pytest.mark.usefixtures("one_file")
def test_a_replaced_file_is_read_anew(folder: Path, file: Path, store: SqliteStore, tmp_path: Path) -> None:
    _append(store, 1)
    shutil.copy(file, tmp_path / "backup")
    _append(store, 2)
    reader = open_store(OPTIONS, path=folder)
    assert _ns(store, "event") == _ns(reader, "event") == [1, 2]
    os.replace(tmp_path / "backup", file)
    assert _ns(store, "event") == _ns(reader, "event") == [1]
    _append(store, 3)
    assert _ns(store, "event") == _ns(reader, "event") == [1, 3]
    for path in [*folder.glob("store.sqlite*")]:
        path.unlink()
    assert _ns(store, "event") == _ns(reader, "event") == []
    _append(reader, 4)
    assert _ns(store, "event") == _ns(reader, "event") == [4]
    reader.close()


@pytest.mark.usefixtures("one_file")
def test_a_file_that_is_replaced_during_a_transaction(file: Path, store: SqliteStore, tmp_path: Path) -> None:
    _append(store, 1)
    shutil.copy(file, tmp_path / "backup")

    def replace() -> None:
        with store.transaction() as tx:
            tx.append("event", {"n": 2})
            os.replace(tmp_path / "backup", file)

    with pytest.raises(PerpetualError, match="replaced") as caught:
        replace()
    assert caught.value.code == "not_written"
    assert _ns(store, "event") == [1]
    _append(store, 3)
    assert _ns(store, "event") == [1, 3]


def test_a_journal_without_its_database(folder: Path, file: Path, store: SqliteStore) -> None:
    """A new database would take over what is in there."""
    folder.mkdir()
    Path(f"{file}-wal").write_bytes(b"what was committed last")
    for deed in (store.seq, lambda: _append(store, 1)):
        with pytest.raises(CorruptData, match="sqlite-wal"):
            deed()
    assert sorted(os.listdir(folder)) == ["lock", "store.sqlite-wal"]


@pytest.mark.parametrize("mode", ["wal", "truncate"])
def test_a_full_disk_changes_nothing(folder: Path, mode: str) -> None:
    """The operating system refuses to let any file grow beyond a limit, in a process of its own."""
    code = f"""
import resource, signal
from perpetual_sqlite import opening
opening.choose_mode = lambda folder: ({mode!r}, "the test says so")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with store.transaction() as tx:
    tx.create("hypothesis", {{"n": 1}})
size = max(path.stat().st_size for path in store.folder.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
try:
    with store.transaction() as tx:
        tx.create("hypothesis", {{"n": 2, "text": "x" * 500000}})
        tx.put("hypothesis", "h1", {{"n": 99}})
        tx.append("event", {{"n": 2}})
except PerpetualError as problem:
    told = problem.document()
else:
    told = None
seen = [item.body["n"] for item in store.find("hypothesis")]
counts = [store.count("hypothesis"), store.count("event"), store.seq()]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with store.transaction() as tx:
    again = tx.create("hypothesis", {{"n": 3}}).id
print(json.dumps([told, seen, counts, again, store.verify(), store.describe()["mode"]]))
"""
    told, seen, counts, again, wrong, found = _answer(code, folder)
    assert told is not None, "the write went through"
    assert (told["code"], told["exit"]) == ("not_written", 1)
    assert "store.sqlite" in told["message"]
    assert "nothing was changed" in told["message"]
    assert told["hint"]
    assert (seen, counts, again, wrong, found) == ([1], [1, 0, 1], "h2", [], mode)


def test_a_disk_that_is_full_at_the_first_write(folder: Path, file: Path) -> None:
    code = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
try:
    with store.transaction() as tx:
        tx.append("event", {"n": 1})
except PerpetualError as problem:
    print(json.dumps([problem.code, sorted(os.listdir(store.folder)), store.seq()]))
"""
    assert _answer(code, folder) == ["not_written", ["lock"], 0]
    store = open_store(OPTIONS, path=folder)
    _append(store, 1)
    assert _ns(store, "event") == [1]
    store.close()


# --- threads and forks ----------------------------------------------------------------------------------------------


def _times_open(file: Path) -> int:
    """How often this process has the database open."""
    return sum(Path(found.path) == file for found in psutil.Process().open_files())


def test_connections_end_with_their_threads(store: SqliteStore, file: Path) -> None:
    _append(store, 1)
    for _ in range(5):
        assert _in_thread(lambda: _ns(store, "event")) == [1]
    assert _times_open(file) == 1
    store.close()
    assert _times_open(file) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_opens_its_own(folder: Path) -> None:
    code = """
from perpetual.toolkit.lock import is_locked
with store.transaction() as tx:
    tx.append("event", {"n": 1})
def child(deed):
    pid = os.fork()
    if not pid:
        try:
            deed()
        except BaseException as problem:
            print(type(problem).__name__, problem, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def add(n):
    with store.transaction() as tx:
        tx.append("event", {"n": n})
parents = store._connections.held().connection
def look():
    assert [row.body["n"] for row in store.rows("event")] == [1]
    assert store._connections.held().connection is not parents
codes = [child(look), child(lambda: add(2)), child(lambda: sys.exit(0))]
add(3)
# a child that is born inside a block neither commits it nor unlocks it
try:
    with store.transaction() as tx:
        tx.append("event", {"n": 4})
        pid = os.fork()
        if pid:
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            locked = is_locked(store.folder / "lock")
except PerpetualError as problem:
    os._exit(7 if problem.code == "usage" else 8)
if not pid:
    os._exit(9)
print(json.dumps([codes, locked, [row.body["n"] for row in store.rows("event")], store.verify()]))
"""
    codes, locked, seen, wrong = _answer(code, folder)
    assert codes == [0, 0, 1, 7]
    assert locked
    assert seen == [1, 2, 3, 4]
    assert wrong == []


# --- finding --------------------------------------------------------------------------------------------------------

_VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, 0.0, -1, 0.1, 1e-300, 1e300, 2**31, 2**53 + 1, 2**63, 2**64 + 0.0, 10**30,
    "", "1", "true", "null", "a", "A", "a\0", "a\0b", "\0", "ü", "\ud7ff\u2028", "'", '"', "[]", "{}", "[1]",
    [], [1], [1.0], [True], ["1"], {}, {"a": 1}, {"a": 1.0}, {"a": None}, 2**53, 9007199254740993.0,
]  # fmt: skip


def test_values_are_equal_as_in_python(store: SqliteStore) -> None:
    """The same answers as the twin's, which compares in Python; with a limit too."""
    twin = InMemoryStore()
    kind = StoreKind("sample", prefix="s", indexes=("Value", "other field's", 'a"b', "seq", "id", "plain"))
    for each in (store, twin):
        each.declare(kind)
        with each.transaction() as tx:
            for n, value in enumerate(_VALUES):
                tx.create("sample", {"n": n, **dict.fromkeys(kind.indexes, value)})
            tx.create("sample", {"n": -1})
    for field in kind.indexes:
        for value in _VALUES:
            expected = _ns(twin, "sample", **{field: value})
            assert _ns(store, "sample", **{field: value}) == expected, (field, value)
            assert _ns(store, "sample", **{field: value, "plain": value}) == (
                _ns(twin, "sample", **{field: value, "plain": value})
            )
            for newest_first in (False, True):
                pages, cursor = [], None
                while True:
                    page = store.page("sample", limit=1, cursor=cursor, newest_first=newest_first, **{field: value})
                    pages += [item.body["n"] for item in page.items]
                    cursor = page.next_cursor
                    if cursor is None:
                        break
                assert pages == (expected[::-1] if newest_first else expected), (field, value)
    assert _ns(store, "sample", plain=None) == [0, -1]
    assert len(store.changes(0)) == len(_VALUES) + 1


def test_kinds_with_odd_names_are_kept_apart(store: SqliteStore) -> None:
    """SQL knows no capitals, and keeps some names to itself."""
    names = ["Note", "NOTE", "sqlite_stat", "_meta_", "select", "a b", "ü", 'q"uote', "note by seq", "event insert", ""]
    for name in names:
        store.declare(StoreKind(name, prefix="x", indexes=("n",)))
        store.declare(StoreKind(name + " log", ledger=True, indexes=("n",)))
        with store.transaction() as tx:
            tx.create(name, {"n": name})
            tx.append(name + " log", {"n": name})
    for name in names:
        assert _ns(store, name) == _ns(store, name, n=name) == _ns(store, name + " log", n=name) == [name]
    assert store.verify() == []


def test_finding_uses_the_index(store: SqliteStore, file: Path) -> None:
    """A page or a match costs what it answers: no plan reads a table from end to end, none sorts."""
    with store.transaction() as tx:
        tx.create("run", {"n": 1, "status": "done", "analysed": False})
    told: list[str] = []
    handle = store._connections.held()
    assert handle is not None
    handle.connection.set_trace_callback(told.append)
    for equals in ({"status": "done"}, {"analysed": False}, {"experiment_id": None}, {"status": "x", "analysed": True}):
        store.find("run", **equals)
        store.page("run", limit=1, newest_first=True, **equals)
    store.get("run", "r1")
    store.get("event", "1")
    store.changes(0)
    handle.connection.set_trace_callback(None)
    asked = [statement for statement in told if statement.startswith("SELECT") and "sqlite_master" not in statement]
    assert len(asked) > 20
    for statement in asked:
        plan = [row[3] for row in _raw(file, f"EXPLAIN QUERY PLAN {statement}")]
        assert not [line for line in plan if line.startswith("USE TEMP")], (statement, plan)
        assert all(line.startswith("SEARCH") for line in plan if "number DESC LIMIT 1" not in statement), statement


def test_an_index_that_is_new(folder: Path, store: SqliteStore, file: Path) -> None:
    """A kind gains an index: until the next write it is found without, then with it."""
    store.declare(StoreKind("sample", prefix="s"))
    with store.transaction() as tx:
        tx.create("sample", {"n": 1, "colour": "red"})
    store.close()
    later = open_store(OPTIONS, path=folder)
    later.declare(StoreKind("sample", prefix="s", indexes=("colour",)))
    assert _ns(later, "sample", colour="red") == [1]
    question = "SELECT count(*) FROM sqlite_master WHERE name = 'sample by field colour'"
    assert _raw(file, question) == [(0,)]
    with later.transaction() as tx:
        tx.create("sample", {"n": 2, "colour": "red"})
    assert _raw(file, question) == [(1,)]
    assert _ns(later, "sample", colour="red") == [1, 2]
    later.close()


# --- looking after it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("DROP TRIGGER \"event delete\"", "the trigger 'event delete' is missing"),
        ("DROP TABLE event", "event: the table is missing"),
        ("DELETE FROM hypothesis WHERE number = 1", "2 were counted, 1 are there"),
        ("UPDATE hypothesis SET seq = 50 WHERE number = 1", "a row is of commit 50"),
        ("UPDATE _meta SET counters = '{\"hypothesis\": 3, \"event\": 1}'", "3 were counted, 2 are there"),
        ("UPDATE setting SET body = 'x'", "row 1 is no JSON document"),
    ],
)  # fmt: skip
def test_verify_finds_each_damage(store: SqliteStore, file: Path, statement: str, word: str) -> None:
    with store.transaction() as tx:
        tx.create("hypothesis", {"n": 1})
        tx.create("hypothesis", {"n": 2})
        tx.append("event", {"n": 1})
        tx.put("setting", "a", {"n": 1})
    assert store.verify() == []
    _raw(file, statement)
    told = store.verify()
    assert any(word in line and str(file) in line for line in told), told


def test_compacting_gives_room_back(folder: Path, store: SqliteStore) -> None:
    for size in (200_000, 1):
        with store.transaction() as tx:
            tx.put("setting", "a", {"n": size, "text": "x" * size})
            tx.append("event", {"n": size})
    before = sum(store.describe()["files"].values())
    reader = open_store(OPTIONS, path=folder)
    assert _ns(reader, "event") == [200_000, 1]
    store.compact()
    assert sum(store.describe()["files"].values()) < before - 150_000
    for each in (store, reader):
        assert (_ns(each, "event"), _ns(each, "setting"), each.seq(), each.verify()) == ([200_000, 1], [1], 2, [])
    with store.transaction(), pytest.raises(UsageError):
        store.compact()
    _append(store, 3)
    reader.close()


def test_a_compaction_keeps_to_the_fence(file: Path, store: SqliteStore) -> None:
    """Who has waited for the lock of a folder that was put aside meanwhile must not rewrite what stands there now."""
    _append(store, 1)
    before = file.read_bytes(), file.stat().st_mtime_ns

    def fence() -> None:
        raise TransientError("moved")

    store.fence = fence
    with pytest.raises(TransientError, match="moved"):
        store.compact()
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_a_file_that_goes_while_sizes_are_read_is_left_out(
    folder: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program's journal: it was there, and is no longer when its size is asked for."""
    _append(store, 1)
    (folder / "gone").touch()

    def listed(paths: Iterable[Path]) -> list[Path]:
        found = sorted(paths)
        (folder / "gone").unlink(missing_ok=True)
        return found

    monkeypatch.setattr("perpetual.toolkit.filesystems.sorted", listed, raising=False)
    told = store.describe()["files"]
    assert "store.sqlite" in told
    assert "gone" not in told
