"""Reconciling: the record catches up with what happened. One transaction per run; doing it twice is doing it once.

A finished run becomes its final state, its debit, its metrics, its evidence, the fold of its hypothesis and, where the
methodology wants it, its next attempt: all or nothing. How it ended is what its supervisor's exit record says; words of
its logs are noted beside it and decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from perpetual.errors import Conflict, CorruptData, PerpetualError, PluginError, TransientError
from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys
from perpetual.lab.engines.sight import HOSTILE, folder_of, is_requeued, leftovers, scheduler_for, sight, taken
from perpetual.lab.evidence.confidence import add_evidence, refold, refold_users_of
from perpetual.lab.ledger.evidence import EvidenceRecords
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.ledger.states import LIVE
from perpetual.lab.memory import Notes
from perpetual.lab.provenance.captures import FILE, kept_of, taint_of
from perpetual.lab.runs.analyse import analyse as put_into_words
from perpetual.lab.runs.gpu_notes import note_gpus
from perpetual.lab.runs.launch import requeued, reserve_anew, try_again
from perpetual.lab.runs.measure import did_you_mean, measure
from perpetual.lab.runs.start import advance_queue
from perpetual.lab.runs.symptoms import OUT_OF_MEMORY, symptoms_of
from perpetual.lab.runs.time_limit import end_overdue, is_told, note_overrun
from perpetual.records import Json, to_json
from perpetual.slots.analyser import MetricValue
from perpetual.slots.scheduler import LIVING, EndUnreadable, Sighting
from perpetual.slots.store import Document, Transaction
from perpetual.toolkit import platform
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.run_folder import is_ours
from perpetual.toolkit.units import LONGEST_S, finite, posix_of, shown_hours

__all__ = ["catch_up", "kill", "look", "record", "scan"]

_Answer = dict[str, list[Any]]
_LONGEST_LAUNCH_S = 600.0  # for which a launcher on another machine is taken to live
# For which lost runs a scheduler is asked again: the newest, for some days.
_LATE_RUNS, _LATE_S = 20, 7 * 86_400.0
# What the end of a run has filled in, of one that goes on.
_ALIVE = {"ended_at": None, "duration_s": None, "gpu_hours": None, "run_hours": None, "analysed": False}
_LAUNCH_TURN_S = 0.05  # poll interval of `kill` while the run is still launching
_NEVER = "its launcher died before the command was started; it waits to be started again"


def record(ctx: Context, tell: Callable[[], object], *, analyse: bool, first: Collection[str] = ()) -> dict[str, Any]:
    """Scans, then (if `analyse`, and the methodology's `auto_analyze`) writes analyses and notes, then flushes to git.

    Args:
        tell: delivers new events: observers need not wait for the analysis of a run that has ended.
    """
    answer = scan(ctx, first=first, tell=tell)
    if ctx.trust.is_held:
        return answer
    if analyse and ctx.config.methodology["auto_analyze"]:
        put_into_words(ctx)
    ctx.cached(Notes).flush()
    return answer


def scan(ctx: Context, *, first: Collection[str] = (), tell: Callable[[], object] | None = None) -> dict[str, Any]:
    """Looks at every live run and records what has changed; then starts what was waiting and has room.

    Args:
        first: ids of runs to look at before the others, since a caller waits for them.
        tell: called once these are looked at, if anything has changed.

    Returns:
        `{changes: [{run_id, experiment_id, from, to, reason}], debits: [...], evidence: [...],
        problems: [{run_id, code, message}], elsewhere: [{run_id, where}]}`, the last where there is
        one; a run that cannot be looked at stays as it is and holds up no other.
    """
    answer = _nothing()
    started = [run for run in RunRecords(ctx).live() if run.body["status"] != "queued"]
    if ctx.trust.is_held:
        return _scan_held(ctx, started, answer)
    overdue = _look_at(ctx, [run for run in started if run.id in first], answer)
    if answer["changes"] and tell is not None:
        tell()
    overdue += _look_at(ctx, [run for run in started if run.id not in first], answer)
    believe_late(ctx, answer)
    for run in overdue:  # last: ending one may take as long as its grace
        _each(_end, ctx, run, answer)
    surveys = Surveys(ctx)
    note_gpus(ctx, surveys)
    begun, problems = advance_queue(ctx, surveys)
    answer["changes"] += [_change(run, "queued") for run in begun]
    answer["problems"] += problems
    return answer


def _look_at(ctx: Context, runs: Sequence[Document], answer: _Answer) -> list[Document]:
    """Looks at each; returns those beyond their limit that have no supervisor to end them."""
    seen = _seen_many(ctx, runs)
    return [run for run in runs if _each(partial(_look, seen=seen.get(run.id)), ctx, run, answer)]


def _seen_many(ctx: Context, runs: Sequence[Document]) -> dict[str, Sighting | Exception]:
    """Returns what each scheduler says of its runs, asked once for all of them."""
    groups: dict[str, list[Document]] = {}
    for run in runs:
        groups.setdefault(str(run.body["scheduler"]), []).append(run)
    found: dict[str, Sighting | Exception] = {}
    for group in groups.values():
        answers: Sequence[Sighting | Exception]
        try:
            scheduler = scheduler_for(ctx, group[0])
        except PerpetualError:
            found |= {run.id: _unreachable(ctx, run) for run in group}  # each says its own name
            continue
        try:
            answers = scheduler.poll_many([(run.body["native_id"], RunRecords(ctx).log_dir(run.id)) for run in group])
            if len(answers) != len(group):
                raise PluginError(f"its scheduler answered {len(answers)} of {len(group)} questions")
        except (PerpetualError, *HOSTILE) as problem:
            answers = [problem] * len(group)
        found |= {run.id: said for run, said in zip(group, answers, strict=True)}
    return found


def _unreachable(ctx: Context, run: Document) -> Exception:
    """Returns why the scheduler of a run cannot be asked."""
    try:
        scheduler_for(ctx, run)
    except PerpetualError as problem:
        return problem
    return TransientError(f"the scheduler of {run.id} could not be asked just now", hint="perpetual scan")


def believe_late(ctx: Context, answer: _Answer) -> None:
    """Corrects lost runs whose scheduler has come to know how they ended, or that they go on.

    It asks for the newest lost runs alone, of the last days: a scan costs the same however many were ever lost.
    """
    since = ctx.clock().timestamp() - _LATE_S
    runs = [
        run
        for run in ctx.store.page("run", limit=_LATE_RUNS, newest_first=True, status="lost").items
        if posix_of(run.body["ended_at"]) >= since and _may_be_late(ctx, run)
    ]
    for id, seen in _seen_many(ctx, runs).items() if runs else ():
        run = next(run for run in runs if run.id == id)
        if not isinstance(seen, Sighting):
            continue
        if seen.state in LIVING or is_requeued(run, seen):
            _each(partial(_find_again, seen=seen), ctx, run, answer)
        elif seen.state == "ended":
            _each(partial(_correct, seen=seen), ctx, run, answer)


def _may_be_late(ctx: Context, run: Document) -> bool:
    try:
        return "adopted" not in run.body and not scheduler_for(ctx, run).lost_is_final
    except PluginError:
        return False


def _correct(ctx: Context, run: Document, answer: _Answer, *, seen: Sighting) -> bool:
    """Records how a run ended that was taken for lost."""
    seen = taken(ctx, run, seen)
    if seen.state != "ended":
        return False
    end = _found(ctx, run, seen)
    text = f"it was recorded as lost: {run.body['reason']}"
    end = end._replace(annotations=[*end.annotations, {"kind": "late", "text": text, "source": "scheduler"}])
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.revision != run.revision:
            return False  # the next scan finds it as it is then
        debit, evidence = _settle(ctx, tx, fresh, end)
        after = ctx.need("run", run.id)
    _tell_end(ctx, answer, _change(after, "lost"), debit, evidence)
    return False


def _find_again(ctx: Context, run: Document, answer: _Answer, *, seen: Sighting) -> bool:
    """Records that a run goes on which was taken for lost: it holds its worst case again until its end is known.

    What it was charged as lost is taken back, since the worst case holds that too. A job that its engine has started
    anew is taken as the attempt that is known, which the next look ends.
    """
    seen = taken(ctx, run, seen)
    if seen.elsewhere is not None or not (seen.state in LIVING or is_requeued(run, seen)):
        return False
    text = f"its scheduler shows it again; it was recorded as lost: {run.body['reason']}"
    values: dict[str, Any] = {**_ALIVE, "found_again": True}
    if seen.state == "running":
        values |= {"status": "running", "pid": seen.pid or run.body["pid"], "reason": None}
        values |= {"started_at": seen.started_at or run.body["started_at"]}
    else:
        values |= {"status": "launching", "pending": True}
        values |= {"reason": seen.detail or f"in the queue of {run.body['scheduler']}"}
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.revision != run.revision:
            return False  # the next scan finds it as it is then
        note = {"kind": "late", "text": text, "source": "scheduler"}
        changed = RunRecords(ctx).change(
            tx, fresh, {**values, "annotations": [*fresh.body.get("annotations", ()), note]}
        )
        Budget(ctx).correct(tx, changed.body, gpu_hours=0.0, run_hours=0.0)
        reserve_anew(ctx, tx, changed)
        experiment = ctx.need("experiment", changed.body["experiment_id"])
        ExperimentRecords(ctx).fold(tx, experiment.id)
        _refold_cautions(ctx, tx, experiment)
        answer["changes"].append(_change(changed, "lost"))
    return False


def _scan_held(ctx: Context, started: Sequence[Document], answer: _Answer) -> _Answer:
    """Records the runs of a held project that run under this user's supervisors here; starts nothing.

    Raises:
        NotPermitted: (not_trusted) if there is no such run.
    """
    own = [run for run in started if _is_supervised_here(ctx, run)]
    if not own:
        ctx.trust.require("recording the runs of this project")
    with ctx.trust.lifted():
        for run in own:
            _each(_look, ctx, run, answer)
    return answer


def _is_supervised_here(ctx: Context, run: Document) -> bool:
    """Returns whether the run lives in this very project directory, under a supervisor that this user holds here."""
    return run.body["status"] in ("launching", "running", "lost") and is_ours(folder_of(ctx, run.id))


def _nothing() -> _Answer:
    return {"changes": [], "debits": [], "evidence": [], "problems": []}


def catch_up(ctx: Context) -> None:
    """Scans before a new run is started, if any run is live.

    Ended runs are measured before a new one can write where they wrote, and waiting runs are not overtaken.
    """
    if RunRecords(ctx).live():
        scan(ctx)


def kill(ctx: Context, run_id: str, *, grace_s: float | None = None, wait_s: float = 5.0) -> Document:
    """Ends a run and its whole process tree; says `killed` only once the processes are gone.

    Answers the run as it is after at most `grace + wait_s` seconds. Raises Conflict if it has ended.
    """
    if ctx.trust.is_held:
        if not _is_supervised_here(ctx, ctx.need("run", run_id)):
            ctx.trust.require(f"ending {run_id}")
        with ctx.trust.lifted():
            return _kill(ctx, run_id, grace_s, wait_s)
    return _kill(ctx, run_id, grace_s, wait_s)


def _kill(ctx: Context, run_id: str, grace_s: float | None, wait_s: float) -> Document:
    run = ctx.need("run", run_id)
    grace = ctx.config.methodology["kill_grace_s"] if grace_s is None else grace_s
    finite(grace, "the grace", minimum=0.0, maximum=LONGEST_S)
    if run.body["status"] == "queued":
        run = _take_from_queue(ctx, run)
        if run.body["status"] == "killed":
            return run
    if run.body["status"] == "lost" and leftovers(ctx, run):
        return _end_leftovers(ctx, run, grace)
    if run.body["status"] == "lost" and _may_be_late(ctx, run):
        log_dir = RunRecords(ctx).log_dir(run.id)
        _find_again(ctx, run, _nothing(), seen=scheduler_for(ctx, run).poll(run.body["native_id"], log_dir))
        run = ctx.need("run", run_id)
    if run.body["status"] not in ("launching", "running"):
        raise Conflict(f"{run.id} is {run.body['status']}; there is nothing to kill")
    _require_here(ctx, run)
    try:
        with ctx.store.transaction() as tx:  # on record first: a run that was cancelled is not retried automatically
            run = ctx.need("run", run.id)
            if run.body["status"] in ("launching", "running") and run.body.get("cancelled_by") != ctx.actor:
                run = RunRecords(ctx).change(tx, run, {"cancelled_by": ctx.actor, "cancel_grace_s": grace})
    except PerpetualError as problem:
        if problem.code == "not_written":  # what fills the disk must not live on because the disk is full
            raise _ended_unrecorded(run, _cancel(ctx, run, grace, wait_s), problem) from problem
        raise
    try:
        _cancel(ctx, run, grace, wait_s)
        _look(ctx, ctx.need("run", run.id), _nothing())
    except EndUnreadable as problem:
        _give_up(ctx, ctx.need("run", run.id), problem)
    # Where its launcher had died before anything ran, it waits again, and would be started at the next scan.
    return _take_from_queue(ctx, ctx.need("run", run.id))


def _require_here(ctx: Context, run: Document) -> None:
    """Raises Conflict for a run that cannot be ended from here: of another machine, or of the original of a copy."""
    try:
        elsewhere = sight(ctx, run).elsewhere
    except (CorruptData, TransientError):
        return  # its records are spoilt; its supervisor may be known all the same
    if elsewhere is not None:
        raise Conflict(f"{run.id} {elsewhere}", hint=f"there: perpetual kill {run.id}", code="elsewhere")


def _end_leftovers(ctx: Context, run: Document, grace_s: float) -> Document:
    """Ends what a lost run has left behind; the run stays lost."""
    pids = ", ".join(map(str, leftovers(ctx, run)))
    scheduler, log_dir = scheduler_for(ctx, run), RunRecords(ctx).log_dir(run.id)
    scheduler.cancel(run.body["native_id"], log_dir, by=ctx.actor, grace_s=grace_s)
    left = leftovers(ctx, run)
    if left:
        raise TransientError(
            f"processes of {run.id} survive KILL: {', '.join(map(str, left))}", hint="they are stuck, or another user's"
        )
    text = f"processes that it had left ({pids}) were ended by {ctx.actor}"
    with ctx.store.transaction() as tx:
        note = {"kind": "leftover", "text": text, "source": "kill"}
        return RunRecords(ctx).annotate(tx, ctx.need("run", run.id), [note])


def _give_up(ctx: Context, run: Document, problem: EndUnreadable) -> None:
    """Records a run as lost that is over and whose record nothing can be learnt from, as a person asked."""
    seen = Sighting("lost", detail=problem.message)
    end = _found(ctx, run, seen)
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.body["status"] in ("launching", "running"):
            _settle(ctx, tx, fresh, end)


def _cancel(ctx: Context, run: Document, grace_s: float, wait_s: float) -> Sighting:
    """Has the run ended, and waits for that; how it is then.

    One that is just being launched is waited for, and ended once it is there: its launcher may be anywhere on the way.
    """
    scheduler = scheduler_for(ctx, run)
    log_dir = RunRecords(ctx).log_dir(run.id)
    deadline = time.monotonic() + grace_s + wait_s
    while True:
        scheduler.cancel(run.body["native_id"], log_dir, by=ctx.actor, grace_s=grace_s)
        seen = sight(ctx, run, wait_s=max(0.0, deadline - time.monotonic()))
        run = ctx.need("run", run.id)
        left_s = deadline - time.monotonic()
        is_coming = seen.state in ("absent", *LIVING) and _is_in_hand(run)
        if not is_coming or left_s <= 0:
            return seen
        ctx.store.wait(ctx.store.seq(), min(left_s, _LAUNCH_TURN_S))


def _ended_unrecorded(run: Document, seen: Sighting, problem: PerpetualError) -> PerpetualError:
    told = "was asked to end" if seen.state in LIVING else "has ended"
    return PerpetualError(
        f"{run.id} {told}, and that is not recorded yet: {problem.message}",
        hint="free some space, or mend the rights; then perpetual scan",
        code=problem.code,
    )


def _take_from_queue(ctx: Context, run: Document) -> Document:
    """Returns the run, killed if it was waiting; else as it is."""
    if run.body["status"] != "queued":
        return run
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.body["status"] == "queued":
            never_ran = Sighting("ended", reason="killed", duration_s=0.0)
            _settle(ctx, tx, fresh, _End(never_ran, "killed", f"taken from the queue by {ctx.actor}"))
    return ctx.need("run", run.id)


def look(ctx: Context, run_id: str) -> tuple[str, str | None]:
    """Returns a run's status now, with its reason or with what is wrong with its supervision; nothing is recorded."""
    run = ctx.need("run", run_id)
    if run.body["status"] not in ("launching", "running"):
        return run.body["status"], run.body["reason"]
    seen = sight(ctx, run)
    if is_requeued(run, seen):
        return run.body["status"], "started anew by its engine"
    if seen.state in LIVING or (seen.state == "absent" and run.body["status"] == "launching"):
        is_said = run.body["status"] == "running" or seen.state == "pending"
        return run.body["status"], seen.detail if is_said else None
    return _verdict(seen)


class _End(NamedTuple):
    """How a run ended, and what was found of it."""

    seen: Sighting
    status: str
    reason: str | None
    metrics: Mapping[str, MetricValue] = MappingProxyType({})
    annotations: Sequence[Json] = ()
    taint: Sequence[str] = ()  # why what it measured weighs nothing


def _each(deed: Callable[[Context, Document, _Answer], bool], ctx: Context, run: Document, answer: _Answer) -> bool:
    """Returns the operation's answer; a run that cannot be looked at is reported and delays no other."""
    try:
        return deed(ctx, run, answer)
    except (CorruptData, TransientError, PluginError) as problem:  # of its folder, or of an engine out of reach
        said = problem.message + (f" ({problem.hint})" if isinstance(problem, PluginError) and problem.hint else "")
        answer["problems"].append({"run_id": run.id, "code": problem.code, "message": said})
    except HOSTILE as problem:  # what it has put into its folder
        message = f"{run.id}: its folder cannot be read: {type(problem).__name__}: {str(problem)[:200]}"
        answer["problems"].append({"run_id": run.id, "code": CorruptData.code, "message": message})
    return False


def _end(ctx: Context, run: Document, answer: _Answer) -> bool:
    end_overdue(ctx, run)
    return _look(ctx, ctx.need("run", run.id), answer)


def _look(ctx: Context, run: Document, answer: _Answer, *, seen: Sighting | Exception | None = None) -> bool:
    """Records the state of a run; returns whether it is beyond its limit without a supervisor to end it.

    Args:
        seen: what its scheduler has said just now, or raised.
    """
    log_dir = RunRecords(ctx).log_dir(run.id)
    if isinstance(seen, Exception):
        raise seen
    # That there is nothing is asked again: its launcher may have begun, and died, since.
    seen = sight(ctx, run) if seen is None or seen.state == "absent" else taken(ctx, run, seen)
    if seen.elsewhere is not None:
        answer.setdefault("elsewhere", []).append({"run_id": run.id, "where": seen.elsewhere})
        return False
    if is_requeued(run, seen) and not _is_in_hand(run):
        return _requeue(ctx, run, seen, answer)
    if seen.state == "pending":
        _note_pending(ctx, run, seen, answer)
        return False
    if seen.state == "running":
        if run.body["status"] == "launching":
            _adopt(ctx, run, seen, answer)
        else:
            told = note_overrun(ctx, run, seen)
            if told is not None:
                answer["changes"].append({**_change(run, "running"), "reason": told})
            if not log_dir.is_dir():
                message = f"{log_dir} was removed: it goes on, and how it ends will not be known"
                answer["problems"].append({"run_id": run.id, "code": "folder_removed", "message": message})
        return seen.overdue
    if seen.state == "absent" and run.body["status"] == "launching" and not run.body.get("pending"):
        _back_to_queue(ctx, run, answer)
        return False
    step("scan:ended")
    end = _found(ctx, run, seen)
    step("scan:measured")
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.body["status"] not in ("launching", "running"):
            return False  # another process was quicker
        is_current = fresh.revision == run.revision
        if is_current:
            before = fresh.body["status"]
            debit, evidence = _settle(ctx, tx, fresh, end)
            step("scan:evidence")
            after = ctx.need("run", run.id)
    if not is_current:
        # The run's record changed after we read it (provenance, shared folder, canceller): measure again.
        return _look(ctx, fresh, answer)
    step("scan:settled")
    _tell_end(ctx, answer, _change(after, before), debit, evidence)
    return False


def _tell_end(
    ctx: Context, answer: _Answer, change: dict[str, Any], debit: dict[str, Any] | None, evidence: str | None
) -> None:
    answer["changes"].append(change)
    if debit is not None:
        answer["debits"].append(debit)
    if evidence is not None:
        answer["evidence"].append(to_json(EvidenceRecords(ctx).get(evidence)))


def _note_pending(ctx: Context, run: Document, seen: Sighting, answer: _Answer) -> None:
    """Notes that a run waits in its engine's queue, and the engine's words for why."""
    values = {
        "status": "launching",
        "pending": True,
        "reason": seen.detail or f"in the queue of {run.body['scheduler']}",
    }
    values |= {"native_id": seen.native_id} if seen.native_id else {}
    if _is_in_hand(run) or run.body["status"] != "launching" or _has(run, values):
        return
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.revision == run.revision:
            if not run.body.get("pending"):  # its launcher died before it noted so
                values |= kept_of(RunRecords(ctx).log_dir(run.id)).noted(fresh.body)
            answer["changes"].append(_change(RunRecords(ctx).change(tx, fresh, values), "launching"))


def _has(run: Document, values: Mapping[str, Any]) -> bool:
    return all(run.body.get(key) == value for key, value in values.items())


def _requeue(ctx: Context, run: Document, seen: Sighting, answer: _Answer) -> bool:
    """Ends the attempt whose job its engine has started anew, and records the new one: both, or none."""
    detail = f" ({seen.detail})" if seen.detail and seen.state == "pending" else ""
    over = Sighting("ended", reason="killed", ended_at=ctx.now())
    end = _End(over, "killed", f"requeued by the engine{detail}")
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        is_current = fresh.revision == run.revision
        if is_current:
            before = fresh.body["status"]
            debit, evidence = _settle(ctx, tx, fresh, end)
            step("scan:evidence")
            made = requeued(ctx, tx, ctx.need("run", run.id), seen)
            ExperimentRecords(ctx).fold(tx, fresh.body["experiment_id"])
            after = ctx.need("run", run.id)
    if not is_current:
        return fresh.body["status"] in ("launching", "running") and _look(ctx, fresh, answer)
    step("scan:settled")
    _tell_end(ctx, answer, _change(after, before), debit, evidence)
    if made.body.get("cancelled_by"):
        grace_s = ctx.config.methodology["kill_grace_s"]
        log_dir = RunRecords(ctx).log_dir(made.id)
        scheduler = scheduler_for(ctx, made)
        scheduler.cancel(made.body["native_id"], log_dir, by=made.body["cancelled_by"], grace_s=grace_s)
    return _look(ctx, made, answer, seen=seen)


def _found(ctx: Context, run: Document, seen: Sighting) -> _End:
    """Returns the end of a run that is over, with all that its folder tells; nothing is written."""
    status, reason = _verdict(seen)
    _fetch(ctx, run, seen)
    metrics, told = measure(ctx, run, seen) if seen.state == "ended" else ({}, [])
    symptoms: list[Json] = []
    if status != "done":
        by_us = bool(run.body.get("cancelled_by")) or _ended_at_limit(run)
        symptoms, faults = symptoms_of(ctx, run, seen, status, by_us=by_us)
        told += faults
    taint, noted = taint_of(ctx, run)
    if seen.state == "ended" and seen.reason == "exited" and seen.detail:  # where else it is in the reason
        told.append({"kind": "leftover", "text": seen.detail, "source": "exit record"})
    if seen.left:
        pids = ", ".join(map(str, seen.left))
        text = f"processes that it left still run ({pids}): perpetual kill {run.id} ends them; no retry starts before"
        told.append({"kind": "leftover", "text": text, "source": "processes"})
    told += [{"kind": "tainted", "text": why, "source": FILE} for why in taint]
    told += noted
    return _End(seen, status, reason, metrics, [*symptoms, *told], taint)


def _fetch(ctx: Context, run: Document, seen: Sighting) -> None:
    """Has the logs of a run that is over brought here; raises TransientError where they will come later."""
    if seen.started_at is None and run.body["started_at"] is None:
        return  # it never wrote
    try:
        scheduler_for(ctx, run).fetch_logs(run.body["native_id"], RunRecords(ctx).log_dir(run.id))
    except PerpetualError:
        if seen.state == "ended":  # those of a lost run may be gone for good
            raise


def _change(run: Document, before: str) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "experiment_id": run.body["experiment_id"],
        "from": before,
        "to": run.body["status"],
        "reason": run.body["reason"],
    }


