"""Proof that a process belongs to a run's folder: before anything is signalled, and before a run is said to live here.

The supervisor's lock on the file in this very folder, the folder in which a process works, the files that it writes to
and the marks in its environment prove it. `perpetual.toolkit.run_folder` says whose run a folder holds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from perpetual.toolkit import platform
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.platform import Identity
from perpetual.toolkit.run_folder import NONCE_VARIABLE, folder_of, is_locked, supervisor_here
from perpetual_supervisor.records import Started, read_exit, read_started

__all__ = ["Supervision", "command_of", "environment_of", "is_live", "marked", "supervision_of"]

_FOLDER_VARIABLES = ("PERPETUAL_RUN_DIR", "PERPETUAL_METRICS")
_METRICS = "/metrics.jsonl"
_OUTPUTS = ("stdout.log", "stderr.log")


def command_here(child: Identity, run_dir: Path, nonce: str | None, *, at_home: bool) -> Identity | None:
    """Returns the command that an identity names, as it can be signalled now, if it is proven to be of this folder.

    A record that was written in this very folder is proof enough (`at_home`); in a copy of it the command's own output
    and environment must name the folder.
    """
    if platform.start_ticks(child.pid) != child.start_ticks:
        return None
    is_proven = (at_home and platform.is_alive(child)) or _writes_to(child.pid, run_dir)
    if not is_proven and not _is_marked(_variables_of(child.pid), run_dir, nonce):
        return None
    found = platform.identity_of(child.pid)
    return found if found is not None and found.start_ticks == child.start_ticks else None


def command_of(run_dir: Path, started: Started) -> Identity | None:
    """Returns the command that a record of the start names, if it lives and is this folder's."""
    if started.child is None:
        return None
    return command_here(started.child, run_dir, started.nonce, at_home=_is_at_home(run_dir, started))


def _is_at_home(run_dir: Path, started: Started) -> bool:
    """Returns whether the record of the start was written in this very folder, and not in the original of a copy."""
    try:
        return started.folder is not None and os.stat(run_dir).st_ino == started.folder
    except OSError:
        return False


class Supervision(NamedTuple):
    """A supervisor lives, or cannot be known not to; `elsewhere` says where, in words, if the run is not this folder's.

    Of such a run nothing may be ended from here: it runs on another machine, or this folder is a copy of its own.
    """

    elsewhere: str | None = None


def supervision_of(run_dir: Path, started: Started) -> Supervision | None:
    """Returns the supervision of the run that a record of the start names; None if it is gone."""
    if supervisor_here(started.supervisor, run_dir) is not None:
        return Supervision()
    # A lock that a process holds which we cannot see is a supervisor in another pid namespace (a container), or on
    # another machine, where the file system has its locks in common.
    foreign = _foreign_host(started)
    if foreign is not None:
        # Where the supervisor's machine is out of sight, the record of the end decides.
        return None if not is_locked(run_dir) and read_exit(run_dir) is not None else Supervision(foreign)
    if is_locked(run_dir):
        return Supervision()
    elsewhere = _elsewhere(run_dir, started)
    return None if elsewhere is None else Supervision(elsewhere)


def _elsewhere(run_dir: Path, started: Started) -> str | None:
    """Returns where a live run of this machine belongs that is not this folder's, in words; None if it is not alive."""
    if platform.is_alive(started.supervisor):
        folder = folder_of(started.supervisor.pid)
        # Once more: it may have been about to leave, and has no folder by now.
        if folder is not None and platform.is_alive(started.supervisor):
            return f"runs in {folder}, of which this folder is a copy"
    if started.child is not None and platform.is_alive(started.child) and command_of(run_dir, started) is None:
        return "its command works for another folder, of which this one is a copy"
    return None


def _foreign_host(started: Started) -> str | None:
    """Returns the machine that started the run, in words, if it is another one. The same boot is the same machine."""
    if started.host_id is None or started.supervisor.boot_id == platform.boot_id():
        return None
    if started.host_id == this_host().id:
        return None
    return f"runs on {started.host_name or 'another machine'}"


