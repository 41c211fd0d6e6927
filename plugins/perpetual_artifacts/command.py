"""The command `gc`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, NotPermitted, UsageError, json_option, pass_cli, printable
from perpetual.toolkit.readers import FOR_A_PERSON
from perpetual.toolkit.units import counted, shown_bytes

if TYPE_CHECKING:
    from perpetual_artifacts.documents import Gc

__all__ = ["gc"]


@click.command()
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Remove it without asking.")
@json_option
@pass_cli
def gc(cli: CliContext, dry_run: bool, yes: bool) -> int:
    """Remove checkpoints and artifacts that the policy lets go; records, logs and metrics stay.

    The policy is plugins.artifacts in the configuration: checkpoint_days (7), unfinished_checkpoint_days (30) and
    artifact_days (kept for ever).
    """
    from perpetual_artifacts.retention import collect

    if dry_run and yes:
        raise UsageError("--dry-run and --yes exclude each other")
    if not dry_run and (cli.withholds or cli.for_agent):
        raise NotPermitted("removing files of runs is for a person", hint=FOR_A_PERSON)
    if not dry_run and not yes:
        if cli.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("gc needs a person at a terminal, or --yes", hint="perpetual gc --dry-run lists what goes")
        planned = collect(cli.lab, dry_run=True)
        cli.progress("\n".join(_lines(planned)))
        if not planned["removed"] or not click.confirm("Remove them?", err=True):
            return 0
    done = collect(cli.lab, dry_run=dry_run)
    cli.answer("gc", done, lambda: "\n".join(_lines(done)))
    return 0


def _lines(found: Gc) -> Sequence[str]:
    verb = "would be removed" if found["dry_run"] else "removed"
    lines = [
        f"{item['path']}: {counted(item['files'], 'file')}, {shown_bytes(item['size_bytes'])}; {printable(item['why'])}"
        for item in found["removed"]
    ]
    lines += [f"{counted(n, 'folder')} kept: {why}" for why, n in sorted(found["kept"].items())]
    return [*lines, f"{counted(len(found['removed']), 'folder')} {verb}: {shown_bytes(found['freed_bytes'])}"]
