"""Run directories: start a supervised command, see how it is, end it, wait for it.

For launchers and pollers (schedulers). The supervisor is `supervisor.py`; it alone writes `started.json` and
`exit.json`. A poller needs no connection to it and no daemon: files, the supervisor's lock and process
identities tell the state, in any process and after any crash.

A run ends with its command: what the command leaves behind is ended too. Not so a run that is started from inside a
run: it has a record and limits of its own, and goes on when the outer one ends or is ended.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from perpetual.toolkit import atomic, lock, platform
from perpetual.toolkit.nested import is_supervisor
from perpetual.toolkit.platform import Identity
from perpetual.toolkit.runrecords import (
    EXIT,
    STARTED,
    ExitRecord,
    Started,
    identity_in,
    read_exit,
    read_started,
    started_in,
    typed,
)
from perpetual.toolkit.steps import step

__all__ = [
    "ExitRecord",
    "LaunchFailed",
    "Observation",
    "Started",
    "cancel",
    "cancel_supervisor",
    "launch",
    "observe",
    "read_exit",
    "read_started",
    "wait",
]

State = Literal["absent", "running", "ended", "orphaned", "lost"]

SMALLEST_LOG_LIMIT_BYTES = 4096
_SHIM = Path(__file__).with_name("shim.py")
_LAUNCH, _CANCEL, _CANCEL_LOCK = "launch.json", "cancel.json", "cancel.lock"
_LOCK, _SUPERVISOR_LOG = "supervisor.lock", "supervisor.log"
_LOCK_PATIENCE_S = 1.0  # a probe of the lock by an observer lasts microseconds
_MARK = "PERPETUAL_METRICS={}/metrics.jsonl"  # what a lab gives to its runs: known from it wherever they have drifted
_TAKEN = ("supervised", "unreadable")  # what a supervisor says that finds the run in the hands of another
_UNSEEN_POLL_S = 0.25
_LAST_LOOKS = 5  # that find nothing more of an orphan, before it is said to be gone
_DEATH_PATIENCE_S = 5.0  # from KILL to the end; longer means stuck in the kernel, and it may stay so


class LaunchFailed(Exception):
    """The command was not started; `reason` says why, for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of a run directory at one moment.

    absent    no command was started here (`detail`: "launching" while a supervisor is about to)
    running   its supervisor lives (`detail`: where it was stopped by a signal)
    ended     `exit` is there
    orphaned  the supervisor died without a record, the command goes on; its exit code can no longer be known
    lost      neither lives and there is no record (`detail`: "reboot" where the machine was restarted since)

    `age_s` is how long a running or orphaned command has lasted, by a clock that nobody can set and that counts while
    the machine sleeps; None where that is unknown. `overdue` is an orphan that is past its wall limit: nobody will end
    it but a caller of `cancel`.
    """

    state: State
    started: Started | None = None
    exit: ExitRecord | None = None
    detail: str | None = None
    age_s: float | None = field(default=None, compare=False)
    overdue: bool = False


def launch(
    run_dir: Path,
    *,
    argv: Sequence[str],
    cwd: str | Path,
    env: Mapping[str, str],
    wall_s: float | None,
    grace_s: float,
    no_output_s: float | None = None,
    max_log_bytes: int | None = None,
    held: int | None = None,
    timeout_s: float = 20.0,
) -> Started:
    """Start `argv` under a supervisor of its own and return once it executes; the caller may die then.

    `run_dir` is created (0700) if missing. `env` is the whole environment. After `wall_s` seconds (None:
    never) the command gets TERM and `grace_s` later KILL, with all it started; so it does when it has written nothing
    for `no_output_s` seconds (None: never), neither to its logs nor to `metrics.jsonl` in `run_dir`. Each log is cut to
    `max_log_bytes` by dropping its middle. `held` is a descriptor that the supervisor keeps open until all of the run
    is gone, for the lock on it; the command does not get it. `timeout_s` bounds the wait for the supervisor's answer.
    A directory whose launcher died before a supervisor was at work is as good as unused. Should that launcher's
    supervisor turn up late, one of the two starts the command, and whichever did is the answer.
    Raises LaunchFailed if the command could not be started (then `exit.json` may be there: 127 for a missing
    program), FileExistsError if `run_dir` has had a run or another launcher is at work in it, ValueError for
    arguments that can never work.
    """
    spec = {
        "argv": _checked_argv(argv),
        "cwd": os.path.abspath(cwd),
        "env": _checked_env(env),
        "wall_s": None if wall_s is None else _checked_seconds("wall_s", wall_s),
        "grace_s": _checked_seconds("grace_s", grace_s),
        "no_output_s": None if no_output_s is None else _checked_seconds("no_output_s", no_output_s, above_zero=True),
        "max_log_bytes": _checked_limit(max_log_bytes),
    }
    unsupported = platform.supports_runs()
    if unsupported:
        raise LaunchFailed(unsupported)
    run_dir = Path(os.path.abspath(run_dir))
    _prepare(run_dir, spec)
    step("launch:spec")
    try:
        verdict, _, text = _start_supervisor(run_dir, timeout_s, held).partition(" ")
    except LaunchFailed:
        _abandon(run_dir, grace_s)
        raise
    answer = json.loads(text)
    if verdict == "started":
        return started_in(answer)
    started = read_started(run_dir) if answer["reason"] in _TAKEN else None
    if started is None:
        raise LaunchFailed(answer["detail"])
    return started


def observe(run_dir: Path) -> Observation:
    """The state now. Costs a few file reads. Raises ValueError naming an unreadable record; OSError."""
    record = read_exit(run_dir)
    if record is not None:
        return _ended(run_dir, record)
    launching = (run_dir / _LAUNCH).exists()  # looked for first: the record of the start is there before it goes
    started = read_started(run_dir)
    if started is None and launching:
        if lock.is_locked(run_dir / _LOCK):
            return Observation("absent", detail="launching")
        started = read_started(run_dir)  # there by now if a supervisor was at work meanwhile, and has ended
    if started is None:
        return Observation("absent")
    same_boot = started.supervisor.boot_id == platform.boot_id()
    # A lock that is held by somebody we cannot see is a supervisor in another pid namespace (a container).
    if same_boot and (platform.is_alive(started.supervisor) or lock.is_locked(run_dir / _LOCK)):
        return Observation("running", started, detail=_halt_of(started.supervisor), age_s=_age_s(started))
    # The record may have come between the first look at it and the supervisor's end; after the end it cannot.
    record = read_exit(run_dir)
    if record is not None:
        return _ended(run_dir, record)
    if not same_boot:
        return Observation("lost", started, detail="reboot")
    if started.child is not None and platform.is_alive(started.child):
        age_s = _age_s(started)
        overdue = age_s is not None and started.wall_s is not None and age_s > started.wall_s
        detail = "the supervisor died; the command goes on unrecorded"
        if overdue:
            detail += f", over its limit of {started.wall_s:g} s"
        return Observation("orphaned", started, detail=detail, age_s=age_s, overdue=overdue)
    return Observation("lost", started, detail="the supervisor died without an exit record")


def _halt_of(supervisor: Identity) -> str | None:
    if not platform.is_stopped(supervisor):
        return None
    return f"its supervisor was stopped, and keeps it to no limit: kill -CONT {supervisor.pid}"


def _ended(run_dir: Path, record: ExitRecord) -> Observation:
    """The record of the end decides, whatever has become of that of the start."""
    try:
        return Observation("ended", read_started(run_dir), record)
    except ValueError:
        return Observation("ended", None, record)


def cancel(run_dir: Path, *, by: str, grace_s: float) -> bool:
    """End the run: TERM, and KILL after `grace_s`, for all its processes; False if none is there.

    A running supervisor does it, and the call returns at once. For an orphaned run the call does it itself,
    and returns when the command is gone. A second call can only shorten the grace. Raises ValueError as
    `observe`.
    """
    _checked_seconds("grace_s", grace_s)
    seen = observe(run_dir)
    if seen.started is None or seen.state not in ("running", "orphaned"):
        return False
    with contextlib.suppress(OSError):  # removed just now, or the disk is full: then with the grace of the start
        _write_cancellation(run_dir, by, grace_s)
    if seen.state == "running":
        if cancel_supervisor(seen.started.supervisor):
            return True
        seen = observe(run_dir)  # it has died since, and may have left its command behind
    if seen.state != "orphaned" or seen.started is None or seen.started.child is None:
        return False
    return _end_orphan(run_dir, seen.started.child, grace_s)


def cancel_supervisor(supervisor: Identity) -> bool:
    """Have a supervisor end its run, with the grace of `cancel.json` or of the start; False if it is gone."""
    if not platform.signal_process(supervisor, signal.SIGTERM):
        return False
    platform.signal_process(supervisor, signal.SIGCONT)  # if somebody stopped it, it would not hear
    return True


def wait(run_dir: Path, timeout_s: float) -> Observation:
    """Wait until the run is neither running nor orphaned, at most `timeout_s`; the last observation.

    A directory without a run answers at once. Raises ValueError as `observe`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        seen = observe(run_dir)
        left_s = deadline - time.monotonic()
        if seen.started is None or seen.state not in ("running", "orphaned") or left_s <= 0:
            return seen
        whom = seen.started.supervisor if seen.state == "running" else seen.started.child
        if whom is not None and platform.is_alive(whom):
            platform.wait_gone(whom, left_s)
        else:
            time.sleep(min(_UNSEEN_POLL_S, left_s))  # its supervisor cannot be seen from here: nothing to sleep on


