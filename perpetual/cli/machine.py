"""Commands about the machine: `doctor`, `completion`. They also work outside a project.

Loaded by `perpetual.cli.app` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.commands import CliContext, json_option, pass_cli, printable
from perpetual.errors import PerpetualError, UsageError, unknown

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck

__all__ = ["completion", "doctor"]

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@json_option
@pass_cli
def doctor(cli: CliContext) -> int:
    """Check the machine and, inside a project, the project; exit 1 if something is wrong."""
    checks = cli.checks()
    good = all(check["ok"] is not False for check in checks)
    cli.answer("doctor", {"ok": good, "checks": checks}, lambda: _checks_text(checks))
    return 0 if good else 1


def _checks_text(checks: list[DoctorCheck]) -> str:
    lines = []
    for check in checks:
        mark = {True: "ok", False: "BAD", None: "note"}[check["ok"]]
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
    cli.answer("completion", {"shell": shell, "script": script}, script, is_verbatim=True)
