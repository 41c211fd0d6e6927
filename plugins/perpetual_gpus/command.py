"""The command `perpetual gpu-status`, which also works outside a project."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from perpetual.api import CliContext, GpuStatus, json_option, pass_cli, printable
from perpetual.toolkit import screen
from perpetual.toolkit.redraw import is_plain

__all__ = ["gpu_status"]

_WATCH_S = 2.0
_WIDE = 200


@click.command(name="gpu-status")
@click.option("--watch", is_flag=True, help="Go on every two seconds, one JSON document a line with --json.")
@json_option
@pass_cli
def gpu_status(cli: CliContext, watch: bool) -> None:
    """Show the machine's GPUs, how they fare, and which runs hold them, those of your other projects included.

    A state is free, leased (by a run), used (by another process), excluded (by gpus_excluded or the compute
    mode) or sick; a device that MIG has cut has a line for each of its instances.
    """
    inventory = cli.inventory()
    if watch and not cli.as_json and sys.stdout.isatty() and not is_plain():
        _watch_screen(inventory.devices)
        return
    _show_devices(cli, inventory.devices())
    while watch:
        time.sleep(_WATCH_S)
        _show_devices(cli, inventory.devices())


def _show_devices(cli: CliContext, document: GpuStatus) -> None:
    if cli.as_json or not document["gpus"]:
        cli.answer("gpu_status", {**document}, printable(document["reason"] or "no GPU"))
        return
    from rich.console import Console

    from perpetual_gpus.table import gpu_facts, gpu_table

    if screen.is_plain():
        cli.table(*gpu_facts(document))
        return
    # Where the output is no screen nothing is cut off.
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    console.print(gpu_table(document, console))


def _watch_screen(read: Callable[[], GpuStatus]) -> None:
    """Draws the table anew in its place until it is interrupted; what was on the screen before stays above it."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from perpetual_gpus.table import gpu_table

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            document = read()
            none = Text(printable(document["reason"] or "no GPU"))
            live.update(gpu_table(document, console) if document["gpus"] else none, refresh=True)
            time.sleep(_WATCH_S)
