"""Measuring: what the metric readers find of an ended run, as the record takes it. For `reconcile` and `import_files`.

The record takes a metric whose name is printable text of at most 200 characters, a thousand metrics of one run, and of
values the finite ones up to 1e100: any other that is there is None, which nothing is compared with. What is left out is
named by an annotation. Readers are plugins, so what they answer is checked here.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from perpetual.errors import PerpetualError, nearest
from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, RUN, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.provenance.isolation import run_root
from perpetual.records import Json
from perpetual.slots.analyser import MetricHistory, MetricReader, MetricValue, RunFolder
from perpetual.slots.scheduler import Sighting
from perpetual.toolkit.contained import contained
from perpetual.toolkit.deadline import Deadline, OutOfTime, call
from perpetual.toolkit.reserved import is_bundled
from perpetual.toolkit.units import posix_of

__all__ = ["did_you_mean", "histories", "measure", "read_again", "read_all"]

LIMIT_S, _ALL_S = 30.0, 90.0  # of one reader and of all, for one run: the other runs wait meanwhile
_LONGEST_NAME = 200
_MOST = 1_000
_NAMED = 5
_SHARED = (
    "another run was live in the same working directory, so files there were not looked at; "
    "print the metric, call perpetual.log, or write results.json into the folder that PERPETUAL_RUN_DIR names"
)
_LATE = "{source} was changed {late:.0f} s after the run had ended, so it is not the run's word"
_CAPTURED = ("stdout.log", "stderr.log")
_CLOCK_S = 2.0  # a few file systems keep times to two whole seconds
# Beyond, differences and their squares leave the range of a float, and a comparison would mean nothing.
_LARGEST = 1e100


def measure(ctx: Context, run: RunRow, seen: Sighting) -> tuple[dict[str, MetricValue], list[Json]]:
    """Returns every metric that a reader finds (the first reader's counts), and as annotations what was left out."""
    folder = _folder_of(ctx, run, seen.started_at or run.body["started_at"])
    declared = _declared(ctx, run)
    found, remarks = read_all(ctx.parts("metric_reader"), folder, declared)
    if (
        run.body.get("shares_folder")
        and declared is not None
        and declared not in found
        and not nearest(declared, found)
    ):
        remarks.append(_annotation(_SHARED, "metrics"))
    value = found.get(declared) if declared is not None else None
    late = _late_by(value, folder, seen) if value is not None else None
    if value is not None and late is not None:
        del found[str(declared)]
        remarks.append(_annotation(_LATE.format(source=value.source, late=late), "metrics"))
    return found, remarks


def did_you_mean(metric: str, found: Collection[str]) -> str:
    """Returns what to say of a metric that a run has not shown, given those that it has; nothing where it has none."""
    if not found:
        return ""
    named = ", ".join(sorted(found)[:_NAMED]) + (" and more" if len(found) > _NAMED else "")
    near = nearest(metric, found, n=1)
    return f"; it shows {named}" + (f": did you mean {near[0]}?" if near else "")


def read_again(ctx: Context, run_id: str) -> dict[str, MetricValue]:
    """Returns what the readers find of a run now, as they would for the record; nothing is recorded.

    Raises:
        NotFound: if there is no such run.
    """
    run = ctx.need(RUN, run_id)
    folder = _folder_of(ctx, run, run.body["started_at"])
    return read_all(ctx.parts("metric_reader"), folder, _declared(ctx, run))[0]


def histories(
    ctx: Context, run_id: str, metrics: Collection[str] = (), limit_bytes: int | None = None
) -> dict[str, MetricHistory]:
    """Returns the histories of a run's metrics, as `Runs.curves` says."""
    run = ctx.need(RUN, run_id)
    ended = run.body.get("ended_at")
    folder = replace(_folder_of(ctx, run, run.body["started_at"]), ended_at_s=posix_of(ended) if ended else None)
    found: dict[str, MetricHistory] = {}
    problem: Exception | None = None
    for _, reader in sorted(ctx.parts("metric_reader"), key=lambda pair: not is_bundled(pair[0])):
        try:
            with contained():
                read = call(LIMIT_S, partial(reader.history, folder, metrics, limit_bytes=limit_bytes))
            for name, one in read.items():
                shown = ctx.redactor.text(name)
                # One value is no curve: a later place that has more of them is surer.
                is_more = shown not in found or len(found[shown].values) < 2 < len(one.values) + 1
                if is_more and len(found) < _MOST and 0 < len(name) <= _LONGEST_NAME and name.isprintable():
                    found[shown] = _checked_history(one)
        except Exception as seen:  # noqa: BLE001 - one reader's fault must not hide the others' numbers
            problem = problem or seen
        if metrics and all(name in found and len(found[name].values) > 1 for name in metrics):
            break
    if problem is not None and not found:
        raise PerpetualError(f"the values of {run.id} cannot be read: {problem}", hint=f"perpetual logs {run.id}")
    return found


def _checked_history(found: MetricHistory) -> MetricHistory:
    """Returns a reader's history with finite numbers alone. Raises ValueError where its lists differ in length."""
    lists = [[x if x is not None and -_LARGEST <= x <= _LARGEST else None for x in given]
             for given in (found.steps, found.values, found.times)]  # fmt: skip
    if len({*map(len, lists)}) != 1:
        raise ValueError("its lists differ in length")
    return replace(found, steps=lists[0], values=lists[1], times=lists[2])


def _declared(ctx: Context, run: RunRow) -> str | None:
    declared: str | None = ctx.need(EXPERIMENT, run.body["experiment_id"]).body["design"]["metric"]
    return declared


def _folder_of(ctx: Context, run: RunRow, started: str | None) -> RunFolder:
    """Returns where the readers look. In a working directory that several runs shared a file may be anybody's.

    None counts.
    """
    log_dir = RunRecords(ctx).log_dir(run.id)
    cwd = run_root(ctx, run) / (ctx.need(EXPERIMENT, run.body["experiment_id"]).body["cwd"] or ".")
    return RunFolder(log_dir, log_dir if run.body.get("shares_folder") else cwd, posix_of(started) if started else 0.0)


def read_all(
    readers: Sequence[tuple[str, MetricReader]],
    folder: RunFolder,
    declared: str | None = None,
    *,
    limit_s: float = LIMIT_S,
) -> tuple[dict[str, MetricValue], list[Json]]:
    """Returns what the readers, by name, find in a folder, and what was left out, as annotations.

    Args:
        declared: the metric that is kept, however many there are.
        limit_s: the time of one reader.
    """
    found: dict[str, MetricValue] = {}
    remarks: list[Json] = []
    odd: list[str] = []
    left = Deadline(_ALL_S)
    # Bundled readers first: what a run printed is not replaced by what another distribution makes of its folder.
    for name, reader in sorted(readers, key=lambda pair: not is_bundled(pair[0])):
        try:
            with contained():
                values = call(max(0.1, min(limit_s, left.left())), partial(_read, reader, folder))
        except OutOfTime as problem:
            remarks.append(_annotation(f"the metric reader {name} {problem}", name))
            continue
        except Exception as problem:  # noqa: BLE001 - one reader's fault must not hide the others' numbers; it is shown
            remarks.append(_annotation(f"the metric reader {name} failed: {type(problem).__name__}: {problem}", name))
            continue
        metric: Any  # a plugin's
        for metric, value in values.items():
            if not isinstance(metric, str) or not 0 < len(metric) <= _LONGEST_NAME or not metric.isprintable():
                odd.append(ascii(metric)[:60])
            elif metric in found:
                if not is_bundled(name) and _differs(found[metric], _checked(value)):
                    remarks.append(
                        _annotation(f"the metric reader {name} reads another {metric}, which is not recorded", name)
                    )
            else:
                found[metric] = _checked(value)
                if found[metric].value is None and _is_beyond(value.value):
                    remarks.append(
                        _annotation(f"{metric} is {value.value:g}, beyond what can be computed with", value.source)
                    )
    if odd:
        more = f" and {len(odd) - 3} more" if len(odd) > 3 else ""
        remarks.append(_annotation(f"no names of metrics, and left out: {', '.join(odd[:3])}{more}", "metrics"))
    if len(found) > _MOST:
        remarks.append(_annotation(f"{len(found)} metrics were found, and the first {_MOST} are recorded", "metrics"))
        kept = [*found][:_MOST]
        if declared in found and declared not in kept:
            kept[-1] = declared
        found = {name: found[name] for name in kept}
    return found, remarks


def _differs(first: MetricValue, other: MetricValue) -> bool:
    if first.value is None or other.value is None:
        return first.value is not other.value
    return not math.isclose(first.value, other.value, rel_tol=1e-3)


def _read(reader: MetricReader, folder: RunFolder) -> dict[str, MetricValue]:
    return {**reader.read(folder)}


def _late_by(value: MetricValue, folder: RunFolder, seen: Sighting) -> float | None:
    """Returns by how many seconds the file of a value was changed after the run had ended; None where it was not.

    It does not look at what the supervisor itself writes for the run, nor where the clock was set meanwhile.
    """
    name = value.source.partition(":")[0]
    if name in _CAPTURED or seen.started_at is None or seen.ended_at is None or seen.duration_s is None:
        return None
    started, ended = posix_of(seen.started_at), posix_of(seen.ended_at)
    if abs(ended - started - seen.duration_s) > _CLOCK_S:
        return None
    for place in (folder.log_dir, folder.cwd):
        try:
            found = os.lstat(place / name)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            break
    else:
        return None
    late = found.st_mtime - ended
    return late if late > _CLOCK_S else None


def _annotation(text: str, source: str) -> Json:
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return {"kind": "metrics", "text": clean[:500], "source": source}


def _checked(found: MetricValue) -> MetricValue:
    """Returns a reader's value as the record can hold it, whatever the reader has answered."""
    value: Any = found.value
    source = str(found.source).encode("utf-8", "backslashreplace").decode("utf-8")[:500]
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is not None and (not math.isfinite(number) or _is_beyond(number)):
        number = None
    items = getattr(found, "items", None)  # which a reader that was built for an older kernel does not know
    return MetricValue(number, source, items if isinstance(items, tuple) else None)


def _is_beyond(value: object) -> bool:
    return isinstance(value, (int, float)) and _LARGEST < abs(value) < math.inf
