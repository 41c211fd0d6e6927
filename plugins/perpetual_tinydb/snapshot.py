"""A snapshot: every row of a store in one file, and an index by which single rows are read from it without the rest.

    snapshot-N.jsonl     the rows, a line each, by kind and number
    snapshot-N.index     a line of JSON, then arrays of 64-bit integers; derived, built anew in memory where it is bad

Opened lazily: a look at one row reads that row's line and the arrays of its kind. Used by `reader`, `journal` and
`examine`.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from perpetual.api import Row
from perpetual.toolkit.confined import open_file, read_bytes
from perpetual_tinydb.journal_format import Damaged, dump, is_row, seal, unseal

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict, TypeGuard

    from perpetual_tinydb.journal_format import RowLine

    class _FieldTable(TypedDict):
        values: _Place
        ends: _Place
        numbers: _Place

    class _KindTable(TypedDict):
        numbers: _Place
        offsets: _Place
        lengths: _Place
        prefix: NotRequired[str | None]
        ids: _Place
        fields: dict[str, _FieldTable]

    class _Table(TypedDict):
        """The line of an index."""

        commit: int
        size: int  # of the rows' file
        sum: int  # the checksum of the arrays
        byteorder: str
        kinds: dict[str, _KindTable]
        feed: Sequence[_Place]


__all__ = ["SHARED", "Key", "Snapshot", "key_of", "write_snapshot"]

Key: TypeAlias = object  # what an index knows a field's value by: it is hashable, and only compared
SHARED = "[]"  # the key that says little: rows under it may have different values
_BLOCK_BYTES = 1 << 20
_Place: TypeAlias = Sequence[int]  # begin and length of an array in the bytes behind the index's line


def key_of(value: object) -> Key:
    """Returns a hashable stand-in of a JSON value; values that are equal in Python have equal ones.

    Lists and mappings share one, which names candidates only: they may be equal in another order of keys.
    """
    return SHARED if isinstance(value, (list, dict)) else value


class Columns:
    """What the index knows of one kind while it is being built; rows arrive in order of their numbers."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.numbers, self.offsets, self.lengths, self.seqs = (array("q") for _ in range(4))
        self.ids: list[str] = []
        self.fields: dict[str, dict[Key, array[int]]] = {field: {} for field in fields}

    def add(self, row: Row, offset: int, length: int) -> None:
        self.numbers.append(row["_no"])
        self.offsets.append(offset)
        self.lengths.append(length)
        self.seqs.append(row["_seq"])
        self.ids.append(row["_id"])
        for field, postings in self.fields.items():
            postings.setdefault(key_of(row.get(field)), array("q")).append(row["_no"])

    def prefix(self) -> str | None:
        """Returns the text before the number in every id, or None where ids are not made of their numbers."""
        if not self.ids:
            return None
        before = self.ids[0].removesuffix(str(self.numbers[0]))
        regular = all(id == f"{before}{number}" for id, number in zip(self.ids, self.numbers, strict=True))
        return before if regular else None


def write_snapshot(
    stem: Path, commit: int, rows: Iterable[tuple[str, Row, bytes]], fields: Mapping[str, Sequence[str]]
) -> int:
    """Writes both files durably (the folder's names are the caller's to make durable); answers the bytes of the rows.

    Args:
        stem: the path without its suffix.
        rows: (kind, row, line with its line feed), all of a kind together in order of their numbers.
        fields: the indexed fields of each kind.
    """
    columns: dict[str, Columns] = {}
    offset = 0
    with open(_open_new(stem.with_suffix(".jsonl")), "wb", buffering=_BLOCK_BYTES) as file:
        for kind, row, line in rows:
            file.write(line)
            columns.setdefault(kind, Columns(fields.get(kind, ()))).add(row, offset, len(line) - 1)
            offset += len(line)
        file.flush()
        os.fsync(file.fileno())
    with open(_open_new(stem.with_suffix(".index")), "wb") as file:
        file.write(_index_bytes(commit, offset, columns))
        file.flush()
        os.fsync(file.fileno())
    return offset


def _open_new(path: Path) -> int:
    path.unlink(missing_ok=True)  # left under this name by a crashed compaction
    # O_EXCL follows no link, so that nothing outside the folder is written
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)


