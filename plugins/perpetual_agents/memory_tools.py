"""Tools of agents on their memory: the functions behind the name `memory`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual_agents.memory_text import SHARED, is_shared
from perpetual_agents.tools import AgentTool, ToolContext, ToolError

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.data import Agent

__all__ = ["MemoryTools", "build"]

_OWN = "own"
_MOST = 20  # hits
_CHARACTERS = 2_000  # of a hit


class MemoryTools(AgentTool):
    """Writes, searches and takes away entries of the agent's memory and of shared ones, through the lab's gates."""

    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        """Returns the functions."""
        return [remember, recall, forget]


def _scope(context: ToolContext, scope: str) -> str:
    """Returns the scope that a model named. Raises ToolError for another agent's."""
    if scope == _OWN:
        return context.agent.id
    if is_shared(scope):
        return scope
    raise ToolError(f"there is no scope {scope[:60]!r}", hint="own, shared, or shared:NAME")


def _message(context: ToolContext) -> str | None:
    """Returns the id of the message that the turn answers; a step's key is branch/message/number."""
    parts = context.key.split("/")
    return parts[1] if len(parts) > 2 and parts[1].startswith("m") else None


def remember(context: ToolContext, key: str, text: str, scope: str = _OWN) -> str:
    """Keeps a text under a key for later turns; a text under the same key replaces it, and older ones stay readable.

    scope is own (you alone), shared (all agents) or shared:NAME.
    """
    from perpetual_agents.memory import AgentMemory

    made = AgentMemory(context.lab).set(_scope(context, scope), key, text, agent=context.agent.id,
                                        message=_message(context), step=context.key or None)  # fmt: skip
    if made["status"] == "quarantined":
        return f"{key} is kept, and is shown only after a person has released it"
    if made["alike"]:
        return f"{key} is kept; these keys say the same already: {json.dumps(made['alike'][:5], ensure_ascii=False)}"
    return f"{key} is kept" if made["changed"] else f"{key} says so already"


def recall(context: ToolContext, query: str, k: int = 5, scope: str | None = None) -> list[dict[str, object]]:
    """Searches what was kept, and what persons said to you earlier; the best first.

    scope is own, shared or shared:NAME; without it your own entries and the shared ones.
    """
    from perpetual_agents.memory import AgentMemory

    scopes = [context.agent.id, SHARED] if scope is None else [_scope(context, scope)]
    found = AgentMemory(context.lab).search(query, scopes, k=max(1, min(k, _MOST)))
    return [{"key": one["key"], "text": one["text"][:_CHARACTERS], "by": one["author"], "at": one["created_at"],
             "kind": one["sort"], "scope": _OWN if one["scope"] == context.agent.id else one["scope"]}
            for one in found]  # fmt: skip


def forget(context: ToolContext, key: str, scope: str = _OWN) -> str:
    """Takes an entry away that you or another agent wrote."""
    from perpetual_agents.memory import AgentMemory

    try:
        AgentMemory(context.lab).delete(_scope(context, scope), key, step=context.key or None)
    except NotFound:
        return f"there is no entry {key}"
    return f"{key} is forgotten"


def build(options: Mapping[str, object]) -> MemoryTools:
    """Builds the tools."""
    return MemoryTools()
