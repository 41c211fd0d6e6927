"""Reconciling: the record catches up with what happened. One transaction per run; doing it twice is doing it once.

A finished run becomes its final state, its debit, its metrics, its evidence and the fold of its hypothesis, all or
nothing. How it ended is what its supervisor's exit record says; log words decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perpetual.errors import CorruptData, TransientError
from perpetual.lab.context import Context
from perpetual.lab.flows import Desks
from perpetual.lab.flows.analyse import analyse as put_into_words
from perpetual.lab.flows.fold import add_evidence, refold_users_of
from perpetual.lab.flows.start import advance_queue, fold_experiment
from perpetual.lab.runs import RunLedger
from perpetual.records import to_json
from perpetual.slots.analyser import MetricReader, MetricValue, RunFolder
from perpetual.slots.scheduler import Scheduler, Sighting
from perpetual.slots.store import Document, Transaction
from perpetual.toolkit import platform
from perpetual.toolkit.steps import step
from perpetual.toolkit.units import LONGEST_S, finite, posix_of

__all__ = ["kill", "look", "scan"]

_NEVER = "its launcher died before the command was started; it waits to be started again"


def record(desks: Desks, *, analyse: bool) -> dict[str, Any]:
    """`scan`, then (if `analyse`, and the methodology's `auto_analyze`) words and notes, then what git still lacks."""
    answer = scan(desks)
    if analyse and desks.ctx.config.methodology["auto_analyze"]:
        put_into_words(desks)
    desks.notes.flush()
    return answer


def scan(desks: Desks) -> dict[str, Any]:
    """Looks at every live run and records what has changed; then starts what was waiting and has room.

    Returns:
        `{changes: [{run_id, experiment_id, from, to, reason}], debits: [...], evidence: [...],
        problems: [{run_id, code, message}]}`; a run that cannot be looked at stays as it is and holds up no other.
    """
    answer: dict[str, list[Any]] = {"changes": [], "debits": [], "evidence": [], "problems": []}
    for run in desks.runs.live():
        if run.body["status"] == "queued":
            continue
        try:
            _look(desks, run, answer)
        except (CorruptData, TransientError) as problem:  # of its folder, or of an engine out of reach
            answer["problems"].append({"run_id": run.id, "code": problem.code, "message": problem.message})
    for run in advance_queue(desks):
        answer["changes"].append(_change(run, "queued"))
    return answer


def kill(desks: Desks, run_id: str, *, grace_s: float | None = None, wait_s: float = 5.0) -> Document:
    """Ends a run and its whole process tree; says `killed` only once the processes are gone.

    Answers the run as it is after at most `grace + wait_s` seconds. Raises Conflict if it has ended.
    """
    from perpetual.errors import Conflict

    ctx = desks.ctx
    run = ctx.need("run", run_id)
    grace = ctx.config.methodology["kill_grace_s"] if grace_s is None else grace_s
    finite(grace, "the grace", minimum=0.0, maximum=LONGEST_S)
    if run.body["status"] == "queued":
        with ctx.store.transaction() as tx:
            run = ctx.need("run", run.id)
            if run.body["status"] == "queued":
                _settle(desks, tx, run, Sighting("ended", reason="killed", duration_s=0.0), {}, "killed",
                        f"taken from the queue by {ctx.actor}")  # fmt: skip
                return ctx.need("run", run.id)
    if run.body["status"] not in ("launching", "running"):
        raise Conflict(f"{run.id} is {run.body['status']}; there is nothing to kill")
    scheduler: Scheduler = ctx.part("scheduler")
    log_dir = desks.runs.log_dir(run.id)
    scheduler.cancel(run.body["native_id"], log_dir, by=ctx.actor, grace_s=grace)
    scheduler.wait(run.body["native_id"], log_dir, grace + wait_s)
    _look(desks, run, {"changes": [], "debits": [], "evidence": []})
    return ctx.need("run", run.id)


def look(desks: Desks, run_id: str) -> tuple[str, str | None]:
    """A run's status and reason as its supervisor has them now; nothing is recorded."""
    run = desks.ctx.need("run", run_id)
    if run.body["status"] not in ("launching", "running"):
        return run.body["status"], run.body["reason"]
    scheduler: Scheduler = desks.ctx.part("scheduler")
    seen = scheduler.poll(run.body["native_id"], desks.runs.log_dir(run.id))
    if seen.state == "running" or (seen.state == "absent" and run.body["status"] == "launching"):
        return run.body["status"], None
    return _verdict(seen)


def _look(desks: Desks, run: Document, answer: dict[str, list[Any]]) -> None:
    scheduler: Scheduler = desks.ctx.part("scheduler")
    log_dir = desks.runs.log_dir(run.id)
    seen = scheduler.poll(run.body["native_id"], log_dir)
    if seen.state == "running":
        if run.body["status"] == "launching":
            _adopt(desks, run, seen, answer)
        return
    if seen.state == "absent" and run.body["status"] == "launching":
        _back_to_queue(desks, run, answer)
        return
    step("scan:ended")
    metrics = _metrics(desks, run, seen) if seen.state == "ended" else {}
    step("scan:measured")
    status, reason = _verdict(seen)
    with desks.ctx.store.transaction() as tx:
        fresh = desks.ctx.need("run", run.id)
        if fresh.body["status"] not in ("launching", "running"):
            return  # another process was quicker
        before = fresh.body["status"]
        debit, evidence = _settle(desks, tx, fresh, seen, metrics, status, reason)
        step("scan:evidence")
        after = desks.ctx.need("run", run.id)
    step("scan:settled")
    answer["changes"].append(_change(after, before))
    if debit is not None:
        answer["debits"].append(debit)
    if evidence is not None:
        answer["evidence"].append(to_json(desks.evidence.get(evidence)))


def _change(run: Document, before: str) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "experiment_id": run.body["experiment_id"],
        "from": before,
        "to": run.body["status"],
        "reason": run.body["reason"],
    }


