"""What a driven harness is permitted: no title, kind or input that a model chooses passes for a tool of the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual_harnesses.dispatch.base import KINDS, Kind, Server, Task
from perpetual_harnesses.dispatch.permission import allows, kind_of, option_of, server_of

TOOLS = frozenset(("perpetual_scan", "perpetual_status"))
SERVERS = (Server("perpetual", "perpetual", ("mcp",), tools=TOOLS),)
TASK = Task("?", Path(), "mark", servers=SERVERS)


@pytest.mark.parametrize(
    "title",
    ["mcp__perpetual__perpetual_scan", "perpetual_perpetual_scan", "perpetual-perpetual_scan",
     "mcp.perpetual.perpetual_scan", "mcp_perpetual_perpetual_status", "perpetual_scan (perpetual MCP Server)"],
)  # fmt: skip
def test_tools_of_the_lab_are_known_by_their_names(title: str) -> None:
    assert server_of(title, SERVERS) == "perpetual"
    assert allows(TASK, "other", title)


@pytest.mark.parametrize(
    "title",
    ["perpetual_scan; rm -rf ~", "perpetual_scan\nrm", "rm perpetual_scan", "xperpetual_scan", "perpetual",
     "perpetual_", "mcp__other__perpetual_scan", "perpetual_evil_rm", "mcp__perpetual_evil__rm",
     "mcp__perpetual-evil__perpetual_scan", "perpetual approve", "perpetual_evil_perpetual_scan",
     "perpetual_scan && true", "perpetual_$(id)", "perpetual_scan `id`", "",
     "perpétuel_x", "perpetual_scan (other MCP Server)", "rm (perpetual MCP Server); id", "(perpetual MCP Server)"],
)  # fmt: skip
def test_other_titles_are_not(title: str) -> None:
    assert server_of(title, SERVERS) is None
    assert not allows(TASK, "other", title)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "other"])
def test_a_title_counts_for_no_other_kind(kind: Kind) -> None:
    assert not allows(TASK, kind, "perpetual_perpetual_scan")
    assert allows(Task("?", Path(), "mark", allow=frozenset((kind,))), kind, "anything")


@pytest.mark.parametrize(
    "raw",
    [{"command": "rm", "server": "perpetual", "tool": "x"}, {"server": "other", "tool": "x"}, {"tool": "x"}, None, "x",
     {"server": ["perpetual"], "tool": "x"}, {"server": "perpetual", "tool": ["perpetual_scan"]},
     {"server": "perpetual", "tool": "rm"}],
)  # fmt: skip
def test_a_call_marked_as_a_servers_needs_its_input(raw: object) -> None:
    assert not allows(TASK, "execute", "anything", raw, is_mcp=True)
    own = {"server": "perpetual", "tool": "perpetual_scan", "arguments": {}}
    assert allows(TASK, "execute", "anything", own, is_mcp=True)


def test_nothing_is_given_for_good() -> None:
    options = [{"optionId": "a", "kind": "allow_always"}, {"optionId": "b", "kind": "allow_once"},
               {"optionId": "c", "kind": "reject_always"}]  # fmt: skip
    assert option_of(options, allowed=True) == "b"
    assert option_of(options[:1], allowed=True) is None
    assert option_of(options, allowed=False) == "c"
    assert option_of("no options", allowed=False) is None
    assert option_of([{"optionId": 1, "kind": "allow_once"}, 7], allowed=True) is None
    assert kind_of("write") == kind_of(None) == "other"
