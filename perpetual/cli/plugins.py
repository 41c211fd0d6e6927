"""Commands on plugins: `plugins list|show|retry`; `perpetual.cli.app` loads them. They need no project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.commands import CliContext, json_option, pass_cli, printable
from perpetual.commands.offered import OpenGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpetual.documents.plugins import OptionLine, Plugin, PluginLine, PluginTimed, Timing

__all__ = ["plugins"]


@click.group(cls=OpenGroup)
def plugins() -> None:
    """Show which plugins there are, what they offer, and what is in force."""


@plugins.command(name="list")
@click.option("--timing", is_flag=True, help="Measure what importing and asking each plugin costs.")
@json_option
@pass_cli
def list_(cli: CliContext, timing: bool) -> None:
    """List every plugin with version, state (active, available, disabled or failed) and the reason."""
    inventory = cli.inventory()
    problems = inventory.problems()
    spent = inventory.timing() if timing else {}
    found = inventory.plugins()
    items: Sequence[PluginLine] = found
    if timing:
        timed: list[PluginTimed] = [{**item, "timing": spent.get(item["qualified_name"])} for item in found]
        items = timed
    cli.items(
        "plugins",
        items,
        None,
        ("plugin", "version", "api", "state", *(("import ms", "hooks ms") if timing else ()), "offers", "reason"),
        lambda item: (
            item["qualified_name"],
            item["version"],
            "-" if item["api"] is None else str(item["api"]),
            item["state"],
            *(_spent(spent.get(item["qualified_name"])) if timing else ()),
            _offers(item),
            item["reason"] or "",
        ),
        empty="there are no plugins",
        extra={"problems": [{**item, "hint": cli.hint(item["hint"])} for item in problems]},
    )
    if not cli.as_json:
        click.echo("(in brackets: at hand, and not chosen; perpetual plugins show NAME says why)")
    for item in items:
        for words in item["deprecations"]:
            cli.progress(printable(f"deprecated: {item['qualified_name']}: {words}"))
    for problem in problems:
        cli.progress(printable(f"problem: {problem['message']}\n  {cli.hint(problem['hint'])}"))


def _spent(timing: Timing | None) -> tuple[str, str]:
    return ("-", "-") if timing is None else (f"{timing['import_ms']:.1f}", f"{timing['hooks_ms']:.1f}")


def _offers(item: PluginLine) -> str:
    """Returns the plugin's providers, those that are not in force in brackets."""
    by_slot: dict[str, list[str]] = {}
    for one in item["providers"]:
        by_slot.setdefault(one["slot"], []).append(one["name"] if one["state"] == "active" else f"({one['name']})")
    return "; ".join(f"{slot} {', '.join(names)}" for slot, names in by_slot.items())


@plugins.command()
@click.argument("name")
@json_option
@pass_cli
def retry(cli: CliContext, name: str) -> int:
    """Look anew at a plugin that was left out after failures in a row; exit 1 if it still fails."""
    document = cli.inventory().retry(name)
    cli.answer("plugin", document, lambda: _plugin_text(document))
    return 1 if document["state"] == "failed" else 0


@plugins.command()
@click.argument("name")
@json_option
@pass_cli
def show(cli: CliContext, name: str) -> None:
    """Show one plugin in full: its hooks, and each provider with factory and options."""
    document = cli.inventory().plugin(name)
    cli.answer("plugin", document, lambda: _plugin_text(document))


def _plugin_text(document: Plugin) -> str:
    lines = [f"{document['qualified_name']} {document['version']}: {document['state']}"]
    if document["reason"]:
        lines.append(f"  {document['reason']}")
    lines += [f"  deprecated: {words}" for words in document["deprecations"]]
    if document["hooks"]:
        lines.append(f"hooks: {', '.join(document['hooks'])}")
    for one in document["providers"]:
        why = f" ({one['reason']})" if one["reason"] else ""
        lines.append(f"{one['slot']} {one['name']}: {one['state']}{why}")
        lines.append(f"  {one['summary'] or 'says nothing of itself'}")
        lines.append(f"  factory {one['factory']}")
        if one["requires"]:
            lines.append(f"  needs {', '.join(one['requires'])}")
        lines += [_option_text(f"{one['slot']}.{one['name']}", option) for option in one["options"]]
    lines += [_option_text(f"plugin.{document['name']}", option) for option in document["options"]]
    return printable("\n".join(lines))


def _option_text(owner: str, option: OptionLine) -> str:
    words = [option["type"], "secret" if option["secret"] else repr(option["default"])]
    words += [f"one of {', '.join(option['choices'])}"] if option["choices"] else []
    words += [f"at least {option['minimum']:g}"] if option["minimum"] is not None else []
    words += [f"at most {option['maximum']:g}"] if option["maximum"] is not None else []
    words += [f"${option['variable']}"] if option["variable"] else []
    return f"  plugins.{owner}.{option['key']} ({', '.join(words)}): {option['meaning']}"
