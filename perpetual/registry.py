"""Plugins: found, named, chosen, built; and called one by one, guarded. Floor 1.

`discover` imports every plugin's light top module and asks each hook once; its answer, the catalogue, is plain data
and is cached, so an ordinary command imports neither pluggy nor importlib.metadata. A `Registry` belongs to whoever
made it; there is no global one.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from perpetual.errors import (
    ConfigError,
    NotFound,
    PerpetualError,
    PluginError,
    UnknownPlugin,
    UsageError,
    masked,
    unknown,
)
from perpetual.schema import check, key_of_option
from perpetual.slots import ADAPTERS, API, SERVED, Option, Provider, thaw_option
from perpetual.slots.table import METHODOLOGY, SLOTS, Slot, thaw_slot
from perpetual.toolkit import caches, plugin_failures
from perpetual.toolkit.contained import contained
from perpetual.toolkit.deadline import call as call_within
from perpetual.toolkit.deprecation import collected
from perpetual.toolkit.reserved import DISTRIBUTION, RESERVED, command_problem, is_bundled, known_name

if TYPE_CHECKING:
    import pluggy

    from perpetual.config import Config
    from perpetual.slots.kinds import EventKind, RecordKind

__all__ = ["DISTRIBUTION", "Called", "Offer", "PluginInfo", "Registry", "discover"]

_HOOKSPECS = "perpetual_hookspecs"  # the hook by which a plugin brings hooks of its own
_SLOTS = "perpetual_slots"  # and the one by which it brings slots
_KINDS = "perpetual_kinds"  # and the one by which it brings kinds of records and events
_KEYS = "perpetual_methodology"  # and the one that names its keys of methodology.yaml
_OPTIONS = "perpetual_options"  # and the one that names options of the plugin itself
_SECTIONS = ("plugin", "disabled")  # of `plugins:` in config.yaml, so no names of slots
_SLOT_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_HOME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_UPGRADE = f"pip install --upgrade {DISTRIBUTION}"
_PUBLIC = re.compile(r"perpetual(\.(api|loop|science|testing|toolkit)(\.\w+)*)?\Z")
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Offer:
    """A provider and who offers it; `refused` says why it can not be chosen, if so."""

    qualified_name: str  # distribution/provider
    plugin: str  # distribution/entry point
    provider: Provider
    refused: str | None = None

    @property
    def name(self) -> str:
        """The name that means it in configurations: the bare one, unless that is a bundled part's."""
        return known_name(self.provider.slot, self.qualified_name)

    @property
    def is_bundled(self) -> bool:
        """Whether Perpetual itself brings it."""
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


@dataclass(frozen=True)
class Called:
    """One plugin's answer to a hook: `value`, or `error` in words."""

    plugin: str
    value: Any = None
    error: str | None = None


@dataclass
class _Discovery:
    manager: pluggy.PluginManager
    plugins: list[PluginInfo] = field(default_factory=list)
    limit_s: float | None = None  # for each import and each hook of another distribution
    watch: Callable[[str | None, str], None] | None = None  # hears what is begun, and by None that it has ended
    spent: dict[str, dict[str, float]] = field(default_factory=dict)  # seconds of import and hooks, by plugin

    @contextmanager
    def at(self, plugin: str, step: str) -> Iterator[None]:
        """Measures a step of discovery, `import` or `hooks`."""
        if self.watch is not None:
            self.watch(plugin, step)
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = self.spent.setdefault(plugin, {"import": 0.0, "hooks": 0.0})
            spent[step] += time.perf_counter() - began
            if self.watch is not None:
                self.watch(None, step)

    def ask(self, hook: str, plugin: object, name: str) -> Called:
        """Asks one plugin's hook, measured and within the limit."""
        with self.at(name, "hooks"):
            return _call(self.manager, hook, plugin, name, {}, None if is_bundled(name) else self.limit_s)

    @property
    def files(self) -> list[str]:
        """The files in which the plugins say what they offer."""
        modules = [getattr(plugin, "__name__", type(plugin).__module__) for plugin in self.manager.get_plugins()]
        found = [getattr(sys.modules.get(name), "__file__", None) for name in modules]
        return sorted({path for path in found if path})


