"""Coding agents as their shells show them: by variables of the environment. Floor 0.

Used by the guard rails (`perpetual.lab.rights`), and by whoever starts a program that must not take itself for an
agent's.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["AGENT_VARIABLES", "harness"]

# variable -> the agent that sets it for every command it runs
AGENT_VARIABLES: dict[str, str] = {
    "CLAUDECODE": "Claude Code",
    "CURSOR_AGENT": "Cursor",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",  # of every shell it starts; the one above is of the sandbox of macOS
    "OPENCODE": "OpenCode",
}


def harness(environment: Mapping[str, str]) -> str | None:
    """The coding agent under whose shell a process with that environment runs, or None."""
    return next((name for variable, name in AGENT_VARIABLES.items() if environment.get(variable)), None)
