"""Records of a run's supervisor: start and end, as records that are read back with care.

For supervisors of runs, and for those that look at runs without a scheduler. A run can write what it likes into its
folder: what no supervisor could have written is not read as its word.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, TypeVar

from perpetual.toolkit import confined
from perpetual.toolkit.platform import Identity
from perpetual.toolkit.run_folder import STARTED

EXIT = "exit.json"
ExitReason = Literal["exited", "signalled", "timeout", "killed", "exec_failed"]
_Parsed = TypeVar("_Parsed")
_Kind = TypeVar("_Kind")
_REASONS: tuple[ExitReason, ...] = ("exited", "signalled", "timeout", "killed", "exec_failed")
# What reading will meet again however often it is tried: no right to it, a link that leads to itself, a socket.
_LASTING = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG)
_LARGEST_BYTES = 1 << 20  # of a record; the supervisor's have less than a thousandth of it
_LONGEST_DETAIL = 20_000
_LARGEST = 1 << 62


class MoverDocument(TypedDict):
    """What moves the queue on when the run is over: a program, its whole environment, and the folder of its lock."""

    argv: list[str]
    env: dict[str, str]
    folder: str


class LaunchDocument(TypedDict):
    """What to run (`launch.json`), from the launcher to the supervisor; an earlier launcher may leave out some keys."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    wall_s: float | None
    grace_s: float
    no_output_s: NotRequired[float | None]
    max_log_bytes: int | None
    nonce: NotRequired[str | None]
    spec_hash: NotRequired[str | None]
    end_key: NotRequired[str]
    end_hash: NotRequired[str]
    launcher: NotRequired[Mapping[str, object] | None]  # the identity of its process
    host_id: NotRequired[str]
    host_name: NotRequired[str]
    mover: NotRequired[MoverDocument | None]


class BoundDocument(TypedDict):
    """What says to which run a record belongs."""

    nonce: str | None
    spec_hash: str | None


class ExitDocument(BoundDocument):
    """An `ExitRecord` as it is written."""

    exit_code: int | None
    signal: int | None
    reason: str
    detail: str | None
    started_at: str
    ended_at: str
    duration_s: float
    max_rss_bytes: int
    cpu_s: float
    end_key: str | None


@dataclass(frozen=True, slots=True)
class Started:
    """The processes of a run (`started.json`). `child` is None where it died before it could be identified.

    The limits are kept for a command that loses its supervisor; a record of an earlier version has none.
    """

    supervisor: Identity
    child: Identity | None
    started_at: str  # ISO 8601, UTC
    wall_s: float | None = None
    grace_s: float | None = None
    nonce: str | None = None  # of the launch; None of an earlier version, as everything below
    spec_hash: str | None = None
    host_id: str | None = None  # see `perpetual.toolkit.hosts`
    host_name: str | None = None
    folder: int | None = None  # the inode of the run's folder: in a copy of it the record is not at home
    end_hash: str | None = None  # of the key that the record of the end holds, and that the command never sees


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How it ended (`exit.json`), written once, by the supervisor, when the whole process tree was gone.

    `exit_code` and `signal` are the command's own: one of them is None, or both if it was cancelled before it
    started. `reason` is `timeout` or `killed` where the supervisor ended it, whatever the command answered.
    `detail` also says that the kernel's out-of-memory killer was at work while a command was killed
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
    nonce: str | None = None  # of the launch; None of an earlier version
    spec_hash: str | None = None
    end_key: str | None = None  # known to the supervisor alone until it writes this record


def hash_of(end_key: str) -> str:
    """Returns the hash under which the key of an end is known beforehand."""
    import hashlib

    return hashlib.sha256(end_key.encode()).hexdigest()[:32]


def read_started(run_dir: Path) -> Started | None:
    """Returns the run's processes; None if nothing was started. Raises ValueError naming a file without a record."""
    return _read(run_dir / STARTED, started_in)


def started_in(document: object) -> Started:
    """Returns the record of a start, checked. Raises KeyError, TypeError, ValueError."""
    found = _object(document)
    return Started(
        supervisor=identity_in(found["supervisor"]),
        child=None if found["child"] is None else identity_in(found["child"]),
        started_at=_time(found, "started_at"),
        wall_s=_limit(found, "wall_s"),
        grace_s=_limit(found, "grace_s"),
        nonce=_word(found, "nonce"),
        spec_hash=_word(found, "spec_hash"),
        host_id=_word(found, "host_id"),
        host_name=_word(found, "host_name"),
        folder=typed(found, "folder", int) if found.get("folder") is not None else None,
        end_hash=_word(found, "end_hash"),
    )


