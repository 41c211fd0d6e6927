"""Waiting for a change in a folder: what wakes it, what does not, and what is done where nothing can be watched."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual.toolkit import watch
from perpetual.toolkit.watch import FolderWatch

_PATIENCE_S = 20.0


@pytest.fixture
def never_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a notice wakes who waits."""
    monkeypatch.setattr(watch, "_SWEEP_S", 1000.0)


def _append(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"x")


def _replace(path: Path) -> None:
    beside = path.with_name("beside")
    beside.write_bytes(b"y")
    os.replace(beside, path)


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


@pytest.mark.parametrize("change", [_append, _replace, _touch], ids=["appended", "replaced", "a new time"])
def test_a_change_wakes(tmp_path: Path, never_swept: None, change: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    looked = threading.Semaphore(0)

    def is_changed() -> bool:
        looked.release()
        return (path.stat().st_mtime_ns, path.stat().st_ino) != before

    watched = FolderWatch(tmp_path)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(watched.wait(is_changed, _PATIENCE_S)))
    thread.start()
    assert looked.acquire(timeout=_PATIENCE_S)  # it has looked once, so it is watching
    change(path)
    thread.join(_PATIENCE_S)
    watched.close()
    assert answers == [True]


def test_reading_is_no_change(tmp_path: Path, never_swept: None) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    looks: list[bytes] = []

    def look() -> bool:
        looks.append(path.read_bytes())
        return False

    watched = FolderWatch(tmp_path)
    assert not watched.wait(look, 0.3)
    watched.close()
    assert len(looks) <= 3  # at the start and at the end, and not each time because of the time before


def test_a_condition_that_holds_is_not_waited_for(tmp_path: Path) -> None:
    watched = FolderWatch(tmp_path)
    began = time.monotonic()
    assert watched.wait(lambda: True, _PATIENCE_S)
    assert time.monotonic() - began < _PATIENCE_S / 2
    watched.close()


def test_a_folder_that_comes_later_is_looked_at_at_intervals(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    watched = FolderWatch(folder)
    thread = threading.Timer(0.1, folder.mkdir)
    thread.start()
    assert watched.wait(folder.exists, _PATIENCE_S)
    thread.join()
    watched.close()


def test_a_closed_watch_leaves_no_thread_and_can_be_used_again(tmp_path: Path) -> None:
    before = {*threading.enumerate()}  # of which some may end meanwhile, and are not ours
    watched = FolderWatch(tmp_path)
    for _ in range(2):
        assert not watched.wait(lambda: False, 0.01)
        assert {*threading.enumerate()} - before
        watched.close()
        assert not {*threading.enumerate()} - before
    watched.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_watches_for_itself(tmp_path: Path, never_swept: None) -> None:
    watched = FolderWatch(tmp_path)
    assert not watched.wait(lambda: False, 0.01)
    child = os.fork()
    if child == 0:
        path = tmp_path / "file"
        threading.Timer(0.2, path.touch).start()
        os._exit(0 if watched.wait(path.exists, _PATIENCE_S) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    watched.close()
