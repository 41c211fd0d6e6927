"""Commands that plugins offer: listed from the catalogue, imported when one is called; and groups that plugins add to.

A command named `GROUP.NAME` is the subcommand NAME of Perpetual's own group GROUP; any other one is the program's.
"""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import TYPE_CHECKING

import click

from perpetual.commands import CliContext
from perpetual.errors import PerpetualError, PluginError, UsageError
from perpetual.toolkit import cache_files
from perpetual.toolkit.contained import PartEnded, contained
from perpetual.toolkit.meant import meant
from perpetual.toolkit.reserved import is_bundled, known_names, subcommand_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["OpenGroup", "load_command", "plugin_command", "program_commands", "subcommands"]

Offered = dict[str, tuple[str, str, str, str]]  # name -> (factory, summary, qualified name, topic)


def _offered(ctx: click.Context) -> Offered:
    cli = ctx.ensure_object(CliContext)
    if cli.offers is None:  # a command line asks for them several times
        found = cache_files.commands(safe=cli.safe)
        cli.offers = _discovered(safe=cli.safe) if found is None else found
    return cli.offers


def _discovered(*, safe: bool) -> Offered:
    from perpetual.config import Config, find_project
    from perpetual.registry import Registry

    registry = Registry(safe=safe)
    with contextlib.suppress(PerpetualError):  # outside a project, or a broken one: the command itself will say so
        registry = Registry.of(Config(find_project()), safe=safe)
    offers = registry.serving("command")
    names = known_names("command", [offer.qualified_name for offer in offers])
    return {
        name: (offer.provider.factory, offer.provider.summary, offer.qualified_name, offer.provider.topic)
        for name, offer in zip(names, offers, strict=True)
    }


def program_commands(ctx: click.Context) -> Offered:
    """Returns the plugins' commands of the program itself, by name."""
    return {name: command for name, command in _offered(ctx).items() if subcommand_of(name) is None}


def subcommands(ctx: click.Context, group: str) -> Offered:
    """Returns the plugins' subcommands of one of Perpetual's own groups."""
    found = {subcommand_of(name): command for name, command in _offered(ctx).items()}
    return {where[1]: command for where, command in found.items() if where is not None and where[0] == group}


def plugin_command(ctx: click.Context, found: tuple[str, str, str, str] | None) -> click.Command | None:
    """Imports the command of a plugin that is called; another distribution's answers in a namespace of its own."""
    if found is None:
        return None
    factory, _, qualified_name, _ = found
    if not is_bundled(qualified_name):
        ctx.ensure_object(CliContext).running = qualified_name
        ctx.ensure_object(CliContext).namespace = f"{qualified_name.partition('/')[0]}."
    return load_command(factory)


def load_command(factory: str) -> click.Command:
    """Imports a command.

    Raises:
        PluginError: if it cannot be imported, or is none.
    """
    module, _, name = factory.partition(":")
    try:
        with contained():
            command = getattr(import_module(module), name)
    except (ImportError, AttributeError, PartEnded) as problem:
        raise PluginError(f"the command {factory} cannot be loaded: {problem}") from problem
    except Exception as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise PluginError(f"the command {factory} cannot be loaded: {why}") from problem
    if not isinstance(command, click.Command):
        raise PluginError(f"{factory} is no click command")
    return command


class OpenGroup(click.Group):
    """A group of Perpetual's own that plugins add subcommands to; imports the one that is called."""

    def _more(self, ctx: click.Context) -> Offered:
        found = subcommands(ctx, self.name or "")
        return {name: found[name] for name in sorted(found) if name not in self.commands}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the group's own commands, then the plugins'."""
        return [*super().list_commands(ctx), *self._more(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command, imported; None for an unknown name."""
        own = super().get_command(ctx, cmd_name)
        own = super().get_command(ctx, "list") if own is None and cmd_name == "ls" else own
        return plugin_command(ctx, self._more(ctx).get(cmd_name)) if own is None else own

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves a subcommand as click does, and names what is meant by an unknown one."""
        hint = meant(args[0], self.name) if args else None
        if hint is not None and self.get_command(ctx, args[0]) is None:
            raise UsageError(f"{self.name} has no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns names that begin so, without importing any command."""
        from click.shell_completion import CompletionItem

        lines = {name: self.commands[name].get_short_help_str() for name in super().list_commands(ctx)}
        lines |= {name: found[1] for name, found in self._more(ctx).items()}
        found = [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands; a plugin's line is its summary, so that none is imported."""
        names, more = super().list_commands(ctx), self._more(ctx)
        limit = formatter.width - 6 - max(map(len, [*names, *more]), default=0)
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(limit)) for name in names])
        if more:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(name, found[1]) for name, found in more.items()])
