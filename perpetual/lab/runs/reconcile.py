"""Reconciling: the record catches up with what happened. One transaction per run; doing it twice is doing it once.

A run that has ended is recorded by `settle`; one that runs or waits is brought up to date here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from perpetual.errors import CorruptData, PerpetualError, PluginError, TransientError
from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys
from perpetual.lab.engines.sight import HOSTILE, folder_of, is_requeued, scheduler_for, sight, taken
from perpetual.lab.kinds import EXPERIMENT, RUN, RunRow
from perpetual.lab.ledger.evidence import EvidenceRecords
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.memory import Notes
from perpetual.lab.provenance import isolation
from perpetual.lab.provenance.captures import kept_of
from perpetual.lab.runs.analyse import analyse as put_into_words
from perpetual.lab.runs.environment import tidy
from perpetual.lab.runs.gpu_notes import note_gpus
from perpetual.lab.runs.launch import requeued, reserve_anew
from perpetual.lab.runs.order import keep_moving
from perpetual.lab.runs.settle import Ending, found_end, refold_cautions, settle, verdict_of
from perpetual.lab.runs.start import advance_queue
from perpetual.lab.runs.time_limit import end_overdue, note_overrun
from perpetual.records import to_json
from perpetual.slots.scheduler import LIVING, Sighting
from perpetual.toolkit import platform
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.run_folder import is_ours
from perpetual.toolkit.units import posix_of

if TYPE_CHECKING:
    from perpetual.documents.runs import Change, Scanned

__all__ = ["as_seen", "catch_up", "find_again", "is_in_hand", "is_supervised_here", "look", "look_at", "may_be_late",
           "no_changes", "record", "scan"]  # fmt: skip

_LONGEST_LAUNCH_S = 600.0  # for which a launcher on another machine is taken to live
# For which lost runs a scheduler is asked again: the newest, for some days.
_LATE_RUNS, _LATE_S = 20, 7 * 86_400.0
# What the end of a run has filled in, of one that goes on.
_ALIVE = {"ended_at": None, "duration_s": None, "gpu_hours": None, "run_hours": None, "analysed": False}
_NEVER = "its launcher died before the command was started; it waits to be started again"


def record(ctx: Context, tell: Callable[[], object], *, analyse: bool, first: Collection[str] = ()) -> Scanned:
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


def scan(ctx: Context, *, first: Collection[str] = (), tell: Callable[[], object] | None = None) -> Scanned:
    """Looks at every live run and records what has changed; then starts what was waiting and has room.

    Answers as `Lab.scan` says; `tell` is called once the `first` are looked at, if anything has changed.
    """
    answer = no_changes()
    started = [run for run in RunRecords(ctx).live() if run.body["status"] != "queued"]
    if ctx.trust.is_held:
        return _scan_held(ctx, started, answer)
    overdue = _look_at_all(ctx, [run for run in started if run.id in first], answer)
    if answer["changes"] and tell is not None:
        tell()
    overdue += _look_at_all(ctx, [run for run in started if run.id not in first], answer)
    believe_late(ctx, answer)
    for run in overdue:  # last: ending one may take as long as its grace
        _each(_end, ctx, run, answer)
    surveys = Surveys(ctx)
    note_gpus(ctx, surveys)
    begun, problems = advance_queue(ctx, surveys)
    tidy(ctx)
    keep_moving(ctx)
    answer["changes"] += [_change(run, "queued") for run in begun]
    answer["problems"] += problems
    try:
        isolation.clear(ctx)
    except (PerpetualError, *HOSTILE) as problem:  # the next scan tries again
        message = f"what isolated runs have left could not be cleared: {problem}"
        answer["problems"].append({"run_id": "-", "code": "isolate", "message": message})
    return answer


def _look_at_all(ctx: Context, runs: Sequence[RunRow], answer: Scanned) -> list[RunRow]:
    """Looks at each; returns those beyond their limit that have no supervisor to end them."""
    seen = _seen_many(ctx, runs)
    return [run for run in runs if _each(partial(look_at, seen=seen.get(run.id)), ctx, run, answer)]


def _seen_many(ctx: Context, runs: Sequence[RunRow]) -> dict[str, Sighting | Exception]:
    """Returns what each scheduler says of its runs, asked once for all of them."""
    groups: dict[str, list[RunRow]] = {}
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


def _unreachable(ctx: Context, run: RunRow) -> Exception:
    """Returns why the scheduler of a run cannot be asked."""
    try:
        scheduler_for(ctx, run)
    except PerpetualError as problem:
        return problem
    return TransientError(f"the scheduler of {run.id} could not be asked just now", hint="perpetual scan")


def believe_late(ctx: Context, answer: Scanned) -> None:
    """Corrects lost runs whose scheduler has come to know how they ended, or that they go on.

    It asks for the newest lost runs alone, of the last days: a scan costs the same however many were ever lost.
    """
    since = ctx.clock().timestamp() - _LATE_S
    runs = [
        run
        for run in ctx.store.page(RUN, limit=_LATE_RUNS, newest_first=True, status="lost").items
        if (ended := run.body["ended_at"]) is not None and posix_of(ended) >= since and may_be_late(ctx, run)
    ]
    for id, seen in _seen_many(ctx, runs).items() if runs else ():
        run = next(run for run in runs if run.id == id)
        if not isinstance(seen, Sighting):
            continue
        if seen.state in LIVING or is_requeued(run, seen):
            _each(partial(find_again, seen=seen), ctx, run, answer)
        elif seen.state == "ended":
            _each(partial(_correct, seen=seen), ctx, run, answer)


def may_be_late(ctx: Context, run: RunRow) -> bool:
    """Returns whether a lost run's scheduler may still learn how it ended."""
    try:
        return "adopted" not in run.body and not scheduler_for(ctx, run).lost_is_final
    except PluginError:
        return False


