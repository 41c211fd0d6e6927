"""What wakes the daemon: ends of runs, changes of the record by others, changes of the configuration, and the stop.

Two threads, each with a `Lab` of its own, sleep in the kernel until something comes. The daemon also holds the lock of
`.perpetual/dispatch` while it runs: an ending supervisor that finds it taken leaves an empty file and starts nothing.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual.toolkit import confined, trust_record
from perpetual_supervisor.mover import LOCK, WAKE

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["QueueLock", "Wakes", "files_of"]

_SLICE_S = 2.0  # the longest sleep of a thread that nothing wakes: how late it notices a changed file or the stop
_AFTER_ERROR_S = 1.0
_LONGEST_TURN_S = 60.0
_GRACE_S = 0.5  # a thread that sleeps longer ends with the process


def files_of(lab: Lab) -> tuple[object, ...]:
    """Returns what tells one state of the configuration from another: its files, and what this user trusts of them."""
    found = trust_record.read(lab.root, lab.config.project_id)
    trusted = None if found is None else replace(found, commit=0)  # which grows with the record
    return (lab.config.stamps(), trusted)


class QueueLock:
    """The lock that keeps the dispatcher away while the daemon moves the queue itself."""

    def __init__(self, folder: Path) -> None:
        """Takes nothing yet; `folder` is the project's `.perpetual`."""
        self._folder, self._held = folder / "dispatch", -1

    def take(self) -> bool:
        """Returns whether the lock is held; a dispatcher that is at work keeps it until it is done."""
        if self._held >= 0:
            return True
        try:
            confined.make_folder(self._folder)
            held = confined.open_file(self._folder / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError:
            return False
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            return False
        self._held = held
        return True

    def clear(self) -> bool:
        """Removes what ended supervisors have left, and returns whether there was any; before a turn looks at runs."""
        if self._held < 0:
            return False
        with suppress(OSError):
            found = [name for name in os.listdir(self._folder) if name.startswith(WAKE)]
            for name in found:
                os.unlink(self._folder / name)
            return bool(found)
        return False

    def release(self) -> None:
        """Lets another process move the queue."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


class Wakes:
    """Sleeps until there is something to do. `close` ends its threads."""

    def __init__(self, open_lab: Callable[[], Lab], *, actor: str) -> None:
        """Starts listening; `open_lab` opens a lab for a thread, and events of `actor` itself wake nothing."""
        self._open, self._actor = open_lab, actor
        self._changed = threading.Condition()
        self._is_due, self.is_over, self._seen = False, False, 0
        self._begun, self._ended = 1, 0  # turns
        self._threads = [
            threading.Thread(target=self._listen, args=(work,), daemon=True, name=f"daemon-{work.__name__}")
            for work in (self._hear_record, self._hear_runs)
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Ends the present or the next sleep."""
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    def sleep(self, timeout_s: float, seen: int) -> None:
        """Sleeps until woken, at most `timeout_s`; `seen` is the last event that was looked at."""
        with self._changed:
            self._seen, self._ended = max(self._seen, seen), self._begun
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_due, timeout_s)
            self._is_due, self._begun = False, self._begun + 1

    def close(self) -> None:
        """Has the threads end within seconds."""
        self.is_over = True
        self.wake()
        for thread in self._threads:
            thread.join(_GRACE_S)

    def _listen(self, work: Callable[[Lab], None]) -> None:
        """Runs `work` until the end, with a lab that is opened anew after each error."""
        while not self.is_over:
            try:
                with self._open() as lab:
                    work(lab)
            except (PerpetualError, OSError):  # the loop meets it too, and says so
                time.sleep(_AFTER_ERROR_S)

    def _hear_record(self, lab: Lab) -> None:
        """Wakes on an event of another process or of a companion, and on a changed file of the configuration."""
        since, files = lab.feed.last(), files_of(lab)
        while not self.is_over:
            lab.feed.wait(since, timeout_s=_SLICE_S)
            if (present := files_of(lab)) != files:
                files = present
                self.wake()
            for event in lab.feed.read(since=since):
                since = event.seq
                if event.actor != self._actor and event.seq > self._seen:
                    self.wake()

    def _hear_runs(self, lab: Lab) -> None:
        """Wakes when a live run has ended, whatever the scheduler is."""
        while not self.is_over:
            began = time.monotonic()
            if lab.loop.wait_any(_SLICE_S):
                self.wake()
                self._wait_turn()
            elif time.monotonic() - began < _SLICE_S / 2 and not self.is_over:
                lab.feed.wait(lab.feed.last(), timeout_s=_SLICE_S)  # no run is live: the record says when one is

    def _wait_turn(self) -> None:
        """Waits until a turn that begins from now on is over and has recorded what was heard."""
        with self._changed:
            next_turn = self._begun + 1
            self._changed.wait_for(lambda: self._ended >= next_turn or self.is_over, _LONGEST_TURN_S)
