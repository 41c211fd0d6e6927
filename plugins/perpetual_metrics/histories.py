"""Histories: all values of a run's metrics with their steps, as the readers find them. For `readers`.

A line is one moment: its numbers are values, and what it says of `step`, `epoch` and the like is where they belong.
Files grow while they are read; a torn last line is left out until it is whole. Of a file over the limit evenly spaced
pieces are read, its start and its end among them.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, cast

from perpetual.api import MetricHistory
from perpetual.toolkit.deadline import Deadline

__all__ = [
    "AXES",
    "Histories",
    "Pieces",
    "number_in",
    "of_csv",
    "of_json_lines",
    "of_text",
    "read_pieces",
    "read_span",
    "spans",
]

# Names that say where a line belongs, the finest first.
AXES = ("step", "global_step", "_step", "iteration", "epoch")
TIMES = ("time", "_timestamp")
_POSITIONS = frozenset((*AXES, *TIMES))
_PIECES = 16  # of a long file
_END_SHARE = 4  # the last piece is a fourth of the limit: what is newest is wanted most
_LONGEST_LINE = 2**20  # bytes; a longer one is no line of a log
_BATCH = 4096  # lines that are parsed at once
_MOST_NAMES = 1000
_NUMBERS = frozenset((float, int))
_LARGEST = sys.float_info.max
_WORDS = {"iter": "iteration"}
_POSITION = re.compile(
    r"\b(step|epoch|iteration|iter)\b\s{0,4}[:=#]?\s{0,4}\[?(\d{1,15})(?:\s?/\s?(\d{1,15})\b)?", re.I
)


class Pieces(NamedTuple):
    """What was read of a file, as whole lines: one list of lines a piece."""

    lines: list[list[bytes]]
    skipped_bytes: int
    written_at_s: float


def read_pieces(descriptor: int, limit_bytes: int) -> Pieces:
    """Returns the lines of an open file; of one over the limit those of evenly spaced pieces. Closes it."""
    try:
        found = os.fstat(descriptor)
        size = found.st_size
        kept, read = [], 0
        for begin, length in spans(size, limit_bytes):
            lines = _whole(read_span(descriptor, begin, length), is_last=begin + length == size)
            kept.append(lines[1:] if begin else lines)  # the rest of a line that is cut
            read += length
        return Pieces(kept, size - read, found.st_mtime)
    finally:
        os.close(descriptor)


def spans(size: int, limit: int) -> list[tuple[int, int]]:
    """Returns (begin, length) of what is read of a file: the whole of it, or evenly spaced pieces and its end."""
    if size <= limit:
        return [(0, size)]
    last = limit // _END_SHARE
    one = (limit - last) // _PIECES
    return [*(((size - last - one) * n // (_PIECES - 1), one) for n in range(_PIECES)), (size - last, last)]


def read_span(descriptor: int, begin: int, length: int) -> bytes:
    """Returns the bytes from a place on, as many as there are."""
    parts = []
    while length > 0 and (part := os.pread(descriptor, length, begin)):
        parts.append(part)
        begin, length = begin + len(part), length - len(part)
    return b"".join(parts)


def _whole(data: bytes, *, is_last: bool) -> list[bytes]:
    """Returns the lines; the end without a line end is one in a file's last piece alone, where its parser judges it."""
    lines = data.split(b"\n")
    if not is_last:
        lines.pop()
    return lines


class _Columns(NamedTuple):
    """Values of one metric, and by name of a position what their lines say of it; all lists are of one length."""

    values: list[float | None]
    positions: dict[str, list[float | None]]


