"""The command `perpetual agent timer`. Loaded by the command line when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, key_option, line, pass_cli
from perpetual.toolkit.units import seconds_of, shown_time

if TYPE_CHECKING:
    from perpetual_agents.event_documents import TimerDocument

__all__ = ["timer"]

_COLUMNS = ("timer", "fires", "next", "fired", "text")


@click.command()
@click.argument("agent_id", metavar="ID")
@click.option("--at", metavar="TIME", help="One message at this time, such as 2026-12-01T08:00Z.")
@click.option("--every", metavar="TIME", help="A message each time so long, such as 30m or 2h.")
@click.option("--cron", metavar="EXPR", help="Messages by a cron expression of five fields, such as '0 8 * * MON-FRI'.")
@click.option("--zone", metavar="ZONE", help="The time zone of the cron expression; this machine's by default.")
@click.option("--text", default="", metavar="T", help="What the message says.")
@click.option("--type", "type_", default="timer", metavar="TYPE", help="The type of the message.")
@click.option("--list", "is_list", is_flag=True, help="List the timers that are still to fire.")
@click.option("--all", "is_all", is_flag=True, help="List those that are over or cancelled, too.")
@click.option("--cancel", metavar="TIMER", help="Cancel a timer.")
@key_option
@json_option
@pass_cli
def timer(
    cli: CliContext, agent_id: str, at: str | None, every: str | None, cron: str | None, zone: str | None, text: str,
    type_: str, is_list: bool, is_all: bool, cancel: str | None, idempotency_key: str | None,
) -> None:  # fmt: skip
    """Wake an agent at a time, at an interval, or by a cron expression; without an option, list its timers.

    A timer puts a message into the agent's inbox, once for each time. Times that passed while nothing ran are made up
    for by one message. The service agents fires timers, and so does a program or a daemon that works on agents.
    """
    from perpetual_agents.timers import Timers

    timers = Timers(cli.lab)
    sets = any(option is not None for option in (at, every, cron))
    if cancel is not None:
        if sets or is_list or is_all:
            raise UsageError("--cancel stands alone", hint="one thing at a time")
        gone = timers.cancel(cancel, agent=agent_id)
        cli.answer("agent_timer", gone, f"{gone['id']} is cancelled")
    elif sets and not (is_list or is_all):
        every_s = None if every is None else seconds_of(every, "--every")
        made = timers.add(
            agent_id, at=at, every_s=every_s, cron=cron, zone=zone, text=text, type=type_, key=idempotency_key
        )
        cli.answer("agent_timer", made, f"{made['id']}: {_fires(made)}, next at {shown_time(made['next'])} UTC")
    elif sets:
        raise UsageError("--list sets no timer", hint="one thing at a time")
    else:
        items = timers.list(agent_id, active=not is_all)
        cli.items("agent_timers", items, None, _COLUMNS, _row, empty="no timers; --at, --every or --cron sets one")


def _row(one: TimerDocument) -> tuple[str, ...]:
    return (one["id"], _fires(one), shown_time(one["next"]), str(one["fired"]), line(one["text"])[:60])


def _fires(one: TimerDocument) -> str:
    """Returns when a timer fires, in words."""
    if one["repeats"] == "once":
        return "once"
    if one["repeats"] == "every":
        return f"every {one['expression']} s"
    return f"{one['expression']} ({one['zone']})"
