"""The commands `perpetual agent checkpoint`, `restore`, `fork`, `compare`, `export` and `import`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from perpetual.api import (
    CliContext,
    UsageError,
    json_object,
    json_option,
    line,
    page_options,
    pass_cli,
)
from perpetual_agents.agent_text import show_agent

if TYPE_CHECKING:
    from perpetual_agents.documents import CheckpointDocument

__all__ = ["checkpoint", "compare", "export_", "fork", "import_", "restore"]

_ID = click.argument("agent_id", metavar="ID")


@click.command()
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

        columns = ("checkpoint", "label", "reason", "step", "taken")
        cli.items("agent_checkpoints", page.items, page.next_cursor, columns, row, empty="no checkpoints yet")
    else:
        made = checkpoints.take(agent_id, label=label)
        cli.answer("agent_checkpoint", made, f"{made['id']} at step {made['step']}")


@click.command()
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


@click.command()
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
    show_agent(cli, made, notes)


@click.command()
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


@click.command(name="export")
@_ID
@click.option("-o", "--output", "path", required=True, metavar="FILE", help="The file to write; it must not exist.")
@json_option
@pass_cli
def export_(cli: CliContext, agent_id: str, path: str) -> None:
    """Write an agent with its whole history to one file, which `import` reads in any project."""
    from perpetual_agents.bundle import write

    made = write(cli.lab, agent_id, path)
    cli.answer("agent_exported", made, f"{made['agent']} with {made['steps']} steps is in {line(made['path'])}")


@click.command(name="import")
@click.argument("path", metavar="FILE")
@click.option("--name", metavar="NAME", help="Another name than the bundle's.")
@json_option
@pass_cli
def import_(cli: CliContext, path: str, name: str | None) -> None:
    """Read an agent from a file that `export` wrote. It is not started, and its limits are as they were."""
    from perpetual_agents.bundle import read

    show_agent(cli, read(cli.lab, path, name=name))
