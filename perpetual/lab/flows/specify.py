"""What a scheduler is given: a run's words, folder and environment, and what its own folder holds from the start."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence

from perpetual.lab.experiments import argv_of
from perpetual.lab.flows import Desks
from perpetual.lab.flows.devices import variables
from perpetual.slots.scheduler import LaunchSpec
from perpetual.slots.store import Document
from perpetual.toolkit.atomic import dump_json, write_atomic
from perpetual.toolkit.redact import redact_value

__all__ = ["prepare", "spec_of"]

_PYTHONS = ("python", "python3")


def spec_of(
    desks: Desks, experiment: Document, *, run_id: str, gpus: Sequence[str], run: Document | None = None
) -> LaunchSpec:
    """What the scheduler is given: words, folder, and the environment with the run's own variables."""
    ctx, body = desks.ctx, experiment.body
    log_dir = desks.runs.log_dir(run_id)
    argv = argv_of(body["command"])
    if argv[0] in _PYTHONS and shutil.which(argv[0]) is None:
        argv = (sys.executable, *argv[1:])  # a machine that has Python only as the one that runs us
    environment = {**os.environ, **{key: str(value) for key, value in body["env"].items()}}
    environment |= {
        "PERPETUAL_RUN": run_id,
        "PERPETUAL_SEED": str(run.body["seed"]) if run else "0",
        "PERPETUAL_CONFIG": str(log_dir / "config.json"),
        "PERPETUAL_METRICS": str(log_dir / "metrics.jsonl"),
        "PERPETUAL_RUN_DIR": str(log_dir),
        "PERPETUAL_PROJECT": str(ctx.config.root),
        "PYTHONUNBUFFERED": "1",
        **variables(desks, gpus, run),
    }
    return LaunchSpec(
        run_id=run_id,
        argv=argv,
        cwd=(ctx.config.root / (body["cwd"] or ".")).resolve(),
        env=environment,
        log_dir=log_dir,
        wall_s=None if run and run.body.get("on_overrun") == "warn" else body["resources"]["wall_s"],
        grace_s=ctx.config.methodology["kill_grace_s"],
        no_output_s=body["resources"].get("no_output_s"),
        gpus=body["resources"]["gpus"],
        gpu_memory_bytes=body["resources"]["gpu_memory_bytes"],
    )


def prepare(spec: LaunchSpec, run: Document, experiment: Document) -> None:
    """The run's folder with its configuration and the specification that it was started from."""
    spec.log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(spec.log_dir / "config.json", dump_json(experiment.body["config"]))
    kept = {key: experiment.body[key] for key in ("id", "command", "cwd", "env", "config", "resources", "design")}
    kept["env"] = {name: redact_value(name, str(value)) for name, value in kept["env"].items()}
    document = {
        "run": run.id,
        "seed": run.body["seed"],
        "spec_hash": experiment.body["spec_hash"],
        "experiment": kept,
    }
    write_atomic(spec.log_dir / "spec.json", json.dumps(document, indent=1))
