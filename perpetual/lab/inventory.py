"""What a lab is made of: its plugins with their providers, which of them are in force, and the machine's devices.

Used by `Lab` (`lab.inventory`) and by the faces that also answer outside a project, where the user's own
configuration and the defaults decide. Nothing is built here but the GPU backend that `devices` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.config import Config
from perpetual.errors import ConfigError, NotFound, PerpetualError, PluginError, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.gpus.owners import Owner, owners_of, processes_of
from perpetual.lab.gpus.units import Rules, Unit, holds_of, units_of
from perpetual.registry import Offer, PluginInfo, Registry
from perpetual.schema import Key, check
from perpetual.slots import SLOTS
from perpetual.slots.gpu import Gpu, GpuBackend, GpuProcess, Reading
from perpetual.slots.store import Document

if TYPE_CHECKING:
    from perpetual.chaos import Certificate

__all__ = ["Inventory"]

# slot -> module:class of what its factory answers; the slots that are missing here are answered by plain callables
_BASES = {
    "store": "perpetual.slots.store:StoreBase",
    "scheduler": "perpetual.slots.scheduler:Scheduler",
    "gpus": "perpetual.slots.gpu:GpuBackend",
    "memory": "perpetual.slots.memory:Memory",
    "mcp": "perpetual.slots.mcp:McpServer",
    "scorer": "perpetual.slots.scorer:Scorer",
    "gate": "perpetual.slots.gate:Gate",
    "harness": "perpetual.slots.harness:Harness",
    "metric_reader": "perpetual.slots.analyser:MetricReader",
    "analyser": "perpetual.slots.analyser:Analyser",
    "proposer": "perpetual.slots.analyser:Proposer",
}
_WITH_PATH = ("store", "memory")


class Inventory:
    """Reads the registry and the configuration; `ctx` is None outside a project."""

    def __init__(self, config: Config, registry: Registry, ctx: Context | None = None) -> None:
        self._config, self._registry, self._ctx = config, registry, ctx

    @classmethod
    def outside(cls, folder: Path, *, safe: bool = False) -> Inventory:
        """What a new project in `folder` would be made of."""
        config = Config(folder)
        return cls(config, Registry(config.disabled, safe=safe))

    # --- plugins --------------------------------------------------------------------------------------------

    def plugins(self) -> list[dict[str, Any]]:
        """Every plugin found, bundled ones first.

        Returns:
            `{name, qualified_name, slots, version, state, reason, providers}` each; `state` is active (one of its
            providers is in force, or it observes events), available, disabled or failed; `providers` are
            `{slot, name, qualified_name, state, reason}`.
        """
        chosen = {key for key, problem in self._choices().items() if not isinstance(problem, PluginError)}
        return [self._plugin(info, chosen) for info in self._registry.plugins]

    def problems(self) -> list[dict[str, Any]]:
        """What the configuration asks for and no plugin can give, as `{slot, name, message, hint}`."""
        found = [
            {"slot": slot, "name": name, "message": problem.message, "hint": problem.hint}
            for (slot, name), problem in self._choices().items()
            if isinstance(problem, PluginError)
        ]
        gates = self._registry.serving("gate")
        known = {offer.qualified_name for offer in gates} | {offer.provider.name for offer in gates}
        for name in self._config.methodology["required_gates"]:
            if name not in known:
                message = f"gate: {name!r} is required and is not active; no note can be written"
                hint = "perpetual methodology set required_gates NAME,... says which gates are needed"
                found.append({"slot": "gate", "name": name, "message": message, "hint": hint})
        return found

    def plugin(self, name: str) -> dict[str, Any]:
        """One plugin in full: with its hooks, and with summary, factory and options of each provider.

        Raises:
            NotFound: naming the nearest plugins.
        """
        info = self._find(name)
        chosen = {key for key, problem in self._choices().items() if not isinstance(problem, PluginError)}
        document = self._plugin(info, chosen)
        for shown, offer in zip(document["providers"], info.offers, strict=True):
            provider = offer.provider
            shown |= {
                "summary": provider.summary,
                "factory": provider.factory,
                "requires": list(provider.requires),
                "options": [
                    {"key": key, "type": option.type, "default": option.default, "meaning": option.meaning}
                    for key, option in (provider.options or {}).items()
                ],
            }
        return {**document, "hooks": list(info.hooks)}

    def _find(self, name: str) -> PluginInfo:
        plugins = self._registry.plugins
        hits = [info for info in plugins if info.qualified_name == name] or [
            info for info in plugins if info.name == name
        ]
        if len(hits) > 1:
            names = " or ".join(info.qualified_name for info in hits)
            raise UsageError(f"{name!r} is two plugins", hint=f"write {names}", code="plugin_ambiguous")
        if not hits:
            raise NotFound(unknown("plugin", name, [info.name for info in plugins]), hint="perpetual plugins list")
        return hits[0]

    def _choices(self) -> dict[tuple[str, str], PluginError | str]:
        """(slot, provider's qualified name) of each choice in force; a choice that fails stands with its error."""
        wanted = [(slot, self._config[key]) for slot, key in SLOTS.items() if key is not None]
        wanted.append(("scorer", self._config.methodology.scorer))
        found: dict[tuple[str, str], PluginError | str] = {}
        for slot, name in wanted:
            try:
                found[slot, self._registry.choose(slot, name).qualified_name] = name
            except PluginError as problem:
                found[slot, name] = problem
        return found

    def _plugin(self, info: PluginInfo, chosen: set[tuple[str, str]]) -> dict[str, Any]:
        providers = [self._provider(offer, chosen) for offer in info.offers]
        state, reason = info.state, info.reason
        if state == "loaded":
            serves = bool(info.hooks) or any(provider["state"] == "active" for provider in providers)
            state = "active" if serves else "available"
        return {
            "name": info.name,
            "qualified_name": info.qualified_name,
            "slots": sorted({offer.provider.slot for offer in info.offers}),
            "version": info.version,
            "state": state,
            "reason": reason,
            "providers": providers,
        }

    def _provider(self, offer: Offer, chosen: set[tuple[str, str]]) -> dict[str, Any]:
        slot = offer.provider.slot
        reason = self._registry.why_not(offer)
        additive = SLOTS.get(slot, slot) is None and slot != "scorer"
        serves = additive or (slot, offer.qualified_name) in chosen
        return {
            "slot": slot,
            "name": offer.provider.name,
            "qualified_name": offer.qualified_name,
            "state": "failed" if reason else "active" if serves else "available",
            "reason": reason,
        }

    def offered(self, slot: str) -> list[dict[str, Any]]:
        """What can serve in a slot, as `{name, qualified_name, factory, options}`; the options are those in force."""
        return [
            {
                "name": offer.provider.name,
                "qualified_name": offer.qualified_name,
                "factory": offer.provider.factory,
                "options": self._config.options(offer.provider.name, offer.provider.options),
            }
            for offer in self._registry.serving(slot)
        ]

    # --- the contract of a provider, as far as it can be seen without building it -----------------------------

    def examine(self, name: str | None = None, *, suites: bool = False) -> list[dict[str, Any]]:
        """Loads each provider's factory and compares it with its slot; nothing is built or called.

        Args:
            suites: also runs the contract suite of the slot, where there is one, against what the factory builds
                with the options' defaults: seconds for each, in a process and a folder of its own.

        Returns:
            `{plugin, slot, name, qualified_name, ok, checks: [{check, ok, detail}], suite, suite_reason, promises:
            [{promise, ok, detail}]}` for each provider of the plugin `name`, or of all; `ok` of a check is None
            where the factory does not tell. `suite` is None if none ran, and `suite_reason` says why. A plugin
            that did not load is one item without a slot; a disabled one is `ok` None.
        """
        plugins = self._registry.plugins if name is None else [self._find(name)]
        items: list[dict[str, Any]] = []
        for info in plugins:
            if info.state != "loaded":
                ok = None if info.state == "disabled" else False
                checks = [{"check": "plugin", "ok": ok, "detail": info.reason or info.state}]
                items.append({"plugin": info.qualified_name, "slot": None, "name": info.name,
                              "qualified_name": info.qualified_name, "ok": ok, "checks": checks,
                              **_without_suite("the plugin is not loaded")})  # fmt: skip
            items += [self._examined(info, offer, suites) for offer in info.offers]
        return items

    def chaos(self, name: str | None = None, **how: Any) -> Certificate:
        """Kills writers of a store of the kind `name`, by default of the one in force, in a scratch folder.

        Options and answer are those of `perpetual.chaos.run_chaos`.

        Raises:
            PluginError: if there is no such store, or it cannot be loaded.
        """
        from perpetual.chaos import Target, run_chaos

        offer = self._registry.choose("store", name or self._config["store"])
        self._registry.load(offer)
        provider = offer.provider
        options = self._config.options(provider.name, provider.options)
        return run_chaos(Target(provider.name, offer.qualified_name, provider.factory, options), **how)

    def _examined(self, info: PluginInfo, offer: Offer, suites: bool) -> dict[str, Any]:
        checks = [_named("offer", lambda: self._offered(offer)), _named("options", lambda: _options(offer))]
        loaded = _named("factory", lambda: self._loaded(offer))
        checks.append(loaded)
        if loaded["ok"]:
            factory = self._registry.load(offer)
            checks.append(_named("call", lambda: _call_shape(offer, factory)))
            if checks[-1]["ok"] is not False:
                checks.append(_named("answer", lambda: _answer_shape(offer, factory)))
        if offer.provider.head is not None:
            checks.append(_named("head", lambda: _head(offer)))
        fits = all(check["ok"] is not False for check in checks)
        found = _with_suite(offer, fits) if suites else _without_suite("not asked for")
        return {
            "plugin": info.qualified_name,
            "slot": offer.provider.slot,
            "name": offer.provider.name,
            "qualified_name": offer.qualified_name,
            "ok": fits and found.pop("kept") is not False if suites else fits,
            "checks": checks,
            **found,
        }

    def _loaded(self, offer: Offer) -> str:
        self._registry.load(offer)
        return offer.provider.factory

    def _offered(self, offer: Offer) -> str:
        reason = self._registry.why_not(offer)
        if reason:
            raise _Misfit(reason)
        return f"offered for {offer.provider.slot}, plugin interface {offer.provider.api}"

    # --- devices ----------------------------------------------------------------------------------------------

    def devices(self) -> dict[str, Any]:
        """The machine's GPUs as the chosen backend reads them, with whose processes they serve and who leased them.

        Returns:
            `{driver, gpus, reason, transient}`: the document of `perpetual gpu-status`. `state` of a device or of an
            instance is free, leased, used, excluded or sick, of a device that is cut the word for that, and `note` says
            why no run, or no further one, gets it; `owner` of a process is run, ended, foreign or unknown.
        """
        reading: Reading = self._backend().read()
        owners = owners_of(self._ctx, reading)
        live: list[Document] = []
        if self._ctx is not None:
            live = [run for status in ("launching", "running") for run in self._ctx.store.find("run", status=status)]
        holds = {} if self._ctx is None else holds_of(self._ctx, live)
        units = units_of(reading, owners, holds, Rules.of(self._config))
        gpus = [
            _device(gpu, [unit for unit in units if unit.number == gpu.index], owners, live) for gpu in reading.gpus
        ]
        return {"driver": reading.driver, "gpus": gpus, "reason": reading.reason, "transient": reading.transient}

    def _backend(self) -> GpuBackend:
        backend: GpuBackend
        if self._ctx is not None:
            backend = self._ctx.part("gpus")
            return backend
        offer = self._registry.choose("gpus", self._config["gpus"])
        backend = self._registry.build(offer, self._config.options(offer.provider.name, offer.provider.options))
        return backend


def _device(gpu: Gpu, units: Sequence[Unit], owners: Mapping[int, Owner], live: Sequence[Document]) -> dict[str, Any]:
    """One device of the document; `units` are what can be leased of it, in its own order."""
    whole = None if gpu.mig else units[0]
    run_ids = {run.id for run in live if {gpu.uuid, *(part.uuid for part in gpu.mig)} & {*run.body["gpus"]}}
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "memory_total_bytes": gpu.memory_total_bytes,
        "memory_used_bytes": gpu.memory_used_bytes,
        "memory_free_bytes": gpu.memory_free_bytes,
        "utilization": gpu.utilization,
        "temperature_celsius": gpu.temperature_celsius,
        "power_watts": gpu.power_watts,
        "compute_mode": gpu.compute_mode,
        "processes": _processes(processes_of(gpu), owners),
        "mig": [
            {
                "uuid": part.uuid,
                "memory_total_bytes": part.memory_total_bytes,
                "memory_used_bytes": part.memory_used_bytes,
                "processes": _processes(part.processes, owners),
                **_lease(unit),
            }
            for part, unit in zip(gpu.mig, units if gpu.mig else (), strict=True)
        ],
        "run_ids": sorted(run_ids, key=lambda id: int(id[1:])),
        "healthy": gpu.healthy,
        "error": gpu.error,
        "state": "cut" if whole is None else _state(whole),
        "note": gpu.error if whole is None else _note(whole),
    }