def _adopt(desks: Desks, run: Document, seen: Sighting, answer: dict[str, list[Any]]) -> None:
    """Takes over a run whose launcher died between starting it and noting so."""
    if _launcher_lives(run) or seen.started_at is None:  # a supervisor that has started nothing yet may still fail
        return
    with desks.ctx.store.transaction() as tx:
        fresh = desks.ctx.need("run", run.id)
        if fresh.body["status"] == "launching":
            values = {"status": "running", "pid": seen.pid, "started_at": seen.started_at}
            answer["changes"].append(_change(desks.runs.change(tx, fresh, values), "launching"))


def _back_to_queue(desks: Desks, run: Document, answer: dict[str, list[Any]]) -> None:
    """Nothing of it ever ran: it waits again, unless its launcher is just about to start it."""
    if _launcher_lives(run):
        return
    with desks.ctx.store.transaction() as tx:
        fresh = desks.ctx.need("run", run.id)
        if fresh.body["status"] == "launching":
            values = {"status": "queued", "reason": _NEVER, "gpus": []}
            answer["changes"].append(_change(desks.runs.change(tx, fresh, values), "launching"))


def _launcher_lives(run: Document) -> bool:
    launcher = run.body.get("launcher")
    return launcher is not None and platform.is_alive(platform.Identity(*launcher))


def _verdict(seen: Sighting) -> tuple[str, str | None]:
    """The run's final status and the reason shown beside it."""
    if seen.state != "ended":
        return "lost", seen.detail or "its supervisor died without an exit record"
    if seen.reason == "exited":
        return ("done", None) if seen.exit_code == 0 else ("failed", f"exit code {seen.exit_code}")
    if seen.reason in ("timeout", "killed"):
        return seen.reason, seen.detail
    if seen.reason == "exec_failed":
        return "failed", seen.detail or "the command could not be executed"
    return "failed", f"ended by signal {seen.signal}"


