"""Records ad-hoc runs: each by its own process at its end, and by the next scan where that process could not.

A folder whose lock is held belongs to a process that lives. One that is free was left: with `end.json` it ended in
order and could not be recorded then, without it its process was killed, and the run is lost.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import CorruptData, PerpetualError
from perpetual.toolkit.atomic import read_json
from perpetual.toolkit.confined import open_file
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRun
from perpetual.toolkit.lock import open_locked
from perpetual_export.adhoc import END, FACTS, FOLDER, LOCK, SERIES, SPOILT, say, sound

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.toolkit.import_records import EndStatus

__all__ = ["KIND", "TAG", "UNREADABLE", "collect", "document", "record", "value_of"]

KIND, TAG = "adhoc", "ad-hoc"
_MOST = 50  # folders in one scan
_LONGEST_LINE, _LARGEST_SERIES = 1_000_000, 256 * 2**20  # bytes
_MOST_METRICS, _LONGEST_NAME = 2_000, 200
_BOOKKEEPING = frozenset({"step", "epoch", "time", "iteration"})
UNREADABLE = ".unreadable"
_STATUSES: dict[str, EndStatus] = {"done": "done", "failed": "failed", "killed": "killed"}
_NOTE = "recorded by perpetual.init: it was neither proposed nor approved, and is no evidence"


def collect(lab: Lab) -> None:
    """Records what processes of this machine have left behind; one that cannot be recorded waits for the next scan."""
    left = _MOST
    with os.scandir(lab.root / ".perpetual" / FOLDER) as found:
        entries = [*found]
    for entry in entries:
        if left == 0:
            return
        if entry.name.startswith(".") or entry.name.endswith(UNREADABLE) or not entry.is_dir(follow_symlinks=False):
            continue
        folder = Path(entry.path)
        lock = open_locked(folder / LOCK)
        if lock is None:
            continue  # its process lives, or another scan is at it
        left -= 1
        try:
            record(lab, folder)
        except PerpetualError as problem:
            if problem.code not in SPOILT:
                continue  # as where another import goes on
            aside = folder.with_name(folder.name + UNREADABLE)
            os.rename(folder, aside)
            say(f"an ad-hoc run cannot be recorded: {problem.message}; its files are in {aside}")
        finally:
            os.close(lock)


def record(lab: Lab, folder: Path) -> str | None:
    """Records an ad-hoc run from its folder, which is removed then; returns the run's id.

    The caller holds its lock. Recorded again after a crash it is the same run. None: it is of another machine, whose
    scan records it.

    Raises:
        CorruptData: (bad_ad_hoc_run) where its files are no record of a run.
        PerpetualError: as `lab.imports.take`; the folder stays.
    """
    facts, end = document(folder / FACTS), document(folder / END)
    if facts is None:
        raise CorruptData(f"{folder} holds no ad-hoc run", code="bad_ad_hoc_run")
    if facts.get("host") != this_host().id and end is None:
        return None
    experiment = _experiment(facts)
    run = _run(lab, folder, facts, end, experiment.key)
    lab.imports.take(Batch("export", KIND, "perpetual.init", [experiment, run]))
    shutil.rmtree(folder, ignore_errors=True)
    return lab.imports.id_of(KIND, run.key)


def document(path: Path) -> Mapping[str, object] | None:
    """Returns the JSON object in a file, None if there is none; raises CorruptData for anything else."""
    try:
        found = read_json(path)
    except (OSError, ValueError) as problem:
        raise CorruptData(f"{path} cannot be read: {problem}", code="bad_ad_hoc_run") from problem
    if found is not None and not isinstance(found, dict):
        raise CorruptData(f"{path} is no JSON object", code="bad_ad_hoc_run")
    return None if found is None else sound(found)


def _experiment(facts: Mapping[str, object]) -> ImportedExperiment:
    config = facts.get("config")
    tags = facts.get("tags")
    words = {
        name: (_text(facts.get(name)) or "").strip() or None for name in ("title", "command", "metric", "direction")
    }
    settings = config if isinstance(config, dict) else {}
    identity = json.dumps([*words.values(), settings], sort_keys=True)
    direction = words["direction"] if words["direction"] in ("max", "min") else None
    return ImportedExperiment(
        key=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:24],
        hypothesis=None,
        title=(words["title"] or "ad-hoc run")[:500],
        command=words["command"],
        config=settings,
        tags=(*(str(tag)[:100] for tag in tags if str(tag).strip()), TAG) if isinstance(tags, list) else (TAG,),
        metric=words["metric"][:_LONGEST_NAME] if words["metric"] and direction else None,
        direction=direction if words["metric"] else None,
        created_at=_text(facts.get("started_at")),
    )


def _run(
    lab: Lab, folder: Path, facts: Mapping[str, object], end: Mapping[str, object] | None, experiment: str
) -> ImportedRun:
    metrics, sources, is_whole, odd = _metrics(lab, folder)
    seed, duration_s = facts.get("seed"), None if end is None else end.get("duration_s")
    known_s = duration_s if isinstance(duration_s, (int, float)) and 0 <= duration_s < 1e9 else None
    commit = facts.get("commit")
    lost = "its process ended without a word: it was killed, or the machine went down"
    return ImportedRun(
        key=folder.name,
        experiment=experiment,
        status="lost" if end is None else _STATUSES.get(str(end.get("status")), "failed"),
        reason=lost if end is None else _text(end.get("reason")),
        seed=seed if isinstance(seed, int) and 0 <= seed < 2**63 else None,
        started_at=_text(facts.get("started_at")),
        ended_at=None if end is None else _text(end.get("ended_at")),
        duration_s=known_s,
        run_hours=None if known_s is None else known_s / 3600,
        metrics=metrics,
        sources=sources,
        commit=commit if isinstance(commit, str) else None,
        series=_points(folder) if is_whole else None,
        annotations=({"kind": TAG, "text": _NOTE, "source": "perpetual.init"}, *_left_out(odd)),
        origin={name: facts.get(name) for name in ("pid", "cwd", "dirty")},
    )


def _text(value: object) -> str | None:
    return value[:10_000].encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _lines(folder: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yields the lines that `perpetual.log` wrote, with their numbers; what is no JSON object is left out."""
    try:
        descriptor = open_file(folder / SERIES)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            try:
                found = json.loads(line)
                if isinstance(found, dict) and b"\\u" in line:
                    found = sound(found)
            except (ValueError, RecursionError):
                continue  # the torn last line of a killed process
            if isinstance(found, dict):
                yield number, found


