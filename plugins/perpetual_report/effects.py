"""What an experiment measured against its baseline: the runs behind it, the difference, and its 95 % interval.

Imported by the modules beside it. It describes; what the difference is worth as evidence, the ledger says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perpetual.api import Evidence, Experiment, Run
from perpetual.science.intervals import Interval, mean_of, paired_difference, pooled_difference
from perpetual_report.snapshot import Snapshot

__all__ = ["Effect", "effects_of"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One experiment's effect, oriented: more is better. Without a baseline that has run there is none, only rows.

    `points` are the rows' own differences from the baseline (its mean, or the paired run), in the order of `rows`.
    """

    rows: tuple[Evidence, ...]
    baseline: tuple[float, ...]
    baseline_runs: tuple[str, ...]
    mean: float | None
    sd: float | None
    baseline_mean: float | None
    baseline_sd: float | None
    interval: Interval | None
    points: tuple[float, ...]
    how: str

    @property
    def nats(self) -> float:
        """What its rows changed in log odds when they were added, together."""
        return sum(row.log_bayes_factor or 0.0 for row in self.rows)


def effects_of(snapshot: Snapshot) -> dict[str, Effect]:
    """The effect of each experiment, by its id; what extends one is pooled with it and has none of its own."""
    roots = {item.id: item.extends or item.id for item in snapshot.experiments}
    rows: dict[str, list[Evidence]] = {}
    for row in snapshot.evidence:
        if row.kind == "measured" and row.retracted_by is None and row.weight > 0 and row.value is not None:
            rows.setdefault(roots.get(row.experiment_id or "", ""), []).append(row)
    runs: dict[str, list[Run]] = {}
    for run in snapshot.runs:
        runs.setdefault(roots[run.experiment_id], []).append(run)
    return {
        item.id: _effect(item, tuple(rows.get(item.id, ())), runs.get(str(item.design.baseline), ()))
        for item in snapshot.experiments
    }


def _effect(experiment: Experiment, rows: tuple[Evidence, ...], others: Sequence[Run]) -> Effect:
    """The effect of an experiment's counted rows: measured, not taken back, not weightless."""
    design = experiment.design
    against = _baseline(experiment, others)
    if isinstance(against, dict):
        runs, values = tuple(run for run, _ in against.values()), tuple(value for _, value in against.values())
    else:
        runs, values = (), () if against is None else (against,)
    own = [row.value for row in rows if row.value is not None]
    here = mean_of(own) if own else None
    there = mean_of(values) if values else None
    if own and there is not None:
        sign = 1.0 if design.direction == "max" else -1.0
        interval, points, how = _interval(rows, own, against, sign, paired=design.paired)
        if design.kind == "binary" and interval is not None:
            interval, how = interval._replace(low=None, high=None), "a rate, which no t interval suits"
    else:
        interval, points, how = None, (), "its baseline has not run" if own else "nothing measured yet"
    return Effect(
        rows, values, runs,
        here.mean if here else None, here.sd if here else None,
        there.mean if there else None, there.sd if there else None,
        interval, points, how,
    )  # fmt: skip


def _baseline(experiment: Experiment, runs: Sequence[Run]) -> dict[Any, tuple[str, float]] | float | None:
    """A number, or by replicate the newest run of the baseline experiment that counts, with its value."""
    design = experiment.design
    if not isinstance(design.baseline, str):
        return design.baseline
    found: dict[Any, tuple[str, float]] = {}
    for run in runs:
        if design.paired and run.experiment_id != design.baseline:
            continue  # it knows only the seeds that it shares
        if run.status != "done" or run.tainted or run.chosen_seed:
            continue
        value = run.metrics.get(design.metric or "")
        if value is not None:
            found[run.replicate if design.paired else (run.experiment_id, run.replicate)] = (run.id, value)
    return found


def _interval(
    rows: tuple[Evidence, ...],
    own: list[float],
    against: dict[Any, tuple[str, float]] | float | None,
    sign: float,
    *,
    paired: bool,
) -> tuple[Interval | None, tuple[float, ...], str]:
    if not isinstance(against, dict):
        assert against is not None
        points = tuple(sign * (value - against) for value in own)
        return _said(mean_of(points), points, "t interval of the mean difference from a constant")
    if paired:
        pairs = [
            (value, against[row.replicate][1])
            for row, value in zip(rows, own, strict=True)
            if row.replicate in against
        ]  # fmt: skip
        if not pairs:
            return None, (), "no run shares a seed with its baseline"
        points = tuple(sign * (a - b) for a, b in pairs)
        made = paired_difference([sign * a for a, _ in pairs], [sign * b for _, b in pairs])
        return _said(made, points, "t interval of the mean difference, paired by seed")
    values = [sign * value for _, value in against.values()]
    made = pooled_difference([sign * value for value in own], values)
    middle = sum(values) / len(values)
    if len(set(own)) == 1:  # the baseline's spread alone would give one, and it would be of the baseline only
        made = made._replace(low=None, high=None)
    return _said(
        made, tuple(sign * value - middle for value in own), "t interval of the mean difference, both arms pooled"
    )


def _said(interval: Interval, points: tuple[float, ...], how: str) -> tuple[Interval, tuple[float, ...], str]:
    """The interval with the words for it, or for why there is none."""
    if interval.low is None:
        how = "one run, no interval" if len(points) == 1 else "the seeds made no difference, no interval"
    return interval, points, how
