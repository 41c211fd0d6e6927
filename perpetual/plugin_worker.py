"""Tasks of the plugins' helper process: discover them, judge a text by a gate, offer an event to an observer.

The kernel names this table (`hookspecs.DEEDS`) and never imports it. Floor 4.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib import import_module
from typing import Any

from perpetual.toolkit.helper_worker import Deed, Json
from perpetual.toolkit.secret import uncarried

__all__ = ["DEEDS"]


def _discover(say: Callable[[Json], None], disabled: list[str], safe: bool, skip: dict[str, str]) -> Json:
    import perpetual.api  # noqa: F401 - what every plugin imports is no plugin's own cost
    from perpetual.discovery import discover

    def watch(plugin: str | None, step: str) -> None:
        say({"at": plugin, "step": step})

    sys.dont_write_bytecode = True  # a new __pycache__ changes the folder of the path, which the cache's key names
    found = discover(disabled, safe=safe, skip=skip, watch=watch)
    return {"plugins": [asdict(info) for info in found.plugins], "files": found.files, "spent": found.spent}


@cache
def _gate(factory: str, options: str) -> Any:
    module, _, name = factory.partition(":")
    return getattr(import_module(module), name)(uncarried(json.loads(options)))


def _build(say: Callable[[Json], None], factory: str, options: Json) -> Json:
    _gate(factory, json.dumps(options))
    return {}


def _scan(say: Callable[[Json], None], factory: str, options: Json, text: str, provenance: list[str]) -> Json:
    from perpetual.slots.gate import GateVerdict, TextProvenance

    verdict: object = _gate(factory, json.dumps(options)).scan(text, TextProvenance(*provenance))
    if not isinstance(verdict, GateVerdict):
        raise TypeError("it answered no verdict")
    return {"verdict": asdict(verdict)}


def _redact(say: Callable[[Json], None], factory: str, options: Json, text: str, verdict: Json) -> Json:
    from perpetual.slots.gate import thaw_verdict

    return {"text": _gate(factory, json.dumps(options)).redact(text, thaw_verdict(verdict))}


@cache
def _observer(plugin: str) -> Any:
    from importlib.metadata import entry_points

    from perpetual import hookspecs

    manager = hookspecs.plugin_manager()
    for point in entry_points(group=hookspecs.GROUP):
        if point.dist is not None and f"{point.dist.name}/{point.name}" == plugin:
            manager.register(point.load())
            return manager.hook
    raise LookupError(f"{plugin} is not installed any more")


@cache
def _lab(project: str, actor: str) -> object:
    from perpetual.lab import Lab

    return Lab.open(project, actor=actor)


def _observe(say: Callable[[Json], None], plugin: str, event: Json, options: Json, lab: dict[str, str]) -> Json:
    from perpetual.records import Event, from_json

    hook = _observer(plugin).perpetual_event
    asks = any("lab" in implementation.argnames for implementation in hook.get_hookimpls())
    hook(event=from_json(Event, event), lab=_lab(**lab) if asks else None, options=uncarried(options))
    return {}


DEEDS: dict[str, Deed] = {"discover": _discover, "build": _build, "scan": _scan, "redact": _redact, "observe": _observe}
