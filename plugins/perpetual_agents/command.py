"""The command `perpetual agent`. Loaded by the command line when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import click

from perpetual.api import (
    CliContext,
    UsageError,
    json_option,
    key_option,
    line,
    page_options,
    pass_cli,
)
from perpetual_agents.agent_text import show_agent
from perpetual_agents.approval_command import approvals, approve, deny
from perpetual_agents.goals_command import goals
from perpetual_agents.history_command import checkpoint, compare, export_, fork, import_, restore
from perpetual_agents.memory_command import memory
from perpetual_agents.message_command import events, logs, message, wait
from perpetual_agents.timer_command import timer

if TYPE_CHECKING:
    from perpetual_agents.agents import Changes
    from perpetual_agents.documents import AgentLine

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
    show_agent(cli, made, notes)


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

    show_agent(cli, Agents(cli.lab).get(agent_id))


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def start(cli: CliContext, agent_id: str, why: str | None) -> None:
    """Let an agent take messages, and run its tools that are code."""
    from perpetual_agents import operations

    show_agent(cli, operations.start(cli.lab, agent_id, reason=why))


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def pause(cli: CliContext, agent_id: str, why: str | None) -> None:
    """Let an agent rest: its messages wait. A checkpoint is taken."""
    from perpetual_agents import operations

    show_agent(cli, operations.pause(cli.lab, agent_id, reason=why))


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def resume(cli: CliContext, agent_id: str, why: str | None) -> None:
    """Let a paused agent, or one in error, go on at the step it was at."""
    from perpetual_agents import operations

    show_agent(cli, operations.resume(cli.lab, agent_id, reason=why))


@agent.command()
@_ID
@_WHY
@json_option
@pass_cli
def stop(cli: CliContext, agent_id: str, why: str | None) -> None:
    """End an agent's duty: it takes no messages until it is started. A checkpoint is taken."""
    from perpetual_agents import operations

    show_agent(cli, operations.stop(cli.lab, agent_id, reason=why))


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
    from perpetual_agents.agents import Agents
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
    made = agents.change(agent_id, **cast("Changes", changes))
    show_agent(cli, made, notes)


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
    show_agent(cli, one)


def _number(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError as problem:
        raise UsageError(f"{flag} is {text!r}, not a number", hint=f"as in {flag} 100, or none") from problem


@agent.command()
@json_option
@pass_cli
def tools(cli: CliContext) -> None:
    """List the tools that an agent may have."""
    from perpetual_agents.tools import tool_names

    items = [{"name": name} for name in [*tool_names(cli.lab), "python:MODULE:FUNCTION"]]
    cli.items("agent_tools", items, None, ("tool",), lambda one: (one["name"],), empty="none")


for _command in (
    message, wait, events, logs, checkpoint, restore, fork, compare, export_, import_, goals, memory, timer, approvals,
    approve, deny,
):  # fmt: skip
    agent.add_command(_command)
