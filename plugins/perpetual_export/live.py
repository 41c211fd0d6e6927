"""Ad-hoc runs that are not in the record yet: what goes on, and what ended without finish.

Read from their folders at each look. The lock of a folder is held by the process that `perpetual.init` was called in,
and the operating system frees it when that process ends, however it ends: a process that got its number later holds
no lock.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import CorruptData, Section, StatusSection
from perpetual.toolkit.confined import open_file
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.lock import is_locked
from perpetual.toolkit.units import counted, posix_of, shown_hours
from perpetual_export.adhoc import END, FACTS, FOLDER, LOCK, SERIES
from perpetual_export.left_over import UNREADABLE, document, value_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_export.documents import AdHocNow

__all__ = ["AdHocRuns", "build", "going_on"]

_TAIL_BYTES = 64 * 1024  # of a run's metrics
_MOST, _SHOWN, _METRICS, _LONGEST_NAME = 200, 15, 20, 200
_AXES = ("step", "global_step", "iteration", "epoch")  # the finest first
_WORDS = {
    "running": "running",
    "ended": "has ended; perpetual scan records it",
    "unfinished": "its process ended without finish; perpetual scan records it as lost",
    "unknown": "begun on another machine: whether it goes on is not known here",
}


def build(options: Mapping[str, object]) -> AdHocRuns:
    """Builds the provider `ad-hoc`."""
    return AdHocRuns()


class AdHocRuns(StatusSection):
    """Shows ad-hoc runs until they are recorded; they are no evidence, before and after."""

    def show(self, lab: Lab) -> Section | None:
        """Returns nothing: the record does not have them."""
        return None

    def live(self, lab: Lab) -> Section | None:
        """Returns their states, last steps and metrics; None where there is none."""
        import time

        runs = going_on(lab)
        if not runs:
            return None
        lines = [_line(run, time.time()) for run in runs[:_SHOWN]]
        lines += [f"and {len(runs) - _SHOWN} more"] if len(runs) > _SHOWN else []
        return Section("ad-hoc runs, not in the record yet and no evidence", lines, {"runs": runs})


def going_on(lab: Lab) -> list[AdHocNow]:
    """Returns the ad-hoc runs that are not recorded yet, the oldest first, at most 200."""
    try:
        with os.scandir(lab.root / ".perpetual" / FOLDER) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".")
                and not entry.name.endswith(UNREADABLE)
                and entry.is_dir(follow_symlinks=False)
            )
    except FileNotFoundError:
        return []
    found = []
    for name in islice(names, _MOST):
        try:
            run = _now(lab, lab.root / ".perpetual" / FOLDER / name)
        except CorruptData:
            continue  # a scan sets it aside
        if run is not None:
            found.append(run)
    return found


def _now(lab: Lab, folder: Path) -> AdHocNow | None:
    """Returns an ad-hoc run; None if it has been recorded meanwhile."""
    is_held = is_locked(folder / LOCK)
    facts, end = document(folder / FACTS), document(folder / END)
    if facts is None:
        return None
    redactor = lab.part("redactor")
    is_here = facts.get("host") == this_host().id
    values = _newest(folder / SERIES)
    axis = next((name for name in _AXES if values.get(name) is not None), None)
    names = [name for name in values if name not in (*_AXES, "time") and redactor.text(name) == name]
    metric = facts.get("metric")
    names.sort(key=lambda name: name != metric)
    texts = {
        name: item if isinstance(item := facts.get(name), str) else None for name in ("title", "started_at", "host")
    }
    pid = facts.get("pid")
    return {
        "title": redactor.text(texts["title"] or "ad-hoc run")[:500],
        "state": "running" if is_held else "ended" if end else "unfinished" if is_here else "unknown",
        "started_at": texts["started_at"],
        "pid": pid if isinstance(pid, int) else None,
        "host": texts["host"],
        "axis": axis,
        "step": values[axis] if axis else None,
        "metrics": {name: values[name] for name in names[:_METRICS]},
    }


def _newest(path: Path) -> dict[str, float | None]:
    """Returns the last value of each name in the end of a file of metrics, up to its last whole line."""
    try:
        descriptor = open_file(path)
    except OSError:
        return {}
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return {}
        begin = max(0, found.st_size - _TAIL_BYTES)
        file.seek(begin)
        lines = file.read(_TAIL_BYTES).split(b"\n")[:-1]
    values: dict[str, float | None] = {}
    for line in lines[1:] if begin else lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for name, item in row.items() if isinstance(row, dict) else ():
            value = value_of(item)
            if value is not None and name.strip() and len(name) <= _LONGEST_NAME:
                values[name] = value if math.isfinite(value) else None
    return values


def _line(run: AdHocNow, now_s: float) -> str:
    parts = [_WORDS[run["state"]]]
    if run["state"] == "running" and run["started_at"]:
        try:
            parts.append(f"{shown_hours(max(0.0, now_s - posix_of(run['started_at'])) / 3600)} so far")
        except ValueError:
            parts.append("since an unknown time")
    if run["step"] is not None:
        parts.append(f"{run['axis']} {run['step']:.10g}")
    shown = [*run["metrics"].items()]
    parts += [f"{name} {'not finite' if value is None else f'{value:.5g}'}" for name, value in shown[:2]]
    parts += [f"{counted(len(shown) - 2, 'more metric')}"] if len(shown) > 2 else []
    pid = f" (pid {run['pid']})" if run["pid"] is not None and run["state"] == "running" else ""
    return f"{run['title'][:60]}{pid}: {', '.join(parts)}"
