"""The command `uninstall`: what Perpetual laid outside of records goes, and it says how the package itself goes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli, printable, to_json
from perpetual_devkit.install_commands import refuse_agents

if TYPE_CHECKING:
    from perpetual_devkit.uninstalling import Uninstalled

__all__ = ["uninstall"]


@click.command()
@click.option("--yes", is_flag=True, help="Remove it without asking.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--forget-missing", is_flag=True, help="Pass over projects that are not where they were.")
@json_option
@pass_cli
def uninstall(cli: CliContext, yes: bool, dry_run: bool, forget_missing: bool) -> int:
    """Remove what Perpetual laid on this machine outside of records: state, caches, agents' files of known projects.

    The files of agents are as they were before `init`; each project's .perpetual folder stays. Live runs and services
    are named and refuse it. The package itself is removed by the command that is printed in the end.
    """
    from perpetual_devkit.uninstalling import uninstall as take_out

    refuse_agents(cli, "uninstalling Perpetual")
    if yes and dry_run:
        raise UsageError("--yes and --dry-run exclude each other")
    if not dry_run and not yes:
        if cli.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                "uninstalling needs a person at a terminal, or --yes",
                hint="perpetual uninstall --dry-run lists what would go",
            )
        if not _agreed(take_out(dry_run=True, forget_missing=forget_missing)):
            cli.progress("nothing was removed")
            return 1
    done = take_out(dry_run=dry_run, forget_missing=forget_missing)
    document = {**to_json(done), **({"dry_run": True} if dry_run else {})}
    cli.answer("uninstall", document, lambda: _text(done, dry_run=dry_run))
    return 0


def _agreed(planned: Uninstalled) -> bool:
    click.echo(_lines(planned), err=True)
    return click.confirm("Remove all of this?", default=False, err=True)


def _lines(done: Uninstalled) -> str:
    lines = [f"{item.action:<10} {item.path}" + (f"  ({item.reason})" if item.reason else "") for item in done.items]
    return printable("\n".join(lines or ["there is nothing to remove"]))


def _text(done: Uninstalled, *, dry_run: bool) -> str:
    lines = [_lines(done)]
    lines += ["nothing was removed (--dry-run)"] if dry_run else []
    if any(item.action == "kept" for item in done.items):
        lines.append("a project that stays is held when Perpetual is installed again: perpetual trust")
    return "\n".join([*lines, f"the package itself: {printable(done.command)}"])
