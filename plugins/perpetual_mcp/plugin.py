"""Entry point of the MCP server `mcp`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_mcp_servers() -> list[Provider]:
    """The lab over the Model Context Protocol, on standard input and output."""
    return [Provider("mcp", "mcp", "perpetual_mcp.server:build", "the official SDK over stdio")]
