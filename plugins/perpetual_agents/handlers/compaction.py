"""The handler `compaction`: summarises older turns once the conversation grows beyond the agent's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual_agents.handler import Handler

if TYPE_CHECKING:
    from perpetual_agents.messages import Message
    from perpetual_agents.turn import Turn

__all__ = ["CompactionHandler", "build"]


class CompactionHandler(Handler):
    """Compacts before the history is read; see `perpetual_agents.compaction`."""

    async def history(self, turn: Turn, messages: list[Message]) -> list[Message]:
        """Passes on, after a compaction where one is due."""
        from perpetual_agents.compaction import compact

        await compact(turn)
        return messages


def build(options: Mapping[str, object]) -> CompactionHandler:
    """Builds the handler."""
    return CompactionHandler()
