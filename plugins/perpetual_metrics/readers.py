"""Metric readers: each finds a finished run's numbers in one kind of place. Imported by the kernel, one by one.

The last value of a metric is the run's. A number that is NaN or infinite is reported as None with its place; a file
older than the run's start belongs to another run. Where several readers find a metric of the same name, the surer
place counts: `results.json`, then what `perpetual.log` wrote, `results.csv` or `metrics.csv`, JSON on standard output,
text on standard output. In the run's own folder a file counts before one in the working directory.
"""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from perpetual.api import MetricHistory, MetricReader, MetricValue, RunFolder
from perpetual.toolkit.confined import UnsafePath, is_inside, open_file
from perpetual.toolkit.deadline import Deadline
from perpetual_metrics import histories

__all__ = [
    "CELL",
    "CsvFile",
    "MetricsLog",
    "ResultsFile",
    "StdoutJson",
    "StdoutText",
    "changed_within",
    "csv_file",
    "metrics_log",
    "results_file",
    "stdout_json",
    "stdout_text",
]

LIMIT_BYTES = 32 * 1024 * 1024  # of a log, from its end: the last value counts
_PIECE_BYTES = 1024 * 1024
_LONGEST_LINE = 2000  # characters of a line of text that are looked at
# A file system keeps times to the tick of the kernel's clock, and a few to whole seconds (FAT: to two of them).
_TICK_S, _WHOLE_SECONDS_S = 0.02, 2.0
_LONGEST_INTEGER = 400  # digits; a longer one is beyond a float, and int() is quadratic in them
_LONGEST_CELL = 1000  # characters of a cell whose number has a value
LIMIT_S = 30.0  # a reader's whole time
_LINES_A_LOOK = 1024  # lines between two looks at the clock
_NAME = r"[A-Za-z_][\w./-]{0,99}"
# Possessive: digits that were taken once are never tried in another split, or a long number costs its length squared.
_NUMBER = r"[+-]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?|nan|NaN|NAN|inf|Infinity|Inf)"
# A comma between digits is a decimal point to some and sets off thousands for others: such a number is kept whole.
_TEXT = re.compile(rf"(?:^|[\s,;|])({_NAME})\s*+[:=]\s*+({_NUMBER}(?:,\d[\d,.eE]*+)?)(?=$|[\s,;|%])")
CELL = re.compile(rf"{_NUMBER}\Z", re.IGNORECASE)
_ITEMS = "items"  # of a line, or of results.json: the scores of the test items behind its numbers
_BOOKKEEPING = frozenset({"step", "epoch", "time", "iteration"})  # a line's position, not its result


class _Content(NamedTuple):
    """A file's bytes, or its last ones from a line's start on."""

    data: bytes
    first_line: int  # the number of the first line in `data`


def _opened(path: Path) -> int:
    try:
        return open_file(path)
    except UnsafePath as problem:
        real = os.path.realpath(path)
        here = os.path.join(os.path.realpath(path.parent), "")
        if problem.errno != errno.ELOOP or is_inside(path) or not real.startswith(here):
            raise
        return open_file(real)


