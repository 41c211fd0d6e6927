"""What a right covers: the program that a person has approved, with other numbers.

A ceiling of hours does not bound what a command does. So a right approves no command that no person has approved: its
words are those of an experiment that a person approved here, and so are its folder, environment, engine and needed
artifacts, and what it declares to be no failure. Only numbers may differ, those of its configuration too. Its code is
the code that was approved with it, unless the ceiling says `code: any`.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from perpetual_autonomy.history import is_person

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment
    from perpetual.documents.provenance import CodeStateDocument

__all__ = ["Known", "shape", "worst_hours"]

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_SAME = ("scheduler", "engine", "nodes", "worktree", "isolate", "needs_artifacts")
_JUDGED = ("on_crash", "stop_rule")  # which say what is no failure
_EMPTY: tuple[object, ...] = (None, {}, [], (), False)


def _open_word(word: str) -> tuple[str, str]:
    """Returns a word with a number, or the number after its `=`, taken out; tagged, so that no text passes for one."""
    name, equals, value = word.rpartition("=")
    is_number = _NUMBER.match(value) and (equals or not name)
    return ("number", f"{name}{equals}") if is_number else ("word", word)


def _open(value: object) -> object:
    """Returns a value of the configuration with its numbers taken out; tagged as words are."""
    if isinstance(value, dict):
        return {key: _open(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return ["list", *map(_open, value)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return ["number"] if is_number else ["value", value]


def shape(item: Experiment) -> str | None:
    """Returns what two specifications share that differ in numbers alone; None without a command."""
    try:
        words = shlex.split(item.command or "")
    except ValueError:
        return None
    if not words:
        return None
    resources = {key: getattr(item.resources, key) for key in _SAME}
    parts = {
        "command": [words[0], *map(_open_word, words[1:])], "env": item.env, "cwd": item.cwd,
        "config": _open(item.config),
        "design": {key: getattr(item.design, key) for key in _JUDGED},
        "resources": {key: value for key, value in resources.items() if value not in _EMPTY},
    }  # fmt: skip
    return json.dumps(parts, sort_keys=True)


def worst_hours(lab: Lab, item: Experiment) -> tuple[float, float] | None:
    """Returns the run-hours that one replicate and all of them may use at most; None where nothing bounds them."""
    methodology, resources = lab.config.methodology, item.resources
    if resources.wall_s is None or methodology["on_overrun"] != "kill":
        return None
    each = resources.wall_s / 3600.0 * max(1, resources.gpus) * max(1, resources.nodes or 1)
    attempts = methodology["max_attempts"] if methodology["auto_retry"] else 1
    return each, each * item.design.replicates * attempts


class Known:
    """What persons have approved here: by shape, with the code of each approval."""

    def __init__(self, lab: Lab) -> None:
        self._codes: dict[str, set[str | None]] = {}
        for item in lab.experiments.all():
            approval = lab.experiments.approval(item.id) if is_person(item.approved_by) else None
            key = None if approval is None else shape(item)
            if approval is not None and key is not None:
                self._codes.setdefault(key, set()).add(approval[1])

    def problem(self, item: Experiment, code: CodeStateDocument | None, rule: str) -> str | None:
        """Returns why a specification is not what a person has approved, or None."""
        codes = self._codes.get(shape(item) or "")
        if codes is None:
            return "no person has approved this program with other numbers here"
        sha256 = None if code is None else code.get("sha256")
        if rule == "any":
            return None
        if sha256 is None:
            return "its code is not known"
        return None if sha256 in codes else "its code is not the code that a person approved with it"