def _trace(hook: str, plugin: str, result: object) -> None:
    if os.environ.get("PERPETUAL_TRACE_HOOKS"):
        sys.stderr.write(f"hook {hook} <- {plugin}: {result!r}\n")


def _call(
    manager: pluggy.PluginManager,
    hook: str,
    plugin: object,
    name: str,
    arguments: Mapping[str, Any],
    limit_s: float | None = None,
) -> Called:
    """Calls one plugin's implementation of a hook, guarded."""
    others = [other for other in manager.get_plugins() if other is not plugin]
    asked = partial(manager.subset_hook_caller(hook, others), **arguments)
    try:
        with contained():
            answers = asked() if limit_s is None else call_within(limit_s, asked)
    except Exception as problem:  # noqa: BLE001 - a plugin's fault is recorded under its name and never ends the others
        called = Called(name, error=masked(f"{type(problem).__name__}: {problem}"))
    else:
        called = Called(name, value=answers[0] if isinstance(answers, list) and answers else answers or None)
    _trace(hook, name, called.value if called.error is None else called.error)
    return called


def _implemented(manager: pluggy.PluginManager, plugin: object) -> list[str]:
    return [caller.name for caller in manager.get_hookcallers(plugin) or []]


def _misfits(manager: pluggy.PluginManager, plugin: object) -> str | None:
    """Why a registered plugin cannot serve: a hook that nobody specified, or an argument that no call can give."""
    import inspect

    known = [name for name, caller in vars(manager.hook).items() if getattr(caller, "spec", None) is not None]
    for caller in manager.get_hookcallers(plugin) or []:
        if caller.spec is None:
            optional = all(impl.optionalhook for impl in caller.get_hookimpls() if impl.plugin is plugin)
            if not optional:
                return unknown("hook", caller.name, known)
        for impl in caller.get_hookimpls():
            if impl.plugin is plugin:
                for parameter in inspect.signature(impl.function).parameters.values():
                    if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                        return f"{caller.name}: the keyword-only argument {parameter.name!r} is never given"
    return None


def _refusal(provider: object, slot: str, seen: set[tuple[str, str]]) -> str | None:
    """Why what a hook answered cannot be chosen; `seen` holds what its distribution offers already, (slot, name)."""
    if not isinstance(provider, Provider):
        return f"answered a {type(provider).__name__} instead of a Provider"
    if provider.slot != slot:
        return f"{provider.name}: its slot is {provider.slot!r}, the hook's is {slot!r}"
    if not _NAME.match(provider.name):
        return f"{provider.name!r} is no name (small letters, digits, . _ -)"
    if provider.api not in SERVED:
        served = " and ".join(map(str, SERVED))
        needs = f"{'a newer' if provider.api > API else 'an older'} Perpetual"
        way = f": {_UPGRADE}" if provider.api > API else ""
        return f"{provider.name} needs {needs}, as written for plugin API {provider.api}; this one serves {served}{way}"
    if not _FACTORY.match(provider.factory):
        return f"{provider.name}: the factory {provider.factory!r} is not module:callable"
    if (slot, provider.name) in seen:
        return f"{provider.name} is offered twice for {slot} by one distribution"
    return command_problem(provider.name) if slot == "command" else None


