"""What keeps an agent's own state: `context_server` of an agent, which tests and programs may replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from perpetual_agents.agents import Agents
from perpetual_agents.threads import in_thread

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["ContextServer", "StateKeeper"]


class StateKeeper(Protocol):
    """Saves and loads the state of one agent."""

    async def save_state(self, state: Mapping[str, object]) -> bool:
        """Saves the whole state."""

    async def load_state(self) -> dict[str, object]:
        """Returns what was saved last, empty before that."""


class ContextServer:
    """Keeps the state of an agent in the record; durable before a call returns.

    Args:
        lab: the project.
        agent_id: the agent's id or name.
    """

    def __init__(self, lab: Lab, agent_id: str) -> None:
        self._agents, self.agent_id = Agents(lab), agent_id

    async def save_state(self, state: Mapping[str, object]) -> bool:
        """Saves the whole state. Raises UsageError where it is no JSON, or holds a secret."""
        await in_thread(self._agents.save_data, self.agent_id, state)
        return True

    async def load_state(self) -> dict[str, object]:
        """Returns what was saved last, empty before that."""
        return (await in_thread(self._agents.get, self.agent_id)).data