def _index_bytes(commit: int, size: int, columns: Mapping[str, Columns]) -> bytes:
    blobs: list[bytes] = []
    at = 0

    def place(blob: bytes) -> list[int]:
        nonlocal at
        blobs.append(blob)
        at += len(blob)
        return [at - len(blob), len(blob)]

    kinds: dict[str, _KindTable] = {}
    feed: list[tuple[int, int, int]] = []
    for order, (kind, found) in enumerate(columns.items()):
        feed += [(seq, order, number) for seq, number in zip(found.seqs, found.numbers, strict=True)]
        kinds[kind] = {
            "numbers": place(found.numbers.tobytes()),
            "offsets": place(found.offsets.tobytes()),
            "lengths": place(found.lengths.tobytes()),
            "prefix": found.prefix(),
            "ids": place(dump(found.ids).encode("utf-8")) if found.prefix() is None else [0, 0],
            "fields": {field: _postings(postings, place) for field, postings in found.fields.items()},
        }
    feed.sort()
    feed_places = [place(array("q", column).tobytes()) for column in zip(*feed, strict=True)]
    data = b"".join(blobs)
    table: _Table = {
        "commit": commit,
        "size": size,
        "sum": crc32(data),
        "byteorder": sys.byteorder,
        "kinds": kinds,
        "feed": feed_places,
    }
    return seal(dump(table)[:-1]) + data


def _postings(postings: Mapping[Key, array[int]], place: Callable[[bytes], _Place]) -> _FieldTable:
    ends, numbers = array("q"), array("q")
    for found in postings.values():
        numbers.extend(found)
        ends.append(len(numbers))
    return {
        "values": place(dump([*postings]).encode("utf-8")),
        "ends": place(ends.tobytes()),
        "numbers": place(numbers.tobytes()),
    }


def _is_index(found: Mapping[str, object], size: int, blobs: memoryview) -> TypeGuard[_Table]:
    """Returns whether it is the line of an index that fits: for rows of that size, these arrays, this machine."""
    return found.get("size") == size and found.get("byteorder") == sys.byteorder and found.get("sum") == crc32(blobs)


class _Kind:
    """The arrays of one kind, each read when it is first asked for."""

    def __init__(self, table: _KindTable, blobs: memoryview) -> None:
        self._table, self._blobs = table, blobs
        self.numbers = self._array(table["numbers"])
        self.offsets = self._array(table["offsets"])
        self.lengths = self._array(table["lengths"])
        self._ids: dict[str, int] | None = None
        self._names: list[str] | None = None
        self._prefix = table.get("prefix")
        self._fields: dict[str, tuple[dict[Key, int], array[int], array[int]]] = {}

    def _array(self, place: _Place) -> array[int]:
        values = array("q")
        values.frombytes(self._blobs[place[0] : place[0] + place[1]])
        return values

    def _text(self, place: _Place) -> bytes:
        return bytes(self._blobs[place[0] : place[0] + place[1]])

    def place(self, number: int) -> tuple[int, int] | None:
        """Returns offset and length of the line of the row with that number."""
        index = bisect_left(self.numbers, number)
        if index == len(self.numbers) or self.numbers[index] != number:
            return None
        return self.offsets[index], self.lengths[index]

    def name(self, number: int) -> str:
        """Returns the id of the row with that number, which is here."""
        if self._prefix is not None:
            return f"{self._prefix}{number}"
        return self._listed()[bisect_left(self.numbers, number)]

    def number(self, id: str) -> int | None:
        """Returns the number of the row with that id; None if it is not here."""
        if self._prefix is not None:
            digits = id.removeprefix(self._prefix)
            number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else 0
            return number if id == f"{self._prefix}{number}" and self.place(number) is not None else None
        if self._ids is None:
            self._ids = dict(zip(self._listed(), self.numbers, strict=True))
        return self._ids.get(id)

    def _listed(self) -> list[str]:
        if self._names is None:
            names: list[str] = json.loads(self._text(self._table["ids"]))
            self._names = names
        return self._names

    def postings(self, field: str, key: Key) -> Sequence[int] | None:
        """Returns the numbers of the rows whose field has that value, in order; None where the field has no index."""
        if field not in self._table["fields"]:
            return None
        if field not in self._fields:
            table = self._table["fields"][field]
            positions = {value: index for index, value in enumerate(json.loads(self._text(table["values"])))}
            self._fields[field] = positions, self._array(table["ends"]), self._array(table["numbers"])
        positions, ends, numbers = self._fields[field]
        index = positions.get(key)
        if index is None:
            return ()
        return numbers[ends[index - 1] if index else 0 : ends[index]]


