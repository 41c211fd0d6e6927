"""What a person or a program asks of an agent: start, pause, resume, stop, and a message with its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, TransientError
from perpetual_agents.agents import OVER, Agents
from perpetual_agents.checkpoints import Checkpoints
from perpetual_agents.names import AGENT, SERVICE
from perpetual_agents.permission import let
from perpetual_agents.serving import Worker
from perpetual_agents.times import present_time

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_agents.data import Agent
    from perpetual_agents.model import ModelBackend, Say

__all__ = [
    "OVER",
    "answered",
    "failure_of",
    "is_served",
    "pause",
    "resume",
    "send",
    "start",
    "stop",
    "watched",
]

_LOOK_S = 1.0


def start(lab: Lab, agent: str, *, reason: str | None = None) -> Agent:
    """Lets an agent take messages. Raises IllegalMove, and NotPermitted where it runs code and no person asks."""
    return _to_running(lab, agent, "start", reason)


def resume(lab: Lab, agent: str, *, reason: str | None = None) -> Agent:
    """Lets a paused agent, or one in error, go on where it was. Raises as `start`."""
    return _to_running(lab, agent, "resume", reason)


def _to_running(lab: Lab, agent: str, move: str, reason: str | None) -> Agent:
    agents = Agents(lab)
    with lab.transaction():
        present = agents.get(agent)
        mark = let(lab, present)
        if mark != present.mark:
            lab.records(AGENT).update(present.id, mark=mark)
        return agents.move(present.id, "start" if move == "start" else "resume", reason=reason)


def pause(lab: Lab, agent: str, *, reason: str | None = None) -> Agent:
    """Lets an agent rest: its step goes on to its end, its messages wait. Takes a checkpoint. Raises IllegalMove."""
    return _to_rest(lab, agent, "pause", reason)


def stop(lab: Lab, agent: str, *, reason: str | None = None) -> Agent:
    """Ends an agent's duty; it takes no messages until it is started. Takes a checkpoint. Raises IllegalMove."""
    return _to_rest(lab, agent, "stop", reason)


def _to_rest(lab: Lab, agent: str, move: str, reason: str | None) -> Agent:
    agents = Agents(lab)
    with lab.transaction():
        moved = agents.move(agent, "pause" if move == "pause" else "stop", reason=reason)
        Checkpoints(lab).take(moved.id, reason=move)
        return agents.get(moved.id)


def is_served(lab: Lab) -> bool:
    """Returns whether the service that works on inboxes runs."""
    return any(one["name"] == SERVICE and one["state"] == "running" for one in lab.services.list())


def send(
    lab: Lab, agent: str, text: str, *, type: str = "message", data: Mapping[str, object] | None = None,
    sender: str | None = None, key: str | None = None, due: str | None = None, wait: bool = True,
    timeout_s: float | None = None, say: Say | None = None, backend: ModelBackend | None = None,
) -> Record:  # fmt: skip
    """Sends a message and returns it with what came of it.

    The service `agents` answers it where it runs, else this process does. An agent that was not started yet, or is
    paused, keeps it in its inbox.

    Args:
        lab, agent, text, type, data, sender, key, due: as `Agents.post` takes them.
        wait: whether to wait for the answer.
        timeout_s: seconds to wait; None waits as long as it takes.
        say: called with the answer's text as it comes, where this process answers.
        backend: what asks the models, where this process answers; None is the one in force.

    Raises:
        Conflict: for an agent that is stopped or in error.
        TransientError: where another process works on the agent beyond the timeout.
    """
    agents = Agents(lab)
    posted = agents.post(agent, text, type=type, data=data, sender=sender, key=key, due=due)
    return answered(lab, posted.id, timeout_s=timeout_s, say=say, backend=backend) if wait else posted


def answered(
    lab: Lab, id: str, *, timeout_s: float | None = None, say: Say | None = None, backend: ModelBackend | None = None
) -> Record:
    """Returns a message once it is over, waits for a person, or cannot be worked on now; see `send`."""
    agents = Agents(lab)
    message = agents.message(id)
    agent = agents.get(message["agent"])
    if message["state"] in OVER or agent.state != "running" or (message["due"] and message["due"] > present_time()):
        return message
    if is_served(lab) and agent.cls is None:
        return watched(lab, id, timeout_s)
    if agent.cls is not None and backend is None:
        return message  # its own program answers it
    try:
        asyncio.run(asyncio.wait_for(_work(lab, agent.id, id, timeout_s, say, backend), timeout_s))
    except TimeoutError as problem:
        raise TransientError(f"{id} was not answered within {timeout_s:g} s", code="timeout",
                             hint=f"it goes on where it was: perpetual agent wait {id}") from problem  # fmt: skip
    return agents.message(id)


async def _work(
    lab: Lab, agent: str, until: str, timeout_s: float | None, say: Say | None, backend: ModelBackend | None
) -> None:
    await Worker(lab, agent, say=say, backend=backend).work(until=until, timeout_s=timeout_s)


def watched(lab: Lab, id: str, timeout_s: float | None) -> Record:
    """Returns a message that another process answers, once it is over or waits.

    Raises:
        TransientError: after the time.
        PerpetualError: why the other process could not take it up, such as an agent that may not run here.
    """
    agents = Agents(lab)
    first = agents.first(agents.message(id)["agent"])
    tried = (first.id, first["attempts"]) if first is not None else ("", 0)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        seen = lab.feed.last()
        message = agents.message(id)
        if message["state"] in (*OVER, "waiting") or agents.get(message["agent"]).state != "running":
            return message
        first = agents.first(message["agent"])  # one that cannot be taken up holds up those after it
        if first is not None and first["state"] == "pending" and first["error"] is not None:
            before = tried[1] if first.id == tried[0] else 0
            if first["attempts"] > before:
                raise _error_of(first)
        left = _LOOK_S if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise TransientError(f"{id} was not answered within {timeout_s:g} s", code="timeout",
                                 hint=f"it goes on where it was: perpetual agent wait {id}")  # fmt: skip
        lab.feed.wait(seen, timeout_s=min(left, _LOOK_S))
        if not is_served(lab):
            return answered(lab, id, timeout_s=None if deadline is None else max(0.0, deadline - time.monotonic()))


def failure_of(message: Record) -> PerpetualError | None:
    """Returns the error that a failed message carries, None for any other."""
    return _error_of(message) if message["state"] == "failed" and message["error"] is not None else None


def _error_of(message: Record) -> PerpetualError:
    error = message["error"]
    found = PerpetualError(f"{message.id}: {error['message']}", hint=error.get("hint"), code=error["code"])
    found.exit = int(error.get("exit", 1))
    return found
