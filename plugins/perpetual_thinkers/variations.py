"""What a thinker may propose: an experiment like a declared one, with other values of options that it has.

The program, its other words, the folder, the resources, the claim and the cost stay as a person has declared them. A
value takes the place of one of its type: a number of a number, a plain word of a plain word. Paths and seeds stay.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

__all__ = ["Unfit", "varied_command", "varied_config"]

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}\Z")
_OPTION = re.compile(r"-{0,2}[A-Za-z][\w.-]{0,60}\Z")


class Unfit(Exception):
    """Why a variation is none, in one line."""


def varied_command(command: str, changes: Mapping[str, object]) -> str:
    """Returns the command with other values of options that it has: `--lr 0.1`, `--lr=0.1` or `lr=0.1`.

    Raises:
        Unfit: for an option that it does not have once, and for a value of another type.
    """
    words = shlex.split(command)
    for name, value in changes.items():
        if not _OPTION.fullmatch(name) or "seed" in name.lower():
            raise Unfit(f"{name} is no option that may be varied")
        apart = [place + 1 for place, word in enumerate(words[:-1]) if name.startswith("-") and word == name]
        joined = [place for place, word in enumerate(words) if place and word.startswith(f"{name}=")]
        if len(apart) + len(joined) != 1:
            raise Unfit(f"the command has no option {name} with one value")
        if apart:
            words[apart[0]] = _fitting(name, words[apart[0]], value)
        else:
            head, _, old = words[joined[0]].partition("=")
            words[joined[0]] = f"{head}={_fitting(name, old, value)}"
    return shlex.join(words) if changes else command


def varied_config(config: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Returns the config with other values of keys that it has, each of its type.

    Raises:
        Unfit: for a key that it does not have, and for a value of another type.
    """
    found = dict(config)
    for name, value in changes.items():
        if name not in config or "seed" in name.lower():
            raise Unfit(f"the config has no key {name} that may be varied")
        old = config[name]
        if isinstance(old, bool) or isinstance(value, bool):
            if not (isinstance(old, bool) and isinstance(value, bool)):
                raise Unfit(f"{name} is {_type_of(old)}, and {_type_of(value)} was proposed")
            found[name] = value
        elif isinstance(old, (int, float)) and isinstance(value, (int, float)):
            found[name] = value
        elif isinstance(old, str) and isinstance(value, str):
            found[name] = _fitting(name, old, value)
        else:
            raise Unfit(f"{name} is {_type_of(old)}, and {_type_of(value)} was proposed")
    return found


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, (int, float)) else "a text" if isinstance(value, str) else "no plain value"


def _fitting(name: str, old: str, value: object) -> str:
    new = str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
    if _number(old) is not None:
        if _number(new) is None:
            raise Unfit(f"{name} is a number, and {new[:40]!r} was proposed")
        return new
    if not _WORD.fullmatch(old):
        raise Unfit(f"{name} holds a path or a text, which may not be varied")
    if not _WORD.fullmatch(new) or ".." in new:
        raise Unfit(f"{name} is a plain word, and {new[:40]!r} was proposed")
    return new


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and "_" not in text and text.isascii() else None
