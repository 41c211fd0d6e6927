"""What a report says: every number entered in a `Book`, laid out for the templates. A function of a `Snapshot` alone.

Imported by the modules beside it. Lists are bounded; what is left out is counted and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from perpetual.api import Evidence, Experiment, Hypothesis, Run
from perpetual.science.discoveries import discoveries
from perpetual_report.book import Book, Number
from perpetual_report.effects import Effect, effects_of
from perpetual_report.snapshot import ENDED, Snapshot, number_of

__all__ = ["LIMITS", "facts_of"]

ALPHA = 0.05  # where the methodology declares none
LIMITS = {
    "hypotheses": 100,
    "pictured": 12,
    "designs": 40,
    "rows": 60,
    "steps": 40,
    "runs": 1000,
    "list": 100,
    "metrics": 6,
}
_FAILED = ("failed", "killed", "timeout", "lost")


def facts_of(snapshot: Snapshot, book: Book) -> dict[str, Any]:
    """The tree that the templates walk; its numbers are those of the book."""
    runs = _Runs(snapshot, book)
    effects = effects_of(snapshot)
    detailed = snapshot.hypotheses[: LIMITS["hypotheses"]]
    shown = snapshot.runs[-LIMITS["runs"] :]
    return {
        "project": snapshot.project,
        "time": snapshot.time,
        "seq": book.count("record.seq", snapshot.seq, f"record{snapshot.at}"),
        "thresholds": _thresholds(snapshot, book),
        "counts": _counts(snapshot, book),
        "budget": _budget(snapshot, book),
        "verdicts": [_verdict(snapshot, book, runs, item) for item in snapshot.hypotheses],
        "hypotheses": [_hypothesis(snapshot, book, runs, effects, item) for item in detailed],
        "not_pictured": _left(book, "not_pictured", snapshot, len(detailed) - LIMITS["pictured"]),
        "hypotheses_left": _left(book, "hypotheses", snapshot, len(snapshot.hypotheses) - len(detailed)),
        "baselines": [
            {"record": item, "runs": runs.by_status(item.id)}
            for item in snapshot.experiments
            if item.design.claim is None
        ],
        "discoveries": _discoveries(snapshot, book),
        "refuted": [item for item in snapshot.hypotheses if item.status == "refuted"],
        "failed": _bounded(book, "failed", snapshot, [run for run in snapshot.runs if run.status in _FAILED]),
        "no_metric": _bounded(book, "no_metric", snapshot, [run for run in snapshot.runs if _lacks_metric(run)]),
        "retractions": _bounded(
            book, "retractions", snapshot, [row for row in snapshot.evidence if row.kind == "retraction"]
        ),
        "noted": _bounded(
            book, "noted", snapshot, [run for run in snapshot.runs if run.tainted or run.annotations or run.chosen_seed]
        ),
        "runs": [runs.row(run) for run in shown],
        "runs_left": _left(book, "runs", snapshot, len(snapshot.runs) - len(shown)),
        "titles": {item.id: item.title for item in snapshot.experiments},
        "notes": snapshot.notes[: LIMITS["list"]],
        "notes_left": max(0, len(snapshot.notes) - LIMITS["list"]) or None,
        "anchors": {run.id for run in shown},
    }


def _left(book: Book, what: str, snapshot: Snapshot, count: int) -> Number | None:
    """How many were left out of a list, if any."""
    return book.count(f"left.{what}", count, f"record{snapshot.at}") if count > 0 else None


def _bounded(book: Book, what: str, snapshot: Snapshot, items: Sequence[Any]) -> dict[str, Any]:
    """The newest of a list, and how many older ones are left out."""
    kept = items[-LIMITS["list"] :]
    return {"items": kept, "left": _left(book, what, snapshot, len(items) - len(kept))}


def _lacks_metric(run: Run) -> bool:
    return run.status == "done" and (run.reason or "").startswith("no_metric")


def _thresholds(snapshot: Snapshot, book: Book) -> dict[str, Number | None]:
    source = f"methodology{snapshot.at}"
    keys = {
        "support": "confidence_support_threshold",
        "refute": "confidence_refute_threshold",
        "alpha": "alpha",
        "replicates": "min_replicates",
    }
    return {
        name: book.number(f"methodology.{key}", snapshot.methodology[key], source, form="g")
        for name, key in keys.items()
    }


def _counts(snapshot: Snapshot, book: Book) -> dict[str, Any]:
    """How much there is of everything; by status in the order in which statuses follow one another."""
    source = f"record{snapshot.at}"
    totals = {
        "hypotheses": len(snapshot.hypotheses),
        "experiments": len(snapshot.experiments),
        "runs": len(snapshot.runs),
        "evidence": len(snapshot.evidence),
        "debits": len(snapshot.debits),
    }
    by_status = {
        "hypotheses": (
            Counter(item.status for item in snapshot.hypotheses),
            ("supported", "refuted", "open", "parked"),
        ),
        "runs": (Counter(run.status for run in snapshot.runs), ("queued", "launching", "running", *ENDED)),
    }
    made: dict[str, Any] = {name: book.count(f"count.{name}", value, source) for name, value in totals.items()}
    for name, (counter, order) in by_status.items():
        made[f"{name}_by_status"] = {
            status: book.count(f"count.{name}.{status}", counter[status], source) for status in order if counter[status]
        }
    return made


def _budget(snapshot: Snapshot, book: Book) -> dict[str, Any]:
    """The budget's totals as `perpetual budget` has them, and what each hypothesis has cost."""
    spent = used = 0.0
    reserved: dict[str, float] = {}
    by: dict[str, list[float]] = {}
    for row in snapshot.debits:
        if row.kind == "reserve":
            reserved[row.run_id] = reserved.get(row.run_id, 0.0) + row.gpu_hours
            continue
        reserved.pop(row.run_id, None)
        spent += row.gpu_hours
        used += row.run_hours
        line = by.setdefault(row.hypothesis_id or "", [0.0, 0.0, 0])
        line[0], line[1], line[2] = line[0] + row.gpu_hours, line[1] + row.run_hours, line[2] + 1
    limit = snapshot.limits[-1][1] if snapshot.limits else None
    held = sum(reserved.values())
    source = f"budget{snapshot.at}"
    return {
        "limit": book.number("budget.limit_gpu_hours", limit, source, form="g"),
        "spent": book.number("budget.spent_gpu_hours", spent, source),
        "reserved": book.number("budget.reserved_gpu_hours", held, source),
        "left": book.number(
            "budget.left_gpu_hours", None if limit is None else max(0.0, limit - spent - held), source
        ),
        "run_hours": book.hours("budget.run_hours", used, source),
        "by": [
            {
                "id": id,
                "gpu_hours": book.number(f"budget.{id or 'none'}.gpu_hours", gpu_hours, source),
                "run_hours": book.hours(f"budget.{id or 'none'}.run_hours", run_hours, source),
                "runs": book.count(f"budget.{id or 'none'}.runs", int(runs), source),
            }
            for id, (gpu_hours, run_hours, runs) in sorted(by.items(), key=lambda item: number_of(item[0] or "h0"))
        ],
    }  # fmt: skip


