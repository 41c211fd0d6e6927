"""Discovery: every plugin's light top module is imported, and each of its hooks for offers asked once. Floor 1.

What a plugin answers is checked here, so that the catalogue holds only what can be used; one that answers what cannot
be is `failed` as a whole, with the reason, and the others serve.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from perpetual import hookspecs
from perpetual.catalogue import UPGRADE, Offer, PluginInfo, import_problem
from perpetual.errors import ConfigError
from perpetual.slots import API, SERVED, Option, Provider, key_of_option
from perpetual.slots.kinds import EventKind, RecordKind, kind_problem
from perpetual.slots.table import METHODOLOGY, SLOTS, Slot
from perpetual.toolkit import caches
from perpetual.toolkit.config_keys import check
from perpetual.toolkit.deadline import call as call_within
from perpetual.toolkit.deprecation import collected
from perpetual.toolkit.hook_calls import Called, call, implemented, misfit, specified
from perpetual.toolkit.reserved import DISTRIBUTION, command_problem, is_bundled

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import pluggy

__all__ = ["Discovery", "discover", "installed"]

_HOOKSPECS = "perpetual_hookspecs"  # the hook by which a plugin brings hooks of its own
_SLOTS = "perpetual_slots"  # and the one by which it brings slots
_KINDS = "perpetual_kinds"  # and the one by which it brings kinds of records and events
_KEYS = "perpetual_methodology"  # and the one that names its keys of methodology.yaml
_OPTIONS = "perpetual_options"  # and the one that names options of the plugin itself
_SECTIONS = ("plugin", "disabled")  # of `plugins:` in config.yaml, so no names of slots
_SLOT_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")

_Loader = tuple[str, str, str, Callable[[], object]]  # distribution, name, version, and what imports it


class _Fault(Exception):
    """Why a plugin fails as a whole."""


@dataclass
class Discovery:
    """The plugins that were found, and the manager that can call their hooks."""

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
            return call(self.manager, hook, plugin, name, {}, None if is_bundled(name) else self.limit_s)

    def answer(self, hook: str, plugin: object, name: str) -> object:
        """Returns what one plugin answers to a hook, None where it does not implement it; raises `_Fault`."""
        if hook not in implemented(self.manager, plugin):
            return None
        called = self.ask(hook, plugin, name)
        if called.error:
            raise _Fault(f"{hook}: {called.error}")
        return called.value

    @property
    def files(self) -> list[str]:
        """Returns the files in which the plugins say what they offer."""
        modules = [getattr(plugin, "__name__", type(plugin).__module__) for plugin in self.manager.get_plugins()]
        found = [getattr(sys.modules.get(name), "__file__", None) for name in modules]
        return sorted({path for path in found if path})


def installed() -> dict[str, EntryPoint]:
    """Returns the entry points of the plugins that are installed, by DISTRIBUTION/NAME; none is imported."""
    from importlib.metadata import entry_points

    points = entry_points(group=hookspecs.GROUP)
    # Once for each distribution, which brings many: it parses its metadata anew at each question.
    names = {dist: "?" if dist is None else dist.name for dist in {point.dist for point in points}}
    return {f"{names[point.dist]}/{point.name}": point for point in points}


def discover(
    disabled: Sequence[str] = (),
    *,
    safe: bool = False,
    extra: Iterable[_Loader] = (),
    skip: Mapping[str, str] | None = None,
    limit_s: float | None = None,
    watch: Callable[[str | None, str], None] | None = None,
) -> Discovery:
    """Loads and asks every plugin, each in its own guard.

    Args:
        disabled: names, bare or qualified, that are not loaded.
        safe: loads only what the distribution of Perpetual itself brings.
        extra: further plugins as (distribution, name, version, loader), for tests.
        skip: plugins that are known to fail, each with its reason; they are not loaded.
        limit_s: seconds for each import and each hook of other distributions, as far as a running process can hold it.
        watch: is called with a plugin's name and `import` or `hooks` before each step, and with None after it.
    """
    found: dict[str, _Loader] = {}
    points = installed()
    versions = {dist: "?" if dist is None else dist.version for dist in {point.dist for point in points.values()}}
    for id, point in points.items():
        found[id] = (id.partition("/")[0], point.name, versions[point.dist], point.load)
    for distribution, name, version, loader in extra:
        found[f"{distribution}/{name}"] = (distribution, name, version, loader)

    result = Discovery(hookspecs.plugin_manager(), limit_s=limit_s, watch=watch)
    left_out = caches.left_out()
    loaded: list[tuple[PluginInfo, object]] = []
    for id, (distribution, name, version, loader) in sorted(
        found.items(), key=lambda item: (item[1][0] != DISTRIBUTION, item[0])
    ):
        why_not = None
        if safe and distribution != DISTRIBUTION:
            why_not = "safe mode: only bundled plugins"
        elif name in disabled or id in disabled:
            why_not = "plugins.disabled names it"
        elif name in left_out or id in left_out:
            why_not = "left out by --without or PERPETUAL_WITHOUT"
        if why_not is not None:
            result.plugins.append(PluginInfo(name, id, version, "disabled", why_not))
            continue
        if skip is not None and id in skip:
            result.plugins.append(PluginInfo(name, id, version, "failed", skip[id]))
            continue
        try:
            with collected() as replaced:
                with result.at(id, "import"):
                    plugin = loader() if limit_s is None or is_bundled(id) else call_within(limit_s, loader)
                hash(plugin)  # pluggy keeps plugins in sets: one that cannot be kept there fails here, and alone
                result.manager.register(plugin, name=id)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # noqa: BLE001 - a module may even call sys.exit at its top; it alone fails
            result.plugins.append(PluginInfo(name, id, version, "failed", import_problem(problem)))
            continue
        loaded.append((PluginInfo(name, id, version, "loaded", None, deprecations=tuple(replaced)), plugin))
    _ask(result, loaded)
    return result


def _ask(result: Discovery, loaded: list[tuple[PluginInfo, object]]) -> None:
    """Fills `result.plugins` with what each loaded plugin offers."""
    failed = _add_hookspecs(result, loaded)
    brought = _add_slots(result, loaded, failed)
    every = [*SLOTS.values(), *(slot for slots in brought.values() for slot in slots)]
    provider_hooks = {slot.hook: slot.name for slot in every}
    seen: dict[str, set[tuple[str, str]]] = {}  # slots and names, by distribution
    named: dict[str, str] = {}  # plugins that bring kinds or keys, which bear their names
    for info, plugin in loaded:
        id = info.qualified_name
        try:
            if reason := failed.get(id) or misfit(result.manager, plugin):
                raise _Fault(reason)
            offers = _offers(result, id, plugin, provider_hooks, seen.setdefault(id.rpartition("/")[0], set()))
            kinds = _kinds(result, id, plugin)
            _claim(named, info, "kinds" if kinds else None)
            options = _options(result, id, plugin, _OPTIONS)
            keys = _methodology(result, id, plugin)
            _claim(named, info, "keys" if keys else None)
        except _Fault as fault:
            result.manager.unregister(name=id)
            result.plugins.append(replace(info, state="failed", reason=str(fault)))
            continue
        asked = {*provider_hooks, _HOOKSPECS, _SLOTS, _KINDS, _OPTIONS, _KEYS}
        result.plugins.append(
            replace(
                info,
                offers=tuple(offers),
                hooks=tuple(sorted({*implemented(result.manager, plugin)} - asked)),
                slots=tuple(brought.get(id, ())),
                kinds=tuple(kind for kind in kinds if isinstance(kind, RecordKind)),
                events=tuple(kind for kind in kinds if isinstance(kind, EventKind)),
                methodology=keys,
                options=options,
                deprecations=(*info.deprecations, *_older(offers)),
            )
        )


def _claim(named: dict[str, str], info: PluginInfo, what: str | None) -> None:
    """Gives a plugin its bare name for kinds and keys; raises `_Fault` if another plugin has it."""
    if what is not None and named.setdefault(info.name, info.qualified_name) != info.qualified_name:
        raise _Fault(f"{named[info.name]} brings {what} named {info.name}.* already")


def _older(offers: Sequence[Offer]) -> list[str]:
    """Returns what is written for a plugin interface that is served beside a newer one."""
    return [
        f"{offer.provider.slot} {offer.provider.name} is written for plugin API {offer.provider.api}; {API} is current"
        for offer in offers
        if offer.refused is None and offer.provider.api < API
    ]


# --- hooks and slots that plugins bring -----------------------------------------------------------------------------


def _add_hookspecs(result: Discovery, loaded: list[tuple[PluginInfo, object]]) -> dict[str, str]:
    """Takes in the hooks that plugins bring, before any is asked; returns what went wrong, by plugin."""
    failed: dict[str, str] = {}
    for info, plugin in loaded:
        if _HOOKSPECS not in implemented(result.manager, plugin):
            continue
        called = result.ask(_HOOKSPECS, plugin, info.qualified_name)
        try:
            for module in called.value or ():
                result.manager.add_hookspecs(module)
        except Exception as problem:  # noqa: BLE001 - whatever a foreign module of hookspecs raises is its plugin's fault
            failed[info.qualified_name] = f"{type(problem).__name__}: {problem}"
        if called.error:
            failed[info.qualified_name] = called.error
    return failed


def _add_slots(
    result: Discovery, loaded: list[tuple[PluginInfo, object]], failed: dict[str, str]
) -> dict[str, list[Slot]]:
    """Takes in the slots that plugins bring, and specifies the hook of each; adds to `failed` what went wrong.

    Returns:
        the slots that each plugin brings.
    """
    brought: dict[str, list[Slot]] = {}
    taken = {slot.name for slot in SLOTS.values()}
    for info, plugin in loaded:
        id = info.qualified_name
        if id in failed:
            continue
        try:
            slots = _listed(result.answer(_SLOTS, plugin, id))
            hooks = {*specified(result.manager)}
            for slot in slots:
                _check_slot(slot, taken, hooks)
                taken.add(slot.name)
                hooks.add(slot.hook)
        except _Fault as fault:
            failed[id] = str(fault)
            continue
        for slot in slots:
            _specify(result.manager, slot)
        brought[id] = slots
    return brought


def _listed(answer: object) -> list[Any]:
    return list(answer) if isinstance(answer, (list, tuple)) else []


def _check_slot(slot: object, taken: set[str], hooks: set[str]) -> None:
    """Raises `_Fault` for what can be no slot; `taken` are the names of slots, `hooks` those of hooks."""
    if not isinstance(slot, Slot):
        raise _Fault(f"{_SLOTS} answered a {type(slot).__name__} instead of a Slot")
    if not _SLOT_NAME.match(slot.name):
        raise _Fault(f"the slot {slot.name!r} is no name (small letters, digits, underscores)")
    if slot.name in taken or slot.name in _SECTIONS:
        raise _Fault(f"the slot {slot.name} exists already")
    if not slot.hook.isidentifier() or slot.hook in hooks:
        raise _Fault(f"the slot {slot.name}: its hook {slot.hook!r} exists already, or is no name")
    if slot.selection not in ("one", "all", METHODOLOGY):
        raise _Fault(f"the slot {slot.name}: its selection {slot.selection!r} is none of one, all, methodology")
    if slot.selection != METHODOLOGY and slot.key is not None:
        raise _Fault(f"the slot {slot.name}: a key of config.yaml is for Perpetual's own slots; leave key out")
    if set(slot.arguments) - {"path"}:
        raise _Fault(f"the slot {slot.name}: a factory gets options, and path where the slot asks for it; nothing else")
    for home in (slot.base, None if slot.suite is None else slot.suite.home):
        if home is not None and not _FACTORY.match(home):
            raise _Fault(f"the slot {slot.name}: {home!r} is not module:class")


def _specify(manager: pluggy.PluginManager, slot: Slot) -> None:
    """Adds the specification of a slot's hook."""

    def specification() -> list[Provider]:  # type: ignore[empty-body]  # pluggy reads it, and nothing calls it
        """Offers providers of the slot."""

    specification.__name__ = slot.hook
    manager.add_hookspecs(type("Specifications", (), {slot.hook: staticmethod(hookspecs.hookspec(specification))}))


