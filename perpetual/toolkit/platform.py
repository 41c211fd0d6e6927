"""Platform calls: who a process is, whether it lives, how it is signalled. The only module with such calls.

Used by the lab, by plugins through the toolkit, and by the supervisor of a run, which runs under
`python -I -S`. So it imports the standard library alone, nothing of Perpetual, and not `typing`, which
would cost every launch 5 ms of CPU.

A process is known by (boot id, pid, start ticks), never by its pid alone: pids are given out again. Ticks
count from the boot, so they do not move when the clock is set. A zombie is dead: where PID 1 reaps late,
a dead process keeps its pid for seconds.

Linux is complete. On macOS identity comes from psutil, there are no pidfds and no subreaper.
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
    from collections.abc import Callable
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
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_LONGEST_POLL_S = 1_000_000.0  # poll(2) takes its milliseconds as a C int
_FALLBACK_POLL_S = 0.05
# One per cent of the machine's memory: more than the supervisor ever holds, so that the run is always the
# bigger of the two, and too little to make it a victim before other large programs.
_OOM_SCORE_STEP = 10


def boot_id() -> str:
    """The identity of the current boot of this machine.

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
    """When `pid` started, in ticks since the boot (proc(5), field 22 of stat); None if gone, hidden or a zombie.

    On macOS the number is microseconds since the epoch, which the kernel stores once and never adjusts.
    """
    if sys.platform == "darwin":
        return _start_microseconds(pid)
    stat = _read_stat(pid)
    return None if stat is None or _is_dead(stat) else stat.start_ticks


def identity_of(pid: int) -> Identity | None:
    """The identity of the process that has `pid` now; None if there is none."""
    ticks = start_ticks(pid)
    return None if ticks is None else Identity(boot_id(), pid, ticks)


def is_alive(identity: Identity) -> bool:
    """True while this very process runs; False for a zombie, another boot, another owner of its pid."""
    return identity.boot_id == boot_id() and start_ticks(identity.pid) == identity.start_ticks


def is_stopped(identity: Identity) -> bool:
    """True if this very process was stopped (signal STOP) and does nothing until it is continued; Linux only."""
    stat = _read_stat(identity.pid) if sys.platform == "linux" and is_alive(identity) else None
    return stat is not None and stat.state in (b"T", b"t")


def age_s(identity: Identity) -> float | None:
    """How long ago this process started, ended or not, by a clock that nobody can set; None where that is unknown.

    By ticks and CLOCK_BOOTTIME (clock_gettime(2)), both of which count on while the machine sleeps.
    """
    if sys.platform != "linux" or identity.boot_id != boot_id():
        return None
    started_s = identity.start_ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)


def signal_process(identity: Identity, signum: int) -> bool:
    """Send `signum` to this very process; False if it is gone. No later owner of its pid gets it.

    The pidfd is opened first and the identity checked after: from then on the pidfd can only mean that
    process. Kernels without pidfds get check-then-kill, which leaves a gap of microseconds.
    Raises PermissionError if the process belongs to somebody else.
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
    """Wait until this very process has ended; False if it still runs after `timeout_s` (at most 1e6 seconds).

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
    """Wait until one of these very processes has ended, at most `timeout_s`; the places of those that have.

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


def set_subreaper() -> bool:
    """Make this process the one that adopts orphaned descendants (prctl(2)); False where that is unsupported.

    Only processes forked afterwards are sure to be adopted.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    zero = ctypes.c_ulong(0)
    libc = ctypes.CDLL(None)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), zero, zero, zero) == 0)


def descendants(pid: int, *, leave_out: Callable[[int], bool] | None = None) -> list[int]:
    """Every living process below `pid`, parents before their children; zombies are left out.

    So is a process of which `leave_out` is true, with all below it (where there is a /proc to ask).
    A snapshot: who kills a tree must ask again until the answer is empty.
    """
    if sys.platform == "darwin":
        return _descendants_by_psutil(pid)
    return _walk(pid, _children, leave_out) if _lists_children() else _descendants_by_scan(pid, leave_out)