class _Runs:
    """The runs, by experiment and as rows of the table."""

    def __init__(self, snapshot: Snapshot, book: Book) -> None:
        self._snapshot, self._book = snapshot, book
        self.by_id = {run.id: run for run in snapshot.runs}
        self.of: dict[str, list[Run]] = {}
        for run in snapshot.runs:
            self.of.setdefault(run.experiment_id, []).append(run)

    def by_status(self, experiment_id: str) -> list[tuple[str, Number]]:
        """How many runs of an experiment there are of each status."""
        counter = Counter(run.status for run in self.of.get(experiment_id, ()))
        source = f"{experiment_id}{self._snapshot.at}"
        return [
            (status, self._book.count(f"{experiment_id}.runs.{status}", count, source))
            for status, count in sorted(counter.items())
        ]

    def row(self, run: Run) -> dict[str, Any]:
        """A run with its metrics, each with the line that it was read from."""
        book = self._book
        known = [(name, value) for name, value in run.metrics.items() if value is not None]
        kept = known[: LIMITS["metrics"]]
        return {
            "record": run,
            "replicate": book.count(f"{run.id}.replicate", run.replicate, run.id),
            "attempt": book.count(f"{run.id}.attempt", run.attempt, run.id),
            "seed": book.count(f"{run.id}.seed", run.seed, run.id),
            "hours": book.hours(f"{run.id}.run_hours", run.run_hours, run.id),
            "metrics": [
                (name, book.number(f"{run.id}.metrics.{name}", value, line_of(run, name), form=".5g", metric=name))
                for name, value in kept
            ],
            "metrics_left": _left(book, f"{run.id}.metrics", self._snapshot, len(known) - len(kept)),
        }


