"""The command `doctor`, which also works outside a project. Loaded by `perpetual.cli.app` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.commands import CliContext, json_option, pass_cli, printable

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck

__all__ = ["doctor"]


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
