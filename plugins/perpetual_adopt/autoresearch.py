"""The table that an autoresearch loop keeps: a row a try, `keep`, `discard` or `crash`, and a commit in the repository.

Its header decides: tab-separated (commas are understood), a column `commit`, one `status`, perhaps `description`, and
numbers; the first column of numbers is the metric unless an option says otherwise. The loop's rows are single runs
without a noise floor, so what it kept is shown and not believed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from perpetual.api import CorruptData, UsageError
from perpetual.toolkit.import_records import EndStatus, ImportedExperiment, ImportedHypothesis, ImportedRun
from perpetual_adopt.commits import Commit, Commits
from perpetual_adopt.reading import clean, finite_or_none, line
from perpetual_adopt.source import AUTORESEARCH, Item, Replicate, Skipped, Source, Wanted, direction_of

__all__ = ["Autoresearch", "is_table", "tables_in"]

_ENDED: dict[str, EndStatus] = {
    **dict.fromkeys(("crash", "crashed", "fail", "failed", "error", "oom"), "failed"),
    **dict.fromkeys(("timeout", "timed out"), "timeout"),
}
_KEPT = ("keep", "kept", "baseline", "advance", "improved")
_WORDS = ("commit", "status", "description")
_LARGEST_HEADER = 64 * 1024
_SHOWN_LOST = 5
_BEST = 3


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table by its columns, and where it stands."""

    cells: Mapping[str, str]
    number: int
    digest: str


def tables_in(folder: Path) -> list[Path]:
    """Returns the tables in a folder, not below it."""
    return [path for path in sorted(folder.glob("*.tsv")) if is_table(path)]


