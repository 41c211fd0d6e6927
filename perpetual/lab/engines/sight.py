"""A run as its own scheduler sees it, and what of that is taken as the run's end.

What lies in a run's folder may have been written by the run itself, may belong to the run of another record that had
the same number, or to a machine that shares the folder. So every look at a run passes here: it is asked through the
scheduler that started it, bound to the nonce and the specification hash of the record, and held against what can be.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from perpetual.errors import CorruptData, UnknownPlugin, UsageError
from perpetual.lab.context import Context
from perpetual.lab.engines.schedulers import scheduler_of
from perpetual.lab.kinds import EXPERIMENT, RUN, RunRow
from perpetual.slots.scheduler import LIVING, EndUnreadable, Scheduler, Sighting
from perpetual.toolkit.units import posix_of

__all__ = ["HOSTILE", "aside_folders", "folder_of", "impossible_end", "is_occupied", "is_requeued", "leftovers",
           "scheduler_for", "set_aside", "sight", "taken"]  # fmt: skip

ASIDE = ".aside-"
# What reading a folder that a run has spoilt can raise, beside the errors of Perpetual.
HOSTILE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_SLACK_S = 300.0  # beyond wall limit and grace: a busy machine, and processes that survive KILL for a while
_DAY_S = 86_400.0
_LARGEST_SPEC_BYTES = 64 << 20


def folder_of(ctx: Context, run_id: str) -> Path:
    """Returns where a run's files are: those of a job that its engine has started anew are where they were."""
    run = ctx.store.get(RUN, run_id)
    name = run_id if run is None else str(run.body.get("lives_in", run_id))
    if Path(name).name != name or name in ("", ".."):
        raise UsageError(f"{name[:80]!r} is no id of a run", hint="perpetual runs")
    return ctx.folder / "runs" / name


def scheduler_for(ctx: Context, run: RunRow) -> Scheduler:
    """Returns the scheduler that started a run, whichever one the configuration names today.

    Raises:
        UnknownPlugin: if it is no longer installed; the run stays as it is.
    """
    name = str(run.body["scheduler"])
    try:
        found: Scheduler = ctx.part_named("scheduler", name)
    except UnknownPlugin as problem:
        raise UnknownPlugin(
            f"{run.id} was started by the scheduler {name!r}, which is not here",
            hint=f"pip install the plugin that offers the scheduler {name}; {run.id} stays as it is until then",
            code=problem.code,
        ) from problem
    return found


def sight(ctx: Context, run: RunRow, *, wait_s: float | None = None) -> Sighting:
    """Returns how a run is now, or after at most `wait_s` seconds of waiting for its end.

    Raises:
        UnknownPlugin: as `scheduler_for`.
        EndUnreadable: if it is over and its record is not one that can have been.
        CorruptData, TransientError: as its scheduler.
    """
    scheduler, log_dir = scheduler_for(ctx, run), folder_of(ctx, run.id)
    if wait_s is None:
        return taken(ctx, run, scheduler.poll(run.body["native_id"], log_dir))
    return taken(ctx, run, scheduler.wait(run.body["native_id"], log_dir, wait_s))


def taken(ctx: Context, run: RunRow, seen: Sighting) -> Sighting:
    """Returns what a scheduler's sighting says of this very run: nothing, where it is of the run of another record.

    Raises:
        EndUnreadable: as `sight`.
    """
    if _is_another_s(scheduler_for(ctx, run), run, seen):
        if run.body["status"] == "running":
            return Sighting("lost", detail="its folder holds the records of another run")
        return Sighting("absent")
    is_end = seen.state == "ended" and not is_requeued(run, seen)
    why = impossible_end(ctx, run, seen) if is_end else None
    if why is not None:
        raise EndUnreadable(
            f"{run.id}: its exit record is not its supervisor's: {why}",
            hint=f"perpetual kill {run.id} records it as lost",
        )
    return seen


def _is_another_s(scheduler: Scheduler, run: RunRow, seen: Sighting) -> bool:
    if not scheduler.binds_runs or seen.state == "absent":
        return False
    if seen.state in LIVING and seen.started_at is None:
        return False  # nothing is known yet, or no longer, but its supervisor
    nonce = run.body.get("nonce")
    if seen.nonce != nonce:
        return True
    return nonce is not None and seen.spec_hash is not None and seen.spec_hash != run.body["spec_hash"]


def is_requeued(run: RunRow, seen: Sighting) -> bool:
    """Returns whether the engine has started its job anew since the record of the run."""
    known = run.body["native_id"]
    is_other = seen.native_id is not None and known is not None and seen.native_id != known
    return seen.requeued > run.body.get("requeued", 0) or is_other


