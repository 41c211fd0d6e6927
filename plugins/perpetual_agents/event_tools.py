"""Tools of agents on time and persons: the functions behind the names `timers` and `ask`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.toolkit.units import seconds_of
from perpetual_agents.decorators import ASKS
from perpetual_agents.timers import Timers
from perpetual_agents.tools import AgentTool, ToolContext, ToolError

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.data import Agent

__all__ = ["AskTools", "TimerTools", "build_ask", "build_timers"]


class TimerTools(AgentTool):
    """Wakes the agent at a time, at an interval or by a cron expression; each of its own timers."""

    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        """Returns the functions."""
        return [timers_set, timers_list, timers_cancel]


def timers_set(
    context: ToolContext, text: str, at: str | None = None, every: str | None = None, cron: str | None = None
) -> str:
    """Sends you a message later. Give one: at (2026-12-01T08:00Z), every (30m, 2h) or cron (0 8 * * MON-FRI)."""
    every_s = None if every is None else seconds_of(every, "every")
    made = Timers(context.lab).add(context.agent.id, at=at, every_s=every_s, cron=cron, text=text, key=context.key)
    return json.dumps({"id": made["id"], "next": made["next"], "zone": made["zone"]})


def timers_list(context: ToolContext) -> str:
    """Lists your timers that are still to fire."""
    found = Timers(context.lab).list(context.agent.id)
    return json.dumps([{name: one[name] for name in ("id", "repeats", "expression", "next", "text")}
                       for one in found], ensure_ascii=False)  # fmt: skip


def timers_cancel(context: ToolContext, id: str) -> str:
    """Cancels a timer of yours."""
    return Timers(context.lab).cancel(id, agent=context.agent.id)["id"]


class AskTools(AgentTool):
    """Asks a person; the turn goes on with the answer, however long that takes."""

    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        """Returns the functions."""
        return [ask_person]


def ask_person(question: str) -> str:
    """Asks a person a question and returns the answer, which may take days. Ask for what only a person can decide."""
    if not question.strip():
        raise ToolError("the question is empty")
    raise ToolError("no person can be asked: the handler approval is not in force")


setattr(ask_person, ASKS, True)


def build_timers(options: Mapping[str, object]) -> TimerTools:
    """Builds the tools on timers."""
    return TimerTools()


def build_ask(options: Mapping[str, object]) -> AskTools:
    """Builds the tool that asks a person."""
    return AskTools()
