"""Comparisons across versions: which runs of a baseline a claim is compared with, and what is said where none fits.

Used by the fold. A claim's runs are pooled by version, and each sample is compared with the baseline's runs of the same
version. Where the baseline has none, the comparison is `stale`: it is made, and said wherever the confidence is shown.
Beside a comparison that is not stale a stale one counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.science.versions import RENEW, Sample, declared, matched, nearest, samples_of

if TYPE_CHECKING:
    from perpetual.documents.provenance import Versions
    from perpetual.lab.bodies import DesignBody, FoldRow, RunBody

__all__ = ["Comparison", "baseline_of", "baseline_values", "comparisons", "parts_of", "pooled", "root_of", "sentences"]

_LISTED = 3
_SHOWN = 7  # digits of a commit

Values = dict[int, float]
_Sampled = tuple[int, float, RunRow]  # number, value, run


class Comparison(NamedTuple):
    """Rows of one version, and what they are compared with."""

    rows: list[FoldRow]
    baseline: Values | float | None
    against: tuple[RunRow, ...]  # the baseline's runs among them
    stale: tuple[str, ...]  # aspects in which they differ, beyond what is declared
    counts: bool


def baseline_values(ctx: Context, design: DesignBody, version: Versions | None = None) -> Values | float | None:
    """Returns the number that a design is compared with, or its baseline experiment's values by replicate, or None.

    What extends a baseline adds replicates to it, numbered on.

    Args:
        version: of the runs that are compared with it; by default of most runs of the baseline.
    """
    return baseline_of(ctx, design, version)[0]


def baseline_of(
    ctx: Context, design: DesignBody, version: Versions | None = None
) -> tuple[Values | float | None, tuple[RunRow, ...]]:
    """Returns the same and the runs that have these values, in their order."""
    baseline = design["baseline"]
    if not isinstance(baseline, str):
        return None if baseline is None else float(baseline), ()
    samples = _sampled(ctx, design)
    if not samples:
        return {}, ()
    found = nearest(samples, version, declared(design.get("changes")))
    return _values(found), tuple(run for _, _, run in found.items)


def comparisons(ctx: Context, design: DesignBody, rows: Sequence[FoldRow]) -> list[Comparison]:
    """Returns the rows of one design by version, each with its baseline; those that count are never pooled."""
    own = samples_of((row.get("versions"), row) for row in rows)
    if not isinstance(design["baseline"], str):
        number = baseline_values(ctx, design)
        return [Comparison(sample.items, number, (), (), counts=True) for sample in own]
    samples = _sampled(ctx, design)
    if not samples:
        return [Comparison(sample.items, {}, (), (), counts=True) for sample in own]
    return [
        Comparison(
            match.sample.items,
            _values(match.baseline),
            tuple(run for _, _, run in match.baseline.items),
            match.stale,
            match.counts,
        )
        for match in matched(own, samples, declared(design.get("changes")))
    ]


def sentences(ctx: Context, experiment: ExperimentRow, compared: Sequence[Comparison]) -> list[str]:
    """Returns what a reader of the confidence should know of the versions, each sentence starting with `stale`.

    Args:
        experiment: whose prediction holds for the rows.
        compared: its `comparisons`, of rows that stand.
    """
    baseline = experiment.body["design"]["baseline"]
    said = []
    for each in compared:
        if not each.stale:
            continue
        runs = [str(row["run_id"]) for row in each.rows]
        hint = f"{RENEW}{baseline}"
        if each.counts:
            owner = each.rows[0]["experiment_id"]
            mine, theirs = _named(ctx, runs[0], each.stale), _named(ctx, each.against[0].id, each.stale)
            said.append(
                f"stale: {owner} ran on {mine}, its baseline {baseline} on {theirs}; {hint} (the difference may be due "
                f"to that change of {_listed(each.stale)})"
            )
        else:
            count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
            said.append(
                f"stale: {count} of {experiment.id} ({_few(runs)}) on other {_listed(each.stale)} than any run of "
                f"{baseline} counted for nothing; {hint}"
            )
    counting = [each for each in compared if each.counts]
    if len(counting) > 1:
        said.append(f"stale: the runs of {experiment.id} are of {len(counting)} versions: their mean counts")
    said += _of_baseline(ctx, experiment.body["design"], counting)
    return said


def _of_baseline(ctx: Context, design: DesignBody, counting: Sequence[Comparison]) -> list[str]:
    """Returns what is left out of the baseline since it is of another version."""
    if not isinstance(design["baseline"], str) or not counting:
        return []
    everything = [run for sample in _sampled(ctx, design) for _, _, run in sample.items]
    used = {run.id for each in counting for run in each.against}
    left = [run.id for run in everything if run.id not in used]
    renewed = ctx.need(EXPERIMENT, design["baseline"]).body.get("renewed_by", [])
    if not left or any(run.body["experiment_id"] in renewed for run in everything):
        return []  # that a baseline was run anew says by itself that its runs are of several versions
    were = "is" if len(left) == 1 else "are"
    return [
        f"stale: {len(left)} of {len(everything)} runs of the baseline {design['baseline']} ({_few(left)}) {were} of "
        f"another version and not pooled"
    ]


def _sampled(ctx: Context, design: DesignBody) -> list[Sample[_Sampled]]:
    """Returns the values of a baseline experiment by version."""
    found: list[_Sampled] = []
    baseline, metric = design["baseline"], design["metric"]
    if not isinstance(baseline, str) or metric is None:
        return []
    for id in parts_of(ctx, design):
        start = max((number for number, _, _ in found), default=0)
        for run in ctx.store.find(RUN, experiment_id=id):
            value = run.body["metrics"].get(metric)
            if run.body["status"] == "done" and value is not None and not _is_mute(run.body):
                found.append((start + run.body["replicate"], value, run))
    return samples_of((each[2].body.get("versions"), each) for each in found)


def parts_of(ctx: Context, design: DesignBody) -> list[str]:
    """Returns the experiments whose runs are a baseline's: itself, what renews it, and what extends either."""
    return pooled(ctx, design["baseline"]) if isinstance(design["baseline"], str) else []


