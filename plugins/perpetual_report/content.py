"""Content of a report: every number entered in a `Book`, laid out for the templates. A function of a `Snapshot` alone.

Imported by the modules beside it. Lists are bounded; what is left out is counted and said.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from perpetual.api import Evidence, Experiment, Hypothesis, Run
from perpetual.science.discoveries import ENOUGH, base_rate, discoveries, expected_false
from perpetual.science.intervals import mean_of
from perpetual.science.versions import samples_of
from perpetual.toolkit.causes import cause_of
from perpetual_report.claims import WORDS, effect_word
from perpetual_report.effects import effects_of, same_prediction
from perpetual_report.numbers import Book, Number
from perpetual_report.snapshot import ADOPTED, ENDED, Snapshot, number_of
from perpetual_report.steps import Step

__all__ = ["LIMITS", "facts_of"]

if TYPE_CHECKING:
    from typing import TypedDict

    from perpetual_report.effects import Effect

    class StepFacts(TypedDict):
        """A step of a hypothesis' confidence; `run` is what caused it, `nats` its shift of the log-odds."""

        record: Step
        row: Evidence | None
        what: str
        run: str | None
        moved: bool
        confidence: Number | None
        nats: Number | None

    class DesignFacts(TypedDict):
        """The keys of a design that pictures are made of; `drawn` is None where another one shows the effect."""

        experiment: Experiment
        metric: str | None
        members: Sequence[str]
        drawn: Effect | None

    class HypothesisFacts(TypedDict):
        """The keys of a hypothesis that pictures are made of."""

        record: Hypothesis
        steps: list[StepFacts]
        designs: list[DesignFacts]


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
    "explored": 0,  # designs of what tests no hypothesis; the table of baselines has them by name
}
_REMARKS = 8  # of one run
_WAYS = {"max": "higher", "min": "lower"}  # as `claim_in_words` has it
_FAILED = ("failed", "killed", "timeout", "lost")


def facts_of(snapshot: Snapshot, book: Book, limits: Mapping[str, int] | None = None) -> dict[str, object]:
    """Returns the tree that the templates walk; its numbers are those of the book.

    Args:
        snapshot: what is written up.
        book: in which the numbers are entered.
        limits: of the lists, those of `LIMITS` by default.
    """
    limits = limits or LIMITS
    runs = _Runs(snapshot, book, limits)
    designs = _Designs(snapshot, book, runs)
    detailed = snapshot.hypotheses[: limits["hypotheses"]]
    shown = snapshot.runs[-limits["runs"] :]
    told = [_hypothesis(snapshot, book, runs, designs, item) for item in detailed]

    def bounded(what: str, items: Sequence[object]) -> dict[str, object]:
        """Returns the newest of a list, and how many older ones are left out."""
        kept = items[-limits["list"] :]
        return {"items": kept, "left": _left(book, what, snapshot, len(items) - len(kept))}

    return {
        "project": snapshot.project,
        "time": snapshot.time,
        "seq": book.count("record.seq", snapshot.seq, f"record{snapshot.at}"),
        "thresholds": _thresholds(snapshot, book),
        "words": WORDS,
        "causes": {run.id: cause_of(run.annotations) for run in snapshot.runs if run.status in _FAILED},
        "counts": _counts(snapshot, book),
        "budget": _budget(snapshot, book),
        "verdicts": [_verdict(snapshot, book, runs, designs, item) for item in snapshot.hypotheses],
        "hypotheses": told,
        "not_pictured": _left(book, "not_pictured", snapshot, len(detailed) - limits["pictured"]),
        "hypotheses_left": _left(book, "hypotheses", snapshot, len(snapshot.hypotheses) - len(detailed)),
        "baselines": [
            {
                "record": item,
                "runs": runs.by_status(item.id),
                "config": json.dumps(item.config, sort_keys=True) if item.config else None,
            }
            for item in snapshot.experiments
            if item.hypothesis_id is None and item.design.claim is None
        ],
        "explored": [
            designs.document(item)
            for item in [item for item in snapshot.experiments if item.hypothesis_id is None][: limits["explored"]]
        ],
        "discoveries": _discoveries(snapshot, book),
        "refuted": [item for item in snapshot.hypotheses if item.status == "refuted"],
        "failed": bounded("failed", [run for run in snapshot.runs if run.status in _FAILED and not run.stopped]),
        "no_metric": bounded("no_metric", [run for run in snapshot.runs if _lacks_metric(run)]),
        "retractions": bounded("retractions", [row for row in snapshot.evidence if row.kind == "retraction"]),
        "noted": bounded("noted", _noted(snapshot.runs)),
        "steps": {step["row"].id for item in told for step in item["steps"] if step["row"]},
        "runs": [runs.row(run) for run in shown],
        "runs_left": _left(book, "runs", snapshot, len(snapshot.runs) - len(shown)),
        "titles": {item.id: item.title for item in snapshot.experiments},
        "notes": snapshot.notes[: limits["list"]],
        "notes_left": max(0, len(snapshot.notes) - limits["list"]) or None,
        "anchors": {run.id for run in shown},
    }