def discover(
    disabled: Sequence[str] = (),
    *,
    safe: bool = False,
    extra: Iterable[tuple[str, str, str, Callable[[], object]]] = (),
    skip: Mapping[str, str] | None = None,
    limit_s: float | None = None,
    watch: Callable[[str | None, str], None] | None = None,
) -> _Discovery:
    """Loads and asks every plugin, each in its own guard.

    Args:
        disabled: names, bare or qualified, that are not loaded.
        safe: loads only what the distribution of Perpetual itself brings.
        extra: further plugins as (distribution, name, version, loader), for tests.
        skip: plugins that are known to fail, each with its reason; they are not loaded.
        limit_s: seconds for each import and each hook of other distributions, as far as a running process can hold it.
        watch: is called with a plugin's name and `import` or `hooks` before each step, and with None after it.
    """
    from importlib.metadata import entry_points

    from perpetual import hookspecs

    manager = hookspecs.plugin_manager()
    found: dict[str, tuple[str, str, str, Callable[[], object]]] = {}
    for point in entry_points(group=hookspecs.GROUP):
        distribution = point.dist.name if point.dist is not None else "?"
        version = point.dist.version if point.dist is not None else "?"
        found[f"{distribution}/{point.name}"] = (distribution, point.name, version, point.load)
    for distribution, name, version, loader in extra:
        found[f"{distribution}/{name}"] = (distribution, name, version, loader)

    result = _Discovery(manager, limit_s=limit_s, watch=watch)
    left_out = caches.left_out()
    loaded: list[tuple[PluginInfo, object]] = []
    for id, (distribution, name, version, loader) in sorted(
        found.items(), key=lambda item: (item[1][0] != DISTRIBUTION, item[0])
    ):
        if safe and distribution != DISTRIBUTION:
            result.plugins.append(PluginInfo(name, id, version, "disabled", "safe mode: only bundled plugins"))
            continue
        if name in disabled or id in disabled:
            result.plugins.append(PluginInfo(name, id, version, "disabled", "plugins.disabled names it"))
            continue
        if name in left_out or id in left_out:
            reason = "left out by --without or PERPETUAL_WITHOUT"
            result.plugins.append(PluginInfo(name, id, version, "disabled", reason))
            continue
        if skip is not None and id in skip:
            result.plugins.append(PluginInfo(name, id, version, "failed", skip[id]))
            continue
        try:
            with collected() as replaced:
                with result.at(id, "import"):
                    plugin = loader() if limit_s is None or is_bundled(id) else call_within(limit_s, loader)
                hash(plugin)  # pluggy keeps plugins in sets: one that cannot be kept there fails here, and alone
                manager.register(plugin, name=id)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # noqa: BLE001 - a module may even call sys.exit at its top; it alone fails
            reason = _import_problem(problem)
            result.plugins.append(PluginInfo(name, id, version, "failed", reason))
            continue
        loaded.append((PluginInfo(name, id, version, "loaded", None, deprecations=tuple(replaced)), plugin))
    _ask(result, loaded)
    return result


def _import_problem(problem: BaseException) -> str:
    """Why a module could not be imported; one that imports a public name that is not there needs a newer Perpetual."""
    reason = f"{type(problem).__name__}: {problem}"
    if isinstance(problem, ImportError) and _PUBLIC.match(problem.name or ""):
        from perpetual import __version__

        return f"it needs a newer Perpetual than {__version__}: {_UPGRADE} ({reason})"
    return reason


def _ask(result: _Discovery, loaded: list[tuple[PluginInfo, object]]) -> None:
    """Fills `result.plugins` with what each loaded plugin offers."""
    manager = result.manager
    failed = _add_hookspecs(result, loaded)
    brought = _add_slots(result, loaded, failed)
    every = [*SLOTS.values(), *(slot for slots in brought.values() for slot in slots)]
    provider_hooks = {slot.hook: slot.name for slot in every}
    seen: dict[str, set[tuple[str, str]]] = {}  # slots and names, by distribution
    named: dict[str, str] = {}  # plugins that bring kinds, whose names the kinds bear
    for info, plugin in loaded:
        reason = failed.get(info.qualified_name) or _misfits(manager, plugin)
        if reason is None:
            known = seen.setdefault(info.qualified_name.rpartition("/")[0], set())
            offers, reason = _offers(result, info, plugin, provider_hooks, known)
        kinds: list[RecordKind | EventKind] = []
        if reason is None:
            kinds, reason = _kinds(result, info, plugin)
            if reason is None and kinds and info.name in named:
                reason = f"{named[info.name]} brings kinds named {info.name}.* already"
            if kinds:
                named.setdefault(info.name, info.qualified_name)
        options: dict[str, Option] | None = None
        if reason is None:
            options, reason = _options(result, info, plugin)
        keys: dict[str, Option] = {}
        if reason is None:
            keys, reason = _methodology(result, info, plugin)
            if reason is None and keys and info.name in named and named[info.name] != info.qualified_name:
                reason = f"{named[info.name]} brings keys named {info.name}.* already"
            if keys:
                named.setdefault(info.name, info.qualified_name)
        if reason is None:
            later = {*_implemented(manager, plugin)} - {*provider_hooks, _HOOKSPECS, _SLOTS, _KINDS, _OPTIONS, _KEYS}
            result.plugins.append(
                replace(
                    info,
                    offers=tuple(offers),
                    hooks=tuple(sorted(later)),
                    slots=tuple(brought.get(info.qualified_name, ())),
                    kinds=_records(kinds),
                    options=options,
                    methodology=keys,
                    events=_events(kinds),
                    deprecations=(*info.deprecations, *_older(offers)),
                )
            )
        else:
            manager.unregister(name=info.qualified_name)
            result.plugins.append(replace(info, state="failed", reason=reason))


