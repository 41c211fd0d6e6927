"""The command `perpetual early-stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, pass_cli

if TYPE_CHECKING:
    from perpetual_stoppers.documents import EarlyStop

__all__ = ["early_stop"]

_HEAD = ("run", "experiment", "verdict", "done", "rung", "why")
_OFF = "off: no stopper is in force (perpetual methodology set stoppers.active curve)"


@click.command("early-stop")
@click.option("--dry-run", is_flag=True, help="Say what would be stopped, and stop nothing.")
@click.option(
    "--stopper", "stoppers", multiple=True, metavar="NAME",
    help="Judge by this stopper, whatever stoppers.active says; may be repeated. Needs --dry-run.",
)  # fmt: skip
@json_option
@pass_cli
def early_stop(cli: CliContext, dry_run: bool, stoppers: tuple[str, ...]) -> None:
    """Judge the live runs once by the stoppers in force, and stop those whose rest is not worth its hours.

    The daemon does this by itself. A stopped run is no loss: its last value is estimated from its curve, by what
    complete runs did after the same step, and the uncertainty of that counts. The first two runs of a claim, the first
    four of a baseline and one in three are always completed, and confirmations all are.
    """
    from perpetual_stoppers.judge import judge

    if stoppers and not dry_run:
        raise click.UsageError("--stopper is for --dry-run; stoppers.active of the methodology says what stops runs")
    found = judge(cli.lab, dry_run=dry_run, stoppers=stoppers or None)
    if cli.as_json:
        cli.answer("early_stop", {**found}, "")
        return
    _show(cli, found)


def _show(cli: CliContext, found: EarlyStop) -> None:
    if not found["active"]:
        click.echo(_OFF)
        return
    rows = [
        (
            run["run_id"], run["experiment_id"], run["verdict"].replace("_", " "),
            "" if run["share_done"] is None else f"{run['share_done']:.0%}",
            "" if run["rung"] is None else f"step {run['rung']:g}", run["why"],
        )
        for run in found["runs"]
    ]  # fmt: skip
    if not rows:
        click.echo(f"no run is live; {', '.join(found['active'])} in force, at {found['at']:.0%} of a run's steps")
        return
    cli.table(_HEAD, rows, title=f"by {', '.join(found['active'])}, at {found['at']:.0%} of a run's steps")
