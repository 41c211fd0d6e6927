"""The opening rule: which journal for which SQLite and file system, conversion, and reading without writing."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from perpetual_sqlite import opening

FIXED = (3, 51, 3)
NOBODY = 65534


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where one is to be."""
    return tmp_path / "some.sqlite"


def _build(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE t (n INTEGER)")
    connection.execute("INSERT INTO t VALUES (1)")


def _rows(opened: opening.Opened) -> list[int]:
    with closing(opened.connection) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM t ORDER BY n")]


def _insert(path: Path, n: int) -> None:
    with closing(opening.open_writing(path, 5.0).connection) as connection:
        connection.execute("INSERT INTO t VALUES (?)", (n,))


@pytest.fixture
def fit_for_wal(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Plays an SQLite that is free of the race, or is not, on a local file system."""

    def play(fit: bool) -> None:
        monkeypatch.setattr(sqlite3, "sqlite_version_info", FIXED if fit else (3, 51, 2))
        monkeypatch.setattr(opening, "file_system", lambda path: "ext4")

    return play


# --- the rule -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ((3, 7, 0), False),
        ((3, 40, 1), False),
        ((3, 43, 9), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 44, 7), True),
        ((3, 45, 0), False),
        ((3, 45, 6), False),
        ((3, 49, 99), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 50, 12), True),
        ((3, 51, 0), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_the_versions_that_are_free_of_the_race(version: tuple[int, int, int], fixed: bool) -> None:
    assert opening.has_wal_fix(version) is fixed


@pytest.mark.parametrize(
    ("kind", "mode", "word"),
    [("ext4", "wal", "ext4"), ("nfs4", "truncate", "nfs4"), ("fuse.sshfs", "truncate", "fuse.sshfs"),
     ("overlay", "truncate", "overlay"), (None, "truncate", "file system is unknown")],
)  # fmt: skip
def test_the_file_system_has_a_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None, mode: str, word: str
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", FIXED)
    monkeypatch.setattr(opening, "file_system", lambda path: kind)
    found, why = opening.choose_mode(tmp_path)
    assert found == mode
    assert word in why


def test_the_version_has_a_say(tmp_path: Path, fit_for_wal: Callable[[bool], None]) -> None:
    fit_for_wal(False)
    found, why = opening.choose_mode(tmp_path)
    assert found == "truncate"
    assert sqlite3.sqlite_version in why


# --- opening for writing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fit", "mode"), [(True, "wal"), (False, "truncate")])
def test_a_commit_is_synced(database: Path, fit_for_wal: Callable[[bool], None], fit: bool, mode: str) -> None:
    fit_for_wal(fit)
    opening.create(database, _build)
    opened = opening.open_writing(database, 5.0)
    assert opened.mode == mode
    ((journal,),) = opened.connection.execute("PRAGMA journal_mode").fetchall()
    ((synchronous,),) = opened.connection.execute("PRAGMA synchronous").fetchall()
    assert (journal, synchronous) == (mode, 2)
    ((timeout_ms,),) = opened.connection.execute("PRAGMA busy_timeout").fetchall()
    assert timeout_ms == 5000
    assert _rows(opened) == [1]


def test_a_file_is_there_whole_or_not_at_all(database: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        _build(connection)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        opening.create(database, fail)
    assert os.listdir(database.parent) == []
    Path(f"{database}.new").write_bytes(b"left by one that was killed")
    Path(f"{database}.new-journal").write_bytes(b"this too")
    opening.create(database, _build)
    assert os.listdir(database.parent) == [database.name]
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    _insert(database, 2)
    assert {stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()} == {0o600}


def test_a_writer_changes_the_mode_and_a_reader_does_not(database: Path, fit_for_wal: Callable[[bool], None]) -> None:
    fit_for_wal(True)
    opening.create(database, _build)
    fit_for_wal(False)
    opened = opening.open_reading(database, 5.0)
    assert opened.mode == "wal"
    assert "until a writer opens it" in opened.why
    assert _rows(opened) == [1]
    for fit, mode in ((False, "truncate"), (True, "wal"), (True, "wal"), (False, "truncate")):
        fit_for_wal(fit)
        opened = opening.open_writing(database, 5.0)
        assert opened.mode == mode
        assert _rows(opened) == [1]
        opened = opening.open_reading(database, 5.0)
        assert opened.mode == mode
        assert _rows(opened) == [1]


def test_a_file_that_is_in_use_keeps_its_mode(database: Path, fit_for_wal: Callable[[bool], None]) -> None:
    fit_for_wal(True)
    opening.create(database, _build)
    other = opening.open_writing(database, 5.0)
    _rows(opening.open_reading(database, 5.0))
    other.connection.execute("INSERT INTO t VALUES (2)")
    fit_for_wal(False)
    opened = opening.open_writing(database, 5.0)
    assert opened.mode == "wal"
    assert "another process has the file open" in opened.why
    assert sqlite3.sqlite_version in opened.why
    ((timeout_ms,),) = opened.connection.execute("PRAGMA busy_timeout").fetchall()
    assert timeout_ms == 5000
    other.connection.close()
    assert _rows(opened) == [1, 2]
    opened = opening.open_writing(database, 5.0)
    assert opened.mode == "truncate"
    assert _rows(opened) == [1, 2]


def test_a_file_that_is_no_database_is_left_alone(database: Path) -> None:
    database.write_bytes(b"no database at all, and long enough for a header" * 20)
    before = database.read_bytes()
    for deed in (opening.open_writing, opening.open_reading):
        with pytest.raises(sqlite3.DatabaseError) as caught:
            deed(database, 0.0)
        assert caught.value.sqlite_errorcode == sqlite3.SQLITE_NOTADB
    assert database.read_bytes() == before


def test_a_database_with_an_odd_name_opens(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "a#b %41", "ü\n;", "file:x"):
        opening.create(tmp_path / name, _build)
        assert _rows(opening.open_reading(tmp_path / name, 1.0)) == [1]
        assert (tmp_path / name).stat().st_size > 0


# --- reading --------------------------------------------------------------------------------------------------------


def _crash_in_commit(database: Path) -> None:
    """A process that dies with half a transaction in the file, and its journal beside it."""
    code = f"""
import os
from pathlib import Path
from perpetual_sqlite import opening
opening.choose_mode = lambda folder: ("truncate", "the test says so")
connection = opening.open_writing(Path({str(database)!r}), 5.0).connection
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE t SET n = 99")
for n in range(2000):
    connection.execute("INSERT INTO t VALUES (?)", (1000 + n,))
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert Path(f"{database}-journal").stat().st_size > 0


def _state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_a_reader_looks_past_what_a_crash_left(database: Path, fit_for_wal: Callable[[bool], None]) -> None:
    fit_for_wal(False)
    opening.create(database, _build)
    _crash_in_commit(database)
    before = _state(database.parent)
    for _ in range(2):
        opened = opening.open_reading(database, 5.0)
        assert opened.copied
        assert "copy" in opened.why
        assert _rows(opened) == [1]
    assert _state(database.parent) == before
    old = opening.stamp(database)
    _insert(database, 2)  # the next writer mends it
    assert opening.stamp(database) != old
    opened = opening.open_reading(database, 5.0)
    assert not opened.copied
    assert _rows(opened) == [1, 2]


@pytest.mark.parametrize("is_mended", [True, False])
def test_a_file_that_keeps_changing_is_busy(
    database: Path, fit_for_wal: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Once a writer has mended it, it is read as it is, also if he never rests; until then it is busy, not damaged."""
    fit_for_wal(False)
    opening.create(database, _build)
    _crash_in_commit(database)
    looks = iter([*[False] * 3, is_mended])

    def stamp(path: Path) -> tuple[tuple[int, int, int, int], ...]:
        if next(looks, False):
            _insert(database, 2)
        return ((0, 0, 0, time.time_ns()),)

    monkeypatch.setattr(opening, "stamp", stamp)
    if is_mended:
        opened = opening.open_reading(database, 30.0)
        assert not opened.copied
        assert _rows(opened) == [1, 2]
    else:
        with pytest.raises(sqlite3.OperationalError, match="stand still") as caught:
            opening.open_reading(database, 0.1)
        assert caught.value.sqlite_errorcode == sqlite3.SQLITE_BUSY


def test_a_copy_takes_no_lock_away(database: Path, fit_for_wal: Callable[[bool], None]) -> None:
    """Closing a descriptor of the file would free what this process has locked."""
    fit_for_wal(False)
    opening.create(database, _build)
    mine = opening.open_writing(database, 5.0).connection
    mine.execute("BEGIN IMMEDIATE")
    os.utime(database, (0, 0))  # at rest: it is copied at once
    opened = opening.open_copy(database, 5.0)
    assert opened.copied
    opened.connection.close()
    code = f"import sqlite3\nsqlite3.connect({str(database)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    mine.close()
    assert "database is locked" in other.stderr


# Reads as somebody who may write nothing, and says what was read and what stands in the folder.
_READER = """
import json, os, shutil, sys, tempfile  # what it will need: the interpreter may stand in a folder of another user
from pathlib import Path
from perpetual_sqlite.opening import open_reading
path = Path(sys.argv[1])
os.setuid(int(sys.argv[2]))
opened = open_reading(path, 5.0)
rows = [n for (n,) in opened.connection.execute("SELECT n FROM t ORDER BY n")]
print(json.dumps([rows, opened.mode, opened.copied, sorted(os.listdir(path.parent)), os.access(path.parent, os.W_OK)]))
"""


@pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("state", ["rollback", "crashed", "WAL, closed", "WAL, open", "WAL, log without index"])
def test_a_folder_that_may_only_be_read(fit_for_wal: Callable[[bool], None], state: str) -> None:
    fit_for_wal(state.startswith("WAL"))
    with tempfile.TemporaryDirectory() as name:  # every user may enter it: pytest's are private
        folder = Path(name)
        folder.chmod(0o755)
        database = folder / "some.sqlite"
        opening.create(database, _build)
        if state == "crashed":
            _crash_in_commit(database)
        held: sqlite3.Connection | None = None
        if state in ("WAL, open", "WAL, log without index"):
            held = opening.open_writing(database, 5.0).connection
            held.execute("INSERT INTO t VALUES (2)")
        if state == "WAL, log without index":
            (folder / "copy").mkdir()
            for path in (database, Path(f"{database}-wal")):
                (folder / "copy" / path.name).write_bytes(path.read_bytes())
            database = folder / "copy" / database.name
        for path in database.parent.iterdir():
            path.chmod(0o755 if path.is_dir() else 0o644)
        database.parent.chmod(0o555)
        before = sorted(os.listdir(database.parent))
        done = subprocess.run(
            [sys.executable, "-c", _READER, str(database), str(NOBODY)], capture_output=True, text=True, check=False
        )
        database.parent.chmod(0o755)
        if held is not None:
            held.close()
    assert done.returncode == 0, done.stderr
    rows, mode, copied, after, writable = json.loads(done.stdout)
    assert not writable
    assert rows == ([1, 2] if held is not None else [1])
    assert mode == ("wal" if state.startswith("WAL") else "truncate")
    assert copied is (state not in ("rollback", "WAL, open"))
    assert after == before
