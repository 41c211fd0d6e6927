"""Standard input and output as the server's wire, out of reach of whatever else the process prints.

While a `Wire` stands, file descriptor 0 is the null device and 1 is standard error, for subprocesses and C libraries
too; the wire is a private duplicate of both. Pipes and sockets are read by the event loop itself, which costs half of
what the SDK's threads cost; a file or a terminal is read by them. Used by `perpetual_mcp.server`.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any

import anyio

from perpetual.api import PerpetualError

__all__ = ["LONGEST_BYTES", "Wire"]

LONGEST_BYTES = 16 * 1024 * 1024  # of one message; a longer one is dropped
_LEAVE_S = 5.0  # for a client that still reads what was answered last


class Wire(AbstractContextManager["Wire"]):
    """The standard streams, claimed for the protocol until it is closed."""

    def __init__(self) -> None:
        sys.stdout.flush()
        try:
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
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """What the SDK takes as its standard input and output."""
        if _is_pipe(self._in) and _is_pipe(self._out):
            async with self._pipes() as both:
                yield both
            return
        # A thread may still wait for a line when serving has ended, so the descriptor is not closed with the file.
        incoming = os.fdopen(self._in, encoding="utf-8", errors="replace", closefd=False)
        outgoing = os.fdopen(self._out, "w", encoding="utf-8", closefd=False)
        yield anyio.wrap_file(incoming), anyio.wrap_file(outgoing)

    @asynccontextmanager
    async def _pipes(self) -> AsyncIterator[tuple[Any, Any]]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LONGEST_BYTES)
        # Duplicates: a transport closes what it was given, and the streams are still to be put back.
        incoming, outgoing = os.fdopen(os.dup(self._in), "rb", 0), os.fdopen(os.dup(self._out), "wb", 0)
        read, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), incoming)
        write, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), outgoing
        )
        writer = asyncio.StreamWriter(write, protocol, None, loop)
        try:
            yield _Lines(reader), _Out(writer)
        finally:
            read.close()
            writer.close()
            with anyio.move_on_after(_LEAVE_S, shield=True) as patience:
                # a client that leaves before it has read everything is an ordinary end
                with suppress(BrokenPipeError, ConnectionResetError):
                    await writer.wait_closed()
            if patience.cancelled_caught:
                write.abort()  # the client reads no more; closing would wait for it
            for descriptor in (self._in, self._out):
                os.set_blocking(descriptor, True)


class _Lines:
    """The client's messages, one a line."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
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
            return "" if is_too_long else _sound(line).decode("utf-8", "replace")


def _sound(line: bytes) -> bytes:
    """The line without halves of surrogate pairs: text cut through an emoji, as programs in JavaScript write it.

    The SDK's parser drops a message that holds one, and its client would wait for an answer in vain.
    """
    if b"\\ud" not in line.lower():
        return line
    try:
        return json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return line  # no message in any case


class _Out:
    """Where the answers go."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode("utf-8", "backslashreplace"))

    async def flush(self) -> None:
        await self._writer.drain()


def _private(descriptor: int) -> int:
    """A duplicate that is not inherited and lies above the standard streams."""
    if sys.platform == "win32":
        return os.dup(descriptor)
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
