"""What harnesses print for programs, line by line, and how their command lines take servers, models and sessions.

Observed with Claude Code 2.1.330 (`-p --output-format stream-json`) and Codex 0.169.0 (`exec --json`); a line that is
not known is left out, since both print more with every version.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace

from perpetual.toolkit.fence import neutralise
from perpetual_harnesses.dispatch.base import Kind, Task, Usage
from perpetual_harnesses.dispatch.messages import Json, items, mapping, mappings
from perpetual_harnesses.dispatch.stream import Gathered, count, difference, money, trouble_in

__all__ = ["DIALECTS", "Claude", "Codex", "Dialect", "Text"]

_WAITS = "PERPETUAL_MCP_MAX_WAIT"  # how long our server may take for a call: what `tool_timeout_sec` allows, and less


class Dialect(ABC):
    """One harness's way to take a task on its command line, and to print what it does."""

    by_lines = True

    def servers(self, task: Task) -> list[str]:
        """Returns the words that hand the task's MCP servers over."""
        return []

    def permissions(self, task: Task) -> list[str]:
        """Returns the words that permit what the task's policy allows, and nothing else."""
        return []

    def agent(self, task: Task) -> list[str]:
        """Returns the words that choose the agent."""
        return []

    def budget(self, task: Task) -> list[str]:
        """Returns the words by which the harness itself holds a limit of money."""
        return []

    @abstractmethod
    def take(self, line: str, gathered: Gathered) -> None:
        """Takes one line of standard output, or the whole of it where it is not in lines."""

    @abstractmethod
    def is_whole(self, gathered: Gathered) -> bool:
        """Returns whether the harness has said that the turn is over."""


