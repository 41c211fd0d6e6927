"""Hooks of pluggy called one plugin at a time, guarded and named. Floor 0."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from perpetual.errors import masked, unknown
from perpetual.toolkit.contained import contained
from perpetual.toolkit.deadline import call as call_within

if TYPE_CHECKING:
    import pluggy

__all__ = ["Called", "call", "implemented", "misfit", "specified"]


@dataclass(frozen=True)
class Called:
    """One plugin's answer to a hook: `value`, or `error` in words."""

    plugin: str
    value: Any = None
    error: str | None = None


def _trace(hook: str, plugin: str, result: object) -> None:
    if os.environ.get("PERPETUAL_TRACE_HOOKS"):
        sys.stderr.write(f"hook {hook} <- {plugin}: {result!r}\n")


def call(
    manager: pluggy.PluginManager,
    hook: str,
    plugin: object,
    name: str,
    arguments: Mapping[str, object],
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


def implemented(manager: pluggy.PluginManager, plugin: object) -> list[str]:
    """Returns the names of the hooks that a registered plugin implements."""
    return [caller.name for caller in manager.get_hookcallers(plugin) or []]


def specified(manager: pluggy.PluginManager) -> list[str]:
    """Returns the names of the hooks that have a specification."""
    return [name for name, caller in vars(manager.hook).items() if getattr(caller, "spec", None) is not None]


def misfit(manager: pluggy.PluginManager, plugin: object) -> str | None:
    """Returns why a registered plugin cannot serve: an unspecified hook, or an argument that no call can give."""
    import inspect

    for caller in manager.get_hookcallers(plugin) or []:
        if caller.spec is None:
            optional = all(impl.optionalhook for impl in caller.get_hookimpls() if impl.plugin is plugin)
            if not optional:
                return unknown("hook", caller.name, specified(manager))
        for impl in caller.get_hookimpls():
            if impl.plugin is plugin:
                for parameter in inspect.signature(impl.function).parameters.values():
                    if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                        return f"{caller.name}: the keyword-only argument {parameter.name!r} is never given"
    return None
