"""Commands on settings: `methodology show|init|set` and `config show|set`. Loaded by `perpetual.cli.app` alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from perpetual.commands import CliContext, json_option, pass_cli
from perpetual.commands.offered import OpenGroup
from perpetual.toolkit.config_keys import Item

__all__ = ["config", "methodology"]

# A value may begin with a dash: `set plugins.acme.offset -1`.
_VALUES = {"ignore_unknown_options": True}


@click.group(cls=OpenGroup)
def methodology() -> None:
    """Show and set how research is done here: keys with value and meaning."""


@methodology.command(name="show")
@json_option
@pass_cli
def show_methodology(cli: CliContext) -> None:
    """List every key of the methodology with value, origin and meaning."""
    _show(cli, "methodology", cli.lab.settings.methodology(), with_origin=True)


@methodology.command(name="init")
@json_option
@pass_cli
def init_methodology(cli: CliContext) -> None:
    """Write methodology.yaml with every key at its default, where there is none yet."""
    _show(cli, "methodology", cli.lab.settings.init_methodology(), with_origin=True)


@methodology.command(name="set", context_settings=_VALUES)
@click.argument("key")
@click.argument("value")
@json_option
@pass_cli
def set_methodology(cli: CliContext, key: str, value: str) -> None:
    """Set KEY to VALUE in methodology.yaml; comments stay. Lists are written a,b,c and nothing as null."""
    _changed(cli, cli.lab.settings.set_methodology(key, value))
    _say_moved(cli)


@methodology.command(name="unset")
@click.argument("key")
@json_option
@pass_cli
def unset_methodology(cli: CliContext, key: str) -> None:
    """Take KEY out of methodology.yaml; comments stay. The default, or your own file, is then in force."""
    _unset(cli, cli.lab.settings.unset_methodology(key))
    _say_moved(cli)


def _say_moved(cli: CliContext) -> None:
    for item in cli.lab.settings.moved:
        was, now = item["stored"]["status"], item["folded"]["status"]
        if was != now:
            cli.progress(f"{item['id']}: {was} -> {now}")


@click.group(cls=OpenGroup)
def config() -> None:
    """Show and set what this project is made of: the providers chosen, and the options of plugins."""


@config.command(name="show")
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@json_option
@pass_cli
def show_config(cli: CliContext, origin: bool) -> None:
    """List every key of the configuration with value, origin and meaning, the options of plugins included."""
    _show(cli, "config", cli.lab.settings.config(), with_origin=origin)


@config.command(name="set", context_settings=_VALUES)
@click.argument("key")
@click.argument("value")
@json_option
@pass_cli
def set_config(cli: CliContext, key: str, value: str) -> None:
    """Set KEY to VALUE in config.yaml; comments stay.

    An option is plugins.SLOT.PROVIDER.OPTION; plugins.NAME.OPTION for short, where that means one part.
    """
    _changed(cli, cli.lab.settings.set_config(key, value))


@config.command(name="unset")
@click.argument("key")
@json_option
@pass_cli
def unset_config(cli: CliContext, key: str) -> None:
    """Take KEY out of config.yaml; comments stay. The default, or your own file, is then in force."""
    _unset(cli, cli.lab.settings.unset_config(key))


def _unset(cli: CliContext, item: Item) -> None:
    cli.answer("setting", item._asdict(), f"{item.key}: {_cell(item.value)}  ({item.origin})")


def _show(cli: CliContext, schema: str, items: Sequence[Item], *, with_origin: bool) -> None:
    columns = ("key", "value", *(("origin",) if with_origin else ()), "meaning")
    cli.items(
        schema,
        [item._asdict() for item in items],
        None,
        columns,
        lambda item: tuple(_cell(item[column]) for column in columns),
        empty="there are no keys",
    )


def _changed(cli: CliContext, item: Item) -> None:
    text = f"{item.key}: {_cell(item.value)}"
    if item.origin != "project":
        text += f"  (written; {item.origin} goes on winning over the file)"
    cli.answer("setting", item._asdict(), text)


def _cell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
