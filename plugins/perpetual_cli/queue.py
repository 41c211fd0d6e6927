"""The commands queue, which reads the record, and scan, which brings it up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from perpetual.api import CliContext, OpenGroup, UsageError, json_option, page_options, pass_cli, printable
from perpetual.toolkit.units import counted, shown_hours, start_of
from perpetual_cli.queue_order import after, enqueue, group, priority, start_waiting, stash
from perpetual_cli.run_words import Json, replicate_cell, shown_value
from perpetual_cli.words import speaks

if TYPE_CHECKING:
    from perpetual.documents.runs import Scanned

__all__ = ["queue", "scan", "show_queue"]

_QUEUE = {"pause": "paused", "resume": "running", "drain": "draining"}


@click.group(cls=OpenGroup, invoke_without_command=True)
@click.option("--watch", is_flag=True, help="Go on, drawn anew as things happen; q ends it.")
@page_options
@json_option
@pass_cli
@click.pass_context
def queue(ctx: click.Context, cli: CliContext, watch: bool, limit: int, cursor: str | None) -> None:
    """Show the queue's state and what waits, in the order of starting; or change either.

    The higher priority goes first, then the higher score, then the older run. A run that ends starts what waits, where
    `queue_moves` is on. Paused, nothing is started. Draining, what waits is started and nothing new is taken.
    """
    if ctx.invoked_subcommand is not None:
        if watch:
            what = ctx.invoked_subcommand
            raise UsageError(f"--watch shows the queue, and {what} changes it", hint=f"perpetual queue {what}")
    elif watch:
        cli.watch(lambda: show_queue(cli, limit, cursor))
    else:
        show_queue(cli, limit, cursor)


def _state_command(name: str, words: str) -> click.Command:
    @json_option
    @pass_cli
    def change(cli: CliContext) -> None:
        """Changes the queue's state, and shows it."""
        cli.lab.queue.set_state(_QUEUE[name])
        if name == "resume":
            start_waiting(cli)
        show_queue(cli)

    return click.command(name=name, help=words)(change)


def show_queue(cli: CliContext, limit: int = 100, cursor: str | None = None) -> None:
    """Prints the queue's state and a page of what waits."""
    state = cli.lab.queue.state()
    page = cli.lab.queue.waiting(limit=limit, cursor=cursor)
    places = cli.lab.queue.places(page.items, before=start_of(cursor))
    groups = cli.lab.queue.groups()
    if not cli.as_json:
        click.echo(f"the queue is {state}")
        for name, most in sorted(groups.items()):
            takes = f"at most {counted(most, 'run')} at once" if most else "none: it is held"
            click.echo(f"group {printable(name)}: {takes}")
    _queue_table(cli, page.items, page.next_cursor, {"state": state, "places": places, "groups": groups})


def _queue_table(cli: CliContext, found: Any, next_cursor: str | None, extra: Json) -> None:
    from perpetual.api import to_json

    by_run = {place["run_id"]: place for place in extra["places"]}
    cli.items(
        "queue",
        [to_json(item) for item in found],
        next_cursor,
        ("place", "id", "experiment", "rep", "priority", "score", "waits for, when last looked at"),
        lambda item: (
            str(by_run[item["id"]]["position"]),
            item["id"],
            item["experiment_id"],
            replicate_cell(item),
            str(by_run[item["id"]]["priority"]),
            shown_value(by_run[item["id"]]["score"]) if by_run[item["id"]]["score"] is not None else "-",
            item["reason"] or "its turn: perpetual scan",
        ),
        empty="nothing waits",
        extra=extra,
    )


@click.command()
@json_option
@pass_cli
def scan(cli: CliContext) -> int:
    """Record what has happened to the runs, with debits and evidence, and start what was waiting.

    A run that cannot be looked at stays as it is and holds up no other: exit 1.
    """
    before = cli.lab.feed.state()
    found = cli.lab.scan()
    # Such as an ad-hoc run that was killed: no run of the lab's has changed, and the record has.
    empty = "nothing has changed" if cli.lab.feed.state() == before else "recorded: perpetual events shows what"
    cli.answer("scan", found, lambda: _scan_text(found) or empty)
    return 1 if found["problems"] else 0


def _debit_text(item: Json) -> str:
    if item["kind"] == "correct":
        hours = f"{item['gpu_hours']:+.3f} GPU-hours, {item['run_hours']:+.3f} run-hours"
        return f"{item['run_id']} is charged anew, now that its end is known: {hours}"
    return f"{item['run_id']} used {item['gpu_hours']:.3f} GPU-hours, {shown_hours(item['run_hours'])} of run time"


def _scan_text(found: Scanned) -> str:
    lines = [
        f"{item['run_id']} of {item['experiment_id']}: {item['from']}"
        + (f" -> {item['to']}" if item["to"] != item["from"] else "")
        + (f" ({printable(item['reason'])})" if item["reason"] else "")
        for item in found["changes"]
    ]
    lines += map(_debit_text, found["debits"])
    for item in found["evidence"]:
        way = speaks(cast("float | None", item["log_bayes_factor"]))
        lines.append(f"{item['id']}: {item['run_id']} speaks {way} {item['hypothesis_id']}")
    lines += [printable(f"{item['run_id']} {item['where']}") for item in found.get("elsewhere", ())]
    lines += [printable(f"{item['run_id']} cannot be looked at: {item['message']}") for item in found["problems"]]
    return "\n".join(lines)


for _command in (
    _state_command("pause", "Start nothing until the queue is resumed; what runs goes on."),
    _state_command("resume", "Start what waits again."),
    _state_command("drain", "Start what waits, and take nothing new."),
    *(priority, stash, enqueue, group, after),
):
    queue.add_command(_command)
