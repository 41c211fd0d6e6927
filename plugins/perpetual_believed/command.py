"""The command `believed`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, page_options, pass_cli, printable
from perpetual.toolkit.units import counted
from perpetual_report.claims import short_effect

if TYPE_CHECKING:
    from perpetual_believed.documents import Belief, BelievedHypothesis, Change

__all__ = ["believed"]


@click.command()
@click.argument("hypothesis", required=False, metavar="[HYPOTHESIS]")
@click.option(
    "--at", required=True, metavar="TIME", help="2026-11-25, 2026-11-25T10:00, 3d, `2 days ago`, seq:120, commit:REV."
)
@page_options
@json_option
@pass_cli
def believed(cli: CliContext, hypothesis: str | None, at: str, limit: int, cursor: str | None) -> None:
    """Show what the record said at a moment, and what has changed since.

    Status, confidence and effect are those of the evidence and the methodology of then, beside those of now. Where the
    record itself said something else at the time, because the rules of evidence have changed since, both are shown. A
    time without an offset is local; a date is the start of that day.
    """
    from perpetual_believed.past import believed as found_by

    found = found_by(cli.lab, hypothesis, at=at, limit=limit, cursor=cursor)
    if cli.as_json:
        cli.answer("believed", found, "")
        return
    click.echo(printable(f"the record at {found['at']}: event {found['seq']} of {found['seq_now']}"))
    if not found["items"]:
        click.echo("no hypothesis had been added")
    for item in found["items"]:
        _show(cli, item)
    for title, changes in (("since then, for all of them", found["changes"]),):
        if changes:
            click.echo(f"\n{title}")
            _list(changes)
    if found["added"]:
        more = f" and {len(found['added']) - 10} more" if len(found["added"]) > 10 else ""
        click.echo(f"\nadded since: {', '.join(found['added'][:10])}{more}")
    if found["next_cursor"] is not None:
        click.echo(f"more: --cursor {found['next_cursor']}")


def _show(cli: CliContext, item: BelievedHypothesis) -> None:
    """Prints a hypothesis then and now, and what happened between."""
    then, now = item["then"], item["now"]
    click.echo(printable(f"\n{item['id']}: {then['statement']}"))
    if now["statement"] != then["statement"]:
        click.echo(printable(f"    now: {now['statement']}"))
    rows = [(name, before, after) for (name, before), (_, after) in zip(_lines(then), _lines(now), strict=True)]
    cli.table(("", "then", "now"), [row for row in rows if row[1] or row[2]])
    if item["differs"]:
        said = item["said"]
        sure = "" if said["confidence"] is None else f" at confidence {said['confidence']:.3f}"
        click.echo(
            f"    the record said {said['status']}{sure} then; by today's rules the same evidence says "
            f"{then['status']} at {then['confidence']:.3f}"
        )
    if item["changes"]:
        left = f", and {counted(item['changes_left'], 'earlier change')}" if item["changes_left"] else ""
        click.echo(f"    since then{left}:")
        _list(item["changes"])
    else:
        click.echo("    nothing has changed since")


def _lines(belief: Belief) -> list[tuple[str, str]]:
    """Returns what is shown of a hypothesis, line by line."""
    bound = belief["false_alarm_bound"]
    by = belief["decided_by"]
    return [
        ("status", belief["status"] + (f" by hand ({by})" if by not in (None, "evidence") else "")),
        ("confidence", f"{belief['confidence']:.3f}"),
        ("false-alarm bound", "" if bound is None else f"{bound:.2g}"),
        ("effect", short_effect(belief["effect"])),
        ("evidence", _rows(belief["evidence_count"], belief["counting"])),
    ]


def _rows(count: int, counting: int | None) -> str:
    """Returns how many rows there are, and how many still count: a retraction is a row more, and evidence less."""
    said = counted(count, "row")
    return said if counting in (None, count) else f"{said}, {counting} of which count"


def _list(changes: list[Change]) -> None:
    for change in changes:
        click.echo(printable(f"    {change['time']}  {change['seq']:>5}  {change['text']} [{change['actor']}]"))
