"""Weights & Biases: one offline folder for each run, as `wandb sync` uploads it. Nothing here contacts a server.

A run is written in a folder beside its place, and renamed into it when it is whole. Its name follows from the run, so a
repeated push replaces it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perpetual.api import PerpetualError
from perpetual.toolkit.atomic import fsync_dir
from perpetual_mirrors.base import Mirror, MirroredRun, safe_name
from perpetual_mirrors.library import loaded
from perpetual_mirrors.rows import rows_of

__all__ = ["Wandb", "build"]

_STAGE = ".new"
_LONGEST_TAG = 64
_ID = r"A-Za-z0-9_-"


class Wandb(Mirror):
    """Folders `FOLDER/wandb/offline-run-*`, for `wandb sync FOLDER/wandb/offline-run-*`."""

    def __init__(self, project: str | None) -> None:
        self._project = project
        self._wandb: Any = None

    def open(self, folder: Path) -> None:
        """Imports wandb, with no setting of this user's: it writes below `folder`, offline, with nothing sent home."""
        self._folder, self._stage = folder, folder / _STAGE
        shutil.rmtree(self._stage, ignore_errors=True)
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            del os.environ[name]
        places = dict.fromkeys(("WANDB_DIR", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"), str(self._stage))
        os.environ.update(places, WANDB_MODE="offline", WANDB_ERROR_REPORTING="false", WANDB_SILENT="true")
        self._wandb = loaded("wandb", "wandb")

    def push(self, run: MirroredRun) -> None:
        """Writes the run's offline folder."""
        shutil.rmtree(self._stage, ignore_errors=True)
        self._stage.mkdir(mode=0o700)
        self._write(run)
        (written,) = self._stage.glob("wandb/offline-run-*")
        if not any(written.glob("*.wandb")):
            raise PerpetualError("wandb has written no file of the run")
        for logs in ("logs", "tmp"):  # paths and names of this machine
            shutil.rmtree(written / logs, ignore_errors=True)
        home = self._folder / "wandb"
        home.mkdir(mode=0o700, exist_ok=True)
        begun = datetime.fromtimestamp(run.started_s, UTC)
        place = home / f"offline-run-{begun:%Y%m%d_%H%M%S}-{_id(run)}"
        for earlier in home.glob(f"offline-run-*-{_id(run)}"):
            shutil.rmtree(earlier)
        for path in written.rglob("*"):
            if path.is_file():
                _sync(path)
        os.replace(written, place)
        fsync_dir(home)

    def _write(self, run: MirroredRun) -> None:
        wandb = self._wandb
        settings = wandb.Settings(
            console="off", disable_code=True, disable_git=True, disable_job_creation=True, silent=True,
            x_disable_machine_info=True, x_disable_meta=True, x_disable_stats=True, x_save_requirements=False,
            x_start_time=run.started_s,
        )  # fmt: skip
        live = wandb.init(
            project=self._project or run.project, dir=str(self._stage), mode="offline", id=_id(run), name=run.name,
            group=run.experiment, tags=[tag[:_LONGEST_TAG] for tag in run.tags], notes=run.text or None,
            config={**run.parameters, "perpetual": {**run.facts, "key": run.key}}, settings=settings,
            reinit="create_new",
        )  # fmt: skip
        try:
            axes = {curve.axis for curve in run.curves.values()}
            for name, curve in run.curves.items():
                live.define_metric(_metric(name), step_metric=_metric(curve.axis))
            for row in rows_of(run):
                values = {_metric(name): value for name, value in (*row.values.items(), (row.axis, row.step))}
                live.log(values, step=row.step if len(axes) == 1 and row.step >= 0 else None)
            live.summary.update({_metric(name): value for name, value in run.metrics.items()})
            live.summary.update({"perpetual/status": run.status})
        finally:
            live.finish(exit_code=0 if run.status == "done" else 1)

    def keys(self) -> Sequence[str]:
        """Returns the keys, which the names of the folders end with."""
        names = [path.name for path in sorted((self._folder / "wandb").glob("offline-run-*-*-r*"))]
        return [name.split("-", 3)[3] for name in names]

    def close(self) -> None:
        """Ends wandb's own process."""
        if self._wandb is not None:
            self._wandb.teardown()
            shutil.rmtree(self._stage, ignore_errors=True)


def _id(run: MirroredRun) -> str:
    return safe_name(run.key, _ID, 100)


def _metric(name: str) -> str:
    """Returns a name that wandb does not keep for itself; with a star it would be many."""
    return safe_name(f"metric{name}" if name.startswith("_") or not name else name, "^*", 400)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def build(options: Mapping[str, object]) -> Wandb:
    """Builds the mirror; `project` names the project there."""
    project = options["project"]
    return Wandb(None if project is None else str(project))
