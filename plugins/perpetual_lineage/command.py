"""The commands `memory reject` and `memory lineage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, pass_cli, printable

if TYPE_CHECKING:
    from perpetual_lineage.documents import Lineage, Rejection, Source

__all__ = ["lineage", "reject"]


@click.command()
@click.argument("path")
@click.option("--why", required=True, metavar="T", help="The reason, kept with the decision.")
@click.option("--blob", help="This version alone; the shown one, where the newest is rejected already.")
@click.option("--dry-run", is_flag=True, help="Name what would be taken back, and change nothing.")
@click.option("--keep-derived", is_flag=True, help="Leave the notes that derive from it to a person, and name them.")
@json_option
@pass_cli
def reject(cli: CliContext, path: str, why: str, blob: str | None, dry_run: bool, keep_derived: bool) -> None:
    """Hide the newest version of the note PATH from agents; one that was promoted before it is shown.

    The notes that derive from it, by `derived_from` in their front matter, are quarantined with it.
    """
    from perpetual_lineage.cascade import reject as reject_note

    answer = reject_note(cli.lab, path, why, blob=blob, dry_run=dry_run, keep_derived=keep_derived)
    cli.answer("memory_decision", answer, lambda: _rejection_text(answer))


def _rejection_text(answer: Rejection) -> str:
    done = "would be" if answer["dry_run"] else "is"
    lines = [f"{printable(answer['path'])}  {done} rejected (was {answer['was']})  version {answer['blob'][:10]}"]
    if answer["shown"] is not None:
        lines.append(f"  agents {'would be' if answer['dry_run'] else 'are'} shown version {answer['shown'][:10]}, "
                     "which was promoted before")  # fmt: skip
    for item in answer["derived"]:
        if answer["kept"]:
            what = f"{'would stay' if answer['dry_run'] else 'stays'} {item['status']}, for a person to decide"
        elif answer["dry_run"]:
            what = f"would be quarantined (is {item['status']})"
        elif item["now"] == item["status"]:
            what = f"is {item['now']}: the next scan decides"
        else:
            what = f"is {item['now']} (was {item['status']})"
        lines.append(f"  {printable(item['path'])}  {what}  derived from {printable(item['through'])}")
    return "\n".join(lines)


@click.command()
@click.argument("path")
@json_option
@pass_cli
def lineage(cli: CliContext, path: str) -> None:
    """Show which notes the note PATH derives from, and which derive from it."""
    from perpetual_lineage.cascade import lineage_of

    found = lineage_of(cli.lab, path)
    cli.answer("memory_lineage", found, lambda: _lineage_text(found))


def _lineage_text(found: Lineage) -> str:
    lost = f"  not offered: {printable(found['lost'])}" if found["lost"] else ""
    lines = [f"{printable(found['path'])}  {found['status']}{lost}"]
    lines += [f"  for a person to review: {printable(found['review'])}"] if found["review"] else []
    lines += [f"  derived from  {_line(item)}" for item in found["sources"]]
    lines += [f"  source of     {_line(item)}" for item in found["derived"]]
    return "\n".join(lines if len(lines) > 1 else [*lines, "  no note derives from it, nor it from any"])


def _line(item: Source) -> str:
    return f"{printable(item['path'])}  {item['status'] or 'no such note'}"
