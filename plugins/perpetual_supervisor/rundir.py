"""Run directories: start a supervised command, see how it is, end it, wait for it.

For launchers and pollers (schedulers). The supervisor is `supervisor.py`, whose word `started.json` and `exit.json`
are. A poller needs no connection to it and no daemon: files, the supervisor's lock and process identities tell the
state, in any process and after any crash. The command can write what it likes into the folder, so that nothing is
taken for an end while its supervisor lives; and a folder may be a copy, so that no process is signalled that is not
proven to be of this one (`processes.py`).

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
from typing import Literal

from perpetual.toolkit import atomic, confined, lock, platform
from perpetual.toolkit.agents import DISPATCH
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.platform import Identity
from perpetual.toolkit.run_folder import LOCK as _LOCK
from perpetual.toolkit.run_folder import STARTED, is_locked, supervisor_here
from perpetual_supervisor import process_tree
from perpetual_supervisor.nested_runs import is_supervisor
from perpetual_supervisor.processes import command_of, marked, supervision_of
from perpetual_supervisor.records import (
    EXIT,
    ExitRecord,
    LaunchDocument,
    MoverDocument,
    Started,
    hash_of,
    identity_in,
    read_exit,
    read_started,
    seconds,
    started_in,
    typed,
)

__all__ = [
    "ExitRecord",
    "LaunchFailed",
    "MoverDocument",
    "Observation",
    "Started",
    "cancel",
    "cancel_supervisor",
    "end_leftovers",
    "launch",
    "observe",
    "processes_of",
    "read_exit",
    "read_started",
    "wait",
]

State = Literal["absent", "running", "ended", "orphaned", "lost"]

SMALLEST_LOG_LIMIT_BYTES = 4096
SHIM = Path(__file__).with_name("shim.py")  # the program of a supervisor; tests put another in its place
_LAUNCH, _CANCEL, _CANCEL_LOCK = "launch.json", "cancel.json", "cancel.lock"
_SUPERVISOR_LOG = "supervisor.log"
_LOCK_PATIENCE_S = 1.0  # a probe of the lock by an observer lasts microseconds
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

    `elsewhere` is set of a running one that is not this folder's to end: it runs on another machine, or works for the
    folder of which this one is a copy. `left` are the processes that a lost run has left behind, by their numbers.
    `age_s` is how long a running or orphaned command has lasted, by a clock that cannot be set and that counts while
    the machine sleeps; None where that is unknown. `overdue` is an orphan that is past its wall limit: only `cancel`
    ends it.
    """

    state: State
    started: Started | None = None
    exit: ExitRecord | None = None
    detail: str | None = None
    age_s: float | None = field(default=None, compare=False)
    overdue: bool = False
    elsewhere: str | None = None
    left: tuple[int, ...] = field(default=(), compare=False)


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
    nonce: str | None = None,
    spec_hash: str | None = None,
    mover: MoverDocument | None = None,
) -> Started:
    """Starts `argv` under a supervisor of its own and returns once it executes; the caller may die then.

    `run_dir` is created (0700) if missing. `env` is the whole environment. After `wall_s` seconds (None:
    never) the command gets TERM and `grace_s` later KILL, with all it started; so it does when it has written nothing
    for `no_output_s` seconds (None: never), neither to its logs nor to `metrics.jsonl` in `run_dir`. Each log is cut to
    `max_log_bytes` by dropping its middle. `held` is a descriptor that the supervisor keeps open until all of the run
    is gone, for the lock on it; the command does not get it. `timeout_s` bounds the wait for the supervisor's answer.
    `nonce` and `spec_hash` are in both records of the run: by them it is known whose these are.
    A directory whose launcher died before a supervisor was at work is as good as unused. Should that launcher's
    supervisor turn up late, one of the two starts the command, and whichever did is the answer.
    `mover` is started when the run is over, if none is at work then (`mover.py`); its folder must exist.
    What a supervisor that dies before its answer has started is ended, and named in the reason.
    Raises LaunchFailed if the command could not be started (then `exit.json` may be there: 127 for a missing
    program), FileExistsError if `run_dir` has had a run or another launcher is at work in it, ValueError for
    arguments that can never work.
    """
    spec: LaunchDocument = {
        "argv": _checked_argv(argv),
        "cwd": os.path.abspath(cwd),
        "env": _checked_env(env),
        "wall_s": None if wall_s is None else _checked_seconds("wall_s", wall_s),
        "grace_s": _checked_seconds("grace_s", grace_s),
        "no_output_s": None if no_output_s is None else _checked_seconds("no_output_s", no_output_s, above_zero=True),
        "max_log_bytes": _checked_limit(max_log_bytes),
        "nonce": nonce,
        "spec_hash": spec_hash,
        "end_key": (end_key := os.urandom(16).hex()),
        "end_hash": hash_of(end_key),
        "mover": mover,
    }
    unsupported = platform.supports_runs()
    if unsupported:
        raise LaunchFailed(unsupported)
    run_dir = Path(os.path.abspath(run_dir))
    _prepare(run_dir, spec)
    step("launch:spec")
    try:
        verdict, _, text = _start_supervisor(run_dir, timeout_s, held).partition(" ")
    except LaunchFailed as problem:
        ended = _abandon(run_dir, nonce, grace_s)
        if not ended:
            raise
        pids = ", ".join(map(str, ended))
        raise LaunchFailed(f"{problem.reason}; processes that it had started were ended: {pids}") from problem
    answer = json.loads(text)
    if verdict == "started":
        return started_in(answer)
    if answer["reason"] not in _TAKEN:
        _outlast_supervisor(run_dir)  # its record of the failure counts once it is gone
    started = read_started(run_dir) if answer["reason"] in _TAKEN else None
    if started is None:
        raise LaunchFailed(answer["detail"])
    return started