def _correct(ctx: Context, run: RunRow, answer: Scanned, *, seen: Sighting) -> bool:
    """Records how a run ended that was taken for lost."""
    seen = taken(ctx, run, seen)
    if seen.state != "ended":
        return False
    end = found_end(ctx, run, seen)
    text = f"it was recorded as lost: {run.body['reason']}"
    end = end._replace(annotations=[*end.annotations, {"kind": "late", "text": text, "source": "scheduler"}])
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.revision != run.revision:
            return False  # the next scan finds it as it is then
        debit, evidence = settle(ctx, tx, fresh, end)
        after = ctx.need(RUN, run.id)
    _tell_end(ctx, answer, _change(after, "lost"), debit, evidence)
    return False


def find_again(ctx: Context, run: RunRow, answer: Scanned, *, seen: Sighting) -> bool:
    """Records that a run goes on which was taken for lost: it holds its worst case again until its end is known.

    What it was charged as lost is taken back, since the worst case holds that too. A job that its engine has started
    anew is taken as the attempt that is known, which the next look ends.
    """
    seen = taken(ctx, run, seen)
    if seen.elsewhere is not None or not (seen.state in LIVING or is_requeued(run, seen)):
        return False
    text = f"its scheduler shows it again; it was recorded as lost: {run.body['reason']}"
    values: dict[str, object] = {**_ALIVE, "found_again": True}
    if seen.state == "running":
        values |= {"status": "running", "pid": seen.pid or run.body["pid"], "reason": None}
        values |= {"started_at": seen.started_at or run.body["started_at"]}
    else:
        values |= {"status": "launching", "pending": True}
        values |= {"reason": seen.detail or f"in the queue of {run.body['scheduler']}"}
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.revision != run.revision:
            return False  # the next scan finds it as it is then
        note = {"kind": "late", "text": text, "source": "scheduler"}
        changed = RunRecords(ctx).change(
            tx, fresh, {**values, "annotations": [*fresh.body.get("annotations", ()), note]}
        )
        Budget(ctx).correct(tx, changed.body, gpu_hours=0.0, run_hours=0.0)
        reserve_anew(ctx, tx, changed)
        experiment = ctx.need(EXPERIMENT, changed.body["experiment_id"])
        ExperimentRecords(ctx).fold(tx, experiment.id)
        refold_cautions(ctx, tx, experiment)
        answer["changes"].append(_change(changed, "lost"))
    return False


def _scan_held(ctx: Context, started: Sequence[RunRow], answer: Scanned) -> Scanned:
    """Records the runs of a held project that run under this user's supervisors here; starts nothing.

    Raises:
        NotPermitted: (not_trusted) if there is no such run.
    """
    own = [run for run in started if is_supervised_here(ctx, run)]
    if not own:
        ctx.trust.require("recording the runs of this project")
    with ctx.trust.lifted():
        for run in own:
            _each(look_at, ctx, run, answer)
    return answer


def is_supervised_here(ctx: Context, run: RunRow) -> bool:
    """Returns whether the run lives in this very project directory, under a supervisor that this user holds here."""
    return run.body["status"] in ("launching", "running", "lost") and is_ours(folder_of(ctx, run.id))


