"""The MCP slot: the server that gives agents the lab over the Model Context Protocol.

The contract: the server opens with its name and with the state of the research in its instructions. `perpetual_status`
and the resource `live-state://research` answer the present state, changes by others included. Every tool has a
schema of its arguments; `perpetual_status` is marked as one that only reads. Tools answer the documents of the
machine interface and fail (`isError`) with the same code and hint, as JSON text; neither a wrong call, nor a tool that
crashes, nor a line that is no message ends the server. What people, runs and plugins wrote stands inside a fence in
text (`perpetual.toolkit.fence`), and in structured answers on one line each, at the JSON pointers that the key
`untrusted` lists (`perpetual.toolkit.untrusted.seal` makes such a document). Tools of plugins (slot `mcp_tool`) are
served. Deeds are done in the client's name. No tool launches a command without approval, and none approves unless
`allow_approve` was given. A server may serve tools that are coroutine functions, and give a `ToolContext` to those with
a parameter that is annotated with it, as the bundled one does. Where a client takes a call back, the server serves on.

`serve` blocks until its client leaves or it is asked to stop (TERM), and every operation that it answered is durable by
then. Whatever else the process prints, from plugins and from their subprocesses too, cannot corrupt the protocol
stream. On a port (`http`) it serves no client without the token that its starter got, no request in another host's
name or from another origin, and no other machine unless its options say so; a server that does not speak HTTP raises
`UsageError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["LabOpener", "McpServer", "ToolContext"]

LabOpener = Callable[[str], "Lab"]  # actor -> lab


class ToolContext(ABC):
    """One call of a tool, for a tool that takes long; may be used in any thread, and blocks nowhere."""

    @abstractmethod
    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Shows how far the call is, to a client that asked for it; what does not rise is not sent."""

    @abstractmethod
    def is_cancelled(self) -> bool:
        """Returns whether the client has taken the call back: nothing that it answers is sent any more."""


class McpServer(ABC):
    """Base of every MCP server; see the contract at the top of this module."""

    @abstractmethod
    def serve(
        self, open_lab: LabOpener, *, allow_approve: bool = False, http: str | None = None, tools: str = "all",
        state: bool = True,
    ) -> None:  # fmt: skip
        """Serves on standard input and output, or on `http` (`HOST:PORT`), until the client leaves.

        Args:
            open_lab: called with the actor (`mcp:<client name>/<version>`) once a client has named itself.
            allow_approve: offers `perpetual_approve`.
            http: address to listen on instead of stdio.
            tools: `core` offers the few that a campaign needs; given only where a person chose, as is `state`.
            state: False leaves the state of the research out of the instructions.
        """
