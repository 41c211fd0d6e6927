"""Persistent agents as tools of the MCP server: `perpetual_agents` reads them, `perpetual_agent_message` sends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal

from perpetual import Lab
from perpetual.api import PerpetualError, UsageError

if TYPE_CHECKING:
    from perpetual.api import Record
    from perpetual_agents.documents import AgentLine, MessageDocument
if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build_agents", "build_message"]

_MOST = 20  # agents of an answer
_MOST_ANSWERS = 3
_LONGEST = 2_000  # characters of an answer in a list
_LONGEST_WAIT_S = 300.0


class AgentRow(TypedDict):
    """An agent; `activity` is working, waiting, interrupted, approval or idle."""

    id: str
    name: str
    state: str
    activity: str | None
    reason: str | None
    model: str | None
    purpose: str
    hypothesis: str | None
    inbox: int
    turns: int


class AgentAnswer(TypedDict):
    """A message to an agent; `mock` says that no real model answered."""

    id: str
    agent: str
    state: str
    text: str
    answer: str | None
    error: str | None
    mock: bool


class AgentsAnswer(TypedDict):
    """The agents; with an id that one, its open goals and its newest messages."""

    schema: Literal["perpetual.agents_tool/1"]
    items: list[AgentRow]
    goals: list[str]
    messages: list[AgentAnswer]
    next_cursor: str | None
    truncated: bool


class MessageAnswer(TypedDict):
    """A message and what came of it so far; one that is not over is read again by `perpetual_agents`."""

    schema: Literal["perpetual.agent_message_tool/1"]
    message: AgentAnswer
    next: str | None


def build_agents(options: Mapping[str, object]) -> Callable[..., AgentsAnswer]:
    """Builds the tool that reads."""
    return _agents


def build_message(options: Mapping[str, object]) -> Callable[..., MessageAnswer]:
    """Builds the tool that sends."""
    return _message


def _agents(
    lab: Lab,
    id: Annotated[str | None, "Id or name."] = None,
    cursor: Annotated[str | None, "The next page's."] = None,
) -> AgentsAnswer:
    """Lists persistent agents, or one with its answers."""
    from perpetual_agents import show
    from perpetual_agents.agents import Agents

    agents = Agents(lab)
    if id is None:
        page = agents.list(limit=_MOST, cursor=cursor)
        rows = [_row(one) for one in show.agents(lab, page.items)]
        return {"schema": "perpetual.agents_tool/1", "items": rows, "goals": [], "messages": [],
                "next_cursor": page.next_cursor, "truncated": page.next_cursor is not None}  # fmt: skip
    one = agents.get(id)
    newest = agents.messages(one.id, limit=_MOST_ANSWERS)
    goals = [f"{goal['id']} {goal['status']} {goal['progress']:.0%}: {goal['text']}" for goal in one.goals
             if goal["status"] in ("open", "in_progress")]  # fmt: skip
    return {"schema": "perpetual.agents_tool/1", "items": [_row(show.agent_line(lab, one))], "goals": goals[:_MOST],
            "messages": [_answer(lab, message) for message in newest.items], "next_cursor": None,
            "truncated": newest.next_cursor is not None or len(goals) > _MOST}  # fmt: skip


def _message(
    lab: Lab,
    id: Annotated[str, "Id or name."],
    text: Annotated[str, "What to ask."],
    wait_s: Annotated[float, "Seconds to wait."] = 30.0,
    key: Annotated[str | None, "Idempotency key."] = None,
) -> MessageAnswer:
    """Asks a persistent agent."""
    from perpetual_agents.agents import Agents
    from perpetual_agents.operations import OVER, is_served

    if not 0 <= wait_s <= _LONGEST_WAIT_S:
        raise UsageError(f"wait_s is {wait_s:g}, not 0 to {_LONGEST_WAIT_S:g}")
    agents = Agents(lab)
    posted = agents.post(id, text, key=key)
    agent = agents.get(posted["agent"])
    if posted["state"] not in OVER and agent.state == "running":
        if is_served(lab) or agent.cls is not None:
            _waited(lab, posted.id, wait_s)
        else:
            worker = threading.Thread(target=_work, args=(str(lab.root), lab.actor, posted.id), daemon=True)
            worker.start()
            worker.join(wait_s)
    found = agents.message(posted.id)
    over = found["state"] in OVER
    return {"schema": "perpetual.agent_message_tool/1", "message": _answer(lab, found),
            "next": None if over else f"perpetual_agents(id={agent.id!r})"}  # fmt: skip


def _waited(lab: Lab, id: str, wait_s: float) -> None:
    from perpetual_agents.operations import watched

    with suppress(PerpetualError):  # not over yet, or not taken up: the answer says so
        watched(lab, id, wait_s)


def _work(root: str, actor: str, id: str) -> None:
    """Works on the agent in this process, beyond the answer of the tool; what is not done then is done by the next."""
    from perpetual_agents.operations import answered

    with Lab.open(root, actor=actor) as lab, suppress(PerpetualError):  # which the message says
        answered(lab, id)


def _row(one: AgentLine) -> AgentRow:
    return {
        "id": one["id"], "name": one["name"], "state": one["state"], "activity": one["activity"],
        "reason": one["reason"], "model": one["model"], "purpose": one["purpose"][:300],
        "hypothesis": one["hypothesis"], "inbox": one["inbox"], "turns": one["turns"],
    }  # fmt: skip


def _answer(lab: Lab, found: Record) -> AgentAnswer:
    from perpetual_agents import show

    document: MessageDocument = show.message(found, mock=show.is_mock(lab, found))
    answer, error = document["answer"], document["error"]
    return {
        "id": document["id"], "agent": document["agent"], "state": document["state"],
        "text": document["text"][:300], "answer": None if answer is None else answer[:_LONGEST],
        "error": None if error is None else error["message"], "mock": document["mock"],
    }  # fmt: skip


_agents.reads_only = True  # type: ignore[attr-defined]
_agents.destroys = False  # type: ignore[attr-defined]
_agents.repeatable = True  # type: ignore[attr-defined]
_message.reads_only = False  # type: ignore[attr-defined]
_message.destroys = False  # type: ignore[attr-defined]
_message.repeatable = False  # type: ignore[attr-defined]
_message.open_world = True  # type: ignore[attr-defined]