class Histories:
    """Collects values, many lines at once; `wanted` are the names of metrics, none for all."""

    def __init__(self, wanted: Collection[str], file: str, pieces: Pieces, deadline: Deadline) -> None:
        self._wanted, self._file, self._pieces, self._deadline = tuple(wanted), file, pieces, deadline
        self._found: dict[str, _Columns] = {}

    def add(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Takes lines, each with its names and values."""
        names = dict.fromkeys(chain.from_iterable(rows))
        places = [name for name in (*AXES, *TIMES) if name in names]
        for name in self._wanted or names:
            if name in _POSITIONS or name not in names:
                continue
            if name not in self._found and len(self._found) >= _MOST_NAMES:
                continue
            self._deadline.check()
            kept = rows
            if not _NUMBERS.issuperset(map(type, (row.get(name) for row in rows))):  # rarely so
                kept = [row for row in rows if name in row and _is_number(row[name])]
            if kept:
                self._extend(name, kept, places)

    def _extend(self, name: str, rows: Sequence[Mapping[str, object]], places: Sequence[str]) -> None:
        found = self._found.setdefault(name, _Columns([], {}))
        before = len(found.values)
        found.values.extend(_column(rows, name))
        for place in places:
            if place not in found.positions:
                found.positions[place] = [None] * before
        for place, column in found.positions.items():
            column.extend(_column(rows, place) if place in places else [None] * len(rows))

    def made(self) -> dict[str, MetricHistory]:
        """Returns what was collected."""
        return {name: self._history(columns) for name, columns in self._found.items()}

    def _history(self, found: _Columns) -> MetricHistory:
        known = {name: len(column) - column.count(None) for name, column in found.positions.items()}
        axis = max((name for name in AXES if known.get(name)), key=lambda name: known[name], default=None)
        size = len(found.values)
        if axis is not None:
            steps = found.positions[axis]
        elif self._pieces.skipped_bytes:  # what was left out is not counted, so what comes after it has no place
            steps = [None] * size
        else:
            steps = [float(n) for n in range(1, size + 1)]
        clock = next((name for name in TIMES if known.get(name)), None)
        times = [None] * size if clock is None else found.positions[clock]
        return MetricHistory(
            axis, steps, found.values, times, self._file, self._pieces.written_at_s, self._pieces.skipped_bytes
        )


def _column(rows: Sequence[Mapping[str, object]], name: str) -> list[float | None]:
    found = cast("list[float]", [row.get(name) for row in rows])
    return [x if type(x) in _NUMBERS and -_LARGEST <= x <= _LARGEST else None for x in found]


def _is_number(item: object) -> bool:
    return type(item) is float or type(item) is int or _is_number_word(item)


def _is_number_word(item: object) -> bool:
    """Returns whether a value of JSON stands for a number that JSON has no form for."""
    if isinstance(item, dict):
        return item.keys() == {"type", "text"} and item["type"] in ("float", "int")
    return isinstance(item, str) and item.lower() in ("nan", "inf", "-inf")


def of_json_lines(
    pieces: Pieces, wanted: Collection[str], file: str, parse: Callable[[bytes], object], limit_s: float
) -> dict[str, MetricHistory]:
    """Returns the histories in JSON objects, one a line; `parse` parses a line, raising ValueError."""
    deadline = Deadline(limit_s)
    found = Histories(wanted, file, pieces, deadline)
    needles = [*{json.dumps(name, ensure_ascii=is_ascii).encode() for name in wanted for is_ascii in (True, False)}]
    for lines in pieces.lines:
        for start in range(0, len(lines), _BATCH):
            deadline.check()
            kept = [each.strip() for each in lines[start : start + _BATCH] if len(each) <= _LONGEST_LINE]
            kept = [line for line in kept if line[:1] == b"{" and line[-1:] == b"}"]
            if len(needles) == 1:  # a name with an escape of another form is found by its backslash
                kept = [line for line in kept if needles[0] in line or b"\\" in line]
            elif needles:
                kept = [line for line in kept if b"\\" in line or any(needle in line for needle in needles)]
            found.add(_rows(kept, parse))
    return found.made()


def _rows(lines: list[bytes], parse: Callable[[bytes], object]) -> list[dict[str, object]]:
    """Returns the objects; many are parsed in one call, and each by itself where one is no JSON."""
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        rows = None
    if rows is None or len(rows) != len(lines):
        rows = [*_one_by_one(lines, parse)]
    return [row for row in rows if type(row) is dict]


def _one_by_one(lines: Iterable[bytes], parse: Callable[[bytes], object]) -> Iterator[object]:
    for line in lines:
        try:
            yield parse(line)
        except ValueError:
            continue  # other output, or a torn line


def of_csv(
    pieces: Pieces, wanted: Collection[str], file: str, cell: re.Pattern[str], limit_s: float
) -> dict[str, MetricHistory]:
    """Returns the histories in a table; its first row has the names, `cell` is the form of a number."""
    deadline = Deadline(limit_s)
    found = Histories(wanted, file, pieces, deadline)
    names: list[str] | None = None
    for lines in pieces.lines:
        texts = [line.decode("utf-8-sig", "replace").replace("\0", "\ufffd") + "\n" for line in lines]
        kept = []
        try:
            for row in csv.reader(texts):
                if names is None:
                    names = [name.strip() for name in row]
                elif len(row) >= len(names):  # a shorter one is torn
                    kept.append(_cells(names, row, cell))
                deadline.check()
        except csv.Error:
            pass  # a field without an end, or beyond the module's limit: what stood before it counts
        found.add(kept)
    return found.made()


def _cells(names: list[str], row: list[str], cell: re.Pattern[str]) -> dict[str, object]:
    return {
        name: float(text)
        for name, each in zip(names, row, strict=False)
        if name and len(text := each.strip()) <= 1000 and cell.match(text)
    }


def of_text(
    pieces: Pieces, wanted: Collection[str], file: str, pair: re.Pattern[str], longest: int, limit_s: float
) -> dict[str, MetricHistory]:
    """Returns the histories in lines such as `epoch 3/10 loss=2.2`; `pair` finds a name and a number."""
    deadline = Deadline(limit_s)
    found = Histories(wanted, file, pieces, deadline)
    for lines in pieces.lines:
        kept: list[dict[str, object]] = []
        for number, each in enumerate(lines):
            if not number % 1024:
                deadline.check()
            for line in each.split(b"\r"):  # a progress bar rewrites its line
                if b":" not in line and b"=" not in line:
                    continue
                text = line[: longest * 4].decode("utf-8", "replace")
                row: dict[str, object] = {
                    match[1]: number_in(match[2])
                    for match in pair.finditer(text[:longest])
                    if match.end() < min(longest, len(text)) or len(text) <= longest
                }
                if row:
                    kept.append({**row, **_positions(text[:longest])})
        found.add(kept)
    return found.made()


def number_in(text: str) -> float:
    """Returns the number that a text is; NaN where a comma in it may be a decimal point or set off thousands."""
    return math.nan if "," in text else float(text)


def _positions(text: str) -> dict[str, object]:
    """Returns where a line of text belongs, and of how many: `epoch 3/10` is of `total_epochs`."""
    found: dict[str, object] = {}
    for match in _POSITION.finditer(text):
        word = match[1].lower()
        name = _WORDS.get(word, word)
        found.setdefault(name, float(match[2]))
        if match[3] is not None:
            found.setdefault(f"total_{name}s", float(match[3]))
    return found
