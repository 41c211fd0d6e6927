"""Records the ends of runs and starts what waits, until nothing changes and nothing is to come; then it is gone.

It works in `.perpetual/dispatch`, and holds the lock there, taken for it by a supervisor, or by a command that has left
runs waiting: `perpetual_supervisor.mover` and `mover_start` say how they meet. It acts in the name `queue`: it starts
what a person approved and queued, and does nothing that is for persons. Its environment has nothing of a run; what it
starts gets the environment that was kept when it was queued. Killed at any moment it loses nothing: the record has all,
and the next end or scan goes on.

While a run waits for the end of a live one, or until a moment, the process stays and sleeps: most of what an end costs
is to start Python and read the modules. It sleeps on the processes of the live runs; once a second it looks at the
clock and whether the record or the configuration has changed, and reads both anew then. `PERPETUAL_QUEUE_LINGER_S`
limits how long it stays, for measurements.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual import Lab
from perpetual.api import NotPermitted
from perpetual.toolkit import atomic, platform
from perpetual_dispatch.notices import notify
from perpetual_supervisor.mover import HELD, LOCK, LOG, WAKE
from perpetual_supervisor.mover_start import LINGER

if TYPE_CHECKING:
    from perpetual.documents.runs import Scanned

__all__ = ["ACTOR", "FAILURE", "FOLDER", "main"]

ACTOR = "queue"
FOLDER = "dispatch"  # below `.perpetual`
FAILURE = "failed.json"
_ENDED = ("done", "failed", "killed", "timeout", "lost")
_LONGEST_S = 900  # a driver or a keyring that hangs must not keep the lock for ever
_PATIENCE_S = 2.0  # for a supervisor that has left its word and is about to end
_LARGEST_LOG_BYTES = 256 * 1024
_TICK_S = 1.0  # between two looks at the clock and the record: one that was suspended is late by as much
_LOOK_S = 30.0  # between two scans: a supervisor that was killed leaves no word
_LONGEST_STAY_S = 3600.0  # then it begins anew, with the code that is installed by then
_QUIET_LOOKS = 3  # within which what a scan writes comes to rest


def main() -> int:
    """Moves the queue of the project in whose `.perpetual/dispatch` this process works; returns the exit status."""
    held: int | None = _inherited(int(sys.argv[1]) if len(sys.argv) > 1 else HELD)
    if held is None:
        held = _taken()
    status, began = 0, time.monotonic()
    while held is not None:
        try:
            status, is_more = _moved(held, began)
        finally:
            os.close(held)
        held = _taken() if is_more or (status == 0 and _words()) else None  # of one that ended as this one was leaving
    return status


def _inherited(number: int) -> int | None:
    """Returns the descriptor of the lock if the parent has left it, and it is that of this folder."""
    try:
        if not os.path.samestat(os.fstat(number), os.stat(LOCK)):
            return None
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held already: it is of the same open file
    except OSError:
        return None
    os.set_inheritable(number, False)
    return number


def _taken() -> int | None:
    """Returns the lock, or None if another process has it."""
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _moved(held: int, began: float) -> tuple[int, bool]:
    """Moves the queue until nothing is to come; keeps word of a failure for `doctor` and `status`.

    Returns:
        The exit status, and whether the record has changed since the last look.
    """
    try:
        if os.path.exists(LOG) and os.stat(LOG).st_size > _LARGEST_LOG_BYTES:
            os.truncate(LOG, 0)
        while True:
            with Lab.open(Path("../..").resolve(), actor=ACTOR) as lab:
                state = _move(lab)
                Path(FAILURE).unlink(missing_ok=True)
                state, is_over = _lingered(lab, state, began)
                if is_over:
                    fcntl.flock(held, fcntl.LOCK_UN)  # from here on another process may be started
                    return 0, lab.feed.state() != state
            if time.monotonic() - began > _LONGEST_STAY_S:
                _begin_anew(held)
    except NotPermitted as problem:
        if problem.code != "not_trusted":
            return _failed(problem), False
    except Exception as problem:  # noqa: BLE001 - its only reader is the file; the next end tries again
        return _failed(problem), False
    Path(FAILURE).unlink(missing_ok=True)
    return 0, False


def _move(lab: Lab) -> str | None:
    """Records ends and starts what has room until nothing changes; returns the state of the record at the last look."""
    is_changing, ended, looks = True, set[str](), 0
    signal.alarm(_LONGEST_S)
    state = lab.feed.state()
    while is_changing:
        _outlast(_words())
        # What has ended makes room first; words and notes come when nothing else does.
        found = lab.scan(analyse=False)
        ended |= _ended_in(found)
        is_changing = bool(_words()) or any(item["to"] == "failed" for item in found["changes"])
        if not is_changing:
            state = lab.feed.state()
            ended |= _ended_in(lab.scan())  # a run may have ended since the scan above
            notify(lab, sorted(ended))
            ended, looks = set(), looks + 1
            is_changing = bool(_words()) or (lab.feed.state() != state and looks < _QUIET_LOOKS)
    signal.alarm(0)
    return state


def _ended_in(found: Scanned) -> set[str]:
    """Returns the experiments of which a scan has recorded the end of a run."""
    return {item["experiment_id"] for item in found["changes"] if item["to"] in _ENDED}


def _lingered(lab: Lab, state: str | None, began: float) -> tuple[str | None, bool]:
    """Sleeps while a run waits for an end or a moment, and moves the queue then.

    Returns:
        The state of the record at the last look, and whether nothing is to come; else the record is to be read anew.
    """
    longest_s = float(os.environ.get(LINGER, "inf"))
    while (moment := lab.queue.awaited()) is not None and time.monotonic() - began < longest_s:
        look_at = time.monotonic() + min(_LOOK_S, longest_s)
        while not _words() and time.time() < moment and time.monotonic() < look_at:
            if _has_ended(lab, min(_TICK_S, max(0.0, moment - time.time()), longest_s)):
                break
            if not os.path.exists(LOCK):
                return state, True  # the project was removed
            if lab.feed.state() != state:
                return state, False
        if lab.feed.state() != state or time.monotonic() - began > _LONGEST_STAY_S:
            return state, False
        moved = _move(lab)
        if moved == state:  # nothing came of it, such as of a folder that cannot be read: not at once again
            time.sleep(_TICK_S)
        state = moved
    return state, True


def _has_ended(lab: Lab, timeout_s: float) -> bool:
    """Sleeps until a live run has ended, or for the time; returns whether one has."""
    over_at = time.monotonic() + timeout_s
    if lab.loop.wait_any(timeout_s):
        return True
    time.sleep(max(0.0, over_at - time.monotonic()))  # where no run is live, `wait_any` returns at once
    return False


def _begin_anew(held: int) -> None:
    """Executes this program again, with the lock."""
    os.set_inheritable(held, True)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "perpetual_dispatch", str(held)])


def _words() -> list[str]:
    return [name for name in os.listdir(".") if name.startswith(WAKE)]


def _outlast(words: Sequence[str]) -> None:
    """Takes the words of supervisors that have ended, and waits for those processes: until then their runs go on."""
    for name in words:
        os.unlink(name)
    for name in words:
        pid, _, ticks = name.removeprefix(WAKE).partition("-")
        if pid.isdecimal() and ticks.isdecimal() and len(pid) < 11 and len(ticks) < 20:
            platform.wait_gone(platform.Identity(platform.boot_id(), int(pid), int(ticks)), _PATIENCE_S)


def _failed(problem: Exception) -> int:
    code = getattr(problem, "code", type(problem).__name__)
    message = str(getattr(problem, "message", problem))[:500]
    print(f"{code}: {message}", file=sys.stderr)  # noqa: T201 - its log
    try:
        atomic.write_atomic(FAILURE, json.dumps({"code": code, "message": message}), durable=False)
    except OSError:
        return 1  # a full disk: the log may have it
    return 1
