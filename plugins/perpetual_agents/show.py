"""Agents, messages, checkpoints and steps as documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from perpetual_agents import accounts
from perpetual_agents.agents import Agents
from perpetual_agents.data import LIMITS, SETTINGS
from perpetual_agents.journal import Journal
from perpetual_agents.lifecycle import legal_moves
from perpetual_agents.names import CHECKPOINT, COUNTERS, STEP
from perpetual_agents.serving import is_busy
from perpetual_agents.times import present_time

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_agents.data import Agent
    from perpetual_agents.documents import (
        AgentDocument,
        AgentLine,
        Counters,
        MessageDocument,
        StepDocument,
    )
    from perpetual_agents.journal import Step

__all__ = ["agent", "agent_line", "agents", "message", "steps"]


def agents(lab: Lab, found: Sequence[Agent]) -> list[AgentLine]:
    """Returns agents as lines of a list."""
    inboxes: dict[str, list[Record]] = {}
    for one in Agents(lab).open_messages():
        inboxes.setdefault(one["agent"], []).append(one)
    return [agent_line(lab, one, inboxes.get(one.id, [])) for one in found]


def agent_line(lab: Lab, one: Agent, inbox: Sequence[Record] | None = None) -> AgentLine:
    """Returns an agent as a line of a list; `inbox` are its messages that are not over, None reads them."""
    inbox = Agents(lab).pending(one.id) if inbox is None else inbox
    return {
        "id": one.id, "name": one.name, "model": one.model, "state": one.state,
        "activity": _activity(lab, one, inbox), "reason": one.reason, "purpose": one.purpose,
        "hypothesis": one.hypothesis, "parent": one.parent, "inbox": len(inbox),
        "turns": one.counters.get("turns", 0), "created_at": one.created_at,
    }  # fmt: skip


def _activity(lab: Lab, one: Agent, inbox: Sequence[Record]) -> str | None:
    if one.state != "running":
        return None
    if is_busy(lab, one.id):
        return "working"
    states = {message["state"] for message in inbox if not message["due"] or message["due"] <= present_time()}
    if "working" in states:
        return "interrupted"
    if "waiting" in states:
        return "approval"
    return "waiting" if states else "idle"


def agent(lab: Lab, one: Agent, notes: Sequence[str] = ()) -> AgentDocument:
    """Returns an agent as a whole."""
    account = accounts.read(lab, one.account)
    line = agent_line(lab, one)
    return {
        **line, "system_prompt": one.system_prompt, "scope": one.scope, "criteria": [*one.criteria],
        "tools": [*one.tools], "goals": [{**goal} for goal in one.goals], "data": one.data,
        "counters": cast("Counters", {name: one.counters.get(name, 0) for name in COUNTERS}),
        "settings": {name: one.setting(name) for name in SETTINGS},
        "subscriptions": [*one.subscriptions], "approvals": [*one.approvals],
        "usage": {"account": account["id"], "used": account["used"], "booked": account["booked"],
                  "limits": {name: account["limits"].get(name) for name in LIMITS}},
        "checkpoints": lab.records(CHECKPOINT).count(live=one.id), "notes": [*notes], "next": _next(one, line),
    }  # fmt: skip


def _next(one: Agent, line: AgentLine) -> list[str]:
    if one.state == "running":
        if line["activity"] == "approval":
            return [f"perpetual agent approvals {one.id}"]
        if line["activity"] in ("waiting", "interrupted"):
            return ["perpetual services start agents"]
        return [f"perpetual agent message {one.id} TEXT"] if line["activity"] == "idle" else []
    return [f"perpetual agent {move} {one.id}" for move in legal_moves(one.state)[:1] if move != "fail"]


def message(found: Record, *, mock: bool = False) -> MessageDocument:
    """Returns a message; `mock` says that a stand-in answered it."""
    error = found["error"]
    return {
        "id": found.id, "agent": found["agent"], "sender": found["sender"], "type": found["type"],
        "text": found["text"], "state": found["state"], "answer": found["answer"],
        "error": None if error is None else {"code": error["code"], "message": error["message"],
                                             "hint": error.get("hint")},
        "mock": mock, "due": found["due"], "attempts": found["attempts"], "created_at": found.created_at,
    }  # fmt: skip


def is_mock(lab: Lab, found: Record) -> bool:
    """Returns whether a stand-in for a model answered a message."""
    steps = lab.records(STEP).find(turn=found.id)
    return any(bool((row["body"].get("message") or {}).get("mock")) for row in steps)


def steps(lab: Lab, one: Agent, *, limit: int, before: int | None = None) -> tuple[list[StepDocument], str | None]:
    """Returns a page of an agent's journal, newest first, those of its past on other branches included."""
    found: list[StepDocument] = []
    for step in Journal(lab, one.id, one.branch).newest_first(before=before):
        if len(found) == limit:
            return found, str(found[-1]["number"])
        found.append(_step(step))
    return found, None


def _step(step: Step) -> StepDocument:
    return {"number": step.number, "turn": step.turn, "kind": step.kind, "phase": step.phase, "key": step.key,
            "text": _words(step), "body": step.body}  # fmt: skip


def _words(step: Step) -> str:
    """Returns a step in words."""
    message = step.message
    if step.kind == "state":
        reason = f": {step.body['reason']}" if step.body.get("reason") else ""
        return f"{step.body['from']} -> {step.body['to']}{reason}"
    if message is None:
        if step.kind == "tool":
            return f"{step.body.get('name')}({json.dumps(step.body.get('args'), ensure_ascii=False)})"
        return f"asks {step.body.get('model')}" if step.kind == "model" else str(step.body.get("outcome", ""))
    calls = ", ".join(f"calls {call['name']}" for call in message.get("calls", ()))
    return message["text"] or calls
