"""Numbers of the history in W&B's offline files (`wandb/*/run-ID.wandb`), read without W&B.

A file is a log in LevelDB's format: blocks of 32 KiB with records of checksum (CRC-32), length, type and content. The
records are messages `Record`; those with a `history` hold a step's values as JSON.
Sources: wandb/sdk/internal/datastore.py, wandb/proto/wandb_internal.proto.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from perpetual_metrics.wire import double_of, fields_of, signed, text_of

__all__ = ["history", "records"]

_BLOCK, _HEAD = 32 * 1024, 7
_MARK = b":W&B\xe1\xbe\x00"
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LONGEST = 1024 * 1024  # bytes of a record with numbers; a longer one holds something else
_LONGEST_VALUE = 1_000  # characters of a number


def history(file: BinaryIO) -> Iterator[tuple[int, str, float]]:
    """Yields (number of the record, name, value) of what was logged, in order; ends at the first damaged block.

    Nested names are joined by dots. Names that begin with an underscore are W&B's own.
    """
    for number, data in records(file):
        try:
            for field, value in fields_of(data):
                if field == 2 and isinstance(value, bytes):
                    for part, item in fields_of(value):
                        found = _item(item) if part == 1 and isinstance(item, bytes) else None
                        if found is not None:
                            yield number, *found
        except (ValueError, RecursionError):
            continue  # of a later version


def records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields (number, content) of each whole record."""
    if file.read(_HEAD) != _MARK:
        return
    at, number, parts = _HEAD, 0, list[bytes]()
    while True:
        left = _BLOCK - at % _BLOCK
        if left < _HEAD:  # filled with zeros
            file.seek(left, 1)
            at += left
        head = file.read(_HEAD)
        if len(head) < _HEAD:
            return
        check, length, kind = struct.unpack("<IHB", head)
        data = file.read(length)
        at += _HEAD + length
        if len(data) < length or zlib.crc32(head[6:] + data) != check or kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST):
            return  # torn by a kill, or damaged
        parts = [data] if kind in (_WHOLE, _FIRST) else [*parts, data] if sum(map(len, parts)) < _LONGEST else parts
        if kind in (_WHOLE, _LAST):
            number += 1
            if sum(map(len, parts)) < _LONGEST:
                yield number, b"".join(parts)
            parts = []


def _item(data: bytes) -> tuple[str, float] | None:
    """Returns name and number of a `HistoryItem`; None for a text, a picture or a table."""
    names: list[str] = []
    found: float | None = None
    for field, value in fields_of(data):
        if field in (1, 2) and value:
            names.append(text_of(value))
        elif field == 5 and isinstance(value, int):
            found = float(signed(value))
        elif field == 6 and isinstance(value, bytes) and len(value) == 8:
            found = double_of(value)
        elif field in (8, 16):
            found = _number(text_of(value))
    if found is None or not names or names[0].startswith("_"):
        return None
    return ".".join(names), found


def _number(text: str) -> float | None:
    if len(text) > _LONGEST_VALUE:
        return None
    value = json.loads(text)  # NaN and infinities too, as W&B writes them
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")
