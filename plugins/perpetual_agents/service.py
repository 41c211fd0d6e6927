"""The service `agents`: works on the inboxes of the agents of a project, and sleeps while there is nothing to do."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perpetual.api import Finding, PerpetualError, Service, TransientError
from perpetual_agents.agents import Agents
from perpetual_agents.pulse import Pulse, pulse_of
from perpetual_agents.serving import Worker
from perpetual_agents.threads import in_thread
from perpetual_agents.times import seconds_until

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import StopSignal

__all__ = ["AgentService", "Server", "build", "due_agents"]

_SLEEP_S = 30.0  # between two looks where nothing wakes it: a safety net, as each message does
_STOP_LOOK_S = 0.5
_AGAIN_S = 2.0  # after an agent could not be worked on
_log = logging.getLogger(__name__)


class Server:
    """Works on all agents of a lab that take messages, so many at once.

    Args:
        lab: the project.
        at_once: agents that are worked on at once.

    `troubles` says what is wrong with an agent, by its id.
    """

    def __init__(self, lab: Lab, at_once: int) -> None:
        self._lab, self._agents, self._at_once = lab, Agents(lab), at_once
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._after: dict[str, float] = {}  # monotonic time before which an agent is not tried again
        self.troubles: dict[str, str] = {}

    @property
    def at_work(self) -> int:
        """Returns how many agents are worked on."""
        return len(self._tasks)

    @property
    def trouble(self) -> str | None:
        """Returns what is wrong with an agent in one line, or None."""
        return next((f"{agent}: {words}" for agent, words in self.troubles.items()), None)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Works until `is_over`, or the project is gone; agents that are worked on then are left at their step."""
        loop, folder = asyncio.get_running_loop(), os.path.join(self._lab.root, ".perpetual")

        def is_over_or_gone() -> bool:
            return is_over() or not os.path.isdir(folder)

        async with pulse_of(self._lab) as pulse:
            try:
                while not is_over_or_gone():
                    seen = await in_thread(self._lab.feed.last)
                    due, sleep_s = await in_thread(due_agents, self._agents)
                    now = loop.time()
                    for agent in due:
                        waits_s = self._after.get(agent, 0.0) - now
                        if waits_s > 0:
                            sleep_s = min(sleep_s, waits_s)
                        elif agent not in self._tasks and len(self._tasks) < self._at_once:
                            self._tasks[agent] = asyncio.create_task(self._work(agent))
                    await self._sleep(pulse, seen, sleep_s, is_over_or_gone)
            finally:
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _sleep(self, pulse: Pulse, seen: int, seconds: float, is_over: Callable[[], bool]) -> None:
        """Returns once there is an event after `seen`, a task has ended, or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        waiting = asyncio.ensure_future(pulse.wait(seen, seconds))
        try:
            while not is_over() and (left := until - loop.time()) > 0:
                done, _ = await asyncio.wait({waiting, *self._tasks.values()}, timeout=min(left, _STOP_LOOK_S),
                                             return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
                if done:
                    break
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            self._reap()

    def _reap(self) -> None:
        for agent in [agent for agent, task in self._tasks.items() if task.done()]:
            del self._tasks[agent]

    async def _work(self, agent: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            await Worker(self._lab, agent).work()
        except TransientError:
            self._after[agent] = loop.time() + _AGAIN_S  # another process works on it
        except PerpetualError as problem:
            self._has_trouble(agent, problem.message)
        except Exception as problem:  # noqa: BLE001 - a foreign part: without a wait it would be tried without an end
            self._has_trouble(agent, f"{type(problem).__name__}: {problem}"[:1000])
        else:
            self.troubles.pop(agent, None)
            self._after.pop(agent, None)

    def _has_trouble(self, agent: str, words: str) -> None:
        self._after[agent] = asyncio.get_running_loop().time() + 30 * _AGAIN_S
        self.troubles[agent] = words
        _log.warning("%s: %s", agent, words)


def due_agents(agents: Agents) -> tuple[list[str], float]:
    """Returns the agents with a message that can be worked on now, and the seconds until another one may have one."""
    wait_s = _SLEEP_S
    first: dict[str, bool] = {}
    for message in agents.open_messages():
        due_s = seconds_until(message["due"])
        if due_s > 0:
            wait_s = min(wait_s, due_s)
        else:  # one that waits for a person holds up those after it
            first.setdefault(message["agent"], message["state"] != "waiting")
    due = [agent for agent, is_due in first.items() if is_due]
    served = {agent.id for agent in agents.running() if agent.cls is None} if due else set()
    return [agent for agent in due if agent in served], wait_s


class AgentService(Service):
    """Runs a `Server` until it is asked to stop."""

    def __init__(self) -> None:
        self._server: Server | None = None

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Serves until `stop` is set. Raises NotPermitted in a held project."""
        lab.trust.require("running agents")
        self._server = Server(lab, int(str(lab.options("agents")["at_once"])))
        try:
            asyncio.run(self._server.run(stop.is_set))
        finally:
            self._server = None

    def health(self, lab: Lab) -> Finding:
        """Returns how many agents take messages, and what is wrong with one."""
        server = self._server
        if server is not None and server.trouble is not None:
            return Finding(False, server.trouble, hint="perpetual agent list")
        working = 0 if server is None else server.at_work
        return Finding(True, f"{Agents(lab).count()['running']} agents take messages, {working} at work")


def build(options: Mapping[str, object]) -> AgentService:
    """Builds the service."""
    return AgentService()
