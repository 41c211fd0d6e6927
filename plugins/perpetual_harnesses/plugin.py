"""Entry point of the harnesses `claude-code` and `mcp`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_harnesses() -> list[Provider]:
    """Claude Code, and any agent that reads `.mcp.json` and `AGENTS.md`."""
    return [
        Provider(
            "harness",
            "claude-code",
            "perpetual_harnesses.template:claude_code",
            "Claude Code: MCP server, hooks, permissions, agent",
        ),
        Provider(
            "harness",
            "mcp",
            "perpetual_harnesses.template:mcp",
            "any agent that reads .mcp.json, AGENTS.md and skills",
        ),
    ]
