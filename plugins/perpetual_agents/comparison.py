"""Agents that share a past, side by side: what differs between them, and what each did since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual_agents import show
from perpetual_agents.agents import Agents
from perpetual_agents.journal import Journal

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.documents import AgentFork

__all__ = ["compare"]

_FIELDS = ("model", "system_prompt", "purpose", "scope", "criteria", "tools", "goals", "data", "settings", "state")
_MOST = 20  # answers of each
_COUNTED = ("model", "tool")


def compare(lab: Lab, agents: Sequence[str]) -> AgentFork:
    """Returns agents side by side; steps are counted on each one's own branch. Raises NotFound."""
    found = [Agents(lab).get(one) for one in agents]
    differs: dict[str, list[object]] = {}
    for name in _FIELDS:
        values = [_plain(getattr(one, name)) for one in found]
        if any(value != values[0] for value in values):
            differs[name] = values
    steps = []
    for one in found:
        journal = Journal(lab, one.id, one.branch)
        own = [step for step in journal.own() if step.phase == "done"]
        steps.append({kind: sum(step.kind == kind for step in own) for kind in _COUNTED})
    answers = [[show.message(row) for row in Agents(lab).messages(one.id, limit=_MOST).items] for one in found]
    return {"agents": show.agents(lab, found), "differs": differs, "answers": answers, "steps": steps}


def _plain(value: object) -> object:
    return [*value] if isinstance(value, tuple) else value
