"""Whether a provider fits its slot, as far as that can be seen without building it; and what its slot's suite finds.

Used by `perpetual.lab.inventory` (`perpetual plugins check`). Floor 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perpetual.errors import ConfigError, PerpetualError
from perpetual.registry import Offer, PluginInfo, Registry
from perpetual.schema import Key, check

__all__ = ["examine", "not_loaded"]


class _Misfit(Exception):
    """What does not hold, in words."""


class _Untold(Exception):
    """Why a thing cannot be told without building the part."""


def not_loaded(info: PluginInfo) -> dict[str, Any]:
    """The item of a plugin that failed, or that is disabled; see `Inventory.examine`."""
    ok = None if info.state == "disabled" else False
    return {
        "plugin": info.qualified_name,
        "slot": None,
        "name": info.name,
        "qualified_name": info.qualified_name,
        "ok": ok,
        "checks": [{"check": "plugin", "ok": ok, "detail": info.reason or info.state}],
        **_without_suite("the plugin is not loaded"),
    }


def examine(registry: Registry, info: PluginInfo, offer: Offer, *, suites: bool) -> dict[str, Any]:
    """The item of one provider; see `Inventory.examine`."""
    checks = [_named("offer", lambda: _offered(registry, offer)), _named("options", lambda: _options(offer))]
    checks.append(_named("factory", lambda: _loaded(registry, offer)))
    if checks[-1]["ok"]:
        factory = registry.load(offer)
        checks.append(_named("call", lambda: _call_shape(registry, offer, factory)))
        if checks[-1]["ok"] is not False:
            checks.append(_named("answer", lambda: _answer_shape(registry, offer, factory)))
    if offer.provider.head is not None:
        checks.append(_named("head", lambda: _head(offer)))
    fits = all(check["ok"] is not False for check in checks)
    is_broken, suite = False, _without_suite("not asked for")
    if suites and fits:
        is_broken, suite = _with_suite(registry, offer)
    elif suites:
        suite = _without_suite("a provider that does not fit its slot is not run")
    return {
        "plugin": info.qualified_name,
        "slot": offer.provider.slot,
        "name": offer.provider.name,
        "qualified_name": offer.qualified_name,
        "ok": fits and not is_broken,
        "checks": checks,
        **suite,
    }


def _without_suite(reason: str) -> dict[str, Any]:
    return {"suite": None, "suite_reason": reason, "promises": []}


def _with_suite(registry: Registry, offer: Offer) -> tuple[bool, dict[str, Any]]:
    """Whether a promise is broken, and what the slot's suite found, if there is one."""
    from perpetual.records import to_json
    from perpetual.suites import run_suite

    provider = offer.provider
    defaults = {key: option.default for key, option in (provider.options or {}).items()}
    result = run_suite(registry.slot(provider.slot), offer.qualified_name, provider.factory, defaults)
    found = {"suite": result.suite, "suite_reason": result.reason, "promises": to_json(result.promises)}
    return result.ok is False, found


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


def _offered(registry: Registry, offer: Offer) -> str:
    """The registry would choose it."""
    reason = registry.why_not(offer)
    if reason:
        raise _Misfit(reason)
    return f"offered for {offer.provider.slot}, plugin interface {offer.provider.api}"


def _loaded(registry: Registry, offer: Offer) -> str:
    """Its factory can be imported."""
    registry.load(offer)
    return offer.provider.factory


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


def _call_shape(registry: Registry, offer: Offer, factory: Any) -> str:
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
    arguments = registry.slot(slot).arguments
    extra = dict.fromkeys(arguments)
    wanted = f"({', '.join(['options', *(f'{name}=...' for name in arguments)])})"
    try:
        inspect.signature(factory).bind({}, **extra)
    except TypeError as problem:
        raise _Misfit(f"it cannot be called with {wanted}: {problem}") from problem
    except ValueError as problem:  # a callable written in C tells no signature
        raise _Untold(f"its signature cannot be read: {problem}") from problem
    return f"it is called with {wanted}"


def _answer_shape(registry: Registry, offer: Offer, factory: Any) -> str:
    """What the factory answers is of its slot's base, where the factory is a class or says what it answers."""
    import inspect
    import typing

    home = registry.slot(offer.provider.slot).base
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
