"""Starting: a queued run becomes a process if there is room for it now; else it says for what it waits.

`launching` is durable before the process starts and `running` is noted after: a launcher that dies in between leaves a
run whose folder tells the next reconciliation what happened. Used by `launch`, `reconcile` and the loop's steps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from perpetual.errors import PerpetualError, Refused
from perpetual.lab.flows import Desks
from perpetual.lab.flows.devices import Devices, needs_driver
from perpetual.lab.flows.provenance import Kept, capture, kept_of
from perpetual.lab.flows.room import held_back, room
from perpetual.lab.flows.specify import prepare, spec_of
from perpetual.records import Run, from_json
from perpetual.slots.scheduler import LaunchError, Scheduler, Sighting
from perpetual.slots.store import Document, Transaction
from perpetual.toolkit import platform
from perpetual.toolkit.steps import step

__all__ = ["advance_queue", "fold_experiment", "scheduler_of", "start", "waiting", "wanted_gpus"]


def start(desks: Desks, run_id: str, devices: Devices) -> Run:
    """The second half of a launch: a queued run is started if there is room for it now.

    Args:
        devices: of this launch, so that the driver is asked once for all of its runs.

    Raises:
        LaunchError: if it cannot be started; it has failed then, and its reservation is settled.
    """
    return from_json(Run, _start(desks, run_id, devices).body)


def waiting(desks: Desks) -> list[Document]:
    """The queued runs in the order in which they start: by priority, score and age."""
    queued = desks.ctx.store.find("run", status="queued")
    experiments = {run.body["experiment_id"]: desks.ctx.need("experiment", run.body["experiment_id"]) for run in queued}

    def rank(run: Document) -> tuple[float, float, int]:
        body: Mapping[str, Any] = experiments[run.body["experiment_id"]].body
        return (-body["priority"], -(body["score"]["score"] or 0.0), run.number)

    return sorted(queued, key=rank)


def advance_queue(desks: Desks, devices: Devices) -> list[Document]:
    """Starts queued runs for which there is room now; answers those that started, or failed to."""
    started = []
    for run in waiting(desks):
        try:
            document = _start(desks, run.id, devices)
        except Refused:
            continue
        except PerpetualError:
            started.append(desks.ctx.need("run", run.id))  # it is recorded as failed with its reason
            continue
        if document.body["status"] != "queued":
            started.append(document)
    return started


def _start(desks: Desks, run_id: str, devices: Devices) -> Document:
    """Starts a queued run if there is room for it; says for what it waits otherwise."""
    started = None
    while started is None:
        experiment = desks.ctx.need("experiment", desks.ctx.need("run", run_id).body["experiment_id"])
        wanted = wanted_gpus(desks.ctx.need("run", run_id))
        if needs_driver(desks, experiment, wanted) and held_back(desks, experiment) is None:
            devices.ask()  # now: it may hang, and no transaction waits for it
        started = _try_start(desks, run_id, devices)
    run, is_fresh, again = started
    return _spawn(desks, run, experiment, again=again) if is_fresh else run


def _try_start(desks: Desks, run_id: str, devices: Devices) -> tuple[Document, bool, bool] | None:
    """The run, whether it is `launching` by this call, and whether a launcher died over it before.

    None if the driver must be asked first, since what held the run back is over.
    """
    ctx = desks.ctx
    with ctx.store.transaction() as tx:
        run = ctx.need("run", run_id)
        if run.body["status"] != "queued":
            return run, False, False
        experiment = ctx.need("experiment", run.body["experiment_id"])
        wanted = wanted_gpus(run)
        if needs_driver(desks, experiment, wanted) and not devices.is_asked and held_back(desks, experiment) is None:
            return None
        got = room(desks, experiment, wanted, devices)
        if got.waits_for is not None:
            # Writing the same reason at every look would wake everybody who waits for a change.
            same = run.body["reason"] == got.waits_for
            return (run if same else desks.runs.change(tx, run, {"reason": got.waits_for})), False, False
        me = platform.identity_of(os.getpid())
        values = {
            "status": "launching",
            "reason": None,
            "gpus": [*got.gpus],
            "gpu_numbers": [*got.numbers],
            "launcher": list(me) if me else None,
            "on_overrun": ctx.config.methodology["on_overrun"],  # the rule that it starts under, and keeps
            "shares_folder": _mark_neighbours(desks, tx, run, experiment),
        }
        again = run.body.get("launcher") is not None
        run = desks.runs.change(tx, run, values)
        fold_experiment(desks, tx, experiment.id)
    step("launch:launching")
    return run, True, again


def _mark_neighbours(desks: Desks, tx: Transaction, run: Document, experiment: Document) -> bool:
    """Whether other runs are live in its working directory; each of them is marked too."""
    found = False
    for other in desks.runs.live():
        if other.id == run.id or other.body["status"] == "queued":
            continue
        theirs = desks.ctx.need("experiment", other.body["experiment_id"]).body["cwd"]
        if (theirs or ".") == (experiment.body["cwd"] or "."):
            found = True
            if not other.body.get("shares_folder"):
                desks.runs.change(tx, other, {"shares_folder": True})
    return found


def _spawn(desks: Desks, run: Document, experiment: Document, *, again: bool) -> Document:
    """Starts the process of a `launching` run and notes what came of it.

    Args:
        again: a launcher died over it before, and what that one began may have come through since.
    """
    ctx = desks.ctx
    failure: PerpetualError | None = None
    values: dict[str, Any] = {}
    kept: Kept | None = None
    try:
        spec = spec_of(desks, experiment, run_id=run.id, gpus=run.body["gpus"], run=run)
        prepare(spec, run, experiment)
        has_come_through = again and _came_through(desks, run) is not None
        # What the command was started from stands there already, if it was started.
        kept = kept_of(spec.log_dir) if has_come_through else capture(desks, run, experiment, spec)
        step("launch:prepared")
        launched = scheduler_of(desks).launch(spec)
        values |= {
            "status": "running",
            "native_id": launched.native_id,
            "pid": launched.pid,
            "started_at": launched.started_at,
        }
        if launched.gpus:  # the engine has placed them
            values["gpus"] = [*launched.gpus]
    except PerpetualError as problem:
        failure = problem
    except OSError as problem:
        failure = LaunchError(f"{run.id} could not be started: {problem}")
    seen = _came_through(desks, run) if failure is not None and again else None
    if seen is not None:
        failure = None
        values |= {"status": "running", "pid": seen.pid, "started_at": seen.started_at}
    step("launch:started")
    if failure is not None:
        values |= {
            "status": "failed",
            "reason": failure.message,
            "ended_at": ctx.now(),
            "gpu_hours": 0.0,
            "run_hours": 0.0,
            "duration_s": 0.0,
        }
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        values |= kept.noted(fresh.body) if kept is not None else {}
        if fresh.body["status"] == "launching":  # a reconciliation may have been quicker
            fresh = desks.runs.change(tx, fresh, values)
            if failure is not None:
                desks.budget.settle(tx, fresh.body, gpu_hours=0.0, run_hours=0.0)
            fold_experiment(desks, tx, experiment.id)
        elif failure is None:
            late = ("git", "provenance_sha256", "annotations", "native_id")
            fresh = desks.runs.change(tx, fresh, {key: values[key] for key in late if key in values})
    if failure is not None:
        raise failure
    step("launch:noted")
    return fresh


def _came_through(desks: Desks, run: Document) -> Sighting | None:
    """The run as it is if its command was executed, whoever started it."""
    seen = scheduler_of(desks).poll(None, desks.runs.log_dir(run.id))
    executed = seen.state == "running" or (seen.state == "ended" and seen.reason != "exec_failed")
    return seen if executed else None


def fold_experiment(desks: Desks, tx: Transaction, experiment_id: str) -> None:
    """Derives the experiment anew from its runs."""
    experiment = tx.get("experiment", experiment_id)
    assert experiment is not None, experiment_id
    hypothesis = tx.get("hypothesis", experiment.body["hypothesis_id"] or "")
    decided = hypothesis is not None and hypothesis.body["status"] in ("supported", "refuted")
    desks.experiments.fold(tx, experiment_id, decided=decided)


def wanted_gpus(run: Document) -> list[int]:
    """The GPUs that were asked for by number when the run was made."""
    return [*run.body["wanted_gpus"]]


def scheduler_of(desks: Desks) -> Scheduler:
    """The chosen scheduler."""
    scheduler: Scheduler = desks.ctx.part("scheduler")
    return scheduler
