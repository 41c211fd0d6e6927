"""Size of an object, known before it is inflated: a few foreign kilobytes can unfold to gigabytes.

Only `objects` imports this. A loose object is inflated up to the limit. Of an object in a pack the sizes that the pack
declares are read, along its chain of deltas: dulwich inflates at most the declared size.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

from perpetual.toolkit.confined import open_file, read_bytes

__all__ = ["LARGEST", "TooLarge", "check_packed", "loose"]

LARGEST = 16 * 1024 * 1024  # bytes of an object; a note has at most 256 KiB, a tree 40 bytes an entry
_LONGEST_CHAIN = 4096  # deltas, git's own limit
_HEAD = 64  # bytes: more than the head of an object or of a delta takes
_NUMBERS = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
_OFS_DELTA, _REF_DELTA = 6, 7


class TooLarge(Exception):
    """An object, or one that it is made from, is larger than the limit."""

    def __init__(self) -> None:
        super().__init__(f"it is larger than {LARGEST // 2**20} MiB")


def loose(path: Path) -> tuple[int, bytes] | None:
    """Returns type number and content of the loose object in a file, None where there is none.

    Raises:
        TooLarge: beyond the limit.
        ValueError, zlib.error: if it is none.
    """
    try:
        data = read_bytes(path, limit=LARGEST + _HEAD)
    except (FileNotFoundError, NotADirectoryError):
        return None
    inflater = zlib.decompressobj()
    content = inflater.decompress(data, LARGEST + _HEAD + 1)
    if len(content) > LARGEST + _HEAD:
        raise TooLarge
    if not inflater.eof:
        raise ValueError("it is cut off")
    head, _, raw = content.partition(b"\0")
    kind, _, size = head.partition(b" ")
    if kind not in _NUMBERS or not size.isdigit() or int(size[:20]) != len(raw):
        raise ValueError("its head is none")
    return _NUMBERS[kind], raw


def check_packed(pack: Path, offset: int, offset_of: Callable[[bytes], int | None]) -> None:
    """Raises TooLarge if an object of the pack, or one that it is a delta of, declares to be larger than the limit.

    Args:
        offset_of: where the pack has the object of a binary name, None where it has none.
    """
    descriptor = open_file(pack)
    try:
        at: int | None = offset
        for _ in range(_LONGEST_CHAIN):
            if at is None:
                return  # dulwich says what is missing
            at = _base(os.pread(descriptor, 256, at), at, offset_of)
            if at == -1:
                return
        raise TooLarge
    finally:
        os.close(descriptor)


def _base(data: bytes, at: int, offset_of: Callable[[bytes], int | None]) -> int | None:
    """Returns the position of the object's base, -1 for one without."""
    if not data:
        return -1
    kind, size = data[0] >> 4 & 7, data[0] & 15
    place, shift = 1, 4
    while data[place - 1] & 128 and place < len(data):
        size |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
    if size > LARGEST:
        raise TooLarge
    if kind == _OFS_DELTA:
        back, place = _offset(data, place)
        found: int | None = at - back if 0 < back < at else -1
    elif kind == _REF_DELTA:
        found, place = offset_of(data[place : place + 20]), place + 20
    else:
        return -1
    try:
        head = zlib.decompressobj().decompress(data[place:], _HEAD)
    except zlib.error:
        return -1
    _, rest = _varint(head)
    made, _ = _varint(rest)
    if made > LARGEST:
        raise TooLarge
    return found


def _offset(data: bytes, place: int) -> tuple[int, int]:
    """Returns the distance back to the base of a delta, in git's own way of writing it."""
    back = 0
    while place < len(data):
        byte = data[place]
        place += 1
        back = (back << 7) | (byte & 127)
        if not byte & 128:
            break
        back += 1
    return back, place


def _varint(data: bytes) -> tuple[int, bytes]:
    value = shift = used = 0
    for byte in data[:10]:
        value |= (byte & 127) << shift
        shift, used = shift + 7, used + 1
        if not byte & 128:
            break
    return value, data[used:]
