"""A start handed over: `perpetual mcp` goes on in a process that has its modules loaded, where one listens. Floor 0.

The receiving half is `perpetual_mcp.resident`. This process sends its words, variables, folder and standard streams,
and ends with the status of the session that serves in its name. Where nobody listens, the listener is another user's,
declines or does not answer in time, it serves by itself. Light: it is all that such a start imports.
"""

from __future__ import annotations

import os
import sys

__all__ = ["GO", "READY", "SOCKET", "hand_over", "identity", "stay"]

SOCKET = "mcp.socket"  # in the folder of the services
READY, GO = b"r", b"g"
_PATIENCE_S = 1.0  # a listener that is stopped must not keep a client waiting
_WORDS = frozenset({"mcp", "--tools", "core", "all", "--state", "--no-state"})
_is_here = False


def stay() -> None:
    """Has every later start of this process go on in it: it is the one that starts are handed to."""
    global _is_here
    _is_here = True


def identity() -> bytes:
    """Returns what two interpreters have in common that run the same program in the same way."""
    flags = sys.flags
    ways = (flags.optimize, flags.no_user_site, flags.no_site, flags.ignore_environment, flags.isolated,
            flags.dev_mode, flags.utf8_mode, sys.getfilesystemencoding())  # fmt: skip
    return repr((sys.prefix, sys.version, ways)).encode("utf-8", "surrogateescape")


def _services() -> str | None:
    """Returns the folder of the services of the project around; the session finds its project by itself."""
    try:
        here = os.environ.get("PERPETUAL_PROJECT") or os.getcwd()
    except FileNotFoundError:
        return None
    while not os.path.lexists(os.path.join(here, ".perpetual")):
        here, below = os.path.dirname(here), here
        if here == below:
            return None
    return os.path.join(here, ".perpetual", "services")


def hand_over(arguments: list[str]) -> int | None:
    """Returns the exit status of the session that a resident process has served; None to serve here.

    A harness under dispatch has its servers to itself: what it leaves behind is found among its own processes.
    """
    if sys.platform != "linux" or _is_here or not _WORDS.issuperset(arguments) or sys.stdin is None:
        return None
    services = None if "PERPETUAL_DISPATCH" in os.environ else _services()
    if services is None:
        return None
    import _socket

    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.settimeout(_PATIENCE_S)
    try:
        folder = os.open(services, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        link.connect(f"/proc/self/fd/{folder}/{SOCKET}")  # the path of a socket has 107 bytes at most
        owner = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8]
        if int.from_bytes(owner, sys.byteorder) != os.geteuid():
            return None
        here = os.open(".", os.O_PATH)
        variables = [name + b"=" + value for name, value in os.environb.items()]
        words = [identity(), b"%d" % len(arguments), *map(os.fsencode, arguments), *variables]
        request = b"\0".join(words)
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, here))
        link.sendmsg([b"%10d" % len(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        link.sendall(request)
        if link.recv(1) != READY:
            return None
        link.sendall(GO)  # only now does the session touch the streams
    except OSError:
        return None
    link.settimeout(None)
    status = link.recv(1)
    if not status:
        sys.stderr.write("error: the process that served has ended without a status\n")
    return status[0] if status else 1
