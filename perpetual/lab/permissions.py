"""Guard rails: what works under a coding agent's shell, what a person must do, and which notes agents are shown.

A convention, not a boundary.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from perpetual.config import MARKS
from perpetual.errors import NotPermitted
from perpetual.lab.context import Context
from perpetual.lab.methodology import Methodology
from perpetual.toolkit.agents import AN_AGENT, evidence, harness, mark
from perpetual.toolkit.readers import FOR_A_PERSON

if TYPE_CHECKING:
    from perpetual.lab.bodies import NoteBody

__all__ = [
    "BEHAVIOUR_TYPES",
    "PLAIN_TYPES",
    "actor_name",
    "for_agent",
    "harness",
    "is_agent",
    "is_same",
    "person_only",
    "require_person",
    "shown_version",
    "withholds",
]

# Notes of every other type, a plugin's too, change how an agent behaves, so they are shown only once promoted.
PLAIN_TYPES = ("note", "episodic_case", "failure_pattern")
BEHAVIOUR_TYPES = ("skill_card", "tool_policy", "critic_calibration", "user_preference", "purpose_contract")


def require_person(
    deed: str,
    environment: Mapping[str, str],
    methodology: Methodology | None,
    *,
    marks: Iterable[str] = (),
    actor: str | None = None,
) -> None:
    """Raises NotPermitted under an agent's shell unless the methodology lets agents approve.

    Args:
        methodology: None where no project is there to let agents approve.
        marks: further variables that mark an agent's shell (the configuration's `agent_marks`).
        actor: the name in which the operation is asked for; an agent's is refused like its shell.
    """
    found = mark(environment, marks)
    is_pushed = actor is not None and actor.startswith("git:")  # the author of a pushed note, whom anyone can name
    by_actor = is_pushed or (found is None and actor is not None and is_agent(actor))
    may = not is_pushed and methodology is not None and methodology["agents_may_approve"]
    if may or (found is None and not by_actor):
        return
    why = evidence(environment, *found) if found is not None else f"{actor} is {'no person' * is_pushed or 'an agent'}"
    raise NotPermitted(f"{deed} is for a person; {why}", hint=FOR_A_PERSON)


def person_only(ctx: Context, deed: str) -> None:
    """Raises NotPermitted where an agent asks for `deed`, by its shell or by its name; see `require_person`."""
    config = ctx.config
    require_person(deed, os.environ, config.methodology, marks=config[MARKS], actor=ctx.actor)


def withholds(ctx: Context) -> bool:
    """Returns whether an agent reads what this lab answers, and is not to be shown what only a person may do."""
    return for_agent(ctx) and not ctx.config.methodology["agents_may_approve"]


def for_agent(ctx: Context) -> bool:
    """Returns whether an agent reads what this lab answers, by its shell or by its name."""
    return is_agent(ctx.actor) or mark(os.environ, ctx.config[MARKS]) is not None


def shown_version(note: NoteBody, methodology: Methodology) -> int | None:
    """Returns the intent whose text agents are shown of a note, given its row in the store.

    None if they are shown nothing.

    Once a version was promoted it is the one, until another is; before that a plain note is shown as the gates
    passed it, unless `memory_exposure` says otherwise.
    """
    promoted: int | None = note.get("promoted")
    exposed: int | None = note["exposed"]
    must_be_promoted = methodology["memory_exposure"] == "promoted" or note["type"] not in PLAIN_TYPES
    return promoted if promoted is not None or must_be_promoted else exposed


def is_agent(actor: str) -> bool:
    """Returns whether an actor's name is a coding agent's, over its shell or over MCP."""
    return actor.startswith(("agent:", "mcp:"))


def is_same(actor: str, other: str) -> bool:
    """Returns whether two names are of one actor.

    An agent goes by one name over MCP and by its shell, in any version.
    """
    if actor == other:
        return True
    return is_agent(actor) and is_agent(other) and "unknown" not in (of := _agent_of(actor)) and of == _agent_of(other)


def _agent_of(actor: str) -> str:
    return actor.partition(":")[2].partition("/")[0].lower()


def actor_name(marks: Iterable[str] = ()) -> str:
    """Returns the name in which a command or a script acts: `agent:<harness>` in an agent's shell, or `user:<login>`.

    Args:
        marks: further variables that mark an agent's shell (the configuration's `agent_marks`).
    """
    import getpass  # which costs a module or two, and most of what is asked here needs none

    who = harness(os.environ, marks)
    if who is not None:
        return "agent:unknown" if who == AN_AGENT else f"agent:{who.lower().replace(' ', '-')}"
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"user:{os.getuid() if hasattr(os, 'getuid') else 'unknown'}"  # a user id that has no name
