"""Checks each imported record before anything of it is written: the error names the row and the field.

A field holds what its annotation says, with finite numbers and bounded texts; `_RULES` says more of some.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

from perpetual.errors import PerpetualError, UsageError
from perpetual.lab.budget import MOST_HOURS
from perpetual.slots.redactor import Redactor
from perpetual.toolkit.import_records import (
    ImportedExperiment,
    ImportedHypothesis,
    ImportedNote,
    ImportedRecord,
    ImportedRun,
)
from perpetual.toolkit.jsoncopy import json_copy
from perpetual.toolkit.limits import fits

__all__ = ["check_record"]

_MOST_FILES = 32  # of one run
_LONGEST_TEXT, _LONGEST_NOTE, _LONGEST_NAME = 100_000, 1_000_000, 1_000  # characters
_LARGEST_JSON = 16_000_000  # bytes
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_OWN = frozenset({"adopted.json", "metrics.jsonl"})  # which the lab writes itself
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}")
_SHOWN = frozenset({"key", "metric", "metrics", "gpus"})  # names as they are, so they may hold no secret
_HINT = "mend the plugin that reads the source; perpetual.toolkit.import_records says what each field holds"


_CLASSES = (ImportedHypothesis, ImportedExperiment, ImportedRun, ImportedNote)


def check_record(redactor: Redactor, record: object, row: int) -> ImportedRecord:
    """Returns the record if every field of it has its shape.

    Raises:
        UsageError: (bad_import) naming the row, counted from 1, the record's key and the field.
    """
    try:
        return _checked(redactor, record, row)
    except PerpetualError as problem:
        raise UsageError(redactor.text(problem.message), hint=_HINT, code="bad_import") from problem


def _checked(redactor: Redactor, record: object, row: int) -> ImportedRecord:
    if type(record) not in _CLASSES or not isinstance(record, ImportedRecord):  # a subclass may answer anything
        raise UsageError(f"row {row} is {type(record).__name__}, no imported record")
    kind: type = type(record)
    where = f"row {row} ({str(record.key)[:_LONGEST_NAME]})"
    for name, hint, words in _shape(kind):
        value: object = getattr(record, name)
        if not _fits(value, hint, _LONGEST_NOTE if name == "text" else _LONGEST_TEXT):
            raise UsageError(f"{where}: {name} is no {words}, finite and bounded")
        rule = _RULES.get(name)
        if rule is not None and value is not None and not rule[0](value):
            raise UsageError(f"{where}: {name} is no {rule[1]}")
        if name in _SHOWN and any(redactor.text(text) != text for text in _texts_of(value)):
            raise UsageError(f"{where}: {name} holds a secret")
    if isinstance(record, ImportedExperiment | ImportedRun):
        name, data = ("origin", record.origin) if isinstance(record, ImportedRun) else ("config", record.config)
        try:
            json_copy(dict(data), name)
            fits(data, name, _LARGEST_JSON)
        except PerpetualError as problem:
            raise UsageError(f"{where}: {problem.message}") from problem
    return record


def _texts_of(value: object) -> list[str]:
    return [value] if isinstance(value, str) else [*map(str, value)] if isinstance(value, Mapping | tuple) else []


@cache
def _shape(kind: type) -> list[tuple[str, object, str]]:
    """Returns each field's name, type, and type in words."""
    hints = get_type_hints(kind)
    return [(spec.name, hints[spec.name], str(spec.type)) for spec in fields(kind)]


def _fits(value: object, hint: object, most: int) -> bool:
    """Returns whether a value has a type; a text has at most `most` characters."""
    if hint is object:
        return True
    origin, parts = get_origin(hint), get_args(hint)
    if origin is None:
        return _is_plain(value, hint, most)
    if origin is Literal:  # which of its words a rule checks
        return _is_plain(value, str, most)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, parts[0], most) for one in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(name, parts[0], most) and _fits(one, parts[1], most) for name, one in value.items()
        )
    if origin is Iterable:  # its points are checked when they are read
        return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return any(_fits(value, part, most) for part in parts)


def _is_plain(value: object, hint: object, most: int) -> bool:
    if hint is str:
        if not isinstance(value, str) or len(value) > most:
            return False
        return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    if hint is Path:
        return isinstance(value, Path)
    if hint is float:
        return not isinstance(value, bool) and _is_finite(value)
    if hint is int:
        return type(value) is int and -(2**63) <= value < 2**63
    return type(value) is hint  # bool, and None


def _between(low: float, high: float) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int | float) and low <= value <= high  # NaN is not


_is_finite = _between(-sys.float_info.max, sys.float_info.max)


def _is_name(value: object) -> bool:
    return bool(str(value).strip()) and len(str(value)) <= _LONGEST_NAME


def _is_moment(value: object) -> bool:
    try:
        return str(value).isascii() and datetime.fromisoformat(str(value)).tzinfo is not None
    except ValueError:
        return False


def _is_metric(value: object) -> bool:
    return bool(str(value).strip()) and len(str(value)) <= 200


def _are_gpus(value: object) -> bool:
    return all(map(_is_metric, value)) if isinstance(value, tuple) else _between(0, 1_000_000)(value)


def _are_logs(value: object) -> bool:
    names = [*value] if isinstance(value, Mapping) else []
    return len(names) <= _MOST_FILES and all(_FILE.fullmatch(name) and name not in _OWN for name in names)


def _are_annotations(value: object) -> bool:
    return isinstance(value, tuple) and all("text" in one for one in value)


def _word(*known: str) -> tuple[Callable[[object], bool], str]:
    return lambda value: value in known, f"word of {', '.join(known)}"


_NAME = (_is_name, f"text of 1 to {_LONGEST_NAME:,} characters")
_MOMENT = (_is_moment, "ISO 8601 time with its zone")
_HOURS = (_between(0, MOST_HOURS), f"number of hours from 0 to {MOST_HOURS:g}")
_SECONDS = (_between(0, MOST_HOURS * 3600), f"number of seconds from 0 to {MOST_HOURS * 3600:g}")
_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("key", "hypothesis", "hypothesis_id", "experiment", "path"), _NAME),
    **dict.fromkeys(("created_at", "started_at", "ended_at"), _MOMENT),
    **dict.fromkeys(("gpu_hours", "run_hours"), _HOURS),
    "duration_s": _SECONDS,
    "statement": (lambda value: 0 < len(str(value).strip()) <= 4_000, "statement of 1 to 4,000 characters"),
    "prior": (_between(0, 1), "number from 0 to 1"),
    "confidence": (lambda value: _between(0, 1)(value) and value not in (0, 1), "number between 0 and 1"),
    "verdict": _word("supported", "refuted"),
    "direction": _word("max", "min"),
    "metric": (_is_metric, "name of a metric, of at most 200 characters"),
    "metrics": (
        lambda value: not isinstance(value, Mapping) or all(map(_is_metric, value)),
        "mapping of names of metrics to numbers",
    ),
    "tags": (
        lambda value: not isinstance(value, tuple) or all(len(str(tag)) <= 100 for tag in value),
        "tuple of tags of at most 100 characters",
    ),
    "status": _word("done", "failed", "killed", "timeout", "lost"),
    "commit": (lambda value: _COMMIT.fullmatch(str(value)) is not None, "git commit"),
    "gpus": (_are_gpus, "count of GPUs, or names"),
    "logs": (_are_logs, f"mapping of at most {_MOST_FILES} plain file names to paths"),
    "annotations": (_are_annotations, "tuple of mappings with text"),
}
