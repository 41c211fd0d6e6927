"""Reads what training libraries log to files of their own, below the run's folder and its working directory.

TensorBoard's event files, W&B's offline files, MLflow's folder store, and tables as the CSV loggers of Lightning and
Keras write them. Only files that changed since the run began are its. The last value of a name is the run's. A file in
the run's own folder counts before one in the working directory. Where several runs of a library wrote there and
have a name, it is not known which is meant: TensorBoard's folders then become part of the name (`train/loss`),
a name of other loggers is left out.

A history has every value with the step and the time that its library wrote. Of large files pieces are read.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from perpetual.api import MetricHistory, MetricReader, MetricValue, RunFolder
from perpetual.toolkit.confined import UnsafePath, open_file
from perpetual.toolkit.deadline import Deadline
from perpetual_metrics.readers import LIMIT_S, CsvFile, changed_within
from perpetual_metrics.wire import Point

__all__ = ["Log", "Loggers", "build", "is_logged_table", "line_of_mlflow", "name_in_mlflow", "opened"]

_DEEPEST, _MOST_ENTRIES, _MOST_FILES = 6, 8_000, 200
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "env", "data", "datasets"})
_WANDB = re.compile(r"run-[\w-]{1,100}\.wandb")
_LARGEST_TABLE, _LARGEST_METRIC = 8 * 2**20, 2**20  # bytes
_TABLE_HEADS = frozenset({"epoch", "step", "iteration"})  # the first column of a table that a logger writes
_LONGEST_NAME, _LONGEST_NUMBER = 200, 40
_LOOK = 500  # values between two looks at the clock
_T = TypeVar("_T")


class Log(NamedTuple):
    """A file of a logger: how it is read, and the run of the library that it belongs to."""

    path: Path
    kind: str
    group: str
    size: int  # bytes


class Loggers(MetricReader):
    """Reads event files, W&B files, MLflow folders and nested CSV tables."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """Reads every logger's file that belongs to this run."""
        deadline = Deadline(self._limit_s)
        found: dict[str, MetricValue] = {}
        for root in dict.fromkeys((folder.log_dir, folder.cwd)):
            for name, value in self._below(root, folder.started_at_s, deadline).items():
                found.setdefault(name, value)
        return found

    def _below(self, root: Path, started_at_s: float, deadline: Deadline) -> dict[str, MetricValue]:
        kinds: dict[str, dict[str, dict[str, MetricValue]]] = {kind: {} for kind in _READERS}
        for log in _logs(root, started_at_s):
            group = kinds[log.kind].setdefault(log.group, {})
            shown = log.path.relative_to(root).as_posix()
            for count, point in enumerate(_READERS[log.kind](log.path, root)):
                if not count % _LOOK:
                    deadline.check()
                if point.name.strip() and len(point.name) <= _LONGEST_NAME:
                    value = point.value if math.isfinite(point.value) else None
                    group[point.name] = MetricValue(value, f"{shown}:{point.place}")
        return _of_kinds(kinds)

    def history(
        self, folder: RunFolder, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> Mapping[str, MetricHistory]:
        """Reads the values in the same files as `read`, `limit_bytes` of all files of a folder together.

        In the working directory a file that changed after the run's end is left out: a later run wrote to it.
        """
        from perpetual_metrics.logger_histories import LIMIT_BYTES, collected

        deadline = Deadline(self._limit_s)
        limit = LIMIT_BYTES if limit_bytes is None else min(limit_bytes, LIMIT_BYTES)
        found: dict[str, MetricHistory] = {}
        for root, until_s in {folder.cwd: folder.ended_at_s, folder.log_dir: None}.items():
            logs = [*_logs(root, folder.started_at_s, until_s)]
            kinds: dict[str, dict[str, dict[str, MetricHistory]]] = {kind: {} for kind in _READERS}
            for log, histories in collected(logs, root, metrics, limit, deadline):
                kinds[log.kind].setdefault(log.group, {}).update(histories)
            found |= _of_kinds(kinds)  # the run's own folder last: it counts before the working directory
        return {name: one for name, one in found.items() if not metrics or name in metrics}


def _of_kinds(kinds: Mapping[str, Mapping[str, Mapping[str, _T]]]) -> dict[str, _T]:
    """Returns what is known by name, of what each library's runs wrote."""
    found: dict[str, _T] = {}
    for kind, groups in kinds.items():
        for name, metric in _merged(groups, named=kind == "events").items():
            found.setdefault(name, metric)
    return found


def _merged(groups: Mapping[str, Mapping[str, _T]], *, named: bool) -> dict[str, _T]:
    """Returns the metrics of all runs of one library; of a name in several, see the top of this module."""
    found: dict[str, _T] = {}
    for name in dict.fromkeys(name for values in groups.values() for name in values):
        having = {group: values[name] for group, values in groups.items() if name in values}
        if len(having) == 1:
            found[name] = next(iter(having.values()))
        elif named:
            for group, value in having.items():
                last = group.rpartition("/")[2]
                is_one = sum(other.rpartition("/")[2] == last for other in having) == 1
                found[f"{last if is_one else group}/{name}"] = value
    return {name: value for name, value in found.items() if len(name) <= _LONGEST_NAME}


def _logs(root: Path, started_at_s: float, ended_at_s: float | None = None) -> Iterator[Log]:
    """Yields the loggers' files below a folder that changed between these times, nearest first, by name."""
    left, files = _MOST_ENTRIES, _MOST_FILES
    waiting = deque([(root, 0)])
    while waiting and left > 0 and files > 0:
        folder, depth = waiting.popleft()
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        left -= len(listed)
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                is_ours = not entry.name.startswith(".") and entry.name not in _PASSED_OVER
                if is_ours and depth < _DEEPEST:
                    waiting.append((folder / entry.name, depth + 1))
                continue
            kind = _kind_of(folder / entry.name, root, depth) if files > 0 else None
            if kind is None:
                continue
            try:
                seen = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if changed_within(seen, started_at_s, ended_at_s):
                files -= 1
                yield Log(folder / entry.name, *kind, seen.st_size)


def _kind_of(path: Path, root: Path, depth: int) -> tuple[str, str] | None:
    """Returns the kind and the group of a logger's file; None for any other."""
    group = path.parent.relative_to(root).as_posix()
    if "tfevents" in path.name.split("."):
        return "events", group
    if _WANDB.fullmatch(path.name):
        return "wandb", group
    if path.name.endswith(".csv") and (depth or path.name not in ("metrics.csv", "results.csv")):
        return "table", path.relative_to(root).as_posix()
    parts = path.relative_to(root).parts
    if "metrics" in parts[2:-1] and "mlruns" in parts[: parts.index("metrics", 2)]:
        return "mlflow", "/".join(parts[: parts.index("metrics", 2)])
    return None


# --- formats --------------------------------------------------------------------------------------------------------


def opened(path: Path) -> BinaryIO | None:
    """Returns the file for reading; None for a link, a pipe, and what has gone."""
    try:
        return os.fdopen(open_file(path), "rb")
    except (OSError, UnsafePath):
        return None


def _events(path: Path, root: Path) -> Iterator[Point]:
    from perpetual_metrics.event_files import scalars

    file = opened(path)
    if file is not None:
        with file:
            yield from scalars(file)


def _wandb(path: Path, root: Path) -> Iterator[Point]:
    from perpetual_metrics.wandb_files import history

    file = opened(path)
    if file is not None:
        with file:
            yield from history(file)


def _mlflow(path: Path, root: Path) -> Iterator[Point]:
    """Yields the last whole line of a metric's file."""
    name = name_in_mlflow(path, root)
    lines = _whole(path, _LARGEST_METRIC).split(b"\n")[:-1]
    for number in range(len(lines), 0, -1):
        point = line_of_mlflow(number, name, lines[number - 1])
        if point is not None:
            yield point
            return


def name_in_mlflow(path: Path, root: Path) -> str:
    """Returns the name of a metric from its file below MLflow's folder."""
    parts = path.relative_to(root).parts
    return "/".join(parts[parts.index("metrics", 2) + 1 :])


def line_of_mlflow(number: int, name: str, line: bytes) -> Point | None:
    """Returns what a line says: milliseconds, value and perhaps a step; None if it is of another form."""
    words = line.decode("utf-8", "replace").split(" ")
    if len(words) not in (2, 3):
        return None
    try:
        time_ms, value, *steps = (float(word) if len(word) <= _LONGEST_NUMBER else math.nan for word in words)
    except ValueError:
        return None
    return Point(number, name, value, steps[0] if steps else None, time_ms / 1000)


def _table(path: Path, root: Path) -> Iterator[Point]:
    """Yields the last value of each column of a table whose first row says that a logger wrote it."""
    data = _whole(path, _LARGEST_TABLE)
    if is_logged_table(path.name, data):
        for name, value in CsvFile().table(data, path.name).items():
            place = int(value.source.rpartition(":")[2])
            yield Point(place, name, math.nan if value.value is None else value.value)


def is_logged_table(file: str, start: bytes) -> bool:
    """Returns whether a table is a logger's, by the file's name or the names in its first row."""
    head = start[:1000].decode("utf-8-sig", "replace").partition("\n")[0]
    columns = {name.strip().strip('"') for name in head.split(",")}
    return file in ("metrics.csv", "results.csv") or bool(columns & _TABLE_HEADS)


def _whole(path: Path, most: int) -> bytes:
    file = opened(path)
    if file is None:
        return b""
    with file:
        data = file.read(most + 1)
    return data if len(data) <= most else b""


_READERS: Mapping[str, Callable[[Path, Path], Iterable[Point]]] = {
    "table": _table,
    "events": _events,
    "wandb": _wandb,
    "mlflow": _mlflow,
}


def build(options: Mapping[str, object]) -> MetricReader:
    """Builds `loggers`."""
    return Loggers()
