"""The files of imported runs: prepared outside any transaction, and moved into place after the records are written.

A run's folder appears in one step. Used by `imports` alone.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from perpetual.errors import UsageError
from perpetual.lab.context import Context
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.runs.measure import read_all
from perpetual.slots.analyser import MetricReader, RunFolder
from perpetual.toolkit.atomic import dump_json, write_atomic
from perpetual.toolkit.confined import Confined, check_folder, make_folder
from perpetual.toolkit.import_records import ImportedRun
from perpetual.toolkit.units import posix_of

__all__ = ["Files"]

_LARGEST_FILE = 16 * 1024 * 1024  # bytes
_LARGEST_SERIES = 512 * 1024 * 1024
_BLOCK = 4_000  # bytes of a series searched for secrets at once: fewer encoded texts than the redactor looks at


class Files:
    """The folder in which files lie ready; only one import uses it at a time."""

    def __init__(self, ctx: Context, source: Path | None) -> None:
        self._ctx, self._source = ctx, source
        self._folder, self._redactor = ctx.folder / "adopting", ctx.redactor

    def _refusal(self, item: ImportedRun, name: str, why: str) -> UsageError:
        what = name if name == "series" else f"the file {name}"
        hint = "leave it out, and name where it lies among the annotations"
        return UsageError(self._redactor.text(f"{item.key}: {what}: {why}"), hint=hint, code="bad_import")

    def clear(self) -> None:
        """Removes the files that an interrupted import left."""
        if check_folder(self._folder):
            shutil.rmtree(self._folder, ignore_errors=True)

    def check(self, item: ImportedRun) -> None:
        """Raises UsageError for a file that cannot be taken; nothing is written."""
        for name in item.logs:
            os.close(self._open(item, name))

    def lay(self, item: ImportedRun, id: str | None, number: int) -> Path | None:
        """Lays a run's files ready as folder `number`; None where it has none, or they are in their place.

        Args:
            id: the run's, if it was imported before.
        """
        if not item.logs and item.series is None:
            return None
        if id is not None and RunRecords(self._ctx).log_dir(id).is_dir():
            return None
        folder = self._folder / str(number)
        make_folder(folder)
        write_atomic(folder / "adopted.json", dump_json(self._redactor.value(dict(item.origin))), durable=False)
        for name in item.logs:
            write_atomic(folder / name, self._redactor.content(self._content(item, name)), durable=False)
        if item.series is not None:
            self._write_series(item, item.series, folder / "metrics.jsonl")
        return folder

    def _open(self, item: ImportedRun, name: str) -> int:
        """Returns a descriptor of a regular file of the source, which no link below the batch's folder leads to."""
        if self._source is None:
            raise self._refusal(item, name, "a batch with files says in which folder they lie")
        try:
            root = self._source.resolve(strict=True)
            path = item.logs[name].absolute()
            inside = path.relative_to(root if path.is_relative_to(root) else self._source.absolute())
            descriptor = Confined(root, any_owner=True).open(inside)
        except ValueError as problem:
            raise self._refusal(item, name, "it lies outside the batch's folder") from problem
        except OSError as problem:
            raise self._refusal(item, name, problem.strerror or str(problem)) from problem
        if os.fstat(descriptor).st_size > _LARGEST_FILE:
            os.close(descriptor)
            raise self._refusal(item, name, f"it holds more than {_LARGEST_FILE} bytes")
        return descriptor

    def _content(self, item: ImportedRun, name: str) -> bytes:
        with open(self._open(item, name), "rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:  # it grew meanwhile
            raise self._refusal(item, name, f"it holds more than {_LARGEST_FILE} bytes")
        return content

    def _write_series(self, item: ImportedRun, series: Iterable[Mapping[str, object]], target: Path) -> None:
        size, block = 0, list[bytes]()
        held = 0  # bytes of the block
        with target.open("wb") as out:
            for number, point in enumerate(series, 1):
                if not isinstance(point, Mapping):
                    raise self._refusal(item, "series", f"point {number} is no mapping")
                try:
                    line = json.dumps(dict(point), ensure_ascii=False, allow_nan=False).encode() + b"\n"
                except (TypeError, ValueError, RecursionError) as problem:
                    raise self._refusal(item, "series", f"point {number} is no JSON object: {problem}") from problem
                size += len(line)
                if size > _LARGEST_SERIES:
                    raise self._refusal(item, "series", f"it holds more than {_LARGEST_SERIES} bytes")
                if held + len(line) > _BLOCK:
                    out.write(self._shown(block))
                    block, held = [], 0
                block.append(line)
                held += len(line)
            out.write(self._shown(block))

    def _shown(self, lines: list[bytes]) -> bytes:
        """Returns lines without their secrets. A search costs about as much for one line as for a hundred."""
        text = b"".join(lines)
        return text if self._redactor.content(text) == text else b"".join(map(self._redactor.content, lines))

    def place(self, id: str | None, folder: Path | None) -> None:
        """Gives a run its files; a folder that is there already is its own."""
        if folder is None or id is None:
            return
        target = RunRecords(self._ctx).log_dir(id)
        make_folder(target.parent)
        if os.path.lexists(target):
            shutil.rmtree(folder)
        else:
            os.rename(folder, target)

    def measured(
        self, item: ImportedRun, folder: Path, metric: str | None
    ) -> tuple[dict[str, float | None], dict[str, str], list[str]]:
        """Returns what the metric readers find in a run's own files, where, and what of it was left out.

        They never see the project's own files.
        """
        readers: list[tuple[str, MetricReader]] = self._ctx.parts("metric_reader")
        place = RunFolder(folder, folder, posix_of(item.started_at) if item.started_at else 0.0)
        found, remarks = read_all(readers, place, metric)
        return (
            {name: value.value for name, value in found.items()},
            {name: value.source for name, value in found.items()},
            [remark["text"] for remark in remarks],
        )
