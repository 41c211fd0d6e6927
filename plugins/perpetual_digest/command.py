"""The command `perpetual digest`."""

from __future__ import annotations

import sys

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli

__all__ = ["digest"]

_WIDEST = 120  # columns: longer lines are hard to read


@click.command()
@click.option(
    "--since", default="12h", show_default=True, metavar="T",
    help="So long ago (12h, 2d), a time (2026-11-25T20:00, UTC), or the number of an event.",
)  # fmt: skip
@click.option("--markdown", "--md", "as_markdown", is_flag=True, help="Write Markdown, for a notifier or a file.")
@json_option
@pass_cli
def digest(cli: CliContext, since: str, as_markdown: bool) -> None:
    """Show what was decided, spent and lost since a moment, what waits for a person, and what runs now.

    In one screen, from the record alone. A verdict is named with the confidence that was reached, the threshold that
    was declared, and the evidence. Runs count where they ended, each as a whole.
    """
    from perpetual_digest.digest import digest as made
    from perpetual_digest.words import COLUMNS, markdown_of, screen

    if as_markdown and cli.as_json:
        raise UsageError("--markdown and --json are two forms of one answer", hint="leave one of them out")
    found = made(cli.lab, since=since)
    found["next"] = cli.steps(found["next"])
    if as_markdown:
        cli.answer("digest", {**found}, lambda: markdown_of(found).rstrip("\n"), is_verbatim=True)
        return
    columns = COLUMNS
    if sys.stdout.isatty():
        from shutil import get_terminal_size

        columns = min(get_terminal_size().columns, _WIDEST)
    cli.answer("digest", {**found}, lambda: screen(found, columns=columns), is_verbatim=True)
