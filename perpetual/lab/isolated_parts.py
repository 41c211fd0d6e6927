"""Parts of other distributions, called in the lab's helper process, and those that are left out. Floor 2.

The process is started by the first call, kept while the lab is open, and killed when a call exceeds its limit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perpetual.catalogue import PluginInfo
from perpetual.errors import masked
from perpetual.records import Event, to_json
from perpetual.registry import Registry
from perpetual.slots.gate import Gate, GateVerdict, TextProvenance, thaw_verdict
from perpetual.toolkit.deadline import OutOfTime
from perpetual.toolkit.helper_process import HelperEnded, HelperHung, HelperProcess
from perpetual.toolkit.hook_calls import Called
from perpetual.toolkit.plugin_failures import Failures, PluginFailures
from perpetual.toolkit.secret import carried

__all__ = ["HelperGate", "PartFailures", "PartRaised", "observe"]


class PartRaised(Exception):
    """A part raised in the helper process; `kind` is the type of what it raised."""

    def __init__(self, words: str, kind: str) -> None:
        super().__init__(words)
        self.kind = kind


class HelperGate(Gate):
    """A gate that is built and asked in the helper process."""

    def __init__(self, helper: HelperProcess, factory: str, options: Mapping[str, object], limit_s: float) -> None:
        self._helper, self._limit_s = helper, limit_s
        self._gate = {"factory": factory, "options": carried(dict(options))}
        self._ask("build")

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        """Judges the text; see `Gate`."""
        place = [provenance.path, provenance.type, provenance.actor]
        return thaw_verdict(self._ask("scan", text=text, provenance=place)["verdict"])

    def redact(self, text: str, verdict: GateVerdict) -> str:
        """Takes out what the verdict found; see `Gate`."""
        clean: str = self._ask("redact", text=text, verdict=asdict(verdict))["text"]
        return clean

    def _ask(self, deed: str, **question: object) -> dict[str, Any]:
        try:
            answer = self._helper.ask(deed, self._limit_s, **self._gate, **question)
        except HelperHung as problem:
            raise OutOfTime(problem.seconds) from None
        if "error" in answer:
            raise PartRaised(masked(str(answer["error"])), str(answer["type"]))
        return answer


def observe(
    helper: HelperProcess,
    plugin: str,
    event: Event,
    options: Mapping[str, object],
    limit_s: float,
    *,
    lab: Mapping[str, str],
) -> Called:
    """Offers an event to an observer of another distribution, with the options of its plugin.

    Args:
        lab: `project` (its folder) and `actor`, with which the helper opens the lab where the observer asks for it.
    """
    sent = carried(dict(options))
    try:
        answer = helper.ask("observe", limit_s, plugin=plugin, event=to_json(event), options=sent, lab=dict(lab))
    except (HelperHung, HelperEnded, OSError) as problem:
        return Called(plugin, error=str(problem))
    error = answer.get("error")
    return Called(plugin, error=masked(str(error)) if error else None)


class PartFailures:
    """The failures in a row of plugins' parts in one project, by plugin and part (`gate pii`, `observer`)."""

    def __init__(self, folder: str, registry: Registry) -> None:
        self._failures = PluginFailures(f"project {os.path.abspath(folder)}")
        self._registry = registry

    def left_out(self) -> dict[tuple[str, str], Failures]:
        """Returns the parts that are left out, by plugin and part; a changed version of a plugin begins anew."""
        versions = {info.qualified_name: info.version for info in self._registry.plugins}
        found = {}
        for key, one in self._failures.read().items():
            plugin, _, part = key.partition(" ")
            if one.is_left_out and versions.get(plugin) == one.stamp:
                found[plugin, part] = one
        return found

    def add(self, plugin: str, part: str, reason: str) -> None:
        """Counts a failure."""
        self._failures.add(f"{plugin} {part}", f"{part}: {reason}", self._version(plugin))

    def clear(self, plugin: str, part: str) -> None:
        """Notes that a part has served."""
        self._failures.clear(f"{plugin} {part}")

    def forget(self, plugin: str) -> None:
        """Forgets all failures of a plugin here."""
        self._failures.clear(*(key for key in self._failures.read() if key.partition(" ")[0] == plugin))

    def of(self, info: PluginInfo) -> list[Failures]:
        """Returns the failures of a plugin's parts that are left out."""
        return [one for (plugin, _), one in self.left_out().items() if plugin == info.qualified_name]

    def _version(self, plugin: str) -> str:
        return next((info.version for info in self._registry.plugins if info.qualified_name == plugin), "")
