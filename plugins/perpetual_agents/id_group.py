"""A group of commands about one agent, whose ID comes before the subcommand: `agent goals ID add TEXT`."""

from __future__ import annotations

import click

__all__ = ["IdGroup"]


class IdGroup(click.Group):
    """Takes `--json` after the ID too, as every command of Perpetual takes it at its end."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words of a command line."""
        if args[1:2] == ["--json"] and not args[0].startswith("-"):
            args = ["--json", args[0], *args[2:]]
        return super().parse_args(ctx, args)
