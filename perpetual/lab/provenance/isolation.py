"""Isolated runs start in a copy of the code, kept when it was approved; others where the experiment was proposed.

How code is kept and laid out is a capture's (`Capture.isolation`). A run lives in `runs/rN/copy`, where what it has
written stays when the rest is cleared.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.errors import Conflict, PluginError
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import folder_of, leftovers
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.experiments import argv_of
from perpetual.records import ENDED
from perpetual.toolkit.units import posix_of
from perpetual.toolkit.worktrees import worktree_of

if TYPE_CHECKING:
    from perpetual.documents.provenance import KeptCode
    from perpetual.lab.bodies import SpecificationBody
    from perpetual.slots.capture import Isolation

__all__ = ["check_out", "clear", "code_root", "isolation_of", "keep", "kept_for", "marked", "run_root", "wanted",
           "wanted_folder", "worktree"]  # fmt: skip

_LATE_S = 7 * 86_400.0  # for which a lost run may be found again


def worktree(ctx: Context) -> str | None:
    """Returns the linked git worktree that the caller is in, from the project's folder; None where it is in none."""
    found = worktree_of(ctx.config.root)
    return None if found is None else os.path.relpath(found, os.path.realpath(ctx.config.root))


def wanted(ctx: Context, asked: bool | None) -> bool:
    """Returns whether an experiment is isolated; raises UsageError where its code cannot be kept."""
    found = bool(ctx.config.methodology["isolate"]) if asked is None else asked
    if found:
        isolation_of(ctx, worktree_of(ctx.config.root) or ctx.config.root).check()
    return found


def code_root(ctx: Context, body: SpecificationBody) -> Path:
    """Returns the folder with an experiment's code: the project's, or its linked worktree's."""
    return (ctx.config.root / (body["resources"].get("worktree") or ".")).resolve()


def run_root(ctx: Context, run: RunRow) -> Path:
    """Returns the folder that stands for the project's in a run."""
    if (isolated := run.body.get("isolated")) is not None:
        return ctx.config.root / isolated
    return code_root(ctx, ctx.need(EXPERIMENT, run.body["experiment_id"]).body)


def keep(ctx: Context, body: SpecificationBody) -> KeptCode:
    """Keeps the code of an experiment as it lies now; raises UsageError where it cannot be kept."""
    return isolation_of(ctx, code_root(ctx, body)).keep(argv_of(body["command"] or ""), body["cwd"])


def marked(ctx: Context, run: RunRow, kept: KeptCode) -> dict[str, object]:
    """Returns the fields of a run that starts from a copy which was made for it, and not by the approval."""
    return {"kept": kept, "kept_mark": ctx.trust.vouch(run.body["experiment_id"], [kept["key"], kept["below"]])}


def kept_for(ctx: Context, experiment: ExperimentRow, run: RunRow) -> KeptCode | None:
    """Returns the copy that a run starts from, None where it is not isolated; raises Conflict if none was kept."""
    own, mark = run.body.get("kept"), run.body.get("kept_mark")
    if own and ctx.trust.vouches(experiment.id, [own["key"], own["below"]], mark):
        return own
    if not experiment.body["resources"].get("isolate"):
        return None
    kept = experiment.body["approved_code"].get("kept") if "approved_code" in experiment.body else None
    if kept is None:
        raise Conflict(f"no copy of the code of {experiment.id} was kept", hint=f"perpetual approve {experiment.id}")
    return kept


def wanted_folder(ctx: Context, experiment: ExperimentRow, run: RunRow) -> str | None:
    """Returns where a run is isolated, from the project's folder; None where it is not."""
    kept = kept_for(ctx, experiment, run)
    return None if kept is None else os.path.normpath(f".perpetual/runs/{run.id}/copy/{kept['below']}")


def check_out(ctx: Context, run: RunRow, experiment: ExperimentRow) -> None:
    """Makes the folder of an isolated run, anew where a launcher died over it; raises Conflict for an altered copy."""
    kept = kept_for(ctx, experiment, run) if run.body.get("isolated") is not None else None
    if kept is not None:
        part, folder = isolation_of(ctx, code_root(ctx, experiment.body)), folder_of(ctx, run.id)
        part.check_out(kept["key"], folder / "copy", experiment.body["cwd"])


def clear(ctx: Context) -> None:
    """Clears the folders of isolated runs that are over and measured, and copies that no record names."""
    if (ctx.folder / "isolate").is_dir():
        isolation_of(ctx, ctx.config.root).clear(ctx.folder / "runs", partial(_may_go_on, ctx), partial(_used, ctx))


def _may_go_on(ctx: Context, name: str) -> bool:
    """Returns whether anything may still use a run's folder: the run, a process that it left, or a late end."""
    if (found := ctx.store.get(RUN, name)) is None or found.body["status"] not in ENDED:
        return found is not None
    for run in ctx.store.find(RUN, experiment_id=found.body["experiment_id"]):
        if run.body.get("lives_in", run.id) == name and (run.body["status"] not in ENDED or leftovers(ctx, run)):
            return True
    is_new = ctx.clock().timestamp() - posix_of(found.body["ended_at"] or found.body["created_at"]) < _LATE_S
    is_lost = found.body["status"] == "lost" and not ctx.part_named("scheduler", found.body["scheduler"]).lost_is_final
    return is_lost and is_new


def _used(ctx: Context) -> set[str]:
    experiments = (row.body["approved_code"].get("kept") for row in ctx.store.find(EXPERIMENT)
                   if "approved_code" in row.body)  # fmt: skip
    return {kept["key"] for kept in (*experiments, *(row.body.get("kept") for row in ctx.store.find(RUN))) if kept}


def isolation_of(ctx: Context, root: Path) -> Isolation:
    """Returns what isolates the code of a folder: the first capture that does."""
    for _, capture in ctx.parts("capture"):
        found: Isolation | None = capture.isolation(root, ctx.folder / "isolate")
        if found is not None:
            return found
    raise PluginError("no plugin here isolates code", hint="perpetual plugins list; or --no-isolate")