def is_table(path: Path) -> bool:
    """Returns whether the file's first line is such a table's header."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            first = file.readline(_LARGEST_HEADER).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    return {"commit", "status"} <= set(_names(first))


def _delimiter(header: str) -> str:
    return "\t" if "\t" in header else ","


def _names(header: str) -> list[str]:
    return [name.strip().lower() for name in header.strip().split(_delimiter(header))]


class Autoresearch(Source):
    """One or several such tables of a folder; each is one hypothesis."""

    kind = AUTORESEARCH

    def __init__(self, paths: Sequence[Path], wanted: Wanted) -> None:
        self.path = paths[0] if len(paths) == 1 else paths[0].parent
        self.name = ", ".join(path.name for path in paths)
        self._tables = [_Table(path, wanted) for path in paths]

    def check(self) -> None:
        """Implements `Source`."""
        for table in self._tables:
            table.check()

    def items(self) -> Iterator[Item]:
        """Implements `Source`."""
        for table in self._tables:
            yield from table.items()

    def best(self) -> list[Replicate]:
        """Returns the baseline, then the best kept rows, of the first table that has some."""
        return next((found for table in self._tables if (found := table.best())), [])


class _Table:
    """One table."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path, self._wanted = path, wanted
        self._best: list[Replicate] = []
        with path.open("rb") as file:
            header = file.readline(_LARGEST_HEADER).decode("utf-8-sig")
        self._columns, self._between = _names(header), _delimiter(header)
        self._metric, self._direction = "", ""
        self._key = ""

    # --- looking at all of it first -------------------------------------------------------------------------

    def check(self) -> None:
        """Reads the whole table once, so that an unreadable one is refused before anything is imported."""
        self._metric = self._chosen_metric()
        self._direction = self._wanted.direction or direction_of(self._metric) or ""
        if not self._direction:
            raise UsageError(
                f"{self.path.name}: nothing says whether more or less {self._metric} is better",
                hint="--direction max or --direction min; --metric chooses another column",
            )
        kept: list[Replicate] = []
        matched = 0
        for row in self._rows():
            if not self._key:
                self._key = row.digest[:16]
            matched += self._is_wanted(row)
            value = finite_or_none(row.cells.get(self._metric))
            if row.cells["status"].lower() in _KEPT and value is not None and self._is_wanted(row):
                kept = self._better(kept, row, value)
        if self._wanted.names and not matched:
            raise UsageError(
                f"{self.path.name} has no row of {', '.join(map(repr, self._wanted.names))}",
                hint="--experiment takes the commit of a row, or its description",
            )
        self._best = kept

    def best(self) -> list[Replicate]:
        """Returns the baseline (the first kept row) and the best kept ones."""
        return self._best

    def _better(self, kept: list[Replicate], row: _Row, value: float) -> list[Replicate]:
        cells, key = row.cells, self._row_key(row)
        title = line(cells.get("description") or f"row {row.number}", 80)
        found = Replicate(f"{key}:e", title, value, self._metric, self._direction, None, not kept, self._command())
        if not kept:
            return [found]
        sign = 1 if self._direction == "min" else -1
        rest = sorted([*kept[1:], found], key=lambda one: sign * one.value)
        # What is no better than the baseline is not worth a second look.
        return [kept[0], *[one for one in rest if sign * one.value < sign * kept[0].value][:_BEST]]

    def _command(self) -> str:
        """Returns how such a loop runs its one script."""
        is_packaged = (self.path.parent / "pyproject.toml").exists()
        return "uv run train.py" if is_packaged else "python train.py"

    def _chosen_metric(self) -> str:
        if self._wanted.metric is not None:
            name = self._wanted.metric.strip().lower()
            if name not in self._columns:
                columns = ", ".join(self._columns)
                raise UsageError(f"{self.path.name} has no column {name!r}", hint=f"its columns: {columns}")
            return name
        rest = [name for name in self._columns if name not in _WORDS]
        if not rest:
            raise UsageError(f"{self.path.name} has no column of numbers", hint="--metric NAME chooses one")
        return rest[0]

    # --- rows -----------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[_Row]:
        """Yields the rows, without the header; equal rows are numbered by how many came before."""
        seen: dict[bytes, int] = {}
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file, delimiter=self._between, quoting=csv.QUOTE_NONE)
                next(reader, None)
                for cells in reader:
                    if not any(cell.strip() for cell in cells):
                        continue
                    digest = sha256("\0".join(cells).encode()).digest()
                    count = seen[digest] = seen.get(digest, 0) + 1
                    named = dict(zip(self._columns, (cell.strip() for cell in cells), strict=False))
                    for name in ("commit", "status"):
                        named.setdefault(name, "")
                    yield _Row(named, reader.line_num, f"{digest.hex()}{count}")
        except (csv.Error, ValueError) as problem:
            raise CorruptData(
                f"{self.path} is no table that can be read: {problem}", hint="nothing is taken from a damaged one"
            ) from problem
        except OSError as problem:
            raise UsageError(f"{self.path} cannot be read: {problem.strerror or problem}") from problem

    def _row_key(self, row: _Row) -> str:
        """Returns a row's key, independent of the table's place: the table's first row, its own words, their count."""
        return f"{self._key}:{row.digest[:16]}:{row.digest[64:]}"

    def _is_wanted(self, row: _Row) -> bool:
        names = self._wanted.names
        commit, description = row.cells["commit"].lower(), row.cells.get("description", "")
        return not names or any(
            name == description or (len(name) >= 4 and commit and _same_commit(name.lower(), commit)) for name in names
        )

    def items(self) -> Iterator[Item]:
        """Yields the hypothesis, then each row as an experiment with its run."""
        if not self._key:
            yield Skipped(self.path.name, "it has no row yet")
            return
        lost: list[str] = []
        count = 0
        with Commits(self.path.parent) as commits:
            yield self._hypothesis(commits)
            for row in self._rows():
                if not self._is_wanted(row):
                    continue
                why = self._unusable(row)
                if why is not None:
                    yield Skipped(f"{self.path.name}:{row.number}", why)
                    continue
                commit = commits.find(row.cells["commit"]) if row.cells["commit"] else None
                if commit is None and row.cells["commit"]:
                    count += 1
                    if len(lost) < _SHOWN_LOST and row.cells["commit"] not in lost:
                        lost.append(row.cells["commit"])
                yield from self._try(row, commit)
            if count:
                why = commits.problem or "the repository has no such commit, or more than one"
                yield Skipped(f"the commits of {count} rows ({', '.join(line(name, 40) for name in lost)})", why)

    def _hypothesis(self, commits: Commits) -> ImportedHypothesis:
        branch = commits.branch()
        where = f"{self.path.name} of branch {branch}" if branch else self.path.name
        deed = "lowers" if self._direction == "min" else "raises"
        return ImportedHypothesis(
            key=self._key,
            statement=line(f"what the loop kept in {where} {deed} {self._metric}"),
            metric=self._metric,
            direction=self._direction,
            tags=(AUTORESEARCH,),
        )

    def _unusable(self, row: _Row) -> str | None:
        """Returns why a row says nothing, or None."""
        status = row.cells["status"].lower()
        if not status:
            return "it has no status"
        if status not in _ENDED and finite_or_none(row.cells.get(self._metric)) is None:
            return f"its {self._metric} is no finite number, and its status is {line(status, 40)!r}"
        return None

    def _try(self, row: _Row, commit: Commit | None) -> Iterator[Item]:
        cells, key = row.cells, self._row_key(row)
        status = _ENDED.get(cells["status"].lower(), "done")
        description = clean(cells.get("description", ""))
        numbers = {
            name: value
            for name, text in cells.items()
            if name not in _WORDS and (value := finite_or_none(text)) is not None
        }
        rest = {name: clean(text) for name, text in cells.items() if name not in (*_WORDS, *numbers)}
        decision = line(cells["status"].lower(), 40)
        known = {} if commit is None else commit._asdict()
        yield ImportedExperiment(
            key=f"{key}:e",
            hypothesis=self._key,
            title=line(description or f"{self.path.name}, line {row.number}", 200),
            config={"commit": commit.id if commit else line(cells["commit"], 80)},
            notes=f"{description}\n\nThe loop decided: {decision}, from one run and without a noise floor.".strip(),
            tags=(AUTORESEARCH, decision),
            metric=self._metric,
            direction=self._direction,
            created_at=commit.committed_at if commit else None,
        )
        yield ImportedRun(
            key=f"{key}:r",
            experiment=f"{key}:e",
            status=status,
            reason=f"the loop noted: {decision}" if status != "done" else None,
            # A crash is written down as 0.000000, which is no measurement.
            metrics=numbers if status == "done" else {},
            sources=dict.fromkeys(numbers, f"{self.path.name}:{row.number}") if status == "done" else {},
            commit=commit.id if commit else None,
            origin={"path": str(self.path), "line": row.number, "status": decision, "cells": rest, "commit": known},
        )


def _same_commit(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
