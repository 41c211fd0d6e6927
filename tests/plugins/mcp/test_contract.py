"""The bundled MCP server keeps the promises of its slot."""

from __future__ import annotations

import sys

import pytest

from perpetual.testing.mcp_servers import McpContract

# A server is started for each promise, and starting one costs a second; test_server.py drives it in the default lane.
pytestmark = pytest.mark.slow


class TestSdkServer(McpContract):
    """`mcp`."""

    @pytest.fixture
    def command(self) -> list[str]:
        """As agents start it."""
        return [sys.executable, "-m", "perpetual", "mcp"]
