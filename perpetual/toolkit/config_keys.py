"""Keys of configuration files: type, default, meaning, limits; and the error for a wrong value. Floor 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from perpetual.errors import ConfigError, unknown
from perpetual.toolkit import yamlfile

__all__ = [
    "ABSENT",
    "Guarded",
    "Item",
    "Key",
    "check",
    "check_entry",
    "check_names",
    "false_is_weaker",
    "fewer_is_weaker",
    "guarded",
    "higher_is_weaker",
    "lower_is_weaker",
    "more_is_weaker",
    "order_is_weaker",
    "parse_text",
    "texts",
    "true_is_weaker",
]


class Key(NamedTuple):
    """One key: `type` is `str`, `int`, `float`, `bool`, `texts` (one or some) or `list`, of items of type `items`.

    `form(value)` raises ValueError for what has another form. `weaker(value, base)` says whether a value protects less
    than another one. A weaker value counts only from the user's own configuration, or as the user has trusted it; a key
    without it protects nothing.
    """

    name: str
    type: str
    default: object
    meaning: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False
    weaker: Callable[[object, object], bool] | None = None
    items: str = "str"
    form: Callable[[object], object] | None = None


class Guarded(NamedTuple):
    """What is in force of a key that protects: `value`, and `held`, whether the file's own value does not count."""

    value: object
    held: bool


def guarded(key: Key, value: object, *, user: object, accepted: object) -> Guarded:
    """Returns the value in force of a key that the project's file sets.

    Args:
        user: the value in the user's own configuration, `ABSENT` where there is none.
        accepted: the value that the user has trusted in this project, `ABSENT` where nothing was.
    """
    if key.weaker is None:
        return Guarded(value, False)
    base = key.default if accepted is ABSENT else accepted
    if not key.weaker(value, base) or (user is not ABSENT and not key.weaker(value, user)):
        return Guarded(value, False)
    return Guarded(base, True)


ABSENT: object = object()


def true_is_weaker(value: object, base: object) -> bool:
    """Returns whether a key whose `true` lets more happen became true."""
    return bool(value) and not base


def false_is_weaker(value: object, base: object) -> bool:
    """Returns whether a key whose `false` lets more happen became false."""
    return bool(base) and not value


def lower_is_weaker(value: object, base: object) -> bool:
    """Returns whether a threshold that protects by being high was lowered."""
    return base is not None and (value is None or _number(value) < _number(base))


def higher_is_weaker(value: object, base: object) -> bool:
    """Returns whether a limit that protects by being low was raised; null is no limit."""
    return base is not None and (value is None or _number(value) > _number(base))


def _number(value: object) -> float:
    """Returns the value of a key that holds a number: `check` has let nothing else in."""
    assert isinstance(value, int | float)
    return value


def fewer_is_weaker(value: object, base: object) -> bool:
    """Returns whether a list of what protects has shrunk."""
    return not {*texts(base)} <= {*texts(value)}


def more_is_weaker(value: object, base: object) -> bool:
    """Returns whether a list of what is let in has grown."""
    return not {*texts(value)} <= {*texts(base)}


def texts(value: object) -> list[str]:
    """Returns the value of a key that holds a list of texts: `check` has let nothing else in."""
    assert isinstance(value, Iterable)
    return [*map(str, value)]


def order_is_weaker(*names: str) -> Callable[[object, object], bool]:
    """Returns the comparison for a choice whose `names` go from the strictest to the weakest one."""

    def weaker(value: object, base: object) -> bool:
        return value in names and base in names and names.index(value) > names.index(base)

    return weaker


class Item(NamedTuple):
    """A key's value in force: as `config show` and `methodology show` answer it."""

    key: str
    value: object
    origin: str
    meaning: str


_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list of texts",
    "texts": "a text or a list of texts",
}
_ITEMS = {"str": "texts", "int": "whole numbers", "float": "numbers", "bool": "true and false"}
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _fits(kind: str, value: object, items: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if kind == "list" or (kind == "texts" and isinstance(value, list)):
        return isinstance(value, list) and all(_fits(items, item, items) for item in value)
    return isinstance(value, str)


def check(key: Key, value: object, where: str) -> object:
    """Returns the value in the key's type.

    Raises:
        ConfigError: saying where, what was expected and what is there.
    """
    if value is None and key.nullable:
        return None
    if key.type == "list" and key.items == "str" and isinstance(value, list):
        value = [str(item) if type(item) is int else item for item in value]  # [0, 1] is as good as ["0", "1"]
    if not _fits(key.type, value, key.items):
        orelse = " or null" if key.nullable else ""
        words = f"a list of {_ITEMS[key.items]}" if key.type == "list" else _WORDS[key.type]
        raise ConfigError(f"{where}: {key.name} must be {words}{orelse}, not {value!r}", hint=key.meaning)
    if key.form is not None:
        try:
            key.form(value)
        except ValueError as problem:
            raise ConfigError(f"{where}: {key.name}: {problem}", hint=key.meaning) from None
    items = value if isinstance(value, list) else [value]
    for each in items:
        if key.choices and each not in key.choices:
            raise ConfigError(f"{where}: {key.name}: " + unknown("value", str(each), key.choices), hint=key.meaning)
        if key.minimum is not None and _number(each) < key.minimum:
            raise ConfigError(
                f"{where}: {key.name} must be at least {key.minimum:g}, not {_number(each):g}", hint=key.meaning
            )
        if key.maximum is not None and _number(each) > key.maximum:
            raise ConfigError(
                f"{where}: {key.name} must be at most {key.maximum:g}, not {_number(each):g}", hint=key.meaning
            )
    if (key.type, key.items) == ("list", "float"):
        return [float(_number(item)) for item in items]
    return float(_number(value)) if key.type == "float" else value


def check_entry(key: Key, value: object, path: Path, *keys: str) -> object:
    """Returns the value of an entry of a YAML file in the key's type; `keys` lead to it.

    Raises:
        ConfigError: with the line, which costs a parse and so is looked up for a wrong value only.
    """
    try:
        return check(key, value, path.name)
    except ConfigError:
        return check(key, value, yamlfile.place_of(path, *keys))


def parse_text(key: Key, text: str, where: str) -> object:
    """Returns the value that a person wrote as text, on a command line or in an environment variable."""
    if key.nullable and text.lower() in ("null", "none", "~"):
        return None
    value: object
    inside = text.strip()
    if key.type == "list" or (key.type == "texts" and ("," in inside or inside[:1] == "[")):
        if inside[:1] == "[" and inside[-1:] == "]":  # as the file has it: else the brackets would be a name's
            parts = [part.strip().strip("'\"") for part in inside[1:-1].split(",")]
        else:
            parts = [part.strip() for part in inside.split(",")]
        value = [_parsed(key.items, part) for part in parts if part]
    else:
        value = _parsed(key.type, text)
    return check(key, value, where)


def _parsed(kind: str, text: str) -> object:
    """Returns the value that a text stands for; the text itself, if it is none of that type."""
    if kind == "bool":
        return _TRUTH.get(text.lower(), text)
    try:
        return int(text) if kind == "int" else float(text) if kind == "float" else text
    except ValueError:
        return text


def check_names(data: Mapping[str, object], known: Mapping[str, object], where: str, what: str = "key") -> None:
    """Raises `ConfigError` with the nearest name for the first key that is not known."""
    for name in data:
        if name not in known:
            raise ConfigError(f"{where}: " + unknown(what, name, known))
