"""Experiments or runs side by side: what differs between them, and what their seeds measured. For `compare`.

Imported by the command and by Python programs that want the same document.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Experiment, Run, UsageError, to_json
from perpetual.science.intervals import Interval, mean_of, paired_difference, welch_difference
from perpetual.science.versions import ASPECTS, samples_of, unlike
from perpetual.toolkit.units import shown_number
from perpetual_report.parameters import command_fields, flat
from perpetual_report.snapshot import ADOPTED

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.ledger import Effect
    from perpetual_report.documents import ArmMetric, ComparedArm, ComparedPair, Comparison, Difference, RunLeftOut

__all__ = ["Table", "compare", "flat", "markdown_of", "tables_of"]

_MOST_ARMS, _MOST_METRICS, _RUNS_NAMED, _MANY_PAIRS = 12, 30, 12, 12
_LEVEL = "95 % Student-t intervals; each pair by itself, unadjusted for how many pairs there are."


class Arm(NamedTuple):
    """One of the things compared: an experiment with the newest attempt of each replicate, or a single run."""

    id: str
    experiment: Experiment
    run: Run | None
    runs: tuple[Run, ...]  # those that count
    left_out: tuple[RunLeftOut, ...]

    def values(self, metric: str) -> list[tuple[Run, float]]:
        """Returns the runs that have the metric, with its value."""
        return [(run, value) for run in self.runs if (value := run.metrics.get(metric)) is not None]

    def direction(self, metric: str) -> str | None:
        """Returns which way is better, if its design says so of this metric."""
        return self.experiment.design.direction if self.experiment.design.metric == metric else None


def compare(lab: Lab, ids: Sequence[str], *, metrics: Sequence[str] = (), against: str | None = None) -> Comparison:
    """Returns the document of `perpetual compare`: `{arms, differences, metrics, pairs, notes}`.

    Args:
        metrics: those to be shown; all of them where none is given.
        against: the arm that every other one is paired with; it need not be among the ids. None pairs all with all.

    Raises:
        UsageError: for fewer than two different ids, or more than twelve; for a metric that no arm has.
        NotFound: for an id that is neither a run nor an experiment.
    """
    base = None if against is None else against.strip().lower()
    wanted = list(dict.fromkeys([*([base] if base else []), *(id.strip().lower() for id in ids)]))
    if not 2 <= len(wanted) <= _MOST_ARMS:
        raise UsageError(
            f"compare takes 2 to {_MOST_ARMS} different experiments or runs, not {len(wanted)}",
            hint="for example: perpetual compare e1 e2",
        )
    arms = [_arm(lab, id) for id in wanted]
    names = _chosen(_metrics(arms), metrics)
    notes = [_LEVEL, *_adopted(arms)]
    if len(names) > _MOST_METRICS:
        notes.append(f"{len(names) - _MOST_METRICS} more metrics are left out: {', '.join(names[_MOST_METRICS:][:20])}")
        names = names[:_MOST_METRICS]
    notes += _stale(arms)
    effects = _effects(lab, arms)
    notes += [
        "an effect is what a claim measured against its baseline, pooled as its evidence is; positive is better",
        "its interval holds however often one looks, which makes it wider than Student's t would",
    ] * (bool(effects))
    shown = [_arm_document(arm, names) for arm in arms]
    pairs = [
        pair
        for name in names
        for a, b in _paired(arms, base)
        if (pair := _claimed(a, b, name, effects) or _pair(a, b, name)) is not None
    ]
    notes += [*_pooled_otherwise(shown, pairs), *_repeated(shown)]
    if base is None and len(pairs) > _MANY_PAIRS:
        notes.append(f"{len(pairs)} pairs are many: --metric NAME shows one metric, --against ID pairs with one arm")
    return {
        "arms": shown,
        "differences": [*_differences(arms)],
        "metrics": names,
        "pairs": pairs,
        "notes": notes,
    }


def _paired(arms: Sequence[Arm], base: str | None) -> Iterable[tuple[Arm, Arm]]:
    """Returns all pairs of arms, or every other arm with that one."""
    if base is None:
        return combinations(arms, 2)
    return [(arm, other) for other in arms if other.id == base for arm in arms if arm.id != base]


def _chosen(names: list[str], wanted: Sequence[str]) -> list[str]:
    """Returns the metrics to be shown; raises UsageError for one that is not there."""
    for name in wanted:
        if name not in names:
            raise UsageError(
                f"none of these runs has measured {name!r}", hint=f"they have {', '.join(names[:8]) or 'no metric'}"
            )
    return [name for name in names if name in wanted] if wanted else names


def _adopted(arms: Iterable[Arm]) -> Iterable[str]:
    """Yields what is to be kept in mind of arms that another tool measured."""
    names = [arm.id for arm in arms if any(run.scheduler == ADOPTED for run in arm.runs)]
    if names:
        yield f"{', '.join(names)}: adopted from another tool and measured before any claim; described, and no evidence"


def _pooled_otherwise(arms: Sequence[ComparedArm], pairs: Iterable[ComparedPair]) -> Iterable[str]:
    """Yields which effects are not the difference of the two means, and why: other runs, or pairs by seed."""
    metrics = {arm["id"]: arm["metrics"] for arm in arms}
    found: dict[str, list[str]] = {}
    for pair in pairs:
        a, b = (metrics[pair[name]].get(pair["metric"]) for name in ("a", "b"))
        if pair["effect"] is None or (
            a and b and math.isclose(a["mean"] - b["mean"], pair["difference"], rel_tol=1e-6, abs_tol=1e-12)
        ):
            continue
        is_same = a is not None and b is not None and (len(a["values"]), len(b["values"])) == (pair["n_a"], pair["n_b"])
        why = (
            "runs on a seed that both have count as pairs"
            if is_same and pair["paired"]
            else f"it takes in what extends either, and of {pair['b']}, also run anew, the runs of the version that "
            "the claim is compared with"
        )
        found.setdefault(why, []).append(f"{pair['a']} against {pair['b']}")
    for why, named in found.items():
        yield f"{', '.join(named)} {'is' if len(named) == 1 else 'are'} not the difference of the means: {why}"


def _repeated(arms: Sequence[ComparedArm]) -> Iterable[str]:
    """Yields the arms whose runs all measured one value, which says as much as one run."""
    for arm in arms:
        for metric, it in arm["metrics"].items():
            if it["n"] < len(it["values"]):
                yield f"{arm['id']}: {len(it['values'])} runs measured {metric} exactly {it['mean']:g}: counted as one"


def _stale(arms: Sequence[Arm]) -> Iterable[str]:
    """Yields what of code, data or environment is not the same within an arm, or in two of them."""
    found = {arm.id: samples_of((run.versions, run.id) for run in arm.runs) for arm in arms}
    for id, samples in found.items():
        if len(samples) > 1:
            yield f"stale: the runs of {id} are of {len(samples)} versions, and its mean is over all of them"
    for a, b in combinations(found, 2):
        differing = [
            aspect
            for aspect in ASPECTS
            if found[a] and found[b] and all(aspect in unlike(one.version, other.version)
                                             for one in found[a] for other in found[b])
        ]  # fmt: skip
        if differing:
            yield f"stale: {a} and {b} ran on different {' and '.join(differing)}: the difference may be due to that"


def _arm(lab: Lab, id: str) -> Arm:
    named = lab.runs.named([id])
    if id[:1] == "r":
        return Arm(id, lab.experiments.get(named[0].experiment_id), named[0], tuple(named), ())
    kept: list[Run] = []
    left_out: list[RunLeftOut] = []
    for run in sorted(named, key=lambda run: run.replicate):
        why = _excluded(run)
        if why is None:
            kept.append(run)
        else:
            left_out.append({"id": run.id, "why": why})
    return Arm(id, lab.experiments.get(id), None, tuple(kept), tuple(left_out))


def _excluded(run: Run) -> str | None:
    """Returns why a run of an experiment says nothing here.

    What another tool measured is no evidence, and can still be described: its seed was logged, or is not known.
    """
    if run.status != "done":
        return run.status
    if run.tainted:
        return "tainted"
    return "its seed was picked by hand" if run.chosen_seed and run.scheduler != ADOPTED else None


def _metrics(arms: Iterable[Arm]) -> list[str]:
    """Returns every metric that some arm has, the declared ones first."""
    declared = [arm.experiment.design.metric for arm in arms if arm.experiment.design.metric]
    measured = sorted(
        {name for arm in arms for run in arm.runs for name, value in run.metrics.items() if value is not None}
    )  # fmt: skip
    return [name for name in dict.fromkeys([*declared, *measured]) if name in measured]


def _arm_document(arm: Arm, names: Sequence[str]) -> ComparedArm:
    metrics: dict[str, ArmMetric] = {}
    for name in names:
        values = arm.values(name)
        if values:
            folded = mean_of([value for _, value in values])
            metrics[name] = {
                "n": folded.n,
                "mean": folded.mean,
                "sd": folded.sd,
                "low": folded.low,
                "high": folded.high,
                "values": [
                    {"run_id": run.id, "seed": run.seed, "value": value, "source": run.metric_sources.get(name)}
                    for run, value in values
                ],
            }
    return {
        "id": arm.id,
        "experiment_id": arm.experiment.id,
        "hypothesis_id": arm.experiment.hypothesis_id,
        "title": arm.experiment.title,
        "runs": [run.id for run in arm.runs],
        "left_out": [*arm.left_out],
        "metrics": metrics,
    }


# --- what differs ---------------------------------------------------------------------------------------------------


def _differences(arms: Sequence[Arm]) -> Iterable[Difference]:
    """Yields the fields of the specifications and runs that are not the same in every arm."""
    described = {arm.id: _described(arm) for arm in arms}
    for name in dict.fromkeys(name for fields in described.values() for name in fields):
        values = {id: fields.get(name) for id, fields in described.items()}
        first = next(iter(values.values()))
        if any(value != first for value in values.values()):
            yield {"field": name, "values": values}


def _described(arm: Arm) -> dict[str, object]:
    experiment = arm.experiment
    fields: dict[str, object] = {"hypothesis": experiment.hypothesis_id} if experiment.hypothesis_id else {}
    fields |= command_fields(experiment.command)
    for name, table in (
        ("config", experiment.config),
        ("env", experiment.env),
        ("resources", to_json(experiment.resources)),
        ("design", to_json(experiment.design)),
    ):
        fields |= flat(name, table)
    fields["cwd"] = experiment.cwd
    commits = {run.git.commit for run in arm.runs if run.git.commit}
    fields["code commit"] = ", ".join(sorted(commits)) or None
    fields["uncommitted changes"] = any(run.git.dirty for run in arm.runs) if commits else None
    if arm.run is not None:
        fields |= {
            "replicate": arm.run.replicate,
            "attempt": arm.run.attempt,
            "seed": arm.run.seed,
            "status": arm.run.status,
            "gpus": ", ".join(arm.run.gpus) or None,
        }
    return fields


# --- pairs ----------------------------------------------------------------------------------------------------------


def _effects(lab: Lab, arms: Sequence[Arm]) -> dict[str, Effect]:
    """Returns, by experiment, the effect of its design, for the claims whose baseline is compared too."""
    ids = {arm.id for arm in arms if arm.run is None}
    found: dict[str, Effect] = {}
    for id in {arm.experiment.hypothesis_id for arm in arms if arm.run is None}:
        for effect in lab.evidence.effects(id).values() if id is not None else ():
            if effect["baseline"] in ids:
                found |= dict.fromkeys(effect["experiments"], effect)
    return found


def _claimed(a: Arm, b: Arm, metric: str, effects: Mapping[str, Effect]) -> ComparedPair | None:
    """Returns the pair of a claim and its baseline, whichever was named first: the effect that its hypothesis shows."""
    for claim, base in ((a, b), (b, a)):
        effect = None if claim.run or base.run else effects.get(claim.id)
        if effect is None or effect["metric"] != metric or effect["baseline"] != base.id:
            continue
        value, low, high = effect["value"], effect["low"], effect["high"]
        direction = claim.direction(metric)
        folded = Interval(effect["n"], value, None, low, high, 0.0)
        better = None
        if folded.excludes_zero and direction is not None:
            better = claim.id if value > 0 else base.id
        paired, n_b = claim.experiment.design.paired, effect["n_baseline"] or 0  # against an experiment it is known
        raw = (value, low, high) if direction != "min" else (-value, _minus(high), _minus(low))
        return {
            "metric": metric, "direction": direction, "a": claim.id, "b": base.id, "n_a": effect["n"], "n_b": n_b,
            "paired": paired, "difference": raw[0] + 0.0, "low": raw[1], "high": raw[2],
            "separable": folded.excludes_zero, "better": better,
            "verdict": _verdict(folded, better, direction, effect["n"], n_b, paired=paired), "effect": effect,
        }  # fmt: skip
    return None


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _pair(a: Arm, b: Arm, metric: str) -> ComparedPair | None:
    """Returns the difference a - b of two arms that share a metric."""
    mine, theirs = a.values(metric), b.values(metric)
    if not mine or not theirs:
        return None
    folded, is_paired = _difference(mine, theirs)
    directions = {arm.direction(metric) for arm in (a, b)} - {None}
    direction = directions.pop() if len(directions) == 1 else None
    better = None
    if folded.excludes_zero and direction is not None:
        better = a.id if (folded.mean > 0) == (direction == "max") else b.id
    n_a, n_b = (folded.n, folded.n) if is_paired else (len({*_seen(mine)}), len({*_seen(theirs)}))
    return {
        "metric": metric,
        "direction": direction,
        "a": a.id,
        "b": b.id,
        "n_a": n_a,
        "n_b": n_b,
        "paired": is_paired,
        "difference": folded.mean,
        "low": folded.low,
        "high": folded.high,
        "separable": folded.excludes_zero,
        "better": better,
        "verdict": _verdict(
            folded,
            better,
            direction,
            n_a,
            n_b,
            paired=is_paired,
            is_one=len({value for _, value in [*mine, *theirs]}) == 1,
        ),
        "effect": None,
    }


def _seen(values: Sequence[tuple[Run, float]]) -> list[object]:
    """Returns what counts as one: bit-equal values of several runs share a seed."""
    distinct = {value for _, value in values}
    return [*distinct] if len(distinct) == 1 else [run.id for run, _ in values]


def _difference(mine: Sequence[tuple[Run, float]], theirs: Sequence[tuple[Run, float]]) -> tuple[Interval, bool]:
    """Returns the difference paired by seed if every run of the smaller arm has its partner, else that of two means."""
    by_seed = {run.seed: value for run, value in theirs if run.seed is not None}  # unknown ones pair with nothing
    pairs = [(value, by_seed[run.seed]) for run, value in mine if run.seed in by_seed]
    if len(pairs) >= 2 and len(pairs) == min(len(mine), len(theirs)):
        return paired_difference([x for x, _ in pairs], [y for _, y in pairs]), True
    return welch_difference([value for _, value in mine], [value for _, value in theirs]), False


def _verdict(
    folded: Interval,
    better: str | None,
    direction: str | None,
    n_a: int,
    n_b: int,
    *,
    paired: bool,
    is_one: bool = False,
) -> str:
    """Returns what is said of a pair; `is_one`: all runs of both measured one value."""
    if better is not None:
        return f"{better} is better"
    if folded.mean == 0.0 and folded.low is None:
        return "the same in every run" if is_one else "the same in every pair"
    if folded.excludes_zero:
        return "they differ; no direction is declared" if direction is None else "they differ"
    return f"not separable at this n ({n_a} pairs)" if paired else f"not separable at this n ({n_a} and {n_b})"


# --- showing it -----------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A table for people."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def _shown_pair(item: ComparedPair, ids: Sequence[str]) -> tuple[str, str, str]:
    """Returns one arm against another, the later against the earlier, with a difference of which positive is better.

    Where no direction is declared, positive is higher.
    """
    a, b, effect = item["a"], item["b"], item["effect"]
    if effect is not None:
        value, low, high = effect["value"], effect["low"], effect["high"]
    else:
        value, low, high = item["difference"], item["low"], item["high"]
        is_turned = ids.index(a) < ids.index(b)
        if is_turned:
            a, b = b, a
        if is_turned != (item["direction"] == "min"):
            value, low, high = 0.0 - value, _minus(high), _minus(low)
    return f"{a} against {b}", shown_number(value, "+.4g"), _range(low, high, "+.4g")


def tables_of(found: Comparison) -> list[Table]:
    """Returns the comparison as three tables: what differs, what was measured, which arm is better."""
    ids = [arm["id"] for arm in found["arms"]]
    differences = [(item["field"], *(_cell(item["values"][id]) for id in ids)) for item in found["differences"]]
    measured = [
        (
            name,
            arm["id"],
            str(it["n"]),
            shown_number(it["mean"], ".5g"),
            _number(it["sd"]),
            _range(it["low"], it["high"]),
            _runs(it),
        )
        for name in found["metrics"]
        for arm in found["arms"]
        if (it := arm["metrics"].get(name)) is not None
    ]
    pairs = [
        (item["metric"], *_shown_pair(item, ids),
         "by seed" if item["paired"] else "", item["verdict"])
        for item in found["pairs"]
    ]  # fmt: skip
    left_out = [(arm["id"], item["id"], item["why"]) for arm in found["arms"] for item in arm["left_out"]]
    return [
        Table("What differs", ("field", *ids), differences or [("nothing but the seeds", *("" for _ in ids))]),
        Table("What was measured", ("metric", "arm", "n", "mean", "sd", "95 % interval", "runs"), measured),
        Table(
            f"Side by side: {_way(found['pairs'])}",
            ("metric", "arms", "difference", "95 % interval", "paired", "verdict"),
            pairs,
        ),
        Table("Left out", ("arm", "run", "why"), left_out),
    ]


def _way(pairs: Iterable[ComparedPair]) -> str:
    """Returns what a positive difference says."""
    are_declared = {pair["direction"] is not None for pair in pairs}
    if are_declared == {True, False}:
        return "positive is better, or higher where no direction is declared"
    return "positive is better" if are_declared == {True} else "positive is higher"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if value is True or value is False:
        return "yes" if value else "no"
    return str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else shown_number(value)


def _range(low: float | None, high: float | None, form: str = ".5g") -> str:
    if low is None or high is None:
        return "-"
    return f"{shown_number(low, form)} to {shown_number(high, form)}"


def _runs(item: ArmMetric) -> str:
    named = [value["run_id"] for value in item["values"]]
    more = f" and {len(named) - _RUNS_NAMED} more" if len(named) > _RUNS_NAMED else ""
    return " ".join(named[:_RUNS_NAMED]) + more


def markdown_of(found: Comparison) -> str:
    """Returns the same as Markdown."""
    from perpetual_report.document import inline

    lines = [f"# {', '.join(arm['id'] for arm in found['arms'])} compared", ""]
    lines += [f"- {arm['id']}: {inline(arm['title'])}" for arm in found["arms"]]
    for table in tables_of(found):
        if table.rows:
            lines += ["", f"## {table.title}", "", f"| {' | '.join(map(inline, table.columns))} |"]
            lines += [f"|{'---|' * len(table.columns)}"]
            lines += [f"| {' | '.join(map(inline, row))} |" for row in table.rows]
    return "\n".join([*lines, "", *found["notes"]]) + "\n"
