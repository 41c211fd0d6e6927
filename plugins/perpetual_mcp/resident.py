"""A resident process that has the server's modules loaded, and forks a session for each start that is handed to it.

Started by the service `mcp` (`perpetual_mcp.warm`) as `python -m perpetual_mcp.resident FOLDER ALIVE BEGAN`: the folder
of the project's services, a pipe whose end tells that the service has gone, and the time in nanoseconds. The sending
half is `perpetual.toolkit.resident`.

A session is a process of its own, which goes on as `python -m perpetual mcp` would from its first line: it reads the
configuration, what the project trusts, and the record anew. Only modules, and what follows from their code alone, are
there already. It takes the sender's words, variables, folder, umask and streams, and ends when the sender does. So that
a session is never more than what its sender could start, it is declined where the sender is another user, in another
container or sandbox, under other limits, or runs another interpreter; and where a loaded file has changed since. A
session joins the control groups of its sender, and is declined where it may not.

Each side proves that it is in no narrower sandbox than the other, as far as /proc shows it: it opens the other's end of
the conversation there. The sender sends nothing before that, for what it sends could then be read there anyway.

Linux alone: it rests on `/proc`, and on fork in a process of one thread.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import NamedTuple, NoReturn

from perpetual.api import PerpetualError
from perpetual.toolkit import resident
from perpetual.toolkit.resident import GO, READY, SOCKET, identity

__all__ = ["STALE", "UNFIT", "Request", "main", "same_surroundings"]

STALE, UNFIT = 75, 76  # exit statuses: a loaded file has changed; the process cannot be forked
_DECLINED = b"n"
_PATIENCE_S = 1.0  # for one answer
_HANDSHAKE_S = 3.0  # for all that comes before the streams are touched, and for threads to end
_GROUPS = "/sys/fs/cgroup"  # where they are mounted
_PAUSE_S = 0.05  # after what a lack of something has prevented
_TICK_NS = 50_000_000  # file systems stamp times with the clock of the kernel's tick
_LARGEST_BYTES = 16 * 1024 * 1024  # of a request: Linux takes 6 MB of words and variables
_HEAD_BYTES = 10
_FILES = 5  # standard input, output and error, the proof, and the folder
# Variables that an interpreter and its libraries read as they are loaded.
_FIXED = ("PYTHON", "LC_", "LANG", "LD_", "HOME", "LOCPATH", "GLIBC_", "MALLOC_", "OPENSSL_", "PYDANTIC_", "OMP_",
          "MKL_", "OPENBLAS_", "PERPETUAL_DIE_AT")  # fmt: skip
_SHARED = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
           "Seccomp_filters", "Cpus_allowed", "Mems_allowed", "SigIgn", "SigBlk")  # fmt: skip


class Request(NamedTuple):
    """What a sender asks for: the words of its command line, its variables and its open files."""

    identity: bytes
    words: list[str]
    variables: dict[bytes, bytes]
    files: list[int]


def main() -> None:
    """Loads what a server loads, and serves until the service has gone."""
    folder, alive, began = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    resident.is_here = True
    _reset_signals()
    mine = identity()
    _load()
    reason = _unfit()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        sys.exit(UNFIT)
    stamps = _stamps()
    if any(began - _TICK_NS < stamp.changed_ns <= time.time_ns() for stamp in stamps.values()):
        sys.exit(STALE)  # while it was loaded: which of the two was is not known
    listener, place = _listening(folder)
    gc.collect()
    gc.freeze()  # a session that collects must not copy every page
    bound = os.stat(SOCKET, dir_fd=place, follow_symlinks=False)
    call: _Call | None = None
    home = os.getpid()
    try:
        call = _sender(listener, alive)
    finally:
        if os.getpid() == home:
            with suppress(OSError):  # another's may be there by now
                if os.path.samestat(os.stat(SOCKET, dir_fd=place, follow_symlinks=False), bound):
                    os.unlink(SOCKET, dir_fd=place)
    os.close(place)
    if call is not None:
        _session(call, mine, stamps)


def _reset_signals() -> None:
    """Undoes what the process that started the service ignored or blocked; senders that do so serve alone."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _load() -> None:
    """Serves one client that asks for the list of tools: whatever a server imports is loaded then."""
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "perpetual", "version": "0"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]  # fmt: skip
    text = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    kept = os.dup(0), os.dup(1)
    incoming, fill = os.pipe()
    drain, outgoing = os.pipe()
    os.write(fill, text.encode())  # a pipe holds 64 KiB
    os.close(fill)
    reader = threading.Thread(target=_read, args=(drain,))
    reader.start()
    try:
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)
        os.close(incoming)
        os.close(outgoing)
        status = _go_on(["mcp"])
    finally:
        for number, copy in enumerate(kept):
            os.dup2(copy, number)
            os.close(copy)
        reader.join()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.getLogger().handlers.clear()  # they know the standard error and the terminal of this process
    if status != 0:
        raise PerpetualError(f"the MCP server has ended with status {status}", hint="perpetual mcp")


