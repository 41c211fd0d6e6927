"""A callback for Hydra: each job is an ad-hoc run with its configuration, in a sweep as well.

    # config.yaml
    hydra:
      callbacks:
        perpetual:
          _target_: perpetual_export.for_hydra.JobRecorder

Inside a launched run nothing is begun: the composed configuration is written to the run's folder as `hydra.json`.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Protocol

from perpetual_export.adhoc import AdHocRun, init

__all__ = ["JobRecorder", "JobReturn"]


class JobReturn(Protocol):
    """What is read of a job that has ended."""

    status: object
    _return_value: object


class JobRecorder:
    """Begins a run when a job starts and ends it with the job. Whatever goes wrong with that, the job goes on."""

    def __init__(self, title: str | None = None, project: str | None = None) -> None:
        self._title, self._project = title, project
        self._run: AdHocRun | None = None

    def on_job_start(self, config: object, **_: object) -> None:
        """Begins a run with the job's composed configuration, without Hydra's own."""
        settings, job = _composed(config)
        folder = os.environ.get("PERPETUAL_RUN_DIR")
        if os.environ.get("PERPETUAL_RUN") and folder:
            try:
                (Path(folder) / "hydra.json").write_text(json.dumps(settings, default=str), "utf-8")
            except (OSError, ValueError):
                return  # a training is worth more than a copy of its configuration
            return
        self._run = init(self._title or job, config=settings, tags=("hydra",), project=self._project)

    def on_job_end(self, config: object, job_return: JobReturn, **_: object) -> None:
        """Ends the run; a job that raised has failed."""
        run, self._run = self._run, None
        if run is None:
            return
        failed = None
        if getattr(job_return.status, "name", "") == "FAILED":
            error = job_return._return_value
            failed = f"{type(error).__name__}: {error}"[:1000]
        run.finish(failed=failed)


def _composed(config: object) -> tuple[object, str | None]:
    """Returns a job's configuration without Hydra's node, and the job's name."""
    omegaconf = import_module("omegaconf").OmegaConf
    container = omegaconf.to_container(config, resolve=False)
    if not isinstance(container, dict):
        return {}, None
    name = omegaconf.select(config, "hydra.job.name")
    plain = omegaconf.create({key: value for key, value in container.items() if key != "hydra"})
    try:
        settings = omegaconf.to_container(plain, resolve=True)
    except Exception:  # noqa: BLE001 - an interpolation into what is not there: as it was written, then
        settings = omegaconf.to_container(plain, resolve=False)
    return settings, name if isinstance(name, str) else None