def _left(book: Book, what: str, snapshot: Snapshot, count: int) -> Number | None:
    """Returns how many items were left out of a list, if any."""
    return book.count(f"left.{what}", count, f"record{snapshot.at}") if count > 0 else None


def _noted(runs: Sequence[Run]) -> list[dict[str, object]]:
    """Runs with a remark; those of which the same is said stand together, where the last of them stands."""
    groups: dict[str, dict[str, Any]] = {}
    for run in runs:
        marks = [word for word, holds in (
            ("tainted: weighs nothing", run.tainted),
            ("adopted: weighs nothing", run.scheduler == ADOPTED),
            ("seed picked by hand: weighs nothing", run.chosen_seed and run.scheduler != ADOPTED),
        ) if holds]  # fmt: skip
        remarks = [*run.annotations[:_REMARKS]]
        if marks or remarks:
            said = repr((marks, [sorted(remark.items()) for remark in remarks]))
            before = groups.pop(said, {"runs": []})
            groups[said] = {"runs": [*before["runs"], run.id], "marks": marks, "remarks": remarks}
    return [*groups.values()]


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


def _counts(snapshot: Snapshot, book: Book) -> dict[str, object]:
    """Returns how much there is of everything; by status in the order in which statuses follow one another."""
    source = f"record{snapshot.at}"
    totals = {
        "hypotheses": len(snapshot.hypotheses),
        "experiments": len(snapshot.experiments),
        "runs": len(snapshot.runs),
        "evidence": len(snapshot.evidence),
        "debits": len(snapshot.debits),
    }
    by_status: dict[str, tuple[Mapping[str, int], tuple[str, ...]]] = {
        "hypotheses": (
            Counter(item.status for item in snapshot.hypotheses),
            ("supported", "refuted", "open", "parked"),
        ),
        "runs": (Counter(run.status for run in snapshot.runs), ("queued", "launching", "running", *ENDED)),
    }
    made: dict[str, object] = {name: book.count(f"count.{name}", value, source) for name, value in totals.items()}
    for name, (counter, order) in by_status.items():
        made[f"{name}_by_status"] = {
            status: book.count(f"count.{name}.{status}", counter[status], source) for status in order if counter[status]
        }
    return made