class Snapshot:
    """The rows of a snapshot. Reads are safe in threads once `kind` was asked for; the files may be unlinked."""

    def __init__(self, stem: Path, size: int, fields: Mapping[str, Sequence[str]]) -> None:
        """Opens the pair of files, of which the rows' has `size` bytes.

        Raises:
            FileNotFoundError: if there is no snapshot of that name (any more).
            Damaged: if it is shorter or longer, or the index is bad and the rows cannot be read either.
        """
        self.path = stem.with_suffix(".jsonl")
        descriptor = open_file(self.path)
        try:
            self.size = os.fstat(descriptor).st_size
            self._data = mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ) if self.size else b""
        finally:
            os.close(descriptor)
        if self.size != size:
            raise Damaged(f"it has {self.size} bytes and had {size}", min(self.size, size))
        self.rebuilt = False
        found = self._read_index(stem.with_suffix(".index"))
        if found is None:
            self.rebuilt = True
            found = self._rebuild(fields)
        self._table, self._blobs = found
        self.commit = self._table["commit"]
        self._kinds: dict[str, _Kind | None] = {}
        self._feed: list[array[int]] | None = None

    def _read_index(self, path: Path) -> tuple[_Table, memoryview] | None:
        """Returns the index, or None where it is absent, damaged or of another machine."""
        try:
            data = read_bytes(path)
        except FileNotFoundError:
            return None
        end = data.find(b"\n")
        try:
            table = unseal(data[: max(end, 0)])
        except Damaged:
            return None
        blobs = memoryview(data)[end + 1 :]
        return (table, blobs) if _is_index(table, self.size, blobs) else None

    def _rebuild(self, fields: Mapping[str, Sequence[str]]) -> tuple[_Table, memoryview]:
        """Returns the index from the rows themselves."""
        columns: dict[str, Columns] = {}
        commit = 0
        for kind, row, offset, length in self.scan():
            columns.setdefault(kind, Columns(fields.get(kind, ()))).add(row, offset, length)
            commit = max(commit, row["_seq"])
        data = _index_bytes(commit, self.size, columns)
        end = data.find(b"\n")
        table, blobs = unseal(data[:end]), memoryview(data)[end + 1 :]
        assert _is_index(table, self.size, blobs)
        return table, blobs

    def scan(self) -> Iterator[tuple[str, Row, int, int]]:
        """Yields every (kind, row, offset, length), each checked.

        Raises:
            Damaged: at the first line that is not what was written.
        """
        position = 0
        while position < self.size:
            end = self._data.find(b"\n", position)
            if end < 0:
                raise Damaged("it ends within a line", position)
            found = self._decode(position, end - position)
            yield found["k"], found["r"], position, end - position
            position = end + 1

    def _decode(self, offset: int, length: int) -> RowLine:
        """Returns what a line holds. Raises Damaged, and KeyError for a line that is no row's."""
        try:
            found = unseal(self._data[offset : offset + length])
        except Damaged as problem:
            raise Damaged(str(problem), offset) from problem
        if not is_row(found):
            raise KeyError("k")
        return found

    def kinds(self) -> list[str]:
        """Returns the kinds that have rows here."""
        return [*self._table["kinds"]]

    def kind(self, name: str) -> _Kind | None:
        """Returns the arrays of a kind, or None if it has no rows here."""
        if name not in self._kinds:
            table = self._table["kinds"].get(name)
            self._kinds[name] = _Kind(table, self._blobs) if table else None
        return self._kinds[name]

    def last(self, kind: str) -> int:
        """Returns the greatest number of the kind, 0 without rows."""
        found = self.kind(kind)
        return found.numbers[-1] if found and found.numbers else 0

    def row(self, kind: str, number: int) -> Row | None:
        """Returns the row, decoded anew; None if it is not here."""
        found = self.kind(kind)
        place = found.place(number) if found else None
        if place is None:
            return None
        return self._decode(*place)["r"]

    def line(self, kind: str, number: int) -> bytes:
        """Returns the line of a row that is here, with its line feed and unchecked."""
        found = self.kind(kind)
        place = found.place(number) if found else None
        if place is None:
            raise KeyError(number)
        return self._data[place[0] : sum(place) + 1]

    def changes(self, since: int) -> Iterator[tuple[int, str, int, str]]:
        """Yields (seq, kind, number, id) of the rows whose commit is later than `since`, in its order."""
        if since >= self.commit or not self._table["feed"]:
            return
        if self._feed is None:
            self._feed = []
            for start, length in self._table["feed"]:
                column = array("q")
                column.frombytes(self._blobs[start : start + length])
                self._feed.append(column)
        seqs, orders, numbers = self._feed
        names = self.kinds()
        for index in range(bisect_right(seqs, since), len(seqs)):
            kind = names[orders[index]]
            found = self.kind(kind)
            assert found is not None
            yield seqs[index], kind, numbers[index], found.name(numbers[index])
