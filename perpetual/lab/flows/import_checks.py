"""Checks each imported record before anything of it is written: the error names the row and the field."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from perpetual.errors import PerpetualError, UsageError
from perpetual.lab.redaction import refuse_key
from perpetual.toolkit.import_records import (
    ImportedExperiment,
    ImportedHypothesis,
    ImportedNote,
    ImportedRecord,
    ImportedRun,
)
from perpetual.toolkit.jsoncopy import json_copy
from perpetual.toolkit.limits import fits
from perpetual.toolkit.redact import redact_text

__all__ = ["MOST_FILES", "check_record"]

MOST_FILES = 32  # of one run
_LONGEST_TEXT, _LONGEST_NAME, _LARGEST_JSON = 100_000, 1_000, 16_000_000  # characters; bytes
_LARGEST_NOTE = 1_000_000  # characters; the gates are narrower
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_OWN = frozenset({"adopted.json", "metrics.jsonl"})  # which the lab writes itself
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}")
_Check = tuple[Callable[[object], bool], str]


def check_record(record: object, row: int) -> ImportedRecord:
    """Returns the record if every field of it has its shape.

    Raises:
        UsageError: (bad_import) naming the row, counted from 1, the record's key and the field.
    """
    if not isinstance(record, ImportedHypothesis | ImportedExperiment | ImportedRun | ImportedNote):
        raise UsageError(f"row {row} is {type(record).__name__}, no imported record", hint=_HINT, code="bad_import")
    where = f"row {row} ({record.key if _is_name(record.key) else type(record).__name__})"
    checks = _CHECKS[type(record)]
    for spec in fields(record):
        is_right, words = checks[spec.name]
        value = getattr(record, spec.name)
        if not is_right(value):
            raise _refusal(f"{where}: {spec.name} is no {words}")
    try:
        refuse_key(record.key)
        if isinstance(record, ImportedExperiment | ImportedRun):
            name = "config" if isinstance(record, ImportedExperiment) else "origin"
            data = record.config if isinstance(record, ImportedExperiment) else record.origin
            json_copy(dict(data), name)
            fits(data, name, _LARGEST_JSON)
    except PerpetualError as problem:
        raise _refusal(f"{where}: {problem.message}") from problem
    return record


_HINT = "mend the plugin that reads the source; perpetual.toolkit.import_records says what each field holds"


def _refusal(message: str) -> UsageError:
    return UsageError(redact_text(message), hint=_HINT, code="bad_import")


def _is_text(value: object, most: int = _LONGEST_TEXT) -> bool:
    if not isinstance(value, str) or len(value) > most:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _is_name(value: object) -> bool:
    return _is_text(value, _LONGEST_NAME) and bool(str(value).strip())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value >= 0


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_moment(value: object) -> bool:
    if not isinstance(value, str) or len(value) > 40 or not value.isascii():
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_metric(value: object) -> bool:
    return _is_text(value, 200) and bool(str(value).strip()) and redact_text(str(value)) == value


def _is_mapping(value: object, key: Callable[[object], bool], item: Callable[[object], bool]) -> bool:
    return isinstance(value, Mapping) and all(key(name) and item(one) for name, one in value.items())


def _is_file(name: object) -> bool:
    return isinstance(name, str) and _FILE.fullmatch(name) is not None and name not in _OWN


def _is_logs(value: object) -> bool:
    return _is_mapping(value, _is_file, lambda path: isinstance(path, Path)) and len(dict(value)) <= MOST_FILES  # type: ignore[call-overload]


def _is_annotation(value: object) -> bool:
    return isinstance(value, Mapping) and "text" in value and _is_mapping(value, _is_text, _is_text)


def _words(*known: str) -> _Check:
    return lambda value: isinstance(value, str) and value in known, f"word of {', '.join(known)}"


def _many(check: _Check) -> _Check:
    is_right, words = check
    return lambda value: isinstance(value, tuple) and all(is_right(one) for one in value), f"tuple of {words}s"


def _or_none(check: _Check) -> _Check:
    is_right, words = check
    return lambda value: value is None or is_right(value), f"{words}, nor None"


_NAME: _Check = (_is_name, f"text of 1 to {_LONGEST_NAME:,} characters")
_TEXT: _Check = (_is_text, f"text of at most {_LONGEST_TEXT:,} characters")
_FLAG: _Check = (lambda value: isinstance(value, bool), "true or false")
_MOMENT = _or_none((_is_moment, "ISO 8601 time with its zone"))
_AMOUNT = _or_none((_is_amount, "finite number of at least 0"))
_WHOLE: _Check = (_is_whole, "whole number of 64 bits")
_METRIC = _or_none((_is_metric, "name of a metric, without secrets, of at most 200 characters"))
_DIRECTION = _or_none(_words("max", "min"))
_JSON: _Check = (lambda value: _is_mapping(value, lambda name: isinstance(name, str), lambda _: True), "JSON object")
_CHECKS: dict[type, dict[str, _Check]] = {
    ImportedHypothesis: {
        "key": _NAME,
        "statement": (lambda value: _is_text(value) and bool(str(value).strip()), "text"),
        "prior": (lambda value: _is_number(value) and 0 <= value <= 1, "number from 0 to 1"),  # type: ignore[operator]
        "metric": _METRIC,
        "direction": _DIRECTION,
        "tags": _many(_NAME),
        "created_at": _MOMENT,
        "parked": _FLAG,
        "confidence": _or_none((lambda value: _is_number(value) and 0 < value < 1, "number between 0 and 1")),  # type: ignore[operator]
        "verdict": _or_none(_words("supported", "refuted")),
        "why": _TEXT,
    },
    ImportedExperiment: {
        "key": _NAME,
        "hypothesis": _or_none(_NAME),
        "title": _TEXT,
        "command": _or_none(_TEXT),
        "config": _JSON,
        "notes": _TEXT,
        "tags": _many(_NAME),
        "metric": _METRIC,
        "direction": _DIRECTION,
        "gpus": (lambda value: _is_whole(value) and 0 <= value <= 1_000_000, "count"),  # type: ignore[operator]
        "created_at": _MOMENT,
        "is_rejected": _FLAG,
        "hypothesis_id": _or_none(_NAME),
    },
    ImportedRun: {
        "key": _NAME,
        "experiment": _NAME,
        "status": _words("done", "failed", "killed", "timeout", "lost"),
        "reason": _or_none(_TEXT),
        "seed": _or_none(_WHOLE),
        "started_at": _MOMENT,
        "ended_at": _MOMENT,
        "duration_s": _AMOUNT,
        "exit_code": _or_none(_WHOLE),
        "gpus": _many((_is_metric, "name, without secrets,")),
        "gpu_hours": _AMOUNT,
        "run_hours": _AMOUNT,
        "metrics": (
            lambda value: _is_mapping(
                value, lambda name: _is_text(name, 300), lambda one: one is None or _is_number(one)
            ),
            "mapping of names to finite numbers or None",
        ),
        "sources": (lambda value: _is_mapping(value, _is_text, _is_text), "mapping of texts"),
        "commit": _or_none(
            (lambda value: isinstance(value, str) and _COMMIT.fullmatch(value) is not None, "git commit")
        ),
        "logs": (_is_logs, f"mapping of at most {MOST_FILES} plain file names to paths"),
        "series": _or_none(
            (lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes), "series")
        ),
        "annotations": _many((_is_annotation, "mapping with text")),
        "origin": _JSON,
    },
    ImportedNote: {
        "key": _NAME,
        "path": _NAME,
        "text": (lambda value: _is_text(value, _LARGEST_NOTE), f"text of at most {_LARGEST_NOTE:,} characters"),
        "message": _or_none(_TEXT),
    },
}
