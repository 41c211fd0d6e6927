"""The MCP suite bites: a small server that keeps every promise passes, and with one fault at a time it fails.

The server is written by hand, without the SDK: a line is a message. What it does wrong is its argument.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from perpetual.testing.mcp_servers import McpContract, Place, make_place

_SERVER = """
import inspect, json, os, signal, sys
fault = sys.argv[1]
wire = os.fdopen(os.dup(1), "w")
if fault != "prints":
    os.dup2(2, 1)
if fault == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
from perpetual import Lab
from perpetual.errors import PerpetualError, UsageError
from perpetual.toolkit.untrusted import seal

lab, later = None, []

def opened(actor):
    global lab, tools
    lab = Lab.open(actor="mcp:unknown" if fault == "nameless" else actor)
    offers = [] if fault == "alone" else lab.registry.serving("mcp_tool")
    tools = {offer.provider.name: (offer.provider.summary, lab.registry.build(offer, {})) for offer in offers}
    tools["perpetual_status"] = ("Where the research stands.", status)
    if fault == "approves":
        tools["perpetual_approve"] = ("Approves an experiment.", approve)
    if fault == "approves-quietly":
        tools["perpetual_launch"] = ("Launches an experiment.", approve)

def approve(lab, id):
    return {"id": lab.experiments.approve_all([id], allowed=True)[0].id}

first = {}

def status(lab):
    document = {"schema": "perpetual.status/1", **lab.status()}
    if fault == "miscounts":
        document["seq"] += 1
    return first.setdefault("status", document) if fault == "stale" else document

def read():
    text = lab.brief()
    return first.setdefault("brief", text) if fault == "stale-resource" else text

def described(name, summary, tool):
    names = [*inspect.signature(tool).parameters][1:]
    found = {"name": name, "description": summary,
             "inputSchema": {"type": "object", "properties": {item: {} for item in names}, "required": names}}
    if name == "perpetual_status" and fault != "undescribed":
        found["outputSchema"] = {"type": "object"}
        found["annotations"] = {"readOnlyHint": True, "destructiveHint": False}
    return found

def failed(problem):
    error = {"schema": "perpetual.error/1", "error": problem.document()}
    text = problem.message if fault == "vague" else json.dumps(error)
    return {"content": [{"type": "text", "text": text}], "isError": fault != "cheerful"}

def call(name, arguments):
    try:
        if name not in tools:
            raise UsageError(f"unknown tool {name}", hint="tools/list")
        tool = tools[name][1]
        if {*arguments} != {*[*inspect.signature(tool).parameters][1:]}:
            raise UsageError(f"wrong arguments of {name}", hint="tools/list")
        if fault == "late" and name == "acme_add":
            later.append(arguments)
            return {"content": [], "structuredContent": {"id": "h2"}}
        answer = tool(lab, **arguments)
    except PerpetualError as problem:
        return failed(problem)
    except Exception as problem:
        if fault == "fragile":
            raise
        return failed(PerpetualError(f"{type(problem).__name__}: {problem}", code="internal"))
    if fault != "gullible":
        answer = seal(answer)
    text = lab.brief() if name == "perpetual_status" and fault != "unfenced" else json.dumps(answer)
    if fault == "unfenced":
        text = text.replace("{", "", 1)
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer}

def answer(method, given):
    if method == "initialize":
        client = given["clientInfo"]
        opened(f"mcp:{client['name']}/{client['version']}")
        return {"protocolVersion": "2025-06-18", "serverInfo": {"name": "twin", "version": "1"},
                "capabilities": {"tools": {}, "resources": {}},
                "instructions": "A research lab." if fault == "silent" else lab.brief()}
    if method == "tools/list":
        return {"tools": [described(name, *tool) for name, tool in tools.items()]}
    if method == "tools/call":
        return call(given["name"], given.get("arguments") or {})
    if method == "resources/list":
        return {"resources": [{"uri": "live-state://research", "name": "research", "mimeType": "text/markdown"}]}
    if method == "resources/read":
        item = {"uri": "live-state://research", "mimeType": "text/markdown", "text": read()}
        return {"contents": [item]}
    return None