def _budget(snapshot: Snapshot, book: Book) -> dict[str, object]:
    """Returns the budget's totals as `perpetual budget` has them, and what each hypothesis has cost."""
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
        line[0], line[1], line[2] = line[0] + row.gpu_hours, line[1] + row.run_hours, line[2] + (row.kind == "settle")
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

    def __init__(self, snapshot: Snapshot, book: Book, limits: Mapping[str, int]) -> None:
        self._snapshot, self._book, self.limits = snapshot, book, limits
        self.by_id = {run.id: run for run in snapshot.runs}
        self._declared = {item.id: item.design.metric for item in snapshot.experiments}
        self.of: dict[str, list[Run]] = {}
        for run in snapshot.runs:
            self.of.setdefault(run.experiment_id, []).append(run)

    def by_status(self, experiment_id: str) -> list[tuple[str, Number]]:
        """Returns how many runs of an experiment there are of each status."""
        counter = Counter(run.status for run in self.of.get(experiment_id, ()))
        source = f"{experiment_id}{self._snapshot.at}"
        return [
            (status, self._book.count(f"{experiment_id}.runs.{status}", count, source))
            for status, count in sorted(counter.items())
        ]

    def row(self, run: Run) -> dict[str, object]:
        """Returns a run with its metrics, each with the line that it was read from."""
        book = self._book
        declared = self._declared.get(run.experiment_id)  # first: it is what the run was for
        known = sorted(
            ((name, value) for name, value in run.metrics.items() if value is not None),
            key=lambda item: item[0] != declared,
        )
        kept = known[: self.limits["metrics"]]
        return {
            "record": run,
            "replicate": book.count(f"{run.id}.replicate", run.replicate, run.id),
            "attempt": book.count(f"{run.id}.attempt", run.attempt, run.id),
            "seed": None if run.seed is None else book.count(f"{run.id}.seed", run.seed, run.id),
            "hours": book.hours(f"{run.id}.run_hours", run.run_hours, run.id),
            "metrics": [
                (name, book.number(f"{run.id}.metrics.{name}", value, line_of(run, name), form=".5g", metric=name))
                for name, value in kept
            ],
            "metrics_left": _left(book, f"{run.id}.metrics", self._snapshot, len(known) - len(kept)),
        }


def line_of(run: Run, metric: str) -> str:
    """Returns the source of a run's metric: the run with the file and line that it was read from, where known."""
    place = run.metric_sources.get(metric)
    return f"{run.id}/{place}" if place else run.id


def _verdict(snapshot: Snapshot, book: Book, runs: _Runs, designs: _Designs, item: Hypothesis) -> dict[str, object]:
    """Returns the line of a hypothesis in the table of verdicts."""
    source = f"{item.id}{snapshot.at}"
    own = [run for experiment in snapshot.experiments if experiment.hypothesis_id == item.id
           for run in runs.of.get(experiment.id, ())]  # fmt: skip
    last = snapshot.steps[item.id][-1]
    return {
        "record": item,
        "headline": designs.headline(item.id, last.fold.get("together")),
        "confidence": book.number(f"{item.id}.confidence", item.confidence, source, form=".3f"),
        "prior": book.number(f"{item.id}.prior", item.prior, source),
        "bound": book.number(f"{item.id}.false_alarm_bound", item.false_alarm_bound, source, form=".2g"),
        "e_support": book.number(f"{item.id}.e_support", item.e_support, source, form=".3g"),
        "e_refute": book.number(f"{item.id}.e_refute", item.e_refute, source, form=".3g"),
        "measured": book.count(f"{item.id}.n_measured", last.fold["n_measured"], source),
        "evidence": book.count(f"{item.id}.evidence_count", item.evidence_count, source),
        "runs": book.count(f"{item.id}.runs", len(own), source),
        "hours": book.hours(f"{item.id}.run_hours", sum(run.run_hours or 0.0 for run in own), source),
    }