def no_changes() -> Scanned:
    """Returns the answer of a scan that has found nothing yet."""
    return {"changes": [], "debits": [], "evidence": [], "problems": []}


def catch_up(ctx: Context) -> None:
    """Scans before a new run is started, if any run is live.

    Ended runs are measured before a new one can write where they wrote, and waiting runs are not overtaken.
    """
    if RunRecords(ctx).live():
        scan(ctx)


def look(ctx: Context, run_id: str) -> tuple[str, str | None]:
    """Returns a run's status now, with its reason or with what is wrong with its supervision; nothing is recorded."""
    run = ctx.need(RUN, run_id)
    if run.body["status"] not in ("launching", "running"):
        return run.body["status"], run.body["reason"]
    seen = sight(ctx, run)
    if is_requeued(run, seen):
        return run.body["status"], "started anew by its engine"
    if seen.state in LIVING or (seen.state == "absent" and run.body["status"] == "launching"):
        is_said = run.body["status"] == "running" or seen.state == "pending"
        return run.body["status"], seen.detail if is_said else None
    return verdict_of(seen)


def as_seen(ctx: Context, id: str, status: str, reason: str | None) -> tuple[str, str | None]:
    """Returns the status and reason to show of a run whose supervisor here is gone; records nothing."""
    try:
        found = look(ctx, id) if status == "running" and is_ours(folder_of(ctx, id)) else (status, reason)
    except (PerpetualError, *HOSTILE):
        return status, reason
    if found[0] == status:
        return status, found[1] or reason
    return found[0], "; ".join(filter(None, (found[1], "perpetual scan records it")))


def _each(deed: Callable[[Context, RunRow, Scanned], bool], ctx: Context, run: RunRow, answer: Scanned) -> bool:
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


def _end(ctx: Context, run: RunRow, answer: Scanned) -> bool:
    end_overdue(ctx, run)
    return look_at(ctx, ctx.need(RUN, run.id), answer)


def look_at(ctx: Context, run: RunRow, answer: Scanned, *, seen: Sighting | Exception | None = None) -> bool:
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
    if is_requeued(run, seen) and not is_in_hand(run):
        return _requeue(ctx, run, seen, answer)
    if seen.state == "pending":
        _note_pending(ctx, run, seen, answer)
        return False
    if seen.state == "running":
        if run.body["status"] == "launching":
            adopt(ctx, run, seen, answer)
        else:
            told = note_overrun(ctx, run, seen)
            if told is not None:
                answer["changes"].append({**_change(run, "running"), "reason": told})
            if not log_dir.is_dir():
                message = f"{log_dir} was removed: it goes on, and how it ends will not be known"
                answer["problems"].append({"run_id": run.id, "code": "folder_removed", "message": message})
        return seen.overdue
    if seen.state == "absent" and run.body["status"] == "launching" and not run.body.get("pending"):
        back_to_queue(ctx, run, answer)
        return False
    step("scan:ended")
    end = found_end(ctx, run, seen)
    step("scan:measured")
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.body["status"] not in ("launching", "running"):
            return False  # another process was quicker
        is_current = fresh.revision == run.revision
        if is_current:
            before = fresh.body["status"]
            debit, evidence = settle(ctx, tx, fresh, end)
            step("scan:evidence")
            after = ctx.need(RUN, run.id)
    if not is_current:
        # The run's record changed after we read it (provenance, shared folder, canceller): measure again.
        return look_at(ctx, fresh, answer)
    step("scan:settled")
    _tell_end(ctx, answer, _change(after, before), debit, evidence)
    return False


def _tell_end(
    ctx: Context, answer: Scanned, change: Change, debit: dict[str, object] | None, evidence: str | None
) -> None:
    answer["changes"].append(change)
    if debit is not None:
        answer["debits"].append(debit)
    if evidence is not None:
        answer["evidence"].append(to_json(EvidenceRecords(ctx).get(evidence)))


def _note_pending(ctx: Context, run: RunRow, seen: Sighting, answer: Scanned) -> None:
    """Notes that a run waits in its engine's queue, and the engine's words for why."""
    values = {
        "status": "launching",
        "pending": True,
        "reason": seen.detail or f"in the queue of {run.body['scheduler']}",
    }
    values |= {"native_id": seen.native_id} if seen.native_id else {}
    if is_in_hand(run) or run.body["status"] != "launching" or _has(run, values):
        return
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.revision == run.revision:
            if not run.body.get("pending"):  # its launcher died before it noted so
                values |= kept_of(RunRecords(ctx).log_dir(run.id)).noted(fresh.body)
            answer["changes"].append(_change(RunRecords(ctx).change(tx, fresh, values), "launching"))


