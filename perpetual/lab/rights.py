"""Guard rails: what works under a coding agent's shell, and what a person must do. A convention, not a boundary."""

from __future__ import annotations

from collections.abc import Mapping

from perpetual.errors import NotPermitted
from perpetual.methodology import Methodology

__all__ = ["actor_name", "harness", "is_agent", "require_person"]

_VARIABLES = {
    "CLAUDECODE": "Claude Code",
    "CURSOR_AGENT": "Cursor",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",  # of every shell it starts; the one above is of the sandbox of macOS
    "OPENCODE": "OpenCode",
}


def harness(environment: Mapping[str, str]) -> str | None:
    """The coding agent under whose shell this process runs, by its environment variable, or None."""
    return next((name for variable, name in _VARIABLES.items() if environment.get(variable)), None)


def require_person(deed: str, environment: Mapping[str, str], methodology: Methodology) -> None:
    """Raises NotPermitted under an agent's shell unless the methodology lets agents approve."""
    who = harness(environment)
    if who is not None and not methodology["agents_may_approve"]:
        raise NotPermitted(
            f"{deed} is for a person, and this shell is {who}'s",
            hint="ask a person to do it, or let them run: perpetual methodology set agents_may_approve true",
        )


def is_agent(actor: str) -> bool:
    """Whether an actor's name is a coding agent's, over its shell or over MCP."""
    return actor.startswith(("agent:", "mcp:"))


def actor_name() -> str:
    """In whose name a command or a script acts: `agent:<harness>` under an agent's shell, else `user:<login>`."""
    import getpass
    import os

    who = harness(os.environ)
    if who is not None:
        return f"agent:{who.lower().replace(' ', '-')}"
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"user:{os.getuid() if hasattr(os, 'getuid') else 'unknown'}"  # a user id that has no name
