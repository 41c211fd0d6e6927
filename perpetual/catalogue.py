"""Catalogue of plugins: every plugin with what it offers, as plain data that is cached. Floor 1.

An ordinary command reads the cache, and so imports neither pluggy nor importlib.metadata.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perpetual.slots import Option, Provider, thaw_option
from perpetual.slots.table import Slot, thaw_slot
from perpetual.toolkit.reserved import DISTRIBUTION, is_bundled, known_name

if TYPE_CHECKING:
    from perpetual.slots.kinds import EventKind, RecordKind

__all__ = ["UPGRADE", "Offer", "PluginInfo", "import_problem", "is_due", "thaw", "thawed"]

UPGRADE = f"pip install --upgrade {DISTRIBUTION}"
_PUBLIC = re.compile(r"perpetual(\.(api|loop|science|testing|toolkit)(\.\w+)*)?\Z")


@dataclass(frozen=True)
class Offer:
    """A provider with the plugin that offers it; `refused` says why it cannot be chosen, if so."""

    qualified_name: str  # distribution/provider
    plugin: str  # distribution/entry point
    provider: Provider
    refused: str | None = None

    @property
    def name(self) -> str:
        """Returns the name that means it in configurations: the bare one, unless that is a bundled part's."""
        return known_name(self.provider.slot, self.qualified_name)

    @property
    def is_bundled(self) -> bool:
        """Returns whether Perpetual itself brings it."""
        return is_bundled(self.qualified_name)


@dataclass(frozen=True)
class PluginInfo:
    """One plugin as found: `state` is `loaded`, `disabled` or `failed`."""

    name: str
    qualified_name: str
    version: str
    state: str
    reason: str | None
    offers: tuple[Offer, ...] = ()
    hooks: tuple[str, ...] = ()  # those that are called beyond discovery
    slots: tuple[Slot, ...] = ()  # that it brings
    kinds: tuple[RecordKind, ...] = ()  # of records that it brings
    events: tuple[EventKind, ...] = ()  # kinds of events that it brings
    methodology: dict[str, Option] = field(default_factory=dict)  # keys of methodology.yaml that it brings
    options: dict[str, Option] | None = None  # of the plugin itself
    retry_at: float | None = None  # seconds since 1970, when one that failed is tried again
    deprecations: tuple[str, ...] = ()  # what it uses that another name has replaced


def thaw(data: Mapping[str, Any]) -> PluginInfo:
    """Returns the plugin that the catalogue holds as this JSON."""
    offers = []
    for offer in data["offers"]:
        provider = dict(offer["provider"])
        if provider["options"] is not None:
            provider["options"] = {key: thaw_option(option) for key, option in provider["options"].items()}
        provider["requires"] = tuple(provider["requires"])
        offers.append(Offer(**{**offer, "provider": Provider(**provider)}))
    kinds: tuple[RecordKind, ...] = ()
    events: tuple[EventKind, ...] = ()
    if data["kinds"] or data["events"]:
        from perpetual.slots.kinds import EventKind, thaw_kind

        kinds = tuple(thaw_kind(kind) for kind in data["kinds"])
        events = tuple(EventKind(**kind) for kind in data["events"])
    return PluginInfo(
        **{
            **data,
            "offers": tuple(offers),
            "hooks": tuple(data["hooks"]),
            "deprecations": tuple(data["deprecations"]),
            "slots": tuple(thaw_slot(slot) for slot in data["slots"]),
            "kinds": kinds,
            "events": events,
            "methodology": {key: thaw_option(option) for key, option in data["methodology"].items()},
            "options": data["options"] and {key: thaw_option(option) for key, option in data["options"].items()},
        }
    )


def thawed(kept: object) -> list[PluginInfo] | None:
    """Returns the plugins that were kept, None if nothing was, or something that is no list of plugins."""
    try:
        return [thaw(item) for item in kept] if isinstance(kept, list) else None
    except (KeyError, TypeError):
        return None


def is_due(plugins: Sequence[PluginInfo]) -> bool:
    """Returns whether a plugin that failed is to be tried again."""
    return any(info.retry_at is not None and info.retry_at <= time.time() for info in plugins)


def import_problem(problem: BaseException) -> str:
    """Returns why a module could not be imported.

    One that imports a public name that is not there needs a newer Perpetual.
    """
    reason = f"{type(problem).__name__}: {problem}"
    if isinstance(problem, ImportError) and _PUBLIC.match(problem.name or ""):
        from perpetual import __version__

        return f"it needs a newer Perpetual than {__version__}: {UPGRADE} ({reason})"
    return reason
