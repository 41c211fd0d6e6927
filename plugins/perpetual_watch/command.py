"""The command `perpetual watch`."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, pass_cli

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import GpuStatus
    from perpetual_watch.documents import Watch

__all__ = ["watch"]

_COLUMNS, _LINES = 80, 24
_DEVICES_S = 3.0  # that one frame waits for a driver


@click.command()
@click.option("--once", is_flag=True, help="Print one frame and end, as without a terminal.")
@json_option
@pass_cli
def watch(cli: CliContext, once: bool) -> None:
    """Watch claims, runs with their curves, GPUs, budget, approvals and events, drawn anew as things happen.

    Keys: a approves what waits, k ends a run, p pauses the queue or lets it go on, ? explains, q quits. What is
    approved or ended is shown whole first, and asked. Runs go on when the view is left.
    """
    if cli.as_json or once or not _is_at_terminal(cli):
        document = _once(cli.lab)
        cli.answer("watch", {**document}, lambda: _text(document), is_verbatim=True)
        return
    from perpetual_watch.terminal import Terminal
    from perpetual_watch.view import View

    terminal = Terminal()
    view = View(cli.lab, terminal)
    with terminal.opened():
        view.run()
    view.join()


def _is_at_terminal(cli: CliContext) -> bool:
    """Returns whether a person is at a terminal that can be drawn on."""
    from perpetual.toolkit.screen import is_plain

    can_draw = not is_plain() and os.environ.get("TERM", "dumb") != "dumb"
    return can_draw and not cli.withholds and not cli.for_agent and sys.stdin.isatty() and sys.stdout.isatty()


def _once(lab: Lab) -> Watch:
    """Returns one frame's document; a driver that does not answer soon is not waited for."""
    from perpetual_watch.facts import collected, devices_of

    found: list[GpuStatus] = []
    thread = threading.Thread(target=lambda: found.append(devices_of(lab)), daemon=True)
    thread.start()
    thread.join(_DEVICES_S)
    late: GpuStatus = {"driver": None, "gpus": [], "reason": "the GPU driver has not answered yet", "transient": True}
    return collected(lab, found[0] if found else late)


def _text(document: Watch) -> str:
    from shutil import get_terminal_size

    from perpetual_watch.frame import frame

    size = get_terminal_size((_COLUMNS, _LINES)) if sys.stdout.isatty() else os.terminal_size((_COLUMNS, _LINES))
    return "\n".join(line.text for line in frame(document, size.columns, size.lines, keys=None))
