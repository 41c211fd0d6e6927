"""Waiting until something in a folder changes, through the watchdog library. Used by the base of every store.

A change is heard of within milliseconds; every few seconds it is looked for all the same, because a kernel's queue of
notices can overflow and a folder on a network is changed by others unseen. Where nothing can be watched (no folder
yet, the user's limit of watches is reached) it is looked for twenty times a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["FolderWatch"]

SWEEP_S = 5.0
_POLL_S = 0.05


class FolderWatch:
    """Watches the files of one folder, not its subfolders, from its first `wait` on. Safe in threads."""

    def __init__(self, folder: Path, *, sweep_s: float = SWEEP_S) -> None:
        self.folder, self._sweep_s = folder, sweep_s
        self._changed = threading.Condition()
        self._ticks = 0  # grows with every notice
        self._guard = threading.Lock()
        self._observer: Any = None
        self._process = 0  # whose threads the observer's are: a forked child has none of them
        self._retry_at = 0.0  # monotonic; what cannot be watched is not tried at each look

    def wait(self, is_true: Callable[[], bool], timeout_s: float) -> bool:
        """Returns what `is_true` last said: as soon as it is true, or false after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while True:
            watched = self._start()
            with self._changed:
                ticks = self._ticks
            if is_true():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not watched:
                time.sleep(min(_POLL_S, left))
                continue
            with self._changed:  # a notice since the look above has moved the count, and nothing is waited for
                self._changed.wait_for(lambda seen=ticks: self._ticks != seen, min(self._sweep_s, left))  # type: ignore[misc]

    def close(self) -> None:
        """Ends the watching; a later `wait` begins it again."""
        with self._guard:
            observer, self._observer = self._observer, None
            if observer is not None and self._process == os.getpid():
                observer.stop()
                observer.join()

    def _start(self) -> bool:
        """Returns whether notices come."""
        with self._guard:
            if self._observer is not None and self._process == os.getpid():
                return True
            self._observer = None
            if time.monotonic() < self._retry_at or not self.folder.is_dir():
                return False
            import logging

            from watchdog import events
            from watchdog.observers import Observer

            # Its complaints (a queue that overflowed, a notice while it is closed) are met by looking all the same.
            # Where a program has set up no logging, Python would print them between our own lines.
            complaints = logging.getLogger("watchdog")
            if not complaints.handlers:
                complaints.addHandler(logging.NullHandler())
            changed = self._note

            class Handler(events.FileSystemEventHandler):
                def on_any_event(self, event: object) -> None:
                    changed()

            # reading is no change: without the filter each look of this process would wake it again
            kinds = [events.FileCreatedEvent, events.FileModifiedEvent, events.FileMovedEvent]
            if hasattr(events, "FileAttribEvent"):  # before watchdog 7 a new time was a modification
                kinds.append(events.FileAttribEvent)
            observer = None
            try:
                observer = Observer()
                observer.schedule(Handler(), str(self.folder), event_filter=kinds)
                observer.start()
            except OSError:  # looked for at intervals instead
                self._retry_at = time.monotonic() + self._sweep_s
                if observer is not None:
                    observer.stop()  # of its threads some live already
                return False
            self._observer, self._process = observer, os.getpid()
            return True

    def _note(self) -> None:
        with self._changed:
            self._ticks += 1
            self._changed.notify_all()
