"""Histories in the files of training libraries: every value with its step and time. For `loggers`.

Files grow while they are read: each is read up to its last whole record. Large ones are read in pieces, evenly spaced,
the start and the end among them; all files of a folder share one limit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from perpetual.api import MetricHistory
from perpetual.toolkit.deadline import Deadline
from perpetual_metrics.histories import AXES, TIMES, of_csv, read_pieces, read_span, spans
from perpetual_metrics.loggers import Log, is_logged_table, line_of_mlflow, name_in_mlflow, opened
from perpetual_metrics.readers import CELL
from perpetual_metrics.wire import Point

__all__ = ["LIMIT_BYTES", "collected"]

LIMIT_BYTES = 8 * 2**20  # of all files below a folder: checksums and messages are decoded in Python
_LEAST_BYTES = 4 * 1024  # of each file, however many there are
_MOST_NAMES, _LONGEST_NAME = 1_000, 200
_AXES = {"events": "step", "wandb": "_step", "mlflow": "step"}
_LOOK = 500  # values between two looks at the clock


class _Read(NamedTuple):
    """What was read of one file; a table's values have found their names already."""

    points: Iterator[Point]
    tables: dict[str, MetricHistory]
    skipped_bytes: int
    written_at_s: float


@dataclass
class _Series:
    """Values of one metric in the order of the files and of writing."""

    source: str
    steps: list[float | None] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    skipped_bytes: int = 0
    written_at_s: float = 0.0

    def add(self, point: Point) -> None:
        self.steps.append(_finite(point.step))
        self.values.append(_finite(point.value))
        self.times.append(_finite(point.time_s))

    def made(self, axis: str) -> MetricHistory:
        """Returns the history. A library that was given no step writes none, or 0 each time: values are counted."""
        steps, size = self.steps, len(self.values)
        is_stepped = any(step is not None for step in steps) and (size == 1 or any(step != 0 for step in steps))
        if not is_stepped:
            steps = [None] * size if self.skipped_bytes else [float(n) for n in range(1, size + 1)]
        return MetricHistory(
            axis if is_stepped else None, steps, self.values, self.times, self.source, self.written_at_s,
            self.skipped_bytes,
        )  # fmt: skip


def collected(
    logs: Sequence[Log], root: Path, wanted: Collection[str], limit_bytes: int, deadline: Deadline
) -> list[tuple[Log, dict[str, MetricHistory]]]:
    """Returns, by the first file of each library's run, its histories; `wanted` names are enough, none is all.

    Several files of one run count as one, in the order of their names, as a resumed run writes them. A wanted name may
    have a folder of event files in front.

    Raises:
        OutOfTime: once the deadline has passed.
    """
    kept = [log for log in logs if log.kind != "mlflow" or _is_wanted(name_in_mlflow(log.path, root), wanted)]
    groups: dict[tuple[str, str], tuple[Log, dict[str, _Series], dict[str, MetricHistory]]] = {}
    for log, share in zip(kept, _shares([log.size for log in kept], limit_bytes), strict=True):
        _, found, tables = groups.setdefault((log.kind, log.group), (log, {}, {}))
        shown = log.path.relative_to(root).as_posix()
        read = _read(log, root, wanted, share, deadline)
        tables.update({name: replace(one, source=shown) for name, one in read.tables.items()})
        touched: set[str] = set()
        for count, point in enumerate(read.points):
            if not count % _LOOK:
                deadline.check()
            if point.name not in found and not (len(found) < _MOST_NAMES and _is_wanted(point.name, wanted)):
                continue
            found.setdefault(point.name, _Series(shown)).add(point)
            touched.add(point.name)
        for name in touched:
            found[name].source = shown
            found[name].skipped_bytes += read.skipped_bytes
            found[name].written_at_s = max(found[name].written_at_s, read.written_at_s)
    return [
        (log, tables or {name: series.made(_AXES[log.kind]) for name, series in found.items()})
        for log, found, tables in groups.values()
    ]


def _is_wanted(name: str, wanted: Collection[str]) -> bool:
    if not name.strip() or len(name) > _LONGEST_NAME or name in AXES or name in TIMES:
        return False  # a position says where a value belongs, and is none itself
    return not wanted or any(name == one or one.endswith(f"/{name}") for one in wanted)


def _shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Returns how many bytes of each file are read: small ones whole, and what they leave is for the others."""
    shares, left = [0] * len(sizes), limit
    for count, place in enumerate(sorted(range(len(sizes)), key=lambda place: sizes[place])):
        shares[place] = max(_LEAST_BYTES, min(sizes[place], left // (len(sizes) - count)))
        left = max(0, left - shares[place])
    return shares


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


# --- formats --------------------------------------------------------------------------------------------------------


def _read(log: Log, root: Path, wanted: Collection[str], limit: int, deadline: Deadline) -> _Read:
    file = opened(log.path)
    if file is None:
        return _Read(iter(()), {}, 0, 0.0)
    with file:
        descriptor = file.fileno()
        found = os.fstat(descriptor)
        if log.kind == "events":
            points, read = _events(descriptor, found.st_size, limit)
            return _Read(points, {}, found.st_size - read, found.st_mtime)
        if log.kind == "wandb":
            points, read = _wandb(descriptor, found.st_size, limit)
            return _Read(points, {}, found.st_size - read, found.st_mtime)
        pieces = read_pieces(os.dup(descriptor), limit)
        del pieces.lines[-1][-1:]  # a library ends each line: what is behind the last line end is torn
        if log.kind == "table":
            head = pieces.lines[0][0] if pieces.lines[0] else b""
            is_ours = is_logged_table(log.path.name, head)
            tables = of_csv(pieces, wanted, log.path.name, CELL, deadline.left()) if is_ours else {}
            return _Read(iter(()), tables, pieces.skipped_bytes, pieces.written_at_s)
        name = name_in_mlflow(log.path, root)
        lines = [line for piece in pieces.lines for line in piece]
        known = (line_of_mlflow(number, name, line) for number, line in enumerate(lines, 1))
        return _Read((point for point in known if point is not None), {}, pieces.skipped_bytes, pieces.written_at_s)


def _events(descriptor: int, size: int, limit: int) -> tuple[Iterator[Point], int]:
    """Returns the scalars in the pieces of an event file, and how many bytes those have."""
    from perpetual_metrics.event_files import scalars, whole_from

    parts = [(begin, read_span(descriptor, begin, length)) for begin, length in spans(size, limit)]
    points = (point for begin, data in parts for point in scalars(BytesIO(data[whole_from(data) if begin else 0 :])))
    return points, sum(len(data) for _, data in parts)


def _wandb(descriptor: int, size: int, limit: int) -> tuple[Iterator[Point], int]:
    """Returns the numbers in blocks of a W&B file, and how many bytes those have: its last fourth, others between."""
    from perpetual_metrics.wandb_files import BLOCK, history

    blocks, most = -(-size // BLOCK), max(4, -(-limit // BLOCK))
    last = max(2, most // 4)
    places = [(0, blocks)]
    if blocks > most:
        single = most - last
        places = [*(((blocks - last) * n // single, 1) for n in range(single)), (blocks - last, last)]
    parts = [(begin, read_span(descriptor, begin * BLOCK, count * BLOCK)) for begin, count in places]
    points = (point for begin, data in parts for point in history(BytesIO(data), is_start=begin == 0))
    return points, sum(len(data) for _, data in parts)
