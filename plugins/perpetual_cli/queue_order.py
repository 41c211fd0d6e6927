"""Subcommands of `queue` that change what starts when: priority, stash, enqueue, group, after."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli, printable
from perpetual.toolkit.units import posix_of, seconds_of

__all__ = ["after", "enqueue", "group", "priority", "start_waiting", "stash"]

_NUMBERS = {"ignore_unknown_options": True}  # -5 is a priority


@click.command(context_settings=_NUMBERS)
@click.argument("id", metavar="ID")
@click.argument("priority", type=int)
@json_option
@pass_cli
def priority(cli: CliContext, id: str, priority: int) -> None:
    """Give the waiting run ID, or all runs of the experiment ID, another PRIORITY; the higher starts first."""
    cli.lab.queue.prioritise(id, priority)
    _show(cli, f"{id} has priority {priority}")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="RUN...")
@click.option("--until", metavar="TIME", help="A time such as 90m or 2h from now, or 2027-01-31T08:00:00Z.")
@json_option
@pass_cli
def stash(cli: CliContext, ids: tuple[str, ...], until: str | None) -> None:
    """Hold waiting runs back until they are enqueued, or until --until: then they wait for room as the others do."""
    moment = None if until is None else _moment(until)
    with cli.lab.transaction():
        for id in ids:
            cli.lab.queue.stash(id, until=moment)
    cli.lab.queue.keep_moving()  # it has the clock
    _show(cli)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="RUN...")
@json_option
@pass_cli
def enqueue(cli: CliContext, ids: tuple[str, ...]) -> None:
    """Put stashed runs back into the queue."""
    with cli.lab.transaction():
        for id in ids:
            cli.lab.queue.enqueue(id)
    start_waiting(cli)
    _show(cli)


@click.command()
@click.argument("name")
@click.option("--parallel", type=int, required=True, metavar="N", help="How many of its runs may be live; 0 holds it.")
@json_option
@pass_cli
def group(cli: CliContext, name: str, parallel: int) -> None:
    """Make the group NAME, of which so many runs start at once, or change it; `propose --group NAME` joins it."""
    cli.lab.queue.set_group(name, parallel)
    _show(cli)


@click.command()
@click.argument("id", metavar="EXPERIMENT")
@click.argument("first", nargs=-1, metavar="[FIRST]...")
@json_option
@pass_cli
def after(cli: CliContext, id: str, first: tuple[str, ...]) -> None:
    """Start the runs of EXPERIMENT once those of FIRST have ended with success (e3), or however (e3:any).

    Without FIRST, it comes after nothing.
    """
    cli.lab.queue.after(id, first)
    start_waiting(cli)
    made = cli.lab.experiments.get(id)
    _show(cli, f"{made.id} comes after {', '.join(made.after) or 'nothing'}")


def _moment(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(posix_of(text), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return datetime.now(UTC) + timedelta(seconds=seconds_of(text, "--until"))
    except OverflowError as problem:
        raise UsageError(f"--until {text} lies beyond all calendars", hint="as in --until 2h") from problem


def _show(cli: CliContext, done: str = "") -> None:
    """Shows the queue, below what was done where that is not seen in what waits."""
    from perpetual_cli.queue import show_queue

    if done and not cli.as_json:
        click.echo(printable(done))
    show_queue(cli)


def start_waiting(cli: CliContext) -> None:
    """Starts what waits and has room: where no run is live, none would do so by its end."""
    if not cli.lab.queue.waiting(limit=1).items:
        return
    if cli.lab.queue.moves():
        cli.lab.queue.keep_moving()
    elif cli.lab.config["queue_moves"]:
        cli.lab.scan()
    else:
        cli.progress("perpetual scan starts what has room")
