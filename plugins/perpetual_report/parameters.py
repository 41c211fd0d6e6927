"""Parameters of an experiment, from its command, settings and environment: for `compare` and the leaderboard."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.api import Experiment

__all__ = ["command_fields", "flat", "parameters", "parameters_of", "typed"]

_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d{0,14})")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9]\d{0,29})(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?")
_SETTING = re.compile(r"[+~]{0,2}[A-Za-z_][\w.-]*(?:[/@][\w.-]+)*")
_LONGEST = 200  # characters of a value in a table
_LARGEST = 2**53  # whole numbers beyond it are texts: not every reader of JSON keeps them
_MOST = 200  # parameters of one experiment


def command_fields(command: str | None) -> dict[str, object]:
    """Returns a command's options by name and its other words by place, so that an option more shifts nothing.

    A word `NAME=VALUE` counts as an option, as Hydra takes them. A text that is no command is one field.
    """
    try:
        words = None if command is None else shlex.split(command)
    except ValueError:  # adopted, and never run here
        words = None
    if words is None:
        return {"command": command}
    fields: dict[str, object] = {}
    option: str | None = None
    place = 0
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-") and not _is_number(word):
            option = None if equals else word
            fields[_free(fields, f"command {name}")] = value if equals else True
        elif option is not None:
            fields[_last(fields, f"command {option}")] = word
            option = None
        elif equals and place and _SETTING.fullmatch(name):
            fields[_free(fields, f"command {name}")] = value
        else:
            place += 1
            fields[f"command word {place}"] = word
    return fields


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _free(fields: Mapping[str, object], name: str) -> str:
    """Returns the name, numbered where the same option was given before."""
    if name not in fields:
        return name
    return next(f"{name} ({n})" for n in range(2, len(fields) + 3) if f"{name} ({n})" not in fields)


def _last(fields: Mapping[str, object], name: str) -> str:
    """Returns the newest of the options of that name."""
    return next(key for key in reversed([*fields]) if key == name or key.startswith(f"{name} ("))


def flat(name: str, value: object) -> dict[str, object]:
    """Returns nested settings as dotted names."""
    if not isinstance(value, Mapping):
        return {name: value}
    fields: dict[str, object] = {}
    for key, item in value.items():
        fields |= flat(f"{name}.{key}", item)
    return fields


def parameters(command: str | None, config: Mapping[str, object], env: Mapping[str, object]) -> dict[str, object]:
    """Returns what `compare` shows of the three by short names, numbers as numbers.

    `--lr 0.1`, `lr=0.1`, the setting `lr` and the variable `lr` are all called `lr`. Of several in one experiment the
    command's has the name, then the setting's; the others keep `config.` or `env.` before it.
    """
    found: dict[str, object] = {}
    for name, value in _named(command, config, env):
        if len(found) >= _MOST:
            break
        short = name.partition(".")[2] if name.startswith(("config.", "env.")) else name
        found[_clean(name if short in found else short)] = typed(value)
    return found


def parameters_of(experiment: Experiment) -> dict[str, object]:
    """Returns an experiment's parameters by short names as they were written, without words that have no name."""
    found: dict[str, object] = {}
    for name, value in _named(experiment.command, experiment.config, experiment.env):
        short = name.partition(".")[2] if name.startswith(("config.", "env.")) else name
        if short not in found:
            found[short] = value
        elif str(found[short]) != str(value):
            found[name] = value
    return {name: value for name, value in found.items() if not name.startswith("word.") and name != "command"}


def _named(
    command: str | None, config: Mapping[str, object], env: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    for name, value in command_fields(command).items():
        bare = name.removeprefix("command ")
        yield (bare.replace(" ", ".") if name.startswith("command word ") else bare.lstrip("-+~") or bare), value
    for source, table in (("config", config), ("env", env)):
        for key, item in table.items():
            yield from flat(f"{source}.{key}", item).items()


def _clean(text: str) -> str:
    """Returns the text with what no file can hold replaced."""
    return text.encode("utf-8", "replace").decode()


def typed(value: object) -> object:
    """Returns a text that writes a finite number as that number, and a long value cut, with a hash of the whole."""
    if isinstance(value, str):
        if _INTEGER.fullmatch(value):
            return int(value)
        if _FLOAT.fullmatch(value) and math.isfinite(number := float(value)):
            return number
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= _LARGEST):
        return value
    text = _clean(value if isinstance(value, str) else str(value))
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 12]}...#{sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
