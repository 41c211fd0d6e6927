"""The handler `checkpoint`: takes a checkpoint whenever an agent has made so many steps as its setting says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from perpetual_agents.checkpoints import Checkpoints
from perpetual_agents.handler import Handler

if TYPE_CHECKING:
    from perpetual_agents.messages import Message
    from perpetual_agents.turn import Turn

__all__ = ["CheckpointHandler", "build"]


class CheckpointHandler(Handler):
    """Takes checkpoints by itself, after a turn that has reached the interval."""

    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        """Takes one after the turn where it is due, also where the turn failed."""
        try:
            return await proceed()
        finally:
            every = int(turn.agent.setting("checkpoint_every"))
            if every:
                await turn.blocking(lambda: Checkpoints(turn.lab).take_due(turn.agent.id, every))


def build(options: Mapping[str, object]) -> CheckpointHandler:
    """Builds the handler."""
    return CheckpointHandler()
