"""Commands about the machine: `gpu-status`, `doctor`, `completion`. They also work outside a project.

Loaded by `perpetual.cli.app` alone.
"""

from __future__ import annotations

import time
from typing import Any

import click

from perpetual.cli.base import Face, json_option, pass_face, printable
from perpetual.errors import PerpetualError, UsageError, unknown

__all__ = ["completion", "doctor", "gpu_status"]

_WATCH_S = 2.0
_SHELLS = ("bash", "zsh", "fish")


@click.command(name="gpu-status")
@click.option("--watch", is_flag=True, help="Go on every two seconds, one JSON document a line with --json.")
@json_option
@pass_face
def gpu_status(face: Face, watch: bool) -> None:
    """The machine's GPUs, how they fare, and which of our runs hold them."""
    inventory = face.inventory()
    _show_devices(face, inventory.devices())
    while watch:
        time.sleep(_WATCH_S)
        document = inventory.devices()
        if not face.as_json:
            click.clear()  # nothing where standard output is no terminal
        _show_devices(face, document)


def _show_devices(face: Face, document: dict[str, Any]) -> None:
    if face.as_json or not document["gpus"]:
        face.answer("gpu_status", document, printable(document["reason"] or "no GPU"))
        return
    face.table(
        ("GPU", "name", "memory", "used", "temperature", "power", "processes", "runs", "state"),
        [_device_row(gpu) for gpu in document["gpus"]],
        title=f"driver {document['driver'] or 'unknown'}",
    )
    if document["reason"]:
        click.echo(printable(document["reason"]))


def _device_row(gpu: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(gpu["index"]),
        gpu["name"] or "-",
        f"{_gib(gpu['memory_used_bytes'])} / {_gib(gpu['memory_total_bytes'])} GiB",
        _or_dash(gpu["utilization"], " %"),
        _or_dash(gpu["temperature_celsius"], " C"),
        _or_dash(gpu["power_watts"], " W"),
        str(len(gpu["processes"])),
        ", ".join(gpu["run_ids"]) or "-",
        "healthy" if gpu["healthy"] else f"sick: {gpu['error']}",
    )


def _gib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / 2**30:.1f}"


def _or_dash(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


@click.command()
@json_option
@pass_face
def doctor(face: Face) -> int:
    """Check the machine and, inside a project, the project; exit 1 if something is wrong."""
    checks = face.checks()
    good = all(check["ok"] is not False for check in checks)
    face.answer("doctor", {"ok": good, "checks": checks}, lambda: _checks_text(checks))
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
@pass_face
@click.pass_context
def completion(ctx: click.Context, face: Face, shell: str) -> None:
    """Print the script that makes a shell complete this command, e.g. eval "$(perpetual completion bash)"."""
    from click.shell_completion import get_completion_class

    if shell not in _SHELLS:
        raise UsageError(unknown("shell", shell, _SHELLS))
    completer = get_completion_class(shell)
    if completer is None:
        raise PerpetualError(f"this click knows no completion for {shell}", hint="upgrade click")
    script = completer(ctx.find_root().command, {}, "perpetual", "_PERPETUAL_COMPLETE").source()
    face.answer("completion", {"shell": shell, "script": script}, script)
