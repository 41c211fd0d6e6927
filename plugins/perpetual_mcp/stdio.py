"""Standard input and output as the server's wire, out of reach of whatever else the process prints.

While a `Wire` stands, file descriptor 0 is the null device and 1 is standard error, for subprocesses and C libraries
too; the wire is a private duplicate of both. The SDK is given its messages and takes its answers right here: its own
transport would put two tasks and two queues between, which cost as much again as a small answer. Pipes and sockets are
read by the event loop itself, a file or a terminal by threads. Used by `perpetual_mcp.server`.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol, Self

import anyio

from perpetual.api import PerpetualError

if TYPE_CHECKING:
    from typing import TypedDict

    from mcp.shared.message import SessionMessage

    class RpcError(TypedDict):
        """The error of JSON-RPC 2.0."""

        code: int
        message: str

    class Refusal(TypedDict):
        """The answer of JSON-RPC 2.0 to what is no message; the id is null where it has none."""

        jsonrpc: str
        id: str | int | None
        error: RpcError


__all__ = ["LONGEST_BYTES", "Incoming", "Outgoing", "Wire", "refusal_of"]

LONGEST_BYTES = 16 * 1024 * 1024  # of one message; a longer one is refused
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600  # JSON-RPC 2.0, section 5.1
_LEAVE_S = 5.0  # for a client that still reads what was answered last


class Wire(AbstractContextManager["Wire"]):
    """The standard streams, claimed for the protocol until it is closed."""

    def __init__(self) -> None:
        sys.stdout.flush()
        try:
            if sys.stdin is None:  # it was closed, and leads to nowhere now
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            self._in, self._out = _private(0), _private(1)
        except OSError as problem:
            raise PerpetualError(
                f"there is no standard input or output to serve on: {problem.strerror}",
                hint="a client starts `perpetual mcp` with pipes; for people there is --http",
            ) from problem
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)

    def __exit__(self, *_: object) -> None:
        """Puts the streams back."""
        sys.stdout.flush()
        os.dup2(self._in, 0)
        os.dup2(self._out, 1)
        os.close(self._in)
        os.close(self._out)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Incoming, Outgoing]]:
        """Yields the client's messages and the way back to it, as the SDK's server takes them."""
        if _is_pipe(self._in) and _is_pipe(self._out):
            async with self._pipes() as (lines, out):
                yield Incoming(lines, out), Outgoing(out)
            return
        # A thread may still wait for a line when serving has ended, so the descriptor is not closed with the file.
        incoming, outgoing = os.fdopen(self._in, "rb", closefd=False), os.fdopen(self._out, "wb", closefd=False)
        answers = _FileOut(anyio.wrap_file(outgoing))
        yield Incoming(aiter(anyio.wrap_file(incoming)), answers), Outgoing(answers)

    @asynccontextmanager
    async def _pipes(self) -> AsyncIterator[tuple[_Lines, _PipeOut]]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LONGEST_BYTES)
        # Duplicates: a transport closes what it was given, and the streams are still to be put back.
        incoming, outgoing = os.fdopen(os.dup(self._in), "rb", 0), os.fdopen(os.dup(self._out), "wb", 0)
        read, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), incoming)
        write, protocol = await loop.connect_write_pipe(lambda: _Leaving(read.close), outgoing)
        writer = asyncio.StreamWriter(write, protocol, None, loop)
        try:
            yield _Lines(reader), _PipeOut(writer)
        finally:
            read.close()
            writer.close()
            with anyio.move_on_after(_LEAVE_S, shield=True) as patience:
                # a client that leaves before it has read everything is an ordinary end
                with suppress(BrokenPipeError, ConnectionResetError):
                    await writer.wait_closed()
            if patience.cancelled_caught:
                write.abort()  # the client has stopped reading; closing would wait for it
            for descriptor in (self._in, self._out):
                os.set_blocking(descriptor, True)


class _Out(Protocol):
    """Where the answers go."""

    async def put(self, line: bytes) -> None:
        """Writes a line."""


class _Leaving(asyncio.StreamReaderProtocol):
    """Of the answers' pipe: a client that closes it hears nothing any more, so its requests end there too."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__(asyncio.StreamReader())
        self._end = end

    def connection_lost(self, exc: Exception | None) -> None:
        """Handles the end of the connection; called by the event loop."""
        super().connection_lost(exc)
        self._end()


