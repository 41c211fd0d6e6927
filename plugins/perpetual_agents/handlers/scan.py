"""The handler `scan`: what tools bring from outside is data for the model, and attacks in it do not reach it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from perpetual.toolkit.fence import fence
from perpetual_agents.handler import Handler
from perpetual_agents.messages import tool_result

if TYPE_CHECKING:
    from perpetual_agents.messages import Call, Message
    from perpetual_agents.turn import Turn

__all__ = ["ScanHandler", "build"]

_MOST = 32 * 1024  # characters that the gates judge of one result


class ScanHandler(Handler):
    """Fences the results of tools, and withholds those that the lab's gates reject."""

    async def tool(self, turn: Turn, call: Call, proceed: Callable[[Call], Awaitable[Message]]) -> Message:
        """Returns the result as the model may see it."""
        found = await proceed(call)
        if not found["text"].strip():
            return found
        verdict = await turn.blocking(lambda: turn.lab.memory.scan(found["text"][:_MOST]))
        if verdict["outcome"] == "reject":
            words = f"the result of {call['name']} was withheld: {verdict['category'] or 'rejected'}"
            return tool_result(call, words, is_error=True)
        return {**found, "text": fence(found["text"])}


def build(options: Mapping[str, object]) -> ScanHandler:
    """Builds the handler."""
    return ScanHandler()
