"""Copies of JSON values: what is handed to a store, and what it hands out, has one owner. Floor 0.

Used by the base of every store, and by code that takes a user's settings into the record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from perpetual.errors import UsageError

__all__ = ["json_copy", "plain_copy"]

T = TypeVar("T")

_BEYOND = 10**4300  # Python neither writes nor reads whole numbers of more than 4,300 digits


def json_copy(value: T, where: str = "value") -> T:
    """Returns a deep copy of a JSON value.

    Raises:
        UsageError: for anything that JSON cannot carry, naming where it stands.
    """
    try:
        try:
            return cast("T", plain_copy(value))
        except (_NotPlain, UnicodeEncodeError):
            return cast("T", _checked_copy(value, where))
    except RecursionError as problem:
        raise UsageError(f"{where} is nested too deeply, or holds itself") from problem


class _NotPlain(Exception):
    """A value that has to be looked at more closely."""


def plain_copy(value: Any) -> Any:
    """Returns the copy of what is almost always there, and of every stored row: the very types that JSON is decoded to.

    Raises:
        _NotPlain, UnicodeEncodeError: for anything else; `json_copy` then looks at it more closely.
    """
    sort = type(value)
    if sort is dict:
        made = {}
        for key, item in value.items():
            if type(key) is not str:
                raise _NotPlain
            if not key.isascii():
                key.encode()
            kind = type(item)
            if kind is str:
                if not item.isascii():
                    item.encode()
                made[key] = item
            else:
                is_plain = item is None or kind is bool or (kind is int and -_BEYOND < item < _BEYOND)
                made[key] = item if is_plain else plain_copy(item)
        return made
    if sort is list:
        return [plain_copy(item) for item in value]
    if sort is str:
        if not value.isascii():
            value.encode()
        return value
    if value is None or sort is bool or (sort is float and math.isfinite(value)):
        return value
    if sort is int and -_BEYOND < value < _BEYOND:
        return value
    raise _NotPlain


def _checked_copy(value: object, where: str) -> object:
    if value is None or (isinstance(value, int) and -_BEYOND < value < _BEYOND):
        return value
    if isinstance(value, int):
        raise UsageError(f"{where} is a whole number of {value.bit_length():,} bits, which JSON does not carry")
    if isinstance(value, str):
        if not value.isascii():
            _check_text(value, where)
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise UsageError(f"{where} is {value!r}, which JSON cannot carry", hint="leave an unknown value out")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise UsageError(f"{where} has the key {key!r}, which is no text")
            if not key.isascii():
                _check_text(key, where)
        return {key: _checked_copy(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_checked_copy(item, f"{where}[{n}]") for n, item in enumerate(value)]
    raise UsageError(f"{where} is a {type(value).__name__}, which JSON cannot carry")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise UsageError(f"{where} holds bytes that are no text (UTF-8), at character {problem.start}") from problem
