"""Plugins as they are listed, made and checked."""

from __future__ import annotations

from typing import Any, NotRequired

from perpetual.documents import TypedDict


class ProviderLine(TypedDict):
    """What a plugin offers for a slot: `state` is active, available or failed."""

    slot: str
    name: str
    qualified_name: str
    state: str
    reason: str | None


class Offered(TypedDict):
    """What can serve in a slot, with its options in force."""

    name: str
    qualified_name: str
    factory: str
    options: dict[str, object]


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
