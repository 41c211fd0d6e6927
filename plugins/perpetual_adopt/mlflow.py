"""MLflow's runs as items, whichever of its stores they were read from: the store's reader answers `Found` runs.

An MLflow experiment is a group of runs and no claim: it becomes a hypothesis that says whose question it is. Each run
becomes an experiment with its parameters as configuration, and one run. Runs that differ in the seed alone (same
parameters, source, commit, parent and tags) become replicates of one experiment.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from perpetual.api import UsageError
from perpetual.toolkit.import_records import EndStatus, ImportedExperiment, ImportedHypothesis, ImportedRun
from perpetual_adopt.reading import clean, line, moment_of_ms, seconds_between
from perpetual_adopt.source import MLFLOW, Item, Replicate, Skipped, Source, Wanted, decided_by

__all__ = ["STATUSES", "Artifact", "Found", "Group", "Mlflow"]

# By number in a file store, by name in a database.
STATUSES = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
_ENDED: dict[str, EndStatus] = {"FINISHED": "done", "FAILED": "failed", "KILLED": "killed"}
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_SEED = re.compile(r"(?:.*[./_-])?(?:seed|random_state)\Z", re.IGNORECASE)
_MOST = 1000  # parameters, metrics or tags of one run
_BEST = 3
_SETTING = ("mlflow.source.name", "mlflow.source.git.commit", "mlflow.project.entryPoint", "mlflow.parentRunId")


@dataclass(frozen=True, slots=True)
class Group:
    """An MLflow experiment."""

    id: str
    name: str
    created_ms: object
    is_deleted: bool
    description: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """The metrics' history of a run, read anew each time that it is gone through."""

    read: Callable[[], Iterator[Mapping[str, object]]]

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        return self.read()