# --- what one plugin offers; each raises `_Fault` for what cannot be used -------------------------------------------


def _offers(
    result: Discovery, plugin_name: str, plugin: object, hooks: Mapping[str, str], seen: set[tuple[str, str]]
) -> list[Offer]:
    """Returns the providers that a plugin answers; `seen` holds what its distribution offers, (slot, name)."""
    offers: list[Offer] = []
    distribution = plugin_name.rpartition("/")[0]
    for hook in implemented(result.manager, plugin):
        slot = hooks.get(hook)
        if slot is None:
            continue
        for provider in cast(Iterable[object], result.answer(hook, plugin, plugin_name) or ()):
            if not isinstance(provider, Provider):
                raise _Fault(f"{hook}: answered a {type(provider).__name__} instead of a Provider")
            refused = _refusal(provider, slot, seen)
            seen.add((slot, provider.name))
            offers.append(Offer(f"{distribution}/{provider.name}", plugin_name, provider, refused))
    return offers


def _refusal(provider: Provider, slot: str, seen: set[tuple[str, str]]) -> str | None:
    """Returns why a provider cannot be chosen, None if it can."""
    if provider.slot != slot:
        return f"{provider.name}: its slot is {provider.slot!r}, the hook's is {slot!r}"
    if not _NAME.match(provider.name):
        return f"{provider.name!r} is no name (small letters, digits, . _ -)"
    if provider.api not in SERVED:
        served = " and ".join(map(str, SERVED))
        needs = f"{'a newer' if provider.api > API else 'an older'} Perpetual"
        way = f": {UPGRADE}" if provider.api > API else ""
        return f"{provider.name} needs {needs}, as written for plugin API {provider.api}; this one serves {served}{way}"
    if not _FACTORY.match(provider.factory):
        return f"{provider.name}: the factory {provider.factory!r} is not module:callable"
    if (slot, provider.name) in seen:
        return f"{provider.name} is offered twice for {slot} by one distribution"
    return command_problem(provider.name) if slot == "command" else None


