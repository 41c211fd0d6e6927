"""Commands about the machine: `gpu-status`, `doctor`, `completion`. They also work outside a project.

Loaded by `perpetual.cli.app` alone.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from perpetual.commands import CliContext, json_option, pass_cli, printable
from perpetual.errors import PerpetualError, UsageError, unknown

if TYPE_CHECKING:
    from perpetual.lab.inventory import Inventory
    from perpetual.slots.placement import GpuStatus

__all__ = ["completion", "doctor", "gpu_status"]

_WATCH_S = 2.0
_WIDE = 200
_SHELLS = ("bash", "zsh", "fish")


@click.command(name="gpu-status")
@click.option("--watch", is_flag=True, help="Go on every two seconds, one JSON document a line with --json.")
@json_option
@pass_cli
def gpu_status(cli: CliContext, watch: bool) -> None:
    """The machine's GPUs, how they fare, and which runs hold them, those of your other projects included.

    A state is free, leased (by a run), used (by another process), excluded (by gpus_excluded or the compute
    mode) or sick; a device that MIG has cut has a line for each of its instances.
    """
    inventory = cli.inventory()
    if watch and not cli.as_json and sys.stdout.isatty():
        _watch_screen(inventory)
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

    from perpetual.cli.gpu_table import gpu_table

    # Where nobody looks at a screen nothing is cut off.
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    console.print(gpu_table(document, console))


def _watch_screen(inventory: Inventory) -> None:
    """Draws the table anew in its place until it is interrupted; what was on the screen before stays above it."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from perpetual.cli.gpu_table import gpu_table

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            document = inventory.devices()
            none = Text(printable(document["reason"] or "no GPU"))
            live.update(gpu_table(document, console) if document["gpus"] else none, refresh=True)
            time.sleep(_WATCH_S)


@click.command()
@json_option
@pass_cli
def doctor(cli: CliContext) -> int:
    """Check the machine and, inside a project, the project; exit 1 if something is wrong."""
    checks = cli.checks()
    good = all(check["ok"] is not False for check in checks)
    cli.answer("doctor", {"ok": good, "checks": checks}, lambda: _checks_text(checks))
    return 0 if good else 1


def _checks_text(checks: list[dict[str, Any]]) -> str:
    lines = []
    for check in checks:
        mark = {True: "ok", False: "BAD", None: "-"}[check["ok"]]
        lines.append(f"{mark:<4} {check['check']}: {printable(check['detail'])}")
        if check["hint"] and check["ok"] is not True:
            lines.append(f"     {printable(check['hint'])}")
    return "\n".join(lines)


@click.command()
@click.argument("shell", metavar="bash|zsh|fish")
@json_option
@pass_cli
@click.pass_context
def completion(ctx: click.Context, cli: CliContext, shell: str) -> None:
    """Print the script that makes a shell complete this command, e.g. eval "$(perpetual completion bash)"."""
    from click.shell_completion import get_completion_class

    if shell not in _SHELLS:
        raise UsageError(unknown("shell", shell, _SHELLS))
    completer = get_completion_class(shell)
    if completer is None:
        raise PerpetualError(f"this click knows no completion for {shell}", hint="upgrade click")
    script = completer(ctx.find_root().command, {}, "perpetual", "_PERPETUAL_COMPLETE").source()
    cli.answer("completion", {"shell": shell, "script": script}, script)
