"""The MCP slot: the server that gives agents the lab over the Model Context Protocol.

The contract: `serve` blocks until its client leaves or it is asked to stop (TERM), and every deed it did is durable
by then. Whatever else the process prints cannot corrupt the protocol stream. Tools answer the documents of the
machine interface and fail with the same code and hint. No tool launches a command that nobody approved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["LabOpener", "McpServer"]

LabOpener = Callable[[str], "Lab"]  # actor -> lab


class McpServer(ABC):
    """Base of every MCP server; see the contract at the top of this module."""

    @abstractmethod
    def serve(self, open_lab: LabOpener, *, allow_approve: bool = False, http: str | None = None) -> None:
        """Serves on standard input and output, or on `http` (`HOST:PORT`), until the client leaves.

        Args:
            open_lab: called with the actor (`mcp:<client name>/<version>`) once a client has named itself.
            allow_approve: offers `perpetual_approve`.
            http: address to listen on instead of stdio.
        """