def _adopt(ctx: Context, run: Document, seen: Sighting, answer: _Answer) -> None:
    """Takes over a run whose launcher died between starting it and noting so."""
    if _is_in_hand(run) or seen.started_at is None:  # a supervisor that has started nothing yet may still fail
        return
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        if fresh.body["status"] == "launching" and not _is_in_hand(fresh):
            values: dict[str, Any] = {"status": "running", "pid": seen.pid, "started_at": seen.started_at}
            values |= {"host": seen.host}
            if fresh.body.get("pending"):
                values |= {"pending": False, "reason": None}
            else:
                values |= kept_of(RunRecords(ctx).log_dir(run.id)).noted(fresh.body)
            values |= {"native_id": seen.native_id} if seen.native_id else {}
            values |= {"gpus": [*seen.gpus]} if seen.gpus else {}
            answer["changes"].append(_change(RunRecords(ctx).change(tx, fresh, values), "launching"))
            ExperimentRecords(ctx).fold(tx, fresh.body["experiment_id"])


def _back_to_queue(ctx: Context, run: Document, answer: _Answer) -> None:
    """Puts a run back into the queue of which nothing ever ran, unless its launcher is just about to start it."""
    if _launcher_lives(run):
        return
    with ctx.store.transaction() as tx:
        fresh = ctx.need("run", run.id)
        # Another process may have queued it before us, and another launcher be about to start it.
        if fresh.body["status"] == "launching" and not _launcher_lives(fresh):
            values: dict[str, Any] = {"status": "queued", "reason": fresh.body["reason"] or _NEVER, "gpus": []}
            answer["changes"].append(_change(RunRecords(ctx).change(tx, fresh, values), "launching"))
            ExperimentRecords(ctx).fold(tx, fresh.body["experiment_id"])