def _prepare(run_dir: Path, spec: dict[str, Any]) -> None:
    """Put `launch.json` into an unused run directory, or raise FileExistsError.

    A `launch.json` that its launcher left behind is replaced: under the lock no supervisor is reading it, and each
    supervisor removes the one that it starts from, so however many are on their way, one of them starts one command.
    """
    me = platform.identity_of(os.getpid())
    spec = {**spec, "launcher": me and me._asdict()}
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_used(run_dir)
    guard = lock.FileLock(run_dir / _LOCK)
    if not guard.acquire(timeout_s=_LOCK_PATIENCE_S):
        raise FileExistsError(f"{run_dir}: a supervisor is at work here")
    try:
        _refuse_used(run_dir)
        # ASCII, so that bytes in the environment that are not UTF-8 (lone surrogates here) survive.
        atomic.write_atomic(run_dir / _LAUNCH, json.dumps(spec, allow_nan=False))
    finally:
        guard.release()


def _refuse_used(run_dir: Path) -> None:
    for name in (STARTED, EXIT):
        if (run_dir / name).exists():
            raise FileExistsError(f"{run_dir / name}: this directory has had its run")
    if (run_dir / _LAUNCH).exists() and not _is_left_behind(run_dir / _LAUNCH):
        raise FileExistsError(f"{run_dir / _LAUNCH}: a launcher is at work here")