class _Lines:
    """The client's lines from a pipe; one that is too long is passed on as empty bytes."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> bytes:
        is_too_long = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if not end.partial:
                    raise StopAsyncIteration from None
                line = end.partial
            except asyncio.LimitOverrunError as problem:
                await self._reader.readexactly(problem.consumed)
                is_too_long = True
                continue
            return b"" if is_too_long else line


class _PipeOut:
    """Lines to a pipe."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def put(self, line: bytes) -> None:
        self._writer.write(line + b"\n")
        await self._writer.drain()


class _FileOut:
    """Lines to a file or a terminal."""

    def __init__(self, file: anyio.AsyncFile[bytes]) -> None:
        self._file = file

    async def put(self, line: bytes) -> None:
        await self._file.write(line + b"\n")
        await self._file.flush()


class _Stream:
    """What both halves of the wire owe the SDK. It closes them when it has served; the `Wire` does so itself."""

    async def aclose(self) -> None:
        """Closes nothing: the wire owns the descriptors."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Incoming(_Stream):
    """The client's messages, one a line. A line that is none is refused here, so that no client waits in vain."""

    def __init__(self, lines: AsyncIterator[bytes], out: _Out) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        self._lines, self._out = lines, out
        self._parse, self._message = jsonrpc_message_adapter.validate_json, SessionMessage

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while True:
            line = await anext(self._lines)
            try:
                return self._message(self._parse(line, by_name=False))
            except ValueError:  # pydantic's own is one
                pass
            sound = _sound(line)
            try:
                return self._message(self._parse(sound, by_name=False))
            except ValueError:
                refusal = refusal_of(sound)
            if refusal is not None:
                with suppress(BrokenPipeError, ConnectionResetError):  # then the next line is the end
                    await self._out.put(json.dumps(refusal).encode())

    async def receive(self) -> SessionMessage:
        """Returns the next message.

        Raises:
            anyio.EndOfStream: after the last one.
        """
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None


class Outgoing(_Stream):
    """The way back to the client: one message a line."""

    def __init__(self, out: _Out) -> None:
        self._out = out

    async def send(self, item: SessionMessage, /) -> None:
        """Writes a message, and waits while the client is behind with its reading.

        Raises:
            anyio.BrokenResourceError: if the client has left.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await self._out.put(text.encode("utf-8", "backslashreplace"))
        except (BrokenPipeError, ConnectionResetError) as problem:
            raise anyio.BrokenResourceError from problem


def refusal_of(line: bytes) -> Refusal | None:
    """Returns the error that JSON-RPC answers to a line that is no message; None where it wants no answer.

    Unanswered stay blank lines, notifications, and what looks like an answer: to answer that could go on for ever.
    """
    if not line:
        return _refused(None, _INVALID_REQUEST, f"the message is longer than {LONGEST_BYTES} bytes")
    if not line.strip():
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _refused(None, _PARSE_ERROR, "the line is no JSON")
    if isinstance(found, list):
        return _refused(None, _INVALID_REQUEST, "batches are not served: one message a line")
    if not isinstance(found, dict):
        return _refused(None, _INVALID_REQUEST, "a message is an object")
    if "id" not in found or "result" in found or "error" in found:
        return None
    number = found["id"]
    id_ = number if isinstance(number, str) or type(number) is int else None
    return _refused(id_, _INVALID_REQUEST, 'a request has "jsonrpc": "2.0", a text or an integer as id, and a method')


def _refused(number: str | int | None, code: int, message: str) -> Refusal:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _sound(line: bytes) -> bytes:
    """Returns the line without bytes that are no UTF-8 and without halves of surrogate pairs: the SDK refuses both.

    Halves are text cut through an emoji, as programs in JavaScript write it.
    """
    text = line.decode("utf-8", "replace").encode()
    if b"\\ud" not in text.lower():
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return text  # no message in any case


def _private(descriptor: int) -> int:
    """Returns a duplicate that is not inherited and lies above the standard streams."""
    if sys.platform == "win32":
        return os.dup(descriptor)
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
