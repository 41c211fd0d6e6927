"""The wire format of protocol buffers, as much as the files of training loggers need."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Point", "double_of", "fields_of", "float_of", "signed", "text_of"]

_LONGEST_VARINT = 10  # bytes


class Point(NamedTuple):
    """A value that a logger wrote; `place` is its record or line in the file, `time_s` POSIX seconds."""

    place: int
    name: str
    value: float
    step: float | None = None
    time_s: float | None = None


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (number, value) of each field of a message: whole numbers as int, all else as its bytes.

    Raises:
        ValueError: where the bytes are no message.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            whole, at = _varint(data, at)
            yield number, whole
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} is not known")
        if size > len(data) - at:
            raise ValueError("a field is cut off")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(data):
            raise ValueError("a number is cut off")
        byte = data[at + place]
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return found, at + place + 1
    raise ValueError("a number is too long")


def signed(whole: int) -> int:
    """Returns a 64-bit number with its sign."""
    whole &= 2**64 - 1
    return whole - 2**64 if whole >= 2**63 else whole


def float_of(data: bytes) -> float:
    """Returns a 32-bit float."""
    return float(struct.unpack("<f", data)[0])


def double_of(data: bytes) -> float:
    """Returns a 64-bit float."""
    return float(struct.unpack("<d", data)[0])


def text_of(data: int | bytes) -> str:
    """Returns a text; raises ValueError (of which UnicodeDecodeError is one) for what is none."""
    if isinstance(data, int):
        raise ValueError("no text")
    return data.decode("utf-8")
