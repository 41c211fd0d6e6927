"""Effect of a design against its baseline: the runs behind it, the difference, and its 95 % interval.

Imported by the modules beside it. It describes; what the difference is worth as evidence, the ledger says. Which runs
are one design, against which baseline, `perpetual.lab.evidence.confidence` decides: this follows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpetual.api import Evidence, Experiment, Run
from perpetual.science.designs import effect_interval
from perpetual.science.intervals import Interval, mean_of
from perpetual.science.rates import item_luck, luck_of_rate
from perpetual.science.versions import declared, matched, samples_of
from perpetual_report.snapshot import Snapshot, number_of

__all__ = ["Effect", "effects_of", "same_prediction"]

_PREDICTION = ("metric", "direction", "kind", "baseline", "claim", "mde", "paired")
_SPREAD = ("noise", "tau", "on_crash")


@dataclass(frozen=True, slots=True)
class Effect:
    """One design's effect, oriented: more is better. Without a baseline that has run there is none, only rows.

    `members` are the experiments whose runs are pooled, the one whose prediction holds first. `points` are the rows'
    own differences from the mean of the baseline, in the order of `rows`.
    """

    members: tuple[str, ...]
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


def effects_of(snapshot: Snapshot) -> dict[str, Effect]:
    """Returns the effect of each design, by the experiment whose prediction holds, as the fold pools them.

    That is the one that was measured first of those that share code and settings. The others are not in it by
    themselves; nor is an experiment that claims nothing.
    """
    versions = {run.id: run.versions for run in snapshot.runs}
    runs: dict[str, list[Run]] = {}
    for run in snapshot.runs:
        runs.setdefault(run.experiment_id, []).append(run)
    renewals: dict[str, list[str]] = {}
    extensions: dict[str, list[str]] = {}
    for item in snapshot.experiments:
        if item.renews:
            renewals.setdefault(item.renews, []).append(item.id)
        if item.extends:
            extensions.setdefault(item.extends, []).append(item.id)
    rows = _counted(snapshot)
    groups: dict[tuple[str | None, str], list[Experiment]] = {}
    for item in snapshot.experiments:
        if item.design.claim is not None:
            groups.setdefault((item.hypothesis_id, snapshot.designs[item.id]), []).append(item)
    found = {}
    for members in groups.values():
        own = sorted((row for item in members for row in rows.get(item.id, ())), key=lambda row: number_of(row.id))
        lead = next((item for item in members if own and item.id == own[0].experiment_id), members[0])
        names = (lead.id, *(item.id for item in members if item is not lead))
        baseline = str(lead.design.baseline)
        parts = [baseline, *renewals.get(baseline, ())]
        parts += [id for part in parts for id in extensions.get(part, ())]
        others = [run for part in parts for run in runs.get(part, ())]
        own = [row for row in own if row.metric == lead.design.metric]
        found[lead.id] = _effect(lead, names, *_alike(lead, own, others, versions), snapshot.scores)
    return found


def _alike(
    lead: Experiment, own: Sequence[Evidence], others: Sequence[Run], versions: Mapping[str, Mapping[str, object]]
) -> tuple[tuple[Evidence, ...], Sequence[Run]]:
    """Returns the rows of the version that has most of them, and the baseline's runs that they are compared with."""
    counting = [run for run in others if _counts(run, lead)]
    samples = samples_of((versions.get(row.run_id or ""), row) for row in own)
    if not samples:
        return (), others
    if not isinstance(lead.design.baseline, str) or not counting:
        return tuple(max(samples, key=lambda sample: len(sample.items)).items), others
    against = samples_of((run.versions, run) for run in counting)
    matches = [match for match in matched(samples, against, declared(lead.design.changes)) if match.counts]
    chosen = max(matches, key=lambda match: len(match.sample.items))
    return tuple(chosen.sample.items), chosen.baseline.items


def _counts(run: Run, lead: Experiment) -> bool:
    """Returns whether a run of the baseline is compared with the design."""
    is_measured = run.status == "done" and run.metrics.get(lead.design.metric or "") is not None
    return is_measured and not run.tainted and not run.chosen_seed