def count_children(*, leave_out: Callable[[int], bool]) -> int:
    """How many children this process, which has one thread, has yet to wait for, but for those of `leave_out`.

    Dead ones count: what they left behind may have become ours since it was looked for. 0 is no snapshot: below a
    subreaper (prctl(2)) whose children are all left out nothing else lives, and nothing else can come.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    own = os.getpid()
    # New children come last in the kernel's list, and none leaves it before it is waited for.
    children = _children(own) if _lists_children() else _children_by_scan().get(own, [])
    if not children:  # there is one: a look at one process after the other can miss who is handed over meanwhile
        return 1
    return sum(start_ticks(child) is None or not leave_out(child) for child in children)


def identities_below(pid: int, *, leave_out: Callable[[int], bool] | None = None) -> list[Identity]:
    """Every process of `descendants`, as it can be signalled later, whatever has become of its parent by then."""
    found = [identity_of(each) for each in descendants(pid, leave_out=leave_out)]
    # A pid may have passed to a stranger before its identity was read; a stranger is not below us.
    confirmed = set(descendants(pid, leave_out=leave_out))
    return [each for each in found if each is not None and each.pid in confirmed]


def signal_each(processes: list[Identity], signum: int, *, except_group: int | None = None) -> int:
    """Signal these very processes, but for members of process group `except_group`; how many got it.

    A process of another user (behind sudo) cannot be signalled and is not counted.
    """
    count = 0
    for each in processes:
        try:
            if except_group is None or os.getpgid(each.pid) != except_group:
                count += signal_process(each, signum)
        except (ProcessLookupError, PermissionError):
            continue
    return count


def signal_descendants(
    pid: int, signum: int, *, except_group: int | None = None, leave_out: Callable[[int], bool] | None = None
) -> int:
    """Signal every process below `pid`, as `signal_each` does; how many got it. `leave_out` as in `descendants`."""
    return signal_each(identities_below(pid, leave_out=leave_out), signum, except_group=except_group)


def offer_to_oom_killer() -> bool:
    """Make this process a likelier victim of the out-of-memory killer than its parent; False if refused."""
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="utf-8") as file:
            score = int(file.read())
            file.seek(0)
            file.write(str(min(score + _OOM_SCORE_STEP, 1000)))
    except OSError:
        return False
    return True


def oom_kills(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> dict[str, int]:
    """How many processes the kernel's out-of-memory killer has ended so far, by the place where it was counted.

    The places are `in its control group`, that of this process and of all that it starts (memory.events of cgroups(7)
    version 2, memory.oom_control of version 1), and `on this machine` (vmstat in proc(5)), the closer one first. What
    cannot be read is left out.
    """
    counted = {
        "in its control group": next(filter(None, map(_oom_counter, _cgroup_files(proc, cgroups))), None),
        "on this machine": _oom_counter(f"{proc}/vmstat"),
    }
    return {place: int(count) for place, count in counted.items() if count is not None}


def supports_runs() -> str | None:
    """None if runs can be supervised on this platform, else the reason why not, for people to read."""
    if sys.platform == "linux":
        return None if os.path.exists("/proc/self/stat") else "runs need the /proc file system, which is not mounted"
    if sys.platform == "darwin":
        return None
    return f"runs need a POSIX system (fork, signals, process groups); this is {sys.platform}"


def claims_folder() -> str | None:
    """Where this user's runs on this machine say, until its next boot, which devices they have; nothing is made.

    Of all that one user starts on one machine, `XDG_STATE_HOME` (else `~/.local/state`) is the same whether it comes
    from a terminal, a service or a scheduler; `XDG_RUNTIME_DIR` is not set in some of them, and is emptied at a logout
    that runs outlive. The boot keeps apart machines that share a home.
    None where a boot has no identity.
    """
    try:
        boot = boot_id()
    except OSError:
        return None
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # as the specification of these folders has it
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "perpetual", "claims", boot)


def host_name() -> str:
    """What this machine calls itself; empty where it does not tell."""
    return os.uname().nodename if hasattr(os, "uname") else ""


def available_cpus() -> int:
    """CPUs that this process may be scheduled on, where the platform tells; else all of the machine's."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def memory_bytes() -> int | None:
    """The machine's main memory; None where the platform does not tell."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return found if found > 0 else None


def _cgroup_files(proc: str, cgroups: str) -> list[str]:
    """Where the out-of-memory kills of this process's own control group may be counted."""
    try:
        with open(f"{proc}/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found.append(f"{cgroups}{path}/memory.events")
        elif "memory" in controllers.split(","):
            found.append(f"{cgroups}/memory{path}/memory.oom_control")
    return found


def _oom_counter(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            fields = file.read().split()
    except OSError:
        return None
    return fields[fields.index(b"oom_kill") + 1] if b"oom_kill" in fields else None


def _read_stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            raw = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        return None  # another user's, under hidepid=1 of proc(5); under hidepid=2 it is not to be seen at all
    # The command name stands in parentheses and may hold blanks and parentheses itself.
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


def _lists_children() -> bool:
    """Whether the kernel was built to tell a process's children (proc_pid_children(5))."""
    own = os.getpid()
    return os.path.exists(f"/proc/{own}/task/{own}/children")


def _children(pid: int) -> list[int]:
    """The direct children of all threads of `pid`, zombies included."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(int(each) for each in file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _walk(
    pid: int, children_of: Callable[[int], list[int]], leave_out: Callable[[int], bool] | None = None
) -> list[int]:
    seen: dict[int, None] = {}
    waiting = [pid]
    while waiting:
        for child in children_of(waiting.pop()):
            if child == pid or child in seen or (leave_out is not None and leave_out(child)):
                continue
            seen[child] = None
            waiting.append(child)
    return [each for each in seen if start_ticks(each) is not None]


def _descendants_by_scan(pid: int, leave_out: Callable[[int], bool] | None = None) -> list[int]:
    children = _children_by_scan()
    return _walk(pid, lambda parent: children.get(parent, []), leave_out)


def _children_by_scan() -> dict[int, list[int]]:
    """For kernels built without /proc/PID/task/TID/children: one look at every process, zombies included."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        stat = _read_stat(int(name)) if name.isdigit() else None
        if stat is not None:
            children.setdefault(stat.parent_pid, []).append(int(name))
    return children


def _descendants_by_psutil(pid: int) -> list[int]:
    import psutil

    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [each.pid for each in found if start_ticks(each.pid) is not None]


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
