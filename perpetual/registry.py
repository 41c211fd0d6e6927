"""The plugins of one project: chosen, built, and called one by one, guarded. Floor 1.

What there is was found by `perpetual.discovery` and is cached, so an ordinary command imports neither pluggy nor
importlib.metadata. A `Registry` belongs to its maker; there is no global one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from perpetual.catalogue import Offer, PluginInfo, import_problem, is_due, thaw, thawed
from perpetual.errors import NotFound, PerpetualError, PluginError, UnknownPlugin, UsageError, masked, unknown
from perpetual.slots import ADAPTERS, Option
from perpetual.slots.table import SLOTS, Slot
from perpetual.toolkit import caches, plugin_failures
from perpetual.toolkit.contained import contained
from perpetual.toolkit.hook_calls import Called, call
from perpetual.toolkit.reserved import DISTRIBUTION, RESERVED, is_bundled

if TYPE_CHECKING:
    from perpetual.config import Config
    from perpetual.discovery import Discovery
    from perpetual.slots.kinds import RecordKind
    from perpetual.toolkit.helper_process import HelperProcess
    from perpetual.toolkit.plugin_discovery import Found

__all__ = ["Registry"]

_DEEDS = "perpetual.plugin_worker:DEEDS"  # what a helper process does for the kernel


def _adapted(offer: Offer, part: object) -> object:
    """Returns the part, as the newest plugin interface calls it."""
    from importlib import import_module

    home = ADAPTERS.get((offer.provider.api, offer.provider.slot))
    if home is None:
        return part
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)(part)


class Registry:
    """The plugins of one project (or of none): what they offer, and which one is chosen.

    Args:
        disabled: names that are not loaded.
        safe: bundled plugins only.
        extra: see `discover`; a registry with extra plugins is never cached.
        discovery_s: seconds in which a plugin of another distribution is imported and asked.

    The environment variable `PERPETUAL_WITHOUT` names further plugins that are not loaded.
    """

    def __init__(
        self,
        disabled: Sequence[str] = (),
        *,
        safe: bool = False,
        extra: Sequence[tuple[str, str, str, Callable[[], object]]] = (),
        discovery_s: float = 5.0,
    ) -> None:
        self._disabled, self._safe, self._extra = tuple(disabled), safe, tuple(extra)
        self._discovery_s = discovery_s
        self._live: Discovery | None = None
        self._plugins: list[PluginInfo] | None = None

    @classmethod
    def of(cls, config: Config, *, safe: bool = False) -> Registry:
        """Returns the registry that a configuration asks for."""
        return cls(config.disabled, safe=safe, discovery_s=config["plugin_discovery_s"])

    @property
    def plugins(self) -> list[PluginInfo]:
        """Returns all that were found, bundled ones first."""
        if self._plugins is None:
            key = caches.plugins_key(self._disabled, safe=self._safe)
            cached = None if self._extra or os.environ.get("PERPETUAL_TRACE_HOOKS") else caches.load("plugins", key)
            self._plugins = thawed(cached)
            if self._plugins is None or is_due(self._plugins):
                self._plugins, files = self._found()
                if not self._extra:
                    # A plugin that is installed to be worked on changes without any folder of the path changing.
                    caches.save("plugins", key, [asdict(info) for info in self._plugins], files)
        return self._plugins

    @property
    def unmatched(self) -> dict[str, str]:
        """Returns each name that is to be left out and that no plugin has, with the nearest ones in a sentence."""
        bare = [info.name for info in self.plugins]
        known = {*bare, *(info.qualified_name for info in self.plugins)}
        names = dict.fromkeys((*self._disabled, *caches.left_out()))
        return {name: f"nothing is left out: {unknown('plugin', name, bare)}" for name in names if name not in known}

    def _found(self) -> tuple[list[PluginInfo], list[str]]:
        """Returns the plugins, and the files from which they were found; those of others by a helper process."""
        found = None if self._extra or self._safe else self._found_apart()
        if found is None:
            live = self._discovery()
            later = time.time() + plugin_failures.RETRY_S
            return [
                replace(info, retry_at=later) if info.state == "failed" else info for info in live.plugins
            ], live.files
        plugins = [thaw(info) for info in found.plugins]
        failures = {info.qualified_name: info.reason or "" for info in plugins if info.state == "failed"}
        states = found.noted(failures)
        plugins = [
            replace(info, reason=states[info.qualified_name].words, retry_at=states[info.qualified_name].retry_at)
            if info.qualified_name in states
            else info
            for info in plugins
        ]
        return plugins, found.files

    def _found_apart(self, *, always: bool = False) -> Found | None:
        """Returns what a helper process finds; see `perpetual.toolkit.plugin_discovery.discovered`."""
        from perpetual.hookspecs import GROUP
        from perpetual.toolkit.plugin_discovery import discovered

        return discovered(GROUP, self.helper, self._disabled, self._discovery_s, safe=self._safe, always=always)

    @staticmethod
    def helper() -> HelperProcess:
        """Returns a helper process in which plugins of other distributions are called; its first question starts it."""
        from perpetual.toolkit.helper_process import HelperProcess

        return HelperProcess(_DEEDS)

    def timing(self) -> dict[str, dict[str, float]]:
        """Returns what each plugin costs at discovery, measured now: `{import, hooks}` in seconds, by plugin."""
        found = None if self._extra else self._found_apart(always=True)
        return self._discovery().spent if found is None else found.spent

    def retry(self, name: str) -> PluginInfo:
        """Forgets the failures of a plugin, bare or qualified, and looks at it anew.

        Raises:
            NotFound: if there is no such plugin.
        """
        from perpetual.toolkit.plugin_discovery import forget

        info = self.named(name)
        forget(info.qualified_name)
        self._live = self._plugins = None
        return self.named(info.qualified_name)

    def named(self, name: str) -> PluginInfo:
        """Returns the plugin of that name, bare or qualified; a bundled name means the bundled plugin.

        Raises:
            NotFound: naming the nearest plugins.
            UsageError: if two distributions have a plugin of that name.
        """
        hits = [info for info in self.plugins if info.qualified_name == name]
        hits = hits or [info for info in self.plugins if info.name == name]
        bundled = [info for info in hits if is_bundled(info.qualified_name)]
        hits = bundled if len(bundled) == 1 else hits
        if len(hits) > 1:
            names = " or ".join(info.qualified_name for info in hits)
            raise UsageError(f"{name!r} is two plugins", hint=f"write {names}", code="plugin_ambiguous")
        if not hits:
            known = [info.name for info in self.plugins]
            raise NotFound(unknown("plugin", name, known), hint="perpetual plugins list")
        return hits[0]

    def is_apart(self, plugin: str) -> bool:
        """Returns whether a plugin may be called in a helper process: it is installed, and not Perpetual's own."""
        return not is_bundled(plugin) and all(f"{one[0]}/{one[1]}" != plugin for one in self._extra)

    def _discovery(self) -> Discovery:
        if self._live is None:
            from perpetual.discovery import discover

            # What has failed in the catalogue is not imported again in this process.
            known = {info.qualified_name: info.reason or "" for info in self._plugins or () if info.state == "failed"}
            self._live = discover(
                self._disabled, safe=self._safe, extra=self._extra, skip=known, limit_s=self._discovery_s
            )
        return self._live

    @property
    def slots(self) -> dict[str, Slot]:
        """Returns every slot by its name: Perpetual's own, then those that plugins bring."""
        return {**SLOTS, **{slot.name: slot for info in self.plugins for slot in info.slots}}

    @property
    def kinds(self) -> dict[str, tuple[PluginInfo, RecordKind]]:
        """Returns the kinds of records that plugins bring, by full name (`PLUGIN.NAME`)."""
        return {f"{info.name}.{kind.name}": (info, kind) for info in self.plugins for kind in info.kinds}

    @property
    def events(self) -> dict[str, str]:
        """Returns what the kinds of events that plugins bring mean, by full name (`PLUGIN.NAME`)."""
        return {f"{info.name}.{kind.name}": kind.meaning for info in self.plugins for kind in info.events}

    @property
    def methodology(self) -> dict[str, Option]:
        """Returns the keys of methodology.yaml that plugins bring, by full name (`PLUGIN.KEY`)."""
        return {f"{info.name}.{key}": option for info in self.plugins for key, option in info.methodology.items()}

    def slot(self, name: str) -> Slot:
        """Returns the slot of that name.

        Raises:
            UsageError: naming the nearest ones.
        """
        found = SLOTS.get(name) or self.slots.get(name)
        if found is None:
            raise UsageError(unknown("slot", name, self.slots), hint="perpetual plugins list shows the slots")
        return found

    def offers(self, slot: str) -> list[Offer]:
        """Returns everything offered for a slot, refused offers included, by `order` and then by name."""
        found = [offer for info in self.plugins for offer in info.offers if offer.provider.slot == slot]
        return sorted(found, key=lambda offer: (offer.provider.order, offer.qualified_name))

    def serving(self, slot: str) -> list[Offer]:
        """Returns the offers of an additive slot that can serve."""
        return [offer for offer in self.offers(slot) if self.why_not(offer) is None]

    def why_not(self, offer: Offer) -> str | None:
        """Returns why an offer cannot serve, or None."""
        if offer.refused:
            return offer.refused
        active = {info.name for info in self.plugins if info.state == "loaded"}
        active |= {info.qualified_name for info in self.plugins if info.state == "loaded"}
        missing = [name for name in offer.provider.requires if name not in active]
        return f"needs the plugin {', '.join(missing)}" if missing else None

    def choose(self, slot: str, want: str) -> Offer:
        """Returns the offer called `want`, bare or qualified.

        Raises:
            PluginError: if there is none (naming what there is and what failed to load), if two distributions
                offer the bare name, or if the one that is meant cannot serve.
        """
        offers = self.offers(slot)
        hits = [offer for offer in offers if offer.qualified_name == want]
        hits = hits or [offer for offer in offers if offer.name == want]
        if len(hits) > 1:
            names = ", ".join(f"{offer.qualified_name} {self._version(offer)}" for offer in hits)
            raise UnknownPlugin(
                f"{slot}: {want!r} is offered by {names}",
                hint=f"write the full name, e.g. {slot}: {hits[0].qualified_name}",
                code="plugin_ambiguous",
            )
        if not hits:
            raise UnknownPlugin(
                f"{slot}: " + unknown("provider", want, [offer.name for offer in offers]),
                hint=self._failures() or f"pip install the plugin that offers it, or change {slot} in config.yaml",
            )
        why = self.why_not(hits[0])
        if why:
            raise PluginError(f"{slot}: {hits[0].qualified_name} cannot serve: {why}", code="plugin_refused",
                              hint="perpetual plugins list shows every plugin with its state")  # fmt: skip
        return hits[0]

    def qualified(self, slot: str, want: str) -> str:
        """Returns the qualified name that `want` means: Perpetual's own for a bundled name, whether that serves or not.

        Raises:
            PluginError: if there is none, or if two distributions offer the bare name.
        """
        if "/" in want:
            return want
        if want in RESERVED.get(slot, ()):
            return f"{DISTRIBUTION}/{want}"
        return self.choose(slot, want).qualified_name

    def serves(self, slot: str, want: str) -> bool:
        """Returns whether the provider that `want` means serves in an additive slot."""
        try:
            name = self.qualified(slot, want)
        except PluginError:
            return False
        return any(offer.qualified_name == name for offer in self.serving(slot))

    def _version(self, offer: Offer) -> str:
        return next(info.version for info in self.plugins if info.qualified_name == offer.plugin)

    def _failures(self) -> str | None:
        bad = [f"{info.qualified_name} ({info.reason})" for info in self.plugins if info.state != "loaded"]
        return "not loaded: " + "; ".join(bad) if bad else None

    def build(self, offer: Offer, options: Mapping[str, object], **extra: object) -> Any:
        """Imports the offer's factory and calls it.

        Raises:
            PluginError: naming the plugin, if its module cannot be imported, has no such name, or its factory fails.
        """
        factory = self.load(offer)
        try:
            with contained():
                return _adapted(offer, factory(options, **extra))
        except (PerpetualError, OSError):
            raise
        except Exception as problem:
            why = masked(f"{type(problem).__name__}: {problem}")
            raise PluginError(
                f"{offer.provider.slot}: {offer.qualified_name} cannot be built: {why}",
                hint="perpetual plugins list names its plugin; disable it, or mend what it needs",
                code="plugin_broken",
            ) from problem

    def load(self, offer: Offer) -> Any:
        """Returns the object that an offer's factory names, imported."""
        from importlib import import_module

        module, _, attribute = offer.provider.factory.partition(":")
        try:
            with contained():
                return getattr(import_module(module), attribute)
        except (PerpetualError, OSError):
            raise
        except Exception as problem:
            raise PluginError(
                f"{offer.provider.slot}: {offer.qualified_name} cannot be loaded: {import_problem(problem)}",
                hint="reinstall its distribution, or choose another provider",
                code="plugin_broken",
            ) from problem

    def implementers(self, hook: str) -> list[str]:
        """Returns the qualified names of the plugins that implement `hook`; cheap."""
        return [info.qualified_name for info in self.plugins if hook in info.hooks]

    def ask(self, plugin: str, hook: str, **arguments: object) -> Called:
        """Asks one of the `implementers` of `hook`, guarded."""
        live = self._discovery()
        found = live.manager.get_plugin(plugin)
        if found is None:
            return Called(plugin, error=next((one.reason for one in live.plugins if one.qualified_name == plugin), None)
                          or "it is not loaded")  # fmt: skip
        return call(live.manager, hook, found, plugin, arguments)

    def call(self, hook: str, **arguments: object) -> list[Called]:
        """Asks every plugin that implements `hook`, one by one, guarded; cheap if there is none."""
        return [self.ask(plugin, hook, **arguments) for plugin in self.implementers(hook)]
