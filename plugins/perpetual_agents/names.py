"""Full names of the kinds of records and events of agents, and other words that several modules share."""

from __future__ import annotations

__all__ = [
    "ACCOUNT",
    "AGENT",
    "ANSWERED",
    "BRANCH",
    "CHECKPOINT",
    "COUNTERS",
    "CREATED",
    "DELETED",
    "MEMORY",
    "MESSAGE",
    "MOVED",
    "POSTED",
    "REMEMBERED",
    "RESTORED",
    "SERVICE",
    "STEP",
]

AGENT, BRANCH, ACCOUNT = "agents.agent", "agents.branch", "agents.account"
STEP, MESSAGE, CHECKPOINT = "agents.step", "agents.message", "agents.checkpoint"
CREATED, MOVED, POSTED, ANSWERED, RESTORED, DELETED = (
    "agents.created", "agents.moved", "agents.posted", "agents.answered", "agents.restored", "agents.deleted",
)  # fmt: skip
MEMORY, REMEMBERED = "agents.memory", "agents.remembered"
SERVICE = "agents"
COUNTERS = ("turns", "messages", "model_calls", "tool_calls", "errors", "checkpoints", "wakes")
