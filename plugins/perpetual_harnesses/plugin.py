"""Entry point of the bundled harnesses and of the scaffolder that writes their files; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl

_SUMMARIES = {
    "opencode": "OpenCode: MCP server, plugin with the brief, agent, commands",
    "claude-code": "Claude Code: MCP server, hooks, permissions, agent, commands",
    "cursor": "Cursor: MCP server, rule, agent, commands",
    "codex": "Codex: MCP server, hooks, agent, skills",
    "mcp": "any agent that reads .mcp.json, AGENTS.md and skills",
}


@hookimpl
def perpetual_harnesses() -> list[Provider]:
    """Offers the coding agents that Perpetual knows, and any other one that reads `.mcp.json` and `AGENTS.md`."""
    return [
        Provider("harness", name, f"perpetual_harnesses.template:{name.replace('-', '_')}", summary)
        for name, summary in _SUMMARIES.items()
    ]


@hookimpl
def perpetual_scaffolders() -> list[Provider]:
    """Offers what merges the files that harnesses ask for, and takes them out again."""
    return [Provider("scaffolder", "files", "perpetual_harnesses.files:build", "merges files, and gives them back")]
