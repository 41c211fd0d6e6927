"""What wakes the daemon: ends of runs, changes of the record by others, changes of the configuration, and the stop.

Threads, most with a `Lab` of its own, sleep in the kernel until something comes. The daemon also holds the lock of
`.perpetual/dispatch` while it runs: an ending supervisor that finds it taken leaves an empty file and starts nothing.
That file is heard of at once, also of a run that was started after the sleep had begun. A run of another scheduler, and
one whose supervisor was killed, is waited for itself.
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
from perpetual.toolkit.platform import Identity, boot_id, wait_gone
from perpetual.toolkit.watch import FolderWatch
from perpetual_supervisor.mover import LOCK, WAKE

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["QueueLock", "Wakes", "files_of"]

_SLICE_S = 2.0  # the longest sleep of a thread that nothing wakes: how late it notices a changed file or the stop
_FILES_S = 4.0  # the same of those that a change of the record or a word wakes at once
_AFTER_ERROR_S = 1.0
_LONGEST_TURN_S = 60.0
_SUPERVISOR_S = 2.0  # for a supervisor that has left its word and is about to end
_AGREE_S = 0.03  # in which the thread that waits for the same run may have begun a turn
_DIGITS = 20
_GRACE_S = 0.5  # a thread that sleeps longer ends with the process


def files_of(lab: Lab) -> tuple[object, ...]:
    """Returns what tells one state of the configuration from another: its files, and what this user trusts of them."""
    found = trust_record.read(lab.root, lab.config.project_id)
    trusted = None if found is None else replace(found, commit=0)  # which grows with the record
    return (lab.config.stamps(), trusted)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < _DIGITS


class QueueLock:
    """The lock that keeps the dispatcher away while the daemon moves the queue itself."""

    def __init__(self, folder: Path) -> None:
        """Takes nothing yet; `folder` is the project's `.perpetual`."""
        self.folder, self._held = folder / "dispatch", -1

    def take(self) -> bool:
        """Returns whether the lock is held; a dispatcher that is at work keeps it until it is done."""
        if self._held >= 0:
            return True
        try:
            confined.make_folder(self.folder)
            held = confined.open_file(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
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
            found = [name for name in os.listdir(self.folder) if name.startswith(WAKE)]
            for name in found:
                os.unlink(self.folder / name)
            return bool(found)
        return False

    def words(self) -> list[Identity]:
        """Returns the supervisors that have left word that they end."""
        found: list[Identity] = []
        with suppress(OSError):
            for name in os.listdir(self.folder):
                pid, _, ticks = name.removeprefix(WAKE).partition("-")
                if name.startswith(WAKE) and _is_number(pid) and _is_number(ticks):
                    found.append(Identity(boot_id(), int(pid), int(ticks)))
        return found

    def release(self) -> None:
        """Lets another process move the queue."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


class Wakes:
    """Sleeps until there is something to do. `close` ends its threads."""

    def __init__(self, open_lab: Callable[[], Lab], queue: QueueLock, *, actor: str) -> None:
        """Starts listening; `open_lab` opens a lab for a thread, and events of `actor` itself wake nothing."""
        self._open, self._actor = open_lab, actor
        self._changed = threading.Condition()
        self._is_due, self.is_over, self._seen = False, False, 0
        self._begun, self._ended = 1, 0  # turns
        self._queue = queue
        self._threads = [
            threading.Thread(target=self._listen, args=(work,), daemon=True, name=f"daemon-{work.__name__}")
            for work in (self._hear_record, self._hear_runs, self._hear_words)
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Ends the present or the next sleep."""
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    def sleep(self, timeout_s: float, seen: int) -> bool:
        """Sleeps until woken, at most `timeout_s`; returns whether it was. `seen` is the last event looked at."""
        with self._changed:
            self._seen, self._ended = max(self._seen, seen), self._begun
            self._changed.notify_all()
            is_woken = self._changed.wait_for(lambda: self._is_due, timeout_s)
            self._is_due, self._begun = False, self._begun + 1
            return is_woken

    def close(self) -> None:
        """Has the threads end within seconds."""
        self.is_over = True
        self.wake()
        deadline = time.monotonic() + _GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

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
        # From what the loop has looked at: this lab may have been opened anew, after an error or a migration.
        since, stamps, files = self._seen or lab.feed.last(), lab.config.stamps(trust=True), files_of(lab)
        while not self.is_over:
            lab.feed.wait(since, timeout_s=_FILES_S)
            if (present := lab.config.stamps(trust=True)) != stamps:  # the trust record grows with each commit, too
                stamps, before, files = present, files, files_of(lab)
                if files != before:
                    self.wake()
            for event in lab.feed.read(since=since):
                since = event.seq
                if event.actor != self._actor and event.seq > self._seen:
                    self.wake()

    def _hear_runs(self, lab: Lab) -> None:
        """Wakes when a live run has ended, whatever the scheduler is."""
        while not self.is_over:
            began, ended = time.monotonic(), self._ended
            if lab.loop.wait_any(_SLICE_S):
                self.wake()
                self._wait_turn()
            elif time.monotonic() - began < _SLICE_S / 2 and not self.is_over:
                self._wait_launch(ended)

    def _wait_launch(self, ended: int) -> None:
        """Waits, where no run was live after turn `ended`, for the end of a later one: only it starts or sees any."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended != ended or self.is_over, _LONGEST_TURN_S)

    def _hear_words(self, lab: Lab) -> None:
        """Wakes when an ending supervisor has left its word, once it is gone: until then its run goes on."""
        watch = FolderWatch(self._queue.folder)
        try:
            while not self.is_over:
                if not watch.wait(lambda: bool(self._queue.words()), _FILES_S):
                    continue
                for found in self._queue.words():
                    wait_gone(found, _SUPERVISOR_S)
                begun = self._begun
                time.sleep(_AGREE_S)
                if self._begun == begun:  # else a turn has begun since, which sees it
                    self.wake()
                self._wait_turn()
        finally:
            watch.close()

    def _wait_turn(self) -> None:
        """Waits until a turn that begins from now on is over and has recorded what was heard."""
        with self._changed:
            next_turn = self._begun + 1
            self._changed.wait_for(lambda: self._ended >= next_turn or self.is_over, _LONGEST_TURN_S)