def observe(run_dir: Path) -> Observation:
    """Returns the state now. Costs a few file reads. Raises ValueError naming an unreadable record; OSError."""
    launching = os.path.lexists(run_dir / _LAUNCH)  # looked for first: the record of the start is there before it goes
    started, unreadable = _started(run_dir)
    if started is None and unreadable is None and launching:
        if is_locked(run_dir):
            return Observation("absent", detail="launching")
        started, unreadable = _started(run_dir)  # there by now if a supervisor was at work meanwhile, and has ended
    if started is not None:
        seen = _alive(run_dir, started)
        if seen is not None:
            return seen
    elif is_locked(run_dir):  # at work, and the command has spoilt or removed the record of the start
        if unreadable is not None:
            raise unreadable
        return Observation("absent", detail="launching")
    # Only now: a record that is found while the supervisor lives may be the command's, and after its end none comes.
    record = read_exit(run_dir)
    if record is not None and (started is None or command_of(run_dir, started) is None):
        return Observation("ended", started, record)
    if unreadable is not None:
        raise unreadable
    if started is None:
        return Observation("absent")
    return _unrecorded(run_dir, started)


def _started(run_dir: Path) -> tuple[Started | None, ValueError | None]:
    """Returns the record of the start, and what is wrong with it."""
    try:
        return read_started(run_dir), None
    except ValueError as problem:
        return None, problem


def _alive(run_dir: Path, started: Started) -> Observation | None:
    """Returns the state of a run whose supervisor lives, or cannot be known not to; None if it is gone."""
    found = supervision_of(run_dir, started)
    if found is None:
        return None
    if found.elsewhere is not None:
        return Observation("running", started, detail=found.elsewhere, elsewhere=found.elsewhere)
    return Observation("running", started, detail=_halt_of(started.supervisor), age_s=_age_s(started))


def _unrecorded(run_dir: Path, started: Started) -> Observation:
    """Returns the state of a run whose supervisor is gone and has left no record."""
    if command_of(run_dir, started) is not None:
        age_s = _age_s(started)
        overdue = age_s is not None and started.wall_s is not None and age_s > started.wall_s
        detail = "the supervisor died; the command goes on unrecorded"
        if overdue:
            detail += f", over its limit of {started.wall_s:g} s"
        return Observation("orphaned", started, detail=detail, age_s=age_s, overdue=overdue)
    is_reboot = started.supervisor.boot_id != platform.boot_id()
    detail = "reboot" if is_reboot else "the supervisor died without an exit record"
    left = tuple(sorted(each.pid for each in processes_of(run_dir, started.nonce)))
    return Observation("lost", started, detail=detail, left=left)


def _halt_of(supervisor: Identity) -> str | None:
    if not platform.is_stopped(supervisor):
        return None
    return f"its supervisor was stopped, and keeps it to no limit: kill -CONT {supervisor.pid}"


