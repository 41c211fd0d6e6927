"""A backend that answers by a script, and what tests of agents share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from perpetual import Lab
from perpetual.api import Record
from perpetual_agents.agents import Agents
from perpetual_agents.messages import Call
from perpetual_agents.model import ModelBackend, ModelError, ModelReply, ModelRequest, ModelUnavailable, Say
from perpetual_agents.serving import Worker

__all__ = ["Scripted", "agent", "call", "say", "work"]

Answer = Callable[[ModelRequest], ModelReply]


class Scripted(ModelBackend):
    """Answers each request by the next line of a script; keeps what it was asked."""

    def __init__(self, *script: ModelReply | ModelError | Answer) -> None:
        self.script, self.requests = list(script), list[ModelRequest]()

    def problem(self, model: str) -> ModelUnavailable | None:
        """Knows every model."""
        return None

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        """Answers the next line; the last one goes on."""
        await asyncio.sleep(0)
        self.requests.append(request)
        line = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(line, ModelError):
            raise line
        return line if isinstance(line, ModelReply) else line(request)


def say(text: str, *calls: Call) -> ModelReply:
    """A reply of ten tokens."""
    return ModelReply(text, tuple(calls), tokens_in=7, tokens_out=3, usd=0.001, model="script")


def call(name: str, id: str = "c1", **args: object) -> Call:
    """A call of a tool."""
    return {"id": id, "name": name, "args": args}


def agent(lab: Lab, name: str = "scout", **fields: object) -> str:
    """Makes an agent with a model and starts it; answers its id."""
    from perpetual_agents.operations import start

    made = Agents(lab).create(name, model="openai:script", **fields)  # type: ignore[arg-type]
    return start(lab, made.id).id


def work(lab: Lab, id: str, backend: ModelBackend, *texts: str) -> Sequence[Record]:
    """Sends texts to an agent and works on them; answers the messages as they came out."""
    posted = [Agents(lab).post(id, text) for text in texts]
    asyncio.run(Worker(lab, id, backend=backend).work())
    return [Agents(lab).message(one.id) for one in posted]
