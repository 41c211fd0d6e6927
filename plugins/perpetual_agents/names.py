"""Full names of the kinds of records and events of agents, and other words that several modules share."""

from __future__ import annotations

__all__ = [
    "ACCOUNT",
    "AGENT",
    "ANSWERED",
    "APPROVAL",
    "ASKED",
    "BRANCH",
    "CHANGED",
    "CHECKPOINT",
    "COUNTERS",
    "CREATED",
    "CURSOR",
    "DECIDED",
    "DELETED",
    "MEMORY",
    "MESSAGE",
    "MOVED",
    "POSTED",
    "REMEMBERED",
    "RESTORED",
    "SERVICE",
    "STEP",
    "TIMED",
    "TIMER",
]

AGENT, BRANCH, ACCOUNT = "agents.agent", "agents.branch", "agents.account"
STEP, MESSAGE, CHECKPOINT = "agents.step", "agents.message", "agents.checkpoint"
CREATED, MOVED, POSTED, ANSWERED, RESTORED, DELETED = (
    "agents.created", "agents.moved", "agents.posted", "agents.answered", "agents.restored", "agents.deleted",
)  # fmt: skip
MEMORY, REMEMBERED = "agents.memory", "agents.remembered"
TIMER, TIMED = "agents.timer", "agents.timed"
APPROVAL, ASKED, DECIDED = "agents.approval", "agents.asked", "agents.decided"
CURSOR, CHANGED = "agents.cursor", "agents.changed"
SERVICE = "agents"
COUNTERS = ("turns", "messages", "model_calls", "tool_calls", "errors", "wakes")