def cancel(run_dir: Path, *, by: str, grace_s: float) -> bool:
    """Ends the run: TERM, and KILL after `grace_s`, for all its processes; False if none is there.

    A running supervisor does it, and the call returns at once. For an orphaned run the call does it itself,
    and returns when the command is gone. A second call can only shorten the grace. What runs elsewhere is left alone.
    Raises ValueError as `observe`.
    """
    _checked_seconds("grace_s", grace_s)
    seen = observe(run_dir)
    if seen.started is None or seen.state not in ("running", "orphaned") or seen.elsewhere is not None:
        return False
    with contextlib.suppress(OSError):  # removed just now, or the disk is full: then with the grace of the start
        _write_cancellation(run_dir, by, grace_s)
    if seen.state == "running":
        if cancel_supervisor(seen.started.supervisor, run_dir):
            return True
        seen = observe(run_dir)  # it has died since, and may have left its command behind
    if seen.state != "orphaned" or seen.started is None:
        return False
    child = command_of(run_dir, seen.started)
    return child is not None and _end_orphan(run_dir, child, seen.started.nonce, grace_s)


def cancel_supervisor(supervisor: Identity, run_dir: Path) -> bool:
    """Lets the supervisor of this folder end its run, with the grace of `cancel.json` or of the start.

    False if it is gone, or is not proven to be of this folder.
    """
    found = supervisor_here(supervisor, run_dir)
    if found is None or not platform.signal_process(found, signal.SIGTERM):
        return False
    platform.signal_process(found, signal.SIGCONT)  # if another process stopped it, it would not hear
    return True


def end_leftovers(run_dir: Path, *, grace_s: float) -> bool:
    """Ends the processes that a lost run has left: TERM, and KILL after `grace_s`; False if there was none.

    Returns when it is gone. Raises ValueError as `observe`.
    """
    _checked_seconds("grace_s", grace_s)
    seen = observe(run_dir)
    if seen.state != "lost" or seen.started is None or not seen.left:
        return False
    _end_all([*processes_of(run_dir, seen.started.nonce)], run_dir, seen.started.nonce, grace_s)
    return True


def wait(run_dir: Path, timeout_s: float) -> Observation:
    """Waits until the run is neither running nor orphaned, at most `timeout_s`; returns the last observation.

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


def _prepare(run_dir: Path, spec: LaunchDocument) -> None:
    """Puts `launch.json` into an unused run directory, or raises FileExistsError.

    A `launch.json` that its launcher left behind is replaced: under the lock no supervisor is reading it, and each
    supervisor removes the one that it starts from, so however many are on their way, one of them starts one command.
    """
    me, host = platform.identity_of(os.getpid()), this_host()
    spec = {**spec, "launcher": me and me._asdict(), "host_id": host.id, "host_name": host.name}
    confined.make_folder(run_dir)
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
        if os.path.lexists(run_dir / name):
            raise FileExistsError(f"{run_dir / name}: this directory has had its run")
    if os.path.lexists(run_dir / _LAUNCH) and not _is_left_behind(run_dir / _LAUNCH):
        raise FileExistsError(f"{run_dir / _LAUNCH}: a launcher is at work here")


def _is_left_behind(launch: Path) -> bool:
    """Returns whether the launcher that wrote `launch` is known to be dead."""
    try:
        found = atomic.read_json(launch)
        return found is None or not platform.is_alive(identity_in(found["launcher"]))
    except (ValueError, KeyError, TypeError, confined.UnsafePath):
        return False  # not ours, or unreadable: nothing is known of its launcher


def _start_supervisor(run_dir: Path, timeout_s: float, held: int | None) -> str:
    """Starts the supervisor and returns its answer, one line. Raises LaunchFailed if none comes."""
    deadline = time.monotonic() + timeout_s
    # Without `site` the start is twice as fast; on macOS psutil must be found.
    isolation = ["-I"] if sys.platform == "darwin" else ["-I", "-S"]
    log = confined.open_file(run_dir / _SUPERVISOR_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.set_blocking(log, True)
    try:
        process = subprocess.Popen(
            [sys.executable, *isolation, str(SHIM), str(run_dir)],
            stdin=subprocess.DEVNULL if held is None else held,  # from the fork on, whatever becomes of this process
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            close_fds=True,
            # Of a harness that the lab drives everything with its mark is ended after the turn; runs go on.
            env={name: value for name, value in os.environ.items() if name != DISPATCH},
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
    """Waits for the death of a supervisor that is known to die: before it, a cancellation would still go to it."""
    with contextlib.suppress(ValueError):  # a caller that then cancels the launch finds it, and says so
        started = read_started(run_dir)
        if started is not None:
            platform.wait_gone(started.supervisor, _DEATH_PATIENCE_S)  # its pipe closes a little sooner


def _read_line(descriptor: int, deadline: float) -> str | None:
    """Returns the line from the pipe, "" if it closes before a line end, None if the deadline passes."""
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


def _abandon(run_dir: Path, nonce: str | None, grace_s: float) -> list[int]:
    """Ends what a launch without an answer has started, and what it might yet start; returns the ended processes.

    The supervisor records the start, then looks for a cancellation; we do the opposite, so one sees the
    other. A supervisor that is dead may have left the command, or what that one started before it ended.
    """
    _write_cancellation(run_dir, "the launcher, which got no answer", grace_s)
    with contextlib.suppress(FileNotFoundError):
        (run_dir / _LAUNCH).unlink()
    left = [] if nonce is None or is_locked(run_dir) else [*processes_of(run_dir, nonce)]
    with contextlib.suppress(ValueError):  # the command has spoilt the record of the start
        cancel(run_dir, by="the launcher, which got no answer", grace_s=grace_s)
    alive = [each for each in left if platform.is_alive(each)]
    if alive:
        _end_all(alive, run_dir, nonce, grace_s)
    return sorted(each.pid for each in left)


def processes_of(run_dir: Path, nonce: str | None) -> Iterator[Identity]:
    """Yields the living processes that are proven to be this run's (`processes.marked`), and none of a nested run."""
    return marked(run_dir, nonce, leave_out=is_supervisor)