def _processes(processes: Sequence[GpuProcess], owners: Mapping[int, Owner]) -> list[dict[str, Any]]:
    return [
        {
            "pid": one.pid,
            "memory_bytes": one.memory_bytes,
            "user": one.user,
            "name": one.name,
            "owner": owners[one.pid].kind,
            "run_id": owners[one.pid].run_id,
        }
        for one in processes
    ]


def _lease(unit: Unit) -> dict[str, Any]:
    return {"run_ids": [hold.run_id for hold in unit.holds], "state": _state(unit), "note": _note(unit)}


def _state(unit: Unit) -> str:
    if unit.is_sick:
        return "sick"
    if unit.never:
        return "excluded"
    return "leased" if unit.holds else "used" if unit.obstacle else "free"


def _note(unit: Unit) -> str | None:
    return unit.obstacle if unit.is_sick else unit.never or unit.obstacle


class _Misfit(Exception):
    """What does not hold, in words."""


class _Untold(Exception):
    """Why a thing cannot be told without building the part."""


def _without_suite(reason: str) -> dict[str, Any]:
    return {"suite": None, "suite_reason": reason, "promises": []}


def _with_suite(offer: Offer, fits: bool) -> dict[str, Any]:
    """What the slot's suite found; `kept` is False if a promise is broken, None if no suite ran."""
    from perpetual.records import to_json
    from perpetual.suites import run_suite

    if not fits:
        return {"kept": None, **_without_suite("a provider that does not fit its slot is not run")}
    provider = offer.provider
    defaults = {key: option.default for key, option in (provider.options or {}).items()}
    result = run_suite(provider.slot, offer.qualified_name, provider.factory, defaults)
    promises = to_json(result.promises)
    return {"kept": result.ok, "suite": result.suite, "suite_reason": result.reason, "promises": promises}


