"""Whether a provider fits its slot, as far as that can be seen without building it; and what its slot's suite finds.

`check_plugins` is `perpetual plugins check`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perpetual.api import Inventory, Offer, PerpetualError, PluginInfo
from perpetual.toolkit.deprecation import collected
from perpetual_devkit.contract_runner import TEST_LIMIT_S, Promise, SuiteResult, run_suite
from perpetual_devkit.scratch_calls import CALLED, KINDS, OBSERVER, call_in_scratch

__all__ = ["Check", "ProviderChecked", "check_plugins"]

_OBSERVES = "perpetual_event"  # the hook


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a provider must be; `ok` is None where its factory does not tell."""

    check: str
    ok: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class ProviderChecked:
    """How a provider compares with its slot; a plugin that did not load has no slot, and `ok` None if it is disabled.

    `suite` is the contract suite; `suite_reason` says why there is none, why it did not run, or not to its end.
    """

    plugin: str
    slot: str | None
    name: str
    qualified_name: str
    ok: bool | None
    checks: tuple[Check, ...]
    suite: str | None
    suite_reason: str | None
    promises: tuple[Promise, ...]


class _Misfit(Exception):
    """What does not hold, in words."""


class _Unclear(Exception):
    """Why a check has no verdict without building the part."""


def check_plugins(
    inventory: Inventory, name: str | None = None, *, suites: bool = False, test_limit_s: float = TEST_LIMIT_S
) -> list[ProviderChecked]:
    """Loads the factory of each provider of the plugin `name`, or of all, and compares it with its slot.

    Args:
        suites: also runs the contract suite of the slot, where there is one, against what the factory builds with the
            options' defaults; kills a few writers of a store that takes several processes; and calls commands, MCP
            tools, report sections and observers of events in a scratch lab, where rows of a plugin's kinds are written,
            exported and imported. Each takes seconds, in a process and a folder of its own. Without it nothing is
            built.
        test_limit_s: seconds until a test of a suite is killed and its promise is broken.

    Raises:
        NotFound: if there is no such plugin.
    """
    items: list[ProviderChecked] = []
    for info in inventory.found(name):
        if info.state != "loaded":
            items.append(_not_loaded(info))
        limit_s = test_limit_s if suites else None
        items += [_checked(inventory, info, offer, limit_s) for offer in info.offers]
        if suites and info.state == "loaded" and _OBSERVES in info.hooks:
            items.append(_called(info, OBSERVER, _OBSERVES))
        if suites and info.state == "loaded" and (info.kinds or info.events):
            items.append(_called(info, KINDS, "perpetual_kinds"))
    return items


def _called(info: PluginInfo, what: str, hook: str) -> ProviderChecked:
    """Tries, in a scratch lab, what a plugin brings by a hook."""
    called = call_in_scratch(what, info.qualified_name, "", {})
    check = Check(hook, called.ok, called.detail)
    reason = f"there is no contract suite for {'an observer' if what == OBSERVER else 'kinds'}"
    id = info.qualified_name
    return ProviderChecked(id, None, info.name, id, called.ok is not False, (check,), None, reason, ())


def _not_loaded(info: PluginInfo) -> ProviderChecked:
    ok = None if info.state == "disabled" else False
    check = Check("plugin", ok, info.reason or info.state)
    reason = "the plugin is not loaded"
    return ProviderChecked(info.qualified_name, None, info.name, info.qualified_name, ok, (check,), None, reason, ())


def _checked(inventory: Inventory, info: PluginInfo, offer: Offer, test_limit_s: float | None) -> ProviderChecked:
    """Checks one provider; without a limit no suite is run."""
    provider = offer.provider
    with collected() as replaced:
        loaded = _named("factory", lambda: _loaded(inventory, offer))
    checks = [
        _named("offer", lambda: _offered(inventory, offer)),
        _named("options", lambda: _options(inventory, offer)),
        loaded,
    ]
    old = [*info.deprecations, *replaced]
    if old:
        checks.append(Check("names", None, "; ".join(dict.fromkeys(old))))
    if loaded.ok:
        factory = inventory.load(offer)
        checks.append(_named("call", lambda: _call_shape(inventory, offer, factory)))
        if checks[-1].ok is not False:
            checks.append(_named("answer", lambda: _answer_shape(inventory, offer, factory)))
    if offer.provider.head is not None:
        checks.append(_named("head", lambda: _head(offer)))
    fits = all(check.ok is not False for check in checks)
    suite = SuiteResult(None, None, "not asked for")
    if test_limit_s is not None and fits:
        suite = _suite(inventory, offer, test_limit_s)
        if provider.slot in CALLED and suite.ok is not False:
            called = call_in_scratch(
                provider.slot, offer.qualified_name, provider.factory, inventory.default_options(offer)
            )
            checks.append(Check("chaos" if provider.slot == "store" else "called", called.ok, called.detail))
            fits = called.ok is not False
    elif test_limit_s is not None:
        suite = SuiteResult(None, None, "a provider that does not fit its slot is not run")
    return ProviderChecked(
        info.qualified_name,
        offer.provider.slot,
        offer.provider.name,
        offer.qualified_name,
        fits and suite.ok is not False,
        tuple(checks),
        suite.suite,
        suite.reason,
        suite.promises,
    )