def _counted(snapshot: Snapshot) -> dict[str, list[Evidence]]:
    """Returns the rows that count, by experiment: measured, not taken back, not weightless, and no run seen twice."""
    rows: dict[str, list[Evidence]] = {}
    seen: set[tuple[str, int, float]] = set()
    for row in snapshot.evidence:
        if row.kind != "measured" or row.retracted_by is not None or row.weight <= 0 or row.value is None:
            continue
        if row.seed is not None:
            content = (row.hypothesis_id, row.seed, row.value)
            if content in seen:
                continue
            seen.add(content)
        rows.setdefault(row.experiment_id or "", []).append(row)
    return rows


def same_prediction(one: Experiment, other: Experiment, *, spread: bool = False) -> bool:
    """Returns whether both predict the same, with `spread` also the same spread; the one measured first holds."""
    names = (*_PREDICTION, *_SPREAD) if spread else _PREDICTION
    return all(getattr(one.design, name) == getattr(other.design, name) for name in names)


def _effect(
    experiment: Experiment,
    members: tuple[str, ...],
    rows: tuple[Evidence, ...],
    others: Sequence[Run],
    scores: Mapping[str, Sequence[float]],
) -> Effect:
    """Returns the effect of a design's counted rows under the prediction of one experiment of it."""
    against = _baseline(experiment, others)
    runs = tuple(run.id for run, _ in against) if isinstance(against, list) else ()
    values = (
        tuple(value for _, value in against) if isinstance(against, list) else () if against is None else (against,)
    )
    own = [row.value for row in rows if row.value is not None]
    here = mean_of(own) if own else None
    there = mean_of(values) if values else None
    if own and there is not None:
        interval, points, how = _interval(experiment, rows, against, scores)
    else:
        interval, points, how = None, (), "its baseline has not run" if own else "nothing measured yet"
    return Effect(
        members, rows, values, runs,
        here.mean if here else None, here.sd if here else None,
        there.mean if there else None, there.sd if there else None,
        interval, points, how,
    )  # fmt: skip


def _baseline(experiment: Experiment, runs: Sequence[Run]) -> list[tuple[Run, float]] | float | None:
    """Returns a number, or the newest run of each replicate of the baseline that counts, with its value."""
    design = experiment.design
    if not isinstance(design.baseline, str):
        return design.baseline
    found: dict[tuple[str, int], tuple[Run, float]] = {}
    for run in runs:
        if run.status != "done" or run.tainted or run.chosen_seed:
            continue
        value = run.metrics.get(design.metric or "")
        if value is not None:
            found[run.experiment_id, run.replicate] = (run, value)
    return [*found.values()]


def _interval(
    experiment: Experiment,
    rows: tuple[Evidence, ...],
    against: list[tuple[Run, float]] | float | None,
    scores: Mapping[str, Sequence[float]],
) -> tuple[Interval | None, tuple[float, ...], str]:
    """Returns the interval of the fold, and each row's difference from the baseline's mean."""
    design = experiment.design
    assert against is not None
    sign = -1.0 if design.direction == "min" else 1.0  # without a direction as it was measured, as the fold has it
    is_rate = design.kind == "binary"

    def oriented(value: float) -> float:
        return 1 - value if is_rate and sign < 0 else sign * value

    own = [(row.seed, row.value) for row in rows if row.value is not None]
    raw = [value for _, value in own]
    others: list[tuple[object, float]] | float
    if isinstance(against, list):
        others = [(run.seed, oriented(value)) for run, value in against]
        raw += [value for _, value in against]
        middle = sum(value for _, value in others) / len(others)
    else:
        others = middle = oriented(against)
    luck = _luck_of(rows, against, scores)
    if luck is None and design.items:
        luck = luck_of_rate(raw, design.items)
    interval, how, _ = effect_interval(
        [(seed, oriented(value)) for seed, value in own],
        others,
        tau=design.tau or 0.0,
        luck=luck or 0.0,
        typed_n=design.baseline_runs,
        is_rate=is_rate,
    )
    return interval, tuple(oriented(value) - middle for _, value in own), how


def _luck_of(
    rows: Sequence[Evidence], against: list[tuple[Run, float]] | float | None, scores: Mapping[str, Sequence[float]]
) -> float | None:
    """Returns the sd that the choice of test items gives the effect, by their scores; None as the fold has it."""
    own = [scores[id] for row in rows if (id := row.run_id) is not None and id in scores]
    others = [scores[run.id] for run, _ in against if run.id in scores] if isinstance(against, list) else []
    sizes = {len(each) for each in [*own, *others]}
    return item_luck(own, others) if own and len(sizes) == 1 and min(sizes) > 1 else None