def _hypothesis(snapshot: Snapshot, book: Book, runs: _Runs, designs: _Designs, item: Hypothesis) -> HypothesisFacts:
    own = [experiment for experiment in snapshot.experiments if experiment.hypothesis_id == item.id]
    rows = {row.id: row for row in snapshot.evidence if row.hypothesis_id == item.id}
    steps = [step for step in _steps(snapshot, book, item, rows) if step["moved"]]
    kept = steps[-runs.limits["steps"] :]
    made = {
        **_verdict(snapshot, book, runs, designs, item),
        "steps": kept,
        "steps_left": _left(book, f"{item.id}.steps", snapshot, len(steps) - len(kept)),
        "designs": [designs.document(experiment) for experiment in own[: runs.limits["designs"]]],
        "designs_left": _left(book, f"{item.id}.designs", snapshot, len(own) - runs.limits["designs"]),
        "grid": json.dumps(item.params, sort_keys=True) if item.params else None,
        "by_hand": [_by_hand(book, row) for row in rows.values() if row.kind != "measured"],
    }  # fmt: skip
    return cast("HypothesisFacts", made)


def _steps(snapshot: Snapshot, book: Book, item: Hypothesis, rows: Mapping[str, Evidence]) -> list[StepFacts]:
    """Returns the hypothesis' steps; `moved` is false for a run of the baseline that changed nothing."""
    made: list[StepFacts] = []
    before: float | None = None
    for step in snapshot.steps[item.id]:
        row = rows.get(step.subject) if step.cause == "evidence" else None
        shift = None if before is None else step.fold["log_odds"] - before
        before = step.fold["log_odds"]
        source = f"{item.id}@{step.seq}"
        key = f"{item.id}.step{step.no}"
        made.append(
            {
                "record": step,
                "row": row,
                "what": _what(step, row),
                "run": row.run_id if row else step.subject if step.cause == "baseline" else None,
                "moved": step.cause != "baseline" or bool(shift),
                "confidence": book.number(f"{key}.confidence", step.fold["confidence"], source, form=".3f"),
                "nats": book.number(f"{key}.nats", shift, source, form="+.2f"),
            }
        )
    return made


def _what(step: Step, row: Evidence | None) -> str:
    """Returns what kind of step it is, in one word of the table."""
    if row is not None:
        return row.kind
    if step.cause == "baseline":
        return "baseline run"
    return "prior" if step.no == 1 else "changed by hand"


def _by_hand(book: Book, row: Evidence) -> dict[str, object]:
    return {
        "record": row,
        "nats": book.number(f"{row.id}.nats", row.log_bayes_factor, row.id, form="+.2f"),
        "strength": book.number(f"{row.id}.strength", row.strength, row.id),
    }


