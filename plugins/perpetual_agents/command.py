"""The command `perpetual agent`. Loaded by the command line when it is called."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from perpetual.api import (
    CliContext,
    UsageError,
    json_object,
    json_option,
    key_option,
    line,
    page_options,
    pass_cli,
    printable,
)
from perpetual.toolkit.units import seconds_of
from perpetual_agents.approval_command import approvals, approve, deny
from perpetual_agents.id_group import IdGroup
from perpetual_agents.memory_command import memory
from perpetual_agents.timer_command import timer

if TYPE_CHECKING:
    from perpetual.api import Record
    from perpetual_agents.data import Agent
    from perpetual_agents.documents import AgentDocument, AgentLine, CheckpointDocument, MessageDocument, StepDocument

__all__ = ["agent"]

_Command = TypeVar("_Command", bound=Callable[..., object])
_ID = click.argument("agent_id", metavar="ID")
_WHY = click.option("--why", metavar="T", help="A reason that is recorded.")
_TEXTS = ("model", "system_prompt", "purpose", "scope", "adapter", "hypothesis")
_LISTS = ("tools", "criteria", "subscriptions", "approvals")


@click.group(invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def agent(ctx: click.Context, cli: CliContext) -> None:
    """Make and run agents that live on: data in the record, a journal of every step, an inbox and checkpoints.

    An agent that was killed goes on at the step it was at, and what is recorded is not paid for again. ID is an
    agent's id or its name. Without a subcommand: the agents.
    """
    if ctx.invoked_subcommand is None:
        _list(cli, None, 100, None)


@agent.command()
@click.argument("name", metavar="NAME")
@click.option("--model", metavar="M", help="The model as PROVIDER:NAME; see docs/how-to/models.md.")
@click.option("--purpose", default="", metavar="T", help="What it is for, in the long run.")
@click.option("--scope", default="", metavar="T", help="What belongs to its purpose and what does not.")
@click.option("--criterion", "criteria", multiple=True, metavar="T", help="What its success is; may be repeated.")
@click.option("--system-prompt", default="", metavar="T", help="The words that come before its purpose.")
@click.option("--tool", "tools", multiple=True, metavar="T", help="A tool it may call; may be repeated.")
@click.option("--hypothesis", metavar="H", help="The hypothesis that it works on, also while the daemon runs.")
@click.option("--subscribe", "subscriptions", multiple=True, metavar="TYPE",
              help="A type of event that goes to its inbox; may be repeated.")  # fmt: skip
@click.option("--ask-before", "approvals", multiple=True, metavar="T",
              help="A tool that a person approves each call of; may be repeated, * is all.")  # fmt: skip
@click.option("--calls", type=float, metavar="N", help="Requests to its model at most, in all.")
@click.option("--tokens", type=float, metavar="N", help="Tokens at most, in all.")
@click.option("--usd", type=float, metavar="N", help="US dollars at most, in all.")
@click.option("--seconds", type=float, metavar="N", help="Seconds of its model at most, in all.")
@key_option
@json_option
@pass_cli
def create(
    cli: CliContext, name: str, model: str | None, purpose: str, scope: str, criteria: tuple[str, ...],
    system_prompt: str, tools: tuple[str, ...], hypothesis: str | None, subscriptions: tuple[str, ...],
    approvals: tuple[str, ...],
    calls: float | None, tokens: float | None, usd: float | None, seconds: float | None, idempotency_key: str | None,
) -> None:  # fmt: skip
    """Make an agent. It takes messages once it is started."""
    from perpetual_agents.agents import Agents
    from perpetual_agents.models import model_for

    lab = cli.lab
    full, notes = model_for(lab, model)
    limits = {"calls": calls, "tokens": tokens, "usd": usd, "seconds": seconds}
    made = Agents(lab).create(
        name, model=full, purpose=purpose, scope=scope, criteria=criteria, system_prompt=system_prompt, tools=tools,
        hypothesis=hypothesis, subscriptions=subscriptions, approvals=approvals, limits=limits,
        idempotency_key=idempotency_key,
    )  # fmt: skip
    _show(cli, made, notes)


@agent.command(name="list")
@click.option("--state", metavar="S", help="Those in this state: created, running, paused, stopped or error.")
@page_options
@json_option
@pass_cli
def list_(cli: CliContext, state: str | None, limit: int, cursor: str | None) -> None:
    """List the agents."""
    _list(cli, state, limit, cursor)


def _list(cli: CliContext, state: str | None, limit: int, cursor: str | None) -> None:
    from perpetual_agents import show as shown
    from perpetual_agents.agents import Agents

    page = Agents(cli.lab).list(state=state, limit=limit, cursor=cursor)
    items = shown.agents(cli.lab, page.items)
    columns = ("agent", "name", "state", "inbox", "model", "purpose")
    cli.items("agents", items, page.next_cursor, columns, _row, empty="no agents; perpetual agent create makes one")


def _row(item: AgentLine) -> tuple[str, ...]:
    state = item["state"] if item["activity"] in (None, "idle") else f"{item['state']}, {item['activity']}"
    return (item["id"], item["name"], state, str(item["inbox"]), item["model"] or "-", item["purpose"])


@agent.command()
@_ID
@json_option
@pass_cli
def show(cli: CliContext, agent_id: str) -> None:
    """Show an agent: its data, goals, counters, limits and what it has used."""
    from perpetual_agents.agents import Agents

    _show(cli, Agents(cli.lab).get(agent_id))


def _show(cli: CliContext, one: Agent, notes: Sequence[str] = ()) -> None:
    from perpetual_agents import show as shown

    document = shown.agent(cli.lab, one, notes)
    cli.answer("agent", document, lambda: _agent_text(document))


def _agent_text(one: AgentDocument) -> str:
    state = one["state"] if one["activity"] is None else f"{one['state']} ({one['activity']})"
    lines = [f"{one['id']} {line(one['name'])}: {state}"]
    if one["reason"]:
        lines.append(f"reason: {line(one['reason'])}")
    lines += [f"{name}: {line(value)}" for name, value in (
        ("model", one["model"]), ("purpose", one["purpose"]), ("scope", one["scope"]),
        ("tools", ", ".join(one["tools"])), ("asks before", ", ".join(one["approvals"])),
        ("subscribes to", ", ".join(one["subscriptions"])), ("hypothesis", one["hypothesis"]),
        ("forked from", one["parent"]),
    ) if value]  # fmt: skip
    lines += [f"goal {goal['id']} ({goal['status']}, {goal['progress']:.0%}): {line(goal['text'])}"
              for goal in one["goals"]]  # fmt: skip
    used, limits = one["usage"]["used"], one["usage"]["limits"]
    parts = [f"{used[name]:g}{'' if limits[name] is None else f' of {limits[name]:g}'} {name}" for name in used
             if used[name] or limits[name] is not None]  # fmt: skip
    if parts:
        lines.append("used: " + ", ".join(parts))
    lines.append(f"inbox: {one['inbox']}, turns: {one['counters']['turns']}, checkpoints: {one['checkpoints']}")
    lines += [f"note: {line(note)}" for note in one["notes"]]
    lines += [f"next: {step}" for step in one["next"]]
    return "\n".join(lines)


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def start(cli: CliContext, agent_id: str, why: str | None) -> None:
    """Let an agent take messages, and run its tools that are code."""
    from perpetual_agents import operations

    _show(cli, operations.start(cli.lab, agent_id, reason=why))


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def pause(cli: CliContext, agent_id: str, why: str | None) -> None:
    """Let an agent rest: its messages wait. A checkpoint is taken."""
    from perpetual_agents import operations

    _show(cli, operations.pause(cli.lab, agent_id, reason=why))


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def resume(cli: CliContext, agent_id: str, why: str | None) -> None:
    """Let a paused agent, or one in error, go on at the step it was at."""
    from perpetual_agents import operations

    _show(cli, operations.resume(cli.lab, agent_id, reason=why))


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def stop(cli: CliContext, agent_id: str, why: str | None) -> None:
    """End an agent's duty: it takes no messages until it is started. A checkpoint is taken."""
    from perpetual_agents import operations

    _show(cli, operations.stop(cli.lab, agent_id, reason=why))