def is_live(run_dir: Path) -> bool:
    """Returns whether a run was started in this folder and its supervisor or its command lives.

    Raises:
        ValueError: if the record of its start cannot be read.
        OSError: if the folder cannot be.
    """
    started = read_started(run_dir)
    if started is None:
        return False
    return supervision_of(run_dir, started) is not None or command_of(run_dir, started) is not None


def _writes_to(pid: int, run_dir: Path) -> bool:
    """Returns whether the process's output goes to the logs of this folder."""
    return _puts_out(pid, _logs(run_dir))


def _logs(run_dir: Path) -> list[os.stat_result]:
    """Returns the logs of this folder; leaves out a file with a second name, which may be another folder's."""
    logs = []
    for name in _OUTPUTS:
        try:
            found = os.lstat(run_dir / name)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            logs.append(found)
    return logs


def _puts_out(pid: int, logs: list[os.stat_result]) -> bool:
    for number in (1, 2) if logs else ():
        try:
            target = os.stat(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if any(os.path.samestat(target, log) for log in logs):
            return True
    return False


def marked(run_dir: Path, nonce: str | None, *, leave_out: Callable[[int], bool]) -> Iterator[Identity]:
    """Yields each living process that is this run's by its environment or its output, once.

    Args:
        leave_out: says of a pid that the process is another run's all the same: the supervisor of a nested run.

    Without a supervisor that adopts it, a process whose parent has ended hangs under process 1 and is found in no tree.
    One that has cleared its environment still writes to the logs. As far as we may ask.
    """
    run_dir = Path(os.path.abspath(run_dir))
    logs = _logs(run_dir)
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    waiting = sorted((int(name) for name in names if name.isdigit()), reverse=True)  # the newest are soonest gone
    blank: set[int] = set()
    given: set[Identity] = set()  # a process that is asked to end twice may take the second for less patience
    for pid in waiting:
        content = environment_of(pid)
        if content == b"" and pid not in blank:  # as of one that is just executing a program: once more, at the end
            blank.add(pid)
            waiting.append(pid)
        if pid == os.getpid() or not _is_of(pid, content, run_dir, nonce, logs):
            continue
        identity = platform.identity_of(pid)
        if identity is None or identity in given:
            continue
        # Asked once more: its number was not given to another before it was identified.
        if _is_of(pid, None, run_dir, nonce, logs) and not leave_out(pid):
            given.add(identity)
            yield identity


def _is_of(pid: int, content: bytes | None, run_dir: Path, nonce: str | None, logs: list[os.stat_result]) -> bool:
    """Returns whether a process is the run's; `content` is its environment where that was read just now."""
    content = environment_of(pid) if content is None else content
    has_mark = b"PERPETUAL_" in content and _is_marked(_parsed(content), run_dir, nonce)
    return has_mark or _puts_out(pid, logs)


def _is_marked(variables: Mapping[str, str], run_dir: Path, nonce: str | None) -> bool:
    """Returns whether an environment was given to this run.

    A copy of a project has the nonces of its original: of two folders the one that the environment names counts, as
    long as it is there. Where it is gone, the project was moved.
    """
    theirs = variables.get(NONCE_VARIABLE)
    folder = _folder_in(variables)
    if folder is None or (nonce is not None and theirs != nonce):
        return False
    if nonce is None:  # a run of an earlier version, or of a scheduler that does not bind its runs
        return os.path.abspath(folder) == str(run_dir)
    try:
        return os.path.samefile(folder, run_dir)
    except FileNotFoundError:
        return not os.path.lexists(folder)
    except (OSError, ValueError):
        return False


def _folder_in(variables: Mapping[str, str]) -> str | None:
    found = [variables[name] for name in _FOLDER_VARIABLES if name in variables]
    return found[0].removesuffix(_METRICS) if found else None


def _variables_of(pid: int) -> dict[str, str]:
    return _parsed(environment_of(pid))


def environment_of(pid: int) -> bytes:
    """Returns the environment of a process; empty where it has gone, shows none, or is another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:  # gone, or another user's
        return b""


def _parsed(content: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(each).partition("=") for each in content.split(b"\0") if each.startswith(b"PERPETUAL_"))
    return {name: value for name, _, value in pairs}
