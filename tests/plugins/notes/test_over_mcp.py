"""Notes in a form over MCP: front matter says the type, and an error names the field that does not fit."""

from __future__ import annotations

from pathlib import Path

from mcp.client.client import Client

from perpetual import Lab
from tests.plugins.mcp.clients import error_of, opener, talk

POLICY = "---\ntype: tool_policy\ntitle: No rm\ntool: rm\nrule: {rule}\nreason: lost\n---\nNever again.\n"


def test_an_agent_writes_a_note_in_a_form(project: Path) -> None:
    async def deed(client: Client) -> None:
        given = {"action": "write", "file": "policies/rm.md"}
        wrong = await client.call_tool("perpetual_memory", {**given, "content": POLICY.format(rule="maybe")})
        assert error_of(wrong)["exit"] == 2
        assert "`rule` is maybe, not allow or ask or avoid" in error_of(wrong)["message"]
        other = {**given, "content": POLICY.format(rule="ask"), "type": "skill_card"}
        assert "type: tool_policy" in error_of(await client.call_tool("perpetual_memory", other))["message"]
        done = await client.call_tool("perpetual_memory", {**given, "content": POLICY.format(rule="ask")})
        assert not done.is_error

    talk(opener(project), deed)
    with Lab.open(project) as lab:
        (note,) = lab.memory.list().items
        assert (note.type, note.status) == ("tool_policy", "candidate")
