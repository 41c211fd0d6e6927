"""The program of the helper process that `perpetual.toolkit.helper_process` starts: does what a table of deeds says.

A deed takes a function that says something before the answer, and the fields of the question; it returns the answer.
A timer of the operating system ends the process long after its limit, should the process that asked be gone. Floor 0.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import IO, Any

from perpetual.toolkit.contained import contained

__all__ = ["Deed", "Json", "main"]

_LATE_S = 60.0  # beyond the limit, when nothing else has ended this process

Json = dict[str, Any]
Deed = Callable[..., Json]


def main(deeds: str) -> None:
    """Answers questions until standard input ends, by the table of deeds at `module:name`."""
    module, _, table = deeds.partition(":")
    questions, answers = _streams()
    for line in questions:
        question: Json = json.loads(line)
        deed, limit_s = question.pop("deed"), question.pop("limit_s")
        _arm(limit_s + _LATE_S)
        try:
            with contained():
                known: Mapping[str, Deed] = getattr(import_module(module), table)
                found = known[deed](partial(_write, answers), **question)
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