@agent.command()
@_ID
@json_option
@pass_cli
def delete(cli: CliContext, agent_id: str) -> None:
    """Take an agent off the list; what it did stays in the record."""
    from perpetual_agents.agents import Agents

    gone = Agents(cli.lab).delete(agent_id)
    cli.answer("agent_deleted", {"id": gone.id, "name": gone.name}, f"{gone.id} {line(gone.name)} is deleted")


@agent.command(name="set")
@_ID
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@json_option
@pass_cli
def set_(cli: CliContext, agent_id: str, assignments: tuple[str, ...]) -> None:
    """Change an agent: its fields and its settings.

    Fields: model, system_prompt, purpose, scope, tools, criteria, hypothesis, subscriptions, approvals (tools that a
    person approves each call of; * is all). Lists are separated by commas. Settings: max_steps, max_tokens, window,
    checkpoint_every, keep_checkpoints,
    timeout_s, loop_after.
    """
    from perpetual_agents.agents import Agents, Changes
    from perpetual_agents.models import model_for

    agents = Agents(cli.lab)
    notes: list[str] = []
    changes: dict[str, object] = {}
    settings: dict[str, object] = dict(agents.get(agent_id).settings)
    for assignment in assignments:
        key, sign, value = assignment.partition("=")
        if not sign:
            raise UsageError(f"{assignment!r} has no =", hint="as in model=ollama:qwen3:4b")
        if key in _LISTS:
            changes[key] = [part.strip() for part in value.split(",") if part.strip()]
        elif key == "model":
            changes[key], notes = model_for(cli.lab, value)
        elif key in _TEXTS:
            changes[key] = value or (None if key in ("adapter", "hypothesis") else "")
        else:
            try:
                settings[key] = float(value)
            except ValueError as problem:
                raise UsageError(f"{key} is {value!r}, not a number", hint="perpetual agent set --help") from problem
            changes["settings"] = settings
    made = agents.change(agent_id, **Changes(**changes))  # type: ignore[typeddict-item]
    _show(cli, made, notes)


