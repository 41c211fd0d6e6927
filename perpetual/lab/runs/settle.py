"""Recording the end of a run: its final state, debit, metrics, evidence and fold, in one transaction. Floor 2.

How it ended is what its supervisor's exit record says; words of its logs are noted beside it and decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from perpetual.errors import PerpetualError
from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import scheduler_for
from perpetual.lab.evidence.confidence import add_evidence, refold, refold_users_of
from perpetual.lab.kinds import EVIDENCE, EXPERIMENT, RUN, ExperimentRow, LabTransaction, RunRow
from perpetual.lab.ledger.experiments import ACCEPTED, ExperimentRecords
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.provenance.captures import FILE, kept_of, taint_of
from perpetual.lab.runs.launch import try_again
from perpetual.lab.runs.measure import did_you_mean, measure
from perpetual.lab.runs.symptoms import OUT_OF_MEMORY, symptoms_of
from perpetual.lab.runs.time_limit import is_told
from perpetual.records import LIVE, Json, to_json
from perpetual.science.judgement import stopped_by_rule
from perpetual.slots.analyser import MetricValue
from perpetual.slots.scheduler import Sighting
from perpetual.toolkit.item_scores import pack
from perpetual.toolkit.units import posix_of, shown_hours

if TYPE_CHECKING:
    from perpetual.lab.bodies import ArtifactBody, NewEvidence

PREEMPTED = "preempted"  # kind of an annotation, and cause of a further attempt

__all__ = ["Ending", "found_end", "refold_cautions", "settle", "verdict_of"]


class Ending(NamedTuple):
    """How a run ended, and what was found of it."""

    seen: Sighting
    status: str
    reason: str | None
    metrics: Mapping[str, MetricValue] = MappingProxyType({})
    annotations: Sequence[Mapping[str, object]] = ()
    taint: Sequence[str] = ()  # why what it measured weighs nothing
    artifacts: Sequence[ArtifactBody] = ()


def found_end(ctx: Context, run: RunRow, seen: Sighting) -> Ending:
    """Returns the end of a run that is over, with all that its folder tells; nothing is written."""
    status, reason = verdict_of(seen)
    _fetch(ctx, run, seen)
    metrics, remarks = measure(ctx, run, seen) if seen.state == "ended" else ({}, [])
    status, reason = _by_rule(ctx, run, seen, metrics, status, reason)
    symptoms: list[Json] = []
    if status != "done":
        by_us = bool(run.body.get("cancelled_by")) or _ended_at_limit(run)
        symptoms, faults = symptoms_of(ctx, run, seen, status, by_us=by_us)
        remarks += faults
    if seen.state == "ended" and status == "killed" and not run.body.get("cancelled_by") and not _ended_at_limit(run):
        text = "ended from outside, by no command of this lab: by the machine or its cluster"
        remarks.append({"kind": PREEMPTED, "text": text, "source": "exit record"})
    taint, noted, artifacts = taint_of(ctx, run)
    if seen.state == "ended" and seen.reason == "exited" and seen.detail:  # where else it is in the reason
        remarks.append({"kind": "leftover", "text": seen.detail, "source": "exit record"})
    if seen.left:
        pids = ", ".join(map(str, seen.left))
        text = f"processes that it left still run ({pids}): perpetual kill {run.id} ends them; no retry starts before"
        remarks.append({"kind": "leftover", "text": text, "source": "processes"})
    remarks += [{"kind": "tainted", "text": why, "source": FILE} for why in taint]
    remarks += [{**note} for note in noted]
    return Ending(seen, status, reason, metrics, [*symptoms, *remarks], taint, artifacts)


def _fetch(ctx: Context, run: RunRow, seen: Sighting) -> None:
    """Has the logs of a run that is over brought here; raises TransientError where they will come later."""
    if seen.started_at is None and run.body["started_at"] is None:
        return  # it never wrote
    try:
        scheduler_for(ctx, run).fetch_logs(run.body["native_id"], RunRecords(ctx).log_dir(run.id))
    except PerpetualError:
        if seen.state == "ended":  # those of a lost run may be gone for good
            raise


def verdict_of(seen: Sighting) -> tuple[str, str | None]:
    """Returns the run's final status and the reason shown beside it."""
    if seen.state != "ended":
        detail = seen.detail or "its supervisor died without an exit record"
        left = f"; processes that it left still run: {', '.join(map(str, seen.left))}" if seen.left else ""
        return "lost", detail + left
    if seen.reason == "exited":
        return ("done", None) if seen.exit_code == 0 else ("failed", f"exit code {seen.exit_code}")
    if seen.reason in ("timeout", "killed"):
        return seen.reason, seen.detail
    if seen.reason == "exec_failed":
        return "failed", seen.detail or "the command could not be executed"
    return "failed", f"ended by signal {seen.signal}" + (f": {seen.detail}" if seen.detail else "")


