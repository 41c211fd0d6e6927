"""Guard rails: what works under a coding agent's shell, what a person must do, and which notes agents are shown.

A convention, not a boundary.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from perpetual.errors import NotPermitted
from perpetual.methodology import Methodology
from perpetual.toolkit.agents import harness

__all__ = ["BEHAVIOUR_TYPES", "actor_name", "harness", "is_agent", "require_person", "shown_version"]

# Notes of these types change how an agent behaves, so they are shown only once promoted.
BEHAVIOUR_TYPES = ("skill_card", "tool_policy", "critic_calibration", "user_preference", "purpose_contract")


def require_person(deed: str, environment: Mapping[str, str], methodology: Methodology) -> None:
    """Raises NotPermitted under an agent's shell unless the methodology lets agents approve."""
    who = harness(environment)
    if who is not None and not methodology["agents_may_approve"]:
        raise NotPermitted(
            f"{deed} is for a person, and this shell is {who}'s",
            hint="ask a person to do it, or let them run: perpetual methodology set agents_may_approve true",
        )


def shown_version(note: Mapping[str, Any], methodology: Methodology) -> int | None:
    """The intent whose text agents are shown of a note, given its row in the store; None if they are shown nothing.

    Once a version was promoted it is the one, until another is; before that a plain note is shown as the gates
    passed it, unless `memory_exposure` says otherwise.
    """
    promoted: int | None = note.get("promoted")
    exposed: int | None = note["exposed"]
    must_be_promoted = methodology["memory_exposure"] == "promoted" or note["type"] in BEHAVIOUR_TYPES
    return promoted if promoted is not None or must_be_promoted else exposed


def is_agent(actor: str) -> bool:
    """Whether an actor's name is a coding agent's, over its shell or over MCP."""
    return actor.startswith(("agent:", "mcp:"))


def actor_name() -> str:
    """In whose name a command or a script acts: `agent:<harness>` under an agent's shell, else `user:<login>`."""
    import getpass  # which costs a module or two, and most of what is asked here needs none

    who = harness(os.environ)
    if who is not None:
        return f"agent:{who.lower().replace(' ', '-')}"
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"user:{os.getuid() if hasattr(os, 'getuid') else 'unknown'}"  # a user id that has no name
