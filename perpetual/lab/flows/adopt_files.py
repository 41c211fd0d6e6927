"""The files of adopted runs: laid ready outside any transaction, and put into their places once the records stand.

A run's folder appears in one step. Used by `adopt` alone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from perpetual.lab.flows import Desks
from perpetual.lab.flows.measure import read_all
from perpetual.slots.analyser import MetricReader, RunFolder
from perpetual.toolkit.adopted import AdoptedRun, Skipped
from perpetual.toolkit.atomic import dump_json, write_atomic
from perpetual.toolkit.confined import check_folder, make_folder
from perpetual.toolkit.units import posix_of

__all__ = ["Files"]


class Files:
    """The folder in which files lie ready; only one adoption uses it at a time."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks
        self._folder = desks.ctx.folder / "adopting"

    def clear(self) -> None:
        """Removes what an adoption that was cut off had laid ready."""
        if check_folder(self._folder):
            shutil.rmtree(self._folder, ignore_errors=True)

    def lay(self, item: AdoptedRun, id: str | None, number: int) -> Path | None:
        """Lays a run's files ready as folder `number`; None where it has none, or they are in their place.

        Args:
            id: the run's, if it was adopted before.
        """
        if not item.logs and item.series is None:
            return None
        if id is not None and self._desks.runs.log_dir(id).is_dir():
            return None
        folder = self._folder / str(number)
        make_folder(folder)
        write_atomic(folder / "adopted.json", dump_json(dict(item.origin)), durable=False)
        for name, path in item.logs.items():
            shutil.copyfile(path, folder / name)
        if item.series is not None:
            item.series(folder / "metrics.jsonl")
        return folder

    def place(self, id: str | None, folder: Path | None) -> None:
        """Gives a run its files; a folder that stands there already is its own."""
        if folder is None or id is None:
            return
        target = self._desks.runs.log_dir(id)
        make_folder(target.parent)
        if os.path.lexists(target):
            shutil.rmtree(folder)
        else:
            os.rename(folder, target)

    def measured(
        self, item: AdoptedRun, folder: Path, metric: str | None
    ) -> tuple[dict[str, float | None], dict[str, str], list[Skipped]]:
        """What the metric readers find in a run's own files, where, and what of it was left out.

        They never see the project's files, which belong to nobody's run.
        """
        readers: list[tuple[str, MetricReader]] = self._desks.ctx.parts("metric_reader")
        place = RunFolder(folder, folder, posix_of(item.started_at) if item.started_at else 0.0)
        found, told = read_all(readers, place, metric)
        return (
            {name: value.value for name, value in found.items()},
            {name: value.source for name, value in found.items()},
            [Skipped(f"metrics of {item.key}", remark["text"]) for remark in told],
        )