def _points(folder: Path) -> Iterator[Mapping[str, object]]:
    for _, point in _lines(folder):
        yield {name: item for name, item in point.items() if not isinstance(item, float) or math.isfinite(item)}


def _left_out(names: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yields the remark on what was logged under a text that is no name of a metric, as a launched run has it."""
    shown = [ascii(name)[:60] for name in names]
    if shown:
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        words = f"no names of metrics, and left out: {', '.join(shown[:3])}{more}"
        yield {"kind": "metrics", "text": words, "source": SERIES}


def _metrics(lab: Lab, folder: Path) -> tuple[dict[str, float | None], dict[str, str], bool, Iterable[str]]:
    """Returns of each metric the last value and where it was read.

    And whether the series is small enough to keep, and what of it is no name of a metric.
    """
    redactor = lab.part("redactor")
    values: dict[str, float | None] = {}
    sources: dict[str, str] = {}
    odd: dict[str, None] = {}
    for number, point in _lines(folder):
        for name, item in point.items():
            value = value_of(item)
            if name in _BOOKKEEPING or value is None:
                continue
            if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
                if len(odd) < _MOST_METRICS and redactor.text(name) == name:
                    odd[name] = None
                continue
            if name not in values and (len(values) >= _MOST_METRICS or redactor.text(name) != name):
                continue
            values[name] = value if math.isfinite(value) else None
            sources[name] = f"{SERIES}:{number}"
    try:
        size = (folder / SERIES).lstat().st_size
    except OSError:
        size = 0
    return values, sources, 0 < size <= _LARGEST_SERIES, odd


def value_of(item: object) -> float | None:
    """Returns a number of a line, as `perpetual.log` writes it; None for anything else."""
    if isinstance(item, dict) and item.keys() == {"type", "text"} and item["type"] == "float":
        return math.nan  # what JSON has no number for: NaN or infinite
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        return None
    try:
        return float(item)
    except OverflowError:
        return math.nan
