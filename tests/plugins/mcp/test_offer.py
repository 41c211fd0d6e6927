"""What a client is offered: how much its list of tools costs, the few of `--tools core`, and what reads only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import ListToolsResult

from perpetual import Lab
from perpetual_mcp.tools import TOOLS
from tests.plugins.mcp.clients import error_of, initialize, opener, raw, talk, text_of

# Characters / 4. Every client sends the list with each conversation: what it costs is looked at before it grows.
MOST_WIRE, MOST_SEEN, MOST_CORE = 6100, 4300, 2600
CORE = {"perpetual_status", "perpetual_propose", "perpetual_run", "perpetual_wait", "perpetual_memory",
        "perpetual_hypotheses"}  # fmt: skip


async def _listed(client: Client) -> ListToolsResult:
    return await client.list_tools()


def _seen(result: ListToolsResult) -> float:
    """What a model reads of the tools."""
    parts = [(item.name, item.description or "", json.dumps(item.input_schema)) for item in result.tools]
    return sum(len(text) for part in parts for text in part) / 4


def test_the_list_of_tools_stays_short(project: Path) -> None:
    found = talk(opener(project), _listed)
    assert len(found.model_dump_json(by_alias=True, exclude_none=True)) / 4 <= MOST_WIRE
    assert _seen(found) <= MOST_SEEN
    propose = next(tool for tool in found.tools if tool.name == "perpetual_propose")
    assert len(propose.input_schema["properties"]) == 13  # twelve, and `more`
    for tool in found.tools:
        assert tool.title, tool.name
        assert None not in (
            tool.annotations.read_only_hint, tool.annotations.destructive_hint,
            tool.annotations.idempotent_hint, tool.annotations.open_world_hint,
        ), tool.name  # fmt: skip
        assert ": {}" not in json.dumps([*tool.input_schema["properties"].values()]), tool.name  # a schema of anything


@pytest.mark.slow
def test_the_core_is_what_a_campaign_needs(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers the loss")

    async def deed(client: Client) -> tuple[ListToolsResult, Any]:
        return await client.list_tools(), await client.call_tool("perpetual_budget", {})

    found, refused = talk(opener(project), deed, tools="core")
    assert {tool.name for tool in found.tools} == CORE == {tool.name for tool in TOOLS if tool.is_core}
    assert _seen(found) <= MOST_CORE
    assert "there is no tool 'perpetual_budget'" in error_of(refused)["message"]


@pytest.mark.slow
def test_the_command_takes_the_core_and_leaves_the_state_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with raw(project, "--tools", "core", "--no-state") as server:
        server.send(initialize("2025-11-25"))
        bare = server.receive()["result"]["instructions"]
        assert len(server.ask("tools/list")["result"]["tools"]) == len(CORE)
    assert "state of the research" not in bare
    assert "perpetual_status" in bare
    monkeypatch.setenv("PERPETUAL_MCP_STATE", "0")
    monkeypatch.setenv("PERPETUAL_MCP_TOOLS", "core")
    with raw(project) as server:
        server.send(initialize("2025-11-25"))
        assert server.receive()["result"]["instructions"] == bare
        assert len(server.ask("tools/list")["result"]["tools"]) == len(CORE)


@pytest.mark.slow
def test_instructions_without_the_state_read_no_record(project: Path) -> None:
    async def deed(client: Client) -> str | None:
        return client.instructions

    bare, whole = (talk(opener(project), deed, state=state) for state in (False, True))
    assert "state of the research" not in bare
    assert "# The state of the research (event 1)" in whole
    assert bare.split("Where it names")[1].strip() == whole.split("Where it names")[1].split("\n# ")[0].strip()


# --- arguments that stand in no schema --------------------------------------------------------------------------------


def test_a_moved_argument_is_taken_by_its_name_and_in_more(project: Path) -> None:
    base = {"command": "true", "metric": "m", "direction": "max"}

    async def deed(client: Client) -> list[Any]:
        asked: list[dict[str, Any]] = [
            {**base, "priority": 3, "wall": "2h"},
            {**base, "more": {"priority": 4, "wall": "2h", "tags": ["a"]}},
            {**base, "more": json.dumps({"priority": 5})},  # as some models write an object
            {**base, "more": None},
        ]
        return [await client.call_tool("perpetual_propose", item) for item in asked]

    made = [result.structured_content["experiment"] for result in talk(opener(project), deed)]
    assert [item["priority"] for item in made] == [3, 4, 5, 0]
    assert [item["resources"]["wall_s"] for item in made[:2]] == [7200, 7200]
    assert made[1]["tags"] == ["a"]


STRAYS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("propose", {"more": {"prioritty": 3}}, "did you mean priority"),
    ("propose", {"more": ["priority"]}, "more is an object of further arguments"),
    ("propose", {"more": "priority=3"}, "more is an object of further arguments"),
    ("propose", {"priority": 1, "more": {"priority": 2}}, "priority is given in more and beside it"),
    ("propose", {"more": {"more": {}}}, "has no argument 'more'"),
    ("propose", {"more": {"priority": "high"}}, "priority: The higher goes first in the queue."),
    ("hypotheses", {"action": "create", "statement": "x", "more": {"tag": ["a"]}}, "did you mean tags"),
    ("edit", {"id": "e1", "more": {"gpu": 1}}, "did you mean gpus"),
    ("run", {"more": {"retry": "r1"}}, "has no argument 'more'"),
)


def test_a_key_of_more_that_is_no_argument_is_refused_with_the_nearest(project: Path) -> None:
    async def deed(client: Client) -> None:
        for name, given, said in STRAYS:
            error = error_of(await client.call_tool(f"perpetual_{name}", given))
            assert said in f"{error['message']} {error['hint']}", (name, given, error)
            assert error["code"] == "usage"

    talk(opener(project), deed)
    with Lab.open(project) as lab:
        assert lab.feed.last() == 1


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(project: Path) -> Path:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers the loss", metric="val_loss", direction="min", mde=0.05, baseline=2.3)
        lab.hypotheses.add("dropout helps")
        lab.experiments.propose("h1", command="echo val_loss=2.1", noise=0.01, title="a warm one")
        lab.experiments.propose(command="true", title="cold")
        lab.experiments.approve("e1")
        lab.runs.launch("e1")
        lab.wait(["e1"], timeout_s=60)
        lab.evidence.add("h2", verdict="supports", why="a hunch")
        lab.memory.write("notes/warm-up.md", "# Warm-up\nfive hundred steps\n")
        lab.memory.write("notes/cold.md", "# Cold\n")
    return project


@pytest.mark.slow
def test_one_tool_shows_and_lists_every_kind_without_writing(filled: Path) -> None:
    asked: list[tuple[dict[str, Any], str, list[str]]] = [
        ({"what": "H1"}, "perpetual.hypotheses/1", []),
        ({"what": "e1"}, "perpetual.experiments/1", []),
        ({"what": "r1"}, "perpetual.runs/1", []),
        ({"what": "v2"}, "perpetual.evidence_list/1", []),
        ({"what": "notes/warm-up.md"}, "perpetual.notes/1", []),
        ({"what": "hypotheses"}, "perpetual.hypotheses/1", ["h1", "h2"]),
        ({"what": "hypothesis", "query": "LOSS warm-up"}, "perpetual.hypotheses/1", ["h1"]),
        ({"what": "experiments"}, "perpetual.experiments/1", ["e1", "e2"]),
        ({"what": "experiments", "query": "cold"}, "perpetual.experiments/1", ["e2"]),
        ({"what": "runs"}, "perpetual.runs/1", ["r1"]),
        ({"what": "runs", "query": "val_loss done"}, "perpetual.runs/1", ["r1"]),
        ({"what": "runs", "query": "failed"}, "perpetual.runs/1", []),
        ({"what": "evidence"}, "perpetual.evidence_list/1", ["v1", "v2"]),
        ({"what": "evidence", "query": "h2"}, "perpetual.evidence_list/1", ["v2"]),
        ({"what": "evidence", "query": "hunch"}, "perpetual.evidence_list/1", ["v2"]),
        ({"what": "notes"}, "perpetual.notes/1", ["notes/cold.md", "notes/warm-up.md"]),
        ({"what": "notes", "query": "hundred"}, "perpetual.notes/1", ["notes/warm-up.md"]),
    ]

    async def deed(client: Client) -> list[Any]:
        return [await client.call_tool("perpetual_show", given) for given, _, _ in asked]

    with Lab.open(filled) as lab:
        before = lab.feed.last()
    for (given, schema, ids), result in zip(asked, talk(opener(filled), deed), strict=True):
        assert not result.is_error, (given, text_of(result))
        document = result.structured_content
        found = [item.get("id") or item["path"] for item in document["items"]]
        assert (document["schema"], sorted(found)) == (schema, ids), given
        if not ids and "query" not in given:
            assert any(isinstance(value, dict) for value in document.values()), given
    with Lab.open(filled) as lab:
        assert lab.feed.last() == before


@pytest.mark.slow
def test_a_search_comes_in_pages(project: Path) -> None:
    with Lab.open(project) as lab:
        for number in range(7):
            lab.hypotheses.add(f"{'odd' if number % 2 else 'even'} claim {number}")

    async def deed(client: Client) -> list[str]:
        seen, cursor = [], None
        while True:
            given = {"what": "hypotheses", "query": "even", "limit": 2, "cursor": cursor}
            found = (await client.call_tool("perpetual_show", given)).structured_content
            seen += [item["id"] for item in found["items"]]
            cursor = found["next_cursor"]
            if cursor is None:
                return seen

    assert talk(opener(project), deed) == ["h1", "h3", "h5", "h7"]


WRONG: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({"what": "h9"}, 5, "h9"),
    ({"what": "x1"}, 2, "no id of a record"),
    ({"what": "e1", "query": "x"}, 2, "an id names one record"),
    ({"what": "nonsense", "query": "x"}, 2, "there is no kind"),
    ({"what": "../../etc/passwd"}, 2, "path"),
    ({"what": "notes/none.md"}, 5, "none.md"),
    ({"what": "hypotheses", "query": "x", "cursor": "soon"}, 2, "cursor"),
)


@pytest.mark.slow
def test_a_wrong_look_is_refused(filled: Path) -> None:
    async def deed(client: Client) -> None:
        for given, code, said in WRONG:
            error = error_of(await client.call_tool("perpetual_show", given))
            assert (error["exit"], said in error["message"]) == (code, True), (given, error)

    talk(opener(filled), deed)