def _read(descriptor: int) -> None:
    with os.fdopen(descriptor, "rb") as answers:
        while answers.read(1 << 16):
            pass


def _go_on(words: list[str]) -> int:
    """Runs the command line in this process, and returns its exit status."""
    sys.argv = ["perpetual", *words]
    try:
        runpy.run_module("perpetual", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def _unfit() -> str | None:
    """Returns why this process cannot be forked: a thread may hold a lock that its copy would wait for without end."""
    until = time.monotonic() + _HANDSHAKE_S  # a thread that was joined is a moment yet in ending
    while (threads := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < until:
        time.sleep(_PAUSE_S)
    return None if threads == 1 else f"a plugin keeps {threads - 1} threads: every start loads its own modules"


class _Stamp(NamedTuple):
    """What tells a file from what it was; `changed_ns` cannot be set as the time of the last write can."""

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int


def _stamps() -> dict[str, _Stamp]:
    """Returns what is seen of every file that a loaded module came from."""
    files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    return {file: _stamp(file) for file in files if isinstance(file, str)}


def _stamp(file: str) -> _Stamp:
    try:
        seen = os.stat(file)
    except NotADirectoryError:  # in an archive
        return _stamp(os.path.dirname(file))
    except (OSError, ValueError):
        return _Stamp(-1, -1, -1, -1, -1)
    return _Stamp(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _listening(folder: str) -> tuple[socket.socket, int]:
    """Returns a socket that only this user reaches, and its folder; the caller holds the lock of the service."""
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    with suppress(FileNotFoundError):
        os.unlink(SOCKET, dir_fd=place)  # of one that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{place}/{SOCKET}")
    finally:
        os.umask(mask)
    listener.listen(64)
    return listener, place


class _Call(NamedTuple):
    """A start that was taken: the way to its sender, and what the sender is to open."""

    link: socket.socket
    number: int
    proof: os.stat_result


def _sender(listener: socket.socket, alive: int) -> _Call | None:
    """Returns, in a fork of its own for each start, what it has of its sender; here None once the service has gone.

    Raises:
        SystemExit: where a fork has found that a loaded file has changed.
    """
    children: set[int] = set()
    bell, ring = os.pipe()
    os.set_blocking(bell, False)
    os.set_blocking(ring, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ring)
    while True:
        ready = select.select([listener.fileno(), alive, bell], [], [])[0]
        if alive in ready:
            return None
        if bell in ready:
            os.read(bell, 512)
            for child in [*children]:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    children.discard(child)
                if ended and os.waitstatus_to_exitcode(status) == STALE:
                    sys.exit(STALE)
        if listener.fileno() in ready:
            try:
                link, _ = listener.accept()
            except OSError:  # too many files are open, or it has gone
                time.sleep(_PAUSE_S)
                continue
            try:
                child = os.fork()
            except OSError:  # too many processes, or too little memory: the sender serves alone
                link.close()
                time.sleep(_PAUSE_S)
                continue
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                call = _Call(link, listener.fileno(), os.fstat(listener.fileno()))
                listener.close()
                for number in (bell, ring, alive):
                    os.close(number)
                return call
            children.add(child)
            link.close()


def _session(call: _Call, mine: bytes, stamps: dict[str, _Stamp]) -> NoReturn:
    """Serves in the name of the process at the other end, and ends this process."""
    link = call.link
    os.setsid()
    signal.setitimer(signal.ITIMER_REAL, _HANDSHAKE_S)  # its signal ends this process
    link.settimeout(_PATIENCE_S)
    try:
        # First: a request of another version may not be understood here.
        if any(_stamp(file) != stamp for file, stamp in stamps.items()):
            with suppress(OSError):  # the sender has gone
                link.sendall(_DECLINED)
            os._exit(STALE)
        pid, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        request = _received(call, pid) if uid == os.geteuid() else None
        is_alike = request is not None and request.identity == mine and _same_variables(request.variables)
        if request is None or not is_alike or not same_surroundings(pid) or not _joins(pid):
            link.sendall(_DECLINED)
            os._exit(0)
        mask = _mask(pid)
        signal.setitimer(signal.ITIMER_REAL, 0)
        link.sendall(READY)
        if link.recv(1) != GO:
            os._exit(0)
    except OSError:  # the sender has gone, or serves by itself by now
        os._exit(0)
    link.settimeout(None)
    *streams, here = request.files
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.fchdir(here)
    os.close(here)
    os.umask(mask)
    _reseed()
    os.environb.clear()
    os.environb.update(request.variables)
    time.tzset()
    ended = threading.Event()
    threading.Thread(target=_end_with, args=(link, ended), daemon=True).start()
    status = _go_on(request.words)
    ended.set()
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(OSError):  # the sender has gone
        link.sendall(bytes([status & 0xFF]))
    sys.exit(status)


def _end_with(link: socket.socket, ended: threading.Event) -> None:
    """Ends this process, as a signal would, when the sender ends."""
    with suppress(OSError):  # it may end by a reset
        while link.recv(64):
            pass
    if not ended.is_set():
        os.kill(os.getpid(), signal.SIGKILL)


def _reseed() -> None:
    """Gives this process draws of its own; Python's own generators do so by themselves."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def _received(call: _Call, pid: int) -> Request | None:
    """Returns the request of a sender that may look into this process as this one into it; None where there is none."""
    theirs = call.link.recv(_HEAD_BYTES)
    if not theirs.strip().isdigit():
        return None
    try:
        opened = os.open(f"/proc/{pid}/fd/{int(theirs)}", os.O_PATH)
    except OSError:
        return None
    socket.send_fds(call.link, [b"%10d" % call.number], [opened])
    os.close(opened)
    head, files, _, _ = socket.recv_fds(call.link, _HEAD_BYTES, _FILES)
    if len(files) != _FILES or not head.strip().isdigit():
        return None
    *streams, proof, here = files
    is_proven = os.path.samestat(os.fstat(proof), call.proof)
    os.close(proof)
    size = int(head)
    if not is_proven or not 0 < size <= _LARGEST_BYTES:
        return None
    text = bytearray()
    while len(text) < size:
        more = call.link.recv(min(1 << 20, size - len(text)))
        if not more:
            return None
        text += more
    who, count, *rest = bytes(text).split(b"\0")
    if not count.isdigit() or len(count) > _HEAD_BYTES:
        return None
    words, variables = rest[: int(count)], rest[int(count) :]
    pairs = (item.partition(b"=") for item in variables)
    variables_of = {name: value for name, _, value in pairs if name}
    return Request(who, [os.fsdecode(word) for word in words], variables_of, [*streams, here])


def _same_variables(theirs: dict[bytes, bytes]) -> bool:
    """Returns whether the variables that the interpreter reads as it starts are the sender's."""
    fixed = tuple(name.encode() for name in _FIXED)
    ours = {name: value for name, value in os.environb.items() if name.startswith(fixed)}
    return ours == {name: value for name, value in theirs.items() if name.startswith(fixed)}


def same_surroundings(pid: int) -> bool:
    """Returns whether a process has the rights, limits and view of the machine that this one has.

    What cannot be read counts as another one: a process in another container has no number here.
    """
    try:
        return _scheduled(pid) == _scheduled(0) and _surroundings(f"/proc/{pid}") == _surroundings("/proc/self")
    except OSError:
        return False


def _scheduled(pid: int) -> tuple[int, int, int]:
    priority = os.sched_getparam(pid).sched_priority
    return os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid), priority


def _surroundings(process: str) -> list[object]:
    spaces = f"{process}/ns"
    found: list[object] = [os.readlink(f"{spaces}/{name}") for name in sorted(os.listdir(spaces))]
    root = os.stat(f"{process}/root")
    found += [root.st_dev, root.st_ino]
    for name in ("limits", "attr/current", "oom_score_adj"):
        try:
            with open(f"{process}/{name}", "rb") as file:
                found.append(file.read())
        except FileNotFoundError:  # a kernel without it
            found.append(None)
        except OSError as problem:  # security modules that are not in use say so
            found.append(problem.errno)
    lines = _status(process)
    found += [lines.get(name) for name in _SHARED]
    if lines.get("Seccomp", "0").strip() != "0":
        # Which filters these are cannot be seen. All have those of the first process.
        first = _status("/proc/1")
        found.append(all(lines.get(name) == first.get(name) for name in ("Seccomp", "Seccomp_filters")) or process)
    return found


def _status(process: str) -> dict[str, str]:
    with open(f"{process}/status", encoding="utf-8", errors="replace") as file:
        return dict(line.partition(":")[::2] for line in file)


def _mask(pid: int) -> int:
    return int(_status(f"/proc/{pid}")["Umask"], 8)


def _joins(pid: int) -> bool:
    """Puts this process under the limits of the sender's control groups; returns whether it is in the same ones."""
    theirs, mine = _groups(pid), _groups(os.getpid())
    for kind, path in theirs.items():
        if mine.get(kind) != path:
            controllers = kind.partition(":")[2]
            try:
                with open(f"{_GROUPS}/{controllers.removeprefix('name=')}{path}/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))
            except OSError:
                return False
    return _groups(os.getpid()) == theirs == _groups(pid)


def _groups(pid: int) -> dict[str, str]:
    """Returns the control group of a process in each hierarchy: `ID:CONTROLLERS` and its path."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            parts = (line.rstrip("\n").split(":", 2) for line in file)
            return {f"{number}:{controllers}": path for number, controllers, path in parts}
    except FileNotFoundError:  # a kernel without them, or the process has gone
        return {}


if __name__ == "__main__":
    main()
