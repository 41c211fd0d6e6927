"""Persistent agents: they live on in the record of a project, through every crash and restart of a program.

    from perpetual_agents import AgentManager, GenericPurposeDrivenAgent

    manager = AgentManager()
    scout = GenericPurposeDrivenAgent(agent_id="scout", purpose="find what lowers val_loss")
    await manager.register_agent(scout)
    await scout.add_goal("a baseline with five seeds")

What is public is imported at first use: the plugin's entry point loads this module too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `as` says that the name is public
    from perpetual_agents.agent import PerpetualAgent as PerpetualAgent
    from perpetual_agents.agents import Agents as Agents
    from perpetual_agents.alignment import Alignment as Alignment
    from perpetual_agents.checkpoints import Checkpoints as Checkpoints
    from perpetual_agents.context_server import ContextServer as ContextServer
    from perpetual_agents.decorators import prompt as prompt
    from perpetual_agents.decorators import tool as tool
    from perpetual_agents.handler import Handler as Handler
    from perpetual_agents.handler import Suspend as Suspend
    from perpetual_agents.lifecycle import IllegalMove as IllegalMove
    from perpetual_agents.manager import AgentManager as AgentManager
    from perpetual_agents.model import ModelBackend as ModelBackend
    from perpetual_agents.model import ModelError as ModelError
    from perpetual_agents.model import ModelReply as ModelReply
    from perpetual_agents.model import ModelRequest as ModelRequest
    from perpetual_agents.model import ModelUnavailable as ModelUnavailable
    from perpetual_agents.purpose_agents import GenericPurposeDrivenAgent as GenericPurposeDrivenAgent
    from perpetual_agents.purpose_agents import LeadershipAgent as LeadershipAgent
    from perpetual_agents.purpose_agents import PurposeDrivenAgent as PurposeDrivenAgent
    from perpetual_agents.tools import ToolContext as ToolContext
    from perpetual_agents.typed_state import UnpersistableState as UnpersistableState

_HOMES = {
    "agent": "PerpetualAgent",
    "agents": "Agents",
    "alignment": "Alignment",
    "checkpoints": "Checkpoints",
    "context_server": "ContextServer",
    "decorators": "prompt tool",
    "handler": "Handler Suspend",
    "lifecycle": "IllegalMove",
    "manager": "AgentManager",
    "model": "ModelBackend ModelError ModelReply ModelRequest ModelUnavailable",
    "purpose_agents": "GenericPurposeDrivenAgent LeadershipAgent PurposeDrivenAgent",
    "tools": "ToolContext",
    "typed_state": "UnpersistableState",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'perpetual_agents' has no attribute {name!r}")
    found = getattr(import_module(f"perpetual_agents.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__]
