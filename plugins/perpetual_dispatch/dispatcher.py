"""Records the ends of runs and starts what waits, until nothing changes; then it is gone.

It works in `.perpetual/dispatch`, and holds the lock there, taken for it by a supervisor: `perpetual_supervisor.mover`
says how the two meet. It acts in the name `queue`: it starts what a person approved and queued, and does nothing that
is for persons. Its environment has nothing of the run that ended; what it starts gets the environment that was kept
when it was queued. Killed at any moment it loses nothing: the record has all, and the next end or scan goes on.

While runs wait it lingers for some seconds, asleep, so that the end of a short run finds it there: most of what it
costs is to start Python. `PERPETUAL_QUEUE_LINGER_S` changes how long, for measurements.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from perpetual import Lab
from perpetual.api import NotPermitted, PerpetualError
from perpetual.toolkit import atomic, platform
from perpetual_dispatch.notices import notify
from perpetual_supervisor.mover import HELD, LOCK, LOG, WAKE

__all__ = ["ACTOR", "FAILURE", "FOLDER", "main"]

ACTOR = "queue"
FOLDER = "dispatch"  # below `.perpetual`
FAILURE = "failed.json"
_ENDED = ("done", "failed", "killed", "timeout", "lost")
_LONGEST_S = 900  # a driver or a keyring that hangs must not keep the lock for ever
_PATIENCE_S = 2.0  # for a supervisor that has left its word and is about to end
_LARGEST_LOG_BYTES = 256 * 1024
_LINGER_S = 60.0


def main() -> int:
    """Moves the queue of the project in whose `.perpetual/dispatch` this process works; returns the exit status."""
    held: int | None = _inherited()
    if held is None:
        held = _taken()
    status = 0
    while held is not None:
        status = _moved()
        os.close(held)
        held = _taken() if status == 0 and _words() else None  # of one that ended when this process was about to leave
    return status


def _inherited() -> int | None:
    """Returns the descriptor of the lock if the parent has left it, and it is that of this folder."""
    try:
        if not os.path.samestat(os.fstat(HELD), os.stat(LOCK)):
            return None
        fcntl.flock(HELD, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held already: it is of the same open file
    except OSError:
        return None
    os.set_inheritable(HELD, False)
    return HELD


def _taken() -> int | None:
    """Returns the lock, or None if another process has it."""
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _moved() -> int:
    """Moves the queue until nothing changes; keeps word of a failure for `doctor` and `status`."""
    try:
        if os.path.exists(LOG) and os.stat(LOG).st_size > _LARGEST_LOG_BYTES:
            os.truncate(LOG, 0)
        with Lab.open(Path("../..").resolve(), actor=ACTOR) as lab:
            _move(lab)
    except NotPermitted as problem:
        if problem.code != "not_trusted":
            return _failed(problem)
    except Exception as problem:  # noqa: BLE001 - its only reader is the file; the next end tries again
        return _failed(problem)
    Path(FAILURE).unlink(missing_ok=True)
    return 0


def _move(lab: Lab) -> None:
    linger_s = float(os.environ.get("PERPETUAL_QUEUE_LINGER_S", _LINGER_S))
    is_changing, ended = True, set[str]()
    while is_changing:
        signal.alarm(int(_LONGEST_S + linger_s))
        _outlast(_words())
        # What has ended makes room first; words and notes come when nothing else does.
        found = lab.scan(analyse=False)
        ended |= {item["experiment_id"] for item in found["changes"] if item["to"] in _ENDED}
        is_changing = bool(_words()) or any(item["to"] == "failed" for item in found["changes"])
        if not is_changing:
            lab.scan()
            notify(lab, sorted(ended))
            ended = set()
            is_changing = bool(_words()) or _has_lingered(lab, linger_s)


def _has_lingered(lab: Lab, linger_s: float) -> bool:
    """Sleeps on the live runs while others wait, and records their ends as they come; whether any came."""
    live = lab.runs.live()
    running = {run.id for run in live if run.status == "running"}
    if len(running) == len(live) or not running or lab.queue.state() == "paused" or linger_s <= 0:
        return False
    try:
        lab.wait(sorted(running), timeout_s=linger_s)
    except PerpetualError:
        return False  # of one run's folder, or an engine: a scan has named it
    return {run.id for run in lab.runs.live() if run.status == "running"} != running


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