def _by_rule(
    ctx: Context, run: RunRow, seen: Sighting, metrics: Mapping[str, MetricValue], status: str, reason: str | None
) -> tuple[str, str | None]:
    """Returns `done` for a run that its declared stopping rule ended, once it had shown its metric; else as it was."""
    design = ctx.need(EXPERIMENT, run.body["experiment_id"]).body["design"]
    rule, found = design.get("stop_rule"), metrics.get(design["metric"] or "")
    by = run.body.get("cancelled_by") or None
    if found is None or found.value is None or not stopped_by_rule(rule, status, seen.exit_code, by):
        return status, reason
    what, _, limit = str(rule).partition(":")
    if what == "wall" and (seen.duration_s or 0.0) < float(limit):  # it was silent for too long
        return status, reason
    return "done", f"stopped by its rule {rule}: its last {design['metric']} counts"


def settle(ctx: Context, tx: LabTransaction, run: RunRow, end: Ending) -> tuple[dict[str, object] | None, str | None]:
    """Writes a run's end with all that follows from it; answers the debit and the evidence it made, if any."""
    ctx, seen, status, metrics = ctx, end.seen, end.status, end.metrics
    experiment = tx.get(EXPERIMENT, run.body["experiment_id"])
    assert experiment is not None, run.id
    design = experiment.body["design"]
    was_lost = run.body["status"] == "lost"
    if seen.gpus:
        run = RunRecords(ctx).change(tx, run, {"gpus": [*seen.gpus]})
    gpu_hours, run_hours = _hours(ctx, run, seen)
    reason = _with_bound(run, end.reason, run_hours) if status == "lost" else end.reason
    values = {name: found.value for name, found in sorted(metrics.items())}
    value = values.get(design["metric"]) if design["metric"] else None
    if status == "done" and design["metric"] and value is None:
        there = design["metric"] in values
        reason = f"no_metric: {design['metric']} " + (
            f"is NaN, infinite, beyond 1e100 or printed with a comma ({metrics[design['metric']].source})"
            if there
            else f"was not found in the run's output{did_you_mean(design['metric'], values)}"
        )
    elif status == "done" and end.taint:
        reason = "tainted: what it measured weighs nothing"
    elif status == "killed" and (early := run.body.get("stopped")) is not None:
        reason = f"stopped early at step {early['step']:g} by {early['by']}"
    # Of a launcher that has not come to noting it.
    late = kept_of(RunRecords(ctx).log_dir(run.id)).noted(run.body) if run.body["status"] == "launching" else {}
    run = RunRecords(ctx).change(
        tx,
        run,
        {
            **late,
            "status": status, "pending": False, "reason": reason, "pid": seen.pid or run.body["pid"],
            "host": seen.host or run.body.get("host"), "started_at": seen.started_at or run.body["started_at"],
            "ended_at": seen.ended_at or ctx.now(), "duration_s": seen.duration_s, "exit_code": seen.exit_code,
            "signal": seen.signal, "gpu_hours": gpu_hours, "run_hours": run_hours, "metrics": values,
            "metric_sources": {name: found.source for name, found in sorted(metrics.items())},
            **_items(metrics.get(design["metric"] or "")),
            "max_rss_bytes": seen.max_rss_bytes, "cpu_s": seen.cpu_s,
            "annotations": [*late.get("annotations", run.body.get("annotations", ())), *end.annotations],
            "tainted": run.body["tainted"] or bool(end.taint), "artifacts": [*end.artifacts],
        },
    )  # fmt: skip
    if end.taint:
        ctx.emit(tx, "run_tainted", run.id, {"experiment_id": experiment.id, "reasons": [*end.taint]})
    book = Budget(ctx).correct if was_lost or run.body.get("found_again") else Budget(ctx).settle
    debit = book(tx, run.body, gpu_hours=gpu_hours, run_hours=run_hours)
    evidence = _evidence(ctx, tx, run, experiment)
    ExperimentRecords(ctx).fold(tx, experiment.id)
    root = ctx.need(EXPERIMENT, experiment.body.get("extends") or experiment.id)
    shared = [ctx.need(EXPERIMENT, id) for id in root.body.get("shared_by", ())]
    found = [(experiment, evidence), *((each, _evidence(ctx, tx, run, each)) for each in shared)]
    for claim in (each for each, row in found if row is None):
        refold_cautions(ctx, tx, claim)
    refold_users_of(ctx, tx, experiment.id)
    # A failure that is a result needs no further attempt; a lost run had its own.
    for cause in _causes(run) if evidence is None and not was_lost else ():
        if try_again(ctx, tx, run, cause) is not None:
            break
    return (to_json(debit) if debit else None), evidence


def refold_cautions(ctx: Context, tx: LabTransaction, experiment: ExperimentRow) -> None:
    """Derives anew what is said of runs without a result beside the hypothesis of their experiment."""
    if experiment.body["hypothesis_id"] is not None and experiment.body["design"]["claim"] is not None:
        refold(ctx, tx, experiment.body["hypothesis_id"])


