"""Effect of a design against its baseline: the runs behind it, the difference, and its 95 % interval.

Imported by the modules beside it. It describes; what the difference is worth as evidence, the ledger says. Which runs
are one design, against which baseline, `perpetual.lab.evidence.confidence` decides: this follows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpetual.api import Evidence, Experiment, Run
from perpetual.science.intervals import Interval, effect_interval, mean_of
from perpetual.science.versions import declared, matched, samples_of
from perpetual_report.snapshot import Snapshot, number_of

__all__ = ["Effect", "effects_of", "same_prediction"]

_PREDICTION = ("metric", "direction", "kind", "baseline", "claim", "mde", "paired")
_SPREAD = ("noise", "tau", "on_crash")


@dataclass(frozen=True, slots=True)
class Effect:
    """One design's effect, oriented: more is better. Without a baseline that has run there is none, only rows.

    `members` are the experiments whose runs are pooled, the one whose prediction holds first. `points` are the rows'
    own differences from the baseline (its mean, or the paired run), in the order of `rows`.
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
        if lead.design.paired:  # another prediction does not share the baseline's seeds either
            late = {item.id for item in members if not same_prediction(item, lead)}
            own = [row for row in own if row.experiment_id not in late]
        names = (lead.id, *(item.id for item in members if item is not lead))
        baseline = str(lead.design.baseline)
        parts = [baseline, *renewals.get(baseline, ())]
        if not lead.design.paired:  # a paired design knows only the seeds that it shares
            parts += [id for part in parts for id in extensions.get(part, ())]
        others = [run for part in parts for run in runs.get(part, ())]
        own = [row for row in own if row.metric == lead.design.metric]
        found[lead.id] = _effect(lead, names, *_alike(lead, own, others, versions))
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
    experiment: Experiment, members: tuple[str, ...], rows: tuple[Evidence, ...], others: Sequence[Run]
) -> Effect:
    """Returns the effect of a design's counted rows under the prediction of one experiment of it."""
    design = experiment.design
    against = _baseline(experiment, others)
    if isinstance(against, dict):
        if design.paired:
            shared = {row.replicate for row in rows}
            against = {replicate: found for replicate, found in against.items() if replicate in shared}
        runs, values = tuple(run for run, _ in against.values()), tuple(value for _, value in against.values())
    else:
        runs, values = (), () if against is None else (against,)
    own = [row.value for row in rows if row.value is not None]
    here = mean_of(own) if own else None
    there = mean_of(values) if values else None
    if own and there is not None:
        sign = -1.0 if design.direction == "min" else 1.0  # without a direction as it was measured, as the fold has it
        interval, points, how = _interval(rows, own, against, sign, paired=design.paired)
        if design.kind == "binary" and interval is not None:
            interval, how = interval._replace(low=None, high=None), "a rate, which no t interval suits"
    else:
        interval, points, how = None, (), "its baseline has not run" if own else "nothing measured yet"
    return Effect(
        members, rows, values, runs,
        here.mean if here else None, here.sd if here else None,
        there.mean if there else None, there.sd if there else None,
        interval, points, how,
    )  # fmt: skip


def _baseline(experiment: Experiment, runs: Sequence[Run]) -> dict[object, tuple[str, float]] | float | None:
    """Returns a number, or by replicate the newest run of the baseline experiment that counts, with its value."""
    design = experiment.design
    if not isinstance(design.baseline, str):
        return design.baseline
    found: dict[object, tuple[str, float]] = {}
    for run in runs:
        if run.status != "done" or run.tainted or run.chosen_seed:
            continue
        value = run.metrics.get(design.metric or "")
        if value is not None:
            found[run.replicate if design.paired else (run.experiment_id, run.replicate)] = (run.id, value)
    return found


def _interval(
    rows: tuple[Evidence, ...],
    own: list[float],
    against: dict[object, tuple[str, float]] | float | None,
    sign: float,
    *,
    paired: bool,
) -> tuple[Interval | None, tuple[float, ...], str]:
    if not isinstance(against, dict):
        assert against is not None
        points = tuple(sign * (value - against) for value in own)
        interval, how = effect_interval([sign * value for value in own], sign * against)
        return interval, points, how
    if paired:
        pairs = [
            (value, against[row.replicate][1])
            for row, value in zip(rows, own, strict=True)
            if row.replicate in against
        ]  # fmt: skip
        if not pairs:
            return None, (), "no run shares a seed with its baseline"
        points = tuple(sign * (a - b) for a, b in pairs)
        interval, how = effect_interval([sign * a for a, _ in pairs], [sign * b for _, b in pairs], paired=True)
        return interval, points, how
    values = [sign * value for _, value in against.values()]
    middle = sum(values) / len(values)
    interval, how = effect_interval([sign * value for value in own], values)
    return interval, tuple(sign * value - middle for value in own), how
