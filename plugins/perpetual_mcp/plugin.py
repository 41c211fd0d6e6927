"""Entry point of the MCP server `mcp`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Option, Provider, hookimpl


@hookimpl
def perpetual_mcp_servers() -> list[Provider]:
    """Offers the lab over the Model Context Protocol, on standard input and output or on a port of this machine."""
    options = {
        "hosts": Option(
            "list", [], "Names by which clients on other machines may call --http; empty keeps it on this machine."
        )
    }
    return [Provider("mcp", "mcp", "perpetual_mcp.server:build", "the official SDK over stdio or HTTP", options)]
