"""The MCP server before real clients: the SDK's own over stdio, and raw lines at every revision of the protocol."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Implementation, TextResourceContents

from perpetual import Lab, __version__
from perpetual.api import Conflict, Provider, UsageError, hookimpl
from perpetual.brief import tokens_of
from perpetual.cli.app import run
from perpetual.registry import Registry
from perpetual_mcp.server import RESOURCE, Labs, make_server
from tests.plugins.mcp.clients import COMMAND, ENVELOPE, HANDSHAKES, MODERN, initialize, opener, raw, text_of, told

# --- the SDK's client over stdio ------------------------------------------------------------------------------------


def test_a_real_client_sees_reads_and_calls(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers the loss", metric="val_loss", direction="min", mde=0.05, baseline=2.3)
    # The SDK hands on a few variables only, so the test's own are given by name.
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=project, env=dict(os.environ))

    async def talk() -> None:
        async with Client(parameters, read_timeout_seconds=60) as client:
            assert client.protocol_version == MODERN
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("perpetual", __version__)
            assert client.instructions is not None
            assert "warm-up lowers the loss" in client.instructions  # the state, not only a description

            tools = (await client.list_tools()).tools
            assert tools[0].name == "perpetual_status"
            notes = tools[0].annotations
            assert notes is not None
            assert (notes.read_only_hint, notes.destructive_hint) == (True, False)

            result = await client.call_tool("perpetual_status", {})
            assert not result.is_error
            assert tools[0].output_schema is not None
            Draft202012Validator(tools[0].output_schema).validate(result.structured_content)
            assert result.structured_content is not None
            assert [item["id"] for item in result.structured_content["hypotheses"]] == ["h1"]
            assert result.structured_content["truncated"] is False
            assert text_of(result).startswith("# The state of the research (event 2)\n")

            listed = (await client.list_resources()).resources
            assert [(item.uri, item.mime_type) for item in listed] == [(RESOURCE, "text/markdown")]
            content = (await client.read_resource(RESOURCE)).contents[0]
            assert isinstance(content, TextResourceContents)
            assert content.mime_type == "text/markdown"
            with Lab.open(project) as lab:
                assert content.text.startswith(lab.brief())

            for name, arguments in (("perpetual_status", {"detail": "everything"}), ("perpetual_nothing", {})):
                refused = await client.call_tool(name, arguments)
                assert refused.is_error
                error = json.loads(text_of(refused))["error"]
                assert (error["code"], error["exit"]) == ("usage", 2)
                assert error["hint"]

    anyio.run(talk)


def test_status_over_mcp_is_the_command_s(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    with _client(lambda actor: Lab.open(project, actor=actor)) as call:
        assert call("perpetual_status", {}).structured_content == {
            **told,
            "truncated": False,
            "untrusted": ["/project"],
        }


# --- raw lines ------------------------------------------------------------------------------------------------------


# Starting a server costs a second: the default lane has the oldest and the newest revision; others have 2025-06-18.
@pytest.mark.parametrize(
    "version",
    [item if item == HANDSHAKES[-1] else pytest.param(item, marks=pytest.mark.slow) for item in HANDSHAKES],
)
def test_every_handshake_revision_is_served(project: Path, version: str) -> None:
    with raw(project) as server:
        # A client may send on before it has the answer, and may have asked in the newer way too: this opening decides.
        server.send(
            initialize(version),
            {"method": "notifications/initialized"},
            {"id": 7, "method": "server/discover", "params": ENVELOPE},
            {"id": 2, "method": "tools/call", "params": {"name": "perpetual_status", "arguments": {}}},
        )
        opened = server.receive()["result"]
        assert opened["protocolVersion"] == version
        assert opened["serverInfo"]["name"] == "perpetual"
        assert opened["capabilities"]["resources"]["subscribe"] is True
        assert "state of the research (event 1)" in opened["instructions"]
        answers = {answer["id"]: answer for answer in (server.receive(), server.receive())}
        assert answers[7]["error"]["code"] == -32600  # this connection is of the other era
        answered = answers[2]
        assert "state of the research" in answered["result"]["content"][0]["text"]
        assert answered["result"]["structuredContent"]["project"] == "test"

        # What another process, this one, changes is told to who subscribed.
        assert server.ask("resources/subscribe", uri=RESOURCE)["result"] == {}
        with Lab.open(project) as lab:
            lab.hypotheses.add("made elsewhere")
            assert told(server, "notifications/resources/updated") == {"uri": RESOURCE}
            # Only what was asked for, and nothing after the end of the subscription.
            assert server.ask("resources/unsubscribe", uri=RESOURCE)["result"] == {}
            assert server.ask("resources/subscribe", uri="hypothesis://h2")["result"] == {}
            lab.hypotheses.add("made elsewhere too")
            assert told(server, "notifications/resources/updated") == {"uri": "hypothesis://h2"}


@pytest.mark.slow
def test_a_client_that_asks_to_discover_first_is_served_without_a_handshake(project: Path) -> None:
    with raw(project) as server:
        # Both openings wait before the server reads anything; the first one decides.
        server.send({"id": 1, "method": "server/discover", "params": ENVELOPE}, initialize("2025-11-25", 2))
        answers = {answer["id"]: answer for answer in (server.receive(), server.receive())}
        assert answers[2]["error"]["code"] == -32022
        found = answers[1]["result"]
        assert MODERN in found["supportedVersions"]
        assert "state of the research (event 1)" in found["instructions"]
        assert "result" in server.ask("server/discover", **ENVELOPE)  # a client that was refused asks again
        parameters = {"name": "perpetual_status", "arguments": {}, **ENVELOPE}
        server.send({"id": 2, "method": "tools/call", "params": parameters})
        status = server.receive()["result"]
        assert (status["resultType"], status["structuredContent"]["schema"]) == ("complete", "perpetual.status/1")
        refused = server.ask("tools/call", name="perpetual_status", arguments={"detial": "low"}, **ENVELOPE)["result"]
        assert (refused["resultType"], refused["isError"]) == ("complete", True)

        wanted = {"notifications": {"resourceSubscriptions": [RESOURCE]}, **ENVELOPE}
        server.send({"id": 7, "method": "subscriptions/listen", "params": wanted})
        acknowledged = told(server, "notifications/subscriptions/acknowledged")
        assert acknowledged["notifications"]["resourceSubscriptions"] == [RESOURCE]
        with Lab.open(project) as lab:
            lab.hypotheses.add("made elsewhere")
        news = told(server, "notifications/resources/updated")
        assert news["uri"] == RESOURCE
        assert news["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7


@pytest.mark.slow
def test_an_unknown_resource_has_the_code_of_the_revision(project: Path) -> None:
    unknown = ("hypothesis://h9", "memory://notes/none.md", "nothing://at-all")
    with raw(project) as server:
        server.send(initialize("2025-11-25"), {"method": "notifications/initialized"})
        server.receive()
        assert [server.ask("resources/read", uri=uri)["error"]["code"] for uri in unknown] == [-32002] * 3
        assert server.ask("resources/read")["error"]["code"] == -32602  # no resource is named
        assert server.ask("prompts/get", name="none")["error"]["code"] == -32602
    with raw(project) as server:
        codes = [server.ask("resources/read", uri=uri, **ENVELOPE)["error"]["code"] for uri in unknown]
        assert codes == [-32602] * 3


@pytest.mark.slow
def test_no_client_is_asked_anything(project: Path) -> None:
    """The answer to a form comes from the client, not from a person: an approval must not rest on it."""
    with Lab.open(project) as lab:
        lab.experiments.propose(command="true")
    opening = initialize("2025-11-25")
    offers = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
    opening["params"]["capabilities"] = offers
    with raw(project) as server:
        server.send(opening, {"method": "notifications/initialized"})
        server.receive()
        for number, (name, arguments) in enumerate(
            (("run", {"experiment": "e1"}), ("wait", {"ids": ["e1"]}), ("scan", {}), ("memory", {}))
        ):
            parameters = {"name": f"perpetual_{name}", "arguments": arguments}
            server.send({"id": number, "method": "tools/call", "params": parameters})
            message = server.receive()
            assert (message.get("id"), "method" in message) == (number, False), message
            assert ("not_approved" in message["result"]["content"][0]["text"]) is (name == "run")


# --- starting -------------------------------------------------------------------------------------------------------


def test_the_reason_is_on_stderr_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["mcp"]) == 5
    told = capsys.readouterr()
    assert told.out == ""
    assert "no Perpetual project" in told.err
    assert run(["mcp", "--json"]) == 5
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["error"]["code"]) == ("perpetual.error/1", "no_project")


def test_a_broken_project_ends_before_the_protocol_begins(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".perpetual/config.yaml").write_text("store: [\n")
    assert run(["mcp"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "config.yaml:" in told.err


# --- in process -----------------------------------------------------------------------------------------------------


@contextmanager
def _client(open_lab: Callable[[str], Lab], **options: Any) -> Iterator[Callable[..., CallToolResult]]:
    """Calls tools of a server that runs in this process."""
    labs = Labs(open_lab)

    def call(name: str, arguments: dict[str, Any]) -> CallToolResult:
        async def talk() -> CallToolResult:
            async with Client(make_server(labs), **options) as client:
                return await client.call_tool(name, arguments)

        return anyio.run(talk)

    try:
        yield call
    finally:
        labs.close()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_lab_acts_in_the_name_of_the_client(project: Path, mode: str) -> None:
    actors: list[str] = []

    def open_lab(actor: str) -> Lab:
        actors.append(actor)
        return Lab.open(project, actor=actor)

    info = Implementation(name="co\ndex " + "x" * 90, version="0.9")
    with _client(open_lab, mode=mode, client_info=info) as call:
        assert not call("perpetual_status", {}).is_error
        assert not call("perpetual_status", {}).is_error
    # one without a name, for what plugins offer, then one for the client
    assert actors == ["mcp:unknown", "mcp:co dex " + "x" * 53 + "/0.9"]


@pytest.mark.parametrize(
    ("name", "version", "actor"),
    [
        ("", "", "mcp:unknown/?"),
        (" \n", "\u202e", "mcp:unknown/?"),
        ("user:root", "1\r2", "mcp:user:root/1 2"),
        ("x" * 9000, "9" * 9000, f"mcp:{'x' * 60}/{'9' * 20}"),
    ],
)
def test_an_actor_is_one_short_line_whatever_a_client_calls_itself(
    project: Path, name: str, version: str, actor: str
) -> None:
    with _client(opener(project), client_info=Implementation(name=name, version=version)) as call:
        assert not call("perpetual_hypotheses", {"action": "add", "text": "x"}).is_error
    with Lab.open(project) as lab:
        assert [event.actor for event in lab.events() if event.kind == "hypothesis_added"] == [actor]


@pytest.mark.parametrize(("detail", "most"), [("low", 2000), ("full", 8000)])
def test_an_answer_stays_within_its_bound_and_says_so(project: Path, detail: str, most: int) -> None:
    with Lab.open(project) as lab:
        for number in range(25):
            lab.hypotheses.add(f"{number} é" + "ä long statement " * 60)
    with _client(lambda actor: Lab.open(project, actor=actor)) as call:
        result = call("perpetual_status", {"detail": detail})
        both = json.dumps(result.structured_content, ensure_ascii=False) + text_of(result)
        assert tokens_of(both) <= most
        assert result.structured_content is not None
        assert result.structured_content["truncated"] is True
        assert result.structured_content["hypotheses_total"] == 25
        assert 0 < len(result.structured_content["hypotheses"]) <= 20


def test_an_error_of_the_lab_reaches_the_client_with_code_and_hint(project: Path) -> None:
    def open_lab(actor: str) -> Lab:
        if actor != "mcp:unknown":
            raise Conflict("the store takes one writer", hint="end the other process")
        return Lab.open(project, actor=actor)

    with _client(open_lab) as call:
        refused = call("perpetual_status", {})
        assert refused.is_error
        assert refused.structured_content is None
        assert json.loads(text_of(refused)) == {
            "schema": "perpetual.error/1",
            "error": {
                "code": "conflict",
                "message": "the store takes one writer",
                "hint": "end the other process",
                "exit": 6,
            },
            "untrusted": ["/error/message", "/error/hint"],
        }

    async def read() -> None:
        labs = Labs(open_lab)
        async with Client(make_server(labs)) as client:
            assert client.instructions is not None
            assert "cannot be read now (conflict)" in client.instructions
            assert "the store takes one writer" in client.instructions
            with pytest.raises(MCPError, match="the store takes one writer"):
                await client.read_resource(RESOURCE)
        labs.close()

    anyio.run(read)


# --- tools of plugins -----------------------------------------------------------------------------------------------


def weather(options: Mapping[str, Any]) -> Callable[..., dict[str, Any]]:
    def tool(lab: Lab, place: str, days: int = 1) -> dict[str, Any]:
        if place == "nowhere":
            raise UsageError("no such place", hint="try here")
        if days < 0:
            raise ZeroDivisionError("secret")
        return {"place": place, "days": days, "actor": lab.actor}

    return tool


def broken(options: Mapping[str, Any]) -> Callable[..., Any]:
    raise RuntimeError("no licence")


@pytest.fixture
def with_tools(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Lab]:
    """Opens labs whose registry has a plugin with three tools: a good one, a broken one, one whose name is taken."""
    monkeypatch.setitem(sys.modules, "acme_tools_for_tests", sys.modules[__name__])

    class Plugin:
        @hookimpl
        def perpetual_mcp_tools(self) -> list[Provider]:
            return [
                Provider("mcp_tool", "acme_weather", "acme_tools_for_tests:weather", "Weather of the cluster"),
                Provider("mcp_tool", "acme_broken", "acme_tools_for_tests:broken"),
                Provider("mcp_tool", "perpetual_status", "acme_tools_for_tests:weather"),
            ]

    registry = Registry(extra=[("acme", "tools", "1", Plugin)])
    return lambda actor: Lab.open(project, actor=actor, registry=registry)


def test_a_plugin_s_tool_is_served_and_a_broken_one_left_out(
    with_tools: Callable[[str], Lab], capsys: pytest.CaptureFixture[str]
) -> None:
    async def talk() -> None:
        labs = Labs(with_tools)
        async with Client(make_server(labs), client_info=Implementation(name="c", version="1")) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert "acme_weather" in tools
            assert "acme_broken" not in tools
            assert tools["acme_weather"].description == "Weather of the cluster"
            assert tools["acme_weather"].input_schema["required"] == ["place"]
            assert sorted(tools["acme_weather"].input_schema["properties"]) == ["days", "place"]  # no lab

            good = await client.call_tool("acme_weather", {"place": "here"})
            assert good.structured_content == {
                "place": "here",
                "days": 1,
                "actor": "mcp:c/1",
                "untrusted": ["/place", "/actor"],
            }
            refused = await client.call_tool("acme_weather", {"place": "nowhere"})
            assert json.loads(text_of(refused))["error"]["hint"] == "try here"
            assert refused.is_error
            crashed = await client.call_tool("acme_weather", {"place": "here", "days": -1})
            assert json.loads(text_of(crashed))["error"]["code"] == "internal"
            assert crashed.is_error
        labs.close()

    anyio.run(talk)
    told = capsys.readouterr().err
    assert "the tool acme/acme_broken is left out" in told
    assert "no licence" in told
    assert "the tool acme/perpetual_status is left out" in told
