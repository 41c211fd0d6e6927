"""The environment of a harness that the lab drives: the caller's, without what makes it take itself for another's."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping

from perpetual.toolkit.agents import AGENT_VARIABLES, DISPATCH
from perpetual_harnesses.dispatch.base import Row, Task

__all__ = ["cleaned", "new_mark"]


# Beside the marks of agents: identities of a session around this process, and a variable under which Claude Code
# allows bypassing its permissions. Keys, endpoints and homes of harnesses stay: they are the user's settings.
_DROPPED = frozenset((
    "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_PROJECT_DIR",
    "CLAUDE_ENV_FILE", "CODEX_MANAGED_BY_NPM", "OPENCODE_PID", "OPENCODE_SERVER", "GEMINI_CLI_IDE_SERVER_PORT",
    "IS_SANDBOX", "TERM_PROGRAM", "VSCODE_PID",
))  # fmt: skip
# Of Perpetual's own variables a harness keeps those by which it finds the project and the user's state.
_OWN = "PERPETUAL_"
_KEPT = frozenset(("PERPETUAL_PROJECT", "PERPETUAL_STATE_DIR", "PERPETUAL_CACHE_DIR", "PERPETUAL_BOOT_ID"))


def cleaned(environment: Mapping[str, str], row: Row, task: Task) -> dict[str, str]:
    """Returns the environment for a harness.

    Args:
        environment: the caller's.
        row: the harness, with the variables that it must not see and those that it needs.
        task: the turn, with its mark and the kinds of tool calls that it allows.
    """
    found = {
        name: value
        for name, value in environment.items()
        if name not in AGENT_VARIABLES
        and name not in _DROPPED
        and name not in row.drops
        and (not name.startswith(_OWN) or name in _KEPT)
    }
    found |= row.sets
    if row.asks_by:
        asked = [name for kind, names in row.asks.items() if kind not in task.allow for name in names]
        found[row.asks_by] = json.dumps({**_object(found.get(row.asks_by)), **dict.fromkeys(asked, "ask")})
    return {**found, DISPATCH: task.mark}


def _object(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def new_mark() -> str:
    """Returns a mark that no other turn has."""
    return secrets.token_hex(16)
