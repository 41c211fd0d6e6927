"""Objects of a stranger's repository that unfold to much more than they take: refused before they are inflated."""

from __future__ import annotations

import hashlib
import os
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest

from perpetual_git.errors import RepositoryError
from perpetual_git.repository import NoteRepository

HUGE = 48 * 2**20


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.git"
    NoteRepository.open(path).close()
    return path


def _name_as_head(memory: Path, name: str) -> None:
    (memory / "refs" / "heads" / "main").write_text(name + "\n")


def _deflated(head: bytes, size: int) -> bytes:
    deflater = zlib.compressobj(1)
    return deflater.compress(head) + b"".join(
        deflater.compress(bytes(2**20)) for _ in range(size // 2**20)
    ) + deflater.flush()  # fmt: skip


def _refused(memory: Path) -> str:
    tracemalloc.start()
    try:
        with NoteRepository.open(memory) as repository, pytest.raises(RepositoryError) as refused:
            repository.listing()
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20
    finally:
        tracemalloc.stop()
    return str(refused.value)


@pytest.mark.parametrize("claimed", [HUGE, 5])
def test_a_loose_bomb_is_refused(memory: Path, claimed: int) -> None:
    name = "ab" + "1" * 38
    (memory / "objects" / "ab").mkdir()
    (memory / "objects" / "ab" / ("1" * 38)).write_bytes(_deflated(b"commit %d\0" % claimed, HUGE))
    _name_as_head(memory, name)
    assert "larger than 16 MiB" in _refused(memory)


BROKEN = [
    b"",
    b"x",
    zlib.compress(b"commit 3\0ab"),
    zlib.compress(b"commit -1\0"),
    zlib.compress(b"blob 99999999999999999999999999\0"),
    zlib.compress(b"commit 2\0ab")[:-3],
]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_loose_object_is_damaged(memory: Path, content: bytes) -> None:
    name = "ab" + "1" * 38
    (memory / "objects" / "ab").mkdir()
    (memory / "objects" / "ab" / ("1" * 38)).write_bytes(content)
    _name_as_head(memory, name)
    with NoteRepository.open(memory) as repository, pytest.raises(RepositoryError, match="damaged"):
        repository.listing()


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _entry(kind: int, size: int, rest: bytes) -> bytes:
    first, left = kind << 4 | size & 15, size >> 4
    return bytes([first | 128]) + _varint(left) + rest if left else bytes([first]) + rest


def _pack(memory: Path, entries: list[tuple[bytes, bytes]]) -> None:
    """A pack of (binary name, entry) with its index, as git lays them out."""
    data = b"PACK" + struct.pack(">II", 2, len(entries))
    offsets = {}
    for name, entry in entries:
        offsets[name] = len(data)
        data += entry
    data += hashlib.sha1(data).digest()
    names = sorted(offsets)
    counts = [sum(name[0] <= first for name in names) for first in range(256)]
    index = b"\377tOc" + struct.pack(">I", 2) + struct.pack(">256I", *counts) + b"".join(names)
    index += b"\0\0\0\0" * len(names) + b"".join(struct.pack(">I", offsets[name]) for name in names) + data[-20:]
    stem = memory / "objects" / "pack" / f"pack-{'1' * 40}"
    os.makedirs(stem.parent, exist_ok=True)
    stem.with_suffix(".pack").write_bytes(data)
    stem.with_suffix(".idx").write_bytes(index + hashlib.sha1(index).digest())


def test_a_packed_bomb_is_refused(memory: Path) -> None:
    name = b"\xab" * 20
    _pack(memory, [(name, _entry(1, HUGE, _deflated(b"", HUGE)))])
    _name_as_head(memory, name.hex())
    assert "larger than 16 MiB" in _refused(memory)


def test_a_small_delta_that_makes_much_is_refused(memory: Path) -> None:
    base, name = b"\xaa" * 20, b"\xab" * 20
    copies = (b"\xf0" + b"\xff\xff\xff") * (HUGE // 0xFFFFFF)  # each copies 16 MiB of the base
    delta = _varint(2**20) + _varint(HUGE) + copies
    _pack(memory, [(base, _entry(1, 2**20, zlib.compress(bytes(2**20)))),
                   (name, _entry(7, len(delta), base + zlib.compress(delta)))])  # fmt: skip
    _name_as_head(memory, name.hex())
    assert "larger than 16 MiB" in _refused(memory)


def test_a_delta_of_itself_is_damaged(memory: Path) -> None:
    name = b"\xab" * 20
    delta = _varint(3) + _varint(3) + b"\x03abc"
    _pack(memory, [(name, _entry(7, len(delta), name + zlib.compress(delta)))])
    _name_as_head(memory, name.hex())
    assert "damaged" in _refused(memory)
