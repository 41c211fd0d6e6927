"""Plugins as they are listed, made and checked."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from perpetual_cli.documents.typed import TypedDict


class ProviderLine(TypedDict):
    """What a plugin offers for a slot: `state` is active, available or failed."""

    slot: str
    name: str
    qualified_name: str
    state: str
    reason: str | None


class OptionLine(TypedDict):
    """An option of a provider or a plugin; `key` has dots where it is inside a section."""

    key: str
    type: str
    default: Any
    meaning: str
    choices: list[str]
    minimum: float | None
    maximum: float | None
    nullable: bool
    secret: bool
    variable: str | None


class ProviderInFull(ProviderLine):
    """A provider with its factory and options."""

    summary: str
    factory: str
    requires: list[str]
    options: list[OptionLine]


class PluginHead(TypedDict):
    """What every plugin tells: `state` is active, available, disabled or failed.

    `api` is the plugin interface that it was written for, null if it is not loaded; `deprecations` say what it uses
    that another name has replaced.
    """

    name: str
    qualified_name: str
    slots: list[str]
    version: str
    api: int | None
    state: str
    reason: str | None
    deprecations: list[str]


class PluginLine(PluginHead):
    """A plugin: `state` is active, available, disabled or failed."""

    providers: list[ProviderLine]


class Problem(TypedDict):
    """What the configuration asks for and no plugin gives."""

    slot: str
    name: str
    message: str
    hint: str | None


class Timing(TypedDict):
    """What a plugin costs at discovery, in milliseconds."""

    import_ms: float
    hooks_ms: float


class PluginTimed(PluginLine):
    """A plugin in the list; `timing` is there if it was asked for, and null for a plugin that is not loaded."""

    timing: NotRequired[Timing | None]


class Plugins(TypedDict):
    """Every plugin found, and what the configuration misses."""

    items: list[PluginTimed]
    next_cursor: str | None
    problems: list[Problem]


class Plugin(PluginHead):
    """One plugin in full."""

    providers: list[ProviderInFull]
    hooks: list[str]
    options: list[OptionLine]


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
