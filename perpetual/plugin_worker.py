"""The program of the helper process that `perpetual.plugin_process` starts: discovers, judges, observes.

A timer of the operating system ends the process long after its limit, should the process that asked be gone. Floor 4.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib import import_module
from typing import IO, Any

from perpetual.toolkit.contained import contained
from perpetual.toolkit.secret import uncarried

__all__ = ["main"]

_LATE_S = 60.0  # beyond the limit, when nobody else has ended this process

Json = dict[str, Any]


def main() -> None:
    """Answers questions until standard input ends."""
    questions, answers = _streams()
    for line in questions:
        question: Json = json.loads(line)
        deed, limit_s = question.pop("deed"), question.pop("limit_s")
        _arm(limit_s + _LATE_S)
        try:
            with contained():
                found = _DEEDS[deed](answers, **question)
        except Exception as problem:  # noqa: BLE001 - the answer names it; the process goes on
            found = {"error": f"{type(problem).__name__}: {problem}", "type": type(problem).__name__}
        _arm(0)
        _write(answers, found)


def _streams() -> tuple[IO[str], IO[str]]:
    """Takes standard input and output for the protocol: plugins read nothing, and print to standard error."""
    questions = os.fdopen(os.dup(0), encoding="ascii")
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # it is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return questions, answers


def _arm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _write(answers: IO[str], document: Json) -> None:
    answers.write(json.dumps(document) + "\n")
    answers.flush()


def _discover(answers: IO[str], disabled: list[str], safe: bool, skip: dict[str, str]) -> Json:
    import perpetual.api  # noqa: F401 - what every plugin imports is no plugin's own cost
    from perpetual.registry import discover

    def watch(plugin: str | None, step: str) -> None:
        _write(answers, {"at": plugin, "step": step})

    sys.dont_write_bytecode = True  # a new __pycache__ changes the folder of the path, which the cache's key names
    found = discover(disabled, safe=safe, skip=skip, watch=watch)
    return {"plugins": [asdict(info) for info in found.plugins], "files": found.files, "spent": found.spent}


@cache
def _gate(factory: str, options: str) -> Any:
    module, _, name = factory.partition(":")
    return getattr(import_module(module), name)(uncarried(json.loads(options)))


def _build(answers: IO[str], factory: str, options: Json) -> Json:
    _gate(factory, json.dumps(options))
    return {}


def _scan(answers: IO[str], factory: str, options: Json, text: str, provenance: list[str]) -> Json:
    from perpetual.slots.gate import GateVerdict, Provenance

    verdict: object = _gate(factory, json.dumps(options)).scan(text, Provenance(*provenance))
    if not isinstance(verdict, GateVerdict):
        raise TypeError("it answered no verdict")
    return {"verdict": asdict(verdict)}


def _redact(answers: IO[str], factory: str, options: Json, text: str, verdict: Json) -> Json:
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
def _lab(project: str, actor: str) -> Any:
    from perpetual.lab import Lab

    return Lab.open(project, actor=actor)


def _observe(answers: IO[str], plugin: str, event: Json, options: Json, lab: dict[str, str]) -> Json:
    from perpetual.records import Event, from_json

    hook = _observer(plugin).perpetual_event
    asks = any("lab" in implementation.argnames for implementation in hook.get_hookimpls())
    hook(event=from_json(Event, event), lab=_lab(**lab) if asks else None, options=uncarried(options))
    return {}


_DEEDS: dict[str, Callable[..., Json]] = {
    "discover": _discover,
    "build": _build,
    "scan": _scan,
    "redact": _redact,
    "observe": _observe,
}

if __name__ == "__main__":
    sys.exit("perpetual.plugin_process starts this")
