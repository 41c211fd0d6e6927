"""The tools of an MCP server as tools of an agent, over standard input and output or over HTTP.

A connection lives in a task of its own, so that a server that breaks off ends no turn: its tools fail, and the agent
goes on. The server's process is started in the project's folder with a small environment, and ends with the turns that
it was started for, or with the process that they run in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO, cast

from perpetual.toolkit.fence import neutralise
from perpetual_agents.model import ToolSpec
from perpetual_agents.tools import Bound, ToolContext, ToolError, as_text

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import ContentBlock, RequestParamsMeta, Tool

__all__ = ["McpTool", "connect", "prefixed"]

_STARTS_S = 30.0  # for a server to start and to say what tools it has
_ENDS_S = 8.0  # for the client to end the server's process, by force at last
_MOST_TOOLS, _MOST_PAGES = 256, 64
_LONGEST_NAME = 64
_LONGEST_REASON = 300
_LONGEST_DESCRIPTION = 4_000
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_KEY = "perpetual/idempotency-key"  # in a call's metadata


class McpTool:
    """One tool of a server; `own` is its name there."""

    def __init__(self, session: _Session, own: str, spec: ToolSpec) -> None:
        self._session, self._own, self.spec = session, own, spec

    async def call(self, args: Mapping[str, object], context: ToolContext) -> str:
        """Calls it; the metadata of the call carries the idempotency key of the step.

        Raises:
            ToolError: where it answers with an error, and where the server is gone.
        """
        return await self._session.call(self._own, args, context.key)

    def named(self, name: str) -> McpTool:
        """Returns the same tool under another name."""
        return McpTool(self._session, self._own, replace(self.spec, name=name))


def prefixed(tool: Bound, server: str) -> Bound:
    """Returns a tool of a server whose name another tool has, under a name with the server's before it."""
    return tool.named(_fit(f"{server}_{tool.spec.name}")) if isinstance(tool, McpTool) else tool


async def connect(server: Mapping[str, object], root: str, stack: AsyncExitStack) -> Sequence[Bound]:
    """Returns the tools of a server, which is there until the stack is closed.

    Args:
        server: `{name, command, environment}`, its words and the names of variables that it gets, or `{name, url}`.
        root: the project's folder, in which its process works.
        stack: ends the connection and the process.

    Raises:
        ToolError: where it cannot be started or reached, or does not speak MCP.
    """
    session = _Session(server, root)
    stack.push_async_callback(session.close)
    listed = await session.open()
    found: dict[str, Bound] = {}
    for tool in listed[:_MOST_TOOLS]:
        name = _fit(tool.name)
        number = 1
        while name in found:
            number += 1
            name = f"{_fit(tool.name)[: _LONGEST_NAME - 4]}_{number}"
        description = (tool.description or tool.title or "")[:_LONGEST_DESCRIPTION]
        found[name] = McpTool(session, tool.name, ToolSpec(name, description, tool.input_schema))
    return [*found.values()]


def _fit(name: str) -> str:
    """Returns a name that providers of models take."""
    found = _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME] or "tool"
    return found if found[0].isalpha() or found[0] == "_" else f"_{found}"[:_LONGEST_NAME]


class _Session:
    """A connection to a server, in a task of its own."""

    def __init__(self, server: Mapping[str, object], root: str) -> None:
        self._server, self._root = server, root
        self.name = neutralise(server.get("name") or "the server", 60)
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._reason = "it has ended"

    async def open(self) -> list[Tool]:
        """Connects, and returns the server's tools. Raises ToolError."""
        ready: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready), name=f"mcp:{self.name}")
        try:
            async with asyncio.timeout(_STARTS_S):
                return await asyncio.shield(ready)
        except TimeoutError:
            await self.close()
            raise ToolError(f"the MCP server {self.name} does not answer within {_STARTS_S:g} s") from None

    async def _live(self, ready: asyncio.Future[list[Tool]]) -> None:
        logging.getLogger("mcp").addHandler(logging.NullHandler())  # what it has to say is in its errors
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            try:
                async with self._connected(errors) as client:
                    tools = await _tools(client)
                    self._client = client
                    if not ready.done():
                        ready.set_result(tools)
                    await self._over.wait()
            except Exception as problem:  # noqa: BLE001 - a server is a foreign part
                self._reason = _words(problem)
                if not ready.done():
                    said = _last_line(errors)
                    ready.set_exception(ToolError(
                        f"the MCP server {self.name} cannot be used: {said or self._reason}",
                        hint="plugins.agents.mcp_servers names its command or its url",
                    ))  # fmt: skip
            finally:
                self._client = None
                if not ready.done():
                    ready.cancel()

    def _connected(self, errors: TextIO) -> Client:
        from mcp.client.client import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp_types import Implementation

        info = Implementation(name="perpetual", version="1")
        words = [str(word) for word in cast("Sequence[object]", self._server.get("command") or ())]
        url = self._server.get("url")
        if words:
            names = cast("Sequence[object]", self._server.get("environment") or ())
            given = {str(name): os.environ[str(name)] for name in names if str(name) in os.environ}
            process = StdioServerParameters(command=words[0], args=words[1:], env=given, cwd=self._root)
            return Client(stdio_client(process, errlog=errors), client_info=info)
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            return Client(url, client_info=info)
        raise ToolError(f"the MCP server {self.name} has neither a command nor a url")

    async def call(self, name: str, args: Mapping[str, object], key: str) -> str:
        """Calls a tool. Raises ToolError."""
        client = self._client
        if client is None or self._task is None:
            raise ToolError(f"the MCP server {self.name} is gone: {self._reason}")
        asked = asyncio.ensure_future(client.call_tool(name, dict(args), meta=cast("RequestParamsMeta", {_KEY: key})))
        try:
            await asyncio.wait((asked, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise ToolError(f"the MCP server {self.name} is gone: {self._reason}")
            result = asked.result()
        except ToolError:
            raise
        except Exception as problem:
            raise ToolError(f"{self.name}: {_words(problem)}") from problem
        finally:
            asked.cancel()
        text = "\n".join(map(_text, result.content))
        if not text and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        if result.is_error:
            raise ToolError(as_text(text) or f"{name} failed")
        return as_text(text)

    async def close(self) -> None:
        """Ends the connection and the server's process; waits for both."""
        self._over.set()
        if self._task is None:
            return
        if self._client is None:
            self._task.cancel()  # it still starts, and looks at nothing else
        _, late = await asyncio.wait((self._task,), timeout=_ENDS_S)
        if late:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=_ENDS_S)


async def _tools(client: Client) -> list[Tool]:
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) >= _MOST_TOOLS:
            break
    return found


def _text(block: ContentBlock) -> str:
    """Returns what a model can read of a piece of a result."""
    if block.type == "text":
        return block.text
    if block.type == "resource":
        return block.resource.text if hasattr(block.resource, "text") else f"[{block.resource.uri}]"
    if block.type == "resource_link":
        return f"[{block.name}: {block.uri}]"
    return f"[{block.mime_type}, {len(block.data)} characters of base64]"


def _words(problem: BaseException) -> str:
    """Returns why a connection failed: the first cause of those that came together."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return neutralise(str(problem) or type(problem).__name__, _LONGEST_REASON)


def _last_line(errors: TextIO) -> str:
    """Returns the last line that a server has written to its standard error."""
    errors.flush()
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 4096))
    lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
    return neutralise(lines[-1], _LONGEST_REASON) if lines else ""
