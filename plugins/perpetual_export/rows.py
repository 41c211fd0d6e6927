"""Rows of the tables that are exported: one record each, read page by page.

A row is `{column: value}`. `parameters`, `metrics`, `runs` and `effect` are tables by name, which a flat file spreads
over columns such as `param.lr` and `metric.val_loss`. What is not known is None, and so is a metric that is not a
finite number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import NotFound
from perpetual_report.parameters import parameters_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Run

__all__ = ["GROUPS", "KINDS", "Row", "columns_of", "flattened", "rows_of", "rows_of_runs"]

Row = Mapping[str, object]

GROUPS = {
    "parameters": "param",
    "metrics": "metric",
    "runs": "runs",
    "effect": "effect",
}  # a table of a row -> prefix of its columns
_KEPT = 512  # experiments in memory: runs of one follow each other


class _Origin(NamedTuple):
    """What a run's row says of its experiment."""

    hypothesis: str | None
    title: str | None
    command: str | None
    tags: tuple[str, ...]
    parameters: dict[str, object]


def rows_of(lab: Lab, what: str, tag: str | None = None) -> Iterator[Row]:
    """Yields the rows of `runs`, `experiments`, `hypotheses` or `evidence`; runs come newest first, others oldest.

    Args:
        tag: only what has it; a run has the tags of its experiment, and evidence has none.
    """
    for row in KINDS[what](lab):
        tags = row.get("tags")
        if tag is None or (isinstance(tags, list) and tag in tags):
            yield row


def columns_of(what: str) -> tuple[str, ...]:
    """Returns the columns that every table of its kind has, in order; tables by name are none."""
    known = (*_OF_A_RUN, *_OF_ITS_EXPERIMENT) if what == "runs" else tuple(_COLUMNS[what])
    return tuple(name for name in known if name not in GROUPS)


# Column -> the attribute of a record.
_OF_A_RUN = {
    "run": "id", "experiment": "experiment_id", "status": "status", "reason": "reason", "replicate": "replicate",
    "attempt": "attempt", "seed": "seed", "seed_by_hand": "chosen_seed", "tainted": "tainted",
    "shares_folder": "shares_folder", "git_commit": "git.commit", "git_dirty": "git.dirty", "started_at": "started_at",
    "ended_at": "ended_at", "duration_s": "duration_s", "run_hours": "run_hours", "gpu_hours": "gpu_hours",
    "gpus": "gpus", "host": "host", "scheduler": "scheduler", "exit_code": "exit_code", "signal": "signal",
}  # fmt: skip
_OF_ITS_EXPERIMENT = ("hypothesis", "title", "command", "tags", "parameters")
_COLUMNS: dict[str, dict[str, str]] = {
    "experiments": {
        "experiment": "id", "hypothesis": "hypothesis_id", "title": "title", "status": "status", "command": "command",
        "cwd": "cwd", "tags": "tags", "notes": "notes", "metric": "design.metric", "direction": "design.direction",
        "claim": "design.claim", "mde": "design.mde", "baseline": "design.baseline", "replicates": "design.replicates",
        "wall_s": "resources.wall_s", "gpus": "resources.gpus", "proposed_by": "proposed_by",
        "approved_by": "approved_by", "created_at": "created_at", "spec_hash": "spec_hash", "runs": "runs",
    },
    "hypotheses": {
        "hypothesis": "id", "statement": "statement", "status": "status", "sentence": "sentence",
        "confidence": "confidence", "prior": "prior", "false_alarm_bound": "false_alarm_bound",
        "decided_by": "decided_by", "metric": "prediction.metric", "direction": "prediction.direction",
        "mde": "prediction.mde", "baseline": "prediction.baseline", "effect": "effect",
        "evidence_count": "evidence_count", "counting": "counting", "flags": "flags", "tags": "tags",
        "created_by": "created_by", "created_at": "created_at",
    },
    "evidence": {
        "evidence": "id", "hypothesis": "hypothesis_id", "experiment": "experiment_id", "run": "run_id", "kind": "kind",
        "metric": "metric", "value": "value", "verdict": "verdict", "strength": "strength",
        "log_bayes_factor": "log_bayes_factor", "weight": "weight", "replicate": "replicate", "seed": "seed",
        "source": "source", "actor": "actor", "reason": "reason", "retracted_by": "retracted_by",
        "created_at": "created_at",
    },
}  # fmt: skip
_EFFECT = ("value", "low", "high", "n", "n_baseline", "metric")


def _row(record: object, columns: Mapping[str, str]) -> dict[str, object]:
    found = {name: attrgetter(attribute)(record) for name, attribute in columns.items()}
    return {name: [*value] if isinstance(value, tuple) else value for name, value in found.items()}


def _runs(lab: Lab) -> Iterator[Row]:
    @lru_cache(_KEPT)
    def origin(id: str) -> _Origin:
        try:
            return _origin(lab.experiments.get(id))
        except NotFound:  # of a damaged record
            return _origin(None)

    for run in lab.runs.all():
        yield _run(run, origin(run.experiment_id))


def rows_of_runs(runs: Iterable[Run], experiments: Iterable[Experiment]) -> Iterator[Row]:
    """Yields the rows of these runs, which belong to these experiments."""
    origins = {item.id: _origin(item) for item in experiments}
    for run in runs:
        yield _run(run, origins.get(run.experiment_id) or _origin(None))


def _origin(found: Experiment | None) -> _Origin:
    if found is None:
        return _Origin(None, None, None, (), {})
    return _Origin(found.hypothesis_id, found.title, found.command, found.tags, parameters_of(found))


def _run(run: Run, of: _Origin) -> Row:
    about = {name: [*value] if isinstance(value, tuple) else value for name, value in of._asdict().items()}
    return {**_row(run, _OF_A_RUN), **about, "metrics": run.metrics}


def _experiments(lab: Lab) -> Iterator[Row]:
    yield from map(_experiment, lab.experiments.all())


def _experiment(found: Experiment) -> Row:
    return {**_row(found, _COLUMNS["experiments"]), "parameters": parameters_of(found)}


def _hypotheses(lab: Lab) -> Iterator[Row]:
    for found in lab.hypotheses.all():
        effect = found.effect or {}
        row = _row(found, _COLUMNS["hypotheses"])
        yield {**row, "effect": {name: effect.get(name) for name in _EFFECT}}


def _evidence(lab: Lab) -> Iterator[Row]:
    for found in lab.evidence.all():
        yield _row(found, _COLUMNS["evidence"])


KINDS: dict[str, Callable[[Lab], Iterator[Row]]] = {
    "runs": _runs,
    "experiments": _experiments,
    "hypotheses": _hypotheses,
    "evidence": _evidence,
}


def flattened(row: Row) -> dict[str, object]:
    """Returns a row as columns: its tables by prefix, lists of texts joined by `, `."""
    found: dict[str, object] = {}
    for name, value in row.items():
        if name in GROUPS and isinstance(value, Mapping):
            found |= {f"{GROUPS[name]}.{key}": item for key, item in value.items()}
        else:
            found[name] = ", ".join(map(str, value)) if isinstance(value, list) else value
    return found
