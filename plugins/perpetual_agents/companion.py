"""The companion of the daemon that works on the inboxes of agents, where the service `agents` does not run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual_agents.agents import Agents
from perpetual_agents.names import SERVICE
from perpetual_agents.service import Server, due_agents
from perpetual_agents.subscriptions import Subscriptions
from perpetual_daemon.companion import Companion

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.services import ServiceLine
    from perpetual.slots.service import StopSignal

__all__ = ["AgentCompanion", "build"]

_LOOK_S = 5.0  # between two looks whether the service runs


class AgentCompanion(Companion):
    """Runs a `Server` while the daemon turns; what agents propose goes through the lab as everything does."""

    def __init__(self) -> None:
        self._server: Server | None = None
        self._looked_s, self._is_served = 0.0, False

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Works on inboxes until `stop` is set. Raises NotPermitted in a held project."""
        lab.trust.require("running agents")
        while not stop.is_set():
            if self._served(lab):
                stop.wait(_LOOK_S)
                continue
            self._server = Server(lab, int(str(lab.options("agents")["at_once"])))
            asyncio.run(self._server.run(lambda: stop.is_set() or self._served(lab)))

    def _served(self, lab: Lab) -> bool:
        """Returns whether the service runs; what it found counts for seconds."""
        if time.monotonic() >= self._looked_s:
            self._is_served = (line := _line(lab)) is not None and line["state"] == "running"
            self._looked_s = time.monotonic() + _LOOK_S
        return self._is_served

    def is_at_work(self, lab: Lab) -> bool:
        """Returns whether a message is due, or an event on its way, to an agent that can be worked on."""
        agents = Agents(lab)
        line = _line(lab)
        if line is not None and line["state"] == "running":
            if not (line["health"] or {"ok": True})["ok"]:
                return False
            stuck: Mapping[str, str] = {}
        else:
            stuck = {} if self._server is None else self._server.troubles
        due = {*due_agents(agents)[0]}
        if awaited := Subscriptions(lab).awaited():
            due |= {agent.id for agent in agents.running() if agent.id in awaited and agent.cls is None}
        return bool(due - stuck.keys())

    def trouble(self) -> str | None:
        """Returns which agent cannot be worked on, and why."""
        return None if self._server is None else self._server.trouble


def _line(lab: Lab) -> ServiceLine | None:
    try:
        return lab.services.status(SERVICE)
    except NotFound:
        return None


def build(options: Mapping[str, object]) -> AgentCompanion:
    """Builds the companion; it has no options."""
    return AgentCompanion()
