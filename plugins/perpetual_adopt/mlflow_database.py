"""MLflow's SQLite store, `mlflow.db`: the tables of its SQLAlchemy store, without the columns that came later.

NaN is written as 0 beside `is_nan`, infinity as the largest number that a double holds.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlparse

from perpetual_adopt.mlflow import Artifact, Found, Group, Mlflow, Points
from perpetual_adopt.mlflow_files import listing
from perpetual_adopt.reading import clean, database, has_tables, line
from perpetual_adopt.source import Skipped

__all__ = ["DatabaseStore", "is_database"]

_TABLES = ("experiments", "runs", "latest_metrics", "metrics", "params", "tags")
_LARGEST_SERIES = 1_000_000  # values


def is_database(path: Path) -> bool:
    """Returns whether the file is such a database."""
    return path.is_file() and has_tables(path, _TABLES)


class DatabaseStore(Mlflow):
    """The runs of a database; it is open while its items are read, and read in one state."""

    _connection: sqlite3.Connection

    def check(self) -> None:
        """Implements `Source`."""
        with database(self.path, check=True) as self._connection:
            super().check()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Implements `Source`."""
        with database(self.path) as self._connection:
            self._connection.execute("BEGIN")
            yield

    def has_metric(self, name: str) -> bool:
        """Implements `Mlflow`."""
        found = self._connection.execute("SELECT 1 FROM latest_metrics WHERE key = ? LIMIT 1", (name,))
        return found.fetchone() is not None

    def groups(self) -> Iterator[Group | Skipped]:
        """Implements `Mlflow`."""
        rows = self._connection.execute(
            "SELECT experiment_id, name, creation_time, lifecycle_stage FROM experiments ORDER BY experiment_id"
        )
        for id, name, created, stage in rows.fetchall():
            yield Group(str(id), str(name), created, stage == "deleted", self._description(id))

    def _description(self, id: object) -> str:
        try:
            found = self._connection.execute(
                "SELECT value FROM experiment_tags WHERE experiment_id = ? AND key = 'mlflow.note.content'", (id,)
            ).fetchone()
        except sqlite3.OperationalError:
            return ""  # a database of before experiments had tags
        return str(found[0] or "") if found else ""

    def runs(self, group: Group) -> Iterator[Found | Skipped]:
        """Implements `Mlflow`."""
        with closing(self._connection.cursor()) as rows:
            rows.execute(
                "SELECT run_uuid, name, status, start_time, end_time, lifecycle_stage, user_id, artifact_uri "
                "FROM runs WHERE experiment_id = ? ORDER BY start_time, run_uuid",
                (group.id,),
            )
            for id, name, status, start, end, stage, user, uri in rows:
                if stage == "deleted":
                    yield Found(id, str(name or ""), str(status), start, end, True)
                    continue
                yield self._found(str(id), str(name or ""), str(status), start, end, str(user or ""), str(uri or ""))

    def _found(self, id: str, name: str, status: str, start: object, end: object, user: str, uri: str) -> Found:
        metrics: dict[str, float | None] = {}
        for key, value, is_nan in self._connection.execute(
            "SELECT key, value, is_nan FROM latest_metrics WHERE run_uuid = ? ORDER BY key", (id,)
        ):
            metrics[str(key)] = _number(value, is_nan)
        ((points,),) = self._connection.execute("SELECT count(*) FROM metrics WHERE run_uuid = ?", (id,)).fetchall()
        large = points > _LARGEST_SERIES
        kept = {"kind": "series", "text": f"the metrics' history is {points} values and stays where it is"}
        tags = self._texts("tags", id)
        return Found(
            id=id,
            name=tags.get("mlflow.runName") or name,
            status=status,
            start_ms=start,
            end_ms=end,
            is_deleted=False,
            user=user,
            params=self._texts("params", id),
            metrics=metrics,
            sources={key: f"{self.path.name}:metrics/{id}/{key}" for key in metrics},
            tags=tags,
            artifact_uri=uri,
            artifacts=self._artifacts(uri),
            series=Points(partial(self._series, id)) if metrics and not large else None,
            annotations=({**kept, "source": str(self.path)},) if large else (),
        )

    def _texts(self, table: str, id: str) -> dict[str, str]:
        statement = f"SELECT key, value FROM {table} WHERE run_uuid = ? ORDER BY key"  # one of two words of ours
        return {str(key): clean(value or "", 40_000) for key, value in self._connection.execute(statement, (id,))}

    def _artifacts(self, uri: str) -> list[Artifact]:
        """Returns what lies at a run's place for artifacts, where that is below the database's folder."""
        try:
            location = urlparse(uri)
            if location.scheme not in ("", "file") or location.netloc:
                return []
            root, place = self.path.parent.resolve(), (self.path.parent / unquote(location.path)).resolve()
            return listing(place) if place.is_relative_to(root) and place.is_dir() else []
        except (OSError, ValueError):  # no address, or one that no file system can hold
            return []

    def _series(self, id: str) -> Iterator[dict[str, object]]:
        """Yields every value of every metric."""
        with closing(self._connection.cursor()) as rows:
            rows.execute(
                "SELECT key, CAST(value AS REAL), is_nan, CAST(timestamp AS REAL), CAST(step AS INTEGER) FROM metrics "
                "WHERE run_uuid = ? ORDER BY key, step, timestamp",
                (id,),
            )
            for key, value, is_nan, time_ms, step in rows:
                number = _number(value, is_nan)
                written = number if number is not None else "nan" if is_nan else str(math.copysign(math.inf, value))
                yield {"step": step, "time": time_ms / 1000.0, line(key, 250): written}


def _number(value: object, is_nan: object) -> float | None:
    """Returns the value; None for NaN and what stands for infinity."""
    if is_nan or not isinstance(value, (int, float)) or abs(value) >= sys.float_info.max:
        return None
    return float(value)