def _named(name: str, look: Callable[[], str]) -> dict[str, Any]:
    """One check's answer; whatever loading a plugin's module raises is that plugin's finding."""
    try:
        return {"check": name, "ok": True, "detail": look()}
    except _Untold as reason:
        return {"check": name, "ok": None, "detail": str(reason)}
    except (_Misfit, PerpetualError) as problem:
        return {"check": name, "ok": False, "detail": str(problem)}
    except Exception as problem:  # noqa: BLE001 - a foreign module may raise anything; the other providers are still looked at
        return {"check": name, "ok": False, "detail": f"{type(problem).__name__}: {problem}"}


def _options(offer: Offer) -> str:
    """Each option has a known type, a default that fits it and a meaning."""
    options = offer.provider.options or {}
    for key, option in options.items():
        if option.type not in ("int", "float", "bool", "str", "list"):
            raise _Misfit(f"{key}: {option.type!r} is no type of option")
        try:
            check(Key(key, option.type, option.default, option.meaning), option.default, "its default")
        except ConfigError as problem:
            raise _Misfit(problem.message) from problem
        if not option.meaning.strip():
            raise _Misfit(f"{key} says nothing of what it means")
    return f"{len(options)} options" if options else "no options"


def _call_shape(offer: Offer, factory: Any) -> str:
    """The factory can be called as its slot calls it."""
    import inspect

    slot = offer.provider.slot
    if slot == "command":
        import click

        if not isinstance(factory, click.Command):
            raise _Misfit(f"{offer.provider.factory} is a {type(factory).__name__} and no click command")
        return "a click command"
    if not callable(factory):
        raise _Misfit(f"{offer.provider.factory} is a {type(factory).__name__} and cannot be called")
    extra: Mapping[str, Any] = {"path": Path()} if slot in _WITH_PATH else {}
    wanted = "(options, path=...)" if extra else "(options)"
    try:
        inspect.signature(factory).bind({}, **extra)
    except TypeError as problem:
        raise _Misfit(f"it cannot be called with {wanted}: {problem}") from problem
    except ValueError as problem:  # a callable written in C tells no signature
        raise _Untold(f"its signature cannot be read: {problem}") from problem
    return f"it is called with {wanted}"