def line_of(run: Run, metric: str) -> str:
    """The source of a run's metric: the run with the file and line that it was read from, where that is known."""
    place = run.metric_sources.get(metric)
    return f"{run.id}/{place}" if place else run.id


def _verdict(snapshot: Snapshot, book: Book, runs: _Runs, item: Hypothesis) -> dict[str, Any]:
    """The line of a hypothesis in the table of verdicts."""
    source = f"{item.id}{snapshot.at}"
    own = [run for experiment in snapshot.experiments if experiment.hypothesis_id == item.id
           for run in runs.of.get(experiment.id, ())]  # fmt: skip
    last = snapshot.steps[item.id][-1]
    return {
        "record": item,
        "confidence": book.number(f"{item.id}.confidence", item.confidence, source, form=".3f"),
        "prior": book.number(f"{item.id}.prior", item.prior, source),
        "bound": book.number(f"{item.id}.false_alarm_bound", item.false_alarm_bound, source, form=".2g"),
        "e_support": book.number(f"{item.id}.e_support", item.e_support, source, form=".3g"),
        "e_refute": book.number(f"{item.id}.e_refute", item.e_refute, source, form=".3g"),
        "measured": book.count(f"{item.id}.n_measured", last["n_measured"], source),
        "evidence": book.count(f"{item.id}.evidence_count", item.evidence_count, source),
        "runs": book.count(f"{item.id}.runs", len(own), source),
        "hours": book.hours(f"{item.id}.run_hours", sum(run.run_hours or 0.0 for run in own), source),
    }


def _hypothesis(
    snapshot: Snapshot, book: Book, runs: _Runs, effects: Mapping[str, Effect], item: Hypothesis
) -> dict[str, Any]:
    own = [experiment for experiment in snapshot.experiments if experiment.hypothesis_id == item.id]
    rows = {row.id: row for row in snapshot.evidence if row.hypothesis_id == item.id}
    steps = [step for step in _steps(snapshot, book, item, rows) if step["moved"]]
    kept = steps[-LIMITS["steps"] :]
    return {
        **_verdict(snapshot, book, runs, item),
        "steps": kept,
        "steps_left": _left(book, f"{item.id}.steps", snapshot, len(steps) - len(kept)),
        "designs": [
            _design(snapshot, book, runs, effects[experiment.id], experiment)
            for experiment in own[: LIMITS["designs"]]
        ],
        "designs_left": _left(book, f"{item.id}.designs", snapshot, len(own) - LIMITS["designs"]),
        "by_hand": [_by_hand(book, row) for row in rows.values() if row.kind != "measured"],
    }  # fmt: skip


def _steps(snapshot: Snapshot, book: Book, item: Hypothesis, rows: Mapping[str, Evidence]) -> list[dict[str, Any]]:
    """The hypothesis' steps; `moved` is false for a run of the baseline that changed nothing."""
    made = []
    before: float | None = None
    for step in snapshot.steps[item.id]:
        row = rows.get(step["subject"]) if step["cause"] == "evidence" else None
        shift = None if before is None else step["log_odds"] - before
        before = step["log_odds"]
        source = f"{item.id}@{step['seq']}"
        key = f"{item.id}.step{step['no']}"
        made.append(
            {
                "record": step,
                "row": row,
                "what": _what(step, row),
                "run": row.run_id if row else step["subject"] if step["cause"] == "baseline" else None,
                "moved": step["cause"] != "baseline" or bool(shift),
                "confidence": book.number(f"{key}.confidence", step["confidence"], source, form=".3f"),
                "nats": book.number(f"{key}.nats", shift, source, form="+.2f"),
            }
        )
    return made


