"""Metric readers: each finds a finished run's numbers in one kind of place. Imported by the kernel, one by one.

The last value of a metric is the run's. A number that is NaN or infinite is reported as None with its place; a file
older than the run's start belongs to another run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perpetual.api import MetricReader, MetricValue, RunFolder

__all__ = ["metrics_log", "results_file", "stdout_json", "stdout_text"]

_LIMIT_BYTES = 32 * 1024 * 1024  # of a log, from its end: the last value counts
_CLOCK_SLACK_S = 2.0  # file times are coarse on some file systems
_NAME = r"[A-Za-z_][\w./-]{0,99}"
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|nan|NaN|NAN|inf|Inf|Infinity)"
_TEXT = re.compile(rf"(?:^|[\s,;|])({_NAME})\s*[:=]\s*({_NUMBER})(?=$|[\s,;|%])")
_BOOKKEEPING = frozenset({"step", "epoch", "time", "iteration"})  # a JSON line's position, not its result


def _value(found: object, source: str) -> MetricValue | None:
    """The metric of a JSON value; None if it is no number at all."""
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return MetricValue(None, source) if isinstance(found, str) and found.lower() in ("nan", "inf", "-inf") else None
    try:
        number = float(found)
    except OverflowError:
        return MetricValue(None, source)
    return MetricValue(number if math.isfinite(number) else None, source)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The file's lines with their numbers (from the end's first whole line, if it is very long)."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LIMIT_BYTES))
            data = file.read()
    except FileNotFoundError:
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        yield number, line.decode("utf-8", "replace")


def _from_json_lines(path: Path) -> dict[str, MetricValue]:
    found: dict[str, MetricValue] = {}
    for number, line in _lines(path):
        text = line.strip()
        if not (text.startswith("{") and text.endswith("}")):
            continue
        try:
            row = json.loads(text)
        except ValueError:
            continue  # a line of a program's own output, or the torn last line of a killed run
        for name, item in row.items():
            if name not in _BOOKKEEPING:
                value = _value(item, f"{path.name}:{number}")
                if value is not None:
                    found[name] = value
    return found


class _ResultsFile(MetricReader):
    """`results.json`: {"metrics": {"val_loss": 2.21}} or {"val_loss": 2.21}."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """The first file that belongs to this run: in its own folder, then in its working directory."""
        for path in (folder.log_dir / "results.json", folder.cwd / "results.json"):
            try:
                if path.stat().st_mtime < folder.started_at_s - _CLOCK_SLACK_S:
                    continue
                data: Any = json.loads(path.read_bytes())
            except FileNotFoundError:
                continue
            except ValueError:
                return {}
            if isinstance(data, dict):
                table = data.get("metrics", data)
                pairs = table.items() if isinstance(table, dict) else ()
                values = {str(name): _value(item, f"{path.name}:{name}") for name, item in pairs}
                return {name: value for name, value in values.items() if value is not None}
        return {}


class _MetricsLog(MetricReader):
    """The JSON lines of `perpetual.log`."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """The last value of each name."""
        return _from_json_lines(folder.log_dir / "metrics.jsonl")


class _StdoutJson(MetricReader):
    """JSON objects, one a line, on standard output."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """The last value of each name."""
        return _from_json_lines(folder.log_dir / "stdout.log")


class _StdoutText(MetricReader):
    """`val_loss: 2.21` or `val_loss=2.21`, anywhere on a line of standard output."""

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """The last value of each name."""
        path = folder.log_dir / "stdout.log"
        found: dict[str, MetricValue] = {}
        for number, line in _lines(path):
            if ":" not in line and "=" not in line:
                continue
            for match in _TEXT.finditer(line[:2000]):
                value = float(match[2])
                source = f"{path.name}:{number}"
                found[match[1]] = MetricValue(value if math.isfinite(value) else None, source)
        return found


def results_file(options: Mapping[str, Any]) -> MetricReader:
    """Factory of `results-file`."""
    return _ResultsFile()


def metrics_log(options: Mapping[str, Any]) -> MetricReader:
    """Factory of `metrics-log`."""
    return _MetricsLog()


def stdout_json(options: Mapping[str, Any]) -> MetricReader:
    """Factory of `stdout-json`."""
    return _StdoutJson()


def stdout_text(options: Mapping[str, Any]) -> MetricReader:
    """Factory of `stdout-text`."""
    return _StdoutText()