def impossible_end(ctx: Context, run: RunRow, seen: Sighting) -> str | None:
    """Returns why an end cannot be that of this run; None if it can be."""
    if (seen.started_at, seen.reason, run.body["started_at"]) == (None, "killed", None) and seen.duration_s == 0:
        return None  # cancelled while it was pending
    try:
        duration_s = float(seen.duration_s if seen.duration_s is not None else "nan")
        moments = [posix_of(str(moment)) for moment in (seen.started_at, seen.ended_at)]
    except (ValueError, OverflowError, TypeError, OSError):
        return "it holds no times"
    if not 0.0 <= duration_s < float("inf"):
        return f"it says that it lasted {duration_s:g} s"
    started = run.body["started_at"]
    if scheduler_for(ctx, run).binds_runs and started is not None and seen.started_at != started:
        return f"it says that it began at {str(seen.started_at)[:40]}, and it began at {started}"
    limit_s = _longest_s(ctx, run, moments[0])
    if limit_s is not None and duration_s > limit_s:
        return f"it says that it lasted {duration_s:g} s, and it cannot have lasted longer than {limit_s:g} s"
    return None


def _longest_s(ctx: Context, run: RunRow, started_s: float) -> float | None:
    """Returns how long it can have lasted; None if that is not known."""
    experiment = ctx.store.get(EXPERIMENT, run.body["experiment_id"])
    wall_s = None if experiment is None else experiment.body["resources"]["wall_s"]
    if wall_s is None or run.body.get("on_overrun") == "warn":
        # The clock alone is left to say it, and it may have been set.
        return max(0.0, ctx.clock().timestamp() - started_s) + _DAY_S
    graces = [ctx.config.methodology["kill_grace_s"], run.body.get("grace_s"), run.body.get("cancel_grace_s")]
    return float(wall_s) + max(float(grace or 0.0) for grace in graces) + _SLACK_S


def leftovers(ctx: Context, run: RunRow) -> tuple[int, ...]:
    """Returns the processes that a lost run has left behind and that live; none of a run that ended in another way."""
    if run.body["status"] != "lost":
        return ()
    scheduler = scheduler_for(ctx, run)
    try:
        seen = scheduler.poll(run.body["native_id"], folder_of(ctx, run.id))
    except CorruptData:
        return ()  # of which its supervisor's end is known, and nothing else
    return () if _is_another_s(scheduler, run, seen) else tuple(seen.left)


# --- folders of other records --------------------------------------------------------------------------------------


def is_occupied(ctx: Context, run: RunRow) -> str | None:
    """Returns what lives in the folder of a run that is yet to be started, in words: the run of another record."""
    folder = folder_of(ctx, run.id)
    if not os.path.lexists(folder) or _is_its_own(folder, run):
        return None
    try:
        seen = scheduler_of(ctx, ctx.need(EXPERIMENT, run.body["experiment_id"])).poll(None, folder)
    except (CorruptData, *HOSTILE):
        return None  # nothing that lives is known of it
    if seen.state == "running" and seen.elsewhere is None and seen.started_at is not None:
        return f"the run of another record is live in its folder (process {seen.pid})"
    if seen.left:
        return f"the run of another record left processes in its folder: {', '.join(map(str, seen.left))}"
    return None


def set_aside(ctx: Context, run: RunRow) -> str | None:
    """Moves the folder that another record's run left where this one is to begin; answers its new name.

    Raises:
        OSError: if it cannot be moved.
    """
    folder = folder_of(ctx, run.id)
    if run.body.get("nonce") is None or not os.path.lexists(folder) or _is_its_own(folder, run):
        return None
    if folder.is_symlink() or not folder.is_dir() or all(name.endswith(".tmp") for name in os.listdir(folder)):
        return None  # nothing of a run's, at most a cut-off write; what else is in the way fails the launch by name
    name = f"{folder.name}{ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.urandom(3).hex()}"
    os.rename(folder, folder.with_name(name))
    return name


def _is_its_own(folder: Path, run: RunRow) -> bool:
    """Returns whether a launcher of this very run has prepared the folder."""
    nonce = run.body.get("nonce")
    if nonce is None:
        return run.body.get("launcher") is not None  # of an earlier version, whose launcher died over it
    try:
        path = folder / "spec.json"
        if folder.is_symlink() or path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as file:
            found: object = json.loads(file.read(_LARGEST_SPEC_BYTES))
        return isinstance(found, dict) and found.get("nonce") == nonce
    except (OSError, ValueError, RecursionError):
        return False


def aside_folders(ctx: Context) -> list[str]:
    """Returns the run folders of other records that were set aside, by name."""
    try:
        return sorted(name for name in os.listdir(ctx.folder / "runs") if ASIDE in name)
    except OSError:
        return []
