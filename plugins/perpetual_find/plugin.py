"""Entry point of the search: offers `find`, and the tool `perpetual_find` for agents; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual find`."""
    return [Provider("command", "find", "perpetual_find.command:find", "Find words anywhere in the record.")]


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_find`, for agents."""
    words = "Full-text search over hypotheses, experiments, runs, notes and the reasons of evidence."
    return [Provider("mcp_tool", "perpetual_find", "perpetual_find.tool:build", words)]
