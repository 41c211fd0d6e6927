"""Reads what training libraries log to files of their own, below the run's folder and its working directory.

TensorBoard's event files, W&B's offline files, MLflow's folder store, and tables as the CSV loggers of Lightning and
Keras write them. Only files that changed since the run began are its. The last value of a name is the run's. A file in
the run's own folder counts before one in the working directory. Where several runs of a library wrote there and
have a name, it is not known which is meant: TensorBoard's folders then become part of the name (`train/loss`),
a name of other loggers is left out.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from perpetual.api import MetricReader, MetricValue, RunFolder
from perpetual.toolkit.confined import UnsafePath, open_file
from perpetual.toolkit.deadline import Deadline
from perpetual_metrics.readers import LIMIT_S, CsvFile, slack_s

__all__ = ["Loggers", "build"]

_DEEPEST, _MOST_ENTRIES, _MOST_FILES = 6, 8_000, 200
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "env", "data", "datasets"})
_WANDB = re.compile(r"run-[\w-]{1,100}\.wandb")
_LARGEST_TABLE, _LARGEST_METRIC = 8 * 2**20, 2**20  # bytes
_TABLE_HEADS = frozenset({"epoch", "step", "iteration"})  # the first column of a table that a logger writes
_LONGEST_NAME = 200
_LOOK = 500  # values between two looks at the clock
_Found = tuple[str, str, float]  # name, place, value


class _Log(NamedTuple):
    """A file of a logger: how it is read, and the run of the library that it belongs to."""

    path: Path
    kind: str
    group: str


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
            for count, (name, place, value) in enumerate(_READERS[log.kind](log.path, root)):
                if not count % _LOOK:
                    deadline.check()
                if name.strip() and len(name) <= _LONGEST_NAME:
                    source = f"{shown}:{place}" if place else shown
                    group[name] = MetricValue(value if math.isfinite(value) else None, source)
        found: dict[str, MetricValue] = {}
        for kind, groups in kinds.items():
            for name, metric in _merged(groups, named=kind == "events").items():
                found.setdefault(name, metric)
        return found


def _merged(groups: Mapping[str, Mapping[str, MetricValue]], *, named: bool) -> dict[str, MetricValue]:
    """Returns the metrics of all runs of one library; of a name in several, see the top of this module."""
    found: dict[str, MetricValue] = {}
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


def _logs(root: Path, started_at_s: float) -> Iterator[_Log]:
    """Yields the loggers' files below a folder that changed since then, nearest first, in the order of their names."""
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
            log = _kind_of(folder / entry.name, root, depth)
            if log is None or files <= 0 or not _is_fresh(entry, started_at_s):
                continue
            files -= 1
            yield log


def _kind_of(path: Path, root: Path, depth: int) -> _Log | None:
    group = path.parent.relative_to(root).as_posix()
    if "tfevents" in path.name.split("."):
        return _Log(path, "events", group)
    if _WANDB.fullmatch(path.name):
        return _Log(path, "wandb", group)
    if path.name.endswith(".csv") and (depth or path.name not in ("metrics.csv", "results.csv")):
        return _Log(path, "table", path.relative_to(root).as_posix())
    parts = path.relative_to(root).parts
    if "metrics" in parts[2:-1] and "mlruns" in parts[: parts.index("metrics", 2)]:
        return _Log(path, "mlflow", "/".join(parts[: parts.index("metrics", 2)]))
    return None


def _is_fresh(entry: os.DirEntry[str], started_at_s: float) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return found.st_mtime >= started_at_s - slack_s(found.st_mtime_ns)


# --- formats --------------------------------------------------------------------------------------------------------


def _opened(path: Path) -> BinaryIO | None:
    """Returns the file for reading; None for a link, a pipe, and what has gone."""
    try:
        return os.fdopen(open_file(path), "rb")
    except (OSError, UnsafePath):
        return None


def _events(path: Path, root: Path) -> Iterator[_Found]:
    from perpetual_metrics.event_files import scalars

    file = _opened(path)
    if file is not None:
        with file:
            for number, tag, value in scalars(file):
                yield tag, str(number), value


def _wandb(path: Path, root: Path) -> Iterator[_Found]:
    from perpetual_metrics.wandb_files import history

    file = _opened(path)
    if file is not None:
        with file:
            for number, name, value in history(file):
                yield name, str(number), value


def _mlflow(path: Path, root: Path) -> Iterator[_Found]:
    """Yields the last line of a metric's file: time, value, step."""
    parts = path.relative_to(root).parts
    name = "/".join(parts[parts.index("metrics", 2) + 1 :])
    data = _whole(path, _LARGEST_METRIC)
    lines = data.decode("utf-8", "replace").split("\n")
    for number in range(len(lines), 0, -1):
        words = lines[number - 1].split(" ")
        if len(words) in (2, 3):
            try:
                yield name, str(number), float(words[1]) if len(words[1]) <= 40 else math.nan
            except ValueError:
                continue
            return


def _table(path: Path, root: Path) -> Iterator[_Found]:
    """Yields the last value of each column of a table whose first column says where a row belongs."""
    data = _whole(path, _LARGEST_TABLE)
    head = data[:1000].decode("utf-8-sig", "replace").partition("\n")[0]
    columns = {name.strip().strip('"') for name in head.split(",")}
    if path.name not in ("metrics.csv", "results.csv") and not columns & _TABLE_HEADS:
        return
    for name, value in CsvFile().table(data, path.name).items():
        yield name, value.source.rpartition(":")[2], math.nan if value.value is None else value.value


def _whole(path: Path, most: int) -> bytes:
    file = _opened(path)
    if file is None:
        return b""
    with file:
        data = file.read(most + 1)
    return data if len(data) <= most else b""


_READERS: Mapping[str, Callable[[Path, Path], Iterable[_Found]]] = {
    "table": _table,
    "events": _events,
    "wandb": _wandb,
    "mlflow": _mlflow,
}


def build(options: Mapping[str, object]) -> MetricReader:
    """Builds `loggers`."""
    return Loggers()