def _write_cancellation(run_dir: Path, by: str, grace_s: float) -> None:
    """Writes the cancellation for the supervisor, which may read it after several callers: the shortest grace wins."""
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
    """Returns the earlier canceller and its grace; None if there is none, or the record cannot be read."""
    try:
        found = atomic.read_json(run_dir / _CANCEL)
        return None if found is None else (typed(found, "by", str), seconds(found, "grace_s"))
    except (ValueError, KeyError, TypeError, ArithmeticError, confined.UnsafePath):
        return None  # ours replaces it


def _end_orphan(run_dir: Path, child: Identity, nonce: str | None, grace_s: float) -> bool:
    """Ends an orphaned command by TERM, grace, KILL, with its tree and what has left it; False if it was gone."""
    below = [platform.identity_of(pid) for pid in process_tree.descendants(child.pid, leave_out=is_supervisor)]
    strays = [*processes_of(run_dir, nonce)]
    if not platform.signal_process(child, signal.SIGTERM):
        return False
    # The child lived after its descendants were listed, so the list is of its own.
    tree = _once([child, *below, *strays])
    process_tree.signal_each(tree[1:], signal.SIGTERM)
    _outlast(tree, run_dir, nonce, grace_s)
    return True


def _once(found: list[Identity | None]) -> list[Identity]:
    """Returns each process once: a program may take a second TERM for less patience."""
    return [each for each in dict.fromkeys(found) if each is not None]


def _end_all(processes: list[Identity], run_dir: Path, nonce: str | None, grace_s: float) -> None:
    """Ends processes and all below them: TERM, grace, KILL."""
    below = [
        platform.identity_of(pid)
        for each in processes
        for pid in process_tree.descendants(each.pid, leave_out=is_supervisor)
    ]
    tree = _once([*processes, *below])
    process_tree.signal_each(tree, signal.SIGTERM)
    _outlast(tree, run_dir, nonce, grace_s)


def _outlast(tree: list[Identity], run_dir: Path, nonce: str | None, grace_s: float) -> None:
    """Waits until processes that were asked to end are gone; kills those that are not after the grace."""
    process_tree.signal_each(tree, signal.SIGCONT)  # a stopped process does not hear TERM
    deadline = time.monotonic() + grace_s
    stubborn = [each for each in tree if not platform.wait_gone(each, max(0.0, deadline - time.monotonic()))]
    for each in stubborn:
        process_tree.signal_descendants(each.pid, signal.SIGKILL, leave_out=is_supervisor)
    process_tree.signal_each(stubborn, signal.SIGKILL)
    for each in stubborn:
        platform.wait_gone(each, _DEATH_PATIENCE_S)
    deadline = time.monotonic() + _DEATH_PATIENCE_S
    looks = 0  # a process that forks and leaves can be missed by one of them
    while looks < _LAST_LOOKS and time.monotonic() < deadline:
        late = []  # started meanwhile, by one that was being ended
        for each in processes_of(run_dir, nonce):
            process_tree.signal_each([each], signal.SIGKILL)  # at once: in a moment it may be another
            late.append(each)
        looks = 0 if late else looks + 1
        for each in late:
            platform.wait_gone(each, max(0.0, deadline - time.monotonic()))


def _age_s(started: Started) -> float | None:
    return None if started.child is None else platform.age_s(started.child)


def _tail(path: Path) -> str:
    try:
        text = atomic.read_file(path).decode("utf-8", "replace").strip()
    except (OSError, ValueError) as exc:
        return f"its log cannot be read: {exc}"
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
