"""The command `perpetual agent memory`. Loaded by the command line when it is called."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, line, page_options, pass_cli
from perpetual.toolkit.foreign import parse_json
from perpetual_agents.id_group import IdGroup

if TYPE_CHECKING:
    from perpetual_agents.memory_documents import (
        ConsolidatedDocument,
        MemoryDocument,
        MemoryHitDocument,
        MemoryUndone,
        MemoryWriteDocument,
    )

__all__ = ["memory"]

_AGENT = "perpetual_agents.memory"  # the key of the context's meta that holds ID
_SCOPE = click.option("--scope", metavar="S", help="shared or shared:NAME instead of the agent's own.")
_MOST_READ = 64 * 1024 + 1
_COLUMNS = ("entry", "version", "status", "by", "says")


@click.group(cls=IdGroup, invoke_without_command=True)
@click.argument("agent_id", metavar="ID")
@json_option
@pass_cli
@click.pass_context
def memory(ctx: click.Context, cli: CliContext, agent_id: str) -> None:
    """Read and write what an agent keeps for long, by key: its own entries, or shared ones.

    ID is an agent's id or its name. Each text goes through the gates of the project. A changed entry keeps its older
    versions. Without a subcommand: the entries.
    """
    ctx.meta[_AGENT] = agent_id
    if ctx.invoked_subcommand is None:
        _list(cli, agent_id, None, 100, None)


def _scope(scope: str | None) -> str:
    """Returns the scope that a command is about, the agent's own by default."""
    agent: str = click.get_current_context().meta[_AGENT]
    if scope is None:
        return agent
    from perpetual_agents.memory_text import check_shared

    return check_shared(scope)


@memory.command(name="set")
@click.argument("key", metavar="KEY")
@click.argument("value", metavar="VALUE")
@click.option("--json-value", is_flag=True, help="VALUE is JSON, not text.")
@_SCOPE
@json_option
@pass_cli
def set_(cli: CliContext, key: str, value: str, json_value: bool, scope: str | None) -> None:
    """Write an entry. VALUE - reads standard input."""
    from perpetual_agents.memory import AgentMemory

    text = sys.stdin.read(_MOST_READ) if value == "-" else value
    made = AgentMemory(cli.lab).set(_scope(scope), key, _parsed(text) if json_value else text)
    cli.answer("agent_memory_write", made, lambda: _written(made))


