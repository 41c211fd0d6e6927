"""The commands `perpetual agent message`, `wait`, `events` and `logs`. Loaded when one is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from perpetual.api import (
    CliContext,
    Refused,
    UsageError,
    json_object,
    json_option,
    line,
    page_options,
    pass_cli,
    printable,
)
from perpetual.toolkit.units import seconds_of

if TYPE_CHECKING:
    from perpetual.api import Record
    from perpetual_agents.documents import MessageDocument, StepDocument

__all__ = ["events", "logs", "message", "wait"]

_ID = click.argument("agent_id", metavar="ID")


@click.command()
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


@click.command()
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
    if found["state"] == "pending" and found["error"] is not None:  # a script is not to take this for an answer
        raise Refused(f"{found.id} is not answered yet: {found['error']['message']}", hint=found["error"].get("hint"),
                      code="not_answered")  # fmt: skip
    document = shown.message(found, mock=shown.is_mock(cli.lab, found))
    cli.answer("agent_message", document, lambda: _message_text(document))


def _message_text(one: MessageDocument) -> str:
    if one["state"] == "done":
        mock = "(a stand-in answers, no model) " if one["mock"] else ""
        return f"{mock}{printable(one['answer'] or '')}"
    waits = f": {line(one['error']['message'])}" if one["error"] else ""
    hint = (one["error"] or {"hint": None})["hint"] or f"perpetual agent show {one['agent']}"
    if one["state"] == "dropped":
        return f"{one['id']} is dropped: the agent was restored or deleted before it was answered"
    return f"{one['id']} is {one['state']}{waits}\nnext: {hint}"


@click.command()
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


@click.command()
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