def pooled(ctx: Context, baseline_id: str) -> list[str]:
    """Returns the same of a baseline by its id."""
    found = []
    for id in (baseline_id, *ctx.need(EXPERIMENT, baseline_id).body.get("renewed_by", [])):
        found += [id, *ctx.need(EXPERIMENT, id).body.get("extended_by", [])]
    return found


def root_of(ctx: Context, experiment: ExperimentRow) -> ExperimentRow:
    """Returns the baseline whose runs those of an experiment add to: what it extends or renews, else itself."""
    if extended := experiment.body.get("extends"):
        experiment = ctx.need(EXPERIMENT, extended)
    if renewed := experiment.body.get("renews"):
        experiment = ctx.need(EXPERIMENT, renewed)
    return experiment


def _is_mute(run: RunBody) -> bool:
    """Returns whether it weighs nothing: its seed was picked by hand, or it touched what judges it."""
    return bool(run["chosen_seed"] or run["tainted"])


def _values(sample: Sample[_Sampled]) -> Values:
    return {number: value for number, value, _ in sample.items}


def _named(ctx: Context, run_id: str, aspects: Sequence[str]) -> str:
    """Returns the version of a run, in the aspects that matter."""
    run = ctx.need(RUN, run_id).body
    versions: Mapping[str, object] = {**(run.get("versions") or {})}
    return " and ".join(
        f"code {_code(run)}" if name == "code" else f"{name} {str(versions.get(name)).rpartition(':')[2][:_SHOWN]}"
        for name in aspects
    )


def _code(run: RunBody) -> str:
    """Returns the code of a run for people: its commit, or what its program's content hashes to."""
    versions = run.get("versions")
    code, git = versions["code"] if versions else None, run["git"]
    if git["commit"]:
        changes = f" with changes ({str(code['tree'] if code else None)[:_SHOWN]})" if git["dirty"] else ""
        return f"{git['commit'][:_SHOWN]}{changes}"
    programs = code["programs"] if code else {}
    return ", ".join(f"{path} {digest[:_SHOWN]}" for path, digest in [*programs.items()][:_LISTED]) or "unknown"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


def _few(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_LISTED]) + (f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else "")
