"""The commands `perpetual agent approvals`, `approve` and `deny`. Loaded by the command line when one is called."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, line, pass_cli, printable

if TYPE_CHECKING:
    from perpetual_agents.event_documents import ApprovalDocument

__all__ = ["approvals", "approve", "deny"]

_APPROVAL = click.argument("approval_id", metavar="APPROVAL")
_COLUMNS = ("approval", "agent", "state", "asks")


@click.command()
@click.argument("agent_id", metavar="[ID]", required=False)
@click.option("--all", "is_all", is_flag=True, help="List those that were decided, too.")
@json_option
@pass_cli
def approvals(cli: CliContext, agent_id: str | None, is_all: bool) -> None:
    """List what agents ask a person: calls of tools that wait for an approval, and questions."""
    from perpetual_agents.approvals import Approvals

    items: list[ApprovalDocument] = [*Approvals(cli.lab).list(agent_id, waiting=not is_all)]
    cli.items("agent_approvals", items, None, _COLUMNS,
              lambda one: (one["id"], one["agent"], one["state"], _asks(one)[:200]),
              empty="no agent asks for anything")  # fmt: skip


@click.command()
@_APPROVAL
@click.option("--answer", metavar="T", help="The answer to a question, or a word to the agent with the approval.")
@json_option
@pass_cli
def approve(cli: CliContext, approval_id: str, answer: str | None) -> None:
    """Let an agent's call be made, or answer its question; the agent goes on. For a person.

    An approval holds for the tool and the arguments that `approvals` shows.
    """
    from perpetual_agents.approvals import Approvals

    _show(cli, Approvals(cli.lab).approve(approval_id, answer=answer))


@click.command()
@_APPROVAL
@click.option("--why", required=True, metavar="T", help="Why not; the agent's model reads it.")
@json_option
@pass_cli
def deny(cli: CliContext, approval_id: str, why: str) -> None:
    """Refuse an agent's call; its model reads why, and goes on. For a person."""
    from perpetual_agents.approvals import Approvals

    _show(cli, Approvals(cli.lab).deny(approval_id, why=why))


def _show(cli: CliContext, one: ApprovalDocument) -> None:
    cli.answer("agent_approval", one, lambda: f"{one['id']} is {one['state']}: {printable(_asks(one))}")


def _asks(one: ApprovalDocument) -> str:
    """Returns what is asked on one line: the question, or the whole call."""
    if one["question"] is not None:
        return line(one["question"])
    return line(f"{one['tool']}({json.dumps(one['args'], ensure_ascii=False)})")