class Artifact(TypedDict):
    """A file that a run has left, by its path below the folder of artifacts."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """An MLflow run as its store has it; values are text that may be anything."""

    id: str
    name: str
    status: str
    start_ms: object
    end_ms: object
    is_deleted: bool
    user: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # None: NaN or infinite
    sources: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    artifact_uri: str = ""
    artifacts: Sequence[Artifact] = ()
    series: Points | None = None
    annotations: tuple[Mapping[str, str], ...] = ()


class Mlflow(Source):
    """What both stores share; a reader gives `groups`, `runs` and `has_metric`."""

    kind = MLFLOW

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path, self.name = path, path.name
        self._wanted = wanted
        self._best: dict[str, _Measured] = {}
        self._seeds: dict[str, set[int]] = {}  # of the runs so far, by experiment
        self._direction = wanted.direction

    # --- what a store's reader gives ------------------------------------------------------------------------

    def groups(self) -> Iterator[Group | Skipped]:
        """Yields the experiments."""
        raise NotImplementedError

    def runs(self, group: Group) -> Iterator[Found | Skipped]:
        """Yields an experiment's runs, the earliest first."""
        raise NotImplementedError

    def has_metric(self, name: str) -> bool:
        """Returns whether any run has a metric of that name."""
        raise NotImplementedError

    # --- what stands on it ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Implements `Source`."""
        metric, self._direction = decided_by(self._wanted)
        if metric is not None and not self.has_metric(metric):
            raise UsageError(f"no run of {self.path} has a metric {metric!r}", hint="--metric takes its whole name")
        there = [group for group in self.groups() if isinstance(group, Group) and not group.is_deleted]
        known = {name for group in there for name in (group.name, group.id)}
        missing = [name for name in self._wanted.names if name not in known]
        if missing:
            shown = ", ".join(line(group.name, 60) for group in there[:10])
            raise UsageError(f"{self.path} has no experiment {missing[0]!r}", hint=f"it has {shown or 'none'}")

    def items(self) -> Iterator[Item]:
        """Implements `Source`."""
        self._best, self._seeds = {}, {}
        for group in self.groups():
            if isinstance(group, Skipped):
                yield group
                continue
            names = self._wanted.names
            if names and group.name not in names and group.id not in names:
                continue
            what = f"experiment {line(group.name, 100)}"
            if group.is_deleted:
                yield Skipped(what, "it was deleted there")
                continue
            yield from self._group(group, what)

    def best(self) -> list[Replicate]:
        """Returns the experiments of the best mean in the metric asked for, of those that `items` has passed."""
        sign = 1 if self._direction == "min" else -1
        ranked = sorted(self._best.values(), key=lambda found: sign * found.mean)[:_BEST]
        return [replace(found.first, value=found.mean) for found in ranked]

    def _group(self, group: Group, what: str) -> Iterator[Item]:
        key = f"experiment:{group.id}:{group.created_ms}"
        is_noted = False
        for run in self.runs(group):
            if isinstance(run, Skipped):
                yield run
                continue
            why = self._unusable(run)
            if why is not None:
                yield Skipped(f"run {line(run.name, 60)} ({line(run.id, 40)}) of {what}", why)
                continue
            if not is_noted:
                is_noted = True
                yield self._hypothesis(group, key)
            yield from self._try(run, key)

    def _hypothesis(self, group: Group, key: str) -> ImportedHypothesis:
        about = line(group.description, 400) or "what its runs were to find out"
        return ImportedHypothesis(
            key=key,
            statement=f"MLflow experiment {line(group.name, 200)}: {about}",
            metric=self._wanted.metric,
            direction=self._direction if self._wanted.metric else None,
            tags=(MLFLOW,),
            created_at=moment_of_ms(group.created_ms),
        )

    @staticmethod
    def _unusable(run: Found) -> str | None:
        if run.is_deleted:
            return "it was deleted there"
        if run.status in ("RUNNING", "SCHEDULED"):
            return f"it is {run.status} there; adopt again when it has ended"
        return None if run.status in _ENDED else f"its status {line(run.status, 40)!r} is none that MLflow writes"

    def _try(self, run: Found, group: str) -> Iterator[Item]:
        key = f"run:{run.id}"
        metric = self._wanted.metric
        seeded = _seed(run.params)
        experiment, is_new = self._experiment_of(run, group, seeded)
        left = {seeded[0]} if seeded else set()
        kept = [(name, value) for name, value in run.params.items() if name not in left]
        params = {clean(name, 250): clean(value) for name, value in kept[:_MOST]}
        cut = [name for name, value in run.params.items() if len(value) > len(clean(value))]
        title = line(run.name, 200) or line(run.id, 40)
        if cut:
            yield Skipped(f"the end of {len(cut)} parameters of {title} ({line(cut[0], 60)})", "they are too long")
        for what, there in (("parameters", run.params), ("metrics", run.metrics), ("tags", run.tags)):
            if len(there) > _MOST:
                yield Skipped(f"{len(there) - _MOST} {what} of {title}", f"only {_MOST} of a run are taken")
        if is_new:
            yield ImportedExperiment(
                key=experiment,
                hypothesis=group,
                title=title,
                config=params,
                notes=self._notes(run),
                tags=(MLFLOW,),
                metric=metric,
                direction=self._direction if metric else None,
                created_at=moment_of_ms(run.start_ms),
            )
        made = self._run(run, key, experiment, seeded)
        yield made
        value = made.metrics.get(metric) if metric and made.status == "done" else None
        if metric and value is not None:
            script = line(run.tags.get("mlflow.source.name", ""))
            command = shlex.join(["python", script]) if script.endswith(".py") else None
            first = Replicate(experiment, title, value, metric, self._direction or "", made.commit, False, command)
            self._best.setdefault(experiment, _Measured(first)).add(value)

    def _experiment_of(self, run: Found, group: str, seeded: tuple[str, int] | None) -> tuple[str, bool]:
        """Returns the key of the experiment that the run is a replicate of, and whether it is the first of it.

        A run whose seed is not known, or was used before with the same settings, is an experiment by itself: it is no
        further draw, or nothing says that it is.
        """
        own = f"run:{run.id}:e"
        if seeded is None:
            return own, True
        name, seed = seeded
        said = [*((tag, run.tags.get(tag, "")) for tag in _SETTING), *sorted(
            (tag, value) for tag, value in run.tags.items() if not tag.startswith("mlflow.")
        )]  # fmt: skip
        settings = repr((sorted((other, value) for other, value in run.params.items() if other != name), name, said))
        key = f"{group}:settings:{hashlib.sha256(settings.encode('utf-8', 'backslashreplace')).hexdigest()[:24]}:e"
        seeds = self._seeds.setdefault(key, set())
        if seed in seeds:
            return own, True
        seeds.add(seed)
        return key, len(seeds) == 1

    def _run(self, run: Found, key: str, experiment: str, seeded: tuple[str, int] | None) -> ImportedRun:
        started, ended = moment_of_ms(run.start_ms), moment_of_ms(run.end_ms)
        duration_s = seconds_between(started, ended)
        status = _ENDED[run.status]
        metrics = {clean(name, 250): value for name, value in [*run.metrics.items()][:_MOST]}
        tags = {clean(name, 250): clean(value) for name, value in [*run.tags.items()][:_MOST]}
        commit = run.tags.get("mlflow.source.git.commit", "").strip().lower()
        return ImportedRun(
            key=f"{key}:r",
            experiment=experiment,
            status=status,
            reason=None if status == "done" else f"MLflow says {run.status}",
            seed=seeded[1] if seeded else None,
            started_at=started,
            ended_at=ended,
            duration_s=duration_s,
            # How many GPUs it used is nowhere written: these are the hours of one machine.
            run_hours=None if duration_s is None else duration_s / 3600.0,
            metrics=metrics,
            sources={clean(name, 250): where for name, where in run.sources.items() if name in run.metrics},
            commit=commit if _COMMIT.match(commit) else None,
            series=run.series,
            annotations=run.annotations,
            origin={
                "path": str(self.path),
                "run_id": run.id,
                "user": line(run.user, 200),
                "seed_parameter": line(seeded[0], 250) if seeded else None,
                "tags": tags,
                "artifact_uri": line(run.artifact_uri, 1000),
                "artifacts": [*run.artifacts],
            },
        )

    @staticmethod
    def _notes(run: Found) -> str:
        parts = [clean(run.tags.get("mlflow.note.content", ""))]
        parent, source = run.tags.get("mlflow.parentRunId"), run.tags.get("mlflow.source.name")
        if parent:
            parts.append(f"Child of the run {line(parent, 40)}.")
        if source:
            parts.append(f"Source: {line(source)}.")
        return "\n\n".join(part for part in parts if part)


@dataclass(slots=True)
class _Measured:
    """The mean of an experiment's ended runs so far."""

    first: Replicate
    total: float = 0.0
    n: int = 0

    def add(self, value: float) -> None:
        """Takes in one more run."""
        self.total, self.n = self.total + value, self.n + 1

    @property
    def mean(self) -> float:
        """Returns the mean of the runs."""
        return self.total / self.n


def _seed(params: Mapping[str, str]) -> tuple[str, int] | None:
    """Returns the parameter that is the seed, and its value; one whose whole name is `seed` comes first."""
    for name, value in sorted(params.items(), key=lambda pair: pair[0].lower() != "seed"):
        if _SEED.match(name) and value.strip().isdecimal() and len(value) < 20:
            number = int(value)
            return (name, number) if number < 2**63 else None
    return None
