"""The commands `calibration` and `rights`. Loaded by the command line when they are called."""

from __future__ import annotations

import click

from perpetual.api import CliContext, json_option, pass_cli

__all__ = ["calibration", "rights"]


@click.command()
@click.option("--proposer", metavar="NAME", help="Of this proposer alone, by its whole name.")
@json_option
@pass_cli
def calibration(cli: CliContext, proposer: str | None) -> None:
    """Show how declared priors, costs and effects fared, by proposer.

    Brier score and reliability of the priors of decided claims; run-hours that runs took over those declared; measured
    effects over declared ones. Nothing is said of fewer than ten.
    """
    from perpetual_autonomy.board import calibration as found_of
    from perpetual_autonomy.words import board_lines

    found = found_of(cli.lab, proposer=proposer)
    cli.answer("calibration", {**found}, lambda: "\n".join(board_lines(found)))


@click.group(invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def rights(ctx: click.Context, cli: CliContext) -> None:
    """Show which rights to approve are in force, and what is missing of the others.

    A right lets the loop approve one proposer's experiments of one class. Your own configuration sets its ceiling, a
    row of experiments without incident earns it, and an incident loses it.
    """
    if ctx.invoked_subcommand is None:
        from perpetual_autonomy.rights import rights as found_of
        from perpetual_autonomy.words import right_lines

        found = found_of(cli.lab)
        cli.answer("rights", {**found}, lambda: "\n".join(right_lines(found)))


@rights.command()
@click.argument("proposer")
@click.argument("action", metavar="CLASS")
@click.option("--why", required=True, metavar="TEXT", help="The reason, for the ledger.")
@json_option
@pass_cli
def revoke(cli: CliContext, proposer: str, action: str, why: str) -> None:
    """Take PROPOSER's right to CLASS away until a person restores it."""
    _change(cli, proposer, action, why, restore=False)


@rights.command()
@click.argument("proposer")
@click.argument("action", metavar="CLASS")
@click.option("--why", required=True, metavar="TEXT", help="The reason, for the ledger.")
@json_option
@pass_cli
def restore(cli: CliContext, proposer: str, action: str, why: str) -> None:
    """Let PROPOSER earn the right to CLASS again, anew from its revocation on."""
    _change(cli, proposer, action, why, restore=True)


def _change(cli: CliContext, proposer: str, action: str, why: str, *, restore: bool) -> None:
    from perpetual.api import line
    from perpetual_autonomy.rights import change

    found = change(cli.lab, proposer, action, restore=restore, why=why)
    words = f"{found['change']}: {proposer} {action}"
    if found["waiting"]:
        ids = " ".join(found["waiting"])
        words += f"; approved by it and not started: {ids} (perpetual reject {ids} --why TEXT)"
    cli.answer("right_changed", {**found}, line(words))
