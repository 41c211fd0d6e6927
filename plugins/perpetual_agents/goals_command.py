"""The command `perpetual agent goals`. Loaded by the command line when it is called."""

from __future__ import annotations

import click

from perpetual.api import (
    CliContext,
    UsageError,
    json_option,
    line,
    pass_cli,
)
from perpetual_agents.id_group import IdGroup

__all__ = ["goals"]

_ID = click.argument("agent_id", metavar="ID")


@click.group(cls=IdGroup, invoke_without_command=True)
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