def _is_left_behind(launch: Path) -> bool:
    """Whether the launcher that wrote `launch` is known to be dead."""
    try:
        found = atomic.read_json(launch)
        return found is None or not platform.is_alive(identity_in(found["launcher"]))
    except (ValueError, KeyError, TypeError):
        return False  # not ours, or unreadable: nothing is known of its launcher


def _start_supervisor(run_dir: Path, timeout_s: float, held: int | None) -> str:
    """The supervisor's answer, one line. Raises LaunchFailed if none comes."""
    deadline = time.monotonic() + timeout_s
    # Without `site` the start is twice as fast; on macOS psutil must be found.
    isolation = ["-I"] if sys.platform == "darwin" else ["-I", "-S"]
    log = os.open(run_dir / _SUPERVISOR_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, *isolation, str(_SHIM), str(run_dir)],
            stdin=subprocess.DEVNULL if held is None else held,  # from the fork on, whatever becomes of this process
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    except OSError as exc:
        raise LaunchFailed(f"cannot start {sys.executable!r}: {exc}") from exc
    finally:
        os.close(log)
    step("launch:forked")
    assert process.stdout is not None
    try:
        line = _read_line(process.stdout.fileno(), deadline)
    finally:
        process.stdout.close()
        # This is only the first of the two forks. It has left already, or never got so far and must not now.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.wait()
    if line is None:
        raise LaunchFailed(f"the supervisor did not answer within {timeout_s:g} s")
    if not line:
        _outlast_supervisor(run_dir)
        raise LaunchFailed(f"the supervisor died at its start: {_tail(run_dir / _SUPERVISOR_LOG)}")
    return line


def _outlast_supervisor(run_dir: Path) -> None:
    """Wait until a supervisor that is known to die is dead: before, it would be asked to end what it has started."""
    with contextlib.suppress(ValueError):  # who then calls the launch off comes upon it, and says so
        started = read_started(run_dir)
        if started is not None:
            platform.wait_gone(started.supervisor, _DEATH_PATIENCE_S)  # its pipe closes a little sooner


