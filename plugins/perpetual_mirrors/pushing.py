"""Pushes what waits in a mirror's outbox, one run after the other. For the process that pushes, and for tests."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, TransientError, line
from perpetual.toolkit import deadline
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.lock import FileLock
from perpetual_mirrors.content import mirrored
from perpetual_mirrors.outbox import Outbox
from perpetual_mirrors.targets import Note, file_name, folder_of, note_of, write_note

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_mirrors.base import Mirror
    from perpetual_mirrors.documents import MirrorPush

__all__ = ["FAILING", "LONGEST_S", "RECOVERED", "push_all"]

FAILING, RECOVERED = "mirrors.failing", "mirrors.recovered"
LONGEST_S = 300.0  # of one run, opening included
_IN_A_ROW = 2  # failures after which the tracker is to blame, and no other run is tried
_LOCK_WAIT_S = 60.0
_LONGEST_ERROR = 200


def push_all(
    lab: Lab, target: str, mirror: Mirror, *, now: bool = True, rebuild: bool = False, dry_run: bool = False
) -> MirrorPush | None:
    """Pushes what waits for a mirror, and returns the document of it; None where another process is at it.

    An error of the mirror is in the document, and kept; it is not raised.

    Args:
        now: also runs that failed and are due later, and waits for another process; False is the background.
        rebuild: forgets what was pushed, and pushes every run that has ended.
        dry_run: reads what waits, and pushes nothing.

    Raises:
        TransientError: with `now`, if another process pushes for long.
        OSError, sqlite3.Error: if the outbox cannot be written.
    """
    folder = folder_of(lab)
    make_folder(folder)
    lock = FileLock(folder / f"{file_name(target)}.lock")
    if not (lock.acquire(timeout_s=_LOCK_WAIT_S) if now else lock.acquire(blocking=False)):
        if now:
            raise TransientError(f"another process is pushing to {target}", hint="try again")
        return None
    try:
        with Outbox(folder, file_name(target)) as outbox:
            if rebuild and not dry_run:
                outbox.forget()
            outbox.read(lab)
            pushed, unchanged = ([], 0) if dry_run else _pushed(lab, outbox, mirror, _place(folder, target), now=now)
            waiting = outbox.waiting()
            _leave_note(lab, folder, target, outbox)
            return {
                "target": target,
                "folder": str(_place(folder, target)),
                "pushed": pushed,
                "unchanged": unchanged,
                "waiting": waiting,
                "error": outbox.error(),
                "seq": outbox.seq,
            }
    finally:
        lock.release()


def _place(folder: Path, target: str) -> Path:
    return folder / file_name(target)


def _pushed(lab: Lab, outbox: Outbox, mirror: Mirror, place: Path, *, now: bool) -> tuple[list[str], int]:
    """Returns the runs that were pushed, and how many had not changed since."""
    pushed: list[str] = []
    unchanged = failures = 0
    sender = _Sender(lab, outbox, mirror, place)
    try:
        for id in outbox.waiting(None if now else time.time()):
            try:
                was_pushed = deadline.call(LONGEST_S, partial(sender.send, id))
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - a library raises anything, or ends the process
                outbox.failed(id, _words(lab, problem), time.time(), again=not sender.has_begun)
                failures += 1
                if failures >= _IN_A_ROW or (sender.has_begun and not sender.is_open):
                    break
                continue
            failures = 0
            pushed += [id] if was_pushed else []
            unchanged += was_pushed is False
    finally:
        sender.close()
    return pushed, unchanged


class _Sender:
    """Sends runs to a mirror, which is opened for the first one that has changed."""

    def __init__(self, lab: Lab, outbox: Outbox, mirror: Mirror, place: Path) -> None:
        self._lab, self._outbox, self._mirror, self._place = lab, outbox, mirror, place
        self.is_open = self.has_begun = False

    def send(self, id: str) -> bool | None:
        """Returns whether the run was pushed: False if the mirror holds it as it is, None if the run is live."""
        self.has_begun = False
        run = mirrored(self._lab, id)
        if run is None:
            self._outbox.done(id, None)  # its end will be an event
            return None
        digest = run.digest()
        if self._outbox.digest(id) == digest:
            self._outbox.done(id, digest)
            return False
        self._outbox.begin(id, time.time())
        self.has_begun = True
        if not self.is_open:
            make_folder(self._place)
            self._mirror.open(self._place)
            self.is_open = True
        self._mirror.push(run)
        self._outbox.done(id, digest)
        return True

    def close(self) -> None:
        """Closes the mirror; what it raises then is lost with it: every run that was pushed is in the tracker."""
        with contextlib.suppress(Exception, SystemExit):
            self._mirror.close()


def _words(lab: Lab, problem: BaseException) -> str:
    """Returns an error on one line, without secrets; libraries quote addresses and passwords."""
    text = problem.message if isinstance(problem, PerpetualError) else f"{type(problem).__name__}: {problem}"
    hint = f" ({problem.hint})" if isinstance(problem, PerpetualError) and problem.hint else ""
    masked = str(PerpetualError(text + hint).document()["message"])
    words = line(lab.part("redactor").text(masked))
    return words if len(words) <= _LONGEST_ERROR else f"{words[:_LONGEST_ERROR]}..."


def _leave_note(lab: Lab, folder: Path, target: str, outbox: Outbox) -> None:
    """Leaves the note; an event says that a mirror begins to fail or works again, which makes the status anew."""
    before, (waiting, held), error = note_of(folder, target), outbox.counts(), outbox.error()
    write_note(folder, target, Note(outbox.seq, waiting, held, outbox.due_s(), error))
    if (error is None) == (before.error is None):
        return
    if error is None:
        lab.feed.emit(RECOVERED, target)
    else:
        lab.feed.emit(FAILING, target, {"error": error})
