"""The command `chaos`: `perpetual.cli.app` loads it. It needs no project, and touches none."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perpetual.commands import CliContext, json_option, pass_cli, printable

if TYPE_CHECKING:
    from perpetual.chaos import Certificate

__all__ = ["chaos"]

_EVERY_S = 2.0  # between two lines of progress


@click.command()
@click.option(
    "--kills", type=click.IntRange(1, 100_000), default=200, show_default=True, help="How many writers are killed."
)
@click.option(
    "--writers",
    type=click.IntRange(1, 64),
    help="Processes that write at the same time. By default 8, or 1 where the store takes one writer.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Decides who is killed when. By default a new one.")
@click.option("--store", metavar="NAME", help="The store to try; by default the project's, outside a project tinydb.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the scratch folder is made, to try DIR's file system. By default with the system's temporary files.",
)
@json_option
@pass_cli
def chaos(
    cli: CliContext, kills: int, writers: int | None, seed: int | None, store: str | None, folder: Path | None
) -> int:
    """Kill processes that write to a store, again and again, and certify what is left; exit 1 if something is wrong.

    The store is a new one in a scratch folder; the project's own record is not touched. Writers end by SIGKILL at
    random instants, some inside a transaction, some while the store compacts itself. In the end a fresh process looks
    whether every acknowledged write is there once and whole. What a loss of power does is not tried by this.
    """
    last_s = time.monotonic()

    def progress(done: int, acknowledged: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _EVERY_S:
            last_s = time.monotonic()
            cli.progress(f"{done} of {kills} kills, {acknowledged} acknowledged")

    found = cli.inventory().chaos(store, kills=kills, writers=writers, seed=seed, folder=folder, progress=progress)
    cli.answer("chaos", asdict(found), lambda: _text(found))
    return 0 if found.ok else 1


def _text(found: Certificate) -> str:
    """The certificate for people."""
    where = ", ".join(f"{count} {name}" for name, count in found.killed_in.items() if count)
    verdict = "sound" if found.ok else "NOT SOUND"
    lines = [
        f"{found.provider}: {verdict} after {found.kills} kills of {found.writers} writers",
        f"  killed in: {where or 'nothing'}",
        f"  acknowledged {found.acknowledged}, of these present {found.present}; transactions {found.transactions}",
        f"  seed {found.seed}, {found.file_system or 'unknown file system'}, Perpetual {found.version}, "
        f"Python {found.python}, {found.platform}, {found.duration_s:.1f} s",
        *(f"  problem: {problem}" for problem in found.problems),
    ]
    if found.kept:
        lines.append(f"  kept: {found.kept}")
    return printable("\n".join(lines))