def _what(step: Mapping[str, Any], row: Evidence | None) -> str:
    """What kind of step it is, in one word of the table."""
    if row is not None:
        return row.kind
    if step["cause"] == "baseline":
        return "baseline run"
    return "prior" if step["no"] == 1 else "changed by hand"


def _by_hand(book: Book, row: Evidence) -> dict[str, Any]:
    return {
        "record": row,
        "nats": book.number(f"{row.id}.nats", row.log_bayes_factor, row.id, form="+.2f"),
        "strength": book.number(f"{row.id}.strength", row.strength, row.id),
    }


def _design(snapshot: Snapshot, book: Book, runs: _Runs, effect: Effect, experiment: Experiment) -> dict[str, Any]:
    id, design, interval = experiment.id, experiment.design, effect.interval
    source, spec = f"{id}{snapshot.at}", f"{id}"
    kept = effect.rows[-LIMITS["rows"] :]
    baseline = design.baseline if isinstance(design.baseline, str) else None
    return {
        "experiment": experiment,
        "metric": design.metric,
        "mde": book.number(f"{id}.design.mde", design.mde, spec),
        "baseline_id": baseline,
        "baseline": book.number(f"{id}.design.baseline", None if baseline else design.baseline, spec),  # type: ignore[arg-type]
        "replicates": book.count(f"{id}.design.replicates", design.replicates, spec),
        "runs": runs.by_status(id),
        "n": book.count(f"{id}.n", len(effect.rows), source),
        "mean": book.number(f"{id}.mean", effect.mean, source, form=".5g", metric=design.metric),
        "sd": book.number(f"{id}.sd", effect.sd, source, form=".2g", metric=design.metric),
        "base": book.number(f"{id}.baseline_mean", effect.baseline_mean, source, form=".5g", metric=design.metric),
        "base_sd": book.number(f"{id}.baseline_sd", effect.baseline_sd, source, form=".2g", metric=design.metric),
        "base_n": book.count(f"{id}.baseline_n", len(effect.baseline), source) if effect.baseline_runs else None,
        "effect": book.number(
            f"{id}.effect", interval.mean if interval else None, source, form="+.4g", metric=design.metric
        ),
        "low": book.number(
            f"{id}.effect_low", interval.low if interval else None, source, form="+.4g", metric=design.metric
        ),
        "high": book.number(
            f"{id}.effect_high", interval.high if interval else None, source, form="+.4g", metric=design.metric
        ),
        "how": effect.how,
        "nats": book.number(f"{id}.nats", effect.nats, source, form="+.2f"),
        "rows": [_row(book, row, runs.by_id.get(row.run_id or "")) for row in kept],
        "rows_left": _left(book, f"{id}.rows", snapshot, len(effect.rows) - len(kept)),
        "drawn": effect,
    }


def _row(book: Book, row: Evidence, run: Run | None) -> dict[str, Any]:
    """A measured row, with the line of the log that its value was read from."""
    place = f"{row.run_id}/{row.source}" if row.source else row.run_id or row.id
    return {
        "record": row,
        "run": run,
        "value": book.number(f"{row.id}.value", row.value, place, form=".6g", metric=row.metric),
        "nats": book.number(f"{row.id}.nats", row.log_bayes_factor or 0.0, row.id, form="+.3f"),
        "seed": None if row.seed is None else book.count(f"{row.id}.seed", row.seed, row.id),
    }


def _discoveries(snapshot: Snapshot, book: Book) -> dict[str, Any]:
    """Supported claims that stand when all are looked at together."""
    declared = snapshot.methodology["alpha"]
    alpha = ALPHA if declared is None else declared
    source = f"record{snapshot.at}"
    found = discoveries({item.id: item.e_support for item in snapshot.hypotheses}, alpha)
    records = {item.id: item for item in snapshot.hypotheses}
    return {
        "alpha": book.number("discoveries.alpha", alpha, f"methodology{snapshot.at}", form="g"),
        "declared": declared is not None,
        "k": book.count("discoveries.k", len(found), source),
        "of": book.count("discoveries.of", len(records), source),
        "bar": book.number(
            "discoveries.bar", len(records) / (alpha * len(found)) if found else None, source, form=".3g"
        ),
        "named": [{"record": records[id], "e": book.numbers[f"{id}.e_support"]} for id in found],
    }
