"""Waiting for a change in a folder: what wakes it, what does not, and what is done where nothing can be watched."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual.toolkit.watch import FolderWatch

_PATIENCE_S = 60.0
NEVER_S = 1000.0  # between two looks: only a notice wakes the waiter


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
def test_a_change_wakes_the_waiter(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    looked = threading.Semaphore(0)

    def is_changed() -> bool:
        looked.release()
        return (path.stat().st_mtime_ns, path.stat().st_ino) != before

    watched = FolderWatch(tmp_path, sweep_s=NEVER_S)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(watched.wait(is_changed, _PATIENCE_S)))
    thread.start()
    assert looked.acquire(timeout=_PATIENCE_S)  # it has looked once, so it is watching
    change(path)
    thread.join(_PATIENCE_S)
    watched.close()
    assert answers == [True]


def test_reading_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    looks: list[bytes] = []

    def look() -> bool:
        looks.append(path.read_bytes())
        return False

    watched = FolderWatch(tmp_path, sweep_s=NEVER_S)
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


@pytest.mark.skipif(sys.platform != "linux", reason="counts what inotify takes")
@pytest.mark.parametrize("limit", ["of instances", "of watches"])
def test_a_folder_that_cannot_be_watched_is_polled_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """The user's limit is reached: it is looked for at intervals, however long it lasts."""

    from watchdog.observers.api import BaseObserver
    from watchdog.observers.inotify_c import InotifyFD

    def refused(*given: object, **named: object) -> None:
        raise OSError(errno.EMFILE if limit == "of instances" else errno.ENOSPC, "the limit is reached")

    if limit == "of instances":
        monkeypatch.setattr(InotifyFD, "_create_inotify_fd", refused)
    else:
        monkeypatch.setattr(BaseObserver, "start", refused)
    before, descriptors = {*threading.enumerate()}, len(os.listdir("/proc/self/fd"))
    watched = FolderWatch(tmp_path, sweep_s=0.01)
    path = tmp_path / "file"
    looks: list[bool] = []

    def at_the_fifth_look() -> bool:
        looks.append(path.exists())
        if len(looks) == 5:
            path.touch()
        return looks[-1]

    assert watched.wait(at_the_fifth_look, _PATIENCE_S)
    assert len(looks) == 6
    assert not {*threading.enumerate()} - before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    watched.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_watches_for_itself(tmp_path: Path) -> None:
    watched = FolderWatch(tmp_path, sweep_s=NEVER_S)
    assert not watched.wait(lambda: False, 0.01)
    child = os.fork()
    if child == 0:
        path = tmp_path / "file"
        threading.Timer(0.2, path.touch).start()
        os._exit(0 if watched.wait(path.exists, _PATIENCE_S) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    watched.close()


_COMPLAINS = """
import logging, sys
from pathlib import Path
from perpetual.toolkit.watch import FolderWatch
watch = FolderWatch(Path(sys.argv[1]))
assert not watch.wait(lambda: False, 0.0)
logging.getLogger("watchdog.observers.inotify").error("called when the thread is inactive")
watch.close()
"""


def test_the_library_does_not_complain_to_our_users(tmp_path: Path) -> None:
    """It does where a notice comes while a watch is closed, which is no news to anybody."""
    done = subprocess.run([sys.executable, "-c", _COMPLAINS, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
