"""The commands `report`, `verify` and `compare`. Loaded by the command line when one of them is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from perpetual.api import CliContext, PerpetualError, UsageError, json_option, pass_cli, printable
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual_report.documents import Report, ReportProblem, SiteReport, Verification

__all__ = ["compare", "report", "verify"]

_MARKS = (b"<!-- perpetual report: version ", b'<meta name="perpetual-version"')  # of a report, in Markdown and HTML
_SHOWN = 50  # problems shown to people; --json names them all


@click.command()
@click.option(
    "--format", "format_", type=click.Choice(["md", "html"]), default="md", show_default=True,
    help="Markdown, or one HTML file with pictures.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option(
    "--site", metavar="DIR", type=click.Path(path_type=Path),
    help="Write a static logbook to publish: pages of claims, experiments and deeds.",
)  # fmt: skip
@json_option
@pass_cli
def report(cli: CliContext, format_: str, output: Path | None, site: Path | None) -> None:
    """Write the research up: verdicts with their false-alarm bounds, evidence, costs, failures.

    Every number names the run, and the line of its log, that it came from. Without --output it is printed; an earlier
    report in FILE is replaced, and no other file. HTML is one file that fetches nothing; its pictures need the extra
    `report`. With --site only pages that changed are written; names of users and machines are taken out. `perpetual
    verify` checks what was written.
    """
    if site is not None:
        if (
            output is not None
            or click.get_current_context().get_parameter_source("format_") is not ParameterSource.DEFAULT
        ):
            raise UsageError("--site is a report of its own, without --format and --output")
        made: SiteReport = cli.lab.part("site").write(cli.lab, site)
        cli.answer("site", {**made}, lambda: _sited(made))
        return
    from perpetual_report.document import write, written
    from perpetual_report.replacing import check_replaceable

    found = written(cli.lab, format_)
    text = found.text
    if output is not None:
        check_replaceable(output, _MARKS, "report")
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
        "sections": [{"name": each.name, "title": each.title, "data": each.data} for each in found.sections],
    }
    cli.answer("report", {**document}, f"wrote {output}" if output else text.rstrip(), is_verbatim=True)


def _sited(made: SiteReport) -> str:
    """Returns for people what was written."""
    pages = counted(len(made["written"]), "page")
    others = f"{len(made['unchanged'])} unchanged, {len(made['removed'])} removed"
    kept = [f"left {name}: it was changed since it was written" for name in made["kept"]]
    notes = [f"note: {note}" for note in made["notes"]]
    return printable("\n".join([f"wrote {pages} ({others}): {made['index']}", *kept, *notes]))


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--at", metavar="TIME", help="Of references: hold to the record as it was then: 2026-11-25, 3d, seq:120.")
@click.option("--fix", is_flag=True, help="Of references: write the record's numbers into FILE; words are left.")
@click.option("--list", "lists", is_flag=True, help="Print the references that there are, with their values.")
@click.option("--of", metavar="ID", help="With --list: only those of this experiment, run or hypothesis.")
@json_option
@pass_cli
def verify(cli: CliContext, file: Path | None, at: str | None, fix: bool, lists: bool, of: str | None) -> int:
    """Hold a report, or Markdown whose numbers carry references, to the record; exit 1 if a number does not hold.

    A report is what `perpetual report` wrote: HTML, Markdown, its --json, or a site: its folder, or a page of it. Each
    number is derived again, each cited log read again. The record is folded as it was when the report was written, so
    what has happened since does not matter; what was changed since does.

    In other Markdown a comment behind a number names it in the record: 0.912<!-- perpetual: e3.mean -->. It holds if
    the record's value, rounded to as many decimals, is that number.
    """
    if lists:
        if file is not None or fix:
            raise UsageError("--list reads no file", hint="perpetual verify --list --of e1")
        _list(cli, at, of)
        return 0
    if file is None or of is not None:
        raise UsageError("verify which file?" if file is None else "--of goes with --list",
                         hint="perpetual verify README.md, or perpetual verify --list")  # fmt: skip
    from perpetual_report.site_check import verify as held

    found = held(cli.lab, file, at=at, fix=fix)
    cli.answer("verification", found, lambda: _verified(found, file))
    return 0 if found["ok"] else 1


def _list(cli: CliContext, at: str | None, of: str | None) -> None:
    from perpetual_report.cited import available

    found = available(cli.lab, at=at, of=of)
    cli.items(
        "references",
        found,
        None,
        ("reference", "value", "from"),
        lambda item: (str(item["key"]), str(item["text"]), str(item["source"])),
        empty="nothing is recorded yet",
    )


def _verified(found: Verification, file: Path) -> str:
    """Returns the findings for people."""
    is_cited = found["format"] == "references"
    lines = [
        f"{file}:{item['where'].removeprefix('line ')}: {item['number']}: {_said(item)}"
        if is_cited
        else f"{item['number']} ({item['where']}): the file says {item['claimed'] or 'nothing'!r}, "
        f"the record {item['found'] or 'nothing'!r} [{item['source']}]"
        for item in found["problems"][:_SHOWN]
    ]
    if len(found["problems"]) > _SHOWN:
        lines.append(f"and {len(found['problems']) - _SHOWN} more; --json names them all")
    pictures = f" and {counted(found['pictures'], 'picture')}" if found["pictures"] else ""
    numbers, logs = counted(found["checked"], "number"), counted(found["logs"], "run")
    what = f"{numbers}{pictures} checked against state {found['seq']} and the logs of {logs}"
    if is_cited:
        fixed = f", {counted(found['fixed'], 'number')} written anew" if found["fixed"] else ""
        what = f"{counted(found['checked'], 'reference')} checked against state {found['seq']}{fixed}"
    wrong = len(found["problems"])
    verdict = "every one matches" if found["ok"] else f"{wrong} {'does' if wrong == 1 else 'do'} not match"
    return printable("\n".join([*lines, *(f"note: {note}" for note in found["notes"]), f"{what}: {verdict}"]))


def _said(item: ReportProblem) -> str:
    """Returns what is wrong with a reference."""
    claimed = f"the file says {item['claimed']!r}" if item["claimed"] else ""
    found = f"the record {item['found']!r} [{item['source']}]" if item["found"] else ""
    return f"{item['why']}{': ' if claimed or found else ''}{', '.join(part for part in (claimed, found) if part)}"


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
