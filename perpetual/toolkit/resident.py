"""A start handed over: `perpetual mcp` goes on in a process that has its modules loaded, where one listens. Floor 0.

The receiving half is `perpetual_mcp.resident`. This process sends its words, variables, folder and standard streams,
and ends with the status of the session that serves in its name. Where none listens, or one that is another user's, that
could not read all this in /proc anyway, declines or is late, it serves by itself. Light: all that such a start imports.
"""

from __future__ import annotations

import os
import sys

from perpetual.toolkit.agents import DISPATCH

__all__ = ["GO", "READY", "SOCKET", "hand_over", "identity"]

SOCKET = "mcp.socket"  # in the folder of the services
READY, GO = b"r", b"g"
_PATIENCE_S = 1.0  # a listener that is stopped must not keep a client waiting
_WORDS = frozenset({"mcp", "--tools", "core", "all", "--state", "--no-state"})
is_here = False  # set where starts are handed to


def identity() -> bytes:
    """Returns what two interpreters have in common that run the same program in the same way."""
    way = (sys.prefix, sys.version, sys.flags[:16], sys.getfilesystemencoding(), sys.warnoptions, sys._xoptions)
    return repr((*way, sys.path[not sys.flags.safe_path :])).encode("utf-8", "surrogateescape")


def _services() -> str:
    """Returns where the services of the project around would be; the session finds its project by itself."""
    here = os.environ.get("PERPETUAL_PROJECT") or os.getcwd()
    while not os.path.lexists(os.path.join(here, ".perpetual")) and here != os.path.dirname(here):
        here = os.path.dirname(here)
    return os.path.join(here, ".perpetual", "services")


def hand_over(arguments: list[str]) -> int | None:
    """Returns the exit status of the session that a resident process has served; None to serve here."""
    # A harness under dispatch has its servers to itself: what it leaves behind is found among its own processes.
    is_able = sys.platform == "linux" and sys.stdin is not None and not sys.stdin.isatty() and not is_here
    if not is_able or not _WORDS.issuperset(arguments) or DISPATCH in os.environ:
        return None
    import _signal  # type: ignore[import-not-found, unused-ignore]  # as in `perpetual.entry`
    import _socket

    link, opened = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM), list[int]()
    try:
        link.settimeout(_PATIENCE_S)
        opened.append(os.open(_services(), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW))
        link.connect(f"/proc/self/fd/{opened[-1]}/{SOCKET}")  # the path of a socket has 107 bytes at most
        pid, uid, _ = memoryview(link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)).cast("i")
        if uid != os.geteuid():
            return None
        link.sendall(b"%10d" % link.fileno())  # to open that shows the right to read the rest too
        number, ((_, _, files), *_), *_ = link.recvmsg(10, 20)
        opened += memoryview(files).cast("i")
        if not os.path.sameopenfile(opened[-1], link.fileno()):
            return None
        opened += [os.open(f"/proc/{pid}/fd/{int(number)}", os.O_PATH), os.open(".", os.O_PATH)]  # and the other way
        variables = [name + b"=" + value for name, value in os.environb.items() if name]
        request = b"\0".join([identity(), b"%d" % len(arguments), *map(os.fsencode, arguments), *variables])
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, *opened[-2:]))
        link.sendmsg([b"%10d" % len(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        link.sendall(request)
        if link.recv(1) != READY:
            return None
        link.sendall(GO)  # only now does the session touch the streams
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # as the server has it
        link.settimeout(None)
        status = link.recv(1)
    except (OSError, ValueError):  # the connection is reset where the session has ended before it read GO
        return None
    finally:
        link.close()
        for file in opened:
            os.close(file)
    sys.stderr.write("" if status else "error: the process that served has ended without a status\n")
    return status[0] if status else 1