def _is_in_hand(run: Document) -> bool:
    """Returns whether its launcher is about to note what came of it."""
    return run.body["status"] == "launching" and not run.body.get("pending") and _launcher_lives(run)


def _launcher_lives(run: Document) -> bool:
    launcher = run.body.get("launcher")
    if launcher is None or run.body.get("launch_over"):  # it lives on, and its engine did not answer
        return False
    identity = platform.Identity(*launcher)
    return platform.is_alive(identity) or _is_launched_elsewhere(run, identity)


def _is_launched_elsewhere(run: Document, launcher: platform.Identity) -> bool:
    """Returns whether another machine that shares the project is launching it now.

    That launcher cannot be looked for here.
    """
    host, since = run.body.get("launcher_host"), run.body.get("launching_at")
    if host is None or since is None or host == this_host().id or launcher.boot_id == platform.boot_id():
        return False
    return time.time() - posix_of(since) < _LONGEST_LAUNCH_S


def _verdict(seen: Sighting) -> tuple[str, str | None]:
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


def _settle(
    ctx: Context,
    tx: Transaction,
    run: Document,
    end: _End,
) -> tuple[dict[str, Any] | None, str | None]:
    """Writes a run's end with all that follows from it; answers the debit and the evidence it made, if any."""
    ctx, seen, status, metrics = ctx, end.seen, end.status, end.metrics
    experiment = tx.get("experiment", run.body["experiment_id"])
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
            f"is not a finite number ({metrics[design['metric']].source})"
            if there
            else f"was not found in the run's output{did_you_mean(design['metric'], values)}"
        )
    elif status == "done" and end.taint:
        reason = "tainted: what it measured weighs nothing"
    # Of a launcher that has not come to noting it.
    late = kept_of(RunRecords(ctx).log_dir(run.id)).noted(run.body) if run.body["status"] == "launching" else {}
    run = RunRecords(ctx).change(
        tx,
        run,
        {
            **late,
            "status": status,
            "pending": False,
            "reason": reason,
            "pid": seen.pid or run.body["pid"],
            "host": seen.host or run.body.get("host"),
            "started_at": seen.started_at or run.body["started_at"],
            "ended_at": seen.ended_at or ctx.now(),
            "duration_s": seen.duration_s,
            "exit_code": seen.exit_code,
            "signal": seen.signal,
            "gpu_hours": gpu_hours,
            "run_hours": run_hours,
            "metrics": values,
            "metric_sources": {name: found.source for name, found in sorted(metrics.items())},
            "max_rss_bytes": seen.max_rss_bytes,
            "cpu_s": seen.cpu_s,
            "annotations": [*late.get("annotations", run.body.get("annotations", ())), *end.annotations],
            "tainted": run.body["tainted"] or bool(end.taint),
        },
    )
    if end.taint:
        ctx.emit(tx, "run_tainted", run.id, {"experiment_id": experiment.id, "reasons": [*end.taint]})
    book = Budget(ctx).correct if was_lost or run.body.get("found_again") else Budget(ctx).settle
    debit = book(tx, run.body, gpu_hours=gpu_hours, run_hours=run_hours)
    told = (status == "done" and value is not None) or (status == "failed" and design.get("on_crash"))
    evidence = _evidence(ctx, tx, run, experiment, value) if told else None
    ExperimentRecords(ctx).fold(tx, experiment.id)
    if evidence is None:
        _refold_cautions(ctx, tx, experiment)
    refold_users_of(ctx, tx, experiment.id)
    # A failure that is a result needs no further attempt; a lost run had its own.
    for cause in _causes(run) if evidence is None and not was_lost else ():
        if try_again(ctx, tx, run, cause) is not None:
            break
    return (to_json(debit) if debit else None), evidence


