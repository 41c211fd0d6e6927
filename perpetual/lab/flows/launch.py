"""Launching: from an approved experiment to a process that is running, its worst case reserved before it starts.

The order is the point: `launching` and the reservation are durable, then the process starts, then `running` is noted.
A launcher that dies in between leaves a `launching` run whose folder tells the next reconciliation what happened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from perpetual.errors import Conflict, NotPermitted, PerpetualError, Refused, UsageError
from perpetual.lab.experiments import argv_of
from perpetual.lab.flows import Desks
from perpetual.lab.rights import harness
from perpetual.lab.runs import seed_of
from perpetual.lab.states import ENDED
from perpetual.records import GitState, Run, from_json, to_json
from perpetual.slots.gpu import GpuBackend
from perpetual.slots.scheduler import LaunchError, LaunchSpec, Scheduler
from perpetual.slots.store import Document, Transaction
from perpetual.toolkit import platform
from perpetual.toolkit.atomic import dump_json, write_atomic

__all__ = ["advance_queue", "launch", "plan", "retry"]

_SHELL_PREFIXES = ("python", "python3")


def launch(
    desks: Desks,
    experiment_id: str,
    *,
    command: str | None = None,
    every: bool = False,
    seed: int | None = None,
    gpus: Sequence[int] = (),
) -> list[Run]:
    """Starts the next missing replicate of an approved experiment, or `every` one; what must wait is queued.

    Raises:
        NotPermitted: unless it is approved with the specification that it has.
        Conflict: if no replicate is missing, or `command` differs from the approved one.
        Refused: if the budget does not hold its worst case.
        LaunchError: if it can never start here; no run is made.
    """
    ctx = desks.ctx
    if seed is not None and not 0 <= seed < 2**63:
        raise UsageError(f"a seed is a whole number from 0 to 2^63 - 1, not {seed}")
    experiment = ctx.need("experiment", experiment_id)
    if command is not None:
        experiment = _with_command(desks, experiment, command)
    desks.experiments.check_launchable(experiment)
    spec = _spec(desks, experiment, run_id="check", gpus=())
    _scheduler(desks).check(spec)
    _check_devices(desks, experiment, gpus)
    made: list[Document] = []
    while True:
        with ctx.store.transaction() as tx:
            fresh = ctx.need("experiment", experiment.id)
            desks.experiments.check_launchable(fresh)
            missing = _missing(tx, fresh)
            if not missing:
                if made:
                    break
                raise _nothing_missing(fresh)
            try:
                made.append(_create(desks, tx, fresh, missing[0], 1, seed, len(gpus)))
            except Refused:
                if not made:
                    raise
                break  # what fits the budget is started, the rest stays missing
        if not every:
            break
    started = [_start(desks, run.id, gpus) for run in made]
    return [from_json(Run, run.body) for run in started]


def _nothing_missing(experiment: Document) -> Conflict:
    wanted = experiment.body["design"]["replicates"]
    return Conflict(
        f"{experiment.id} has all of its {wanted} replicates",
        hint=f"perpetual runs --experiment {experiment.id}; retry a failed one: perpetual retry RUN",
    )


def retry(desks: Desks, run_id: str) -> Run:
    """A new attempt of a run that ended without a result, with the same seed.

    Raises:
        Conflict: if it has not ended, has succeeded, or has been retried already.
    """
    ctx = desks.ctx
    old = ctx.need("run", run_id)
    experiment = ctx.need("experiment", old.body["experiment_id"])
    desks.experiments.check_launchable(experiment)
    _scheduler(desks).check(_spec(desks, experiment, run_id="check", gpus=()))
    with ctx.store.transaction() as tx:
        old = ctx.need("run", old.id)
        if old.body["status"] not in ENDED or old.body["status"] == "done":
            raise Conflict(f"{old.id} is {old.body['status']}; only a run that ended without a result is retried")
        others = [run for run in tx.find("run", experiment_id=experiment.id)
                  if run.body["replicate"] == old.body["replicate"]]  # fmt: skip
        if max(run.number for run in others) != old.number:
            raise Conflict(f"{old.id} has been retried already by {others[-1].id}")
        chosen = old.body["seed"] if old.body["chosen_seed"] else None
        made = _create(desks, tx, experiment, old.body["replicate"], old.body["attempt"] + 1, chosen, 0)
    return from_json(Run, _start(desks, made.id, ()).body)


def _with_command(desks: Desks, experiment: Document, command: str) -> Document:
    """The experiment with the command that a person typed, or a refusal."""
    approved = experiment.body["command"]
    if approved is not None:
        if argv_of(command) != argv_of(approved):
            raise Conflict(
                f"{experiment.id} was approved with another command: {approved}",
                hint=f"perpetual run {experiment.id} starts that one; propose a new experiment for the other",
                code="command_differs",
            )
        return experiment
    who = harness(os.environ)
    if who is not None or desks.ctx.actor.startswith("mcp:"):
        raise NotPermitted(
            f"{experiment.id} has no command, and only a person may give it one (this is {who or desks.ctx.actor})",
            hint="propose an experiment with --command, to be approved",
        )
    with desks.ctx.store.transaction() as tx:
        return desks.experiments.complete_spec(tx, desks.ctx.need("experiment", experiment.id), command)


def _missing(tx: Transaction, experiment: Document) -> list[int]:
    taken = {run.body["replicate"] for run in tx.find("run", experiment_id=experiment.id)}
    return [n for n in range(1, experiment.body["design"]["replicates"] + 1) if n not in taken]


def _create(
    desks: Desks,
    tx: Transaction,
    experiment: Document,
    replicate: int,
    attempt: int,
    seed: int | None,
    picked_gpus: int,
) -> Document:
    """A queued run, its worst case reserved: refused here, not later, where the budget does not hold it."""
    design, ctx = experiment.body["design"], desks.ctx
    group = design["baseline"] if design["paired"] and isinstance(design["baseline"], str) else experiment.id
    drawn = seed_of(ctx.config.project_id, group, replicate)
    run = desks.runs.create(
        tx,
        experiment,
        replicate=replicate,
        attempt=attempt,
        seed=drawn if seed is None else seed,
        chosen_seed=seed is not None,
        scheduler=ctx.config["scheduler"],
        status="queued",
        reason=None,
    )
    resources = experiment.body["resources"]
    hours, gpus = resources["wall_s"] / 3600.0, max(picked_gpus, resources["gpus"])
    desks.budget.reserve(tx, run.body, gpu_hours=hours * gpus, run_hours=hours * max(1, gpus))
    _fold(desks, tx, experiment.id)
    return run


def _fold(desks: Desks, tx: Transaction, experiment_id: str) -> None:
    experiment = tx.get("experiment", experiment_id)
    assert experiment is not None, experiment_id
    hypothesis = tx.get("hypothesis", experiment.body["hypothesis_id"] or "")
    decided = hypothesis is not None and hypothesis.body["status"] in ("supported", "refuted")
    desks.experiments.fold(tx, experiment_id, decided=decided)


def _start(desks: Desks, run_id: str, gpus: Sequence[int]) -> Document:
    """Starts a queued run if there is room for it; says for what it waits otherwise."""
    ctx = desks.ctx
    wanted = ctx.need("experiment", ctx.need("run", run_id).body["experiment_id"]).body["resources"]["gpus"]
    devices = _devices(desks) if wanted or gpus else []
    with ctx.store.transaction() as tx:
        run = ctx.need("run", run_id)
        if run.body["status"] != "queued":
            return run
        experiment = ctx.need("experiment", run.body["experiment_id"])
        assigned, waits_for = _room(desks, experiment, devices, gpus)
        if waits_for is not None:
            return desks.runs.change(tx, run, {"reason": waits_for})
        me = platform.identity_of(os.getpid())
        values = {
            "status": "launching",
            "reason": None,
            "gpus": assigned,
            "launcher": list(me) if me else None,
        }
        run = desks.runs.change(tx, run, values)
        _fold(desks, tx, experiment.id)
    return _spawn(desks, run, experiment)


def _spawn(desks: Desks, run: Document, experiment: Document) -> Document:
    """Starts the process of a `launching` run and notes what came of it."""
    ctx = desks.ctx
    git = _git_state(ctx.config.root)
    failure: PerpetualError | None = None
    values: dict[str, Any] = {"git": to_json(git)}
    try:
        spec = _spec(desks, experiment, run_id=run.id, gpus=run.body["gpus"], run=run)
        _prepare(spec, run, experiment)
        launched = _scheduler(desks).launch(spec)
        values |= {
            "status": "running",
            "native_id": launched.native_id,
            "pid": launched.pid,
            "started_at": launched.started_at,
        }
    except (PerpetualError, OSError) as problem:
        known = isinstance(problem, PerpetualError)
        failure = problem if known else LaunchError(f"{run.id} could not be started: {problem}")
        values |= {"status": "failed", "reason": failure.message, "ended_at": ctx.now(), "gpu_hours": 0.0,
                   "run_hours": 0.0, "duration_s": 0.0}  # fmt: skip
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.body["status"] == "launching":  # a reconciliation may have been quicker
            fresh = desks.runs.change(tx, fresh, values)
            if failure is not None:
                desks.budget.settle(tx, fresh.body, gpu_hours=0.0, run_hours=0.0)
            _fold(desks, tx, experiment.id)
    if failure is not None:
        raise failure
    return fresh


def _room(
    desks: Desks, experiment: Document, devices: Sequence[_Device], wanted: Sequence[int]
) -> tuple[list[str], str | None]:
    """The GPUs that the run gets, or what it waits for."""
    if desks.runs.queue_state() == "paused":
        return [], "the queue is paused (perpetual queue resume)"
    busy = [other for other in desks.runs.live() if other.body["status"] in ("launching", "running")]
    most = desks.ctx.config.methodology["max_concurrent_runs"]
    if len(busy) >= most:
        return [], f"{len(busy)} runs are live, and max_concurrent_runs is {most}"
    held = {uuid for other in busy for uuid in other.body["gpus"]}
    free = [device for device in devices if device.idle and device.uuid not in held]
    if wanted:
        chosen = [device for device in free if device.number in wanted]
        if len(chosen) < len(wanted):
            return [], f"GPU {', '.join(map(str, wanted))}: in use by another run or by a foreign process"
        return [device.uuid for device in chosen], None
    need = experiment.body["resources"]["gpus"]
    if len(free) < need:
        return [], f"needs {need} GPUs, {len(free)} of {len(devices)} are free"
    return [device.uuid for device in free[:need]], None


class _Device(NamedTuple):
    number: int  # as the driver counts
    uuid: str
    idle: bool  # healthy, and used by no process that is not ours


def _devices(desks: Desks) -> list[_Device]:
    """The GPUs that can be named."""
    backend: GpuBackend = desks.ctx.part("gpus")
    live = {run.body["pid"] for run in desks.runs.live()}
    return [
        _Device(
            gpu.index,
            gpu.uuid,
            gpu.healthy and gpu.error is None and all(process.pid in live for process in gpu.processes),
        )
        for gpu in backend.read().gpus
        if gpu.uuid is not None
    ]


def _check_devices(desks: Desks, experiment: Document, wanted: Sequence[int]) -> None:
    """Raises unless the machine could ever give the run its GPUs."""
    need = len(wanted) or experiment.body["resources"]["gpus"]
    if not need or _scheduler(desks).places_gpus:
        return
    backend: GpuBackend = desks.ctx.part("gpus")
    reading = backend.read()
    if need > len(reading.gpus):
        raise LaunchError(
            f"{experiment.id} needs {need} GPUs and this machine has {len(reading.gpus)}"
            + (f": {reading.reason}" if reading.reason else ""),
            hint="propose it with fewer --gpus, or choose another scheduler",
            code="does_not_fit",
        )
    for index in wanted:
        if index >= len(reading.gpus) or index < 0:
            raise UsageError(f"there is no GPU {index}", hint=f"0 to {len(reading.gpus) - 1}")


def _scheduler(desks: Desks) -> Scheduler:
    scheduler: Scheduler = desks.ctx.part("scheduler")
    return scheduler


def _spec(
    desks: Desks, experiment: Document, *, run_id: str, gpus: Sequence[str], run: Document | None = None
) -> LaunchSpec:
    """What the scheduler is given: words, folder, and the environment with the run's own variables."""
    ctx, body = desks.ctx, experiment.body
    log_dir = desks.runs.log_dir(run_id)
    argv = argv_of(body["command"])
    if argv[0] in _SHELL_PREFIXES and shutil.which(argv[0]) is None:
        argv = (sys.executable, *argv[1:])  # a machine that has Python only as the one that runs us
    environment = {**os.environ, **{key: str(value) for key, value in body["env"].items()}}
    environment |= {
        "PERPETUAL_RUN": run_id,
        "PERPETUAL_SEED": str(run.body["seed"]) if run else "0",
        "PERPETUAL_CONFIG": str(log_dir / "config.json"),
        "PERPETUAL_METRICS": str(log_dir / "metrics.jsonl"),
        "PERPETUAL_PROJECT": str(ctx.config.root),
        "PYTHONUNBUFFERED": "1",
        # A run sees the devices that it declared and that are leased to it, and no others.
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    return LaunchSpec(
        run_id=run_id,
        argv=argv,
        cwd=(ctx.config.root / (body["cwd"] or ".")).resolve(),
        env=environment,
        log_dir=log_dir,
        wall_s=body["resources"]["wall_s"],
        grace_s=ctx.config.methodology["kill_grace_s"],
        gpus=body["resources"]["gpus"],
        gpu_memory_bytes=body["resources"]["gpu_memory_bytes"],
    )


def _prepare(spec: LaunchSpec, run: Document, experiment: Document) -> None:
    """The run's folder with its configuration and the specification that it was started from."""
    spec.log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(spec.log_dir / "config.json", dump_json(experiment.body["config"]))
    kept = {key: experiment.body[key] for key in ("id", "command", "cwd", "env", "config", "resources", "design")}
    document = {
        "run": run.id,
        "seed": run.body["seed"],
        "spec_hash": experiment.body["spec_hash"],
        "experiment": kept,
    }
    write_atomic(spec.log_dir / "spec.json", json.dumps(document, indent=1))


def _git_state(root: Path) -> GitState:
    """Commit and dirtiness of the code around the project; unknown outside a repository or without git."""
    base = ["git", "-C", str(root), "-c", "core.fsmonitor=false", "--no-optional-locks"]
    try:
        commit = subprocess.run([*base, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False)
        if commit.returncode != 0:
            return GitState()
        changed = subprocess.run(
            [*base, "status", "--porcelain"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return GitState()
    return GitState(commit.stdout.strip(), bool(changed.stdout.strip()) if changed.returncode == 0 else None)


def plan(desks: Desks, experiment_id: str) -> dict[str, Any]:
    """What `launch` would do, without doing it."""
    experiment = desks.ctx.need("experiment", experiment_id)
    desks.experiments.check_launchable(experiment)
    spec = _spec(desks, experiment, run_id="check", gpus=())
    _scheduler(desks).check(spec)
    with desks.ctx.store.transaction() as tx:
        missing = _missing(tx, experiment)
    if not missing:
        raise _nothing_missing(experiment)
    return {"experiment_id": experiment.id, "replicate": missing[0], "argv": [*spec.argv], "cwd": str(spec.cwd),
            "wall_s": spec.wall_s}  # fmt: skip


def advance_queue(desks: Desks) -> list[Document]:
    """Starts queued runs for which there is room now, by priority, score and age; answers those that started."""
    queued = desks.ctx.store.find("run", status="queued")
    if not queued:
        return []
    experiments = {run.body["experiment_id"]: desks.ctx.need("experiment", run.body["experiment_id"]) for run in queued}

    def rank(run: Document) -> tuple[float, float, int]:
        body: Mapping[str, Any] = experiments[run.body["experiment_id"]].body
        return (-body["priority"], -(body["score"]["score"] or 0.0), run.number)

    started = []
    for run in sorted(queued, key=rank):
        try:
            document = _start(desks, run.id, ())
        except Refused:
            continue
        except PerpetualError:
            started.append(desks.ctx.need("run", run.id))  # it is recorded as failed with its reason
            continue
        if document.body["status"] != "queued":
            started.append(document)
    return started
