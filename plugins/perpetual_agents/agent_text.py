"""An agent as a command answers it: its document, or the text of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.api import CliContext, line

if TYPE_CHECKING:
    from perpetual_agents.data import Agent
    from perpetual_agents.documents import AgentDocument

__all__ = ["show_agent"]


def show_agent(cli: CliContext, one: Agent, notes: Sequence[str] = ()) -> None:
    """Answers an agent as a whole, with notes about what was done."""
    from perpetual_agents import show as shown

    document = shown.agent(cli.lab, one, notes)
    cli.answer("agent", document, lambda: _agent_text(document))


def _agent_text(one: AgentDocument) -> str:
    state = one["state"] if one["activity"] is None else f"{one['state']} ({one['activity']})"
    lines = [f"{one['id']} {line(one['name'])}: {state}"]
    if one["reason"]:
        lines.append(f"reason: {line(one['reason'])}")
    lines += [f"{name}: {line(value)}" for name, value in (
        ("model", one["model"]), ("purpose", one["purpose"]), ("scope", one["scope"]),
        ("tools", ", ".join(one["tools"])), ("asks before", ", ".join(one["approvals"])),
        ("subscribes to", ", ".join(one["subscriptions"])), ("hypothesis", one["hypothesis"]),
        ("forked from", one["parent"]),
    ) if value]  # fmt: skip
    lines += [f"goal {goal['id']} ({goal['status']}, {goal['progress']:.0%}): {line(goal['text'])}"
              for goal in one["goals"]]  # fmt: skip
    used, limits = one["usage"]["used"], one["usage"]["limits"]
    parts = [f"{used[name]:g}{'' if limits[name] is None else f' of {limits[name]:g}'} {name}" for name in used
             if used[name] or limits[name] is not None]  # fmt: skip
    if parts:
        lines.append("used: " + ", ".join(parts))
    lines.append(f"inbox: {one['inbox']}, turns: {one['counters']['turns']}, checkpoints: {one['checkpoints']}")
    lines += [f"note: {line(note)}" for note in one["notes"]]
    lines += [f"next: {step}" for step in one["next"]]
    return "\n".join(lines)
