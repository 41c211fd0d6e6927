"""The clients of these tests: the SDK's own against a server of this process, and raw lines to a real one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp_types import CallToolResult, Implementation, TextContent

from perpetual import Lab
from perpetual_mcp.server import Labs, make_server

COMMAND = [sys.executable, "-m", "perpetual", "mcp"]
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "7"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


def text_of(result: CallToolResult) -> str:
    """The words of an answer."""
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The error of a refused call."""
    assert result.is_error, text_of(result)
    document = json.loads(text_of(result))
    assert document["schema"] == "perpetual.error/1"
    error: dict[str, Any] = document["error"]
    return error


def opener(project: Path) -> Callable[[str], Lab]:
    """Opens the project's lab for an actor."""
    return lambda actor: Lab.open(project, actor=actor)


def talk(
    open_lab: Callable[[str], Lab],
    deed: Callable[[Client], Awaitable[Any]],
    *,
    allow_approve: bool = False,
    tools: str = "all",
    state: bool = True,
    **options: Any,
) -> Any:
    """What the deed answers, done with a client of a server that runs in this process."""
    labs = Labs(open_lab)

    async def conversation() -> Any:
        server = make_server(labs, allow_approve=allow_approve, tools=tools, state=state)
        options.setdefault("client_info", Implementation(name="c", version="1"))
        async with Client(server, **options) as client:
            return await deed(client)

    try:
        return anyio.run(conversation)
    finally:
        labs.close()


class Raw:
    """A server's process and its two pipes; nothing is understood here."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.number = 100

    def write(self, text: str) -> None:
        """Sends characters as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def send(self, *messages: dict[str, Any]) -> None:
        """Sends messages."""
        for message in messages:
            self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def receive(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a request, whatever notifications come before it."""
        self.number += 1
        self.send({"id": self.number, "method": method, "params": parameters})
        while (message := self.receive()).get("id") != self.number:
            assert "method" in message, message
        return message


def told(server: Raw, method: str) -> dict[str, Any]:
    """The next notification of this kind."""
    while (message := server.receive()).get("method") != method:
        continue
    parameters: dict[str, Any] = message["params"]
    return parameters


@contextmanager
def raw(folder: Path, *words: str, quiet: bool = True) -> Iterator[Raw]:
    """A real server; at the end its client leaves, and it must end as a success (and in silence)."""
    server = Raw(folder, *words)
    try:
        yield server
        if server.process.poll() is None:
            _, errors = server.process.communicate(timeout=60)  # closes standard input: the client leaves
            assert server.process.returncode == 0, errors
            assert not quiet or errors == ""
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


def initialize(version: str, number: int = 1) -> dict[str, Any]:
    """The older opening."""
    client = {"name": "raw", "version": "7"}
    parameters = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return {"id": number, "method": "initialize", "params": parameters}
