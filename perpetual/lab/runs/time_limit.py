"""Beyond the wall limit: what becomes of a run that was not ended there.

The supervisor ends a run at its limit. There is none to do so where the methodology lets runs go on (`on_overrun:
warn`), and where the supervisor was killed and the command lives. Used by `reconcile`, and by `audit`, since the
reservation of a run that went on has several rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import scheduler_for, sight
from perpetual.lab.kinds import EXPERIMENT, RUN, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import Json
from perpetual.slots.scheduler import Sighting
from perpetual.toolkit.units import posix_of, shown_hours

if TYPE_CHECKING:
    from perpetual.lab.bodies import RunBody

__all__ = ["end_overdue", "is_told", "note_overrun"]

OVERRUN = "overrun"
_SOURCE = "wall limit"
# What is reserved grows ahead of the run and by a part of itself: rows are few, and what is left is never far off.
_AHEAD = 1.25


def note_overrun(ctx: Context, run: RunRow, seen: Sighting) -> str | None:
    """Tells once that a run which is let go on is past its limit, and has its reservation grow with it.

    Budget or none: what it has used is used, so the reservation grows also where nothing is left.

    Returns:
        What was found, in words, the first time.
    """
    if run.body.get("on_overrun") != "warn":
        return None
    wall_s = _wall_s(ctx, run)
    lasted_s = _lasted_s(ctx, run, seen)
    if wall_s is None or lasted_s <= wall_s:
        return None
    _, hours = RunRecords(ctx).hours(run, lasted_s)
    held = Budget(ctx).reserved_for(run.id)
    if is_told(run.body) and held is not None and hours <= held[1]:
        return None
    with ctx.store.transaction() as tx:
        run = ctx.need(RUN, run.id)
        held = Budget(ctx).reserved_for(run.id)
        if run.body["status"] != "running" or held is None:
            return None  # another process has seen its end
        gpu_hours, run_hours = RunRecords(ctx).hours(run, lasted_s * _AHEAD)
        if hours > held[1]:
            more = {"gpu_hours": max(0.0, gpu_hours - held[0]), "run_hours": max(0.0, run_hours - held[1])}
            Budget(ctx).reserve(tx, run.body, **more)
        if is_told(run.body):
            return None
        text = f"past its wall limit of {shown_hours(wall_s / 3600)}, and goes on: on_overrun is warn"
        RunRecords(ctx).annotate(tx, run, [_annotation(text)])
        payload = {"wall_s": wall_s, "gpu_hours": max(gpu_hours, held[0]), "run_hours": max(run_hours, held[1])}
        ctx.emit(tx, "budget_overrun", run.id, payload)
    return text


def end_overdue(ctx: Context, run: RunRow) -> None:
    """Ends a command that has outlived its supervisor and its limit; returns when its processes are gone.

    That it was ended for its limit is on record first: a scan that finds it lost then must not retry it.
    """
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.body["status"] != "running":
            return
        if not is_told(fresh.body):
            text = "past its wall limit: its supervisor, which should have ended it, had died"
            fresh = RunRecords(ctx).annotate(tx, fresh, [_annotation(text)])
            held = Budget(ctx).reserved_for(run.id) or (0.0, 0.0)
            payload = {"wall_s": _wall_s(ctx, fresh), "gpu_hours": held[0], "run_hours": held[1]}
            ctx.emit(tx, "budget_overrun", run.id, payload)
    scheduler = scheduler_for(ctx, fresh)
    if sight(ctx, fresh).elsewhere is not None:
        return
    grace_s = ctx.config.methodology["kill_grace_s"]
    scheduler.cancel(fresh.body["native_id"], RunRecords(ctx).log_dir(run.id), by="its wall limit", grace_s=grace_s)


def is_told(run: RunBody) -> bool:
    """Returns whether the body of a run says that it went past its limit."""
    return any(item["kind"] == OVERRUN for item in run.get("annotations", ()))


def _wall_s(ctx: Context, run: RunRow) -> float | None:
    wall_s: float | None = ctx.need(EXPERIMENT, run.body["experiment_id"]).body["resources"]["wall_s"]
    return wall_s


def _lasted_s(ctx: Context, run: RunRow, seen: Sighting) -> float:
    """Returns how long it has lasted: by a monotonic clock, where the scheduler has one."""
    if seen.age_s is not None:
        return seen.age_s
    started = seen.started_at or run.body["started_at"]
    return 0.0 if started is None else ctx.clock().timestamp() - posix_of(started)


def _annotation(text: str) -> Json:
    return {"kind": OVERRUN, "text": text, "source": _SOURCE}