@agent.command()
@_ID
@click.option("--calls", metavar="N", help="Requests to its model at most; none takes the limit away.")
@click.option("--tokens", metavar="N", help="Tokens at most.")
@click.option("--usd", metavar="N", help="US dollars at most.")
@click.option("--seconds", metavar="N", help="Seconds of its model at most.")
@json_option
@pass_cli
def limit(
    cli: CliContext, agent_id: str, calls: str | None, tokens: str | None, usd: str | None, seconds: str | None
) -> None:
    """Change the limits of an agent and of its forks together. For a person."""
    from perpetual_agents import accounts
    from perpetual_agents.agents import Agents
    from perpetual_agents.data import check_limits

    lab = cli.lab
    lab.services.allows("changing the limits of an agent")
    with lab.transaction():
        one = Agents(lab).get(agent_id)
        present: dict[str, object] = {**accounts.read(lab, one.account)["limits"]}
        for name, value in (("calls", calls), ("tokens", tokens), ("usd", usd), ("seconds", seconds)):
            if value is not None:
                present[name] = None if value == "none" else _number(value, f"--{name}")
        accounts.set_limits(lab, accounts.of(lab, one.id), check_limits(present))
    _show(cli, one)


def _number(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError as problem:
        raise UsageError(f"{flag} is {text!r}, not a number", hint=f"as in {flag} 100, or none") from problem


@agent.command()
@_ID
@click.argument("text", metavar="TEXT")
@click.option("--no-wait", is_flag=True, help="Answer once the message is in the inbox.")
@click.option("--timeout", metavar="TIME", help="How long to wait for the answer.")
@click.option("--type", "type_", default="message", metavar="TYPE", help="The type of an event instead of a message.")
@click.option("--data", metavar="JSON", help="What an event carries.")
@click.option("--key", metavar="K", help="A second message with the same key is the first one.")
@click.option("--at", "at", metavar="TIME", help="When it is due, such as 2026-12-01T08:00Z.")
@json_option
@pass_cli
def message(
    cli: CliContext, agent_id: str, text: str, no_wait: bool, timeout: str | None, type_: str, data: str | None,
    key: str | None, at: str | None,
) -> None:  # fmt: skip
    """Send a message to an agent and print its answer. TEXT is - for standard input.

    The service agents answers where it runs, else this process does. An agent that is not started yet, or is paused,
    keeps the message in its inbox.
    """
    from perpetual_agents import operations
    from perpetual_agents.times import due_time

    words = sys.stdin.read() if text == "-" else text
    found = operations.send(
        cli.lab, agent_id, words, type=type_, data=json_object(data, "--data"), key=key,
        due=None if at is None else due_time(at), wait=not no_wait,
        timeout_s=None if timeout is None else seconds_of(timeout, "--timeout"),
    )  # fmt: skip
    _message(cli, found)


@agent.command()
@click.argument("message_id", metavar="MESSAGE")
@click.option("--timeout", metavar="TIME", help="How long to wait.")
@json_option
@pass_cli
def wait(cli: CliContext, message_id: str, timeout: str | None) -> None:
    """Wait for the answer to a message that was sent before, and print it."""
    from perpetual_agents import operations

    found = operations.answered(
        cli.lab, message_id, timeout_s=None if timeout is None else seconds_of(timeout, "--timeout")
    )
    _message(cli, found)


def _message(cli: CliContext, found: Record) -> None:
    from perpetual_agents import operations
    from perpetual_agents import show as shown

    problem = operations.failure_of(found)
    if problem is not None:
        raise problem
    document = shown.message(found, mock=shown.is_mock(cli.lab, found))
    cli.answer("agent_message", document, lambda: _message_text(document))


def _message_text(one: MessageDocument) -> str:
    if one["state"] == "done":
        mock = "(a stand-in answers, no model) " if one["mock"] else ""
        return f"{mock}{printable(one['answer'] or '')}"
    waits = f": {line(one['error']['message'])}" if one["error"] else ""
    hint = (one["error"] or {"hint": None})["hint"] or f"perpetual agent show {one['agent']}"
    return f"{one['id']} is {one['state']}{waits}\nnext: {hint}"


@agent.command()
@_ID
@page_options
@json_option
@pass_cli
def events(cli: CliContext, agent_id: str, limit: int, cursor: str | None) -> None:
    """List the messages and events of an agent's inbox, newest first, with what came of each."""
    from perpetual_agents import show as shown
    from perpetual_agents.agents import Agents

    page = Agents(cli.lab).messages(agent_id, limit=limit, cursor=cursor)
    items = [shown.message(one) for one in page.items]
    columns = ("message", "from", "type", "state", "text", "answer")
    cli.items("agent_messages", items, page.next_cursor, columns,
              lambda one: (one["id"], one["sender"], one["type"], one["state"], line(one["text"])[:60],
                           line(one["answer"] or (one["error"] or {"message": ""})["message"])[:60]),
              empty="no messages yet")  # fmt: skip


@agent.command()
@_ID
@page_options
@json_option
@pass_cli
def logs(cli: CliContext, agent_id: str, limit: int, cursor: str | None) -> None:
    """List the steps of an agent's journal, newest first."""
    from perpetual_agents import show as shown
    from perpetual_agents.agents import Agents

    try:
        before = None if cursor is None else int(cursor)
    except ValueError as problem:
        raise UsageError(f"{cursor!r} is no cursor", hint="the next_cursor of the page before") from problem
    items, following = shown.steps(cli.lab, Agents(cli.lab).get(agent_id), limit=limit, before=before)

    def row(one: StepDocument) -> tuple[str, ...]:
        return (str(one["number"]), one["turn"] or "-", one["kind"], one["phase"], line(one["text"])[:100])

    cli.items("agent_steps", items, following, ("step", "turn", "kind", "phase", "what"), row, empty="no steps yet")


@agent.command()
@_ID
@click.option("--label", metavar="L", help="A name of it; one with a label is never pruned by itself.")
@click.option("--list", "is_list", is_flag=True, help="List the checkpoints instead, newest first.")
@click.option("--prune", type=int, metavar="N", help="Prune those without a label but for the newest N.")
@page_options
@json_option
@pass_cli
def checkpoint(
    cli: CliContext, agent_id: str, label: str | None, is_list: bool, prune: int | None, limit: int, cursor: str | None
) -> None:
    """Take a checkpoint of an agent, list them, or prune them."""
    from perpetual_agents.checkpoints import Checkpoints

    checkpoints = Checkpoints(cli.lab)
    if prune is not None:
        gone = checkpoints.prune(agent_id, keep=prune)
        cli.answer("agent_pruned", {"pruned": gone}, f"pruned: {', '.join(gone) or 'none'}")
    elif is_list:
        page = checkpoints.list(agent_id, limit=limit, cursor=cursor)

        def row(one: CheckpointDocument) -> tuple[str, ...]:
            return (one["id"], one["label"] or "-", one["reason"], str(one["step"]), one["created_at"])

        items: list[CheckpointDocument] = [{**one} for one in page.items]
        cli.items("agent_checkpoints", items, page.next_cursor, ("checkpoint", "label", "reason", "step", "taken"), row,
                  empty="no checkpoints yet")  # fmt: skip
    else:
        made = checkpoints.take(agent_id, label=label)
        cli.answer("agent_checkpoint", {**made}, f"{made['id']} at step {made['step']}")


@agent.command()
@_ID
@click.argument("checkpoint_id", metavar="CHECKPOINT")
@json_option
@pass_cli
def restore(cli: CliContext, agent_id: str, checkpoint_id: str) -> None:
    """Bring an agent back to a checkpoint, by its id or label. A checkpoint of the present is taken first."""
    from perpetual_agents import show as shown
    from perpetual_agents.checkpoints import Checkpoints

    made, saved = Checkpoints(cli.lab).restore(agent_id, checkpoint_id)
    document = shown.agent(cli.lab, made)
    cli.answer("agent_restored", {**document, "restored": checkpoint_id, "saved": saved["id"]},
               lambda: f"{made.id} is back at {line(checkpoint_id)}; what it was is {saved['id']}")  # fmt: skip


@agent.command()
@_ID
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--at", "at", metavar="CHECKPOINT", help="Where the common past ends; by default now.")
@click.option("--model", metavar="M", help="Another model.")
@click.option("--system-prompt", metavar="T", help="Another system prompt.")
@click.option("--purpose", metavar="T", help="Another purpose.")
@click.option("--data", metavar="JSON", help="Keys of its own state that are another's.")
@json_option
@pass_cli
def fork(
    cli: CliContext, agent_id: str, name: str | None, at: str | None, model: str | None, system_prompt: str | None,
    purpose: str | None, data: str | None,
) -> None:  # fmt: skip
    """Make an agent with the same past and one change: both are paid from one account, and `compare` holds them up."""
    from perpetual_agents.agents import Changes
    from perpetual_agents.checkpoints import Checkpoints, fork_name
    from perpetual_agents.models import model_for

    changes = Changes()
    notes: list[str] = []
    if model is not None:
        changes["model"], notes = model_for(cli.lab, model)
    if system_prompt is not None:
        changes["system_prompt"] = system_prompt
    if purpose is not None:
        changes["purpose"] = purpose
    made = Checkpoints(cli.lab).fork(
        agent_id, name or fork_name(cli.lab, agent_id), checkpoint=at, data=json_object(data, "--data"), **changes
    )
    _show(cli, made, notes)


@agent.command()
@click.argument("agent_ids", metavar="ID ID...", nargs=-1, required=True)
@json_option
@pass_cli
def compare(cli: CliContext, agent_ids: tuple[str, ...]) -> None:
    """Hold agents side by side: what differs, what each did since their common past, and what they answered."""
    from perpetual_agents.comparison import compare as compared

    if len(agent_ids) < 2:
        raise UsageError("compare takes two agents or more", hint="perpetual agent list")
    document = compared(cli.lab, agent_ids)

    def text() -> str:
        lines = []
        for place, one in enumerate(document["agents"]):
            counts = ", ".join(f"{number} {name}" for name, number in document["steps"][place].items())
            lines.append(f"{one['id']} {line(one['name'])}: {counts}")
            lines += [f"  {found['id']} {found['state']}: {line(found['answer'] or '')[:100]}"
                      for found in document["answers"][place]]  # fmt: skip
        for name, values in document["differs"].items():
            lines.append(f"differs in {name}: " + " | ".join(line(json.dumps(value))[:80] for value in values))
        return "\n".join(lines)

    cli.answer("agent_comparison", {**document}, text)


@agent.group(cls=IdGroup, invoke_without_command=True)
@_ID
@json_option
@pass_cli
@click.pass_context
def goals(ctx: click.Context, cli: CliContext, agent_id: str) -> None:
    """List an agent's goals; with add or update, change them."""
    ctx.meta["perpetual.agent"] = agent_id
    if ctx.invoked_subcommand is None:
        _goals(cli, agent_id)


@goals.command(name="add")
@click.argument("text", metavar="TEXT")
@json_option
@pass_cli
@click.pass_context
def add_goal(ctx: click.Context, cli: CliContext, text: str) -> None:
    """Add a goal."""
    from perpetual_agents.agents import Agents

    Agents(cli.lab).add_goal(ctx.meta["perpetual.agent"], text)
    _goals(cli, ctx.meta["perpetual.agent"])


@goals.command(name="update")
@click.argument("goal", metavar="GOAL")
@click.option("--status", metavar="S", help="open, in_progress, done, failed or dropped.")
@click.option("--progress", type=float, metavar="X", help="From 0 to 1.")
@click.option("--text", metavar="T", help="Other words.")
@json_option
@pass_cli
@click.pass_context
def update_goal(
    ctx: click.Context, cli: CliContext, goal: str, status: str | None, progress: float | None, text: str | None
) -> None:
    """Change a goal."""
    from perpetual_agents.agents import Agents

    if status is None and progress is None and text is None:
        raise UsageError("nothing was named that changes", hint="--status, --progress or --text")
    Agents(cli.lab).update_goal(ctx.meta["perpetual.agent"], goal, status=status, progress=progress, text=text)
    _goals(cli, ctx.meta["perpetual.agent"])


def _goals(cli: CliContext, agent_id: str) -> None:
    from perpetual_agents.agents import Agents

    items = [{**goal} for goal in Agents(cli.lab).get(agent_id).goals]
    cli.items("agent_goals", items, None, ("goal", "status", "progress", "text"),
              lambda one: (str(one["id"]), str(one["status"]), f"{one['progress']:.0%}", line(one["text"])),
              empty="no goals yet")  # fmt: skip


@agent.command()
@json_option
@pass_cli
def tools(cli: CliContext) -> None:
    """List the tools that an agent may have."""
    from perpetual_agents.tools import tool_names

    items = [{"name": name} for name in [*tool_names(cli.lab), "python:MODULE:FUNCTION"]]
    cli.items("agent_tools", items, None, ("tool",), lambda one: (one["name"],), empty="none")


@agent.command(name="export")
@_ID
@click.option("-o", "--output", "path", required=True, metavar="FILE", help="The file to write; it must not exist.")
@json_option
@pass_cli
def export_(cli: CliContext, agent_id: str, path: str) -> None:
    """Write an agent with its whole history to one file, which `import` reads in any project."""
    from perpetual_agents.bundle import write

    made = write(cli.lab, agent_id, path)
    cli.answer("agent_exported", {**made}, f"{made['agent']} with {made['steps']} steps is in {line(made['path'])}")


@agent.command(name="import")
@click.argument("path", metavar="FILE")
@click.option("--name", metavar="NAME", help="Another name than the bundle's.")
@json_option
@pass_cli
def import_(cli: CliContext, path: str, name: str | None) -> None:
    """Read an agent from a file that `export` wrote. It is not started, and its limits are as they were."""
    from perpetual_agents.bundle import read

    _show(cli, read(cli.lab, path, name=name))


for _command in (memory, timer, approvals, approve, deny):
    agent.add_command(_command)
