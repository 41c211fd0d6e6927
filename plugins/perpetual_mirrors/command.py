"""The command `mirror`. Loaded by the command line when it is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, line, pass_cli
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual_mirrors.documents import MirrorPush

__all__ = ["mirror"]


@click.command()
@click.option("--to", "targets", multiple=True, metavar="NAME", help="Push to this mirror, configured or not.")
@click.option("--rebuild", is_flag=True, help="Push every run that has ended anew, in the place of what is there.")
@click.option("--dry-run", is_flag=True, help="Say how many runs wait, and push nothing.")
@json_option
@pass_cli
def mirror(cli: CliContext, targets: tuple[str, ...], rebuild: bool, dry_run: bool) -> int:
    """Push runs that have ended to trackers: tensorboard, wandb, mlflow, trackio.

    Those of plugins.mirrors.targets are pushed to by themselves as runs end; this does it now, also where an earlier
    push failed. The exit status is 1 if a mirror failed.
    """
    from perpetual_mirrors.starting import push

    found = push(cli.lab, targets, rebuild=rebuild, dry_run=dry_run)
    cli.answer(
        "mirror",
        {"targets": found, "dry_run": dry_run},
        "\n".join(_line(cli, each, dry_run=dry_run) for each in found),
    )
    return 1 if any(each["error"] for each in found) and not dry_run else 0


def _line(cli: CliContext, found: MirrorPush, *, dry_run: bool) -> str:
    place = os.path.relpath(found["folder"], cli.lab.root)
    waiting = len(found["waiting"])
    if dry_run:
        words = f"{counted(waiting, 'run')} to push" + (f", such as {found['waiting'][0]}" if waiting else "")
    else:
        words = f"{counted(len(found['pushed']), 'run')} pushed"
        words += f", {waiting} waiting" if waiting else ""
        words += f": {found['error']}" if found["error"] else ""
    return line(f"{found['target']}: {words}" + ("" if found["error"] else f" ({place})"))
