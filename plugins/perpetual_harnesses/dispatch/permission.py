"""What a harness that the lab drives is permitted, request by request: the task's policy, and never for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpetual_harnesses.dispatch.base import KINDS, Kind, Server, Task

__all__ = ["allows", "kind_of", "option_of", "server_of"]

_MCP_INPUT = frozenset(("server", "tool", "arguments"))


def kind_of(value: object) -> Kind:
    """Returns the kind of a tool call as the harness names it; `other` for what is no kind."""
    return next((kind for kind in KINDS if kind == value), "other")


def server_of(title: str, servers: Sequence[Server]) -> str | None:
    """Returns the server among `servers` of whose tools a title is the name, as harnesses write it.

    The whole title must be such a name, of a tool that the server is known to have: of another server whose name merely
    begins alike, no tool is.
    """
    return next((one.name for one in servers for tool in one.tools if title in _titles(one.name, tool)), None)


def _titles(server: str, tool: str) -> frozenset[str]:
    return frozenset((
        f"mcp__{server}__{tool}",  # Claude Code
        f"{server}_{tool}",  # OpenCode, Kilo
        f"mcp.{server}.{tool}",  # Codex
        f"mcp_{server}_{tool}",
        f"{server}-{tool}",  # Copilot CLI
        f"{tool} ({server} MCP Server)",  # Gemini CLI, Qwen Code
    ))  # fmt: skip


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
    if is_mcp:
        return isinstance(raw, Mapping) and set(raw) <= _MCP_INPUT and any(
            raw.get("server") == server.name and raw.get("tool") in server.tools
            for server in task.servers if isinstance(raw.get("tool"), str)
        )  # fmt: skip
    return kind == "other" and server_of(title, task.servers) is not None


def option_of(options: object, *, allowed: bool) -> str | None:
    """Returns the id of the option that answers a request once; None where the harness offers none."""
    wanted = "allow_once" if allowed else "reject_once"
    found = [one for one in options if isinstance(one, Mapping)] if isinstance(options, Sequence) else []
    for kind in (wanted,) if allowed else (wanted, "reject_always"):
        for one in found:
            if one.get("kind") == kind and isinstance(one.get("optionId"), str):
                return str(one["optionId"])
    return None
