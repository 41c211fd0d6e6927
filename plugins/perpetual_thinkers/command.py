"""The commands `thoughts list` and `thoughts show`."""

from __future__ import annotations

import click

from perpetual.api import CliContext, OpenGroup, json_option, page_options, pass_cli, printable

__all__ = ["thoughts"]


@click.group(cls=OpenGroup)
def thoughts() -> None:
    """What a thinker was asked, and what it answered."""


@thoughts.command("list")
@page_options
@json_option
@pass_cli
def list_(cli: CliContext, limit: int, cursor: str | None) -> None:
    """List the questions to the thinker and what came of each, the newest first."""
    from perpetual_thinkers.show import page

    items, more = page(cli.lab, limit=limit, cursor=cursor)
    cli.items("thoughts", items, more, ("id", "kind", "about", "state", "made"),
              lambda item: (item["id"], item["kind"], item["subject"], item["state"],
                            ", ".join(item["made"]) or item["reason"] or "-"), empty="no thought yet")  # fmt: skip


@thoughts.command()
@click.argument("id")
@json_option
@pass_cli
def show(cli: CliContext, id: str) -> None:
    """Show the question ID with every reply as it came."""
    from perpetual_thinkers.show import document_of, text_of

    found = document_of(cli.lab, id)
    cli.answer("thought", found, lambda: printable(text_of(found)))
