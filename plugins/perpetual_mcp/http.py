"""Streamable HTTP: the same server on a port of this machine, behind a token. Used by `perpetual_mcp.server`.

A web page in a person's browser can send requests to a port of that machine. So every request, whatever its method
and path, must name this server in its Host header, must not come from a foreign Origin, and must bring the token.
Other machines are kept out by the address; only the option `hosts` lets them in, by the names that they may use.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.api import PerpetualError, UsageError
from perpetual.toolkit import user_state
from perpetual.toolkit.confined import explain, read_bytes
from perpetual.toolkit.hosts import is_loopback
from perpetual.toolkit.units import whole_number
from perpetual_mcp.sessions import Labs

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import Scope

__all__ = ["PATH", "TOKEN_VARIABLE", "Guard", "address_of", "serve_http", "token_of"]

PATH = "/mcp"
TOKEN_VARIABLE = "PERPETUAL_MCP_TOKEN"
_LONGEST = 4096  # bytes of its file
_LEAST = 16  # characters of a token
_GRACE_S = 2  # for open streams at the end
_BACKLOG = 128  # connections that wait to be taken

Send = Callable[[dict[str, object]], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]


def address_of(text: str, hosts: Sequence[str] = ()) -> tuple[str, int]:
    """Parses host and port of `HOST:PORT`.

    Raises:
        UsageError: for anything else, and for an address that other machines reach, unless `hosts` names them.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = whole_number(port)
    if not host or number is None or number > 65535:
        raise UsageError(f"--http takes HOST:PORT, not {text!r}", hint="127.0.0.1:8321; port 0 takes any that is free")
    if not hosts and not is_loopback(host):
        raise UsageError(
            f"other machines can reach {host}, and any holder of the token could run this project's experiments",
            hint="listen on 127.0.0.1; or name the hosts that clients may use: perpetual config set plugins.mcp.hosts",
            code="not_loopback",
        )
    return host, number


def token_of(root: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """Returns the token that clients must send, and its source: the environment, or a file that only its owner reads.

    Raises:
        UsageError: for one that is too short to keep anybody out.
        PerpetualError: for a file that others could read.
    """
    given = environment.get(TOKEN_VARIABLE)
    if given is not None:
        return _checked(given, f"${TOKEN_VARIABLE}"), f"${TOKEN_VARIABLE}"
    file = _file_of(root)
    try:
        if not os.path.lexists(file):
            _make_token(file)
        found = os.lstat(file)
        again = f"remove it, and a new token is made: rm {file}"
        if not stat.S_ISREG(found.st_mode) or (hasattr(os, "getuid") and found.st_uid not in (os.getuid(), 0)):
            raise PerpetualError(f"{file} is no file of yours", hint=again)
        if sys.platform != "win32" and found.st_mode & 0o077:
            raise PerpetualError(f"others can read {file}", hint=again)
        return _checked(read_bytes(file, limit=_LONGEST).decode("utf-8", "replace").strip(), str(file)), str(file)
    except OSError as problem:
        raise explain(problem) or problem from problem


def _file_of(root: Path) -> Path:
    """Returns the token's file, in the user's own state folder: one that comes with a project is known to others."""
    folder = user_state.folder() / "mcp"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{sha256(os.fsencode(root.resolve())).hexdigest()[:32]}.token"


def _make_token(file: Path) -> None:
    """Writes a new token; where two servers do so at once, the first one's stands, and neither sees half of it."""
    new = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            out.write(secrets.token_urlsafe(32) + "\n")
        try:
            os.link(new, file)
        except FileExistsError:
            return  # the other one's
        except OSError:
            os.replace(new, file)  # a file system without links
    finally:
        new.unlink(missing_ok=True)


def _checked(token: str, where: str) -> str:
    if len(token) < _LEAST or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"the token in {where} is no word of {_LEAST} ASCII characters or more", hint="remove it")
    return token


class Guard:
    """The ASGI application behind the three checks; every scope but the start and the end passes through them."""

    def __init__(self, app: App, port: int, token: str, hosts: Sequence[str] = ()) -> None:
        self._app = app
        self._token = token.encode("ascii")
        names = [name.lower() for name in hosts] or ["127.0.0.1", "localhost", "[::1]"]
        ported = [name if name.rpartition("]")[2].count(":") else f"{name}:{port}" for name in names]
        self._hosts = {*ported, *(names if port == 80 or hosts else ())}
        self._origins = {f"http://{name}" for name in self._hosts} | ({f"https://{name}" for name in hosts})

    async def __call__(self, scope: Scope, receive: object, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope["headers"])
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await _refuse(send, *refusal)

    def _refusal(self, headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, str, str] | None:
        """Status, code and message of a refusal, or None."""
        named = [value.decode("latin-1").lower() for name, value in headers if name.lower() == b"host"]
        if len(named) != 1 or named[0] not in self._hosts:
            return 421, "foreign_host", "this server does not go by that name"
        origins = [value.decode("latin-1").lower() for name, value in headers if name.lower() == b"origin"]
        if any(origin not in self._origins for origin in origins):
            return 403, "foreign_origin", "requests of that web page are not served"
        brought = [value for name, value in headers if name.lower() == b"authorization"]
        scheme, _, token = brought[0].partition(b" ") if len(brought) == 1 else (b"", b"", b"")
        # the scheme's name is case-insensitive (RFC 9110, section 11.1)
        if scheme.lower() != b"bearer" or not secrets.compare_digest(token.strip(b" "), self._token):
            return 401, "no_token", "the request does not bring this server's token"
        return None


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    error = {
        "code": code,
        "message": message,
        "hint": "the server names its address and its token's file as it starts",
        "exit": 4,
    }
    body = json.dumps({"schema": "perpetual.error/1", "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve_http(labs: Labs, make: Callable[[], MCPServer[object]], address: str, hosts: Sequence[str]) -> None:
    """Serves on `address` until TERM or an interrupt; tells on standard error where, and the token.

    Raises:
        UsageError: as `address_of` and `token_of`. PerpetualError: if the address cannot be had.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    from perpetual_mcp.http_timeouts import PatientProtocol

    host, port = address_of(address, hosts)
    token, where = token_of(labs.lab().root, os.environ)
    try:
        listening = _listen(host, port)
    except OSError as problem:
        raise PerpetualError(
            f"{address} cannot be listened on: {problem.strerror or problem}", hint="another port; 0 takes any"
        ) from problem
    with listening:
        port = listening.getsockname()[1]
        app = make().streamable_http_app(
            streamable_http_path=PATH,
            # the guard stands before every path, this one only before its own
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        config = uvicorn.Config(
            Guard(app, port, token, hosts),
            http=PatientProtocol,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            ws="none",
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        shown = f"[{host}]" if ":" in host else host
        made = f" (kept in {where})" if not where.startswith("$") else f" (from {where})"
        # A service's log keeps its input; a terminal is read by the person at it.
        bearer = token if sys.stderr.isatty() and not where.startswith("$") else "TOKEN"
        sys.stderr.write(f"perpetual mcp: listening on http://{shown}:{port}{PATH}\n")
        sys.stderr.write(f"perpetual mcp: clients send the header Authorization: Bearer {bearer}{made}\n")
        sys.stderr.flush()
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    found = socket.socket(family, kind, number)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(_BACKLOG)  # at once: a reader of the address may call before the server has started
    except OSError:
        found.close()
        raise
    return found