def _older(offers: Sequence[Offer]) -> list[str]:
    """What is written for a plugin interface that is served beside a newer one."""
    return [
        f"{offer.provider.slot} {offer.provider.name} is written for plugin API {offer.provider.api}; {API} is current"
        for offer in offers
        if offer.refused is None and offer.provider.api < API
    ]


def _options(
    result: _Discovery, info: PluginInfo, plugin: object, hook: str = _OPTIONS
) -> tuple[dict[str, Option] | None, str | None]:
    """Returns the options that the plugin itself answers to a hook, and why it fails as a whole, if it does."""
    if hook not in _implemented(result.manager, plugin):
        return None, None
    called = result.ask(hook, plugin, info.qualified_name)
    if called.error:
        return None, f"{hook}: {called.error}"
    options = called.value or {}
    if isinstance(options, dict) and all(
        isinstance(key, str) and isinstance(option, Option) for key, option in options.items()
    ):
        return options, None
    return None, f"{hook} answered a {type(options).__name__} that is no mapping of names to Options"


def _methodology(result: _Discovery, info: PluginInfo, plugin: object) -> tuple[dict[str, Option], str | None]:
    """Returns the keys of methodology.yaml that the plugin brings, and why it fails as a whole, if it does."""
    keys, reason = _options(result, info, plugin, _KEYS)
    for name, option in (keys or {}).items():
        try:
            if not _SLOT_NAME.match(name):
                raise ConfigError(f"{name!r} is no name of a key (small letters, digits, underscores)")
            if option.type == "section" or option.items == "section" or option.secret or option.variable:
                raise ConfigError(f"{name}: a key of the methodology is a plain value, and no secret")
            if not option.meaning.strip():
                raise ConfigError(f"{name} says nothing of what it means")
            check(key_of_option(name, option), option.default, "its default")
        except ConfigError as problem:
            return {}, f"{_KEYS}: {problem.message}"
    return keys or {}, reason


def _add_hookspecs(result: _Discovery, loaded: list[tuple[PluginInfo, object]]) -> dict[str, str]:
    """Takes in the hooks that plugins bring, before any is asked; answers what went wrong, by plugin."""
    manager = result.manager
    failed: dict[str, str] = {}
    for info, plugin in loaded:
        if _HOOKSPECS not in _implemented(manager, plugin):
            continue
        called = result.ask(_HOOKSPECS, plugin, info.qualified_name)
        try:
            for module in called.value or ():
                manager.add_hookspecs(module)
        except Exception as problem:  # noqa: BLE001 - whatever a foreign module of hookspecs raises is its plugin's fault
            failed[info.qualified_name] = f"{type(problem).__name__}: {problem}"
        if called.error:
            failed[info.qualified_name] = called.error
    return failed


def _add_slots(
    result: _Discovery, loaded: list[tuple[PluginInfo, object]], failed: dict[str, str]
) -> dict[str, list[Slot]]:
    """Takes in the slots that plugins bring, and specifies the hook of each; adds to `failed` what went wrong.

    Returns:
        the slots that each plugin brings.
    """
    manager = result.manager
    brought: dict[str, list[Slot]] = {}
    taken = {slot.name for slot in SLOTS.values()}
    for info, plugin in loaded:
        if info.qualified_name in failed or _SLOTS not in _implemented(manager, plugin):
            continue
        called = result.ask(_SLOTS, plugin, info.qualified_name)
        slots = list(called.value) if isinstance(called.value, (list, tuple)) else []
        hooks = {name for name, caller in vars(manager.hook).items() if getattr(caller, "spec", None) is not None}
        wrong = called.error and f"{_SLOTS}: {called.error}"
        for slot in slots:
            wrong = wrong or _slot_problem(slot, taken, hooks)
            if wrong is None:
                taken.add(slot.name)
                hooks.add(slot.hook)
        if wrong is not None:
            failed[info.qualified_name] = wrong
            continue
        for slot in slots:
            _specify(manager, slot)
        brought[info.qualified_name] = slots
    return brought


