"""MLflow: runs in a database below the mirror's folder, or on the tracking server that a person has named.

A run is found again by its tag `perpetual.key`. Points that are logged twice are there once, so an interrupted push
goes on in the same run. MLflow changes neither parameters nor points: where those differ, the run there is replaced.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

from perpetual.api import ConfigError, Secret
from perpetual_mirrors.base import Mirror, MirroredRun, safe_name
from perpetual_mirrors.library import loaded

__all__ = ["Mlflow", "build"]

_KEY, _SERIES, _WHOLE = "perpetual.key", "perpetual.series", "perpetual.whole"
_STATUS = {"done": "FINISHED", "killed": "KILLED"}  # another end is FAILED
_NAME, _PLAIN = r"\w. /-", r"\w -"
_MOST, _MOST_PARAMETERS = 1000, 100  # of one call
_LONGEST_PARAMETER, _LONGEST_TAG = 500, 5000
_SERVER_WAIT_S, _SERVER_TRIES = "20", "1"
_PAGE = 1000


class Mlflow(Mirror):
    """Runs in an MLflow experiment that has the project's name."""

    def __init__(self, project: str | None, uri: Secret | None) -> None:
        self._project, self._uri = project, uri
        self._experiment: str | None = None
        self._client: Any = None

    def open(self, folder: Path) -> None:
        """Imports MLflow; a server is contacted by the first push."""
        address = None if self._uri is None else self._uri.reveal().strip()
        if address is not None and urlsplit(address).scheme not in ("http", "https"):
            raise ConfigError(
                "plugins.mlflow.uri leads to no http or https address",
                hint="without it the runs go into a database below .perpetual/mirrors/mlflow",
            )
        os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", _SERVER_WAIT_S)
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", _SERVER_TRIES)
        self._artifacts = None
        if address is None:
            loaded("sqlalchemy", "sqlalchemy alembic")
            os.close(os.open(folder / "mlflow.db", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            address, self._artifacts = f"sqlite:///{folder / 'mlflow.db'}", (folder / "artifacts").as_uri()
        self._client = loaded("mlflow.tracking", "mlflow-skinny").MlflowClient(address, registry_uri=address)

    def push(self, run: MirroredRun) -> None:
        """Writes parameters, metrics, tags and the end of a run."""
        from mlflow.entities import Metric, Param, RunTag

        client = self._client
        id = self._run(run)
        parameters = [Param(_name(key), str(value)[:_LONGEST_PARAMETER]) for key, value in run.parameters.items()]
        for start in range(0, len(parameters), _MOST_PARAMETERS):
            client.log_batch(id, params=parameters[start : start + _MOST_PARAMETERS])
        points = [
            Metric(_name(name), value, int(time_s * 1000), step)
            for name, curve in run.curves.items()
            for step, value, time_s in zip(curve.steps, curve.values, curve.times_s, strict=True)
        ]
        points += [Metric(_name(name), value, int(run.ended_s * 1000), 0) for name, value in run.finals().items()]
        for start in range(0, len(points), _MOST):
            client.log_batch(id, metrics=points[start : start + _MOST])
        tags = {
            "mlflow.runName": run.name, "mlflow.note.content": run.text or " ", "perpetual.tags": ", ".join(run.tags),
            **{f"perpetual.{name}": str(value) for name, value in run.facts.items()},
        }  # fmt: skip
        if "git_commit" in run.facts:
            tags["mlflow.source.git.commit"] = str(run.facts["git_commit"])
        client.log_batch(id, tags=[RunTag(_name(name), value[:_LONGEST_TAG] or " ") for name, value in tags.items()])
        client.set_terminated(id, _STATUS.get(run.status, "FAILED"), int(run.ended_s * 1000))
        client.set_tag(id, _WHOLE, "true")

    def _run(self, run: MirroredRun) -> str:
        """Returns the id of the run there that has the same numbers, made if there is none."""
        found = self._client.search_runs([self._place(run)], f"tags.`{_KEY}` = '{run.key}'")
        series = run.series_digest()
        same = None
        for each in found:
            if same is None and each.data.tags.get(_SERIES) == series:
                same = str(each.info.run_id)
            else:
                self._client.delete_run(each.info.run_id)
        if same is not None:
            return same
        tags = {_KEY: run.key, _SERIES: series, "perpetual.experiment": run.experiment}
        made = self._client.create_run(self._place(run), int(run.started_s * 1000), tags, run.name)
        return str(made.info.run_id)

    def _place(self, run: MirroredRun) -> str:
        """Returns the id of the experiment there, made if there is none."""
        if self._experiment is None:
            name = self._project or run.project
            found = self._client.get_experiment_by_name(name)
            self._experiment = str(
                self._client.create_experiment(name, artifact_location=self._artifacts)
                if found is None
                else found.experiment_id
            )
        return self._experiment

    def keys(self) -> Sequence[str]:
        """Returns the keys in the tags of runs that were pushed whole, of all experiments there."""
        keys: list[str] = []
        token = None
        experiments = [each.experiment_id for each in self._client.search_experiments()]
        while True:
            page = self._client.search_runs(
                experiments, f"tags.`{_WHOLE}` = 'true'", max_results=_PAGE, page_token=token
            )
            keys += [each.data.tags[_KEY] for each in page if _KEY in each.data.tags]
            token = page.token
            if not token:
                return keys


def _name(name: str) -> str:
    """Returns a name that MLflow takes, which may have to be the path of a file there."""
    name = safe_name(name, _NAME)
    return safe_name(name, _PLAIN) if normpath(name) != name or name[0] in "./" else name


def build(options: Mapping[str, object]) -> Mlflow:
    """Builds the mirror; `project` names the experiment there, `uri` the tracking server."""
    project, uri = options["project"], options["uri"]
    assert uri is None or isinstance(uri, Secret), "the kernel hands a secret over as one"
    return Mlflow(None if project is None else str(project), uri)