def _kinds(result: Discovery, plugin_name: str, plugin: object) -> list[RecordKind | EventKind]:
    kinds = _listed(result.answer(_KINDS, plugin, plugin_name))
    if wrong := next((words for kind in kinds if (words := kind_problem(kind)) is not None), None):
        raise _Fault(f"{_KINDS}: {wrong}")
    names = [kind.name for kind in kinds]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise _Fault(f"{_KINDS}: {twice} is there twice")
    return kinds


def _options(result: Discovery, plugin_name: str, plugin: object, hook: str) -> dict[str, Option] | None:
    """Returns the named options that a plugin answers to a hook, None where it does not implement it."""
    if hook not in implemented(result.manager, plugin):
        return None
    options = result.answer(hook, plugin, plugin_name) or {}
    if not isinstance(options, dict) or not all(
        isinstance(key, str) and isinstance(option, Option) for key, option in options.items()
    ):
        raise _Fault(f"{hook} answered a {type(options).__name__} that is no mapping of names to Options")
    return options


def _methodology(result: Discovery, plugin_name: str, plugin: object) -> dict[str, Option]:
    """Returns the keys of methodology.yaml that a plugin brings."""
    keys = _options(result, plugin_name, plugin, _KEYS) or {}
    for name, option in keys.items():
        if not _SLOT_NAME.match(name):
            raise _Fault(f"{_KEYS}: {name!r} is no name of a key (small letters, digits, underscores)")
        if option.type == "section" or option.items == "section" or option.secret or option.variable:
            raise _Fault(f"{_KEYS}: {name}: a key of the methodology is a plain value, and no secret")
        if not option.meaning.strip():
            raise _Fault(f"{_KEYS}: {name} says nothing of what it means")
        try:
            check(key_of_option(name, option), option.default, "its default")
        except ConfigError as problem:
            raise _Fault(f"{_KEYS}: {problem.message}") from problem
    return keys