def _hours(ctx: Context, run: RunRow, seen: Sighting) -> tuple[float, float]:
    """Returns (GPU-hours, run-hours) that a run is charged.

    The duration of a lost run is unknown. It is charged until it was missed, and never more than was reserved
    for it; all of that where the clock cannot be right, because it says that the run has not started yet.
    """
    if seen.duration_s is not None:
        return RunRecords(ctx).hours(run, seen.duration_s)
    started = seen.started_at or run.body["started_at"]
    held = Budget(ctx).reserved_for(run.id)
    if started is None or held is None:
        return 0.0, 0.0
    since_s = ctx.clock().timestamp() - posix_of(started)
    gpu_hours, run_hours = RunRecords(ctx).hours(run, since_s)
    return held if since_s < 0 else (min(gpu_hours, held[0]), min(run_hours, held[1]))


def _with_bound(run: RunRow, reason: str | None, run_hours: float) -> str:
    """Returns why a run was lost, with what it is charged: that is a bound, and is called one."""
    said = [str(reason)]
    said += [f"cancelled by {run.body['cancelled_by']}"] if run.body.get("cancelled_by") else []
    said += ["ended at its wall limit"] if _ended_at_limit(run) else []
    return "; ".join([*said, f"charged {shown_hours(run_hours)}, a bound: how long it lasted is not known"])


def _ended_at_limit(run: RunRow) -> bool:
    return is_told(run.body) and run.body.get("on_overrun") != "warn"


def _causes(run: RunRow) -> list[str]:
    """Returns the causes for which an ended run may be retried: none where a caller or a limit has ended it."""
    if run.body.get("cancelled_by") or _ended_at_limit(run):
        return []
    causes = ["lost"] if run.body["status"] == "lost" else []
    seen = {item["kind"] for item in run.body["annotations"]}
    if run.body["status"] == "killed":
        return [PREEMPTED] if PREEMPTED in seen else causes
    return [*causes, OUT_OF_MEMORY] if OUT_OF_MEMORY in seen else causes


def _items(found: MetricValue | None) -> dict[str, object]:
    """Returns the packed scores of the declared metric's test items, where the run gave any."""
    packed = pack(found.items) if found is not None and found.items is not None else None
    return {} if packed is None else {"items": packed}


def _evidence(ctx: Context, tx: LabTransaction, run: RunRow, experiment: ExperimentRow) -> str | None:
    """Returns the measured row of a finished run; one per run, claim and metric, none without a hypothesis.

    Without a value it is that of a failed run, where that it runs at all is what is claimed. A claim on another
    experiment's runs counts once it was approved, which is before they started.
    """
    body, status = experiment.body, run.body["status"]
    metric = body["design"]["metric"]
    value = run.body["metrics"].get(metric) if metric else None
    informs = (status == "done" and value is not None) or (status == "failed" and body["design"].get("on_crash"))
    if not informs or body["hypothesis_id"] is None or body["design"]["claim"] is None:
        return None
    if body["design"].get("runs_of") and not (body["status"] in ACCEPTED and ctx.trust.counts(experiment.id, body)):
        return None
    if any(row.body["kind"] == "measured" and row.body.get("metric") == metric
           and row.body["hypothesis_id"] == body["hypothesis_id"]
           for row in tx.find(EVIDENCE, run_id=run.id)):  # fmt: skip
        return None
    overtaken = _overtaken_by(tx, run)
    weightless = run.body["chosen_seed"] or run.body["tainted"] or overtaken is not None
    row: NewEvidence = {
        "kind": "measured", "experiment_id": experiment.id, "run_id": run.id, "metric": metric, "value": value,
        "status": status, "weight": 0.0 if weightless else 1.0, "replicate": run.body["replicate"],
        "seed": run.body["seed"], "spec_hash": run.body["spec_hash"],
        "source": run.body["metric_sources"].get(metric or ""), "reason": _why_weightless(run) or overtaken,
    }  # fmt: skip
    if run.body.get("versions"):
        row["versions"] = run.body["versions"]
    return add_evidence(ctx, tx, body["hypothesis_id"], row)


def _overtaken_by(tx: LabTransaction, run: RunRow) -> str | None:
    """Returns why a run that was taken for lost counts for nothing.

    Another attempt was made meanwhile, and may count.
    """
    if not any(item["kind"] == "late" for item in run.body.get("annotations", ())):
        return None
    for other in tx.find(RUN, experiment_id=run.body["experiment_id"]):
        is_other = other.body["replicate"] == run.body["replicate"] and other.id != run.id
        if is_other and (other.body["status"] in LIVE or tx.find(EVIDENCE, run_id=other.id)):
            return f"{other.id} is a further attempt of it, made while it was taken for lost"
    return None


def _why_weightless(run: RunRow) -> str | None:
    """Returns why what a run measured counts for nothing, if it does."""
    if run.body["tainted"]:
        remarks = [item["text"] for item in run.body.get("annotations", ()) if item["kind"] == "tainted"]
        return "tainted: " + "; ".join(remarks)
    return "the seed was picked by hand" if run.body["chosen_seed"] else None