def _settle(
    desks: Desks,
    tx: Transaction,
    run: Document,
    seen: Sighting,
    metrics: Mapping[str, MetricValue],
    status: str,
    reason: str | None,
) -> tuple[dict[str, Any] | None, str | None]:
    """Writes a run's end with all that follows from it; answers the debit and the evidence it made, if any."""
    ctx = desks.ctx
    experiment = tx.get("experiment", run.body["experiment_id"])
    assert experiment is not None, run.id
    design = experiment.body["design"]
    duration_s = seen.duration_s
    if duration_s is None and run.body["started_at"]:  # a lost run is charged until it was missed, as we know no better
        duration_s = max(0.0, ctx.clock().timestamp() - posix_of(run.body["started_at"]))
    gpu_hours, run_hours = desks.runs.hours(run, duration_s or 0.0)
    values = {name: found.value for name, found in sorted(metrics.items())}
    value = values.get(design["metric"]) if design["metric"] else None
    if status == "done" and design["metric"] and value is None:
        there = design["metric"] in values
        reason = f"no_metric: {design['metric']} " + (
            f"is not a finite number ({metrics[design['metric']].source})"
            if there
            else "was not found in the run's output"
        )
    run = desks.runs.change(
        tx,
        run,
        {
            "status": status,
            "reason": reason,
            "pid": seen.pid or run.body["pid"],
            "started_at": seen.started_at or run.body["started_at"],
            "ended_at": seen.ended_at or ctx.now(),
            "duration_s": duration_s,
            "exit_code": seen.exit_code,
            "signal": seen.signal,
            "gpu_hours": gpu_hours,
            "run_hours": run_hours,
            "metrics": values,
            "metric_sources": {name: found.source for name, found in sorted(metrics.items())},
            "max_rss_bytes": seen.max_rss_bytes,
            "cpu_s": seen.cpu_s,
        },
    )
    debit = desks.budget.settle(tx, run.body, gpu_hours=gpu_hours, run_hours=run_hours)
    evidence = _evidence(desks, tx, run, experiment, value) if status == "done" and value is not None else None
    fold_experiment(desks, tx, experiment.id)
    if value is not None:
        refold_users_of(desks, tx, experiment.id)
    return (to_json(debit) if debit else None), evidence


def _evidence(desks: Desks, tx: Transaction, run: Document, experiment: Document, value: float) -> str | None:
    """The measured row of a finished run; one per run and metric, none without a hypothesis."""
    body = experiment.body
    if body["hypothesis_id"] is None or body["design"]["claim"] is None:
        return None
    metric = body["design"]["metric"]
    if any(row.body["kind"] == "measured" and row.body.get("metric") == metric
           for row in tx.find("evidence", run_id=run.id)):  # fmt: skip
        return None
    weightless = run.body["chosen_seed"] or run.body["tainted"]
    row = {
        "kind": "measured",
        "experiment_id": experiment.id,
        "run_id": run.id,
        "metric": metric,
        "value": value,
        "status": "done",
        "weight": 0.0 if weightless else 1.0,
        "replicate": run.body["replicate"],
        "seed": run.body["seed"],
        "spec_hash": run.body["spec_hash"],
        "source": run.body["metric_sources"].get(metric),
        "reason": "the seed was picked by hand" if run.body["chosen_seed"] else None,
    }
    return add_evidence(desks, tx, body["hypothesis_id"], row)


def _metrics(desks: Desks, run: Document, seen: Sighting) -> dict[str, MetricValue]:
    """Every metric that a reader finds; the first reader that has one wins."""
    ctx: Context = desks.ctx
    ledger: RunLedger = desks.runs
    cwd = ctx.need("experiment", run.body["experiment_id"]).body["cwd"] or "."
    started = seen.started_at or run.body["started_at"]
    folder = RunFolder(ledger.log_dir(run.id), ctx.config.root / cwd, posix_of(started) if started else 0.0)
    found: dict[str, MetricValue] = {}
    readers: list[tuple[str, MetricReader]] = ctx.parts("metric_reader")
    for name, reader in readers:
        try:
            values = reader.read(folder)
        except Exception as problem:  # noqa: BLE001 - one reader's fault must not hide the others' numbers; it is shown
            values = {f"reader {name} failed": MetricValue(None, f"{type(problem).__name__}: {problem}")}
        for metric, value in values.items():
            found.setdefault(metric, value)
    return found