def _suite(inventory: Inventory, offer: Offer, test_limit_s: float) -> SuiteResult:
    provider = offer.provider
    defaults = inventory.default_options(offer)
    row = inventory.slots()[provider.slot]
    return run_suite(row, offer.qualified_name, provider.factory, defaults, test_limit_s=test_limit_s)


def _named(name: str, look: Callable[[], str]) -> Check:
    """Returns one check's answer; whatever loading a plugin's module raises is that plugin's finding."""
    try:
        return Check(name, True, look())
    except _Unclear as reason:
        return Check(name, None, str(reason))
    except (_Misfit, PerpetualError) as problem:
        return Check(name, False, str(problem))
    except Exception as problem:  # noqa: BLE001 - a foreign module may raise anything; the other providers are still looked at
        return Check(name, False, f"{type(problem).__name__}: {problem}")


def _offered(inventory: Inventory, offer: Offer) -> str:
    """Checks that the registry would choose it."""
    reason = inventory.why_not(offer)
    if reason:
        raise _Misfit(reason)
    return f"offered for {offer.provider.slot}, plugin interface {offer.provider.api}"


def _loaded(inventory: Inventory, offer: Offer) -> str:
    """Checks that its factory can be imported."""
    inventory.load(offer)
    return offer.provider.factory


def _options(inventory: Inventory, offer: Offer) -> str:
    """Checks that each option has a known type, a default that fits it and a meaning."""
    inventory.check_options(offer)
    return f"{len(offer.provider.options)} options" if offer.provider.options else "no options"


def _call_shape(inventory: Inventory, offer: Offer, factory: object) -> str:
    """Checks that the factory can be called as its slot calls it."""
    import inspect

    slot = offer.provider.slot
    if slot == "command":
        import click

        if not isinstance(factory, click.Command):
            raise _Misfit(f"{offer.provider.factory} is a {type(factory).__name__} and no click command")
        return "a click command"
    if not callable(factory):
        raise _Misfit(f"{offer.provider.factory} is a {type(factory).__name__} and cannot be called")
    arguments = inventory.slots()[slot].arguments
    extra = dict.fromkeys(arguments)
    wanted = f"({', '.join(['options', *(f'{name}=...' for name in arguments)])})"
    try:
        inspect.signature(factory).bind({}, **extra)
    except TypeError as problem:
        raise _Misfit(f"it cannot be called with {wanted}: {problem}") from problem
    except ValueError as problem:  # a callable written in C tells no signature
        raise _Unclear(f"its signature cannot be read: {problem}") from problem
    return f"it is called with {wanted}"


def _answer_shape(inventory: Inventory, offer: Offer, factory: object) -> str:
    """Checks that the answer is of the slot's base, where the factory is a class or declares its answer."""
    import inspect
    import typing

    home = inventory.slots()[offer.provider.slot].base
    if home is None:
        raise _Unclear(f"a {offer.provider.slot} has no base class")
    base = _imported(home)
    if not inspect.isclass(base):
        raise _Misfit(f"{home} is no class")
    made = factory if inspect.isclass(factory) else typing.get_type_hints(factory).get("return")
    if not inspect.isclass(made):
        raise _Unclear("the factory has no return annotation that names a class")
    if not issubclass(made, base):
        raise _Misfit(f"it answers {made.__name__}, which is no {base.__name__}")
    if made is not base and inspect.isabstract(made):
        lacking = ", ".join(sorted(getattr(made, "__abstractmethods__", ())))
        raise _Misfit(f"{made.__name__} lacks {lacking}")
    return f"{made.__name__} is a {base.__name__}"


def _head(offer: Offer) -> str:
    """Checks that the store's head function exists and takes the folder."""
    import inspect

    head = _imported(offer.provider.head or "")
    if not callable(head):
        raise _Misfit(f"{offer.provider.head} cannot be called")
    try:
        inspect.signature(head).bind("folder")
    except TypeError as problem:
        raise _Misfit(f"{offer.provider.head} cannot be called with (path): {problem}") from problem
    return f"{offer.provider.head}(path)"


def _imported(name: str) -> object:
    from importlib import import_module

    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
