"""Platform calls: a process's identity, whether it lives, how it is signalled. Trees of processes are the supervisor's.

Used by the lab, by plugins through the toolkit, and by the supervisor of a run, which runs under
`python -I -S`. So it imports the standard library alone, nothing of Perpetual, and not `typing`, which
would cost every launch 5 ms of CPU.

A process is known by (boot id, pid, start ticks), never by its pid alone: pids are given out again. Ticks
count from the boot, so they do not move when the clock is set. A zombie is dead: where PID 1 reaps late,
a dead process keeps its pid for seconds.

Linux is complete. On macOS identity comes from psutil, and there are no pidfds.
Windows can import this module; `supports_runs` says why it cannot run anything.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NamedTuple

    class Identity(NamedTuple):
        """One process for all time: the boot it ran in, its pid, its start in ticks since that boot."""

        boot_id: str
        pid: int
        start_ticks: int

    class _Stat(NamedTuple):
        state: bytes
        parent_pid: int
        threads: int
        start_ticks: int

else:
    try:
        import _signal as signal  # without the enums that `signal` makes of it, for 6 ms of each launch's CPU
    except ImportError:  # no CPython
        import signal

    Identity = namedtuple("Identity", "boot_id pid start_ticks")
    Identity.__doc__ = "One process for all time: the boot it ran in, its pid, its start in ticks since that boot."
    _Stat = namedtuple("_Stat", "state parent_pid threads start_ticks")

BOOT_ID_VARIABLE = "PERPETUAL_BOOT_ID"
_LONGEST_POLL_S = 1_000_000.0  # poll(2) takes its milliseconds as a C int
_FALLBACK_POLL_S = 0.05


def boot_id() -> str:
    """Returns the identity of the current boot of this machine.

    The environment variable PERPETUAL_BOOT_ID overrides it. It exists so that tests can play a reboot.
    Raises OSError where the platform has no such identity.
    """
    override = os.environ.get(BOOT_ID_VARIABLE)
    if override:
        return override
    if sys.platform == "linux":
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    if sys.platform == "darwin":
        return _sysctl_text(b"kern.bootsessionuuid")
    raise OSError(f"{sys.platform} has no boot identity")


def start_ticks(pid: int) -> int | None:
    """Returns the start of `pid` in ticks since the boot (proc(5), field 22 of stat); None if gone, hidden or a zombie.

    On macOS the number is microseconds since the epoch, which the kernel stores once and never adjusts.
    """
    if sys.platform == "darwin":
        return _start_microseconds(pid)
    stat = _read_stat(pid)
    return None if stat is None or _is_dead(stat) else stat.start_ticks


def identity_of(pid: int) -> Identity | None:
    """Returns the identity of the process that has `pid` now; None if there is none."""
    ticks = start_ticks(pid)
    return None if ticks is None else Identity(boot_id(), pid, ticks)


def is_alive(identity: Identity) -> bool:
    """Returns True while this very process runs; False for a zombie, another boot, another owner of its pid."""
    return identity.boot_id == boot_id() and start_ticks(identity.pid) == identity.start_ticks


def is_stopped(identity: Identity) -> bool:
    """Returns whether this very process was stopped (signal STOP) and waits to be continued; Linux only."""
    stat = _read_stat(identity.pid) if sys.platform == "linux" and is_alive(identity) else None
    return stat is not None and stat.state in (b"T", b"t")


def parent_of(pid: int) -> int | None:
    """Returns the pid of a process's parent, a zombie's too; None where it is gone, or not to be seen."""
    stat = _read_stat(pid)
    return None if stat is None else stat.parent_pid


def age_s(identity: Identity) -> float | None:
    """Returns how long ago this process started, ended or not, by a monotonic clock.

    None where that is unknown.

    By ticks and CLOCK_BOOTTIME (clock_gettime(2)), both of which count on while the machine sleeps.
    """
    if sys.platform != "linux" or identity.boot_id != boot_id():
        return None
    started_s = identity.start_ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)


def signal_process(identity: Identity, signum: int) -> bool:
    """Sends `signum` to this very process; False if it is gone. No later owner of its pid gets it.

    The pidfd is opened first and the identity checked after: from then on the pidfd can only mean that
    process. Kernels without pidfds get check-then-kill, which leaves a gap of microseconds.
    Raises PermissionError if the process belongs to another user.
    """
    descriptor = _open_pidfd(identity.pid)
    try:
        if not is_alive(identity):
            return False
        if descriptor is None:
            os.kill(identity.pid, signum)
        else:
            signal.pidfd_send_signal(descriptor, signum)
    except ProcessLookupError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def wait_gone(identity: Identity, timeout_s: float) -> bool:
    """Waits until this very process has ended; False if it still runs after `timeout_s` (at most 1e6 seconds).

    Wakes at once through a pidfd; without one it looks every 50 ms.
    """
    timeout_s = max(0.0, min(timeout_s, _LONGEST_POLL_S))
    descriptor = _open_pidfd(identity.pid)
    if descriptor is None:
        return _poll_gone(identity, timeout_s)
    try:
        if not is_alive(identity):
            return True
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000.0))
    finally:
        os.close(descriptor)


def wait_any_gone(identities: list[Identity], timeout_s: float) -> list[int]:
    """Waits until one of these very processes has ended, at most `timeout_s`; the places of those that have.

    Wakes at once for those that have a pidfd, within 50 ms for the others: at most half of the descriptors that this
    process may have are spent. Of none it waits for the time alone.
    """
    limit = os.sysconf("SC_OPEN_MAX")
    most = limit // 2 if limit > 0 else len(identities)
    deadline = time.monotonic() + max(0.0, min(timeout_s, _LONGEST_POLL_S))
    poller = select.poll()
    places: dict[int, int] = {}  # by pidfd
    try:
        for place, each in enumerate(identities):
            descriptor = _open_pidfd(each.pid) if len(places) < most else None
            if descriptor is not None:
                places[descriptor] = place
                poller.register(descriptor, select.POLLIN)
        # Only now: from here on a pidfd can mean no other process.
        gone = [place for place, each in enumerate(identities) if not is_alive(each)]
        unseen = [place for place in range(len(identities)) if place not in places.values()]
        while not gone and (left_s := deadline - time.monotonic()) > 0:
            turn_s = min(left_s, _FALLBACK_POLL_S) if unseen else left_s
            gone = [places[descriptor] for descriptor, _ in poller.poll(turn_s * 1000.0)]
            gone += [place for place in unseen if not is_alive(identities[place])]
        return sorted(gone)
    finally:
        for descriptor in places:
            os.close(descriptor)


def supports_runs() -> str | None:
    """Returns None if runs can be supervised on this platform, else the reason why not, for people to read."""
    if sys.platform == "linux":
        return None if os.path.exists("/proc/self/stat") else "runs need the /proc file system, which is not mounted"
    if sys.platform == "darwin":
        return None
    return f"runs need a POSIX system (fork, signals, process groups); this is {sys.platform}"


def host_name() -> str:
    """Returns what this machine calls itself; empty where it does not tell."""
    return os.uname().nodename if hasattr(os, "uname") else ""


def available_cpus() -> int:
    """CPUs that this process may be scheduled on, where the platform tells; else all of the machine's."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Returns the machine's main memory; None where the platform does not tell."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return found if found > 0 else None


def _read_stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            raw = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        return None  # another user's, under hidepid=1 of proc(5); under hidepid=2 it is not to be seen at all
    # The command name is in parentheses and may hold blanks and parentheses itself.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return _Stat(fields[0], int(fields[1]), int(fields[17]), int(fields[19]))


def _is_dead(stat: _Stat) -> bool:
    # A process whose first thread has ended while others run is shown as a zombie too, but with its threads.
    return stat.state in (b"Z", b"X") and stat.threads <= 1


def _open_pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        # Gone, forbidden by a seccomp filter, or unknown to the kernel: the callers' identity check tells
        # which.
        return None


def _poll_gone(identity: Identity, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while is_alive(identity):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(_FALLBACK_POLL_S, left_s))
    return True


def _start_microseconds(pid: int) -> int | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return round(process.create_time() * 1_000_000)
    except psutil.NoSuchProcess:
        return None


def _sysctl_text(name: bytes) -> str:
    import ctypes

    buffer = ctypes.create_string_buffer(128)
    size = ctypes.c_size_t(len(buffer))
    if ctypes.CDLL(None).sysctlbyname(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        raise OSError(f"sysctl {name.decode()} failed")
    return buffer.value.decode("ascii")
