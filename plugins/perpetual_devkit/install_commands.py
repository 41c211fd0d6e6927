"""Commands `plugins install`, `plugins remove` and `plugins search`: they change or read this Python environment."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from perpetual.api import (
    CliContext,
    NoProject,
    NotPermitted,
    PerpetualError,
    UsageError,
    json_option,
    pass_cli,
    printable,
    to_json,
)
from perpetual.toolkit.readers import FOR_A_PERSON

if TYPE_CHECKING:
    from perpetual_devkit.documents import PluginFound
    from perpetual_devkit.installing import Affected, Installed, Removal

__all__ = ["install", "refuse_agents", "remove", "search"]


def refuse_agents(cli: CliContext, deed: str) -> None:
    """Raises NotPermitted under an agent's shell, whatever a project's methodology lets agents do."""
    if cli.withholds or cli.for_agent:
        raise NotPermitted(f"{deed} is for a person", hint=FOR_A_PERSON)


@click.command()
@click.argument("names", nargs=-1, metavar="NAME|PATH...")
@click.option("-e", "--editable", multiple=True, metavar="PATH", help="Install the folder PATH to be worked on.")
@click.option("--exact", is_flag=True, help="Take each NAME as it is: by default x means perpetual-plugin-x.")
@click.option("--dry-run", is_flag=True, help="Say what would be installed, and install nothing.")
@json_option
@pass_cli
def install(cli: CliContext, names: tuple[str, ...], editable: tuple[str, ...], exact: bool, dry_run: bool) -> int:
    """Install plugins into this Python environment with pip or uv, and load them; exit 1 if one does not load.

    NAME is short for the distribution perpetual-plugin-NAME; a PATH holds a separator or begins with a dot. The version
    of Perpetual itself is never changed. A plugin is code that runs in the lab: an agent may not install one.
    """
    from perpetual_devkit.installing import install as put_in
    from perpetual_devkit.installing import wanted

    refuse_agents(cli, "installing a plugin")
    bundled = _bundled_names()
    asked = wanted(names, editable, exact=exact, bundled=bundled)
    done = put_in(asked, project=cli.project, dry_run=dry_run)
    document = {**to_json(done), **({"dry_run": True} if dry_run else {})}
    cli.answer("plugins_install", document, lambda: _install_text(done, dry_run=dry_run))
    return 0 if done.is_good else 1


def _bundled_names() -> frozenset[str]:
    from importlib.metadata import entry_points

    points = entry_points(group="perpetual.plugins")
    return frozenset(point.name for point in points if point.dist is not None and point.dist.name == "perpetual-lab")


def _install_text(done: Installed, *, dry_run: bool) -> str:
    lines = [f"{'would install' if dry_run else 'installed'} {one.name} {one.version}" for one in done.packages]
    lines = lines or ["everything that was asked for is installed already"]
    for item in done.plugins:
        lines.append(f"{item['qualified_name']} {item['version']}: {item['state']}")
        lines += [f"  {item['reason']}"] if item["reason"] else []
        lines += [f"  perpetual plugins show {item['name']}"] if item["state"] == "available" else []
    if not done.is_good:
        lines.append("next: perpetual plugins remove NAME takes one out again")
    if dry_run:
        lines.append("nothing was installed (--dry-run)")
    return printable("\n".join([*lines, *(f"note: {note}" for note in done.notes)]))


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Remove it without asking.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed and what misses it, and remove nothing.")
@json_option
@pass_cli
def remove(cli: CliContext, name: str, yes: bool, dry_run: bool) -> int:
    """Remove the distribution of the plugin NAME from this Python environment; what it wrote stays readable.

    First it says what of the project here would stop working, and asks at a terminal.
    """
    from perpetual_devkit.installer import check_environment, find_installer
    from perpetual_devkit.installing import Affected, Removal, affected, named_distribution

    refuse_agents(cli, "removing a plugin")
    inventory = cli.inventory()
    found, plugins = named_distribution(name, inventory)
    try:
        missed = affected(plugins, inventory, cli.lab)
    except NoProject:
        missed = affected(plugins, inventory, None)
    except PerpetualError as problem:  # the very plugin may be why: its removal is the way out
        missed = [
            *affected(plugins, inventory, None),
            Affected("project", "here", f"cannot be read: {problem.message}"),
        ]
    about = Removal(found.name, found.version, tuple(info.qualified_name for info in plugins), tuple(missed))
    if not dry_run:
        tool = find_installer()
        check_environment()
        if not yes and not _agreed(cli, about):
            cli.progress("nothing was removed")
            return 1
        cli.close()  # the plugin's own files may be the store's
        tool.remove(found.name)
    document = {**to_json(about), "removed": not dry_run, **({"dry_run": True} if dry_run else {})}
    cli.answer("plugins_remove", document, lambda: _remove_text(about, dry_run=dry_run))
    return 0


def _agreed(cli: CliContext, about: Removal) -> bool:
    if cli.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"removing {about.distribution} needs a person at a terminal, or --yes",
            hint=f"perpetual plugins remove {about.distribution} --dry-run says what misses it",
        )
    for line in [*map(_missed, about.affected)] or ["nothing of this project misses it"]:
        click.echo(printable(line), err=True)
    return click.confirm(f"Remove {about.distribution} {about.version}?", default=False, err=True)


def _missed(one: Affected) -> str:
    return f"{one.what} {one.name} {one.detail}"


def _remove_text(about: Removal, *, dry_run: bool) -> str:
    lines = [f"{'would remove' if dry_run else 'removed'} {about.distribution} {about.version}"]
    lines += [f"  {_missed(one)}" for one in about.affected]
    lines += ["nothing was removed (--dry-run)"] if dry_run else []
    return printable("\n".join(lines))


@click.command()
@click.argument("text", required=False, default="")
@click.option("--refresh", is_flag=True, help="Ask the index again; by default its names are kept for a day.")
@json_option
@pass_cli
def search(cli: CliContext, text: str, refresh: bool) -> None:
    """List the plugins of the package index, named perpetual-plugin-*, whose names hold TEXT; exit 3 if offline.

    The index is the one that pip or uv of this environment installs from. Reading its listing may take a minute.
    """
    from perpetual_devkit.authoring import PREFIX
    from perpetual_devkit.installer import canonical, find_installer, index_url, installed
    from perpetual_devkit.plugin_index import listed

    part = canonical(text.strip())
    if text and not any(char.isalnum() for char in part):
        raise UsageError(f"{text!r} is no part of a name", hint="perpetual plugins search lists every plugin")
    found = listed(index_url(find_installer(), os.environ), refresh=refresh)
    here = installed()
    names = [name for name in found.names if part in name.removeprefix(PREFIX)]
    items: list[PluginFound] = [
        {
            "name": name.removeprefix(PREFIX),
            "distribution": name,
            "installed": here[name].version if name in here else None,
        }
        for name in names
    ]
    at = datetime.fromtimestamp(found.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    cli.items(
        "plugins_search",
        items,
        None,
        ("plugin", "distribution", "installed"),
        lambda item: (item["name"], item["distribution"], item["installed"] or "-"),
        empty=f"no plugin of that name at {found.index}" if part else f"no plugin at {found.index}",
        extra={"index": found.index, "asked_at": at},
    )
    if not cli.as_json and items:
        click.echo("next: perpetual plugins install NAME (anyone may publish under such a name: check the author)")
