"""The tools of MCP servers in an agent's hands: real processes and a real HTTP server, and those that break off."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from perpetual import Lab
from perpetual_agents.agents import Agents
from perpetual_agents.mcp_client import connect, prefixed
from perpetual_agents.tools import Bound, ToolContext, ToolError
from tests.plugins.agents.support import Scripted, agent, call, say, work
from tests.support import until

Found = TypeVar("Found")
SERVER = '''
import os, sys
from mcp.server.mcpserver import MCPServer, Context

server = MCPServer("toys")

@server.tool()
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b

@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)

@server.tool()
def where() -> str:
    """Says where it is."""
    return os.getcwd()

@server.tool()
def variable(name: str) -> str:
    """Says what a variable holds."""
    return os.environ.get(name, "-")

@server.tool(name="odd.name/1")
def odd() -> str:
    """Has a name that no provider takes."""
    return "odd"

@server.tool()
def leave() -> str:
    """Ends the server."""
    os._exit(3)

@server.tool()
async def wait() -> str:
    """Never ends."""
    import anyio
    await anyio.sleep_forever()
    return ""

@server.tool()
def long() -> str:
    """Says much."""
    return "x" * 200_000

if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
'''


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    (tmp_path / "toys.py").write_text(SERVER)
    return [sys.executable, str(tmp_path / "toys.py")]


@pytest.fixture
def context(lab: Lab) -> ToolContext:
    return ToolContext(lab, Agents(lab).create("scout"), "b1/m1/1")


def with_tools(server: Mapping[str, object], root: Path, deed: Callable[[dict[str, Bound]], Awaitable[Found]]) -> Found:
    """Connects, does something with the tools, and leaves; the server's process has ended then."""

    async def whole() -> Found:
        async with AsyncExitStack() as stack:
            tools: Sequence[Bound] = await connect(server, str(root), stack)
            return await deed({tool.spec.name: tool for tool in tools})

    before = {child.pid for child in psutil.Process().children(recursive=True)}
    found = asyncio.run(whole())
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    return found


def refused(server: Mapping[str, object], root: Path) -> ToolError:
    async def nothing(tools: dict[str, Bound]) -> None:
        raise AssertionError("it was connected")

    with pytest.raises(ToolError) as caught:
        with_tools(server, root, nothing)
    assert caught.value.message.isprintable()
    return caught.value


@pytest.mark.slow
def test_tools_of_a_process_are_called(script: list[str], tmp_path: Path, context: ToolContext,
                                       monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("ACME_TOKEN", "t-1")
    monkeypatch.setenv("ACME_OTHER", "o-1")

    async def deed(tools: dict[str, Bound]) -> None:
        assert tools["add"].spec.description == "Adds two numbers."
        assert tools["add"].spec.schema["required"] == ["a"]
        assert await tools["add"].call({"a": 2, "b": 3}, context) == "5"
        assert await tools["where"].call({}, context) == str(tmp_path)
        assert await tools["variable"].call({"name": "ACME_TOKEN"}, context) == "t-1"
        assert await tools["variable"].call({"name": "ACME_OTHER"}, context) == "-"
        assert await tools["odd_name_1"].call({}, context) == "odd"
        assert len(await tools["long"].call({}, context)) < 70_000
        for name, args in (("fail", {"why": "too late"}), ("add", {"a": "no number"})):
            with pytest.raises(ToolError):
                await tools[name].call(args, context)
        with pytest.raises(ToolError, match="fail"):
            await tools["fail"].call({"why": "too late"}, context)
        late = asyncio.ensure_future(tools["wait"].call({}, context))
        await asyncio.wait([late], timeout=0.05)
        late.cancel()
        await asyncio.wait([late], timeout=2.0)
        assert late.cancelled()
        assert await tools["add"].call({"a": 1}, context) == "2"  # the connection is still there
        other = prefixed(tools["add"], "toys")
        assert other.spec.name == "toys_add"
        assert await other.call({"a": 1}, context) == "2"

    with_tools({"name": "toys", "command": script, "environment": ["ACME_TOKEN"]}, tmp_path, deed)


@pytest.mark.slow
def test_a_server_that_breaks_off_ends_no_turn(script: list[str], tmp_path: Path, context: ToolContext) -> None:
    async def deed(tools: dict[str, Bound]) -> None:
        for _ in range(2):
            with pytest.raises(ToolError):
                await tools["leave"].call({}, context)
        await asyncio.sleep(0)

    with_tools({"name": "toys", "command": script}, tmp_path, deed)


@pytest.mark.slow
def test_a_turn_that_is_cancelled_while_a_server_starts_leaves_none(tmp_path: Path) -> None:
    async def whole() -> None:
        async with AsyncExitStack() as stack:
            await connect({"name": "slow", "command": ["sleep", "60"]}, str(tmp_path), stack)

    async def cancelled() -> None:
        task = asyncio.ensure_future(whole())
        await asyncio.to_thread(until, lambda: bool(psutil.Process().children()))
        task.cancel()
        await asyncio.wait([task], timeout=10.0)
        assert task.cancelled()

    asyncio.run(cancelled())
    assert not psutil.Process().children()


@pytest.mark.slow
@pytest.mark.parametrize(("server", "words"), [
    ({"name": "a", "command": ["/no/such/program"]}, "no/such"),
    ({"name": "b", "command": [sys.executable, "-c", "import sys; sys.exit('no key is set')"]}, "no key is set"),
    ({"name": "c", "url": "http://127.0.0.1:9/mcp"}, "cannot be used"),
    ({"name": "d", "url": "file:///etc/passwd"}, "neither"),
    ({"name": "e"}, "neither"),
])  # fmt: skip
def test_one_that_cannot_be_started_says_why(server: Mapping[str, object], words: str, tmp_path: Path) -> None:
    assert words in refused(server, tmp_path).message


@pytest.fixture
def served(script: list[str]) -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = subprocess.Popen([*script, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_tools_over_http_are_called(served: str, tmp_path: Path, context: ToolContext) -> None:
    async def deed(tools: dict[str, Bound]) -> str:
        return await tools["add"].call({"a": 2}, context)

    assert with_tools({"name": "toys", "url": served}, tmp_path, deed) == "3"


@pytest.mark.slow
def test_an_agent_works_with_the_lab_over_its_own_mcp_server(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.hypotheses.add("warm-up lowers it")
    words = [sys.executable, "-P", "-m", "perpetual", "mcp"]
    kept = [name for name in os.environ if name.startswith("PERPETUAL_")]
    server = {"name": "lab", "command": words, "environment": kept}
    lab.settings.set_config("plugins.agents.mcp_servers", json.dumps([server]))
    id = agent(lab, tools=["mcp:lab"])
    backend = Scripted(say("", call("perpetual_hypotheses", action="list")), say("done"))
    began = time.monotonic()
    [message] = work(lab, id, backend, "what is open?")
    assert message["state"] == "done", message["error"]
    assert "warm-up lowers it" in str(backend.requests[-1].messages[-1]["text"])
    assert "perpetual_status" in [tool.name for tool in backend.requests[0].tools]
    assert time.monotonic() - began < 60
