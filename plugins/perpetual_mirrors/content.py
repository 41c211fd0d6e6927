"""Reads from the record what is pushed of a run: its parameters, facts, metrics with their steps, and its claim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Hypothesis, NotFound, printable
from perpetual.toolkit.units import counted, posix_of
from perpetual_curves.series import ordered
from perpetual_mirrors.base import MirroredCurve, MirroredRun, Scalar
from perpetual_report.claims import effect_in_words
from perpetual_report.parameters import parameters_of, typed

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, MetricHistory, Redactor, Run

__all__ = ["ENDED", "mirrored"]

ENDED = frozenset({"done", "failed", "killed", "timeout", "lost"})
_LARGEST_STEP = 2**53
_LONGEST = 2_000  # characters of a text
_EARLIEST_S, _LATEST_S = 1e9, 1e11  # a time that is outside is no POSIX time


def mirrored(lab: Lab, run_id: str) -> MirroredRun | None:
    """Returns what is pushed of a run; None while it is live.

    Raises:
        NotFound: for an unknown run.
        PerpetualError: if its folder holds what no reader can read, as a link in the place of a file.
    """
    run = lab.runs.get(run_id)
    if run.status not in ENDED:
        return None
    experiment = lab.experiments.get(run.experiment_id)
    clean = _Cleaner(lab.part("redactor"))
    ended_s = posix_of(run.ended_at) if run.ended_at else 0.0
    started_s = posix_of(run.started_at) if run.started_at else ended_s
    curves, notes = _curves(lab, run, started_s, clean)
    tags = [*experiment.tags, *(["tainted"] if run.tainted else [])]
    claim = _claim(lab, experiment)
    return MirroredRun(
        key=f"{lab.config.project_id}-{run.id}",
        project=clean.text(str(lab.config["project"])),
        run=run.id,
        experiment=run.experiment_id,
        title=clean.text(experiment.title),
        status=run.status,
        started_s=started_s,
        ended_s=max(ended_s, started_s),
        tags=[clean.text(tag) for tag in tags],
        parameters=clean.table(parameters_of(experiment)),
        facts=clean.table(_facts(run, experiment)),
        metrics={
            clean.text(name): value for name, value in run.metrics.items() if value is not None and math.isfinite(value)
        },
        curves=curves,
        claim=None if claim is None else clean.text(claim),
        notes=notes,
    )


class _Cleaner:
    """Takes secrets and control characters out of what leaves the record."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def text(self, text: str) -> str:
        """Returns a text of bounded length."""
        return printable(self._redactor.text(text))[:_LONGEST].encode("utf-8", "replace").decode()

    def table(self, values: Mapping[str, object]) -> dict[str, Scalar]:
        """Returns values by name, without those that are unknown; what is no scalar is written as text."""
        found: dict[str, Scalar] = {}
        for name, value in self._redactor.values(values).items():
            value = typed(value)
            if isinstance(value, float) and not math.isfinite(value):
                value = str(value)
            if isinstance(value, str):
                value = self.text(value)
            if isinstance(value, Scalar):
                found[self.text(name)] = value
        return found


def _facts(run: Run, experiment: Experiment) -> dict[str, object]:
    """Returns what is known of a run beside its parameters."""
    return {
        "run": run.id, "experiment": run.experiment_id, "hypothesis": experiment.hypothesis_id,
        "command": experiment.command, "status": run.status, "reason": run.reason, "replicate": run.replicate,
        "attempt": run.attempt, "seed": run.seed, "seed_by_hand": run.chosen_seed, "tainted": run.tainted,
        "git_commit": run.git.commit, "git_dirty": run.git.dirty, "host": run.host, "scheduler": run.scheduler,
        "duration_s": run.duration_s, "run_hours": run.run_hours, "gpu_hours": run.gpu_hours,
        "gpus": len(run.gpus), "exit_code": run.exit_code, "signal": run.signal, "started_at": run.started_at,
        "ended_at": run.ended_at,
    }  # fmt: skip


def _curves(lab: Lab, run: Run, started_s: float, clean: _Cleaner) -> tuple[dict[str, MirroredCurve], list[str]]:
    found, notes = {}, []
    for name, history in sorted(lab.runs.curves(run.id).items()):
        curve, said = _curve(history, started_s)
        name = clean.text(name)
        if curve is not None:
            found[name] = curve
        notes += [f"{name}: {words}" for words in said]
    return found, notes


def _curve(history: MetricHistory, started_s: float) -> tuple[MirroredCurve | None, list[str]]:
    """Returns a history with whole steps, and what is to be known of it."""
    curve = ordered(history)
    points = [
        (step, value, time)
        for step, value, time in zip(curve.steps, curve.values, curve.times, strict=True)
        if value is not None and math.isfinite(value)
    ]
    gaps = len(curve.values) - len(points)
    notes = [f"{counted(gaps, 'value')} not finite, left out"] if gaps else []
    if curve.unplaced:
        notes.append(f"{counted(curve.unplaced, 'value')} without a step, left out")
    if curve.superseded:
        notes.append(f"{counted(curve.superseded, 'value')} logged again at the same step, the last one kept")
    if curve.skipped_bytes:
        notes.append(f"{curve.skipped_bytes} bytes of a long file not read, values from pieces in between")
    if not points:
        return None, notes
    axis = curve.axis or "step"
    is_whole = all(float(step).is_integer() and abs(step) < _LARGEST_STEP for step, _, _ in points)
    if not is_whole:
        notes.append(f"{axis} {points[0][0]:g} to {points[-1][0]:g} are no whole numbers, counted from 1 here")
        axis = "count"
    steps = [int(step) for step, _, _ in points] if is_whole else [*range(1, len(points) + 1)]
    times = [time if time is not None and _EARLIEST_S < time < _LATEST_S else started_s for _, _, time in points]
    return MirroredCurve(axis, steps, [value for _, value, _ in points], times), notes


def _claim(lab: Lab, experiment: Experiment) -> str | None:
    """Returns what the record says about the hypothesis, with the interval of its effect; None before any evidence."""
    if experiment.hypothesis_id is None:
        return None
    try:
        found: Hypothesis = lab.hypotheses.get(experiment.hypothesis_id)
    except NotFound:  # of a damaged record
        return None
    if not found.evidence_count:
        return None
    rows = counted(found.evidence_count, "row")
    words = [f"{found.id} is {found.status} as of {rows} of evidence: {found.statement}"]
    effect = found.effect
    if effect is not None and effect.get("low") is not None and effect.get("high") is not None:
        words.append(effect_in_words(effect, found.prediction.direction))  # type: ignore[arg-type]
    return " | ".join(words)