def _answer_shape(offer: Offer, factory: Any) -> str:
    """What the factory answers is of its slot's base, where the factory is a class or says what it answers."""
    import inspect
    import typing

    home = _BASES.get(offer.provider.slot)
    if home is None:
        raise _Untold(f"a {offer.provider.slot} has no base class")
    base = _imported(home)
    made = factory if inspect.isclass(factory) else typing.get_type_hints(factory).get("return")
    if not inspect.isclass(made):
        raise _Untold("the factory has no return annotation that names a class")
    if not issubclass(made, base):
        raise _Misfit(f"it answers {made.__name__}, which is no {base.__name__}")
    if made is not base and inspect.isabstract(made):
        lacking = ", ".join(sorted(getattr(made, "__abstractmethods__", ())))
        raise _Misfit(f"{made.__name__} lacks {lacking}")
    return f"{made.__name__} is a {base.__name__}"


def _head(offer: Offer) -> str:
    """The store's head function exists and takes the folder."""
    import inspect

    head = _imported(offer.provider.head or "")
    try:
        inspect.signature(head).bind("folder")
    except TypeError as problem:
        raise _Misfit(f"{offer.provider.head} cannot be called with (path): {problem}") from problem
    return f"{offer.provider.head}(path)"


def _imported(name: str) -> Any:
    from importlib import import_module

    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
