"""The command `adopt`. Loaded by the command line when it is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, pass_cli, printable
from perpetual.toolkit.units import counted
from perpetual_adopt.source import KINDS

if TYPE_CHECKING:
    from perpetual_adopt.documents import Adoption, AdoptionBudget, AdoptionSkipped

__all__ = ["adopt"]

_SHOWN = 20  # of what was left out, for people
_TELL_EVERY = 2000  # records


@click.command()
@click.argument("source", metavar="[SOURCE]", default=".")
@click.option("--from", "kind", type=click.Choice(KINDS), help="Which tool wrote it; by default its files say so.")
@click.option("--experiment", "names", metavar="NAME", multiple=True, help="Only this one; may be repeated.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N new experiments; do it again for more.")
@click.option("--metric", metavar="M", help="What decides: a metric's name, or a column of the table.")
@click.option("--direction", type=click.Choice(["max", "min"]), help="Whether more or less of it is better.")
@click.option("-h", "--hypothesis", "hypothesis_id", metavar="ID", help="Put everything under this hypothesis.")
@click.option("--dry-run", is_flag=True, help="Show what would be taken over, and write nothing.")
@json_option
@pass_cli
def adopt(
    cli: CliContext,
    source: str,
    kind: str | None,
    names: tuple[str, ...],
    limit: int | None,
    metric: str | None,
    direction: str | None,
    hypothesis_id: str | None,
    dry_run: bool,
) -> None:
    """Take over earlier work: a perpetual-agent project, an autoresearch table, MLflow runs.

    SOURCE is a folder or a file (the working directory by default), or sqlite:///FILE. It is only read; a
    perpetual-agent project in whose place ours must stand is moved aside, whole. What was measured before it was
    predicted is shown and counts for nothing. Doing it again takes what is new.
    """
    from perpetual_adopt.adoption import adopt as take
    from perpetual_adopt.detect import find
    from perpetual_adopt.source import Wanted

    wanted = Wanted(names, metric, direction)
    last_seen = 0

    def progress(seen: int) -> None:
        nonlocal last_seen
        if seen - last_seen >= _TELL_EVERY:
            last_seen = seen
            cli.progress(f"{seen} records")

    document = take(
        find(source, kind, wanted),
        wanted,
        lambda: cli.lab,
        dry_run=dry_run,
        limit=limit,
        hypothesis_id=hypothesis_id,
        named=cli.project or os.environ.get("PERPETUAL_PROJECT"),
        safe=cli.safe,
        progress=progress,
    )
    cli.answer("adoption", {**document}, lambda: _text(document))


def _text(document: Adoption) -> str:
    """Returns the document for people."""
    found = ", ".join([
        counted(document["hypotheses"], "hypothesis", "hypotheses"), counted(document["experiments"], "experiment"),
        counted(document["runs"], "run"), counted(document["notes"], "note"),
    ])  # fmt: skip
    deed = "would be taken over" if document["dry_run"] else "taken over"
    lines = [f"{document['kind']}: {document['name']} ({document['source']})"]
    if document["moved"] is not None:
        verb = "would be moved" if document["dry_run"] else "moved"
        lines.append(f"{verb}: {document['moved']['from']} -> {document['moved']['to']}")
    lines.append(f"{deed}: {found}")
    if any(document["known"].values()):
        before = document["known"]
        words = (
            (before["hypotheses"], "hypothesis", "hypotheses"), (before["experiments"], "experiment", None),
            (before["runs"], "run", None), (before["notes"], "note", None),
        )  # fmt: skip
        known = ", ".join(counted(*each) for each in words if each[0])
        lines.append(f"known already: {known}")
    if not document["is_complete"]:
        lines.append("there is more: the same command takes the next ones")
    lines.append(_hours(document["budget"]))
    if document["evidence"]:
        lines.append(
            f"{document['evidence']} results are shown as evidence of weight 0: they were measured before they were "
            "predicted"
        )
    lines += _skipped(document["skipped"])
    if document["next"]:
        lines += ["next:", *(f"  {command}" for command in document["next"])]
    return printable("\n".join(lines))


def _hours(budget: AdoptionBudget) -> str:
    text = f"used before: {budget['run_hours']:.2f} run-hours, {budget['gpu_hours']:.2f} GPU-hours as far as is known"
    if budget["debited_gpu_hours"]:
        text += f"; {budget['debited_gpu_hours']:.2f} debited"
    if budget["limit_gpu_hours"] is not None:
        text += f"; the limit is {budget['limit_gpu_hours']:.2f}"
    return text


def _skipped(skipped: list[AdoptionSkipped]) -> list[str]:
    if not skipped:
        return []
    lines = [f"left out ({len(skipped)}):", *(f"  {item['what']}: {item['why']}" for item in skipped[:_SHOWN])]
    return [*lines, "  and more: --json lists them"] if len(skipped) > _SHOWN else lines
