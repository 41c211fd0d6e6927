"""Inventory of a lab: its plugins with their providers, which of them are in force, and the machine's devices.

Used by `Lab` (`lab.inventory`) and by the faces that also answer outside a project, where the user's own
configuration and the defaults decide. Nothing is built here but the placement that `devices` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.catalogue import Offer, PluginInfo
from perpetual.errors import PluginError, UsageError
from perpetual.lab.config import LabConfig
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import settings_of, view_of
from perpetual.lab.options import PluginOptions, check_declared, defaults_of, leaves_of
from perpetual.registry import Registry
from perpetual.slots import API, Option
from perpetual.slots.gpu import GpuBackend
from perpetual.slots.placement import GpuStatus, Placement, PlacementView
from perpetual.slots.table import Slot

if TYPE_CHECKING:
    from perpetual.documents.plugins import (
        Offered,
        OptionLine,
        Plugin,
        PluginHead,
        PluginLine,
        Problem,
        ProviderInFull,
        ProviderLine,
        Timing,
    )

__all__ = ["Inventory"]

_NAMES = "the names are those of plugins.disabled in config.yaml, --without and PERPETUAL_WITHOUT"


class Inventory:
    """Reads the registry and the configuration; `ctx` is None outside a project."""

    def __init__(self, config: LabConfig, registry: Registry, ctx: Context | None = None) -> None:
        self._config, self._registry, self._ctx = config, registry, ctx
        self._options = PluginOptions(config, registry)

    @classmethod
    def outside(cls, folder: Path, *, safe: bool = False) -> Inventory:
        """Returns what a new project in `folder` would be made of."""
        config = LabConfig(folder)
        return cls(config, Registry.of(config, safe=safe))

    # --- plugins --------------------------------------------------------------------------------------------

    def plugins(self) -> list[PluginLine]:
        """Returns every plugin found, bundled ones first.

        Returns:
            `{name, qualified_name, slots, version, api, state, reason, deprecations, providers}` each; `state` is
            active (one of its providers is in force, or it observes events), available, disabled or failed; `api` is
            the plugin interface that it was written for, None if it is not loaded; `deprecations` say what it uses
            that another name has replaced; `providers` are `{slot, name, qualified_name, state, reason}`.
        """
        chosen = {key for key, problem in self._choices().items() if not isinstance(problem, PluginError)}
        return [self._plugin(info, chosen) for info in self._registry.plugins]

    def problems(self) -> list[Problem]:
        """Returns what the configuration asks for and no plugin can give, as `{slot, name, message, hint}`."""
        found: list[Problem] = [
            {"slot": slot, "name": name, "message": problem.message, "hint": problem.hint}
            for (slot, name), problem in self._choices().items()
            if isinstance(problem, PluginError)
        ]
        for name in self._config.methodology["required_gates"]:
            if not self._registry.serves("gate", name):
                message = f"gate: {name!r} is required and is not active; no note can be written"
                hint = "perpetual methodology set required_gates NAME,... says which gates are needed"
                found.append({"slot": "gate", "name": name, "message": message, "hint": hint})
        for name, message in self._registry.unmatched.items():
            found.append({"slot": "plugin", "name": name, "message": message, "hint": _NAMES})
        return found

    def plugin(self, name: str) -> Plugin:
        """Returns one plugin in full: with its hooks, and with summary, factory and options of each provider.

        Raises:
            NotFound: naming the nearest plugins.
        """
        (info,) = self.found(name)
        chosen = {key for key, problem in self._choices().items() if not isinstance(problem, PluginError)}
        providers: list[ProviderInFull] = [
            {
                **self._provider(offer, chosen),
                "summary": offer.provider.summary,
                "factory": offer.provider.factory,
                "requires": list(offer.provider.requires),
                "options": _option_lines(offer.provider.options),
            }
            for offer in info.offers
        ]
        head = self._head(info, providers)
        return {**head, "providers": providers, "hooks": list(info.hooks), "options": _option_lines(info.options)}

    def _choices(self) -> dict[tuple[str, str], PluginError | str]:
        """Returns (slot, provider's qualified name) of each choice in force, with its error where the choice fails."""
        slots = self._registry.slots.values()
        wanted = [(slot.name, self._config.chosen(slot)) for slot in slots if not slot.is_additive]
        found: dict[tuple[str, str], PluginError | str] = {}
        for slot, name in wanted:
            try:
                found[slot, self._registry.choose(slot, name).qualified_name] = name
            except PluginError as problem:
                found[slot, name] = problem
        return found

    def _plugin(self, info: PluginInfo, chosen: set[tuple[str, str]]) -> PluginLine:
        providers = [self._provider(offer, chosen) for offer in info.offers]
        return {**self._head(info, providers), "providers": providers}

    def _head(self, info: PluginInfo, providers: Sequence[ProviderLine]) -> PluginHead:
        state, reason = info.state, info.reason
        failed = self._ctx.failures.of(info) if self._ctx is not None and state == "loaded" else []
        if failed:
            state, reason = "failed", "; ".join(one.words for one in failed)
        elif state == "loaded":
            serves = bool(info.hooks) or any(provider["state"] == "active" for provider in providers)
            state = "active" if serves else "available"
        return {
            "name": info.name,
            "qualified_name": info.qualified_name,
            "slots": sorted({offer.provider.slot for offer in info.offers}),
            "version": info.version,
            "api": max((offer.provider.api for offer in info.offers), default=API) if info.state == "loaded" else None,
            "state": state,
            "reason": reason,
            "deprecations": list(info.deprecations),
        }

    def _provider(self, offer: Offer, chosen: set[tuple[str, str]]) -> ProviderLine:
        slot = offer.provider.slot
        reason = self._registry.why_not(offer)
        note = (
            None
            if offer.name == offer.provider.name
            else f"{offer.provider.name} is Perpetual's own: write {offer.name}"
        )
        serves = self._registry.slot(slot).is_additive or (slot, offer.qualified_name) in chosen
        return {
            "slot": slot,
            "name": offer.provider.name,
            "qualified_name": offer.qualified_name,
            "state": "failed" if reason else "active" if serves else "available",
            "reason": reason or note,
        }

    def offered(self, slot: str) -> list[Offered]:
        """Returns what can serve in a slot, as `{name, qualified_name, factory, options}`.

        The options are those in force.
        """
        return [
            {
                "name": offer.provider.name,
                "qualified_name": offer.qualified_name,
                "factory": offer.provider.factory,
                "options": self._options.of(offer),
            }
            for offer in self._registry.serving(slot)
        ]

    def timing(self) -> dict[str, Timing]:
        """Returns what each plugin costs at discovery, measured now: `{import_ms, hooks_ms}`, by qualified name."""
        return {
            name: {"import_ms": round(1000 * spent["import"], 1), "hooks_ms": round(1000 * spent["hooks"], 1)}
            for name, spent in self._registry.timing().items()
        }

    def retry(self, name: str) -> Plugin:
        """Forgets that a plugin has failed, looks at it anew and returns it as `plugin` does.

        Raises:
            NotFound: naming the nearest plugins.
        """
        info = self._registry.retry(name)
        if self._ctx is not None:
            self._ctx.failures.forget(info.qualified_name)
        return self.plugin(info.qualified_name)

    # --- for tools that look at plugins themselves --------------------------------------------------------------

    def slots(self) -> dict[str, Slot]:
        """Returns every slot by its name: Perpetual's own, then those that plugins bring."""
        return self._registry.slots

    def found(self, name: str | None = None) -> list[PluginInfo]:
        """Returns every plugin as it was found, with what it offers, bundled ones first; or the one of that name.

        Raises:
            NotFound: naming the nearest plugins.
            UsageError: if two distributions have a plugin of that name.
        """
        return [*self._registry.plugins] if name is None else [self._registry.named(name)]

    def choose(self, slot: str, name: str | None = None) -> Offer:
        """Returns the offer called `name`, bare or qualified; by default the one in force.

        Raises:
            PluginError: if there is none that can serve.
            UsageError: if there is no such slot, or every provider of it serves and none is named.
        """
        known = self._registry.slot(slot)
        if name is None and known.is_additive:
            raise UsageError(f"every {known.noun} serves: name one", hint="perpetual plugins list")
        return self._registry.choose(slot, name or self._config.chosen(known))

    def why_not(self, offer: Offer) -> str | None:
        """Returns why an offer cannot serve, None if it can."""
        return self._registry.why_not(offer)

    def load(self, offer: Offer) -> object:
        """Imports what the offer's factory names.

        Raises:
            PluginError: naming the plugin, if it cannot be imported.
        """
        return self._registry.load(offer)

    def options(self, offer: Offer) -> dict[str, object]:
        """Returns the offer's options in force, defaults included."""
        return self._options.of(offer)

    def default_options(self, offer: Offer) -> dict[str, object]:
        """Returns the offer's options that no file sets."""
        return defaults_of(offer.provider.options or {})

    def check_options(self, offer: Offer) -> None:
        """Checks the options that an offer declares.

        Raises:
            ConfigError: for an option of an unknown type, without a meaning, or whose default does not fit its type.
        """
        check_declared(offer.provider.options or {})

    # --- devices ----------------------------------------------------------------------------------------------

    def devices(self) -> GpuStatus:
        """Returns the machine's GPUs as the placement in force sees them: the document of `perpetual gpu-status`.

        `state` of a device or of an instance is free, leased, used, excluded or sick, of a device that is cut the word
        for that, and `note` says why no run, or no further one, gets it; `claims` are the leases of other projects'
        runs. `owner` of a process is run, ended, foreign or unknown; one of another project's run is foreign, and
        `claim` names it.

        Raises:
            PluginError: if no placement can be built.
        """
        if self._ctx is not None:
            chosen: Placement = self._ctx.part("placement")
            return chosen.status(view_of(self._ctx))
        chosen = self._build("placement")
        return chosen.status(PlacementView(backend=self._backend, settings=settings_of(self._config)))

    def _backend(self) -> GpuBackend:
        backend: GpuBackend = self._build("gpus")
        return backend

    def _build(self, slot: str) -> Any:
        """Returns what a new project here would have in a slot."""
        offer = self._registry.choose(slot, self._config[slot])
        return self._registry.build(offer, self._options.of(offer))


def _option_lines(spec: dict[str, Option] | None) -> list[OptionLine]:
    """Returns a provider's or plugin's options as `plugins show` lists them, nested ones by dotted keys."""
    return [
        {
            "key": ".".join(keys),
            "type": option.type,
            "default": option.default,
            "meaning": option.meaning,
            "choices": list(option.choices),
            "minimum": option.minimum,
            "maximum": option.maximum,
            "nullable": option.nullable,
            "secret": option.secret,
            "variable": option.variable,
        }
        for keys, option in leaves_of(spec or {})
    ]
