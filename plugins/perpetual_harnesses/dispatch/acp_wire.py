"""The lines of a harness over ACP, as the library's connection takes them. Used by `over_acp`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from perpetual_harnesses.dispatch.messages import Json

__all__ = ["LONGEST_LINE_BYTES", "Wire"]

LONGEST_LINE_BYTES = 16 * 1024 * 1024
_MOST_REQUESTS, _LINES_AT_ONCE = 64, 32
_MOST_BAD_LINES = 100  # of what is no message, such as a warning that was printed to the wrong stream


class Wire:
    """The harness's lines as messages; updates of the session are taken right here, in their order."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, update: Callable[[Json], None]
    ) -> None:
        self._reader, self._writer, self._update = reader, writer, update
        self._bad = self._lines = 0
        self._open_requests = 0  # of the harness, that were not answered yet

    async def send(self, message: Json) -> None:
        """Writes a message, and waits until it is taken."""
        self._writer.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        await self._writer.drain()
        if "method" not in message:
            self._open_requests -= 1

    async def receive(self) -> Json | None:
        """Returns the next message that is no update; None at the end, and where what comes is none."""
        while True:
            self._lines += 1
            if self._lines % _LINES_AT_ONCE == 0:
                await asyncio.sleep(0)  # a flood of lines keeps no limit from being noticed
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, OSError):
                return None
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                self._bad += 1
                if self._bad > _MOST_BAD_LINES:
                    return None
                continue
            if message.get("method") == "session/update":
                parameters = message.get("params")
                if isinstance(parameters, dict) and isinstance(parameters.get("update"), dict):
                    self._update(parameters["update"])
                continue
            if "method" in message and "id" in message:
                self._open_requests += 1
                if self._open_requests > _MOST_REQUESTS:
                    return None  # it asks on without taking the answers
            return message

    async def close(self) -> None:
        """Closes the way to the harness."""
        self._writer.close()
