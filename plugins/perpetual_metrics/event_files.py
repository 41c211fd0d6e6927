"""Scalars of TensorBoard's event files (`events.out.tfevents.*`), read without TensorBoard.

A file is a sequence of TFRecords: length, its checksum, an `Event` message, its checksum; checksums are masked CRC-32C.
Scalars are `simple_value` (PyTorch, tensorboardX, Lightning) or a tensor without dimensions (TensorFlow 2, Keras).
Sources: record_writer.h, event.proto and summary.proto of TensorFlow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import BinaryIO

from perpetual_metrics.wire import Point, double_of, fields_of, float_of, signed, text_of

__all__ = ["crc32c", "records", "scalars", "whole_from"]

_LONGEST = 64 * 1024  # bytes of a record with scalars; a longer one holds pictures and is passed over
_LARGEST = 2**31
_HEAD = 12  # bytes: a length and its checksum
_FLOAT, _DOUBLE, _INT32, _INT64 = 1, 2, 3, 9  # types of a tensor


def scalars(file: BinaryIO) -> Iterator[Point]:
    """Yields each scalar, in order; ends at the first damaged record."""
    for number, data in records(file):
        try:
            yield from _of_event(number, data)
        except ValueError:
            continue  # its checksum is right: a message of another kind


def _of_event(number: int, data: bytes) -> Iterator[Point]:
    step, time_s = 0.0, None  # a step of 0 is not written
    summaries = []
    for field, value in fields_of(data):
        if field == 1 and isinstance(value, bytes) and len(value) == 8:
            time_s = double_of(value)
        elif field == 2 and isinstance(value, int):
            step = float(signed(value))
        elif field == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for part, one in fields_of(summary):
            found = _scalar(one) if part == 1 and isinstance(one, bytes) else None
            if found is not None:
                yield Point(number, *found, step, time_s)


def whole_from(data: bytes) -> int:
    """Returns where the first whole record begins in a piece of a file; its length where there is none."""
    for at in range(len(data) - _HEAD):
        length, check = struct.unpack_from("<QI", data, at)
        if length <= _LONGEST and check == _masked(crc32c(data[at : at + 8])):
            return at
    return len(data)


def records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields (number, content) of each record that is whole and not long."""
    number = 0
    while len(head := file.read(_HEAD)) == _HEAD:
        number += 1
        length, check = struct.unpack("<QI", head)
        if check != _masked(crc32c(head[:8])) or length > _LARGEST:
            return
        if length > _LONGEST:
            file.seek(length + 4, 1)
            continue
        data, tail = file.read(length), file.read(4)
        if len(data) < length or len(tail) < 4 or struct.unpack("<I", tail)[0] != _masked(crc32c(data)):
            return  # torn by a kill, or damaged: what follows cannot be found
        yield number, data


def _scalar(data: bytes) -> tuple[str, float] | None:
    """Returns tag and number of a `Summary.Value`; None for a histogram, a picture or a text."""
    tag, found = None, None
    for field, value in fields_of(data):
        if field == 1:
            tag = text_of(value)
        elif field == 2 and isinstance(value, bytes) and len(value) == 4:
            found = float_of(value)
        elif field == 8 and isinstance(value, bytes):
            found = _tensor(value)
    return None if tag is None or found is None else (tag, found)


def _tensor(data: bytes) -> float | None:
    """Returns the number of a tensor without dimensions; None for any other."""
    kind, content, numbers = 0, b"", list[float]()
    for field, value in fields_of(data):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 2 and isinstance(value, bytes) and any(number == 2 for number, _ in fields_of(value)):
            return None  # it has dimensions
        elif field == 4 and isinstance(value, bytes):
            content = value
        elif field in (5, 6, 7, 10):
            numbers += _repeated(field, value)
    if content and not numbers:
        numbers = _content(kind, content)
    return numbers[0] if len(numbers) == 1 and kind in (_FLOAT, _DOUBLE, _INT32, _INT64) else None


def _repeated(field: int, value: int | bytes) -> list[float]:
    if isinstance(value, int):
        return [float(signed(value))]
    if field == 5 and len(value) == 4:
        return [float_of(value)]
    if field == 6 and len(value) == 8:
        return [double_of(value)]
    if field in (7, 10) and len(value) <= 10:  # packed: one number
        ((_, whole),) = fields_of(b"\x08" + value)
        return [float(signed(whole))] if isinstance(whole, int) else []
    return [0.0, 0.0]  # more than one


def _content(kind: int, data: bytes) -> list[float]:
    form = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q"}.get(kind)
    if form is None or len(data) != struct.calcsize(form):
        return []
    return [float_of(data) if kind == _FLOAT else float(struct.unpack(form, data)[0])]


# --- checksums ------------------------------------------------------------------------------------------------------


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def crc32c(data: bytes) -> int:
    """Returns the CRC-32C (Castagnoli) of some bytes."""
    table, found = _table(), 0xFFFFFFFF
    for byte in data:
        found = found >> 8 ^ table[(found ^ byte) & 0xFF]
    return found ^ 0xFFFFFFFF


def _masked(check: int) -> int:
    return ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF
