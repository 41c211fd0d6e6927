"""What a change is, in words: the statement of a hypothesis, from two commands. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from perpetual.api import line

__all__ = ["difference", "statement"]

_LONGEST = 200  # characters
_WAYS = {"max": "raise", "min": "lower"}


def statement(parts: Sequence[str], metric: str, direction: str, against: str) -> str:
    """Returns the claim that a change improves the metric."""
    text = line(" and ".join(parts))
    what = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return f"{what} {_WAYS[direction]}{'s' if len(parts) == 1 else ''} {metric} against {against}"


def difference(
    before: str,
    now: str,
    *,
    env: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
    config: tuple[Mapping[str, object], Mapping[str, object]] = ({}, {}),
    changes: str | None = None,
) -> list[str]:
    """Returns what the second command does otherwise, each difference in words; empty where nothing differs.

    Args:
        before: the baseline's command line.
        now: the other one.
        env: variables of both.
        config: configurations of both.
        changes: what is declared to have changed beside them: code, data, environment.
    """
    parts = _words(_units(before), _units(now))
    parts += _pairs(*env)
    parts += _pairs(*({name: _shown(value) for name, value in each.items()} for each in config))
    return [*parts, *(f"changed {name}" for name in changes.split(","))] if changes else parts


def _units(command: str) -> list[tuple[str, str]]:
    """Returns the words of a command, an option with its value: `(--lr, 0.1)`, `(train.py, "")`."""
    words = shlex.split(command)
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not _is_option(word):
            found.append((word, ""))
        elif "=" in word and word.startswith("--"):
            name, _, value = word.partition("=")
            found.append((name, value))
        elif place < len(words) and (not words[place].startswith("-") or _is_number(words[place])):
            found.append((word, words[place]))
            place += 1
        else:
            found.append((word, ""))
    return found


def _is_option(word: str) -> bool:
    """Returns whether a word is an option: a negative number is none."""
    return word.startswith("-") and word not in ("-", "--") and not _is_number(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _words(before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> list[str]:
    from difflib import SequenceMatcher

    parts: list[str] = []
    for tag, a, b, c, d in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        gone, new = [*before[a:b]], [*now[c:d]]
        for name, value in new:
            was = next((each for each in gone if each[0] == name and _is_option(name)), None)
            if was is not None:
                gone.remove(was)
                parts.append(_said(name, value) + f" instead of {was[1] or 'none'}")
            elif gone and not _is_option(name) and not _is_option(gone[0][0]):
                parts.append(f"{_said(name, value)} instead of {_said(*gone.pop(0))}")
            else:
                parts.append(_said(name, value))
        parts += [f"no {_said(*each)}" for each in gone]
    return parts


def _said(name: str, value: str) -> str:
    return f"{name} {value}" if value else name


def _pairs(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"no {name}" if name not in now
        else f"{name}={now[name]}" + (f" instead of {before[name]}" if name in before else "")
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]  # fmt: skip


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
