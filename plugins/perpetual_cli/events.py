"""The command `events`: everything that happened, as pages or as it comes."""

from __future__ import annotations

import json

import click

from perpetual.api import CliContext, json_option, page_options, pass_cli, printable
from perpetual.toolkit.units import shown_time, start_of

__all__ = ["events"]

_HASH, _HASH_SHOWN = 40, 12  # characters


@click.command()
@click.option("--since", type=click.IntRange(min=0), default=0, help="Only events after this seq.")
@click.option("-f", "--follow", is_flag=True, help="Go on as events happen, one JSON line each with --json.")
@page_options
@json_option
@pass_cli
def events(cli: CliContext, since: int, follow: bool, limit: int, cursor: str | None) -> None:
    """List everything that happened, oldest first."""
    from perpetual.api import to_json

    start = since if cursor is None else start_of(cursor)
    if follow:
        _follow(cli, start)
        return
    found = [to_json(event) for event in cli.lab.events(since=start, limit=limit + 1)]
    more = str(found[limit - 1]["seq"]) if len(found) > limit else None
    cli.items(
        "events",
        found[:limit],
        more,
        ("seq", "time (UTC)", "actor", "event", "subject", "details"),
        lambda item: (
            str(item["seq"]),
            shown_time(item["time"]),
            item["actor"],
            item["kind"],
            item["subject"],
            _said(item["payload"]),
        ),
        empty="nothing has happened yet",
    )


def _said(payload: dict[str, object]) -> str:
    """Returns an event's payload on a line, without what is nothing, and of a hash its beginning.

    --json has all of it.
    """
    return ", ".join(f"{name} {_value(value)}" for name, value in payload.items() if value is not None)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        is_hash = len(value) >= _HASH and set(value) <= set("0123456789abcdef")
        return value[:_HASH_SHOWN] if is_hash else " ".join(value.split())
    return json.dumps(value, ensure_ascii=False)


def _follow(cli: CliContext, since: int) -> None:
    """Prints events as they come until interrupted."""
    from perpetual.api import to_json

    cli.goes_on()
    while True:
        for event in cli.lab.events(since=since):
            since = event.seq
            if cli.as_json:
                cli.write(json.dumps({"schema": "perpetual.event/1", **to_json(event)}, ensure_ascii=False))
            else:
                click.echo(
                    f"{event.seq:>6} {shown_time(event.time)} {printable(event.actor)} {event.kind} "
                    f"{printable(event.subject)} {printable(_said(event.payload))}".rstrip()
                )
        cli.lab.feed.wait(since, timeout_s=5.0)