def read_exit(run_dir: Path) -> ExitRecord | None:
    """Returns the exit record; None if there is none. Raises ValueError naming the file if it holds no such record."""
    return _read(run_dir / EXIT, _exit_record)


def _read(path: Path, build: Callable[[object], _Parsed]) -> _Parsed | None:
    import json

    try:
        raw = confined.read_bytes(path, limit=_LARGEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        if not isinstance(exc, confined.UnsafePath) and exc.errno not in _LASTING:
            raise
        raise ValueError(f"{path}: cannot be read: {exc.strerror}") from exc
    try:
        found: object = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"{path}: not a JSON document: {exc}") from exc
    try:
        return build(found)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as exc:
        raise ValueError(f"{path}: not a record of the supervisor: {shortened(repr(exc))}") from exc


def shortened(text: str, limit: int = 300) -> str:
    """Returns the text, cut where it is longer than a message may be."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def _object(document: object) -> Mapping[str, object]:
    """Returns the document, a JSON object. Raises TypeError."""
    if not isinstance(document, dict):
        raise TypeError(f"it is {type(document).__name__}, no object")
    return document


def typed(document: object, key: str, kind: type[_Kind]) -> _Kind:
    """Returns a value of an object that is of just this kind. Raises KeyError, TypeError."""
    value = _object(document)[key]
    if not isinstance(value, kind) or type(value) is not kind:
        raise TypeError(f"{key} is {value!r}")
    return value


def _limit(found: Mapping[str, object], key: str) -> float | None:
    value = found.get(key)  # an earlier version did not write it
    return None if value is None else seconds(found, key)


def seconds(document: object, key: str) -> float:
    """Returns a possible length of time. Raises KeyError, TypeError, ValueError, OverflowError."""
    found = _object(document)[key]
    value = float(typed(document, key, int)) if isinstance(found, int) else typed(document, key, float)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{key} is {value!r}")
    return value


def _word(found: Mapping[str, object], key: str) -> str | None:
    """Returns a short text that an earlier version did not write."""
    value = None if found.get(key) is None else typed(found, key, str)
    if value is not None and len(value) > 200:
        raise ValueError(f"{key} has {len(value)} characters")
    return value


def _time(found: Mapping[str, object], key: str) -> str:
    """Returns a moment in UTC. Raises KeyError, TypeError, ValueError."""
    value = typed(found, key, str)
    if len(value) > 40 or datetime.fromisoformat(value).utcoffset() != timedelta(0):
        raise ValueError(f"{key} is {shortened(repr(value))}, which is no time in UTC")
    if not 1970 <= datetime.fromisoformat(value).astimezone(UTC).year <= 2500:
        raise ValueError(f"{key} is {value!r}")
    return value


def _whole(found: Mapping[str, object], key: str) -> int:
    value = typed(found, key, int)
    if not -_LARGEST < value < _LARGEST:
        raise ValueError(f"{key} is beyond all numbers")
    return value


def _whole_or_none(found: Mapping[str, object], key: str) -> int | None:
    return None if found[key] is None else _whole(found, key)


def identity_in(found: object) -> Identity:
    """Returns the identity of a process in a record. Raises KeyError, TypeError, ValueError."""
    boot_id, pid, ticks = typed(found, "boot_id", str), typed(found, "pid", int), typed(found, "start_ticks", int)
    if len(boot_id) > 200 or not 0 < pid < 1 << 31 or not 0 <= ticks < _LARGEST:
        raise ValueError("it names no process")
    return Identity(boot_id, pid, ticks)


def _exit_record(document: object) -> ExitRecord:
    found = _object(document)
    word, detail = typed(found, "reason", str), None if found["detail"] is None else typed(found, "detail", str)
    reason = next((each for each in _REASONS if each == word), None)
    if reason is None:
        raise ValueError(f"reason is {word!r}")
    return ExitRecord(
        exit_code=_whole_or_none(found, "exit_code"),
        signal=_whole_or_none(found, "signal"),
        reason=reason,
        detail=detail if detail is None else shortened(detail, _LONGEST_DETAIL),
        started_at=_time(found, "started_at"),
        ended_at=_time(found, "ended_at"),
        duration_s=seconds(found, "duration_s"),
        max_rss_bytes=_whole(found, "max_rss_bytes"),
        cpu_s=seconds(found, "cpu_s"),
        nonce=_word(found, "nonce"),
        spec_hash=_word(found, "spec_hash"),
        end_key=_word(found, "end_key"),
    )
