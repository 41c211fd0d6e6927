"""What a queued run waits for by what was said of it: a stash, experiments that come first, its group's limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from perpetual.errors import PluginError
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import scheduler_for
from perpetual.lab.experiments.order import first_of
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.slots.scheduler import Scheduler
from perpetual.toolkit.run_folder import ARTIFACTS
from perpetual.toolkit.units import counted, posix_of

if TYPE_CHECKING:
    from perpetual.documents.provenance import Need

__all__ = ["awaited", "group_limits", "keep_moving", "keeps_back", "movers", "needed", "unmet"]

_OVER, _NEVER = ("complete", "analysed"), ("rejected", "expired")


def keeps_back(ctx: Context, experiment: ExperimentRow, run: RunRow | None, live: Sequence[RunRow]) -> str | None:
    """Returns why a run does not start yet whatever room there is; None if nothing was said that holds it."""
    until = None if run is None else run.body.get("stashed")
    if run is not None and until is not None and (not until or posix_of(until) > ctx.clock().timestamp()):
        return f"it is stashed{' until ' + until if until else ''} (perpetual queue enqueue {run.id})"
    for entry in first_of(experiment.body):
        why = unmet(ctx, experiment.id, entry)
        if why is not None:
            return why
    needs = needed(ctx, experiment, None if run is None else run.body["replicate"])
    if isinstance(needs, str):
        return needs
    group = experiment.body.get("group")
    limit = group_limits(ctx).get(group or "")
    if group is None or limit is None:
        return None
    others = [other for other in live if ctx.need(EXPERIMENT, other.body["experiment_id"]).body.get("group") == group]
    if len(others) < limit:
        return None
    full = f"{limit} at once, and {counted(len(others), 'of them is', 'of them are')} live"
    return f"its group {group} takes {full if limit else 'no run: its limit is 0'}"


def needed(ctx: Context, experiment: ExperimentRow, replicate: int | None) -> list[Need] | str:
    """Returns the artifacts that a replicate starts from: those of the replicate of its number, else the only ones.

    Text says which one no run has left, and the way out.
    """
    found: list[Need] = []
    for need in experiment.body["resources"].get("needs_artifacts", ()):
        first, _, path = need.partition("/")
        left = {number: (run.id, item)
                for number, run in _newest(ctx, first).items()
                if run.body["status"] == "done" and not run.body["tainted"]
                for item in run.body.get("artifacts", ())
                if item["path"] == f"{ARTIFACTS}/{path}" and item["sha256"]}  # fmt: skip
        chosen = left.get(replicate or 0) or next(iter(left.values() if len(left) == 1 or not replicate else ()), None)
        if chosen is None:
            way = f"perpetual runs --experiment {first} --json lists what is there; perpetual kill {experiment.id}"
            return f"it needs {need}, which no run of {first} that is done has left for it ({way})"
        run_id, item = chosen
        found.append({"artifact": need, "run_id": run_id, "size_bytes": item["size_bytes"], "sha256": item["sha256"]})
    return found


def _newest(ctx: Context, id: str) -> dict[int, RunRow]:
    """Returns the newest attempt of each replicate of the experiment, or of that whose runs it takes."""
    owner = ctx.need(EXPERIMENT, id).body["design"].get("runs_of") or id
    return {run.body["replicate"]: run for run in ctx.store.find(RUN, experiment_id=owner)}


def unmet(ctx: Context, id: str, entry: str) -> str | None:
    """Returns why `e3` (all runs a success) or `e3:any` (all ended) does not hold yet for the experiment `id`."""
    first, _, how = entry.partition(":")
    found = ctx.need(EXPERIMENT, first)
    status, metric = found.body["status"], found.body["design"]["metric"]
    if status in _NEVER:
        way = "perpetual queue after" if entry in ctx.need(EXPERIMENT, id).body.get("after", ()) else "perpetual kill"
        return f"it comes after {first}, which is {status} ({way} {id} takes that back)"
    if status not in _OVER:
        return f"it comes after {first}, which is {status}"
    failed = [run.id for run in _newest(ctx, first).values() if run.body["status"] != "done" or run.body["tainted"]
              or (metric is not None and run.body["metrics"].get(metric) is None)]  # fmt: skip
    if how == "any" or not failed:
        return None
    way = f"perpetual retry {failed[0]}, or perpetual queue after {id} {first}:any"
    return f"it comes after {first}, which ended without success ({way})"


def group_limits(ctx: Context) -> dict[str, int]:
    """Returns how many runs each group takes at once."""
    found = ctx.store.get("setting", "queue_groups")
    return {} if found is None else {name: limit for name, (limit, _) in found.body["limits"].items()}


def movers(ctx: Context, runs: Iterable[RunRow]) -> list[Scheduler]:
    """Returns the engines of the runs that start what waits when a run ends."""
    found = {}
    for run in runs:
        try:
            found[run.body["scheduler"]] = scheduler_for(ctx, run)
        except PluginError:
            continue  # a scan names it
    return [engine for engine in found.values() if engine.moves_queue]


def awaited(ctx: Context) -> float | None:
    """Returns when the queue moves next: the earliest moment (POSIX, in seconds) until which a run is stashed.

    Infinity is the end of a live run; None is returned where no run will start by itself.
    """
    if not ctx.config["queue_moves"] or RunRecords(ctx).queue_state() == "paused":
        return None
    runs, now = RunRecords(ctx).live(), ctx.clock().timestamp()
    waiting = [run.body.get("stashed") for run in runs if run.body["status"] == "queued"]
    moments = [moment for until in waiting if until and (moment := posix_of(until)) > now]
    is_any = len(waiting) > waiting.count("") + len(moments)
    if is_any and movers(ctx, [run for run in runs if run.body["status"] != "queued"]):
        moments.append(math.inf)
    return min(moments, default=None)


def keep_moving(ctx: Context) -> None:
    """Has an engine start what moves the queue, where a run waits for an end or a moment: it is at work by then."""
    if not ctx.trust.is_held and awaited(ctx) is not None:
        for engine in movers(ctx, RunRecords(ctx).live())[:1]:
            engine.keep_moving(ctx.config.root)
