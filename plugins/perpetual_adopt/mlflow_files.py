"""MLflow's file store, `mlruns/`: a folder an experiment, in it one a run, and a file a value.

Layout: MLflow's `FileStore` of the versions 1 to 3. A name with slashes is a path of folders. A line of a metric is
`<milliseconds> <value> [<step> ...]`; the last value is that of the greatest step, then of the latest time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from perpetual_adopt.mlflow import STATUSES, Artifact, Found, Group, Mlflow, Points
from perpetual_adopt.reading import Outside, finite_or_none, inside, line, settings, start_of
from perpetual_adopt.source import Skipped

__all__ = ["FileStore", "is_store"]

_META = "meta.yaml"
_TRASH = ".trash"
_OF_RUN = ("run_name", "status", "start_time", "end_time", "lifecycle_stage", "user_id", "artifact_uri")
_LARGEST_SERIES = 50 * 1024 * 1024
_MOST_ARTIFACTS = 100


def is_store(folder: Path) -> bool:
    """Returns whether the folder holds an experiment of a file store (a database's runs leave only artifacts there)."""
    if not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        return any((Path(entry.path) / _META).is_file() for entry in entries if not entry.name.startswith("."))


class FileStore(Mlflow):
    """The runs below `mlruns/`."""

    def has_metric(self, name: str) -> bool:
        """Implements `Mlflow`."""
        parts = Path(name).parts
        if not parts or ".." in parts or Path(name).is_absolute():
            return False
        for experiment in self._folders(self.path):
            if any((run / "metrics" / name).is_file() for run in self._folders(experiment)):
                return True
        return False

    def _folders(self, folder: Path) -> list[Path]:
        """Returns the folders in a folder by name, without links and hidden ones."""
        try:
            with os.scandir(folder) as entries:
                names = [item.name for item in entries if item.is_dir(follow_symlinks=False) and item.name[:1] != "."]
        except OSError:
            return []
        return [folder / name for name in sorted(names)]

    def groups(self) -> Iterator[Group | Skipped]:
        """Implements `Mlflow`."""
        with os.scandir(self.path) as entries:
            links = sorted(entry.name for entry in entries if entry.is_symlink())
        for name in links:
            yield Skipped(line(name, 100), "is a link")
        for folder in self._folders(self.path):
            if not (folder / _META).exists():
                continue  # models, and what else has no experiment's description
            try:
                meta = settings(inside(self.path, folder / _META))
            except Outside as problem:
                yield Skipped(f"{folder.name}/{_META}", str(problem))
                continue
            if meta is None:
                yield Skipped(f"{folder.name}/{_META}", "it cannot be read")
                continue
            about = self._texts(folder / "tags").get("mlflow.note.content", "")
            yield Group(
                id=folder.name,
                name=str(meta.get("name", folder.name)),
                created_ms=meta.get("creation_time"),
                is_deleted=meta.get("lifecycle_stage") == "deleted",
                description=about,
            )
        for folder in self._folders(self.path / _TRASH):
            meta = settings(folder / _META) or {}
            yield Skipped(f"experiment {line(meta.get('name', folder.name), 100)}", "it was deleted there")

    def runs(self, group: Group) -> Iterator[Found | Skipped]:
        """Implements `Mlflow`."""
        place = self.path / group.id
        ordered: list[tuple[float, str, Mapping[str, object]]] = []
        for folder in self._folders(place):
            if (folder / _META).exists():
                meta = self._meta(folder)
                if isinstance(meta, Skipped):
                    yield meta
                else:
                    ordered.append((finite_or_none(meta["start_time"]) or 0.0, folder.name, meta))
        for _, name, meta in sorted(ordered, key=lambda item: item[:2]):
            yield self._found(place / name, meta)

    def _meta(self, folder: Path) -> Mapping[str, object] | Skipped:
        what = f"{folder.parent.name}/{folder.name}/{_META}"
        try:
            meta = settings(inside(self.path, folder / _META))
        except Outside as problem:
            return Skipped(what, str(problem))
        if meta is None:
            return Skipped(what, "it cannot be read")
        return {key: meta.get(key) for key in _OF_RUN}  # all runs of an experiment are held to be put in order

    def _found(self, folder: Path, meta: Mapping[str, object]) -> Found:
        tags = self._texts(folder / "tags")
        metrics: dict[str, float | None] = {}
        size = 0
        for name, path in self._files(folder / "metrics"):
            size += path.stat().st_size
            metrics[name] = _last(path)
        where = f"{folder.parent.name}/{folder.name}/metrics"
        large = size > _LARGEST_SERIES
        kept = {"kind": "series", "text": f"the metrics' history is {size} bytes and stays where it is"}
        return Found(
            id=folder.name,
            name=tags.get("mlflow.runName") or str(meta["run_name"] or ""),
            status=_status(meta["status"]),
            start_ms=meta["start_time"],
            end_ms=meta["end_time"],
            is_deleted=meta["lifecycle_stage"] == "deleted",
            user=str(meta["user_id"] or ""),
            params=self._texts(folder / "params"),
            metrics=metrics,
            sources={name: f"{where}/{name}" for name in metrics},
            tags=tags,
            artifact_uri=str(meta["artifact_uri"] or ""),
            artifacts=listing(folder / "artifacts"),
            series=Points(partial(self._series, folder / "metrics")) if metrics and not large else None,
            annotations=({**kept, "source": str(folder / "metrics")},) if large else (),
        )

    def _files(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Yields the files below a folder by the names that their paths give; leaves out those of other stores."""
        for place, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                try:
                    path = inside(self.path, Path(place) / name)
                except Outside:
                    continue  # a link out of the store is not the store's; the run without it is
                yield os.path.relpath(os.path.join(place, name), folder), path

    def _texts(self, folder: Path) -> dict[str, str]:
        return {name: start_of(path) for name, path in self._files(folder)}

    def _series(self, folder: Path) -> Iterator[dict[str, object]]:
        """Yields every value of every metric."""
        for name, path in self._files(folder):
            for time_ms, text, step in _points(path):
                value = finite_or_none(text)
                yield {"step": step, "time": time_ms / 1000.0, name: text if value is None else value}


def _status(value: object) -> str:
    return STATUSES.get(value, str(value)) if isinstance(value, int) else str(value)


def listing(folder: Path) -> list[Artifact]:
    """Returns the files below a folder with their sizes, the first hundred; links are named and not followed."""
    found: list[Artifact] = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            found.append({"path": line(os.path.relpath(path, folder), 500), "bytes": os.lstat(path).st_size})
            if len(found) >= _MOST_ARTIFACTS:
                return found
    return found


def _points(path: Path) -> Iterator[tuple[float, str, int]]:
    """(milliseconds, value as text, step) of each line that is one; a torn last line is none."""
    with path.open("rb") as file:
        while raw := file.readline(64 * 1024):
            words = raw.decode("utf-8", "replace").split()
            if len(words) < 2:
                continue
            time_ms = finite_or_none(words[0])
            step = finite_or_none(words[2]) if len(words) > 2 else 0.0
            try:
                float(words[1])
            except ValueError:
                continue
            if time_ms is not None and step is not None:
                yield time_ms, words[1].lower(), int(step)


def _last(path: Path) -> float | None:
    """Returns the value of the greatest step; None if there is none, or it is not finite."""
    best: tuple[int, float] | None = None
    value: float | None = None
    for time_ms, text, step in _points(path):
        if best is None or (step, time_ms) >= best:
            best, value = (step, time_ms), finite_or_none(text)
    return value
