"""Launch specification of a run: its words, folder and environment, and what its own folder holds from the start."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from perpetual.lab.context import Context
from perpetual.lab.engines.placing import variables
from perpetual.lab.engines.schedulers import options_of, scheduler_of
from perpetual.lab.experiments import approval_tokens
from perpetual.lab.kinds import RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.experiments import argv_of
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.provenance import isolation
from perpetual.lab.runs.environment import of_run
from perpetual.slots.scheduler import LaunchError, LaunchSpec, Scheduler
from perpetual.toolkit.atomic import dump_json, write_atomic
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.run_folder import ARTIFACTS, CHECKPOINTS, NEEDS, NONCE_VARIABLE

__all__ = ["prepare", "spec_of"]

_PYTHONS = ("python", "python3")


def spec_of(
    ctx: Context, experiment: ExperimentRow, *, run_id: str, gpus: Sequence[str], run: RunRow | None = None
) -> LaunchSpec:
    """Returns what the scheduler is given: words, folder, and the environment with the run's own variables.

    Raises:
        UnknownPlugin: if the scheduler is gone.
        LaunchError: if it takes other options than those of the experiment.
    """
    ctx, body = ctx, experiment.body
    scheduler, resources = scheduler_of(ctx, experiment), body["resources"]
    log_dir = RunRecords(ctx).log_dir(run_id)
    argv = argv_of(body["command"] or "")  # an empty command is refused by name
    inherited = _inherited(ctx, scheduler, run)
    path = inherited.get("PATH", os.defpath)
    if scheduler.inherits_env and argv[0] in _PYTHONS and shutil.which(argv[0], path=path) is None:
        argv = (sys.executable, *argv[1:])  # a machine that has Python only as the one that runs us
    environment = {**inherited, **{key: str(value) for key, value in body["env"].items()}}
    for name in approval_tokens.FOR_A_SERVER:
        environment.pop(name, None)
    environment |= {
        "PERPETUAL_RUN": run_id,
        "PERPETUAL_SEED": str(run.body["seed"]) if run else "0",
        "PERPETUAL_CONFIG": str(log_dir / "config.json"),
        "PERPETUAL_METRICS": str(log_dir / "metrics.jsonl"),
        "PERPETUAL_RUN_DIR": str(log_dir),
        "PERPETUAL_ARTIFACTS": str(log_dir / ARTIFACTS),
        "PERPETUAL_CHECKPOINT_DIR": str(_checkpoints(ctx, experiment, run, log_dir)),
        "PERPETUAL_PROJECT": str(ctx.config.root),
        "PYTHONUNBUFFERED": "1",
        **variables(ctx, experiment, gpus, run),
    }
    for name in (NONCE_VARIABLE, "PERPETUAL_NEEDS"):
        environment.pop(name, None)  # of the run that this process may be part of
    if resources.get("needs_artifacts"):
        environment["PERPETUAL_NEEDS"] = str(log_dir / NEEDS)
    nonce = run.body.get("nonce") if run else None
    if nonce is not None:
        environment[NONCE_VARIABLE] = nonce
    if run is not None and run.body.get("isolated") is not None:
        part = isolation.isolation_of(ctx, isolation.code_root(ctx, body))
        environment |= part.variables(argv, environment, isolation.run_root(ctx, run))
    root = isolation.code_root(ctx, body) if run is None else isolation.run_root(ctx, run)
    return LaunchSpec(
        run_id=run_id,
        argv=argv,
        cwd=(root / (body["cwd"] or ".")).resolve(),
        env=environment,
        log_dir=log_dir,
        wall_s=None if run and run.body.get("on_overrun") == "warn" else resources["wall_s"],
        grace_s=ctx.config.methodology["kill_grace_s"],
        no_output_s=resources.get("no_output_s"),
        gpus=resources["gpus"],
        gpu_memory_bytes=resources["gpu_memory_bytes"],
        cpus=resources["cpus"] or None,
        memory_bytes=resources.get("memory_bytes"),
        nodes=resources.get("nodes"),
        options=options_of(ctx, experiment),
        nonce=nonce,
        spec_hash=run.body["spec_hash"] if run and nonce is not None else None,
        moves_queue=ctx.config["queue_moves"],
    )


def _checkpoints(ctx: Context, experiment: ExperimentRow, run: RunRow | None, log_dir: Path) -> Path:
    """Returns the folder that all attempts of one replicate share: it lies in that of the first."""
    if run is None or run.body["attempt"] == 1:
        return log_dir / CHECKPOINTS
    replicate = run.body["replicate"]
    attempts = [
        each for each in ctx.store.find(RUN, experiment_id=experiment.id) if each.body["replicate"] == replicate
    ]
    first = min(attempts, key=lambda each: each.body["attempt"])
    return RunRecords(ctx).log_dir(first.id) / CHECKPOINTS


def _inherited(ctx: Context, scheduler: Scheduler, run: RunRow | None) -> dict[str, str]:
    """Returns what the scheduler lets a run have of its launcher's environment, without a run of this process's."""
    if not (scheduler.inherits_env or scheduler.passes_env):
        return {}
    found: Mapping[str, str] | str = os.environ if run is None else of_run(ctx, run)
    if isinstance(found, str):
        raise LaunchError(f"{run and run.id}: {found}")
    return {name: found[name] for name in (found if scheduler.inherits_env else scheduler.passes_env) if name in found}


def prepare(ctx: Context, spec: LaunchSpec, run: RunRow, experiment: ExperimentRow) -> None:
    """Makes the run's folder, with its configuration and the specification that it is started from."""
    make_folder(spec.log_dir)
    shown = ctx.redaction.shown_specification(experiment.body)
    kept = {key: shown[key] for key in ("id", "command", "cwd", "env", "config", "resources", "design")}
    document = {
        "run": run.id,
        "seed": run.body["seed"],
        "spec_hash": experiment.body["spec_hash"],
        "nonce": run.body.get("nonce"),
        "experiment": kept,
    }
    # First: by it the folder is this run's, whatever ends the launcher next.
    write_atomic(spec.log_dir / "spec.json", json.dumps(document, indent=1))
    make_folder(spec.env["PERPETUAL_ARTIFACTS"])
    make_folder(spec.env["PERPETUAL_CHECKPOINT_DIR"])
    write_atomic(spec.log_dir / "config.json", dump_json(experiment.body["config"]))
