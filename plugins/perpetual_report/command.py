"""The commands `report`, `verify` and `compare`. Loaded by the command line when one of them is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, PerpetualError, json_option, pass_cli, printable
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual_report.documents import Report, Verification

__all__ = ["compare", "report", "verify"]

_SHOWN = 50  # problems shown to people; --json names them all


@click.command()
@click.option(
    "--format", "format_", type=click.Choice(["md", "html"]), default="md", show_default=True,
    help="Markdown, or one HTML file with pictures.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@json_option
@pass_cli
def report(cli: CliContext, format_: str, output: Path | None) -> None:
    """Write the research up: verdicts with their false-alarm bounds, evidence, costs, failures.

    Every number names the run, and the line of its log, that it came from. Without --output it is printed. HTML is one
    file that fetches nothing; its pictures need the extra `report`. `perpetual verify FILE` checks either.
    """
    from perpetual_report.document import write, written

    made = written(cli.lab, format_)
    text = made.text
    if output is not None:
        try:
            write(output, text)
        except OSError as problem:
            raise PerpetualError(
                f"{output} could not be written: {problem.strerror or problem}", hint="choose another file with -o"
            ) from problem
    document: Report = {
        "format": format_,
        "path": os.fspath(output.absolute()) if output else None,
        "text": text,
        "sections": [{"name": each.name, "title": each.title, "data": each.data} for each in made.sections],
    }
    cli.answer("report", {**document}, f"wrote {output}" if output else text.rstrip(), is_verbatim=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@pass_cli
def verify(cli: CliContext, file: Path) -> int:
    """Hold a report to the record: derive each number again, read each cited log again; exit 1 if one differs.

    FILE is what `perpetual report` wrote: HTML, Markdown, or its --json. The record is folded as it stood when the
    report was written, so what has happened since does not matter; what was changed since does.
    """
    from perpetual_report.verification import verify as held

    found = held(cli.lab, file)
    cli.answer("verification", found, lambda: _verified(found))
    return 0 if found["ok"] else 1


def _verified(found: Verification) -> str:
    """Returns the findings for people."""
    lines = [
        f"{item['number']} ({item['where']}): the file says {item['claimed'] or 'nothing'!r}, "
        f"the record {item['found'] or 'nothing'!r} [{item['source']}]"
        for item in found["problems"][:_SHOWN]
    ]
    if len(found["problems"]) > _SHOWN:
        lines.append(f"and {len(found['problems']) - _SHOWN} more; --json names them all")
    pictures = f" and {counted(found['pictures'], 'picture')}" if found["pictures"] else ""
    numbers, logs = counted(found["checked"], "number"), counted(found["logs"], "run")
    what = f"{numbers}{pictures} checked against state {found['seq']} and the logs of {logs}"
    wrong = len(found["problems"])
    verdict = "every one matches" if found["ok"] else f"{wrong} {'does' if wrong == 1 else 'do'} not match"
    return printable("\n".join([*lines, *(f"note: {note}" for note in found["notes"]), f"{what}: {verdict}"]))


@click.command()
@click.argument("ids", metavar="ID ID...", nargs=-1, required=True)
@click.option(
    "--format", "format_", type=click.Choice(["text", "md"]), default="text", show_default=True,
    help="Tables for people, or Markdown.",
)  # fmt: skip
@click.option("--metric", "metrics", multiple=True, metavar="M", help="Only this metric; may be repeated.")
@click.option("--against", metavar="ID", help="Pair every other one with this one only.")
@json_option
@pass_cli
def compare(cli: CliContext, ids: tuple[str, ...], format_: str, metrics: tuple[str, ...], against: str | None) -> None:
    """Show what differs between experiments or runs, and which measured better, as far as their seeds can tell.

    Seeds are folded: mean, sd and a 95 % t interval for each metric. A winner is named only where the interval of the
    difference excludes 0; otherwise the two are not separable at this n.
    """
    from perpetual.toolkit.screen import folded
    from perpetual_report.comparison import compare as compared
    from perpetual_report.comparison import markdown_of, tables_of

    found = compared(cli.lab, ids, metrics=metrics, against=against)
    if cli.as_json or format_ == "md":
        cli.answer("comparison", found, lambda: markdown_of(found).rstrip(), is_verbatim=True)
        return
    for arm in found["arms"]:
        of = f" ({arm['hypothesis_id']})" if arm["hypothesis_id"] else ""
        click.echo(printable(f"{arm['id']}  {arm['title']}{of}"))
    click.echo()
    for table in tables_of(found):
        if table.rows:
            cli.table(table.columns, table.rows, title=table.title)
    for line in found["notes"]:
        click.echo(folded(printable(line)))