def _has(run: RunRow, values: Mapping[str, object]) -> bool:
    return all(run.body.get(key) == value for key, value in values.items())


def _requeue(ctx: Context, run: RunRow, seen: Sighting, answer: Scanned) -> bool:
    """Ends the attempt whose job its engine has started anew, and records the new one: both, or none."""
    detail = f" ({seen.detail})" if seen.detail and seen.state == "pending" else ""
    over = Sighting("ended", reason="killed", ended_at=ctx.now())
    end = Ending(over, "killed", f"requeued by the engine{detail}")
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        is_current = fresh.revision == run.revision
        if is_current:
            before = fresh.body["status"]
            debit, evidence = settle(ctx, tx, fresh, end)
            step("scan:evidence")
            made = requeued(ctx, tx, ctx.need(RUN, run.id), seen)
            ExperimentRecords(ctx).fold(tx, fresh.body["experiment_id"])
            after = ctx.need(RUN, run.id)
    if not is_current:
        return fresh.body["status"] in ("launching", "running") and look_at(ctx, fresh, answer)
    step("scan:settled")
    _tell_end(ctx, answer, _change(after, before), debit, evidence)
    if made.body.get("cancelled_by"):
        grace_s = ctx.config.methodology["kill_grace_s"]
        log_dir = RunRecords(ctx).log_dir(made.id)
        scheduler = scheduler_for(ctx, made)
        scheduler.cancel(made.body["native_id"], log_dir, by=made.body["cancelled_by"], grace_s=grace_s)
    return look_at(ctx, made, answer, seen=seen)


def _change(run: RunRow, before: str) -> Change:
    return {
        "run_id": run.id,
        "experiment_id": run.body["experiment_id"],
        "from": before,
        "to": run.body["status"],
        "reason": run.body["reason"],
    }


def adopt(ctx: Context, run: RunRow, seen: Sighting, answer: Scanned) -> None:
    """Takes over a run whose launcher died between starting it and noting so."""
    if is_in_hand(run) or seen.started_at is None:  # a supervisor that has started nothing yet may still fail
        return
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if fresh.body["status"] == "launching" and not is_in_hand(fresh):
            values: dict[str, object] = {"status": "running", "pid": seen.pid, "started_at": seen.started_at}
            values |= {"host": seen.host}
            if fresh.body.get("pending"):
                values |= {"pending": False, "reason": None}
            else:
                values |= kept_of(RunRecords(ctx).log_dir(run.id)).noted(fresh.body)
            values |= {"native_id": seen.native_id} if seen.native_id else {}
            values |= {"gpus": [*seen.gpus]} if seen.gpus else {}
            answer["changes"].append(_change(RunRecords(ctx).change(tx, fresh, values), "launching"))
            ExperimentRecords(ctx).fold(tx, fresh.body["experiment_id"])


def back_to_queue(ctx: Context, run: RunRow, answer: Scanned) -> None:
    """Puts a run back into the queue of which nothing ever ran, unless its launcher is just about to start it."""
    if _launcher_lives(run):
        return
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        # Another process may have queued it before us, and another launcher be about to start it.
        if fresh.body["status"] == "launching" and not _launcher_lives(fresh):
            values: dict[str, object] = {"status": "queued", "reason": fresh.body["reason"] or _NEVER, "gpus": []}
            answer["changes"].append(_change(RunRecords(ctx).change(tx, fresh, values), "launching"))
            ExperimentRecords(ctx).fold(tx, fresh.body["experiment_id"])


def is_in_hand(run: RunRow) -> bool:
    """Returns whether its launcher is about to note what came of it."""
    return run.body["status"] == "launching" and not run.body.get("pending") and _launcher_lives(run)


def _launcher_lives(run: RunRow) -> bool:
    launcher = run.body.get("launcher")
    if launcher is None or run.body.get("launch_over"):  # it lives on, and its engine did not answer
        return False
    identity = platform.Identity(*launcher)
    return platform.is_alive(identity) or _is_launched_elsewhere(run, identity)


def _is_launched_elsewhere(run: RunRow, launcher: platform.Identity) -> bool:
    """Returns whether another machine that shares the project is launching it now.

    That launcher cannot be looked for here.
    """
    host, since = run.body.get("launcher_host"), run.body.get("launching_at")
    if host is None or since is None or host == this_host().id or launcher.boot_id == platform.boot_id():
        return False
    return time.time() - posix_of(since) < _LONGEST_LAUNCH_S
