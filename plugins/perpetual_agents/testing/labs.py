"""What the suites of agents share: a project with an agent, a model of a few lines, and a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perpetual import Lab
from perpetual_agents.agents import Agents
from perpetual_agents.journal import Journal
from perpetual_agents.model import ModelBackend, ModelError, ModelReply, ModelRequest, ModelUnavailable, Say, ToolSpec
from perpetual_agents.turn import Turn

if TYPE_CHECKING:
    from perpetual_agents.data import Agent
    from perpetual_agents.handler import Handler
    from perpetual_agents.tools import Bound, ToolContext

__all__ = ["Adds", "OfProjects", "Says", "make_agent", "make_turn"]


class OfProjects:
    """Fixtures of suites that need a lab."""

    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a new project in a state folder of its own, in the name of an agent."""
        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        Lab.init(tmp_path / "project", name="contract").close()
        with Lab.open(tmp_path / "project", actor="agent:contract") as made:
            yield made


class Says(ModelBackend):
    """A model that says its lines one after the other, the last again and again."""

    def __init__(self, *lines: ModelReply | ModelError, waits: bool = False) -> None:
        self.lines, self.asked, self._waits = [*lines], list[ModelRequest](), waits

    def problem(self, model: str) -> ModelUnavailable | None:
        """Knows every model."""
        return None

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        """Returns the next line, or raises it; waits for ever where it `waits`."""
        self.asked.append(request)
        await (asyncio.Event().wait() if self._waits else asyncio.sleep(0))
        line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        if isinstance(line, ModelError):
            raise line
        return line


class Adds:
    """The tool `add`, which answers 2; waits for ever where it `waits`."""

    spec = ToolSpec("add", "Adds one.", {"type": "object", "properties": {"a": {"type": "integer"}}})

    def __init__(self, *, waits: bool = False) -> None:
        self.called, self._waits = 0, waits

    async def call(self, args: Mapping[str, object], context: ToolContext) -> str:
        """Counts the call."""
        self.called += 1
        await (asyncio.Event().wait() if self._waits else asyncio.sleep(0))
        return "2"


def make_agent(lab: Lab, name: str = "contract") -> Agent:
    """Makes an agent that takes messages."""
    agents = Agents(lab)
    return agents.move(agents.create(name, model="test:contract", purpose="hold promises").id, "start")


def make_turn(
    lab: Lab, agent: Agent, handlers: Sequence[Handler], backend: ModelBackend, tool: Bound, message: str | None = None
) -> Turn:
    """Returns a turn of an agent that answers a message, by default a new one."""
    id = message or Agents(lab).post(agent.id, f"What is one and one, {agent.name}?").id
    return Turn(lab, agent, id=id, text=f"What is one and one, {agent.name}?", sender="user:contract", type="message",
                journal=Journal(lab, agent.id, agent.branch), tools={"add": tool}, backend=backend,
                handlers=handlers)  # fmt: skip
