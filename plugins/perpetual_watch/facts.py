"""Collects what a frame shows: from the status, the newest events, and the ends of the files of live runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, Run
from perpetual.toolkit.causes import reason_with_cause

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event, GpuStatus
    from perpetual.documents.status import LabStatus, RunLine
    from perpetual_watch.documents import Watch, WatchEvent, WatchGpu, WatchRun

__all__ = ["collected", "devices_of"]

_EVENTS = 30
_ENDED = 10  # runs beside the live ones
_LIVE = 20
_POINTS = 48  # of a curve
_CURVE_BYTES = 64 * 1024  # that are read of a live run's files
_LONGEST = 300  # characters
_HASH, _HASH_SHOWN = 40, 12


def collected(lab: Lab, devices: GpuStatus | None) -> Watch:
    """Returns what a frame shows; `devices` are as of the last look at them, None before the first."""
    status = lab.status()
    last = lab.feed.last()
    events = lab.events(since=max(0, last - _EVENTS), limit=_EVENTS)
    proposed = status["experiments"].get("proposed", 0)
    return {
        "project": status["project"],
        "seq": last,
        "queue": status["queue"],
        "services": [f"{it['name']} {it['state']}" for it in status.get("services", ()) if it["state"] != "stopped"],
        "hypotheses": status["hypotheses"],
        "hypotheses_total": status["hypotheses_total"],
        "runs": _runs(lab, status),
        "live": sum(run["status"] in ("launching", "running") for run in status["runs"]["active"]),
        "queued": status["runs"]["queued"],
        "gpus": [] if devices is None else _gpus(devices),
        "gpus_reason": None if devices is None else devices["reason"],
        "budget": status["budget"],
        "approvals": status["brief"]["proposed"],
        "approvals_total": proposed,
        "code_changed": status["approvals_waiting"] - proposed,
        "events": [_event(event) for event in reversed(events)],
    }


def devices_of(lab: Lab) -> GpuStatus:
    """Returns the machine's GPUs; what keeps them from being read is the reason. May take seconds."""
    try:
        return lab.inventory().devices()
    except PerpetualError as problem:
        return {"driver": None, "gpus": [], "reason": problem.message, "transient": True}


def _runs(lab: Lab, status: LabStatus) -> list[WatchRun]:
    """Returns the live runs and those that ended last."""
    active = status["runs"]["active"][:_LIVE]
    now: dict[str, RunLine] = {run["id"]: run for run in active}
    newest = lab.runs.list(limit=_ENDED + len(now)).items
    found = [lab.runs.get(id) for id in now]
    found += [run for run in newest if run.id not in now and run.ended_at is not None][:_ENDED]
    titles: dict[str, tuple[str, str | None]] = {}
    for run in found:
        if run.experiment_id not in titles:
            experiment = lab.experiments.get(run.experiment_id)
            titles[run.experiment_id] = (experiment.title, experiment.design.metric)
    return [_run(lab, run, titles[run.experiment_id], now.get(run.id)) for run in found]


def _run(lab: Lab, run: Run, of: tuple[str, str | None], line: RunLine | None) -> WatchRun:
    title, metric = of
    progress = None if line is None or (found := line.get("progress")) is None else str(found["text"])
    return {
        "id": run.id,
        "experiment_id": run.experiment_id,
        "title": title[:_LONGEST],
        "replicate": run.replicate,
        "status": run.status if line is None else line["status"],
        "metric": metric,
        "value": run.metrics.get(metric) if metric is not None else None,
        "curve": _curve(lab, run, metric),
        "progress": progress,
        "reason": (reason_with_cause(run.reason, run.annotations) or "")[:_LONGEST] or None,
        "gpus": [*run.gpus],
    }


def _curve(lab: Lab, run: Run, metric: str | None) -> list[float | None]:
    """Returns the metric over the run's steps, each point the mean of a stretch; a gap where a value is missing."""
    if metric is None:
        return []
    try:
        history = lab.runs.curves(run.id, (metric,), limit_bytes=_CURVE_BYTES).get(metric)
    except PerpetualError:  # something hostile in its folder; `perpetual curves` says what
        return []
    if history is None:
        return []
    values, count = history.values, min(_POINTS, len(history.values))
    parts = [values[len(values) * n // count : len(values) * (n + 1) // count] for n in range(count)]
    return [_mean(part) for part in parts]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _gpus(devices: GpuStatus) -> list[WatchGpu]:
    return [
        {
            "index": gpu["index"],
            "name": gpu["name"],
            "state": gpu["state"],
            "utilization": gpu["utilization"],
            "memory_used_bytes": gpu["memory_used_bytes"],
            "memory_total_bytes": gpu["memory_total_bytes"],
            "run_ids": gpu["run_ids"],
        }
        for gpu in devices["gpus"]
    ]


def _event(event: Event) -> WatchEvent:
    return {
        "seq": event.seq,
        "time": event.time,
        "actor": event.actor,
        "kind": event.kind,
        "subject": event.subject,
        "text": _said(event.payload)[:_LONGEST],
    }


def _said(payload: Mapping[str, object]) -> str:
    """Returns a payload in short: a change of state first, then what else is short."""
    parts = [f"{payload['from']} -> {payload['to']}"] if {"from", "to"} <= payload.keys() else []
    rest = {key: value for key, value in payload.items() if value is not None and key not in ("from", "to")}
    return ", ".join([*parts, *(f"{key} {_value(value)}" for key, value in rest.items())])


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        is_hash = len(value) >= _HASH and set(value) <= set("0123456789abcdef")
        return value[:_HASH_SHOWN] if is_hash else value
    return json.dumps(value, ensure_ascii=False)
