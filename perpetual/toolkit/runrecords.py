"""What the supervisor of a run writes down: the start and the end, as records that are read back with care.

For `rundir.py`, whose callers find all of it there.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from perpetual.toolkit import atomic
from perpetual.toolkit.platform import Identity

STARTED, EXIT = "started.json", "exit.json"
ExitReason = Literal["exited", "signalled", "timeout", "killed", "exec_failed"]
_Parsed = TypeVar("_Parsed")
# What reading will meet again however often it is tried: no right to it, a link that leads to itself, a socket.
_LASTING = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO)


@dataclass(frozen=True, slots=True)
class Started:
    """Who runs it (`started.json`). `child` is None where it died before it could be identified.

    The limits are kept for a command that loses its supervisor; a record of an earlier version has none.
    """

    supervisor: Identity
    child: Identity | None
    started_at: str  # ISO 8601, UTC
    wall_s: float | None = None
    grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How it ended (`exit.json`), written once, by the supervisor, when the whole process tree was gone.

    `exit_code` and `signal` are the command's own: one of them is None, or both if it was cancelled before it
    started. `reason` is `timeout` or `killed` where the supervisor ended it, whatever the command answered.
    `detail` is also where it is told that the kernel's out-of-memory killer was at work while a command was killed
    that we did not kill.
    `ended_at` may be before `started_at`, where the clock was set back meanwhile; `duration_s` knows nothing of that.
    `max_rss_bytes` is the largest single process, never less than the supervisor's own 10 MB that a fork
    starts with; `cpu_s` is user and system time of all processes that were waited for.
    """

    exit_code: int | None
    signal: int | None
    reason: ExitReason
    detail: str | None
    started_at: str  # ISO 8601, UTC
    ended_at: str  # ISO 8601, UTC
    duration_s: float  # by the monotonic clock, until the last process was gone
    max_rss_bytes: int
    cpu_s: float


def read_started(run_dir: Path) -> Started | None:
    """Who runs it; None if nothing was started. Raises ValueError naming the file if it holds no such record."""
    return _read(run_dir / STARTED, started_in)


def started_in(found: Any) -> Started:
    """The record of a start, as it was read. Raises KeyError, TypeError."""
    return Started(
        supervisor=identity_in(found["supervisor"]),
        child=None if found["child"] is None else identity_in(found["child"]),
        started_at=typed(found, "started_at", str),
        wall_s=_limit(found, "wall_s"),
        grace_s=_limit(found, "grace_s"),
    )


def read_exit(run_dir: Path) -> ExitRecord | None:
    """How it ended; None if there is no record. Raises ValueError naming the file if it holds no such record."""
    return _read(run_dir / EXIT, _exit_record)


def _read(path: Path, build: Callable[[Any], _Parsed]) -> _Parsed | None:
    try:
        found = atomic.read_json(path)
    except OSError as exc:
        if exc.errno not in _LASTING:
            raise
        raise ValueError(f"{path}: cannot be read: {exc.strerror}") from exc
    if found is None:
        return None
    try:
        return build(found)
    except (KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"{path}: not a record of the supervisor: {exc!r}") from exc


def typed(found: Any, key: str, *kinds: type) -> Any:
    """A value of one of these kinds. Raises KeyError, TypeError."""
    value = found[key]
    if type(value) not in kinds:
        raise TypeError(f"{key} is {value!r}")
    return value


def _limit(found: Any, key: str) -> float | None:
    value = found.get(key)  # an earlier version did not write it
    return None if value is None else float(typed(found, key, float, int))


def identity_in(found: Any) -> Identity:
    """A process as it stands in a record. Raises KeyError, TypeError."""
    return Identity(typed(found, "boot_id", str), typed(found, "pid", int), typed(found, "start_ticks", int))


def _exit_record(found: Any) -> ExitRecord:
    reason = typed(found, "reason", str)
    if reason not in ("exited", "signalled", "timeout", "killed", "exec_failed"):
        raise ValueError(f"reason is {reason!r}")
    return ExitRecord(
        exit_code=typed(found, "exit_code", int, type(None)),
        signal=typed(found, "signal", int, type(None)),
        reason=reason,
        detail=typed(found, "detail", str, type(None)),
        started_at=typed(found, "started_at", str),
        ended_at=typed(found, "ended_at", str),
        duration_s=float(typed(found, "duration_s", float, int)),
        max_rss_bytes=typed(found, "max_rss_bytes", int),
        cpu_s=float(typed(found, "cpu_s", float, int)),
    )