class _Designs:
    """What was predicted and measured: one design where experiments share code and settings, as the fold has it."""

    def __init__(self, snapshot: Snapshot, book: Book, runs: _Runs) -> None:
        self._snapshot, self._book, self._runs = snapshot, book, runs
        self._effects = effects_of(snapshot)
        self._experiments = {item.id: item for item in snapshot.experiments}
        self._verdicts = {item.id: item.status for item in snapshot.hypotheses if item.decided_by == "evidence"}
        self._lead = {member: id for id, effect in self._effects.items() for member in effect.members}
        self._of: dict[str, list[str]] = {}
        for id, effect in self._effects.items():
            if effect.interval is not None:
                self._of.setdefault(self._experiments[id].hypothesis_id or "", []).append(id)

    def headline(self, hypothesis_id: str, together: Mapping[str, Any] | None = None) -> dict[str, object] | None:
        """Returns the effect that represents a hypothesis: that of its design with the most runs, the oldest of equals.

        Never the one with the largest effect: which one is shown must not hang on how it came out.

        Args:
            together: what the fold found of designs that share a baseline, weighed as one arm.
        """
        measured = self._of.get(hypothesis_id)
        if not measured:
            return None
        id = min(measured, key=lambda id: (-len(self._effects[id].rows), number_of(id)))
        others = len(measured) - 1
        count = self._book.count(f"{hypothesis_id}.other_designs", others, f"{hypothesis_id}{self._snapshot.at}")
        metric = self._experiments[id].design.metric
        shown = self._effect(id)
        if together is not None and len(together["designs"]) > 1:
            shown = self._numbers(hypothesis_id, metric, *(together[name] for name in ("value", "low", "high")))
        return {**shown, "id": id, "metric": metric, "others": count if others else None}

    def _judged(self, id: str) -> str:
        """Returns which way the effect goes, in a word or two."""
        interval = self._effects[id].interval
        if interval is None:
            return "unknown"
        experiment = self._experiments[id]
        verdict = self._verdicts.get(experiment.hypothesis_id or "")
        return effect_word(interval.mean, interval.low, interval.high, experiment.design.direction, verdict)

    def _effect(self, id: str) -> dict[str, Number | None]:
        """Returns the effect with its interval, each to the digits that the interval leaves it."""
        interval = self._effects[id].interval
        mean, low, high = (interval.mean, interval.low, interval.high) if interval else (None, None, None)
        return self._numbers(id, self._experiments[id].design.metric, mean, low, high)

    def _numbers(
        self, id: str, metric: str | None, mean: float | None, low: float | None, high: float | None
    ) -> dict[str, Number | None]:
        half = None if low is None or high is None else (high - low) / 2
        form = _form(half)
        return {
            name: self._book.number(f"{id}.{key}", value, f"{id}{self._snapshot.at}", form=shape, metric=metric)
            for name, key, value, shape in (
                ("effect", "effect", mean, _form(half, mean)),
                ("low", "effect_low", low, form),
                ("high", "effect_high", high, form),
            )
        }

    def document(self, experiment: Experiment) -> dict[str, object]:
        """Returns an experiment with its prediction, and its design's effect, unless that is shown with another one."""
        book, id, design = self._book, experiment.id, experiment.design
        baseline = design.baseline if isinstance(design.baseline, str) else None  # an experiment's id
        level = None if isinstance(design.baseline, str) else design.baseline
        lead = self._lead.get(id)
        is_late = lead not in (None, id) and not same_prediction(experiment, self._experiments[str(lead)], spread=True)
        return {
            "experiment": experiment,
            "config": json.dumps(experiment.config, sort_keys=True) if experiment.config else None,
            "metric": design.metric,
            "way": _WAYS.get(design.direction or "", "higher or lower"),
            "mde": book.number(f"{id}.design.mde", design.mde, id),
            "baseline_id": baseline,
            "baseline": book.number(f"{id}.design.baseline", level, id),
            "replicates": book.count(f"{id}.design.replicates", design.replicates, id),
            "runs": self._runs.by_status(id),
            "lead": None if lead == id else lead,
            "late": is_late,
            "adopted": any(run.scheduler == ADOPTED for run in self._runs.of.get(id, ())),
            "claims": design.claim is not None,
            "plain": None if design.claim is not None else self._plain(experiment),
            **(self._measured(id) if lead == id else {"members": (), "rows": [], "drawn": None}),
        }

    def _plain(self, experiment: Experiment) -> dict[str, object] | None:
        """Returns the mean and spread of what claims nothing, as a baseline; None where its runs are not alike."""
        id, metric = experiment.id, experiment.design.metric
        counted = [
            (run, value)
            for run in self._runs.of.get(id, ())
            if run.status == "done" and not run.tainted and not run.chosen_seed
            and (value := run.metrics.get(metric or "")) is not None
        ]  # fmt: skip
        if len(samples_of((run.versions, run) for run, _ in counted)) != 1:
            return None
        folded, source = mean_of([value for _, value in counted]), f"{id}{self._snapshot.at}"
        return {
            "n": self._book.count(f"{id}.n", len(counted), source),
            "mean": self._book.number(f"{id}.mean", folded.mean, source, form=".5g", metric=metric),
            "sd": self._book.number(f"{id}.sd", folded.sd, source, form=".2g", metric=metric),
        }

    def _measured(self, id: str) -> dict[str, object]:
        book, effect, metric = self._book, self._effects[id], self._experiments[id].design.metric
        source = f"{id}{self._snapshot.at}"
        kept = effect.rows[-self._runs.limits["rows"] :]
        named = {row.experiment_id for row in effect.rows}
        return {
            "members": [member for member in effect.members if member in named],
            "n": book.count(f"{id}.n", len(effect.rows), source),
            "mean": book.number(f"{id}.mean", effect.mean, source, form=".5g", metric=metric),
            "sd": book.number(f"{id}.sd", effect.sd, source, form=".2g", metric=metric),
            "base": book.number(f"{id}.baseline_mean", effect.baseline_mean, source, form=".5g", metric=metric),
            "base_sd": book.number(f"{id}.baseline_sd", effect.baseline_sd, source, form=".2g", metric=metric),
            "base_n": book.count(f"{id}.baseline_n", len(effect.baseline), source) if effect.baseline_runs else None,
            **self._effect(id),
            "judged": self._judged(id),
            "how": effect.how,
            "rows": [_row(book, row, self._runs.by_id.get(row.run_id or "")) for row in kept],
            "rows_left": _left(book, f"{id}.rows", self._snapshot, len(effect.rows) - len(kept)),
            "drawn": effect,
        }


