"""trackio: its local SQLite store, below the mirror's folder. No Space, no server, nothing of Hugging Face is asked.

A run is written in one transaction of trackio's. The key is the run's id there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perpetual.api import PerpetualError
from perpetual_mirrors.base import Mirror, MirroredRun
from perpetual_mirrors.library import loaded
from perpetual_mirrors.rows import Logged, rows_of

__all__ = ["Trackio", "build"]

_KEY = "perpetual_key"
_RESERVED = frozenset({"project", "run", "timestamp", "step", "time", "metrics"})


class Trackio(Mirror):
    """Runs in trackio's store, for `TRACKIO_DIR=FOLDER trackio show`."""

    def __init__(self, project: str | None) -> None:
        self._project = project
        self._runs: Any = None

    def open(self, folder: Path) -> None:
        """Imports trackio with its store in `folder`; what it has of the network is off."""
        for name in [name for name in os.environ if name.startswith("TRACKIO_")]:
            del os.environ[name]
        os.environ.update(TRACKIO_DIR=str(folder), HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
        loaded("trackio", "trackio")
        self._runs = loaded("trackio.sqlite_storage", "trackio").SQLiteStorage
        from trackio.utils import TRACKIO_DIR

        if Path(TRACKIO_DIR) != folder:
            raise PerpetualError(f"trackio was loaded before, and writes to {TRACKIO_DIR}")

    def push(self, run: MirroredRun) -> None:
        """Replaces the run in the store."""
        project = self._project or run.project
        rows = rows_of(run) or [Logged("step", 0, run.ended_s, {"perpetual/duration_s": run.ended_s - run.started_s})]
        series = run.series_digest()
        for record in self._runs.get_run_records(project):
            if record["id"] == run.key and not self._runs.delete_run(project, record["name"], run.key):
                raise PerpetualError(f"trackio did not remove the earlier {run.run}")
        facts = {f"perpetual_{name}": value for name, value in run.facts.items()}
        config = {
            **{_name(name): value for name, value in run.parameters.items()}, **facts, _KEY: run.key,
            "perpetual_tags": [*run.tags], "perpetual_text": run.text, "_Group": run.experiment,
            "_Created": datetime.fromtimestamp(run.started_s, UTC).isoformat(),
        }  # fmt: skip
        self._runs.bulk_log(
            project,
            run.name,
            [_values(row) for row in rows],
            steps=[row.step for row in rows],
            timestamps=[datetime.fromtimestamp(row.time_s, UTC).isoformat() for row in rows],
            config=config,
            log_ids=[f"{run.key}-{series}-{n}" for n in range(len(rows))],  # one that is there already is not repeated
            run_id=run.key,
        )

    def keys(self) -> Sequence[str]:
        """Returns the ids of the runs of all projects in the store."""
        runs = self._runs
        return [record["id"] for project in runs.get_projects() for record in runs.get_run_records(project)]


def _values(row: Logged) -> dict[str, float]:
    values = {_name(name): value for name, value in row.values.items()}
    return values if row.axis == "step" else {**values, _name(row.axis): row.step}


def _name(name: str) -> str:
    """Returns a name that trackio does not keep for itself."""
    return f"metric_{name}" if name in _RESERVED or name.startswith("_") else name


def build(options: Mapping[str, object]) -> Trackio:
    """Builds the mirror; `project` names the project there."""
    project = options["project"]
    return Trackio(None if project is None else str(project))
