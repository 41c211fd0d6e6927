"""A resident process that has the server's modules loaded, and forks a session for each start that is handed to it.

Started by the service `mcp` (`perpetual_mcp.warm`) as `python -m perpetual_mcp.resident FOLDER ALIVE`: the folder of
the project's services, and a pipe whose end tells that the service has gone. The sending half is
`perpetual.toolkit.resident`.

A session is a process of its own, which goes on as `python -m perpetual mcp` would from its first line: it reads the
configuration, what the project trusts, and the record anew. Only modules, and what follows from their code alone, are
there already. It takes the sender's words, variables, folder, umask and streams, and ends when the sender does. So that
a session is never more than what its sender could start, it is declined where the sender is another user, in another
container or sandbox, under other limits, or runs another interpreter; and where a loaded file has changed since.

Linux alone: it rests on `/proc`, and on fork in a process of one thread.
"""

from __future__ import annotations

import gc
import json
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
_PATIENCE_S = 1.0
_LARGEST_BYTES = 16 * 1024 * 1024  # of a request: Linux takes 6 MB of words and variables
_STREAMS = 4  # standard input, output and error, and the folder
_FIXED = ("PYTHON", "LC_", "LANG", "LD_", "HOME")  # variables that a loaded interpreter has read
_SHARED = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
           "Seccomp_filters", "Cpus_allowed", "Mems_allowed")  # fmt: skip


class Request(NamedTuple):
    """What a sender asks for: the words of its command line, its variables and its open files."""

    identity: bytes
    words: list[str]
    variables: dict[bytes, bytes]
    files: list[int]


def main() -> None:
    """Loads what a server loads, and serves until the service has gone."""
    folder, alive = sys.argv[1], int(sys.argv[2])
    resident.is_here = True
    _load()
    reason = _unfit()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        sys.exit(UNFIT)
    stamps = _stamps()
    listener, path = _listening(folder)
    gc.collect()
    gc.freeze()  # a session that collects must not copy every page
    link: socket.socket | None = None
    home = os.getpid()
    try:
        link = _sender(listener, alive)
    finally:
        if os.getpid() == home:
            os.unlink(path)
    if link is not None:
        _session(link, stamps)


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
    threads = len(os.listdir("/proc/self/task"))
    return None if threads == 1 else f"a plugin keeps {threads - 1} threads: every start loads its own modules"


def _stamps() -> dict[str, tuple[int, int]]:
    """Returns size and time of every file that a loaded module came from."""
    files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    found: dict[str, tuple[int, int]] = {}
    for file in files:
        if isinstance(file, str):
            found[file] = _stamp(file)
    return found


def _stamp(file: str) -> tuple[int, int]:
    try:
        seen = os.stat(file)
    except OSError:
        return (-1, -1)
    return seen.st_size, seen.st_mtime_ns


def _listening(folder: str) -> tuple[socket.socket, str]:
    """Returns a socket that only this user reaches, and its path; the caller holds the lock of the service."""
    path = os.path.join(folder, SOCKET)
    if os.path.lexists(path):
        os.unlink(path)  # of one that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    mask = os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{place}/{SOCKET}")
    finally:
        os.umask(mask)
        os.close(place)
    listener.listen(64)
    return listener, path


def _sender(listener: socket.socket, alive: int) -> socket.socket | None:
    """Returns, in a fork of its own for each start, the way to its sender; here None once the service has gone.

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
            link, _ = listener.accept()
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                for number in (bell, ring, alive):
                    os.close(number)
                return link
            children.add(child)
            link.close()


def _session(link: socket.socket, stamps: dict[str, tuple[int, int]]) -> NoReturn:
    """Serves in the name of the process at the other end of `link`, and ends this process."""
    os.setsid()
    link.settimeout(_PATIENCE_S)
    try:
        # First: a request of another version may not be understood here.
        if any(_stamp(file) != stamp for file, stamp in stamps.items()):
            with suppress(OSError):  # the sender has gone
                link.sendall(_DECLINED)
            os._exit(STALE)
        pid, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        request = _received(link)
        is_alike = request is not None and request.identity == identity() and _same_variables(request.variables)
        if request is None or not is_alike or uid != os.geteuid() or not same_surroundings(pid):
            link.sendall(_DECLINED)
            os._exit(0)
        mask = _mask(pid)
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
    while link.recv(64):
        pass
    if not ended.is_set():
        os.kill(os.getpid(), signal.SIGKILL)


def _received(link: socket.socket) -> Request | None:
    """Returns the request; None where it is none."""
    head, files, _, _ = socket.recv_fds(link, 10, _STREAMS)
    if len(files) != _STREAMS or not head.strip().isdigit():
        return None
    size = int(head)
    if not 0 < size <= _LARGEST_BYTES:
        return None
    text = bytearray()
    while len(text) < size:
        more = link.recv(min(1 << 20, size - len(text)))
        if not more:
            return None
        text += more
    who, count, *rest = bytes(text).split(b"\0")
    words, variables = rest[: int(count)], rest[int(count) :]
    pairs = (item.partition(b"=") for item in variables if item)
    return Request(who, [os.fsdecode(word) for word in words], {name: value for name, _, value in pairs}, files)


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
        if os.getpriority(os.PRIO_PROCESS, pid) != os.getpriority(os.PRIO_PROCESS, 0):
            return False
        return _surroundings(f"/proc/{pid}") == _surroundings("/proc/self")
    except OSError:
        return False


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
    with open(f"{process}/status", encoding="utf-8", errors="replace") as file:
        lines = dict(line.partition(":")[::2] for line in file)
    return [*found, *(lines.get(name) for name in _SHARED)]


def _mask(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        lines = dict(line.partition(":")[::2] for line in file)
    return int(lines["Umask"], 8)


if __name__ == "__main__":
    main()
