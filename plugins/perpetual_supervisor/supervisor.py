"""The supervisor of one run: it starts the command, outlives the launcher and records the end.

`shim.py` is the program and calls `main`. Each import here is paid by every launch: only light parts of the standard
library, and modules of the toolkit that keep to the same. And nothing is imported later: in the weeks that a run may
last, the installation can be replaced or removed.

In the run's directory it reads `launch.json` (removed once the child is recorded: it may hold secrets) and
`cancel.json`; it writes `started.json`, `stdout.log`, `stderr.log`, `exit.json`, and complaints to stderr, which is
`supervisor.log`. It holds an flock on `supervisor.lock` for life, and keeps its standard input open as long, which may
be a locked file of the launcher's. The launcher reads one line from its stdout: `started` with the content of
`started.json`, which the command may have removed by then, or `error {"reason": ..., "detail": ...}`. The record of the
end holds a key that the command cannot know: it is in `launch.json` and in this process alone until then, and
`started.json` has its hash.

Order of a start: fork, record the child durably, look for a cancellation, only then let the child execute. So
no command ever runs unrecorded, and a cancellation written before the start is honoured.
Order of an end: the main child is reaped, what it left behind is ended, logs are cut to size, the record is written;
then, where the launcher asked for it, a process is started that moves the queue on (`mover.py`). A run that was started
from inside this one is not of it: its supervisor and all below are left alone.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time

from perpetual.toolkit import atomic, confined, platform
from perpetual_supervisor import plainjson, process_tree
from perpetual_supervisor.log_capture import LOGS, Captured
from perpetual_supervisor.mover import Mover
from perpetual_supervisor.nested_runs import is_supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import NoReturn, TypeGuard

    from perpetual_supervisor.records import BoundDocument, ExitDocument, LaunchDocument
else:
    try:
        import _signal as signal  # without the enums that `signal` makes of it, for 6 ms of each launch's CPU
    except ImportError:  # no CPython
        import signal

EXEC_FAILED_CODE = 127  # what a shell answers for a command that cannot be run
LOCK_PATIENCE_S = 2.0  # a probe by an observer may hold the lock for a moment
SETTLE_S = 0.2  # helpers that leave by themselves when the command ends are given this long
KILL_PATIENCE_S = 30.0  # for processes that survive KILL: stuck in the kernel, or another user's
TICK_S = 1.0
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)  # what clusters send ahead of a preemption: the command gets them too
HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, *WARNINGS)
LONGEST_GRACE_S = 10 * 365 * 86400.0  # as `units.LONGEST_S`: `select` overflows somewhere beyond
LONGEST_NAME = 200  # characters of the canceller's name
RECORD_RETRY_WAITS_S = (0.1, 0.5, 2.0, 5.0, 10.0, 20.0)
RECORD_RETRY_AT_LAST_S = 30.0
# Ignored signals stay ignored across exec, so whatever the launcher's world ignored is undone for the child.
RESET_SIGNALS = "SIGHUP SIGINT SIGQUIT SIGTERM SIGPIPE SIGCHLD SIGXFSZ SIGUSR1 SIGUSR2"


class StartError(Exception):
    """The command was not started. Its arguments: a reason for programs, and a detail for people."""


def main(run_dir: str) -> int:
    """Supervises the run of this directory, in a process and a session of its own; returns the exit status."""
    # Relative names from here on: the record still finds its place when a folder above is renamed.
    os.chdir(run_dir)
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, most if most > 0 else 65536)
    null = os.open(os.devnull, os.O_RDWR)
    # A file that the launcher holds locked comes as standard input: its lock lives on in this copy, until this process
    # ends. Python makes copies close-on-exec, so the command does not get it.
    os.dup(0)
    os.dup2(null, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hold_lock("supervisor.lock")
        spec = read_spec("launch.json")
        run = Run(spec)
        run.start()
    except (StartError, confined.UnsafePath) as exc:
        reason, detail = exc.args if isinstance(exc, StartError) else ("unsafe", str(exc))
        answer("error " + plainjson.dump({"reason": reason, "detail": detail}), null)
        return 1
    answer(f"started {run.started}", null)
    run.supervise()
    is_recorded = record_exit(run.exit_record())
    if run.mover is not None:
        run.mover.start(run.me, complain)
    return 0 if is_recorded else 1


def hold_lock(path: str) -> None:
    """Takes the supervisor's lock until this process dies. Raises StartError if another has it."""
    import fcntl

    descriptor = confined.open_file(path, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StartError("supervised", "another supervisor holds this run directory") from None
            time.sleep(0.01)  # an observer's probe is over in a moment, and flock has no time limit to wait with


def read_spec(path: str) -> LaunchDocument:
    """Reads what to run. Raises StartError if it is missing or unreadable."""
    try:
        spec = plainjson.read(path)
    except (OSError, ValueError) as exc:
        raise StartError("unreadable", f"cannot read what to run: {path}: {exc}") from exc
    if not _is_launch(spec):
        raise StartError("unreadable", f"{path}: there is nothing to run")
    return spec


def _is_launch(found: object) -> TypeGuard[LaunchDocument]:
    """Returns whether it is a launcher's document: only a launcher writes one there, and it has checked the values."""
    return isinstance(found, dict)


def mover_of(spec: LaunchDocument) -> Mover | None:
    """Returns what moves the queue on when the run is over, if the launcher asked for it; else the run does without."""
    try:
        document = spec.get("mover")
        return None if document is None else Mover(document)
    except OSError as problem:
        complain(f"nothing will move the queue on when the run is over: {problem}")
        return None


def answer(line: str, null: int) -> None:
    """Answers the launcher, then lets go of its pipe."""
    try:
        os.write(1, line.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        # The launcher died. The start is on record and the run goes on: that is what a supervisor is for.
        complain("the launcher was gone before it had its answer")
    os.dup2(null, 1)


def complain(text: str) -> None:
    """Writes a line to `supervisor.log`; nothing where that cannot be written either, for the run must go on."""
    try:
        os.write(2, f"{iso_now()} {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


def iso_now() -> str:
    """Returns the time now in UTC, with milliseconds (ISO 8601, suffix Z)."""
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


class Run:
    """One command from fork to exit record. Single-threaded; signals only set a flag and wake the loop."""

    def __init__(self, spec: LaunchDocument) -> None:
        import resource  # noqa: F401 - os.wait4 would import it when the command has ended

        self.spec = spec
        # To which run both records belong; a launcher of an earlier version gave no such words.
        self.bound: BoundDocument = {"nonce": spec.get("nonce"), "spec_hash": spec.get("spec_hash")}
        self.child = 0
        self.status: int | None = None  # the wait status of the main child
        self.reason: str | None = None  # why we ended it, if we did
        self.detail: str | None = None
        self.started_at = ""
        self.started = ""  # the record of the start
        self.started_s = 0.0  # monotonic, like every *_at below
        self.wall_at: float | None = None
        self.settle_at: float | None = None  # set once the command ended and others live
        self.kill_at: float | None = None  # set once TERM was sent
        self.give_up_at: float | None = None  # set once KILL was sent
        self.cancel_requested = False
        self.warnings: list[int] = []  # signals to pass on
        self.silence_s = spec.get("no_output_s")
        self.silent_at: float | None = None  # when it will have written nothing for so long
        self.cpu_s = 0.0
        self.max_rss_bytes = 0
        self.me = platform.identity_of(os.getpid())
        self.mover: Mover | None = None
        self.subreaper = process_tree.set_subreaper()
        self.oom_kills = process_tree.oom_kills()  # before the run
        self.wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for signum in HANDLED:
            signal.signal(signum, self._on_signal)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if signum in WARNINGS:
            self.warnings.append(signum)
        elif signum != signal.SIGCHLD:
            self.cancel_requested = True

    def start(self) -> None:
        """Forks, records, releases. Raises StartError; then nothing of the command runs or has run."""
        self.mover = mover_of(self.spec)
        try:
            self.output = Captured(self.spec["max_log_bytes"])
            gate, report = self._fork()
            self._record_start()
        except OSError as exc:
            # A child that waits at the gate leaves when this process does.
            raise StartError("start_failed", f"cannot start and record the command: {exc}") from exc
        finally:
            discard("launch.json")
        cancellation = read_cancellation()
        if cancellation is not None:
            os.close(gate)
            self._end_unstarted("killed", f"{cancellation[0]} before it started", None)
        self._release(gate, report)

    def _fork(self) -> tuple[int, int]:
        """Forks a child that waits at a gate; returns the gate's write end, and the read end of its report on exec."""
        logs = [confined.open_file(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for name in LOGS]
        for log in logs:
            os.set_blocking(log, True)  # as a shell would have opened it for the command
        gate_read, gate_write = os.pipe()
        report_read, report_write = os.pipe()
        # Until the child has dropped our handlers, a signal to it would write into our wake-up pipe.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        self.child = os.fork()
        if self.child == 0:
            os.close(gate_write)
            become_command(self.spec, gate_read, report_write, logs)
        os.setpgid(self.child, self.child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        for descriptor in (gate_read, report_write, *logs):
            os.close(descriptor)
        return gate_write, report_read

    def _record_start(self) -> None:
        self.started_at = iso_now()
        supervisor, child = self.me, platform.identity_of(self.child)
        record = {
            "supervisor": supervisor and supervisor._asdict(),
            "child": child and child._asdict(),
            "started_at": self.started_at,
            # For callers that find the command without its supervisor: then no other process keeps it to them.
            "wall_s": self.spec["wall_s"],
            "grace_s": self.spec["grace_s"],
            **self.bound,
            "host_id": self.spec.get("host_id"),
            "host_name": self.spec.get("host_name"),
            "folder": os.stat(".").st_ino,
            "end_hash": self.spec.get("end_hash"),
        }
        self.started = plainjson.dump(record)
        atomic.write_atomic("started.json", self.started + "\n")

    def _release(self, gate: int, report: int) -> None:
        try:
            os.write(gate, b"g")
        except BrokenPipeError:
            complain("the command was killed before it was executed")
        os.close(gate)
        self.started_s = time.monotonic()
        if self.spec["wall_s"] is not None:
            self.wall_at = self.started_s + self.spec["wall_s"]
        if self.silence_s is not None:
            self.silent_at = self.started_s + self.silence_s
        complaint = b""
        while chunk := os.read(report, 4096):  # ends at once when exec closes the other side
            complaint += chunk
        os.close(report)
        if complaint:
            self._end_unstarted("exec_failed", complaint.decode("utf-8", "replace"), EXEC_FAILED_CODE)

    def _end_unstarted(self, reason: str, detail: str, exit_code: int | None) -> NoReturn:
        os.waitpid(self.child, 0)
        ended = {"exit_code": exit_code, "signal": None, "reason": reason, "detail": detail}
        record_exit({**self.exit_record(), **ended})
        raise StartError(reason, detail)

    def supervise(self) -> None:
        """Returns once the command and all it started are gone."""
        while True:
            self._reap()
            now = time.monotonic()
            self._pass_on()
            if self.cancel_requested:
                self.cancel_requested = False
                by, grace_s = read_cancellation() or ("ended by a signal to the supervisor", None)
                self._stop(self.spec["grace_s"] if grace_s is None else grace_s, "killed", by)
            if self.status is not None:
                left = self._leftovers()
                if not left or self._gave_up(left, now):
                    break
                self.settle_at = self.settle_at or now + SETTLE_S
                if self.kill_at is None and now >= self.settle_at:
                    self.detail = f"processes that outlived the command and were ended: {left}"
                    self._stop(self.spec["grace_s"], None, None)
            elif self.kill_at is None:
                self._keep_to_limits(now)
            if self.kill_at is not None and now >= self.kill_at:
                self.give_up_at = self.give_up_at or now + KILL_PATIENCE_S
                self._signal_all(signal.SIGKILL)
            self.output.cut(complain)
            self._sleep()
        self._reap()
        self.output.cut(complain)

    def _pass_on(self) -> None:
        """Sends the command the warnings that came; its helpers not, for most programs end by them."""
        while self.warnings:
            signum = self.warnings.pop(0)
            if self.status is None:  # else its number may be another process's
                os.kill(self.child, signum)

    def _keep_to_limits(self, now: float) -> None:
        """Ends the command if it has lasted too long, or has written nothing for too long."""
        if self.wall_at is not None and now >= self.wall_at:
            self._stop(self.spec["grace_s"], "timeout", f"over its limit of {self.spec['wall_s']:g} s")
        elif self.silence_s is not None and self.silent_at is not None:
            if self.output.has_grown():
                self.silent_at = now + self.silence_s
            elif now >= self.silent_at:
                self._stop(self.spec["grace_s"], "timeout", f"wrote nothing for {self.silence_s:g} s")

    def _reap(self) -> None:
        """Collects every dead child: the command itself, and orphans that were reparented to us.

        What a run used that was started from inside this one and has ended is counted here too: a dead process does
        not show what it was.
        """
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.status = status
            self.cpu_s += usage.ru_utime + usage.ru_stime
            # Kibibytes on Linux, bytes on macOS (getrusage(2) of each).
            rss_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
            self.max_rss_bytes = max(self.max_rss_bytes, rss_bytes)

    def _stop(self, grace_s: float, reason: str | None, detail: str | None) -> None:
        """Sends TERM once; a second call only shortens the grace. The first reason is kept.

        The wall limit stays: a long grace gives no run more time than its limit and the grace of its start.
        """
        kill_at = time.monotonic() + grace_s
        if self.wall_at is not None:
            kill_at = min(kill_at, max(self.wall_at, time.monotonic()) + self.spec["grace_s"])
        if self.reason is None and self.status is None:
            self.reason, self.detail = reason, detail
        if self.kill_at is None:
            self.kill_at = kill_at
            self._signal_all(signal.SIGTERM, signal.SIGCONT)  # a stopped process does not hear TERM
        else:
            self.kill_at = min(self.kill_at, kill_at)

    def _signal_all(self, *signums: int) -> None:
        """Signals the process group and every descendant, each once: to many a second TERM means "at once".

        They are listed before any is signalled: the children of a process that exits at once are reparented, and a walk
        could miss them.
        """
        found = process_tree.identities_below(os.getpid(), leave_out=is_supervisor)
        # Once the leader is reaped its group's number may pass to a stranger. A subreaper needs the group no
        # more.
        by_group = self.status is None or not self.subreaper
        for signum in signums:
            if by_group:
                signal_group(self.child, signum)
            process_tree.signal_each(found, signum, except_group=self.child if by_group else None)

    def _leftovers(self) -> int:
        """Counts the processes of the run that still live; without a subreaper its process group counts as one.

        A walk down the tree can miss one that is handed to us, its parent gone, while we walk. So none is only said
        where none is found and we have no child either: a reparented process has become one.
        """
        count = len(process_tree.descendants(os.getpid(), leave_out=is_supervisor))
        if count:
            return count
        if not self.subreaper:
            return int(signal_group(self.child, 0))
        return process_tree.count_children(leave_out=is_supervisor)

    def _gave_up(self, left: int, now: float) -> bool:
        if self.give_up_at is None or now < self.give_up_at:
            return False
        survivors = process_tree.descendants(os.getpid(), leave_out=is_supervisor)
        self.detail = f"{self.detail or 'ended'}; {left} processes survived KILL: {survivors}"
        return True

    def _sleep(self) -> None:
        """Sleeps until a signal, a deadline, or the next tick where something must be watched."""
        moments = []
        if self.status is None and self.kill_at is None:
            if self.wall_at is not None:
                moments.append(self.wall_at)
            if self.silence_s is not None and self.silent_at is not None:
                moments.append(min(self.silent_at, time.monotonic() + min(TICK_S, self.silence_s / 10)))
        if self.settle_at is not None and self.kill_at is None:
            moments.append(self.settle_at)
        if self.kill_at is not None and self.give_up_at is None:
            moments.append(self.kill_at)
        if self.give_up_at is not None or self.output.is_limited:
            moments.append(time.monotonic() + TICK_S)
        wait_s = max(0.0, min(moments) - time.monotonic()) if moments else None
        if select.select([self.wake], [], [], wait_s)[0]:
            os.read(self.wake, 4096)

    def exit_record(self) -> ExitDocument:
        """Returns the exit record as of now (the keys of `ExitRecord`)."""
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        signalled = code is not None and code < 0
        return {
            "exit_code": None if signalled else code,
            "signal": -code if code is not None and signalled else None,
            "reason": self.reason or ("signalled" if signalled else "exited"),
            "detail": "; ".join(filter(None, (self._out_of_memory(), self.detail))) or None,
            "started_at": self.started_at,
            "ended_at": iso_now(),
            "duration_s": round(time.monotonic() - self.started_s, 6) if self.started_s else 0.0,
            "max_rss_bytes": self.max_rss_bytes,
            "cpu_s": round(self.cpu_s, 6),
            **self.bound,
            "end_key": self.spec.get("end_key"),
        }

    def _out_of_memory(self) -> str | None:
        """Returns a note if another process killed the command while the kernel ran out of memory; it is no verdict."""
        if self.reason is not None or self.status is None or os.waitstatus_to_exitcode(self.status) != -signal.SIGKILL:
            return None
        after = process_tree.oom_kills()
        where = next((each for each in after if after[each] > self.oom_kills.get(each, after[each])), None)
        return where and f"killed by signal 9 while the kernel's out-of-memory killer was at work {where}"


def become_command(spec: LaunchDocument, gate: int, report: int, logs: list[int]) -> NoReturn:
    """Drops, in the child, the supervisor's signal handling, waits at the gate, executes; or `report`s why not."""
    what = "cannot start"
    try:
        signal.set_wakeup_fd(-1)
        # What the supervisor opened before is its own. Its locks above all, which must be free as soon as it is dead.
        os.closerange(3, min(gate, report, *logs))
        for name in RESET_SIGNALS.split():
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setpgid(0, 0)
        process_tree.offer_to_oom_killer()
        if os.read(gate, 1) == b"g":
            os.dup2(logs[0], 1)
            os.dup2(logs[1], 2)
            what = f"cannot enter {spec['cwd']}"
            os.chdir(spec["cwd"])
            what = f"cannot run {spec['argv'][0]}"
            os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        os.write(report, f"{what}: {why}".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(EXEC_FAILED_CODE)


def read_cancellation() -> tuple[str, float | None] | None:
    """Reads `cancel.json` as (detail, grace in seconds); None if there is none."""
    try:
        found = plainjson.read("cancel.json")
        if not isinstance(found, dict):
            raise ValueError("it is none of ours")
        by, grace_s = found["by"], found["grace_s"]
        # The command may have written it: a number beyond all floats, or a name as long as a book.
        if not isinstance(by, str) or not isinstance(grace_s, (int, float)) or not 0 <= grace_s <= LONGEST_GRACE_S:
            raise ValueError("it is none of ours")
        return f"cancelled by {by[:LONGEST_NAME]}", float(grace_s)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        complain(f"cannot read the cancellation: {exc}")
        return "cancelled", None


def record_exit(
    record: Mapping[str, object],
    waits_s: tuple[float, ...] = RECORD_RETRY_WAITS_S,
    then_every_s: float | None = RECORD_RETRY_AT_LAST_S,
) -> bool:
    """Writes `exit.json` durably, with retries if the disk refuses: only this process knows how the run ended.

    False once its folder is gone, and where the retries are used up and `then_every_s` is None.
    """
    content = plainjson.dump(record) + "\n"
    for wait_s in waits_s:
        if write_exit(content, complain):
            return True
        if folder_is_gone():
            return False
        time.sleep(wait_s)  # a full disk gives no sign when it has room again
    tell = complain  # once more; beyond, complaints would fill the disk themselves
    while not write_exit(content, tell):
        if then_every_s is None or folder_is_gone():
            return False
        tell = keep_quiet
        time.sleep(then_every_s)
    return True


def write_exit(content: str, tell: Callable[[str], None]) -> bool:
    """Tries once to write `exit.json`; complains through `tell` and returns False if that failed."""
    try:
        make_way("exit.json", tell)
        atomic.write_atomic("exit.json", content)
    except OSError as exc:
        tell(f"cannot write the exit record: {exc}; it reads {content.strip()}")
        return False
    return True


def make_way(path: str, tell: Callable[[str], None]) -> None:
    """Sets aside what the command put where the exit record goes. Raises OSError.

    A file may be the record of an earlier try, and is replaced. The right to write here may have been taken, too.
    """
    mode = os.stat(".").st_mode
    if mode & 0o300 != 0o300:
        os.chmod(".", mode & 0o7777 | 0o700)
    try:
        if stat.S_ISREG(os.lstat(path).st_mode):
            return
    except FileNotFoundError:
        return
    aside = f"{path}.aside-{os.urandom(4).hex()}"
    os.rename(path, aside)
    tell(f"{path} was no file; it was set aside as {aside}")


def keep_quiet(text: str) -> None:
    """Drops a complaint that was made before."""


def signal_group(group: int, signum: int) -> bool:
    """Signals a process group; False if every member is gone or a zombie (macOS says EPERM)."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def folder_is_gone() -> bool:
    """Returns whether the current folder was removed; it never comes back, for a new one of its name is another."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def discard(path: str) -> None:
    """Removes a file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