class Claude(Dialect):
    """Claude Code: one JSON object a line, the last one of the type `result`."""

    _TOOLS: Mapping[Kind, tuple[str, ...]] = {
        "read": ("Read", "Glob", "Grep"), "search": ("Glob", "Grep"), "edit": ("Edit", "Write", "NotebookEdit"),
        "execute": ("Bash",), "fetch": ("WebFetch", "WebSearch"), "think": ("Task",),
    }  # fmt: skip
    _KINDS: Mapping[str, Kind] = {
        "Read": "read", "Glob": "search", "Grep": "search", "Edit": "edit", "Write": "edit", "NotebookEdit": "edit",
        "Bash": "execute", "WebFetch": "fetch", "WebSearch": "fetch", "Task": "think",
    }  # fmt: skip

    def __init__(self) -> None:
        self._is_whole = False
        self._calls: dict[str, Usage] = {}  # message -> what it used, as last said

    def servers(self, task: Task) -> list[str]:
        """Returns the option with the servers as JSON; their tools are to be in the first request."""
        if not task.servers:
            return []
        known = {one.name: {"type": "stdio", "command": one.command, "args": [*one.args], "env": dict(one.env),
                            "alwaysLoad": True} for one in task.servers}  # fmt: skip
        return ["--mcp-config", json.dumps({"mcpServers": known})]

    def permissions(self, task: Task) -> list[str]:
        """Returns the option that allows the servers' tools, and those of the kinds that the policy has."""
        allowed = [f"mcp__{one.name}" for one in task.servers]
        allowed += [tool for kind in sorted(task.allow) for tool in self._TOOLS.get(kind, ())]
        return [
            "--permission-mode",
            "default",
            *(["--allowedTools", ",".join(dict.fromkeys(allowed))] if allowed else []),
        ]

    def agent(self, task: Task) -> list[str]:
        """Returns the option that makes an agent the main one; an unknown one is an error of Claude Code."""
        return ["--agent", task.agent] if task.agent else []

    def budget(self, task: Task) -> list[str]:
        """Returns the limit for the whole session, as Claude Code counts it."""
        usd = task.limits.usd
        return [] if usd is None else ["--max-budget-usd", f"{usd + (task.known.usd or 0.0):.6f}"]

    def take(self, line: str, gathered: Gathered) -> None:
        """Takes an event."""
        event = _object(line)
        kind = event.get("type")
        if kind == "system" and event.get("subtype") == "init":
            self._begin(event, gathered)
        elif kind == "assistant":
            self._said(mapping(event.get("message")), gathered)
        elif kind == "user":
            for block in mappings(mapping(event.get("message")).get("content")):
                if block.get("type") == "tool_result":
                    status = "failed" if block.get("is_error") else "completed"
                    gathered.tool(str(block.get("tool_use_id")), status=status)
        elif kind == "result":
            self._end(event, gathered)

    def _begin(self, event: Json, gathered: Gathered) -> None:
        gathered.session = _named(event.get("session_id")) or gathered.session
        gathered.model = str(event.get("model") or "")
        wanted = {server.name for server in gathered.task.servers}
        for server in mappings(event.get("mcp_servers")):
            if server.get("name") in wanted and server.get("status") in ("failed", "needs-auth", "disabled"):
                gathered.blame("server_missing", f"the MCP server {server.get('name')} is {server.get('status')}")

    def _said(self, message: Json, gathered: Gathered) -> None:
        id = str(message.get("id"))
        usage = mapping(message.get("usage"))
        if usage and id not in self._calls:
            gathered.step()
        for block in mappings(message.get("content")):
            if block.get("type") == "text":
                gathered.begin_words()
                gathered.say(str(block.get("text") or ""))
            elif block.get("type") == "tool_use":
                name = str(block.get("name"))
                gathered.tool(str(block.get("id")), title=name, kind=self._KINDS.get(name, "other"))
        if usage:
            self._calls[id] = _claude_usage(usage)
            into = sum(one.tokens_in or 0 for one in self._calls.values())
            out = sum(one.tokens_out or 0 for one in self._calls.values())
            gathered.used = replace(gathered.used, tokens_in=into, tokens_out=out)

    def _end(self, event: Json, gathered: Gathered) -> None:
        self._is_whole = True
        gathered.session = _named(event.get("session_id")) or gathered.session
        usage = _claude_usage(mapping(event.get("usage")))
        steps = count(event.get("num_turns")) or gathered.used.steps
        total = money(event.get("total_cost_usd"))
        gathered.sums = replace(gathered.sums, usd=total)
        usd = difference(Usage(usd=total), Usage(usd=gathered.task.known.usd)).usd
        gathered.used = Usage(usage.tokens_in, usage.tokens_out, usd, steps)
        for denied in mappings(event.get("permission_denials")):
            name = str(denied.get("tool_name"))
            gathered.asked(name, self._KINDS.get(name, "other"), allowed=False)
        said = event.get("result")
        if event.get("subtype") == "error_max_budget_usd":
            gathered.blame("budget_cut", "Claude Code stopped at the limit of money")
        elif event.get("subtype") == "error_max_turns":
            gathered.blame("budget_cut", "Claude Code stopped at its own limit of turns")
        elif event.get("is_error"):
            words = str(said or "; ".join(map(str, items(event.get("errors")))) or event.get("subtype"))
            status = event.get("api_error_status")
            is_login = status in (401, 403) or "auth_required" in trouble_in(words)
            gathered.replace_text("")
            gathered.blame("auth_required" if is_login else "no_answer", words)
        elif isinstance(said, str):
            gathered.replace_text(said)

    def is_whole(self, gathered: Gathered) -> bool:
        """Returns whether the last event came."""
        return self._is_whole


