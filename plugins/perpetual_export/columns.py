"""Columns of a table: their names in order and the type of each, found while rows pass by."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

__all__ = ["Columns", "Kind", "MOST_COLUMNS", "number_in", "scalar"]

Kind = Literal["bool", "int", "float", "text"]
Scalar = bool | int | float | str | None

MOST_COLUMNS = 5_000  # more names than a person or a spreadsheet uses: they are made by a program's mistake
_FIXED = 0
_GROUPS = {"effect": 1, "runs": 1, "param": 2, "metric": 3}  # prefix of a column -> place of its group
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d{0,15})(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")


def number_in(text: str) -> int | float | None:
    """Returns the number that a typed option stands for; None for other texts, `007` and what no float holds."""
    if _INTEGER.fullmatch(text):
        return int(text)
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def scalar(value: object) -> Scalar:
    """Returns a value as one cell: a list or a table as JSON, an integer of more than 64 bits as its digits."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


class Columns:
    """Names of columns in the order of a table: fixed ones as they come, then parameters, then metrics by name."""

    def __init__(self, fixed: Iterable[str] = ()) -> None:
        self._kinds: dict[str, set[str]] = {name: set() for name in fixed}
        self.left_out: set[str] = set()  # names beyond the most that a table has

    def add(self, row: Mapping[str, object]) -> None:
        """Notes the columns of a row and what each holds."""
        for name, value in row.items():
            kinds = self._kinds.get(name)
            if kinds is None:
                if len(self._kinds) >= MOST_COLUMNS:
                    self.left_out.add(name) if len(self.left_out) < MOST_COLUMNS else None
                    continue
                kinds = self._kinds[name] = set()
            found = scalar(value)
            if found is not None:
                kinds.add(_kind_of(found, is_typed=name.startswith("param.")))

    @property
    def names(self) -> list[str]:
        """Returns the columns in order."""
        return sorted(self._kinds, key=_place_of([*self._kinds]).__getitem__)

    def kind(self, name: str) -> Kind:
        """Returns the type that holds every value of a column."""
        kinds = self._kinds[name]
        if kinds <= {"bool"} and kinds:
            return "bool"
        if kinds <= {"int"} and kinds:
            return "int"
        is_number = kinds <= {"int", "float"} and (bool(kinds) or name.startswith("metric."))
        return "float" if is_number else "text"

    def cell(self, name: str, value: object) -> Scalar:
        """Returns a value as its column's type holds it."""
        found = scalar(value)
        if found is None:
            return None
        kind = self.kind(name)
        if kind == "text":
            return found if isinstance(found, str) else str(found)
        if isinstance(found, str):
            found = number_in(found)
        return float(found) if kind == "float" and found is not None else found


def _kind_of(value: bool | int | float | str, *, is_typed: bool) -> str:
    if isinstance(value, str):
        number = number_in(value) if is_typed else None
        return "text" if number is None else type(number).__name__
    return type(value).__name__


def _place_of(names: Iterable[str]) -> dict[str, tuple[int, int, str]]:
    places: dict[str, tuple[int, int, str]] = {}
    for number, name in enumerate(names):
        group = _GROUPS.get(name.partition(".")[0], _FIXED) if "." in name else _FIXED
        places[name] = (group, number if group == _FIXED else 0, name)
    return places
