"""What a harness that the lab drives is permitted, request by request: the task's policy, and never for good."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perpetual_harnesses.dispatch.base import KINDS, Kind, Server, Task

__all__ = ["allows", "kind_of", "option_of", "server_of"]

_SEPARATORS = ("__", "_", "-", ".", ":", "/", " ")
_MCP_INPUT = frozenset(("server", "tool", "arguments"))
_TITLE = re.compile(r"[A-Za-z0-9_.:/ ()\-]{1,120}")


def kind_of(value: object) -> Kind:
    """Returns the kind of a tool call as the harness names it; `other` for what is no kind."""
    return next((kind for kind in KINDS if kind == value), "other")


def server_of(title: str, servers: Sequence[Server]) -> str | None:
    """Returns the server among `servers` whose tool a title names, as `mcp__perpetual__perpetual_scan` does.

    Gemini CLI's form is `perpetual_scan (perpetual MCP Server)`.

    The whole title must be such a name: a command that merely begins with it is none.
    """
    if not _TITLE.fullmatch(title):
        return None
    for server in servers:
        name = re.escape(server.name)
        joint = "|".join(re.escape(separator) for separator in _SEPARATORS)
        if re.fullmatch(rf"(?:mcp(?:{joint}))?{name}(?:{joint})[A-Za-z0-9_]+", title) or re.fullmatch(
            rf"[A-Za-z0-9_]+ \({name} MCP Server\)", title
        ):
            return server.name
    return None


def allows(task: Task, kind: Kind, title: str, raw: object = None, *, is_mcp: bool = False) -> bool:
    """Returns whether a tool call may go on: its kind is in the task's policy, or it is a tool of the task's servers.

    Args:
        task: has the policy.
        kind: of the call, as the harness says.
        title: of the call. A model chooses it for some kinds (the description of a command), so it counts for `other`
            alone, as which harnesses name the tools of servers.
        raw: the call's input, where the harness shows it.
        is_mcp: whether the harness marks the call as one of an MCP server; Codex does, and names its kind `execute`.
    """
    if kind in task.allow:
        return True
    names = [server.name for server in task.servers]
    if is_mcp:
        return isinstance(raw, Mapping) and set(raw) <= _MCP_INPUT and raw.get("server") in names
    if kind != "other" or server_of(title, task.servers) is None:
        return False
    return not isinstance(raw, Mapping) or raw.get("server", title) in (title, *names)


def option_of(options: object, *, allowed: bool) -> str | None:
    """Returns the id of the option that answers a request once; None where the harness offers none."""
    wanted = "allow_once" if allowed else "reject_once"
    found = [one for one in options if isinstance(one, Mapping)] if isinstance(options, Sequence) else []
    for kind in (wanted,) if allowed else (wanted, "reject_always"):
        for one in found:
            if one.get("kind") == kind and isinstance(one.get("optionId"), str):
                return str(one["optionId"])
    return None
