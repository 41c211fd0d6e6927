"""Discovery of other distributions' plugins in a helper process: one that hangs or dies is named and left out. Floor 0.

The helper says what it begins, so that the time of each plugin is known. When one exceeds its limit the helper is
killed, and another one finds the rest.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from perpetual.toolkit import plugin_failures
from perpetual.toolkit.helper_process import HelperEnded, HelperHung, HelperProcess
from perpetual.toolkit.plugin_failures import Failures, PluginFailures
from perpetual.toolkit.reserved import is_bundled

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Found", "State", "discovered", "forget"]

_OWN_S = 60.0  # for what the helper does itself between two plugins
_STEPS = {"import": "while it was imported", "hooks": "in a hook"}


@dataclass(frozen=True)
class State:
    """How a plugin that failed is shown, and when it is tried again."""

    words: str
    retry_at: float | None


@dataclass
class Found:
    """What the helper answered: plugins as plain data, the files that they came from, their times."""

    plugins: list[dict[str, object]]
    files: list[str]
    spent: dict[str, dict[str, float]]
    stamps: dict[str, str]  # of the plugins of other distributions
    known: dict[str, Failures] = field(default_factory=dict)  # that were not tried

    def noted(self, failed: Mapping[str, str]) -> dict[str, State]:
        """Counts the failures, forgets those of plugins that work now, and returns what becomes of each."""
        failures = _failures()
        recorded = failures.read()
        states = {}
        for name, reason in failed.items():
            if name not in self.stamps:  # a bundled one is never left out
                states[name] = State(reason, time.time() + plugin_failures.RETRY_S)
                continue
            one = self.known.get(name) or failures.add(name, reason, self.stamps[name])
            states[name] = State(one.words, None if one.is_left_out else one.time + plugin_failures.RETRY_S)
        failures.clear(*(name for name in recorded if name in self.stamps and name not in failed))
        if failed:
            self.files.append(failures.path)  # `plugins retry` changes it
        return states


def _failures() -> PluginFailures:
    return PluginFailures(f"environment {sys.prefix}")


def forget(plugin: str) -> None:
    """Forgets that a plugin could not be discovered."""
    _failures().clear(plugin)


def discovered(
    group: str,
    start: Callable[[], HelperProcess],
    disabled: Sequence[str],
    limit_s: float,
    *,
    safe: bool = False,
    always: bool = False,
) -> Found | None:
    """Returns what a helper process finds; None if there are bundled plugins only, or no helper can be started.

    Args:
        group: the group of entry points by which distributions bring plugins.
        start: makes a helper process whose deed `discover` answers plugins, files and times.
        disabled: names of plugins, bare or qualified, that are not loaded.
        safe: loads bundled plugins only.
        limit_s: seconds for each plugin of another distribution, its import and all of its hooks together.
        always: asks the helper in any case, and every plugin anew.
    """
    foreign = _foreign(group)
    if not foreign and not always:
        return None
    stamps = {name: _stamp(point) for name, point in foreign.items()}
    known = {} if always else {
        name: one
        for name, one in _failures().read().items()
        if name in stamps and one.stamp == stamps[name] and (one.is_left_out or one.is_recent)
    }  # fmt: skip
    skip = {name: one.reason for name, one in known.items()}
    try:
        while True:
            helper = start()
            try:
                answer = _asked(helper, {"disabled": [*disabled], "safe": safe, "skip": skip}, limit_s)
            finally:
                helper.kill()  # whatever threads plugins have started there
            if "plugins" in answer:
                files = [*answer["files"], *filter(None, map(_file, foreign.values()))]
                return Found(answer["plugins"], files, answer["spent"], stamps, known)
            if "error" in answer:
                return None
            skip |= answer
    except (OSError, HelperHung, HelperEnded):
        return None


def _asked(helper: HelperProcess, question: dict[str, object], limit_s: float) -> dict[str, Any]:
    """Returns the helper's answer, or `{plugin: reason}` for the one that kept it from answering."""
    helper.send("discover", limit_s + _OWN_S, **question)
    spent: dict[str, float] = {}
    plugin: str | None = None
    step = ""
    while True:
        is_limited = plugin is not None and not is_bundled(plugin)
        left_s = limit_s - spent.get(plugin or "", 0.0) if is_limited else _OWN_S
        began = time.monotonic()
        try:
            answer = helper.receive(left_s, limit_s)
        except (HelperHung, HelperEnded) as problem:
            if plugin is None or not is_limited:
                raise
            return {
                plugin: f"{problem}, {_STEPS[step]} (after {spent.get(plugin, 0.0) + time.monotonic() - began:.1f} s)"
            }
        if plugin is not None:
            spent[plugin] = spent.get(plugin, 0.0) + time.monotonic() - began
        if "at" not in answer:
            return answer
        at, step = answer["at"], str(answer["step"])
        plugin = None if at is None else str(at)


def _foreign(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of other distributions' plugins, by qualified name."""
    from importlib.metadata import entry_points

    found = {f"{'?' if one.dist is None else one.dist.name}/{one.name}": one for one in entry_points(group=group)}
    return {name: point for name, point in found.items() if not is_bundled(name)}


def _file(point: EntryPoint) -> str | None:
    """Returns the file of a plugin's module, found without importing it."""
    top, *rest = point.module.split(".")
    try:
        spec = PathFinder.find_spec(top)
    except (ImportError, ValueError, OSError):
        return None
    if spec is None or not rest or not spec.submodule_search_locations:
        return None if spec is None else spec.origin
    base = os.path.join(next(iter(spec.submodule_search_locations)), *rest)
    return next((path for path in (f"{base}.py", os.path.join(base, "__init__.py")) if os.path.exists(path)), None)


def _stamp(point: EntryPoint) -> str:
    """Returns what tells one state of a plugin's files from another."""
    version = "?" if point.dist is None else point.dist.version
    try:
        seen = os.stat(_file(point) or "")
    except OSError:
        return version
    return f"{version} {seen.st_ino} {seen.st_size} {seen.st_mtime_ns}"