def _open_newer(path: Path, newer_than_s: float | None, older_than_s: float | None = None) -> int | None:
    """Returns a descriptor of what a run left at a path; None if that is no file, or changed before or after these.

    Raises UnsafePath as `_content`.
    """
    try:
        descriptor = _opened(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnsafePath as problem:
        if problem.errno == errno.ENXIO:  # a pipe or a folder of that name is no result
            return None
        raise
    found = os.fstat(descriptor)
    if not changed_within(found, newer_than_s, older_than_s):
        os.close(descriptor)
        return None
    return descriptor


def _content(path: Path, newer_than_s: float | None, limit_bytes: int) -> _Content | None:
    """Returns what a run left at a path; None if that is no file, or an older one. Of a long one the end.

    Raises UnsafePath for a link that leads out of the working directory, or any in the run's own folder.
    """
    descriptor = _open_newer(path, newer_than_s)
    if descriptor is None:
        return None
    found = os.fstat(descriptor)
    with os.fdopen(descriptor, "rb") as file:
        skipped = max(0, found.st_size - limit_bytes)
        lines = 0
        left = skipped
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            lines += piece.count(b"\n")
            left -= len(piece)
        if skipped:
            file.readline(limit_bytes)  # the rest of a line that is cut
            lines += 1
        return _Content(file.read(limit_bytes), lines + 1)


def changed_within(found: os.stat_result, newer_than_s: float | None, older_than_s: float | None = None) -> bool:
    """Returns whether a file's last change lies between two times in seconds; None is no limit.

    An older one was left by the run before, a newer one was written to by a run after. A file system's clock may
    differ from the real one by a tick.
    """
    slack_s = _TICK_S if found.st_mtime_ns % 1_000_000_000 else _WHOLE_SECONDS_S
    if newer_than_s is not None and found.st_mtime < newer_than_s - slack_s:
        return False
    return older_than_s is None or found.st_mtime <= older_than_s + slack_s


def _parsed(text: str | bytes) -> object:
    """Returns the parsed JSON, a number of very many digits as an infinite one.

    Raises:
        ValueError: if it is none, or nested too deeply.
    """
    try:
        found: object = json.loads(text, parse_int=_integer)
        return found
    except RecursionError as problem:
        raise ValueError("nested too deeply") from problem


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


def _value(found: object, source: str) -> MetricValue | None:
    """Returns the metric of a JSON value; None if it is no number at all."""
    if isinstance(found, dict) and found.keys() == {"type", "text"} and found["type"] in ("float", "int"):
        found = _of_typed(str(found["text"]))  # as perpetual.log writes what JSON has no number for
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return MetricValue(None, source) if isinstance(found, str) and found.lower() in ("nan", "inf", "-inf") else None
    try:
        number = float(found)
    except OverflowError:
        return MetricValue(None, source)
    return MetricValue(number if math.isfinite(number) else None, source)


def _scores(found: object) -> tuple[float, ...] | None:
    """Returns the scores of test items: a list of numbers; None for anything else."""
    if not isinstance(found, list) or not all(type(item) in (int, float, bool) for item in found):
        return None
    try:
        return tuple(map(float, found))
    except OverflowError:
        return None


def _of_typed(text: str) -> int | float:
    try:
        return int(text, 16) if "0x" in text[:3] else float(text)
    except ValueError:
        return math.nan


class _Limited(MetricReader):
    """A reader that stops after `limit_s` seconds, and reads at most the last `limit_bytes` of a file."""

    def __init__(self, *, limit_s: float = LIMIT_S, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_s, self._limit_bytes = limit_s, limit_bytes

    def _lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """Yields the file's lines with their numbers; of a very long file the last ones."""
        found = _content(path, None, self._limit_bytes)
        deadline = Deadline(self._limit_s)
        for number, line in enumerate(found.data.split(b"\n") if found else (), found.first_line if found else 1):
            if not number % _LINES_A_LOOK:
                deadline.check()
            yield number, line.decode("utf-8", "replace")

    def _from_json_lines(self, path: Path) -> dict[str, MetricValue]:
        found: dict[str, MetricValue] = {}
        for number, line in self._lines(path):
            text = line.strip()
            if not (text.startswith("{") and text.endswith("}")):
                continue
            try:
                row = _parsed(text)
            except ValueError:
                continue  # a line of a program's own output, or the torn last line of a killed run
            if isinstance(row, dict):
                scores = _scores(row.get(_ITEMS))
                for name, item in row.items():
                    if name not in _BOOKKEEPING:
                        value = _value(item, f"{path.name}:{number}")
                        if value is not None:
                            found[name] = value if scores is None else replace(value, items=scores)
        return found

    def _pieces(
        self, path: Path, newer_than_s: float | None, limit_bytes: int | None, older_than_s: float | None = None
    ) -> histories.Pieces | None:
        descriptor = _open_newer(path, newer_than_s, older_than_s)
        limit = self._limit_bytes if limit_bytes is None else min(limit_bytes, self._limit_bytes)
        return None if descriptor is None else histories.read_pieces(descriptor, limit)

    def _of_json_lines(self, path: Path, metrics: Collection[str], limit_bytes: int | None) -> dict[str, MetricHistory]:
        pieces = self._pieces(path, None, limit_bytes)
        return {} if pieces is None else histories.of_json_lines(pieces, metrics, path.name, _parsed, self._limit_s)


class ResultsFile(_Limited):
    """`results.json`: {"metrics": {"val_loss": 2.21}} or {"val_loss": 2.21}."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """Reads the first file that belongs to this run: in its own folder, then in its working directory."""
        for path in (folder.log_dir / "results.json", folder.cwd / "results.json"):
            content = _content(path, folder.started_at_s, self._limit_bytes)
            if content is None:
                continue
            try:
                data = _parsed(content.data)
            except ValueError:
                return {}
            if isinstance(data, dict):
                table = data.get("metrics", data)
                pairs = table.items() if isinstance(table, dict) else ()
                scores = _scores(data.get(_ITEMS))
                values = {name: _value(item, f"{path.name}:{name}") for name, item in pairs}
                return {name: replace(value, items=scores) for name, value in values.items() if value is not None}
        return {}


class CsvFile(_Limited):
    """`results.csv` or `metrics.csv`: a row of names, then rows of values, as loggers of training write them."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """Reads the last value in each column of the first file that belongs to this run; empty cells are no values."""
        for place in (folder.log_dir, folder.cwd):
            for name in ("results.csv", "metrics.csv"):
                content = _content(place / name, folder.started_at_s, self._limit_bytes)
                if content is not None and content.first_line == 1:  # without its first row nothing has a name
                    return self.table(content.data, name)
        return {}

    def history(
        self, folder: RunFolder, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> Mapping[str, MetricHistory]:
        """Reads the columns of the same file as `read`; an empty cell is no value.

        In the working directory a file that changed after the run's end is left out: a later run wrote to it.
        """
        for place, until_s in ((folder.log_dir, None), (folder.cwd, folder.ended_at_s)):
            for name in ("results.csv", "metrics.csv"):
                pieces = self._pieces(place / name, folder.started_at_s, limit_bytes, until_s)
                if pieces is not None:
                    return histories.of_csv(pieces, metrics, name, CELL, self._limit_s)
        return {}

    def table(self, data: bytes, file: str) -> dict[str, MetricValue]:
        """Returns the last value in each column of a table."""
        lines = data.decode("utf-8-sig", "replace").replace("\0", "\ufffd").splitlines(keepends=True)
        rows = csv.reader(lines)
        found: dict[str, MetricValue] = {}
        deadline = Deadline(self._limit_s)
        try:
            names = [name.strip() for name in next(rows, [])]
            for row in rows:
                is_torn = rows.line_num == len(lines) and not lines[-1].endswith(("\n", "\r")) and len(row) < len(names)
                if is_torn:
                    break
                if not rows.line_num % _LINES_A_LOOK:
                    deadline.check()
                for name, cell in zip(names, row, strict=False):
                    text = cell.strip()
                    if name and name not in _BOOKKEEPING and CELL.match(text):
                        value = float(text) if len(text) <= _LONGEST_CELL else math.nan  # it is compared with nothing
                        source = f"{file}:{rows.line_num}"
                        found[name] = MetricValue(value if math.isfinite(value) else None, source)
        except csv.Error:
            return found  # a field without an end, or beyond the module's limit: what stood before it counts
        return found


class MetricsLog(_Limited):
    """The JSON lines of `perpetual.log`."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """Reads the last value of each name."""
        return self._from_json_lines(folder.log_dir / "metrics.jsonl")

    def history(
        self, folder: RunFolder, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> Mapping[str, MetricHistory]:
        """Reads every line."""
        return self._of_json_lines(folder.log_dir / "metrics.jsonl", metrics, limit_bytes)


class StdoutJson(_Limited):
    """JSON objects, one a line, on standard output."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """Reads the last value of each name."""
        return self._from_json_lines(folder.log_dir / "stdout.log")

    def history(
        self, folder: RunFolder, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> Mapping[str, MetricHistory]:
        """Reads every line that is an object."""
        return self._of_json_lines(folder.log_dir / "stdout.log", metrics, limit_bytes)


class StdoutText(_Limited):
    """`val_loss: 2.21` or `val_loss=2.21`, anywhere on a line of standard output.

    What has a comma between digits (`0,75`, `1,234.5`) is no finite number: neither part of it is what was meant.
    """

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """Reads the last value of each name."""
        path = folder.log_dir / "stdout.log"
        found: dict[str, MetricValue] = {}
        for number, line in self._lines(path):
            if ":" not in line and "=" not in line:
                continue
            piece = line[:_LONGEST_LINE]
            for match in _TEXT.finditer(piece):
                if match.end() == len(piece) < len(line):
                    continue  # the number may go on
                value = histories.number_in(match[2])
                source = f"{path.name}:{number}"
                found[match[1]] = MetricValue(value if math.isfinite(value) else None, source)
        return found

    def history(
        self, folder: RunFolder, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> Mapping[str, MetricHistory]:
        """Reads every line; `step`, `epoch` and `iter` in it say where it belongs, also as `epoch 3/10`."""
        pieces = self._pieces(folder.log_dir / "stdout.log", None, limit_bytes)
        if pieces is None:
            return {}
        return histories.of_text(pieces, metrics, "stdout.log", _TEXT, _LONGEST_LINE, self._limit_s)


def results_file(options: Mapping[str, object]) -> MetricReader:
    """Builds `results-file`."""
    return ResultsFile()


def metrics_log(options: Mapping[str, object]) -> MetricReader:
    """Builds `metrics-log`."""
    return MetricsLog()


def csv_file(options: Mapping[str, object]) -> MetricReader:
    """Builds `csv-file`."""
    return CsvFile()


def stdout_json(options: Mapping[str, object]) -> MetricReader:
    """Builds `stdout-json`."""
    return StdoutJson()


def stdout_text(options: Mapping[str, object]) -> MetricReader:
    """Builds `stdout-text`."""
    return StdoutText()
