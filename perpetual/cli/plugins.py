"""Commands on plugins: `plugins list|show|new|check`; `perpetual.cli.app` loads them. They need no project."""

from __future__ import annotations

from typing import Any

import click

from perpetual.cli.plugin_commands import OpenGroup
from perpetual.commands import CliContext, json_option, pass_cli, printable

__all__ = ["plugins"]


@click.group(cls=OpenGroup)
def plugins() -> None:
    """Which plugins there are, what they offer, and what is in force."""


@plugins.command(name="list")
@json_option
@pass_cli
def list_(cli: CliContext) -> None:
    """Every plugin with version, state (active, available, disabled or failed) and the reason."""
    inventory = cli.inventory()
    problems = inventory.problems()
    cli.items(
        "plugins",
        inventory.plugins(),
        None,
        ("plugin", "version", "state", "offers", "reason"),
        lambda item: (item["qualified_name"], item["version"], item["state"], _offers(item), item["reason"] or ""),
        empty="there are no plugins",
        extra={"problems": [{**item, "hint": cli.hint(item["hint"])} for item in problems]},
    )
    if not cli.as_json:
        click.echo("(in brackets: at hand, and not chosen; perpetual plugins show NAME says why)")
    for problem in problems:
        cli.progress(printable(f"problem: {problem['message']}\n  {cli.hint(problem['hint'])}"))


def _offers(item: dict[str, Any]) -> str:
    """The plugin's providers, those that are not in force in brackets."""
    by_slot: dict[str, list[str]] = {}
    for one in item["providers"]:
        by_slot.setdefault(one["slot"], []).append(one["name"] if one["state"] == "active" else f"({one['name']})")
    return "; ".join(f"{slot} {', '.join(names)}" for slot, names in by_slot.items())


@plugins.command()
@click.argument("name")
@json_option
@pass_cli
def show(cli: CliContext, name: str) -> None:
    """One plugin in full: its hooks, and each provider with factory and options."""
    document = cli.inventory().plugin(name)
    cli.answer("plugin", document, lambda: _plugin_text(document))


def _plugin_text(document: dict[str, Any]) -> str:
    lines = [f"{document['qualified_name']} {document['version']}: {document['state']}"]
    if document["reason"]:
        lines.append(f"  {document['reason']}")
    if document["hooks"]:
        lines.append(f"hooks: {', '.join(document['hooks'])}")
    for one in document["providers"]:
        why = f" ({one['reason']})" if one["reason"] else ""
        lines.append(f"{one['slot']} {one['name']}: {one['state']}{why}")
        lines.append(f"  {one['summary'] or 'says nothing of itself'}")
        lines.append(f"  factory {one['factory']}")
        if one["requires"]:
            lines.append(f"  needs {', '.join(one['requires'])}")
        lines += [
            f"  plugins.{one['name']}.{option['key']} ({option['type']}, {option['default']!r}): {option['meaning']}"
            for option in one["options"]
        ]
    return printable("\n".join(lines))


@plugins.command()
@click.argument("name")
@click.option("--slot", required=True, metavar="SLOT", help="What it fills: store, scorer, gate, command and so on.")
@click.option("-t", "--target", default=".", metavar="DIR", help="Where its folder goes; by default here.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@json_option
@pass_cli
def new(cli: CliContext, name: str, slot: str, target: str, dry_run: bool) -> None:
    """Write the distribution perpetual-plugin-NAME: a plugin with a part for SLOT, its tests, and what CI needs.

    Its tests pass as it is; then make the part your own.
    """
    from perpetual.authoring import new_plugin
    from perpetual.cli.table import COMMANDS

    document = new_plugin(name, slot, target, slots=cli.inventory().slots(), dry_run=dry_run, taken=COMMANDS)
    if dry_run:
        document["dry_run"] = True
    cli.answer("plugin_new", document, lambda: _new_text(document))


def _new_text(document: dict[str, Any]) -> str:
    is_dry = document.get("dry_run", False)
    lines = [f"{document['distribution']} in {document['path']}", *(f"  {path}" for path in document["files"])]
    lines.append(
        "nothing was written (--dry-run)" if is_dry else "next, in that folder: pip install -e '.[test]' && pytest"
    )
    return printable("\n".join(lines))


@plugins.command()
@click.argument("name", required=False)
@click.option(
    "--suites/--no-suites",
    default=None,
    help="Run the contract suites of the slots too, or not. By default they run if NAME is given.",
)
@json_option
@pass_cli
def check(cli: CliContext, name: str | None, suites: bool | None) -> int:
    """Load every provider of the plugin NAME (or of all) and compare it with its slot; exit 1 if one does not fit.

    Signature and return annotation of each factory are looked at. The contract suites build the provider with its
    default options and try every promise of its slot, in a process and a folder of their own; they need pytest.
    """
    items = cli.inventory().examine(name, suites=name is not None if suites is None else suites)
    good = all(item["ok"] is not False for item in items)
    cli.items(
        "plugins_check",
        items,
        None,
        ("provider", "slot", "holds", "what does not"),
        lambda item: (item["qualified_name"], item["slot"] or "-", _holds(item, True), _holds(item, False)),
        empty="there is nothing to check",
        extra={"ok": good},
    )
    if not cli.as_json:
        for item in items:
            if item["suite"] is not None:
                click.echo(_suite_text(item))
    return 0 if good else 1


def _holds(item: dict[str, Any], ok: bool) -> str:
    if ok:
        return ", ".join(one["check"] for one in item["checks"] if one["ok"] is True)
    return "; ".join(f"{one['check']}: {one['detail']}" for one in item["checks"] if one["ok"] is False)


def _suite_text(item: dict[str, Any]) -> str:
    """Each promise with what became of it."""
    words = {True: "holds", False: "BROKEN", None: "untold"}
    lines = [f"{item['slot']} {item['name']}, by {item['suite']}:"]
    for one in item["promises"]:
        why = f" ({one['detail']})" if one["detail"] else ""
        lines.append(f"  {words[one['ok']]:<6}  {one['promise']}{why}")
    if item["suite_reason"]:
        lines.append(f"  {item['suite_reason']}")
    return printable("\n".join(lines))