def _records(kinds: Sequence[RecordKind | EventKind]) -> tuple[RecordKind, ...]:
    from perpetual.slots.kinds import RecordKind

    return tuple(kind for kind in kinds if isinstance(kind, RecordKind))


def _events(kinds: Sequence[RecordKind | EventKind]) -> tuple[EventKind, ...]:
    from perpetual.slots.kinds import EventKind

    return tuple(kind for kind in kinds if isinstance(kind, EventKind))


def _kinds(result: _Discovery, info: PluginInfo, plugin: object) -> tuple[list[RecordKind | EventKind], str | None]:
    """The kinds that a plugin brings, and why it fails as a whole, if it does."""
    if _KINDS not in _implemented(result.manager, plugin):
        return [], None
    from perpetual.slots.kinds import kind_problem

    called = result.ask(_KINDS, plugin, info.qualified_name)
    if called.error:
        return [], f"{_KINDS}: {called.error}"
    kinds = list(called.value) if isinstance(called.value, (list, tuple)) else []
    wrong = next((words for kind in kinds if (words := kind_problem(kind)) is not None), None)
    names = [kind.name for kind in kinds] if wrong is None else []
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        wrong = f"{twice} is there twice"
    return (kinds, None) if wrong is None else ([], f"{_KINDS}: {wrong}")


def _slot_problem(slot: object, taken: set[str], hooks: set[str]) -> str | None:
    """Why what `perpetual_slots` answered can be no slot; `taken` are the names of slots, `hooks` those of hooks."""
    if not isinstance(slot, Slot):
        return f"{_SLOTS} answered a {type(slot).__name__} instead of a Slot"
    if not _SLOT_NAME.match(slot.name):
        return f"the slot {slot.name!r} is no name (small letters, digits, underscores)"
    if slot.name in taken or slot.name in _SECTIONS:
        return f"the slot {slot.name} exists already"
    if not slot.hook.isidentifier() or slot.hook in hooks:
        return f"the slot {slot.name}: its hook {slot.hook!r} exists already, or is no name"
    if slot.selection not in ("one", "all", METHODOLOGY):
        return f"the slot {slot.name}: its selection {slot.selection!r} is none of one, all, methodology"
    if slot.selection != METHODOLOGY and slot.key is not None:
        return f"the slot {slot.name}: a key of config.yaml is for Perpetual's own slots; leave key out"
    if set(slot.arguments) - {"path"}:
        return f"the slot {slot.name}: a factory gets options, and path where the slot asks for it; nothing else"
    homes = [slot.base, None if slot.suite is None else slot.suite.home]
    wrong = next((home for home in homes if home is not None and not _HOME.match(home)), None)
    return None if wrong is None else f"the slot {slot.name}: {wrong!r} is not module:class"


def _specify(manager: pluggy.PluginManager, slot: Slot) -> None:
    """Adds the specification of a slot's hook."""
    from perpetual.hookspecs import hookspec

    def specification() -> list[Provider]:  # type: ignore[empty-body]
        """Offers providers of the slot."""

    specification.__name__ = slot.hook
    manager.add_hookspecs(type("Specifications", (), {slot.hook: staticmethod(hookspec(specification))}))


def _offers(
    result: _Discovery,
    info: PluginInfo,
    plugin: object,
    provider_hooks: Mapping[str, str],
    seen: set[tuple[str, str]],
) -> tuple[list[Offer], str | None]:
    """What a plugin offers, and why it fails as a whole, if it does."""
    offers: list[Offer] = []
    distribution = info.qualified_name.rpartition("/")[0]
    for hook in _implemented(result.manager, plugin):
        slot = provider_hooks.get(hook)
        if slot is None:
            continue
        called = result.ask(hook, plugin, info.qualified_name)
        if called.error:
            return [], f"{hook}: {called.error}"
        for provider in called.value or ():
            refused = _refusal(provider, slot, seen)
            if not isinstance(provider, Provider):
                return [], f"{hook}: {refused}"
            seen.add((slot, provider.name))
            offers.append(Offer(f"{distribution}/{provider.name}", info.qualified_name, provider, refused))
    return offers, None


