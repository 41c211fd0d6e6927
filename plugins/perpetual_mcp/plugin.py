"""Entry point of the MCP server `mcp` and of the service that keeps one loaded; imports nothing heavy."""

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


@hookimpl
def perpetual_services() -> list[Provider]:
    """Offers a resident process from which `perpetual mcp` starts at once."""
    return [
        Provider("service", "mcp", "perpetual_mcp.warm:build", "has the MCP server loaded, so that it starts at once")
    ]
