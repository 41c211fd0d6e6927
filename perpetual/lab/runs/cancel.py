"""Ending a run by hand: from the queue, while it is launching, or with its whole process tree. Floor 2."""

from __future__ import annotations

import time

from perpetual.errors import Conflict, CorruptData, PerpetualError, TransientError
from perpetual.lab.bodies import StoppedBody
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import leftovers, scheduler_for, sight
from perpetual.lab.kinds import RUN, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.runs.environment import tidy
from perpetual.lab.runs.reconcile import find_again, is_in_hand, is_supervised_here, look_at, may_be_late, no_changes
from perpetual.lab.runs.settle import Ending, found_end, settle
from perpetual.slots.scheduler import LIVING, EndUnreadable, Sighting
from perpetual.toolkit.units import LONGEST_S, finite

__all__ = ["kill"]

_LAUNCH_TURN_S = 0.05  # poll interval of `kill` while the run is still launching


def kill(
    ctx: Context,
    run_id: str,
    *,
    grace_s: float | None = None,
    wait_s: float = 5.0,
    stopped: StoppedBody | None = None,
) -> RunRow:
    """Ends a run and its whole process tree; says `killed` only once the processes are gone.

    Answers the run as it is after at most `grace + wait_s` seconds. Raises Conflict if it has ended.

    Args:
        stopped: why it is stopped early, which is recorded before it ends.
    """
    if ctx.trust.is_held:
        if not is_supervised_here(ctx, ctx.need(RUN, run_id)):
            ctx.trust.require(f"ending {run_id}")
        with ctx.trust.lifted():
            return _kill(ctx, run_id, grace_s, wait_s, stopped)
    return _kill(ctx, run_id, grace_s, wait_s, stopped)


def _kill(ctx: Context, run_id: str, grace_s: float | None, wait_s: float, stopped: StoppedBody | None) -> RunRow:
    run = ctx.need(RUN, run_id)
    grace = ctx.config.methodology["kill_grace_s"] if grace_s is None else grace_s
    finite(grace, "the grace", minimum=0.0, maximum=LONGEST_S)
    if run.body["status"] == "queued":
        run = _take_from_queue(ctx, run)
        if run.body["status"] == "killed":
            return run
    if run.body["status"] == "lost" and leftovers(ctx, run):
        return _end_leftovers(ctx, run, grace)
    if run.body["status"] == "lost" and may_be_late(ctx, run):
        log_dir = RunRecords(ctx).log_dir(run.id)
        find_again(ctx, run, no_changes(), seen=scheduler_for(ctx, run).poll(run.body["native_id"], log_dir))
        run = ctx.need(RUN, run_id)
    if run.body["status"] not in ("launching", "running"):
        raise Conflict(f"{run.id} is {run.body['status']}; there is nothing to kill", hint=f"perpetual runs {run.id}")
    _require_here(ctx, run)
    try:
        with ctx.store.transaction() as tx:  # on record first: a run that was cancelled is not retried automatically
            run = ctx.need(RUN, run.id)
            if run.body["status"] in ("launching", "running") and run.body.get("cancelled_by") != ctx.actor:
                changes = {"cancelled_by": ctx.actor, "cancel_grace_s": grace}
                run = RunRecords(ctx).change(tx, run, changes if stopped is None else changes | {"stopped": stopped})
    except PerpetualError as problem:
        if problem.code == "not_written":  # what fills the disk must not live on because the disk is full
            raise _ended_unrecorded(run, _cancel(ctx, run, grace, wait_s), problem) from problem
        raise
    try:
        _cancel(ctx, run, grace, wait_s)
        look_at(ctx, ctx.need(RUN, run.id), no_changes())
    except EndUnreadable as problem:
        _give_up(ctx, ctx.need(RUN, run.id), problem)
    # Where its launcher had died before anything ran, it waits again, and would be started at the next scan.
    return _take_from_queue(ctx, ctx.need(RUN, run.id))


def _require_here(ctx: Context, run: RunRow) -> None:
    """Raises Conflict for a run that cannot be ended from here: of another machine, or of the original of a copy."""
    try:
        elsewhere = sight(ctx, run).elsewhere
    except (CorruptData, TransientError):
        return  # its records are spoilt; its supervisor may be known all the same
    if elsewhere is not None:
        raise Conflict(f"{run.id} {elsewhere}", hint=f"there: perpetual kill {run.id}", code="elsewhere")


def _end_leftovers(ctx: Context, run: RunRow, grace_s: float) -> RunRow:
    """Ends what a lost run has left behind; the run stays lost."""
    pids = ", ".join(map(str, leftovers(ctx, run)))
    scheduler, log_dir = scheduler_for(ctx, run), RunRecords(ctx).log_dir(run.id)
    scheduler.cancel(run.body["native_id"], log_dir, by=ctx.actor, grace_s=grace_s)
    left = leftovers(ctx, run)
    if left:
        raise TransientError(
            f"processes of {run.id} survive KILL: {', '.join(map(str, left))}", hint="they are stuck, or another user's"
        )
    text = f"processes that it had left ({pids}) were ended by {ctx.actor}"
    with ctx.store.transaction() as tx:
        note = {"kind": "leftover", "text": text, "source": "kill"}
        return RunRecords(ctx).annotate(tx, ctx.need(RUN, run.id), [note])


def _give_up(ctx: Context, run: RunRow, problem: EndUnreadable) -> None:
    """Records a run as lost that is over and whose record nothing can be learnt from, as a person asked."""
    seen = Sighting("lost", detail=problem.message)
    end = found_end(ctx, run, seen)
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.body["status"] in ("launching", "running"):
            settle(ctx, tx, fresh, end)


def _cancel(ctx: Context, run: RunRow, grace_s: float, wait_s: float) -> Sighting:
    """Has the run ended, and waits for that; how it is then.

    One that is just being launched is waited for, and ended once it is there: its launcher may be anywhere on the way.
    """
    scheduler = scheduler_for(ctx, run)
    log_dir = RunRecords(ctx).log_dir(run.id)
    deadline = time.monotonic() + grace_s + wait_s
    while True:
        scheduler.cancel(run.body["native_id"], log_dir, by=ctx.actor, grace_s=grace_s)
        seen = sight(ctx, run, wait_s=max(0.0, deadline - time.monotonic()))
        run = ctx.need(RUN, run.id)
        left_s = deadline - time.monotonic()
        is_coming = seen.state in ("absent", *LIVING) and is_in_hand(run)
        if not is_coming or left_s <= 0:
            return seen
        ctx.store.wait(ctx.store.seq(), min(left_s, _LAUNCH_TURN_S))


def _ended_unrecorded(run: RunRow, seen: Sighting, problem: PerpetualError) -> PerpetualError:
    outcome = "was asked to end" if seen.state in LIVING else "has ended"
    return PerpetualError(
        f"{run.id} {outcome}, and that is not recorded yet: {problem.message}",
        hint="free some space, or mend the rights; then perpetual scan",
        code=problem.code,
    )


def _take_from_queue(ctx: Context, run: RunRow) -> RunRow:
    """Returns the run, killed if it was waiting; else as it is."""
    if run.body["status"] != "queued":
        return run
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.body["status"] == "queued":
            never_ran = Sighting("ended", reason="killed", duration_s=0.0)
            settle(ctx, tx, fresh, Ending(never_ran, "killed", f"taken from the queue by {ctx.actor}"))
    tidy(ctx)
    return ctx.need(RUN, run.id)
