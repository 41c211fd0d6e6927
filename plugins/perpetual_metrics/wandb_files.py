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

from perpetual_metrics.wire import Point, double_of, fields_of, signed, text_of

__all__ = ["BLOCK", "history", "records"]

BLOCK, _HEAD = 32 * 1024, 7  # bytes
_MARK = b":W&B\xe1\xbe\x00"
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LONGEST = 1024 * 1024  # bytes of a record with numbers; a longer one holds something else
_LONGEST_VALUE = 1_000  # characters of a number


def history(file: BinaryIO, *, is_start: bool = True) -> Iterator[Point]:
    """Yields what was logged, in order; ends at the first damaged block.

    Nested names are joined by dots. Names that begin with an underscore are W&B's own.

    Args:
        is_start: of the file; otherwise it is one of its blocks and those after it.
    """
    for number, data in records(file, is_start=is_start):
        try:
            for field, value in fields_of(data):
                if field == 2 and isinstance(value, bytes):
                    yield from _moment(number, value)
        except (ValueError, RecursionError):
            continue  # of a later version


def _moment(number: int, data: bytes) -> Iterator[Point]:
    """Yields the numbers of a `HistoryRecord`, which has one step and one time."""
    items = [_item(item) for part, item in fields_of(data) if part == 1 and isinstance(item, bytes)]
    known = dict(item for item in items if item is not None)
    step, time_s = known.get("_step"), known.get("_timestamp")
    for name, value in known.items():
        if not name.startswith("_"):
            yield Point(number, name, value, step, time_s)


def records(file: BinaryIO, *, is_start: bool = True) -> Iterator[tuple[int, bytes]]:
    """Yields (number, content) of each whole record; `is_start` as for `history`."""
    if is_start and file.read(_HEAD) != _MARK:
        return
    at, number, parts, is_known = _HEAD if is_start else 0, 0, list[bytes](), is_start
    while True:
        left = BLOCK - at % BLOCK
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
        is_known = is_known or kind in (_WHOLE, _FIRST)
        if not is_known:
            continue  # the rest of a record that begins before the first block
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
    if found is None or not names:
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