def _refold_cautions(ctx: Context, tx: Transaction, experiment: Document) -> None:
    """Derives anew what is said of runs without a result beside the hypothesis of their experiment."""
    if experiment.body["hypothesis_id"] is not None and experiment.body["design"]["claim"] is not None:
        refold(ctx, tx, experiment.body["hypothesis_id"])


def _hours(ctx: Context, run: Document, seen: Sighting) -> tuple[float, float]:
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


def _with_bound(run: Document, reason: str | None, run_hours: float) -> str:
    """Returns why a run was lost, with what it is charged: that is a bound, and is called one."""
    said = [str(reason)]
    said += [f"cancelled by {run.body['cancelled_by']}"] if run.body.get("cancelled_by") else []
    said += ["ended at its wall limit"] if _ended_at_limit(run) else []
    return "; ".join([*said, f"charged {shown_hours(run_hours)}, a bound: how long it lasted is not known"])


def _ended_at_limit(run: Document) -> bool:
    return is_told(run.body) and run.body.get("on_overrun") != "warn"


def _causes(run: Document) -> list[str]:
    """Returns the causes for which an ended run may be retried: none where a caller or a limit has ended it."""
    if run.body.get("cancelled_by") or _ended_at_limit(run):
        return []
    causes = ["lost"] if run.body["status"] == "lost" else []
    seen = {item["kind"] for item in run.body["annotations"]}
    return [*causes, OUT_OF_MEMORY] if OUT_OF_MEMORY in seen and run.body["status"] != "killed" else causes