def _parsed(text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as problem:
        raise UsageError(f"VALUE is no JSON: {problem}", hint="without --json-value it is text") from problem


def _written(made: MemoryWriteDocument) -> str:
    said = "" if made["changed"] else "  unchanged"
    lines = [f"{line(made['key'])}  {made['status']}  version {made['version']}{said}"]
    if made["status"] == "quarantined":
        category = made["verdict"]["category"] if made["verdict"] else None
        lines.append(f"  {line(category or 'quarantine')}: no agent is shown it until a person releases it")
    if made["alike"]:
        lines.append(f"  says the same as: {', '.join(map(line, made['alike'][:5]))}")
    return "\n".join(lines)


@memory.command()
@click.argument("key", metavar="KEY")
@_SCOPE
@json_option
@pass_cli
def get(cli: CliContext, key: str, scope: str | None) -> None:
    """Show an entry."""
    from perpetual_agents.memory import AgentMemory

    found = AgentMemory(cli.lab).get(_scope(scope), key)
    cli.answer("agent_memory", found, lambda: _value(found["value"]))


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


@memory.command()
@click.argument("query", metavar="QUERY")
@click.option("-k", "k", type=click.IntRange(1, 100), default=10, show_default=True, help="Hits at most.")
@_SCOPE
@json_option
@pass_cli
def search(cli: CliContext, query: str, k: int, scope: str | None) -> None:
    """Find entries by their words, and what persons said to the agent. Without --scope in shared entries too."""
    from perpetual_agents.memory import AgentMemory
    from perpetual_agents.memory_text import SHARED

    scopes = [_scope(scope), *([SHARED] if scope is None else [])]
    found = AgentMemory(cli.lab).search(query, scopes, k=k)

    def row(one: MemoryHitDocument) -> tuple[str, ...]:
        return (line(one["key"]), one["scope"], one["status"], line(one["author"]), line(one["text"])[:80])

    cli.items("agent_memory_hits", found, None, ("entry", "scope", "status", "by", "says"), row, empty="nothing fits")


@memory.command(name="list")
@click.option("--status", metavar="S", help="Versions of this status, such as quarantined or rejected.")
@_SCOPE
@page_options
@json_option
@pass_cli
def list_(cli: CliContext, status: str | None, scope: str | None, limit: int, cursor: str | None) -> None:
    """List the entries, newest first."""
    _list(cli, _scope(scope), status, limit, cursor)


def _list(cli: CliContext, scope: str, status: str | None, limit: int, cursor: str | None) -> None:
    from perpetual_agents.memory import AgentMemory

    page = AgentMemory(cli.lab).list(scope, status=status, limit=limit, cursor=cursor)
    cli.items("agent_memories", page.items, page.next_cursor, _COLUMNS, _row, empty="no entries yet")


def _row(one: MemoryDocument) -> tuple[str, ...]:
    says = one["why"] or "-" if one["value"] is None else line(_value(one["value"]))
    return (line(one["key"]), str(one["version"]), one["status"], line(one["author"]), line(says)[:80])


@memory.command()
@click.argument("key", metavar="KEY")
@click.option("--why", metavar="T", help="The reason, which its history shows.")
@click.option("--restore", is_flag=True, help="Bring it back instead.")
@_SCOPE
@json_option
@pass_cli
def delete(cli: CliContext, key: str, why: str | None, restore: bool, scope: str | None) -> None:
    """Take an entry away. Its history stays, and --restore brings it back."""
    from perpetual_agents.memory import AgentMemory

    kept = AgentMemory(cli.lab)
    if restore:
        back = kept.restore(_scope(scope), key)
        cli.answer("agent_memory", back, lambda: f"{line(key)} is back as version {back['version']}")
        return
    gone = kept.delete(_scope(scope), key, why=why)
    cli.answer("agent_memory_deleted", gone, lambda: f"{line(key)} is deleted; --restore brings it back")


@memory.command()
@click.argument("key", metavar="KEY")
@_SCOPE
@page_options
@json_option
@pass_cli
def history(cli: CliContext, key: str, scope: str | None, limit: int, cursor: str | None) -> None:
    """List the versions of an entry, newest first."""
    from perpetual_agents.memory import AgentMemory

    page = AgentMemory(cli.lab).history(_scope(scope), key, limit=limit, cursor=cursor)

    def row(one: MemoryDocument) -> tuple[str, ...]:
        return (one["id"], *_row(one)[1:])

    cli.items("agent_memories", page.items, page.next_cursor, ("version id", *_COLUMNS[1:]), row, empty="no versions")


@memory.command()
@click.argument("key", metavar="KEY")
@click.option("--why", metavar="T", required=True, help="What you say for it.")
@click.option("--version", "version_id", metavar="Y", help="This version and no other, by its id.")
@_SCOPE
@json_option
@pass_cli
def release(cli: CliContext, key: str, why: str, version_id: str | None, scope: str | None) -> None:
    """Let agents see a quarantined entry. This is for a person."""
    from perpetual_agents.memory import AgentMemory

    made = AgentMemory(cli.lab).release(_scope(scope), key, why, id=version_id)
    cli.answer("agent_memory", made, lambda: f"{line(key)} is released")


@memory.command()
@click.option("--undo", "batch", metavar="BATCH", help="Take this consolidation back.")
@_SCOPE
@json_option
@pass_cli
def consolidate(cli: CliContext, batch: str | None, scope: str | None) -> None:
    """Merge entries that say the same, and summarise old messages of the agent.

    What a person wrote is never pruned, every version stays in the history, and --undo takes the merging back.
    """
    from perpetual_agents import consolidation

    if batch is not None:
        from perpetual_agents.memory import AgentMemory

        keys: Sequence[str] = AgentMemory(cli.lab).undo(batch)
        undone: MemoryUndone = {"batch": batch, "keys": [*keys]}
        named = ", ".join(map(line, keys)) or "nothing was left of it"
        cli.answer("agent_memory_undone", undone, f"{line(batch)} is taken back: {named}")
        return
    made = consolidation.consolidate(cli.lab, _scope(None), scope=None if scope is None else _scope(scope))
    cli.answer("agent_memory_consolidated", made, lambda: _consolidated(made))


def _consolidated(made: ConsolidatedDocument) -> str:
    lines = []
    if made["batch"]:
        lines.append(f"{len(made['pruned'])} entries merged into {', '.join(map(line, made['merged']))}")
        lines.append(f"next: perpetual agent memory {made['scope']} consolidate --undo {made['batch']}")
    if made["covers"]:
        by = made["by"] or "no model: it lists what there was"
        lines.append(f"{made['covers']} old messages summarised, by {line(by)}")
    return "\n".join(lines) or "nothing to consolidate"
