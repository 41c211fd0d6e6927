"""Isolated runs: a copy of the code is kept when it is approved, and each run starts in a folder made of that copy.

How code is kept and laid out is a capture's (`Capture.isolation`). Here is where runs live: `runs/rN/work` while the
run lasts, and afterwards what the run has left there. `isolate/live/rN` marks a folder that is not cleared yet.
Also where code lies that is not isolated: in the linked git worktree in which the experiment was proposed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.config import worktree_of
from perpetual.errors import Conflict, PluginError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import folder_of, leftovers
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.experiments import argv_of
from perpetual.records import ENDED
from perpetual.slots.capture import Isolation
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.units import posix_of

if TYPE_CHECKING:
    from perpetual.documents.provenance import KeptCode
    from perpetual.lab.bodies import SpecificationBody

__all__ = ["check_out", "clear", "code_root", "keep", "kept_for", "mark_kept", "run_root", "settle", "variables",
           "wanted", "wanted_folder", "worktree"]  # fmt: skip

WORK = "work"  # in the run's folder
_LATE_S = 7 * 86_400.0  # for which a lost run may be found again


def worktree(ctx: Context) -> str | None:
    """Returns the linked git worktree that the caller is in, from the project's folder; None where it is in none."""
    found = worktree_of(ctx.config.root)
    return None if found is None else os.path.relpath(found, os.path.realpath(ctx.config.root))


def wanted(ctx: Context, asked: bool | None) -> bool:
    """Returns whether an experiment is isolated; raises UsageError where its code cannot be kept."""
    found = bool(ctx.config.methodology["isolate"]) if asked is None else asked
    if found:
        _part(ctx, worktree_of(ctx.config.root) or ctx.config.root).check()
    return found


def code_root(ctx: Context, body: SpecificationBody) -> Path:
    """Returns the folder whose code an experiment runs, or is kept from: the project's, or that of its worktree."""
    return (ctx.config.root / (body["resources"].get("worktree") or ".")).resolve()


def run_root(ctx: Context, run: RunRow) -> Path:
    """Returns the folder that stands for the project's in a run."""
    isolated = run.body.get("isolated")
    if isolated is not None:
        return ctx.config.root / isolated
    return code_root(ctx, ctx.need(EXPERIMENT, run.body["experiment_id"]).body)


def keep(ctx: Context, body: SpecificationBody) -> KeptCode:
    """Keeps the code of an experiment as it lies now; `settle` is called once a record names it.

    Raises:
        UsageError: if it cannot be kept; the hint says what to do.
    """
    kept = _part(ctx, code_root(ctx, body)).keep(argv_of(body["command"] or ""), body["cwd"])
    return {"key": kept.key, "below": kept.below}


def settle(ctx: Context, root: Path) -> None:
    """Notes that a record names what was kept of the code in `root`."""
    _part(ctx, root).settle()


def mark_kept(ctx: Context, run: RunRow, kept: KeptCode) -> dict[str, object]:
    """Returns the fields of a run that starts from a copy which was made for it, and not by the approval."""
    return {"kept": kept, "kept_mark": ctx.trust.vouch(run.id, [kept["key"], kept["below"]])}


def kept_for(ctx: Context, experiment: ExperimentRow, run: RunRow | None = None) -> KeptCode | None:
    """Returns the copy that a run starts from; None where it is not isolated.

    Raises:
        Conflict: if it is isolated, and no copy was kept.
    """
    own = run.body.get("kept") if run is not None else None
    if run is not None and own and ctx.trust.vouches(run.id, [own["key"], own["below"]], run.body.get("kept_mark")):
        return own
    if not experiment.body["resources"].get("isolate"):
        return None
    kept = experiment.body.get("approved_code", {}).get("kept")
    if kept is None:
        raise Conflict(f"no copy of the code of {experiment.id} was kept", hint=f"perpetual approve {experiment.id}")
    return kept


def wanted_folder(ctx: Context, experiment: ExperimentRow, run: RunRow) -> str | None:
    """Returns where a run is isolated, from the project's folder; None where it is not."""
    kept = kept_for(ctx, experiment, run)
    return None if kept is None else os.path.normpath(f".perpetual/runs/{run.id}/{WORK}/{kept['below']}")


def check_out(ctx: Context, run: RunRow, experiment: ExperimentRow) -> None:
    """Makes the folder of an isolated run, anew where a launcher died over it; does nothing for any other.

    Raises:
        PerpetualError: if the copy is not what was kept.
    """
    kept = kept_for(ctx, experiment, run) if run.body.get("isolated") is not None else None
    if kept is None:
        return
    make_folder(_marks(ctx))
    write_atomic(_marks(ctx) / run.id, "")
    part = _part(ctx, code_root(ctx, experiment.body))
    part.check_out(kept["key"], folder_of(ctx, run.id) / WORK, experiment.body["cwd"])


def variables(ctx: Context, run: RunRow, experiment: ExperimentRow, env: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables by which an isolated run finds the copy of the code, and not the original."""
    argv, root = argv_of(experiment.body["command"] or ""), code_root(ctx, experiment.body)
    return dict(_part(ctx, root).variables(argv, env, run_root(ctx, run)))


def clear(ctx: Context) -> None:
    """Clears the folders of isolated runs that are over and measured, and copies that no record names.

    What a run has written stays where it wrote it. What cannot be cleared now is cleared by a later scan.
    """
    for name in _listed(_marks(ctx)):
        run = ctx.store.get(RUN, name)
        if run is not None and _may_go_on(ctx, run):
            continue
        if run is not None:
            experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
            part = _part(ctx, code_root(ctx, experiment.body))
            part.clear(folder_of(ctx, run.id) / WORK)
        (_marks(ctx) / name).unlink(missing_ok=True)
    if _listed(ctx.folder / "isolate" / "new"):
        _part(ctx, ctx.config.root).sweep(lambda: _used(ctx))


def _may_go_on(ctx: Context, run: RunRow) -> bool:
    """Returns whether anything may still use a run's folder: the run, a process that it left, or a late end."""
    if run.body["status"] not in ENDED or leftovers(ctx, run):
        return True
    ended = run.body["ended_at"]
    is_new = ended is not None and ctx.clock().timestamp() - posix_of(ended) < _LATE_S
    return run.body["status"] == "lost" and is_new and not ctx.part_named("scheduler", run.body["scheduler"]).lost_is_final


def _used(ctx: Context) -> set[str]:
    experiments = (row.body.get("approved_code", {}).get("kept") for row in ctx.store.find(EXPERIMENT))
    return {kept["key"] for kept in (*experiments, *(row.body.get("kept") for row in ctx.store.find(RUN))) if kept}


def _marks(ctx: Context) -> Path:
    return ctx.folder / "isolate" / "live"


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _part(ctx: Context, root: Path) -> Isolation:
    """Returns what isolates the code of a folder: the first capture that does."""
    for _, capture in ctx.parts("capture"):
        found = capture.isolation(root, ctx.folder / "isolate")
        if found is not None:
            return found
    raise PluginError("no plugin here isolates code", hint="perpetual plugins list; or --no-isolate")