def _evidence(ctx: Context, tx: Transaction, run: Document, experiment: Document, value: float | None) -> str | None:
    """Returns the measured row of a finished run; one per run and metric, none without a hypothesis.

    Without a value it is that of a failed run, where that it runs at all is what is claimed.
    """
    body = experiment.body
    if body["hypothesis_id"] is None or body["design"]["claim"] is None:
        return None
    metric = body["design"]["metric"]
    if any(row.body["kind"] == "measured" and row.body.get("metric") == metric
           for row in tx.find("evidence", run_id=run.id)):  # fmt: skip
        return None
    overtaken = _overtaken_by(tx, run)
    weightless = run.body["chosen_seed"] or run.body["tainted"] or overtaken is not None
    row = {
        "kind": "measured",
        "experiment_id": experiment.id,
        "run_id": run.id,
        "metric": metric,
        "value": value,
        "status": run.body["status"],
        "weight": 0.0 if weightless else 1.0,
        "replicate": run.body["replicate"],
        "seed": run.body["seed"],
        "spec_hash": run.body["spec_hash"],
        "source": run.body["metric_sources"].get(metric),
        "reason": _why_weightless(run) or overtaken,
        **({"versions": run.body["versions"]} if run.body.get("versions") else {}),
    }
    return add_evidence(ctx, tx, body["hypothesis_id"], row)


def _overtaken_by(tx: Transaction, run: Document) -> str | None:
    """Returns why a run that was taken for lost counts for nothing.

    Another attempt was made meanwhile, and may count.
    """
    if not any(item["kind"] == "late" for item in run.body.get("annotations", ())):
        return None
    for other in tx.find("run", experiment_id=run.body["experiment_id"]):
        is_other = other.body["replicate"] == run.body["replicate"] and other.id != run.id
        if is_other and (other.body["status"] in LIVE or tx.find("evidence", run_id=other.id)):
            return f"{other.id} is a further attempt of it, made while it was taken for lost"
    return None


def _why_weightless(run: Document) -> str | None:
    """Returns why what a run measured counts for nothing, if it does."""
    if run.body["tainted"]:
        told = [item["text"] for item in run.body.get("annotations", ()) if item["kind"] == "tainted"]
        return "tainted: " + "; ".join(told)
    return "the seed was picked by hand" if run.body["chosen_seed"] else None
