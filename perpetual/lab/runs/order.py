"""What a queued run waits for by what was said of it: a stash, experiments that come first, its group's limit."""

from __future__ import annotations

from collections.abc import Sequence

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.toolkit.units import posix_of

__all__ = ["group_limits", "keeps_back", "unmet"]

_OVER, _NEVER = ("complete", "analysed"), ("rejected", "expired")


def keeps_back(ctx: Context, experiment: ExperimentRow, run: RunRow | None, live: Sequence[RunRow]) -> str | None:
    """Returns why a run does not start yet whatever room there is; None if nothing was said that holds it."""
    until = None if run is None else run.body.get("stashed")
    if run is not None and until is not None and (not until or posix_of(until) > ctx.clock().timestamp()):
        return f"it is stashed{' until ' + until if until else ''} (perpetual queue enqueue {run.id})"
    for entry in experiment.body.get("after", ()):
        why = unmet(ctx, experiment.id, entry)
        if why is not None:
            return why
    group = experiment.body.get("group")
    limit = group_limits(ctx).get(group or "")
    if group is None or limit is None:
        return None
    others = [other for other in live if ctx.need(EXPERIMENT, other.body["experiment_id"]).body.get("group") == group]
    if len(others) < limit:
        return None
    return f"its group {group} takes {limit} at once, and {len(others)} of them are live"


def unmet(ctx: Context, id: str, entry: str) -> str | None:
    """Returns why `e3` (all runs a success) or `e3:any` (all ended) does not hold yet for the experiment `id`."""
    first, _, how = entry.partition(":")
    found = ctx.need(EXPERIMENT, first)
    status, metric = found.body["status"], found.body["design"]["metric"]
    if status in _NEVER:
        return f"it comes after {first}, which is {status} (perpetual queue after {id} takes that back)"
    if status not in _OVER:
        return f"it comes after {first}, which is {status}"
    runs = ctx.store.find(RUN, experiment_id=found.body["design"].get("runs_of") or first)
    newest = {run.body["replicate"]: run for run in runs}.values()
    failed = [run.id for run in newest if run.body["status"] != "done" or run.body["tainted"]
              or (metric is not None and run.body["metrics"].get(metric) is None)]  # fmt: skip
    if how == "any" or not failed:
        return None
    way = f"perpetual retry {failed[0]}, or perpetual queue after {id} {first}:any"
    return f"it comes after {first}, which ended without success ({way})"


def group_limits(ctx: Context) -> dict[str, int]:
    """Returns how many runs each group takes at once."""
    found = ctx.store.get("setting", "queue_groups")
    return {} if found is None else {name: limit for name, (limit, _) in found.body["limits"].items()}
