"""The process of a harness: started as the leader of its group, ended with all that it has left, by id.

What a harness starts is in its process group, or has the turn's mark in its environment, or both. A daemon that moved
to a session of its own is found by the mark. Where the system shows no environments (macOS) the group alone is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perpetual.toolkit import platform
from perpetual.toolkit.agents import DISPATCH
from perpetual.toolkit.fence import neutralise
from perpetual_harnesses.dispatch.base import DispatchError

__all__ = ["Process", "end_marked"]

_GRACE_S = 3.0  # to write its session down, after its input was closed
_TERM_S = 2.0
_HASTY_S = 0.4
_LEAVES_S = 1.0  # for what a harness has started to notice that it has ended
_LOOK_S = 0.02
_TICK_S = 0.1
_KEPT_ERRORS_BYTES = 16 * 1024
_ROUNDS = 20  # of looking for what is left: a process that starts others while it is ended is found again
_LONGEST_NAME = 60


class Process:
    """One harness that runs.

    Args:
        argv: its words.
        cwd: where it works.
        env: its whole environment, which holds the mark.

    Raises:
        DispatchError: if it cannot be started.
    """

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._mark = env[DISPATCH]
        try:
            self._process = subprocess.Popen(
                [*argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
                env=dict(env), start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as problem:
            raise DispatchError(f"{_shown(argv[0])} cannot be started: {_shown(str(problem))}") from problem
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.input, self.output = self._process.stdin, self._process.stdout
        self._errors = bytearray()
        self._lock = threading.RLock()  # between a signal and the reaping that gives the number away
        self._reader = threading.Thread(target=self._read_errors, name="harness-stderr", daemon=True)
        self._reader.start()

    @property
    def errors(self) -> str:
        """Returns the end of what it wrote to standard error."""
        return bytes(self._errors).decode("utf-8", "replace")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(self._process.stderr.fileno(), 64 * 1024):
                self._errors = (self._errors + piece)[-_KEPT_ERRORS_BYTES:]

    def has_ended(self) -> bool:
        """Returns whether the leader has ended; it is not reaped, so that its group keeps its number."""
        if self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def interrupt(self) -> None:
        """Kills the group at once; `end` is still to be called. Safe from any thread."""
        self._signal(signal.SIGKILL)

    def end(self, *, is_hasty: bool = False) -> tuple[int, tuple[str, ...]]:
        """Ends it and everything that it has left.

        Args:
            is_hasty: whether nothing is expected of it any more, such as writing its session down.

        Returns:
            Its exit status, and the processes outside of its group that had to be ended, by name.
        """
        with contextlib.suppress(OSError):
            self.input.close()
        self._await(0.0 if is_hasty else _GRACE_S)
        left = self._outside(0.0 if is_hasty else _LEAVES_S)
        if not self.has_ended():
            self._signal(signal.SIGTERM)
            self._await(_HASTY_S if is_hasty else _TERM_S)
        self._signal(signal.SIGKILL)
        with self._lock:
            status = self._process.wait()
        left |= {
            one: name for one, name in end_marked(self._mark, leave_out=self._process.pid).items() if one not in left
        }
        self._reader.join(_TERM_S)
        with contextlib.suppress(OSError):
            self.output.close()
        if not self._reader.is_alive() and self._process.stderr is not None:
            self._process.stderr.close()
        return status, tuple(sorted(set(left.values()) - {""}))

    def _outside(self, seconds: float) -> dict[platform.Identity, str]:
        """Returns the processes that are left outside of the group, with their names, once they had time to end."""
        deadline = time.monotonic() + seconds
        while True:
            found = _marked(self._mark, leave_out=self._process.pid)
            left = {identity: name for identity, name in found if not self._is_in_group(identity.pid)}
            if not left or time.monotonic() > deadline:
                return left
            platform.wait_any_gone([*left], _TICK_S)

    def _await(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < deadline:
            time.sleep(_LOOK_S)

    def _signal(self, number: int) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, number)

    def _is_in_group(self, pid: int) -> bool:
        try:
            return os.getpgid(pid) == self._process.pid
        except OSError:
            return True  # it has gone


def end_marked(mark: str, *, leave_out: int = 0) -> dict[platform.Identity, str]:
    """Kills every process with a turn's mark in its environment; returns them with their names.

    Args:
        mark: of the turn.
        leave_out: pid of a process that is ended otherwise.
    """
    ended: dict[platform.Identity, str] = {}
    for _ in range(_ROUNDS):
        found = [*_marked(mark, leave_out=leave_out)]
        for identity, name in found:
            ended.setdefault(identity, name)
            with contextlib.suppress(PermissionError):
                platform.signal_process(identity, signal.SIGKILL)
        if not found:
            break
        platform.wait_any_gone([identity for identity, _ in found], _LOOK_S)
    return ended


def _marked(mark: str, *, leave_out: int) -> Iterator[tuple[platform.Identity, str]]:
    """Yields each living process with the mark, but this one."""
    wanted = f"{DISPATCH}={mark}".encode()
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    for pid in sorted((int(name) for name in names if name.isdigit()), reverse=True):
        if pid in (os.getpid(), leave_out) or wanted not in _environment(pid):
            continue
        identity = platform.identity_of(pid)
        if identity is not None and wanted in _environment(pid) and platform.is_alive(identity):
            yield identity, _name(pid)


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [word for word in file.read().split(b"\0") if word]
    except OSError:
        return ""
    return _shown(os.path.basename(words[0].decode("utf-8", "replace")), _LONGEST_NAME) if words else "a process"


def _shown(text: str, most: int = 200) -> str:
    return neutralise(text, most)
