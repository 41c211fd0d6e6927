"""The commands `store ...`: the record's store as a whole."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, OpenGroup, UsageError, json_option, pass_cli, printable
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual.documents.store import StoreMoved, StoreStats

__all__ = ["store"]

_dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done and change nothing.")


@click.group(cls=OpenGroup)
def store() -> None:
    """Look at the store that keeps the record, check it, move it."""


@store.command()
@json_option
@pass_cli
def stats(cli: CliContext) -> None:
    """Show what the store holds and weighs, in which mode it works and why."""
    counts = cli.lab.storage.stats()
    cli.answer("store_stats", counts, lambda: _stats_text(counts))


def _stats_text(stats: StoreStats) -> str:
    mode = f" ({stats['mode']}: {stats['why']})" if stats["mode"] else ""
    lines = [
        f"store {stats['store']}{mode}",
        f"folder {stats['folder']}, {_size(stats['bytes'])}, commit {stats['commit']}",
        *(f"  {count:>8}  {kind}" for kind, count in stats["records"].items()),
    ]
    return printable("\n".join(lines))


def _size(size_bytes: int) -> str:
    return f"{size_bytes} bytes" if size_bytes < 10_000 else f"{size_bytes / 1e6:.2f} MB"


@store.command()
@json_option
@pass_cli
def verify(cli: CliContext) -> int:
    """Check sums, order and references, and everything derived against its ledger; exit 1 if something is wrong."""
    problems = cli.lab.storage.verify()
    text = "\n".join(problems) if problems else "everything holds"
    cli.answer("store_verify", {"ok": not problems, "problems": problems}, printable(text))
    return 1 if problems else 0


@store.command()
@json_option
@pass_cli
def compact(cli: CliContext) -> None:
    """Give back the room that older states take."""
    sizes = cli.lab.storage.compact()
    cli.answer(
        "store_compact", sizes, lambda: f"{_size(sizes['bytes_before'])} before, {_size(sizes['bytes_after'])} after"
    )


@store.command()
@click.option("-o", "--output", metavar="FILE", help="Where to; without it, standard output.")
@json_option
@pass_cli
def export(cli: CliContext, output: str | None) -> None:
    """Write the whole record as JSON lines that every store can import.

    Notes are in it, and the folders of runs (logs, metrics files) are not.
    """
    if output is None:
        if cli.as_json:
            raise UsageError("--json answers one document, and so does not go with an export to standard output",
                             hint="name a file: -o FILE")  # fmt: skip
        if cli.for_agent:
            raise UsageError("the whole record is not written to an agent's screen", hint="name a file: -o FILE")
        out = sys.stdout.buffer
        with cli.alone():
            cli.lab.storage.export(out)
        return
    exported = cli.lab.storage.export_file(output)
    cli.answer("store_export", exported, lambda: f"{counted(exported['rows'], 'row')} in {printable(exported['path'])}")


@store.command(name="import")
@click.argument("file")
@_dry_run
@json_option
@pass_cli
def import_(cli: CliContext, file: str, dry_run: bool) -> None:
    """Take over an exported record into a project that has done nothing yet."""
    moved = cli.lab.storage.import_file(file, dry_run=dry_run)
    cli.answer("store_import", moved, lambda: _moved_text(moved, dry_run))


@store.command()
@click.argument("name", metavar="STORE")
@_dry_run
@json_option
@pass_cli
def migrate(cli: CliContext, name: str, dry_run: bool) -> None:
    """Move the record into another store, e.g. sqlite, and choose that one; the old one is kept as a backup."""
    moved = cli.lab.storage.migrate(name, dry_run=dry_run)
    cli.answer("store_migrate", moved, lambda: _moved_text(moved, dry_run))


def _moved_text(moved: StoreMoved, dry_run: bool) -> str:
    if dry_run:
        return f"{counted(moved['rows'], 'row')} would be taken over"
    return printable(f"{counted(moved['rows'], 'row')} taken over; the store before is kept in {moved['backup']}")