def _form(half_width: float | None, value: float | None = None) -> str:
    """Returns a format with the digits that mean something: two of the interval's half width, and two of the value."""
    if not half_width or not 1e-9 < half_width < 1e5:
        return "+.4g"
    small = min(half_width, abs(value)) if value and abs(value) > 1e-9 else half_width
    return f"+.{max(0, 1 - math.floor(math.log10(small)))}f"


def _row(book: Book, row: Evidence, run: Run | None) -> dict[str, object]:
    """Returns a measured row, with the line of the log that its value was read from."""
    place = f"{row.run_id}/{row.source}" if row.source else row.run_id or row.id
    return {
        "record": row,
        "run": run,
        "value": book.number(f"{row.id}.value", row.value, place, form=".6g", metric=row.metric),
        "nats": book.number(f"{row.id}.nats", row.log_bayes_factor or 0.0, row.id, form="+.3f"),
        "seed": None if row.seed is None else book.count(f"{row.id}.seed", row.seed, row.id),
    }


def _discoveries(snapshot: Snapshot, book: Book) -> dict[str, object]:
    """Returns the decided claims that hold when all tested ones are looked at together, as `perpetual status` does."""
    declared = snapshot.methodology["alpha"]
    alpha = ALPHA if declared is None else declared
    source = f"record{snapshot.at}"
    # What was decided by hand was not tested, and is of no family of tests.
    records = {
        item.id: item
        for item in snapshot.hypotheses
        if item.decided_by in (None, "evidence") and snapshot.steps[item.id][-1].fold["n_measured"]
    }
    # At most one of a claim's two e-values is of a statement that is true, so the larger one serves for both.
    found = discoveries({id: max(item.e_support, item.e_refute) for id, item in records.items()}, alpha)
    supported = [id for id, item in records.items() if item.status == "supported"]
    for_it = {id: item.e_support for id, item in records.items()}
    share = base_rate(for_it.values())
    false = expected_false(for_it, supported, share)
    return {
        "supported": book.count("discoveries.supported", len(supported), source),
        "expected_false": book.number("discoveries.expected_false", false, source, form=".2g"),
        "base_rate": book.number(
            "discoveries.base_rate", share if len(records) >= ENOUGH else None, source, form=".0%"
        ),
        "alpha": book.number("discoveries.alpha", alpha, f"methodology{snapshot.at}", form="g"),
        "declared": declared is not None,
        "k": book.count("discoveries.k", len(found), source),
        "of": book.count("discoveries.of", len(records), source),
        "bar": book.number(
            "discoveries.bar", len(records) / (alpha * len(found)) if found else None, source, form=".3g"
        ),
        "named": [
            {"record": item, "e": book.numbers[f"{item.id}.e_{'support' if is_for else 'refute'}"], "is_for": is_for}
            for item in (records[id] for id in found)
            for is_for in (item.e_support >= item.e_refute,)
        ],
    }
