"""The lines of which a journal and a snapshot are made. Pure; used by the modules beside it.

Each line is a JSON object that ends in the checksum of what stands before it:

    {"k":"run","r":{"_id":"r1",...},"c":"5f0e3a91"}        a row
    {"n":12,"rows":2,"c":"0b77c2d4"}                       the commit of the rows since the last commit

so a file can be read by eye and by any JSON tool, and a bit that flipped is found. CRC-32 is that of zlib (ISO 3309).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from typing import TypedDict, TypeGuard

    from perpetual.api import Row

    class RowLine(TypedDict):
        """What the line of a row holds: kind, row and checksum."""

        k: str
        r: Row
        c: str

    class _CommitLine(TypedDict):
        n: int
        rows: int
        c: str


__all__ = [
    "TAIL",
    "Commit",
    "Damaged",
    "Entry",
    "commit_line",
    "commits",
    "dump",
    "has_commit",
    "is_row",
    "is_whole",
    "parse",
    "row_line",
    "seal",
    "unseal",
]

TAIL = len(',"c":"00000000"}')
_LONGEST_COMMIT = 200  # bytes of a commit's line: two numbers and a checksum
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Damaged(ValueError):
    """Bytes that no store wrote, or not to their end; `offset` is where they begin."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a commit: the place of its line in the file, and its decoded content."""

    kind: str
    row: Row
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A whole commit; `end` is the offset behind it."""

    number: int
    entries: Sequence[Entry]
    end: int


def dump(value: object) -> str:
    """Returns compact JSON on one line, letters as they are."""
    return _encode(value)


def seal(body: str) -> bytes:
    """Returns the line of a JSON object given without its closing brace."""
    data = body.encode("utf-8")
    return b'%s,"c":"%08x"}\n' % (data, crc32(data))


def unseal(line: bytes) -> dict[str, object]:
    """Returns what a line (without its line feed) holds.

    Raises:
        Damaged: if its checksum is wrong or absent.
    """
    body, tail = line[:-TAIL], line[-TAIL:]
    if tail != b',"c":"%08x"}' % crc32(body):
        raise Damaged("its checksum is wrong")
    try:
        found: dict[str, object] = _decode(line.decode("utf-8"))[0]
    except (ValueError, RecursionError) as problem:
        raise Damaged(f"it is no JSON: {problem}") from problem
    return found


def is_row(found: Mapping[str, object]) -> TypeGuard[RowLine]:
    """Returns whether the line that holds this is a row's: a store seals no other with this key."""
    return "k" in found


def _is_commit(found: Mapping[str, object], rows: int) -> TypeGuard[_CommitLine]:
    """Returns whether the line that holds this is the commit of so many rows. Raises KeyError if it is no commit's."""
    return found["rows"] == rows


def parse(line: bytes) -> Row:
    """Returns the row in a line whose checksum was verified before."""
    row: Row = _decode(line.decode("utf-8"))[0]["r"]
    return row


def row_line(kind: str, row: Row) -> bytes:
    """Returns the line of a row."""
    return seal(f'{{"k":{_encode(kind)},"r":{_encode(row)}')


def commit_line(number: int, rows: int) -> bytes:
    """Returns the line that makes the rows before it a commit."""
    return seal(f'{{"n":{number},"rows":{rows}')


def commits(data: bytes, start: int) -> Iterator[Commit]:
    """Yields the commits in `data`, which begins at offset `start` of its file.

    Raises:
        Damaged: at the first byte that belongs to no whole commit, once those before it were given.
    """
    position, begun = 0, 0
    entries: list[Entry] = []
    while position < len(data):
        end = data.find(b"\n", position)
        if end < 0:
            raise Damaged("it ends within a line", start + begun)
        try:
            found = unseal(data[position:end])
            if is_row(found):
                entries.append(Entry(found["k"], found["r"], start + position, end - position))
            elif _is_commit(found, len(entries)):
                yield Commit(found["n"], entries, start + end + 1)
                entries, begun = [], end + 1
            else:
                raise Damaged("a commit has lost rows")
        except (Damaged, KeyError) as problem:
            raise Damaged(str(problem), start + begun) from problem
        position = end + 1
    if entries:
        raise Damaged("its last commit is not whole", start + begun)


def has_commit(data: bytes) -> bool:
    """Returns whether `data` holds a whole commit line: damaged bytes before it were once acknowledged."""
    position = data.find(b'{"n":')  # looked for within lines too: the line feed before it may be what is damaged
    end = 0
    while position >= 0:
        if end <= position and (end := data.find(b"\n", position)) < 0:
            return False
        # A longer line is none: to look at it from each of its bytes would cost its length squared.
        if end - position <= _LONGEST_COMMIT and _is_sealed(data[position:end]):
            return True
        position = data.find(b'{"n":', position + 1)
    return False


def _is_sealed(line: bytes) -> bool:
    try:
        unseal(line)
    except Damaged:
        return False
    return True


def is_whole(data: bytes) -> bool:
    """Returns whether `data`, without a whole commit, was one to its last byte once: then it is damaged, not torn."""
    line, end = data[:-1].rpartition(b"\n")[2], data[-1:]
    try:
        found = unseal(line)
    except Damaged:
        return end == b"\n"  # the last line was written to its end
    return end != b"\n" and "n" in found
