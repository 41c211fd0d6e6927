"""Installing and removing plugins: what a person names, what becomes of it, and what of a project would miss it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import Inventory, NotFound, PerpetualError, PluginInfo, UsageError, unknown
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.reserved import DISTRIBUTION
from perpetual_devkit import installer as environment
from perpetual_devkit.authoring import PREFIX
from perpetual_devkit.installer import Distribution, Package, canonical

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.plugins import PluginLine

__all__ = ["Affected", "Installed", "Removal", "Wanted", "affected", "install", "named_distribution", "wanted"]

_NAME = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(\[[^\]]*\])?\s*((?:[<>=!~]=?|===)[^;@]*)?\Z")
_ARCHIVES = (".whl", ".tar.gz", ".zip")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing to install: `text` as the installer takes it; `name` is its distribution's canonical name, if known."""

    text: str
    name: str | None
    editable: bool = False


@dataclass(frozen=True, slots=True)
class Installed:
    """What an install did; with `dry_run` what it would do. `plugins` are as `Inventory.plugins` answers them."""

    installer: str
    requirements: tuple[str, ...]
    packages: tuple[Package, ...]
    plugins: tuple[PluginLine, ...]
    notes: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Returns whether every plugin could be loaded."""
        return all(item["state"] != "failed" for item in self.plugins)


@dataclass(frozen=True, slots=True)
class Affected:
    """What a removal stops in a project; `what` is provider, gate, records, service, run or project."""

    what: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class Removal:
    """A distribution to remove, its plugins, and what of the project here would miss it."""

    distribution: str
    version: str
    plugins: tuple[str, ...]
    affected: tuple[Affected, ...]


# --- install -----------------------------------------------------------------------------------------------


def wanted(
    texts: Sequence[str], editable: Sequence[str], *, exact: bool = False, bundled: Collection[str] = ()
) -> list[Wanted]:
    """Returns what a person names by name, path or address.

    A name `x` means `perpetual-plugin-x`; one with a separator, or that begins with a dot, is a path.

    Args:
        editable: folders that are installed to be worked on.
        exact: takes names as they are.
        bundled: plugins that Perpetual brings.

    Raises:
        UsageError: for what is none of these, and for a bundled plugin.
        NotFound: for a path that does not exist.
    """
    if not all(map(str.strip, editable)):
        raise UsageError("an empty text is no name, no path and no address", hint="-e PATH, a folder of a distribution")
    found = [_from_path(text, is_editable=True) for text in editable]
    found += [_wanted(text, exact=exact, bundled=bundled) for text in texts]
    if not found:
        raise UsageError("nothing is named", hint="perpetual plugins install NAME, or a path; perpetual plugins search")
    return found


def _wanted(text: str, *, exact: bool, bundled: Collection[str]) -> Wanted:
    if text.startswith("-"):
        raise UsageError(
            f"{text!r} is no name, no path and no address", hint="options of the installer are not passed on"
        )
    if "://" in text or " @ " in text:
        name = canonical(text.partition(" @ ")[0].strip()) if " @ " in text else None
        return Wanted(text, name)
    if "/" in text or text.startswith((".", "~")) or (text.endswith(_ARCHIVES) and Path(text).is_file()):
        return _from_path(text)
    match = _NAME.match(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no name, no path and no address", hint="as in my-store, my-store==1.2 or ./folder"
        )
    name = canonical(match[1])
    if name == DISTRIBUTION:
        raise UsageError(f"{DISTRIBUTION} is Perpetual itself", hint=f"pip install --upgrade {DISTRIBUTION}")
    if not exact and not name.startswith(PREFIX):
        if name in bundled:
            raise UsageError(
                f"the plugin {name} comes with Perpetual", hint=f"{PREFIX}{name} names a distribution of that name"
            )
        name, text = PREFIX + name, PREFIX + text
    return Wanted(text, name)


def _from_path(text: str, *, is_editable: bool = False) -> Wanted:
    path = named_path(text)
    if path.is_dir():
        if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
            raise UsageError(f"{path} is no distribution: it has no pyproject.toml")
        return Wanted(str(path), _name_in(path / "pyproject.toml"), is_editable)
    if not path.is_file():
        raise NotFound(f"{path} does not exist")
    if is_editable:
        raise UsageError(f"{path} is no folder", hint="--editable takes the folder of a distribution")
    return Wanted(str(path), canonical(path.name.partition("-")[0]) if path.suffix == ".whl" else None)


def _name_in(project: Path) -> str | None:
    """Returns the distribution's name as its pyproject.toml says it."""
    try:
        name = tomllib.loads(project.read_text("utf-8"))["project"]["name"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return canonical(name) if isinstance(name, str) else None


def install(asked: Sequence[Wanted], *, project: str | None = None, dry_run: bool = False) -> Installed:
    """Installs distributions into this environment, and loads their plugins in a fresh process.

    Args:
        project: the project whose choices say which plugins are active; by default the one here.
        dry_run: installs and loads nothing.

    Raises:
        PerpetualError: if the environment cannot be changed, the installer fails, or a distribution has no plugin.
    """
    tool = environment.find_installer()
    if not dry_run:
        environment.check_environment()
    before = {} if dry_run else environment.installed()
    names = [one.text for one in asked if not one.editable]
    folders = [one.text for one in asked if one.editable]
    packages = tuple(tool.install(names, folders, dry_run=dry_run))
    requirements = tuple(one.text for one in asked)
    if dry_run:
        return Installed(tool.name, requirements, packages, (), ())
    after = environment.installed()
    touched = {one.name for one in asked if one.name is not None}
    touched |= {name for name, one in after.items() if one.plugins and before.get(name) != one}
    _check_plugins(touched, after)
    items = environment.listed_afresh(project)
    plugins = tuple(item for item in items if canonical(str(item["qualified_name"]).partition("/")[0]) in touched)
    return Installed(tool.name, requirements, packages, plugins, tuple(environment.keeping_notes(sorted(touched))))


def _check_plugins(names: Collection[str], after: dict[str, Distribution]) -> None:
    without = sorted(name for name in names if name not in after or not after[name].plugins)
    if without:
        raise PerpetualError(
            f"{', '.join(without)} is installed and brings no plugin",
            hint="it has no entry point of the group perpetual.plugins; pip uninstall removes it",
            code="no_plugin",
        )


# --- remove ------------------------------------------------------------------------------------------------


def named_distribution(name: str, inventory: Inventory) -> tuple[Distribution, list[PluginInfo]]:
    """Returns the distribution that a plugin's or distribution's name means, and its plugins.

    Raises:
        UsageError: (plugin_bundled) for a plugin that comes with Perpetual.
        NotFound: naming the nearest plugins.
    """
    infos = inventory.found()
    by_distribution = {canonical(info.qualified_name.partition("/")[0]) for info in infos}
    forms = [canonical(name), canonical(PREFIX + name)]
    found = next((form for form in forms if form in by_distribution), None)
    if found is None:
        names = [info.name for info in infos] + [info.qualified_name for info in infos]
        if name not in names:
            raise NotFound(unknown("plugin", name, [info.name for info in infos]), hint="perpetual plugins list")
        found = canonical(inventory.found(name)[0].qualified_name.partition("/")[0])
    if found == DISTRIBUTION:
        bare = name.rpartition("/")[2]
        raise UsageError(
            f"{bare} comes with Perpetual and cannot be removed",
            hint=f"perpetual config set plugins.disabled {bare}",
            code="plugin_bundled",
        )
    known = environment.installed()
    if found not in known:
        raise NotFound(f"no distribution {found} is installed in this environment", hint="perpetual plugins list")
    own = [info for info in infos if canonical(info.qualified_name.partition("/")[0]) == found]
    return known[found], own


def affected(plugins: Sequence[PluginInfo], inventory: Inventory, lab: Lab | None) -> list[Affected]:
    """Returns what stops when these plugins are gone: of the project of `lab`, or else of a new one here."""
    found = [*_chosen(plugins, inventory)]
    return found if lab is None else [*found, *_of_project(plugins, lab)]


def _chosen(plugins: Sequence[PluginInfo], inventory: Inventory) -> Iterator[Affected]:
    names = {info.qualified_name for info in plugins}
    slots = inventory.slots()
    for item in inventory.plugins():
        for one in item["providers"] if item["qualified_name"] in names else ():
            slot = slots.get(one["slot"])
            if one["state"] == "active" and slot is not None and not slot.is_additive:
                yield Affected("provider", f"{one['slot']} {one['name']}", "is in force")


def _of_project(plugins: Sequence[PluginInfo], lab: Lab) -> Iterator[Affected]:
    offers = [offer for info in plugins for offer in info.offers]
    gates = {name for offer in offers if offer.provider.slot == "gate" for name in (offer.name, offer.qualified_name)}
    for name in lab.config.methodology["required_gates"]:
        if name in gates:
            yield Affected("gate", name, "is required: no note can be written without it")
    counts = {item["name"]: item["count"] for item in lab.records.kinds()}
    for info in plugins:
        for kind in info.kinds:
            count = counts.get(f"{info.name}.{kind.name}", 0)
            if count:
                yield Affected("records", f"{info.name}.{kind.name}", f"{count} stay readable, none can be written")
    services = {offer.name for offer in offers if offer.provider.slot == "service"}
    for item in lab.services.list() if services else ():
        if item["name"] in services and item["state"] in ("starting", "running"):
            yield Affected("service", item["name"], f"runs (process {item['pid']})")
    schedulers = {
        name for offer in offers if offer.provider.slot == "scheduler" for name in (offer.name, offer.qualified_name)
    }
    for run in lab.runs.live() if schedulers else ():
        if run.scheduler in schedulers:
            yield Affected("run", run.id, "is live under its scheduler")
