"""Documents of the commands for plugin authors and for installing plugins."""

from __future__ import annotations

from typing import Literal, NotRequired

from perpetual.documents import TypedDict
from perpetual.documents.plugins import PluginLine

__all__ = [
    "Affected",
    "Chaos",
    "ContractCheck",
    "Left",
    "Package",
    "PluginFound",
    "PluginNew",
    "PluginsCheck",
    "PluginsInstall",
    "PluginsRemove",
    "PluginsSearch",
    "PromiseChecked",
    "PromiseKept",
    "ProviderChecked",
    "Uninstall",
]


class Chaos(TypedDict):
    """What was done and what came of it; `killed_in` counts the kills by what the writer was doing.

    `present` are those of the acknowledged transactions that are there, `transactions` all that are there: one whose
    writer died before it could answer may be there too. `kept` is the scratch folder if something is wrong.
    """

    store: str
    provider: str
    version: str
    python: str
    platform: str
    file_system: str | None
    seed: int
    kills: int
    writers: int
    killed_in: dict[str, int]
    acknowledged: int
    present: int
    transactions: int
    problems: list[str]
    duration_s: float
    kept: str | None
    ok: bool


class PromiseKept(TypedDict):
    """A promise of the daemon, whether it was kept, and what shows that it was not."""

    promise: str
    holds: str
    ok: bool
    found: list[str]


class ContractCheck(TypedDict):
    """One thing that a provider must be; `ok` is null where its factory does not tell."""

    check: str
    ok: bool | None
    detail: str


class PromiseChecked(TypedDict):
    """One promise of a slot, as its contract suite found it.

    `verdict` is `untold` where the suite could not try it, `vacuous` where it found nothing to try it on; then `ok` is
    null.
    """

    promise: str
    ok: bool | None
    detail: str
    verdict: Literal["holds", "broken", "untold", "vacuous"]


class ProviderChecked(TypedDict):
    """How a provider compares with its slot; a plugin that did not load has no slot.

    `suite` is the contract suite; `suite_reason` says why there is none, why it did not run, or not to its end.
    """

    plugin: str
    slot: str | None
    name: str
    qualified_name: str
    ok: bool | None
    checks: list[ContractCheck]
    suite: str | None
    suite_reason: str | None
    promises: list[PromiseChecked]


class PluginNew(TypedDict):
    """A new plugin's distribution; `dry_run` is there if nothing was written."""

    name: str
    slot: str
    distribution: str
    package: str
    path: str
    files: list[str]
    dry_run: NotRequired[bool]


class PluginsCheck(TypedDict):
    """How the providers compare with their slots."""

    items: list[ProviderChecked]
    next_cursor: str | None
    ok: bool


class Package(TypedDict):
    """A distribution of a package index."""

    name: str
    version: str


class PluginsInstall(TypedDict):
    """What an install did; `dry_run` is there if nothing was installed. `installer` is pip or uv.

    `packages` were put in, Perpetual's own never; `plugins` are those of what was asked for, loaded in a fresh process.
    """

    installer: str
    requirements: list[str]
    packages: list[Package]
    plugins: list[PluginLine]
    notes: list[str]
    dry_run: NotRequired[bool]


class Affected(TypedDict):
    """What a removal stops in a project; `what` is provider, gate, records, service, run or project."""

    what: str
    name: str
    detail: str


class PluginsRemove(TypedDict):
    """A distribution that was removed, with its plugins; `dry_run` is there if it was not."""

    distribution: str
    version: str
    plugins: list[str]
    affected: list[Affected]
    removed: bool
    dry_run: NotRequired[bool]


class PluginFound(TypedDict):
    """A plugin of the package index; `installed` is its version here."""

    name: str
    distribution: str
    installed: str | None


class PluginsSearch(TypedDict):
    """The plugins that a package index lists; `asked_at` is when it was asked."""

    items: list[PluginFound]
    next_cursor: str | None
    index: str
    asked_at: str


class Left(TypedDict):
    """One thing and what becomes of it: `action` is removed, merged, kept, gone or conflict."""

    path: str
    action: str
    reason: str | None


class Uninstall(TypedDict):
    """What `uninstall` took out; `command` removes the package. `dry_run` is there if nothing was removed."""

    items: list[Left]
    command: str
    dry_run: NotRequired[bool]
