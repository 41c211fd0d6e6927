"""Warnings beside a confidence that no weight can say: runs left out of it, and departures from it.

Runs that were ended early, predictions that differ from the hypothesis's own, looks that were taken beforehand: none of
it is evidence, and each of it can make evidence look better than it is. Folded beside the confidence, shown with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.lab.context import Context
from perpetual.lab.evidence.early import stopped_runs, where
from perpetual.lab.evidence.stale import parts_of
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, HypothesisRow, RunRow
from perpetual.lab.ledger.experiments import ExperimentRecords, design_key, sources_of
from perpetual.lab.permissions import is_agent
from perpetual.records import ENDED
from perpetual.science.judgement import drifts
from perpetual.science.rates import luck_of_rate

if TYPE_CHECKING:
    from perpetual.lab.bodies import DraftBody, FoldRow, SeenBefore
    from perpetual.lab.evidence.stale import Comparison

__all__ = ["assumptions", "cautions", "lost_values", "number_of", "seen_before"]

_LISTED = 3
_WITHOUT = {"done": "without the metric"}


def cautions(ctx: Context, hypothesis: HypothesisRow, rows: Sequence[FoldRow]) -> list[str]:
    """Returns sentences to be shown with the hypothesis's confidence, given its ledger's rows; most are shown none.

    Each begins with the code of its caution.
    """
    measured = {run for row in rows if row["kind"] == "measured" and (run := row["run_id"]) is not None}
    claims = [
        item
        for item in ctx.store.find(EXPERIMENT, hypothesis_id=hypothesis.id)
        if item.body["design"]["claim"] is not None and item.body["runs"]
    ]
    ended = {item.id: [run for id in sources_of(ctx, item) for run in _ended(ctx, id)] for item in claims}
    tried = [item for item in claims if ended[item.id]]
    early = {
        run.id: run
        for item in claims
        for ids in (sources_of(ctx, item), parts_of(ctx, item.body["design"]))
        for run in stopped_runs(ctx, ids, item.body["design"]["metric"])
    }
    found = _left_out([run for runs in ended.values() for run in runs if run.id not in early], measured, "runs")
    found += _stopped([*early.values()])
    found += _of_baselines(ctx, tried, early)
    found += _killed(_killed_by_agents(ctx, hypothesis.id))
    weighed = [item for item in tried if any(run.id in measured for run in ended[item.id])]
    found += _few([text for item in weighed for text in _departures(hypothesis, item)])
    found += _few([
        f"seen_before: the command of {item.id} had been measured before: {_named(item.body['seen_before'])}"
        for item in weighed if item.body.get("seen_before")
    ])  # fmt: skip
    found += _few([
        f"picked_baseline: {item.id} is compared with {item.body['design']['baseline']}, and "
        f"{_named(item.body['passed_over'])} had measured the same" for item in weighed if item.body.get("passed_over")
    ])  # fmt: skip
    found += _shared_baselines(weighed)
    confirming = {design_key(item.body) for item in weighed if item.body["design"].get("confirmation")}
    if len(confirming) > 1:
        found.append(
            f"confirmation: {len(confirming)} designs are confirmations: data is kept back only until it is looked at"
        )
    if hypothesis.body.get("restated"):
        found.append("statement_changed: its statement was changed after evidence had come in")
    return found


def _killed_by_agents(ctx: Context, hypothesis_id: str) -> list[tuple[RunRow, str]]:
    """Runs that an agent ended once they had shown the metric, with that metric: of its claims and of their baselines.

    An agent that reads the logs and ends the runs that look bad selects. What those would have said is not known; each
    counts at the worst value seen.
    """
    found: dict[str, tuple[RunRow, str]] = {}
    for item in ctx.store.find(EXPERIMENT, hypothesis_id=hypothesis_id):
        design = item.body["design"]
        metric = design["metric"]
        if design["claim"] is None or metric is None:
            continue
        for source in (*sources_of(ctx, item), *parts_of(ctx, design)):
            for run in ctx.store.find(RUN, experiment_id=source):
                if _was_seen_and_killed(run, metric):
                    found[run.id] = (run, metric)
    return [*found.values()]


def _was_seen_and_killed(run: RunRow, metric: str) -> bool:
    return (
        is_agent(run.body.get("cancelled_by") or "")
        and run.body["status"] in ENDED
        and run.body["status"] != "done"
        and metric in run.body["metrics"]
    )


def _killed(killed: Sequence[tuple[RunRow, str]]) -> list[str]:
    """Returns what is said of runs that an agent killed after they had shown something."""
    if not killed:
        return []
    by = sorted({str(run.body["cancelled_by"]) for run, _ in killed})
    metrics = sorted({metric for _, metric in killed})
    return [
        f"killed_runs: {_named([run.id for run, _ in killed])} {'were' if len(killed) > 1 else 'was'} killed by "
        f"{_named(by)} after {_named(metrics)} was printed: counted at the worst value seen"
    ]


def _stopped(runs: Sequence[RunRow]) -> list[str]:
    """Returns what is said of runs that were stopped early."""
    if not runs:
        return []
    step, by = where(runs[0])["step"], sorted({where(run)["by"] for run in runs})
    return [
        f"stopped_runs: {_named([run.id for run in runs])} {'were' if len(runs) > 1 else 'was'} stopped early by "
        f"{_named(by)}: what complete runs did after step {step:.10g} stands for their last values"
    ]


def _few(texts: list[str]) -> list[str]:
    """Returns the first of what is said alike of many experiments, and how many more there are."""
    left = len(texts) - _LISTED
    return [*texts[:_LISTED], f"and the same of {left} more experiments"] if left > 1 else texts


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_LISTED]) + (f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else "")


def _ended(ctx: Context, experiment_id: str) -> list[RunRow]:
    """Returns its runs that have started and ended; a run that was taken from the queue had shown nothing."""
    runs = ctx.store.find(RUN, experiment_id=experiment_id)
    return [run for run in runs if run.body["status"] in ENDED and run.body["started_at"] is not None]


def _left_out(runs: Sequence[RunRow], measured: set[str], name: str) -> list[str]:
    """Returns how many runs gave no value: ending runs that look bad early biases the sample.

    And how many weigh nothing.
    """
    without = Counter(_WITHOUT.get(run.body["status"], run.body["status"]) for run in runs if run.id not in measured)
    mute = Counter(
        "tainted" if run.body["tainted"] else "with a seed picked by hand"
        for run in runs
        if run.id in measured and _is_mute(run)
    )
    found = []
    if without:
        how, count = _counts(without), without.total()
        found.append(f"lost_runs: {count} of {len(runs)} {name} gave no result ({how})")
    if mute:
        weigh = "weigh" if mute.total() > 1 else "weighs"
        found.append(f"weightless_runs: {mute.total()} of {len(runs)} {name} {weigh} nothing ({_counts(mute)})")
    return found


def _is_mute(run: RunRow) -> bool:
    """Returns whether what the run measured weighs nothing."""
    return bool(run.body["tainted"] or run.body["chosen_seed"])


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counter.items()))


def _of_baselines(ctx: Context, tried: Sequence[ExperimentRow], early: Collection[str]) -> list[str]:
    """Returns the same of what the claims are compared with, extensions included: a baseline can be selected too."""
    found = []
    metrics = {(item.body["design"]["baseline"], item.body["design"]["metric"]): None for item in tried}
    for id, metric in metrics:
        if isinstance(id, str) and metric is not None:
            further = ctx.need(EXPERIMENT, id).body.get("extended_by", [])
            runs = [run for one in (id, *further) for run in _ended(ctx, one) if run.id not in early]
            measured = {
                run.id for run in runs
                if run.body["status"] == "done" and run.body["metrics"].get(metric) is not None
            }  # fmt: skip
            found += _left_out(runs, measured, f"runs of the baseline {id}")
    return found


def _departures(hypothesis: HypothesisRow, experiment: ExperimentRow) -> list[str]:
    """Returns where an experiment claims something else than its hypothesis says."""
    said: Mapping[str, object] = {**hypothesis.body["prediction"]}
    claimed: Mapping[str, object] = {**experiment.body["design"]}
    is_like = claimed.get("proxy_of") or claimed.get("confirmation")  # which are compared with like
    return [
        f"other_claim: {experiment.id} claims {name} {claimed[name]} where {hypothesis.id} predicts {said[name]}"
        for name in ("metric", "direction", "mde", *(() if is_like else ("baseline",)))
        if None not in (said.get(name), claimed[name]) and said[name] != claimed[name]
    ]


def _shared_baselines(weighed: Sequence[ExperimentRow]) -> list[str]:
    """Baselines that were run and stand under several designs, whose factors are multiplied as if independent."""
    users: dict[str, set[str]] = {}
    for item in weighed:
        if isinstance(item.body["design"]["baseline"], str):
            users.setdefault(item.body["design"]["baseline"], set()).add(design_key(item.body))
    return [
        f"shared_baseline: {len(keys)} designs share the baseline {id} and its luck: they count as one comparison"
        for id, keys in users.items()
        if len(keys) > 1
    ]


def lost_values(
    ctx: Context, experiment_ids: Sequence[str], metric: str | None, stopped: Collection[str] = ()
) -> list[float | None]:
    """Returns, for each replicate that ended without a result, the last value that it had shown, or None.

    A replicate that was run again and gave one is not lost, and neither is one whose run goes on.

    Args:
        stopped: runs that count otherwise, since they were stopped early.
    """
    found: list[float | None] = []
    for id in experiment_ids:
        replicates: dict[int, list[RunRow]] = {}
        for run in ctx.store.find(RUN, experiment_id=id):
            replicates.setdefault(run.body["replicate"], []).append(run)
        for runs in replicates.values():
            ended = [run for run in runs if run.body["status"] in ENDED and run.body["started_at"] is not None]
            has_value = any(run.body["status"] == "done" and run.body["metrics"].get(metric or "") is not None
                            for run in ended)  # fmt: skip
            if any(run.id in stopped for run in ended):
                continue
            if ended and not has_value and all(run.body["status"] in ENDED for run in runs):
                found.append(ended[-1].body["metrics"].get(metric or ""))
    return found


def assumptions(ctx: Context, experiment: ExperimentRow, compared: Sequence[Comparison], *, is_only: bool) -> list[str]:
    """Returns what the verdict takes for granted of a design, since the record cannot see it.

    Args:
        experiment: whose prediction holds.
        compared: its comparisons that count.
        is_only: whether no other design was measured.
    """
    design, found = experiment.body["design"], []
    baseline = design["baseline"]
    if isinstance(baseline, float | int) and design.get("baseline_runs") is None:
        found.append(f"typed_baseline: {baseline:g} is taken as exact; --baseline-runs N says how many runs it was")
    if design["kind"] == "gaussian" and any(len(each.against) == 1 for each in compared):
        found.append(f"lone_baseline: the one run of {baseline} is taken to be as noisy as those of {experiment.id}")
    if rule := design.get("stop_rule"):
        found.append(f"stop_rule: a run that ends by {rule} counts at its last value, in both arms alike")
    items = design.get("items")
    values = [value for each in compared for row in each.rows if (value := row["value"]) is not None]
    has_scores = any(
        ctx.need(RUN, id).body.get("items") for each in compared for row in each.rows if (id := row["run_id"])
    )
    if has_scores:
        pass  # the luck of the items is known from their scores
    elif design["kind"] == "gaussian" and items is None:
        found.append("one_test_set: the choice of test items is not counted as chance; --items N counts it")
    elif items is not None and values and luck_of_rate(values, items) is None:
        found.append("one_test_set: --items counts the luck of rates and percentages, which these values are not")
    pairs = any(
        {row.get("seed") for row in each.rows} & {run.body["seed"] for run in each.against} for each in compared
    )
    if design["kind"] == "gaussian" and is_only and not pairs:
        found.append("correlated_seeds: runs of one implementation are taken as independent, on different seeds")
    for each in compared:
        if drifts([number_of(row["run_id"]) for row in each.rows], [run.number for run in each.against]):
            found.append(f"drift: runs of {experiment.id} and of {baseline} did not alternate; no drift is assumed")
    return found


def number_of(run_id: str | None) -> float | None:
    """Returns the place of a run in the order of launches."""
    return None if run_id is None else float(run_id[1:])


def seen_before(ctx: Context, draft: DraftBody) -> SeenBefore:
    """Returns what had been measured when a claim was proposed and does not count.

    The proposer may have chosen by it.

    `seen_before`: experiments of the same command and settings that are not pooled with it, since they are another
    hypothesis's or none's. `passed_over`: those that measured the same as its baseline and are left out of it.
    """
    design = draft["design"]
    if design["claim"] is None or draft["command"] is None:
        return {}
    found: SeenBefore = {}
    seen = [
        item.id
        for item in _alike(ctx, draft, {design["baseline"]}, design["metric"])
        if item.body["hypothesis_id"] != draft["hypothesis_id"] or item.body["design"]["claim"] is None
    ]
    if seen:
        found["seen_before"] = seen
    if isinstance(design["baseline"], str):
        baseline = ctx.need(EXPERIMENT, design["baseline"])
        further = [*baseline.body.get("extended_by", []), *baseline.body.get("renewed_by", [])]
        but: set[object] = {baseline.id, baseline.body.get("extends"), baseline.body.get("renews"), *further}
        passed = [item.id for item in _alike(ctx, baseline.body, but, design["metric"])]
        if passed:
            found["passed_over"] = passed
    return found


def _alike(ctx: Context, body: DraftBody, but: set[object], metric: str | None) -> list[ExperimentRow]:
    """Returns other experiments with the same command and settings of which a run has shown the metric."""
    return [
        item
        for item in ExperimentRecords(ctx).alike.of(body)
        if item.id not in but
        and item.body["runs"].get("done")
        and "approved_hash" in item.body  # adopted work ran elsewhere, and is shown as such
        # What weighs nothing, as an A/A test's runs, passes.
        and any(not _is_mute(run) and metric in run.body["metrics"] for run in _ended(ctx, item.id))
    ]