def _claude_usage(usage: Json) -> Usage:
    """Returns tokens as Claude Code reports them: those of the cache are not in the input's."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    into = [number for name in names if (number := count(usage.get(name))) is not None]
    return Usage(sum(into) if into else None, count(usage.get("output_tokens")))


class Codex(Dialect):
    """Codex: one JSON object a line, `turn.completed` or `turn.failed` at the end. It names no money."""

    _KINDS: Mapping[str, Kind] = {
        "command_execution": "execute", "file_change": "edit", "web_search": "fetch", "mcp_tool_call": "other",
    }  # fmt: skip

    def __init__(self) -> None:
        self._is_whole = False
        self._is_stepping = False

    def servers(self, task: Task) -> list[str]:
        """Returns settings that add the servers; a run waits for them, and fails where one cannot start."""
        words: list[str] = []
        for one in task.servers:
            values: dict[str, object] = {"command": one.command, "args": [*one.args], "required": True,
                                         "startup_timeout_sec": 60, "tool_timeout_sec": 3600,
                                         "default_tools_approval_mode": "approve"}  # fmt: skip
            values |= {f"env.{name}": value for name, value in {_WAITS: "55m", **one.env}.items()}
            # JSON of a text, a number, a list of texts and a truth value is TOML as well.
            words += [word for key, value in values.items()
                      for word in ("-c", f"mcp_servers.{one.name}.{key}={json.dumps(value)}")]  # fmt: skip
        return words

    def permissions(self, task: Task) -> list[str]:
        """Returns the sandbox: files may be written where the policy has edits and commands."""
        writes = {"edit", "execute"} <= task.allow  # its sandbox knows no edits without commands
        return ["-c", f'sandbox_mode="{"workspace-write" if writes else "read-only"}"']

    def take(self, line: str, gathered: Gathered) -> None:
        """Takes an event."""
        event = _object(line)
        kind = event.get("type")
        if kind == "thread.started":
            gathered.session = _named(event.get("thread_id")) or gathered.session
        elif kind in ("item.started", "item.completed", "item.updated"):
            self._item(mapping(event.get("item")), str(kind), gathered)
        elif kind == "turn.completed":
            self._is_whole = True
            self._used(mapping(event.get("usage")), gathered)
        elif kind in ("turn.failed", "error"):
            failure = event.get("error")
            words = str(failure.get("message") if isinstance(failure, Mapping) else event.get("message"))
            if kind == "turn.failed":
                self._is_whole = True
                found = trouble_in(words) & {"auth_required", "server_missing"}
                gathered.blame(next(iter(sorted(found)), "no_answer"), words)

    def _item(self, item: Json, event: str, gathered: Gathered) -> None:
        kind, id = str(item.get("type")), str(item.get("id"))
        if not self._is_stepping and kind in ("agent_message", "reasoning", *self._KINDS):
            gathered.step()
            self._is_stepping = True
        if kind == "agent_message" and event == "item.completed":
            gathered.begin_words()
            gathered.say(str(item.get("text") or ""))
        elif kind in self._KINDS:
            title = item.get("tool") or item.get("command") or kind
            status = {"completed": "completed", "failed": "failed", "declined": "failed"}.get(str(item.get("status")))
            gathered.tool(id, title=str(title), kind=self._KINDS[kind], status=status)
            if event == "item.completed":
                self._is_stepping = False
            refusal = json.dumps(item.get("error"), default=str)
            if item.get("status") == "declined" or "requires approval" in refusal:
                gathered.asked(str(title), self._KINDS[kind], allowed=False)

    def _used(self, usage: Json, gathered: Gathered) -> None:
        sums = Usage(count(usage.get("input_tokens")), count(usage.get("output_tokens")))
        gathered.sums = sums
        used = difference(sums, gathered.task.known)
        gathered.used = replace(gathered.used, tokens_in=used.tokens_in, tokens_out=used.tokens_out)

    def is_whole(self, gathered: Gathered) -> bool:
        """Returns whether the last event came."""
        return self._is_whole


class Text(Dialect):
    """Any program whose standard output is the answer."""

    by_lines = False

    def take(self, line: str, gathered: Gathered) -> None:
        """Takes the whole output."""
        gathered.say(line)

    def is_whole(self, gathered: Gathered) -> bool:
        """Returns that the output says nothing of its end; the exit status does."""
        return True


DIALECTS: Mapping[str, type[Dialect]] = {"claude": Claude, "codex": Codex, "text": Text}


def _object(line: str) -> Json:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _named(value: object) -> str | None:
    return neutralise(value, 200) if isinstance(value, str) and value else None
