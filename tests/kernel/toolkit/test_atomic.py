"""Atomic files: whole or not at all, also under a kill; JSON helpers that name the file."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perpetual.toolkit import atomic

ROOT = Path(atomic.__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder; `tmp_path` itself holds the test's home."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


def test_a_file_is_made_and_replaced_as_text_or_bytes(folder: Path) -> None:
    path = folder / "record.json"
    atomic.write_atomic(path, "größer\n")
    assert path.read_bytes() == "größer\n".encode()
    atomic.write_atomic(str(path), b"\x00\xff", durable=False)
    assert path.read_bytes() == b"\x00\xff"
    assert os.listdir(folder) == ["record.json"]


def test_the_file_is_private_unless_asked_and_never_wider_than_the_umask(folder: Path) -> None:
    umask = os.umask(0o027)
    try:
        atomic.write_atomic(folder / "private", "x")
        atomic.write_atomic(folder / "shared", "x", mode=0o664)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((folder / "private").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "shared").stat().st_mode) == 0o640


def test_a_failed_write_leaves_neither_a_change_nor_a_temporary_file(folder: Path) -> None:
    (folder / "taken").mkdir()
    (folder / "taken" / "inside").write_text("x")
    with pytest.raises(OSError, match="taken"):
        atomic.write_atomic(folder / "taken", "new")
    assert os.listdir(folder) == ["taken"]
    assert os.listdir(folder / "taken") == ["inside"]


def test_a_path_without_a_folder_is_taken_in_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    atomic.write_atomic("here", "x")
    assert os.listdir(folder) == ["here"]


@pytest.mark.parametrize(("durable", "expected"), [(True, ["file", "folder"]), (False, [])])
def test_durable_means_file_first_then_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, expected: list[str]
) -> None:
    synced: list[str] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    atomic.write_atomic(folder / "f", "x", durable=durable)
    assert synced == expected


def test_a_short_write_is_continued(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:7])))
    atomic.write_atomic(folder / "f", "0123456789" * 3)
    assert (folder / "f").read_text() == "0123456789" * 3


def test_readers_never_see_a_part(folder: Path) -> None:
    path = folder / "f"
    contents = [letter * 100_000 for letter in "ab"]
    atomic.write_atomic(path, contents[0])
    done = threading.Event()

    def write() -> None:
        for turn in range(200):
            atomic.write_atomic(path, contents[turn % 2], durable=False)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(path.read_text())
    writer.join()
    assert seen <= set(contents)
    assert seen


def test_a_killed_writer_leaves_a_whole_file(folder: Path) -> None:
    path = folder / "f"
    program = (
        "import sys\n"
        "from perpetual.toolkit.atomic import write_atomic\n"
        "while True:\n"
        "    for letter in 'ab':\n"
        "        write_atomic(sys.argv[1], letter * 3_000_000, durable=False)\n"
        "        print(letter, flush=True)\n"
    )
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"a\n"
        writer.send_signal(signal.SIGKILL)
        writer.stdout.close()
        writer.wait()
        content = path.read_text()
        assert content in ("a" * 3_000_000, "b" * 3_000_000)


def test_json_is_written_readable_in_order_and_without_nan() -> None:
    assert atomic.dump_json({"b": "ä", "a": None}) == '{"b": "ä", "a": null}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic.dump_json({"x": float("nan")})


def test_json_is_read_back_and_a_missing_file_is_none(folder: Path) -> None:
    path = folder / "f.json"
    assert atomic.read_json(path) is None
    atomic.write_atomic(path, atomic.dump_json({"b": ["ä", 1.5]}))
    assert atomic.read_json(path) == {"b": ["ä", 1.5]}


@pytest.mark.parametrize(
    "garbage",
    [b"", b'{"a": ', b"\xff\xfe", b"NaN", b'{"a": Infinity}', b"null", b"[" * 200_000, b'{"a": 1}x'],
)
def test_garbage_is_an_error_that_names_the_file(folder: Path, garbage: bytes) -> None:
    path = folder / "odd.json"
    path.write_bytes(garbage)
    with pytest.raises(ValueError, match=r"odd\.json: not a JSON document") as caught:
        atomic.read_json(path)
    assert str(path) in str(caught.value)
