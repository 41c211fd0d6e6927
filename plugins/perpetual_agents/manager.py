"""`AgentManager`: the agents of a program, together; and events for those that subscribe to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from perpetual import Lab
from perpetual.api import Conflict, NotFound
from perpetual_agents.agents import Agents
from perpetual_agents.threads import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from perpetual_agents.agent import PerpetualAgent

__all__ = ["AgentManager"]

_Found = TypeVar("_Found")


class _Later(Generic[_Found], Awaitable[_Found]):
    """The rest of a call that has begun: awaiting it waits for the end, and not awaiting it lets it go on."""

    def __init__(self, value: _Found, task: asyncio.Task[object] | None) -> None:
        self._value, self._task = value, task

    def __await__(self) -> Generator[object, None, _Found]:
        if self._task is not None:
            yield from self._task.__await__()
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)


class AgentManager:
    """Keeps agents running in a program.

    Args:
        lab: the project; None opens the one of the working directory.
        project: the folder of the project to open instead.
    """

    def __init__(self, lab: Lab | None = None, *, project: str | Path | None = None) -> None:
        self._lab, self._owns_lab = lab or Lab.open(project), lab is None
        self._agents: dict[str, PerpetualAgent] = {}

    @property
    def lab(self) -> Lab:
        """Returns the project."""
        return self._lab

    def register_agent(self, agent: PerpetualAgent, perpetual: bool = True) -> Awaitable[bool]:
        """Takes an agent on, and lets it run from now on; what is awaited is that it runs.

        Args:
            agent: one that was initialized already keeps its project.
            perpetual: whether it is started, where an event loop runs; else `start` does it.

        Raises:
            Conflict: where another object of that name is registered.
        """
        known = self._agents.get(agent.agent_id)
        if known is not None and known is not agent:
            raise Conflict(f"{agent.agent_id} is registered already", hint="deregister_agent first",
                           code="already_registered")  # fmt: skip
        agent.adopt(self._lab)
        self._agents[agent.agent_id] = agent
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return _Later(True, None)
        begin = agent.start() if perpetual else agent.initialize()
        return _Later(True, loop.create_task(begin, name=f"register {agent.agent_id}"))

    def deregister_agent(self, agent_id: str) -> Awaitable[bool]:
        """Lets an agent go: it is stopped, and stays in the record. What is awaited is that it has stopped.

        Raises:
            NotFound: where none of that name is registered.
        """
        agent = self.get_agent(agent_id)
        del self._agents[agent_id]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return _Later(True, None)
        return _Later(True, loop.create_task(_stopped(agent), name=f"deregister {agent_id}"))

    def get_agent(self, agent_id: str) -> PerpetualAgent:
        """Returns a registered agent. Raises NotFound."""
        found = self._agents.get(agent_id)
        if found is None:
            raise NotFound(f"no agent {agent_id!r} is registered",
                           hint=f"there is: {', '.join(self._agents) or 'none'}")  # fmt: skip
        return found

    def list_agents(self) -> list[str]:
        """Returns the names of the registered agents, in the order of their registration."""
        return [*self._agents]

    def get_agent_statistics(self) -> dict[str, object]:
        """Returns how many agents are registered and recorded, by state, and the sums of their counters."""
        agents = Agents(self._lab)
        sums: dict[str, int] = {}
        for name in self._agents:
            try:
                counters = agents.get(name).counters
            except NotFound:  # not initialized yet
                continue
            for counter, number in counters.items():
                sums[counter] = sums.get(counter, 0) + number
        recorded = agents.count()
        return {"registered": len(self._agents), "total_agents": recorded["total"], "by_state": recorded,
                "counters": sums}  # fmt: skip

    async def health_check_all(self) -> dict[str, dict[str, object]]:
        """Returns how each registered agent fares, by name."""
        found: dict[str, dict[str, object]] = {}
        for name, agent in self._agents.items():
            await agent.initialize()
            found[name] = await agent.health_check()
        return found

    async def start(self) -> None:
        """Starts every registered agent."""
        for agent in [*self._agents.values()]:
            await agent.start()

    async def publish(self, event: Mapping[str, object]) -> list[str]:
        """Puts an event into the inbox of each recorded agent that subscribes to its type; returns their names.

        Args:
            event: `{type, data, id}`; two events of one id are one.
        """
        return await in_thread(publish, self._lab, event)

    async def close(self) -> None:
        """Ends the work of this program on its agents; they stay as they are in the record."""
        for agent in [*self._agents.values()]:
            await agent.cleanup()
        if self._owns_lab:
            await in_thread(self._lab.close)


def publish(lab: Lab, event: Mapping[str, object]) -> list[str]:
    """Puts an event into the inbox of each agent that subscribes to its type; all at once. Returns their names."""
    kind, data = str(event.get("type")), event.get("data")
    key = None if event.get("id") is None else f"event/{event['id']}"
    agents, names = Agents(lab), []
    with lab.transaction():
        cursor: str | None = None
        while True:
            page = agents.list(limit=500, cursor=cursor)
            for one in page.items:
                if kind in one.subscriptions and one.state in ("created", "running", "paused"):
                    agents.post(one.id, data if isinstance(data, str) else "", type=kind, data=dict(event), key=key)
                    names.append(one.name)
            cursor = page.next_cursor
            if cursor is None:
                return names


async def _stopped(agent: PerpetualAgent) -> None:
    if agent.is_initialized:
        await agent.stop()
