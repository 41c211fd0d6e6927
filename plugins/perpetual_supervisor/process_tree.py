"""The processes below another one: found, counted and signalled; orphans, and the out-of-memory killer.

Imported by the supervisor of a run, so it keeps to what `perpetual.toolkit.platform` says of itself: light parts of the
standard library alone.
"""

from __future__ import annotations

import os
import sys

from perpetual.toolkit import platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
# One per cent of the machine's memory: more than the supervisor ever holds, so that the run is always the
# bigger of the two, and too little to make it a victim before other large programs.
_OOM_SCORE_STEP = 10


def set_subreaper() -> bool:
    """Makes this process the one that adopts orphaned descendants (prctl(2)); False where that is unsupported.

    Only processes forked afterwards are sure to be adopted.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    zero = ctypes.c_ulong(0)
    libc = ctypes.CDLL(None)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), zero, zero, zero) == 0)


def descendants(pid: int, *, leave_out: Callable[[int], bool] | None = None) -> list[int]:
    """Returns every living process below `pid`, parents before their children; zombies are left out.

    So is a process of which `leave_out` is true, with all below it (where there is a /proc to ask).
    A snapshot: a caller that kills a tree must ask again until the answer is empty.
    """
    if sys.platform == "darwin":
        return _descendants_by_psutil(pid)
    return _walk(pid, _children, leave_out) if _lists_children() else descendants_by_scan(pid, leave_out)


def count_children(*, leave_out: Callable[[int], bool]) -> int:
    """Counts the children that this process, which has one thread, has yet to wait for, but for those of `leave_out`.

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
    return sum(platform.start_ticks(child) is None or not leave_out(child) for child in children)


def identities_below(pid: int, *, leave_out: Callable[[int], bool] | None = None) -> list[platform.Identity]:
    """Returns every process of `descendants`, as it can be signalled later, even after its parent has gone."""
    found = [platform.identity_of(each) for each in descendants(pid, leave_out=leave_out)]
    # A pid may have passed to a stranger before its identity was read; a stranger is not below us.
    confirmed = set(descendants(pid, leave_out=leave_out))
    return [each for each in found if each is not None and each.pid in confirmed]


def signal_each(processes: list[platform.Identity], signum: int, *, except_group: int | None = None) -> int:
    """Signals these very processes, but for members of process group `except_group`; returns how many got it.

    A process of another user (behind sudo) cannot be signalled and is not counted.
    """
    count = 0
    for each in processes:
        try:
            if except_group is None or os.getpgid(each.pid) != except_group:
                count += platform.signal_process(each, signum)
        except (ProcessLookupError, PermissionError):
            continue
    return count


def signal_descendants(
    pid: int, signum: int, *, except_group: int | None = None, leave_out: Callable[[int], bool] | None = None
) -> int:
    """Signals every process below `pid`, as `signal_each`; returns how many got it. `leave_out` as in `descendants`."""
    return signal_each(identities_below(pid, leave_out=leave_out), signum, except_group=except_group)


def offer_to_oom_killer() -> bool:
    """Makes this process a likelier victim of the out-of-memory killer than its parent; False if refused."""
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="utf-8") as file:
            score = int(file.read())
            file.seek(0)
            file.write(str(min(score + _OOM_SCORE_STEP, 1000)))
    except OSError:
        return False
    return True


def oom_kills(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> dict[str, int]:
    """Counts the processes that the kernel's out-of-memory killer has ended so far, by the place of the counter.

    The places are `in its control group`, that of this process and of all that it starts (memory.events of cgroups(7)
    version 2, memory.oom_control of version 1), and `on this machine` (vmstat in proc(5)), the closer one first. What
    cannot be read is left out.
    """
    counted = {
        "in its control group": next(filter(None, map(_oom_counter, _cgroup_files(proc, cgroups))), None),
        "on this machine": _oom_counter(f"{proc}/vmstat"),
    }
    return {place: int(count) for place, count in counted.items() if count is not None}


def _cgroup_files(proc: str, cgroups: str) -> list[str]:
    """Returns the files that may count the out-of-memory kills of this process's own control group."""
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


def _lists_children() -> bool:
    """Returns whether the kernel was built to list a process's children (proc_pid_children(5))."""
    own = os.getpid()
    return os.path.exists(f"/proc/{own}/task/{own}/children")


def _children(pid: int) -> list[int]:
    """Returns the direct children of all threads of `pid`, zombies included."""
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
    return [each for each in seen if platform.start_ticks(each) is not None]


def descendants_by_scan(pid: int, leave_out: Callable[[int], bool] | None = None) -> list[int]:
    """Returns what `descendants` does where the kernel lists no children: by a look at every process."""
    children = _children_by_scan()
    return _walk(pid, lambda parent: children.get(parent, []), leave_out)


def _children_by_scan() -> dict[int, list[int]]:
    """Returns every process's children, zombies included (a scan): for kernels without /proc/PID/task/TID/children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        parent = platform.parent_of(int(name)) if name.isdigit() else None
        if parent is not None:
            children.setdefault(parent, []).append(int(name))
    return children


def _descendants_by_psutil(pid: int) -> list[int]:
    import psutil

    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [each.pid for each in found if platform.start_ticks(each.pid) is not None]