def _read_line(descriptor: int, deadline: float) -> str | None:
    """The line from the pipe, "" if it closes before a line end, None if the deadline passes."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    received = b""
    while not received.endswith(b"\n"):
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000.0):
            return None
        chunk = os.read(descriptor, 4096)
        if not chunk:
            return ""
        received += chunk
    return received.decode("utf-8").strip()


def _abandon(run_dir: Path, grace_s: float) -> None:
    """After a launch without an answer: make sure that nothing of it runs or will run.

    The supervisor records the start, then looks for a cancellation; we do the opposite, so one sees the
    other.
    """
    _write_cancellation(run_dir, "the launcher, which got no answer", grace_s)
    with contextlib.suppress(FileNotFoundError):
        (run_dir / _LAUNCH).unlink()
    cancel(run_dir, by="the launcher, which got no answer", grace_s=grace_s)


def _write_cancellation(run_dir: Path, by: str, grace_s: float) -> None:
    """Leave word for the supervisor, which may come to read it after several callers: the shortest grace is there."""
    guard = lock.FileLock(run_dir / _CANCEL_LOCK)
    is_mine = guard.acquire(timeout_s=_LOCK_PATIENCE_S)  # held for a moment; else to be late is worse than a mix-up
    try:
        earlier = _earlier_cancellation(run_dir)
        if earlier is not None and earlier[1] <= grace_s:
            return
        first_by = by if earlier is None else earlier[0]
        atomic.write_atomic(run_dir / _CANCEL, atomic.dump_json({"by": first_by, "grace_s": grace_s}) + "\n")
    finally:
        if is_mine:
            guard.release()


def _earlier_cancellation(run_dir: Path) -> tuple[str, float] | None:
    """Who has cancelled already, and with which grace; None for nobody, and for what cannot be read."""
    try:
        found = atomic.read_json(run_dir / _CANCEL)
        return None if found is None else (typed(found, "by", str), float(typed(found, "grace_s", float, int)))
    except (ValueError, KeyError, TypeError):
        return None  # ours replaces it


def _end_orphan(run_dir: Path, child: Identity, grace_s: float) -> bool:
    """TERM, grace, KILL for an orphaned command, what is below it, and what has left its tree; False if it was gone."""
    below = [platform.identity_of(pid) for pid in platform.descendants(child.pid, leave_out=is_supervisor)]
    marked = [*_marked(run_dir)]
    if not platform.signal_process(child, signal.SIGTERM):
        return False
    # The child lived after its descendants were listed, so the list is of its own.
    tree = [child, *(each for each in below if each is not None)]
    tree += [each for each in marked if each not in tree]
    platform.signal_each(tree[1:], signal.SIGTERM)
    platform.signal_each(tree, signal.SIGCONT)  # a stopped process does not hear TERM
    deadline = time.monotonic() + grace_s
    stubborn = [each for each in tree if not platform.wait_gone(each, max(0.0, deadline - time.monotonic()))]
    for each in stubborn:
        platform.signal_descendants(each.pid, signal.SIGKILL, leave_out=is_supervisor)
    platform.signal_each(stubborn, signal.SIGKILL)
    for each in stubborn:
        platform.wait_gone(each, _DEATH_PATIENCE_S)
    deadline = time.monotonic() + _DEATH_PATIENCE_S
    looks = 0  # who forks and leaves can be missed by one of them
    while looks < _LAST_LOOKS and time.monotonic() < deadline:
        late = []  # started meanwhile, by one that was being ended
        for each in _marked(run_dir):
            platform.signal_each([each], signal.SIGKILL)  # at once: in a moment it may be another
            late.append(each)
        looks = 0 if late else looks + 1
        for each in late:
            platform.wait_gone(each, max(0.0, deadline - time.monotonic()))
    return True


def _marked(run_dir: Path) -> Iterator[Identity]:
    """The living processes whose environment names this run, as far as we may ask; no supervisors of nested runs.

    Without a supervisor that adopts it, a process whose parent has ended hangs under process 1 and is found in no tree.
    """
    mark = os.fsencode(_MARK.format(os.path.abspath(run_dir)))
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    waiting = sorted((int(name) for name in names if name.isdigit()), reverse=True)  # the newest are soonest gone
    blank: set[int] = set()
    for pid in waiting:
        variables = _variables_of(pid)
        if variables == [b""] and pid not in blank:  # as of one that is just executing a program: once more, at the end
            blank.add(pid)
            waiting.append(pid)
        if mark not in variables or pid == os.getpid():
            continue
        identity = platform.identity_of(pid)
        # Asked once more: its number was not given to another before it was identified.
        if identity is not None and mark in _variables_of(pid) and not is_supervisor(pid):
            yield identity


def _variables_of(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # gone, or another user's
        return []


def _age_s(started: Started) -> float | None:
    return None if started.child is None else platform.age_s(started.child)


def _tail(path: Path) -> str:
    text = path.read_text("utf-8", "replace").strip()
    return text[-1000:] or "it left no message"


def _checked_argv(argv: Sequence[str]) -> list[str]:
    if isinstance(argv, str) or not argv or any("\0" in each for each in argv):
        raise ValueError(f"argv must be a list of one or more strings without NUL, not {argv!r}")
    return list(argv)


def _checked_env(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            # The value stays out of the message: it may be a secret.
            raise ValueError(f"environment variable {name!r} cannot be passed on")
    return dict(env)


def _checked_seconds(name: str, value: float, *, above_zero: bool = False) -> float:
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        least = "above 0" if above_zero else "0 or more"
        raise ValueError(f"{name} must be a number of seconds, {least}, not {value!r}")
    return float(value)


def _checked_limit(max_log_bytes: int | None) -> int | None:
    if max_log_bytes is not None and max_log_bytes < SMALLEST_LOG_LIMIT_BYTES:
        raise ValueError(f"max_log_bytes must be {SMALLEST_LOG_LIMIT_BYTES} or more, not {max_log_bytes}")
    return max_log_bytes