for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        if fault == "brittle":
            raise
        continue
    if isinstance(message, dict) and "id" in message and isinstance(message.get("method"), str):
        result = answer(message["method"], message.get("params", {}))
        body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown method"}}
        wire.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\\n")
        wire.flush()
for arguments in later:
    lab.hypotheses.add(**arguments)
while fault == "stays":
    signal.pause()
"""

BROKEN: list[tuple[str, str]] = [
    ("silent", "test_it_opens_with_its_name_and_the_state"),
    ("undescribed", "test_tools_are_described"),
    ("alone", "test_tools_of_plugins_are_served"),
    ("miscounts", "test_status_is_the_lab_s"),
    ("stale", "test_what_others_change_is_told_at_the_next_call"),
    ("stale-resource", "test_the_live_state_is_a_resource"),
    ("gullible", "test_what_others_wrote_is_marked"),
    ("unfenced", "test_what_others_wrote_is_marked"),
    ("vague", "test_an_error_has_its_code_and_hint"),
    ("cheerful", "test_an_error_has_its_code_and_hint"),
    ("fragile", "test_a_tool_that_crashes_ends_nothing"),
    ("brittle", "test_a_line_that_is_no_message_ends_nothing"),
    ("nameless", "test_deeds_are_done_in_the_client_s_name"),
    ("approves", "test_nothing_starts_that_nobody_approved"),
    ("approves-quietly", "test_nothing_starts_that_nobody_approved"),
    ("prints", "test_stray_prints_do_not_reach_the_stream"),
    ("late", "test_what_was_answered_is_durable_when_it_is_ended"),
    ("deaf", "test_what_was_answered_is_durable_when_it_is_ended"),
    ("stays", "test_it_ends_when_its_client_leaves"),
]

pytest_plugins = ["pytester"]


class Impatient(McpContract):
    """The suite, which here waits for what never comes."""

    patience_s: ClassVar[float] = 5.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small server's file."""
    file = tmp_path_factory.mktemp("twin") / "server.py"
    file.write_text(_SERVER)
    return file


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(McpContract).items() if name.startswith("test_")}


def _run(suite: McpContract, name: str, server: Path, fault: str, folder: Path) -> None:
    test = _tests()[name]
    assert [*inspect.signature(test).parameters] == ["self", "place", "command"]
    place: Place = make_place(folder)
    test(suite, place, [sys.executable, str(server), fault])


def test_there_is_a_broken_twin_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == set(_tests())


@pytest.mark.parametrize("name", sorted({name for _, name in BROKEN}))
def test_a_server_that_keeps_its_promises_passes(name: str, server: Path, tmp_path: Path) -> None:
    _run(McpContract(), name, server, "none", tmp_path)


@pytest.mark.parametrize(("fault", "name"), BROKEN, ids=[fault for fault, _ in BROKEN])
@pytest.mark.slow
def test_a_broken_server_fails(fault: str, name: str, server: Path, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)) as caught:
        _run(Impatient() if fault in ("deaf", "stays") else McpContract(), name, server, fault, tmp_path)
    # By the fault itself: a server that merely fell over would prove nothing.
    assert fault == "fragile" or "the conversation failed" not in str(caught.value)


@pytest.mark.slow
def test_an_outsider_chooses_the_server_by_a_variable(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        import pytest
        from perpetual.testing.mcp_servers import McpContract

        class TestServer(McpContract):
            @pytest.fixture(params=["mcp", "no-such-server"])
            def command(self, request, monkeypatch):
                monkeypatch.setenv("PERPETUAL_MCP", request.param)
                return [sys.executable, "-m", "perpetual", "mcp"]
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", "leaves", "-v")
    result.assert_outcomes(passed=1, failed=1, deselected=28)
    result.stdout.fnmatch_lines(["*leaves[[]mcp] PASSED*", "*leaves[[]no-such-server] FAILED*"])