def _thaw(data: Mapping[str, Any]) -> PluginInfo:
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


def _thawed(kept: object) -> list[PluginInfo] | None:
    """The plugins that were kept, None if nothing was, or something that is no list of plugins."""
    try:
        return [_thaw(item) for item in kept] if isinstance(kept, list) else None
    except (KeyError, TypeError):
        return None


def _is_due(plugins: Sequence[PluginInfo]) -> bool:
    """Returns whether a plugin that failed is to be tried again."""
    return any(info.retry_at is not None and info.retry_at <= time.time() for info in plugins)


def _adapted(offer: Offer, part: Any) -> Any:
    """The part, as the newest plugin interface calls it."""
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
        self._live: _Discovery | None = None
        self._plugins: list[PluginInfo] | None = None

    @classmethod
    def of(cls, config: Config, *, safe: bool = False) -> Registry:
        """Returns the registry that a configuration asks for."""
        return cls(config.disabled, safe=safe, discovery_s=config["plugin_discovery_s"])

    @property
    def plugins(self) -> list[PluginInfo]:
        """All that were found, bundled ones first."""
        if self._plugins is None:
            key = caches.plugins_key(self._disabled, safe=self._safe)
            cached = None if self._extra or os.environ.get("PERPETUAL_TRACE_HOOKS") else caches.load("plugins", key)
            self._plugins = _thawed(cached)
            if self._plugins is None or _is_due(self._plugins):
                self._plugins, files = self._found()
                if not self._extra:
                    # A plugin that is installed to be worked on changes without any folder of the path changing.
                    caches.save("plugins", key, [asdict(info) for info in self._plugins], files)
        return self._plugins

    def _found(self) -> tuple[list[PluginInfo], list[str]]:
        """Returns the plugins, and the files from which they were found; those of others by a helper process."""
        from perpetual.plugin_discovery import discovered

        found = None
        if not self._extra and not self._safe:
            found = discovered(self._disabled, self._discovery_s)
        if found is None:
            live = self._discovery()
            later = time.time() + plugin_failures.RETRY_S
            return [
                replace(info, retry_at=later) if info.state == "failed" else info for info in live.plugins
            ], live.files
        plugins = [_thaw(info) for info in found.plugins]
        failures = {info.qualified_name: info.reason or "" for info in plugins if info.state == "failed"}
        states = found.noted(failures)
        plugins = [
            replace(info, reason=states[info.qualified_name].words, retry_at=states[info.qualified_name].retry_at)
            if info.qualified_name in states
            else info
            for info in plugins
        ]
        return plugins, found.files

    def timing(self) -> dict[str, dict[str, float]]:
        """Returns what each plugin costs at discovery, measured now: `{import, hooks}` in seconds, by plugin."""
        from perpetual.plugin_discovery import discovered

        found = None if self._extra else discovered(self._disabled, self._discovery_s, safe=self._safe, always=True)
        return self._discovery().spent if found is None else found.spent

    def retry(self, name: str) -> PluginInfo:
        """Forgets the failures of a plugin, bare or qualified, and looks at it anew.

        Raises:
            NotFound: if there is no such plugin.
        """
        from perpetual.plugin_discovery import forget

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

    def _discovery(self) -> _Discovery:
        if self._live is None:
            # What has failed in the catalogue is not imported again in this process.
            known = {info.qualified_name: info.reason or "" for info in self._plugins or () if info.state == "failed"}
            self._live = discover(
                self._disabled, safe=self._safe, extra=self._extra, skip=known, limit_s=self._discovery_s
            )
        return self._live

    @property
    def slots(self) -> dict[str, Slot]:
        """Every slot by its name: Perpetual's own, then those that plugins bring."""
        return {**SLOTS, **{slot.name: slot for info in self.plugins for slot in info.slots}}

    @property
    def kinds(self) -> dict[str, tuple[PluginInfo, RecordKind]]:
        """The kinds of records that plugins bring, by full name (`PLUGIN.NAME`)."""
        return {f"{info.name}.{kind.name}": (info, kind) for info in self.plugins for kind in info.kinds}

    @property
    def events(self) -> dict[str, str]:
        """What the kinds of events that plugins bring mean, by full name (`PLUGIN.NAME`)."""
        return {f"{info.name}.{kind.name}": kind.meaning for info in self.plugins for kind in info.events}

    @property
    def methodology(self) -> dict[str, Option]:
        """The keys of methodology.yaml that plugins bring, by full name (`PLUGIN.KEY`)."""
        return {f"{info.name}.{key}": option for info in self.plugins for key, option in info.methodology.items()}

    def slot(self, name: str) -> Slot:
        """The slot of that name.

        Raises:
            UsageError: naming the nearest ones.
        """
        found = SLOTS.get(name) or self.slots.get(name)
        if found is None:
            raise UsageError(unknown("slot", name, self.slots), hint="perpetual plugins list shows who brings slots")
        return found

    def offers(self, slot: str) -> list[Offer]:
        """Everything offered for a slot, refused offers included, by `order` and then by name."""
        found = [offer for info in self.plugins for offer in info.offers if offer.provider.slot == slot]
        return sorted(found, key=lambda offer: (offer.provider.order, offer.qualified_name))

    def serving(self, slot: str) -> list[Offer]:
        """The offers of an additive slot that can serve."""
        return [offer for offer in self.offers(slot) if self.why_not(offer) is None]

    def why_not(self, offer: Offer) -> str | None:
        """Why an offer cannot serve, or None."""
        if offer.refused:
            return offer.refused
        active = {info.name for info in self.plugins if info.state == "loaded"}
        active |= {info.qualified_name for info in self.plugins if info.state == "loaded"}
        missing = [name for name in offer.provider.requires if name not in active]
        return f"needs the plugin {', '.join(missing)}" if missing else None

    def choose(self, slot: str, want: str) -> Offer:
        """The offer called `want`, bare or qualified.

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
        """The qualified name that `want` means: Perpetual's own for a bundled name, whether that serves or not.

        Raises:
            PluginError: if there is none, or if two distributions offer the bare name.
        """
        if "/" in want:
            return want
        if want in RESERVED.get(slot, ()):
            return f"{DISTRIBUTION}/{want}"
        return self.choose(slot, want).qualified_name

    def serves(self, slot: str, want: str) -> bool:
        """Whether the provider that `want` means serves in an additive slot."""
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

    def build(self, offer: Offer, options: Mapping[str, Any], **extra: Any) -> Any:
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
        """The object that an offer's factory names, imported."""
        from importlib import import_module

        module, _, attribute = offer.provider.factory.partition(":")
        try:
            with contained():
                return getattr(import_module(module), attribute)
        except (PerpetualError, OSError):
            raise
        except Exception as problem:
            raise PluginError(
                f"{offer.provider.slot}: {offer.qualified_name} cannot be loaded: {_import_problem(problem)}",
                hint="reinstall its distribution, or choose another provider",
                code="plugin_broken",
            ) from problem

    def implementers(self, hook: str) -> list[str]:
        """The qualified names of the plugins that implement `hook`; cheap."""
        return [info.qualified_name for info in self.plugins if hook in info.hooks]

    def ask(self, plugin: str, hook: str, **arguments: Any) -> Called:
        """Asks one of the `implementers` of `hook`, guarded."""
        live = self._discovery()
        found = live.manager.get_plugin(plugin)
        if found is None:
            return Called(plugin, error=next((one.reason for one in live.plugins if one.qualified_name == plugin), None)
                          or "it is not loaded")  # fmt: skip
        return _call(live.manager, hook, found, plugin, arguments)

    def call(self, hook: str, **arguments: Any) -> list[Called]:
        """Asks every plugin that implements `hook`, one by one, guarded; cheap if there is none."""
        return [self.ask(plugin, hook, **arguments) for plugin in self.implementers(hook)]
