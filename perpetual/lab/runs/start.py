"""Starting: a queued run becomes a process if there is room for it now; else it says for what it waits.

`launching` is durable before the process starts and `running` is noted after: a launcher that dies in between leaves a
run whose folder tells the next reconciliation what happened. Used by `launch`, `reconcile` and the loop's steps.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from perpetual.errors import PerpetualError, PluginError, TransientError
from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys, needs_driver, placement_of
from perpetual.lab.engines.schedulers import scheduler_name, scheduler_of
from perpetual.lab.engines.sight import is_occupied, leftovers, scheduler_for, set_aside, taken
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, LabTransaction, RunRow
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.provenance import isolation
from perpetual.lab.provenance.captures import Kept, capture, kept_of
from perpetual.lab.provenance.code_check import CodeCheck, accepted_of, reason_of
from perpetual.lab.runs.admission import Moment, held_back, room
from perpetual.lab.runs.environment import lacking
from perpetual.lab.runs.launch_spec import prepare, spec_of
from perpetual.lab.runs.order import needed
from perpetual.records import Run, from_json
from perpetual.slots.placement import Lease, Waits
from perpetual.slots.scheduler import LIVING, Launched, LaunchError, LaunchSpec, Scheduler, Sighting
from perpetual.toolkit import platform
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.hosts import this_host

if TYPE_CHECKING:
    from perpetual.documents.runs import ScanProblem

__all__ = ["advance_queue", "start", "start_many", "waiting", "wanted_gpus"]


def start(ctx: Context, run_id: str, surveys: Surveys) -> Run:
    """Returns the second half of a launch: a queued run is started if there is room for it now.

    Args:
        surveys: of this command, so that the driver is asked once for all of its runs.

    Raises:
        LaunchError: if it cannot be started; it has failed then, and its reservation is settled.
    """
    return from_json(Run, start_many(ctx, [run_id], surveys)[0].body)


def waiting(ctx: Context) -> list[RunRow]:
    """Returns the queued runs in the order in which they start: by priority, score and age."""
    return [run for _, run in Moment(ctx).queue]


def start_many(ctx: Context, run_ids: Sequence[str], surveys: Surveys) -> list[RunRow]:
    """Starts queued runs for which there is room now, as many in one call of their scheduler as it takes.

    Raises:
        PerpetualError: the first failure, once each of the others was tried.
    """
    batches = _Batches(ctx)
    for id in run_ids:
        batches.add(id, surveys)
    batches.hand_over()
    for problem in batches.problems.values():
        raise problem
    return [ctx.need(RUN, id) for id in run_ids]


def advance_queue(ctx: Context, surveys: Surveys) -> tuple[list[RunRow], list[ScanProblem]]:
    """Starts queued runs for which there is room now.

    Returns:
        Those that started, or failed to; and `{run_id, code, message}` of each that waits on since it could not be
        looked at.
    """
    moment, check, batches = Moment(ctx), CodeCheck(ctx), _Batches(ctx)
    for _, run in moment.queue:
        try:
            if _waits_on(ctx, run, surveys, moment) or _held_by_code(ctx, run, check):
                continue
        except PerpetualError as problem:
            batches.problems[run.id] = problem
            continue
        if batches.add(run.id, surveys):
            moment = Moment(ctx)
    batches.hand_over()
    tried = [ctx.need(RUN, id) for id in [*batches.taken, *batches.problems]]
    begun = {run.id: run for run in tried if run.body["status"] != "queued"}
    problems: list[ScanProblem] = [
        {"run_id": id, "code": problem.code, "message": problem.message}
        for id, problem in batches.problems.items()
        if id not in begun  # else it is recorded as failed, with its reason
    ]
    return [*begun.values()], problems


def _waits_on(ctx: Context, run: RunRow, surveys: Surveys, moment: Moment) -> bool:
    """Returns whether it waits for what its record says already.

    Then there is nothing to write, and no lock to wait for.
    """
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    why = ExperimentRecords(ctx).why_not_approved(experiment)
    if why is not None:
        return bool(run.body["reason"] == why)
    got = room(ctx, experiment, wanted_gpus(run), surveys, moment, run)
    why = got.reason if isinstance(got, Waits) else _lacking(ctx, experiment, run)
    return why is not None and why == run.body["reason"]


def _lacking(ctx: Context, experiment: ExperimentRow, run: RunRow) -> str | None:
    """Returns what a run lacks of the environment in which it was queued, where its scheduler passes any on."""
    scheduler = scheduler_of(ctx, experiment)
    return lacking(ctx, run) if scheduler.inherits_env or scheduler.passes_env else None


def _held_by_code(ctx: Context, run: RunRow, check: CodeCheck) -> bool:
    """Returns whether its code is not what was approved, and a person must approve it again.

    The record says so then.
    """
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    copied = isolation.kept_for(ctx, experiment, run) is not None  # which the user's edits do not reach
    found = None if copied else check.changed(experiment, by_queue=True, accepted=accepted_of(ctx, run))
    values: dict[str, object] = {}
    if found is not None and found.rule == "ask":
        values = {"reason": reason_of(found), "code_held": True}
    elif found is not None:
        note, known = found.annotation, [*run.body.get("annotations", ())]
        values = {"annotations": [*known, *([] if note in known else [note])]}
    elif run.body.get("code_held"):
        values = {"code_held": False}
    if values.get("code_held") is None and run.body.get("code_held"):
        values["code_held"] = False
    if any(run.body.get(name) != value for name, value in values.items()):
        with ctx.store.transaction() as tx:
            fresh = ctx.need(RUN, run.id)
            if fresh.body["status"] == "queued":
                RunRecords(ctx).change(tx, fresh, values)
    return bool(values.get("code_held"))


class _Turn(NamedTuple):
    """What a look at a queued run has come to."""

    run: RunRow
    is_fresh: bool = False  # it is `launching` by this very look
    again: bool = False  # a launcher died over it before
    lease: Lease = Lease()  # its hold is to be released once the scheduler has its own


class _Batches:
    """Runs that have their room, until a scheduler is handed as many of them as it takes at once."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._turns: dict[str, list[_Turn]] = {}  # by scheduler
        self.taken: list[str] = []  # that are not queued any longer
        self.problems: dict[str, PerpetualError] = {}  # by run

    def add(self, run_id: str, surveys: Surveys) -> bool:
        """Takes a queued run if there is room for it; says for what it waits otherwise. Whether it was taken."""
        try:
            turn = _turn_of(self._ctx, run_id, surveys)
        except PerpetualError as problem:
            self.problems[run_id] = problem
            return False
        except BaseException:
            self.hand_over()  # what has its turn is started, whatever befalls the others
            raise
        if turn.run.body["status"] == "queued":
            return False
        self.taken.append(run_id)
        if turn.is_fresh:
            name = str(turn.run.body["scheduler"])
            waiting = self._turns.setdefault(name, [])
            waiting.append(turn)
            if len(waiting) >= max(1, scheduler_for(self._ctx, turn.run).batch):
                self._spawn(name)
        return True

    def hand_over(self) -> None:
        """Hands over those that are left."""
        for name in [*self._turns]:
            self._spawn(name)

    def _spawn(self, name: str) -> None:
        turns = self._turns.pop(name)
        try:
            self.problems |= _spawn(self._ctx, turns)
        finally:
            for turn in turns:
                _release(self._ctx, turn.run.id, turn.lease)  # the supervisor has its own copy, if there is one


def _turn_of(ctx: Context, run_id: str, surveys: Surveys) -> _Turn:
    """Returns the queued run, `launching` if there is room for it; it says for what it waits otherwise."""
    turn = None
    while turn is None:
        experiment = ctx.need(EXPERIMENT, ctx.need(RUN, run_id).body["experiment_id"])
        wanted = wanted_gpus(ctx.need(RUN, run_id))
        run = ctx.need(RUN, run_id)
        if needs_driver(experiment, wanted, surveys) and held_back(ctx, experiment, Moment(ctx), run) is None:
            surveys.of(experiment).ask()  # now: it may hang, and no transaction waits for it
        turn = _try_start(ctx, run_id, surveys)
    return turn


def _try_start(ctx: Context, run_id: str, surveys: Surveys) -> _Turn | None:
    """Returns the run, `launching` if there was room; None if the driver must be asked first.

    What held it back is over.
    """
    lease = Lease()
    try:
        with ctx.store.transaction() as tx:
            run = ctx.need(RUN, run_id)
            if run.body["status"] != "queued":
                return _Turn(run)
            experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
            wanted = wanted_gpus(run)
            moment = Moment(ctx)
            is_unasked = needs_driver(experiment, wanted, surveys)
            if is_unasked and held_back(ctx, experiment, moment, run) is None:
                return None
            why = ExperimentRecords(ctx).why_not_approved(experiment)
            if why is not None:
                return _Turn(_waiting_for(ctx, tx, run, why))
            got = room(ctx, experiment, wanted, surveys, moment, run, take=True)
            if isinstance(got, Lease):
                lease = got
                why, lacks = _hindrance(ctx, run, lease), _lacking(ctx, experiment, run)
            else:
                why, lacks = got.reason, None
            why, again = why or lacks, run.body.get("launcher") is not None
            run = (
                _waiting_for(ctx, tx, run, why, held=why == lacks)
                if why
                else _take_turn(ctx, tx, run, experiment, lease)
            )
        if why is None:
            step("launch:launching")
    except BaseException:  # Ctrl-C as well: an open claim would keep the devices as long as this process lives
        _release(ctx, run_id, lease)
        raise
    if why is not None:
        _release(ctx, run_id, lease)
        return _Turn(run)
    return _Turn(run, True, again, lease)


def _release(ctx: Context, run_id: str, lease: Lease) -> None:
    """Closes the hold of a run that does not start now."""
    if lease.held is not None:
        experiment = ctx.need(EXPERIMENT, ctx.need(RUN, run_id).body["experiment_id"])
        placement_of(ctx, experiment).release(lease)


def _hindrance(ctx: Context, run: RunRow, lease: Lease) -> str | None:
    """Returns why a run does not start although it has its GPUs, None if it does."""
    if lease.is_begun and _came_through(ctx, run) is None:
        return "an earlier launch of it is still under way"
    return _obstacle(ctx, run)


def _obstacle(ctx: Context, run: RunRow) -> str | None:
    """Returns what lives where the run is to begin, in words.

    What an earlier attempt, or the run of another record, left.
    """
    if run.body.get("launcher") is None:
        occupied = is_occupied(ctx, run)
        if occupied is not None:
            return occupied
    if run.body["attempt"] == 1:
        return None
    for other in ctx.store.find(RUN, experiment_id=run.body["experiment_id"]):
        if other.body["replicate"] == run.body["replicate"] and other.id != run.id:
            left = leftovers(ctx, other)
            if left:
                pids = ", ".join(map(str, left))
                return f"{other.id} left processes that still run: {pids} (perpetual kill {other.id})"
    return None


def _waiting_for(ctx: Context, tx: LabTransaction, run: RunRow, reason: str, *, held: bool = False) -> RunRow:
    """Returns the queued run with the reason for which it waits; one that is `held` keeps no device from others."""
    # Writing the same reason at every look would wake every process that waits for a change.
    if run.body["reason"] == reason and bool(run.body.get("held")) == held:
        return run
    return RunRecords(ctx).change(tx, run, {"reason": reason, "held": held})


def _take_turn(ctx: Context, tx: LabTransaction, run: RunRow, experiment: ExperimentRow, got: Lease) -> RunRow:
    """Returns the run, `launching` with the devices that it got."""
    me = platform.identity_of(os.getpid())
    is_limited = (experiment.body["design"].get("stop_rule") or "").startswith("wall")
    values = {
        "status": "launching",
        "reason": None,
        "held": False,
        "gpus": [*got.gpus],
        "gpu_numbers": [*got.numbers],
        "launcher": list(me) if me else None,
        "launch_over": False,
        "launcher_host": this_host().id,
        "launching_at": ctx.now(),
        "scheduler": scheduler_name(ctx, experiment),  # from now on it is asked through this one
        # What an earlier launcher may have started still counts as this run: its nonce stays.
        "nonce": run.body.get("nonce") if run.body.get("launcher") is not None else os.urandom(16).hex(),
        "grace_s": ctx.config.methodology["kill_grace_s"],
        # The rule that it starts under, and keeps. A declared one goes before the methodology's.
        "on_overrun": "kill" if is_limited else ctx.config.methodology["on_overrun"],
        **({"needs": needs} if (needs := needed(ctx, experiment, run.body["replicate"])) else {}),
        "isolated": (folder := isolation.wanted_folder(ctx, experiment, run)),
        "shares_folder": folder is None and _mark_neighbours(ctx, tx, run, experiment),
    }
    run = RunRecords(ctx).change(tx, run, values)
    if got.unclaimed is not None:
        text = f"other projects on this machine do not see what it has leased: {got.unclaimed}"
        note = {"kind": "gpu", "text": text, "source": "claims"}
        run = run if note in run.body.get("annotations", ()) else RunRecords(ctx).annotate(tx, run, [note])
    ExperimentRecords(ctx).fold(tx, experiment.id)
    return run


def _mark_neighbours(ctx: Context, tx: LabTransaction, run: RunRow, experiment: ExperimentRow) -> bool:
    """Returns whether other runs are live in its working directory; each of them is marked too."""
    found = False
    for other in RunRecords(ctx).live():
        if other.id == run.id or other.body["status"] == "queued" or other.body.get("isolated"):
            continue
        theirs = ctx.need(EXPERIMENT, other.body["experiment_id"]).body
        is_same = isolation.code_root(ctx, theirs) == isolation.code_root(ctx, experiment.body)
        if is_same and (theirs["cwd"] or ".") == (experiment.body["cwd"] or "."):
            found = True
            if not other.body.get("shares_folder"):
                RunRecords(ctx).change(tx, other, {"shares_folder": True})
    return found


class _Prepared(NamedTuple):
    """A run whose folder is ready, or why it is not."""

    turn: _Turn
    spec: LaunchSpec | None = None
    kept: Kept | None = None
    failure: PerpetualError | None = None


def _spawn(ctx: Context, turns: Sequence[_Turn]) -> dict[str, PerpetualError]:
    """Starts the processes of `launching` runs of one scheduler and notes what came of each.

    Where a launcher died over one before, what that one began may have come through since.

    Returns:
        Why those that could not be started could not, by run.
    """
    prepared = [_prepare(ctx, turn) for turn in turns]
    specs = [each.spec for each in prepared if each.spec is not None]
    step("launch:prepared")
    answers = iter(_handed_over(scheduler_for(ctx, turns[0].run), specs) if specs else ())
    problems: dict[str, PerpetualError] = {}
    for each in prepared:
        try:
            _note_launch(ctx, each, each.failure if each.spec is None else next(answers))
        except TransientError as problem:
            problems[each.turn.run.id] = _unanswered(ctx, each.turn.run, problem)
        except PerpetualError as problem:
            problems[each.turn.run.id] = problem
    return problems


def _unanswered(ctx: Context, run: RunRow, problem: TransientError) -> TransientError:
    """Notes beside a run that its engine was out of reach, so that it is not known yet whether it has the run."""
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        is_same = all(fresh.body.get(key) == run.body.get(key) for key in ("launcher", "launching_at"))
        if is_same and fresh.body["status"] == "launching" and not fresh.body.get("pending"):
            reason = f"its engine was out of reach when it was to start: {problem.message}"
            RunRecords(ctx).change(tx, fresh, {"reason": reason, "launch_over": True})
    hint = problem.hint or "perpetual scan asks the engine again, and starts what it has not taken"
    return TransientError(problem.message, hint=hint, code=problem.code)


def _prepare(ctx: Context, turn: _Turn) -> _Prepared:
    run = turn.run
    try:
        experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
        spec = spec_of(ctx, experiment, run_id=run.id, gpus=run.body["gpus"], run=run)
        _make_room(ctx, run)
        prepare(ctx, spec, run, experiment)
        has_come_through = turn.again and _came_through(ctx, run) is not None
        if not has_come_through:
            isolation.check_out(ctx, run, experiment)
        # What the command was started from is there already, if it was started.
        kept = kept_of(spec.log_dir) if has_come_through else capture(ctx, run, experiment, spec)
    except PerpetualError as problem:
        return _Prepared(turn, failure=problem)
    except OSError as problem:
        return _Prepared(turn, failure=LaunchError(f"{run.id} could not be started: {problem}"))
    held = turn.lease.held
    return _Prepared(turn, spec if held is None else replace(spec, held=held), kept)


def _handed_over(scheduler: Scheduler, specs: Sequence[LaunchSpec]) -> Sequence[Launched | PerpetualError]:
    """Returns what the scheduler answers for each."""
    try:
        answers = scheduler.launch_many(specs)
        if len(answers) == len(specs):
            return answers
        problem: PerpetualError = PluginError(
            f"its scheduler answered {len(answers)} of {len(specs)} launches, so nothing is known of it",
            hint="report it to the author of the scheduler",
        )
    except PerpetualError as raised:
        problem = raised
    except OSError as raised:
        problem = LaunchError(f"it could not be started: {raised}")
    return [problem] * len(specs)


def _note_launch(ctx: Context, prepared: _Prepared, answer: Launched | PerpetualError | None) -> RunRow:
    """Notes what came of a launch; raises why it failed."""
    turn, kept = prepared.turn, prepared.kept
    failure = answer if isinstance(answer, PerpetualError) else None
    values: dict[str, object] = {}
    if isinstance(answer, Launched):
        values = {
            "status": "running",
            "native_id": answer.native_id,
            "pid": answer.pid,
            "started_at": answer.started_at,
            "host": answer.host,
        }
        if answer.started_at is None:
            reason = f"in the queue of {turn.run.body['scheduler']}"
            values |= {"status": "launching", "pending": True, "reason": reason}
        if answer.gpus:  # the engine has placed them
            values["gpus"] = [*answer.gpus]
    may_have_begun = turn.again or isinstance(failure, TransientError)  # its engine may have it, and not have said so
    seen = _came_through(ctx, turn.run) if failure is not None and may_have_begun else None
    if seen is not None:
        failure, values = None, {"status": "running", "pid": seen.pid, "started_at": seen.started_at, "host": seen.host}
        if seen.state == "pending":
            values |= {"status": "launching", "pending": True, "reason": seen.detail}
    step("launch:started")
    run = _noted(ctx, turn.run, values, kept, failure)
    if failure is not None:
        if run.body["status"] == "killed":
            return run  # it was cancelled
        raise failure
    step("launch:noted")
    ctx.trust.note(ctx.store.seq())  # a backup of before must not have it run again
    if (run.body["status"] == "running" or run.body.get("pending")) and run.body.get("cancelled_by"):
        # By a caller that found no process to end yet, and may have ended itself.
        grace_s = ctx.config.methodology["kill_grace_s"]
        log_dir = RunRecords(ctx).log_dir(run.id)
        scheduler_for(ctx, run).cancel(run.body["native_id"], log_dir, by=run.body["cancelled_by"], grace_s=grace_s)
    return run


def _make_room(ctx: Context, run: RunRow) -> None:
    """Sets the folder of another record's run aside, and says so beside this one."""
    name = set_aside(ctx, run)
    if name is None:
        return
    text = f"its folder held the files of another record's run: they were set aside as runs/{name}"
    with ctx.store.transaction() as tx:
        RunRecords(ctx).annotate(tx, ctx.need(RUN, run.id), [{"kind": "aside", "text": text, "source": name}])


def _noted(
    ctx: Context, run: RunRow, values: dict[str, object], kept: Kept | None, failure: PerpetualError | None
) -> RunRow:
    """Returns the run after its start, or the failure to start it, is on record."""
    if failure is not None:
        values = {
            "status": "failed",
            "reason": failure.message,
            "ended_at": ctx.now(),
            "gpu_hours": 0.0,
            "run_hours": 0.0,
            "duration_s": 0.0,
        }
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if failure is not None and fresh.body.get("cancelled_by"):
            seen = scheduler_for(ctx, run).poll(None, RunRecords(ctx).log_dir(run.id))
            if (seen.state, seen.reason) == ("ended", "killed"):  # after it was recorded, and before it was executed
                values |= {"status": "killed", "reason": seen.detail}
        values |= kept.noted(fresh.body) if kept is not None else {}
        if fresh.body["status"] == "launching":  # a reconciliation may have been quicker
            fresh = RunRecords(ctx).change(tx, fresh, values)
            if failure is not None:
                Budget(ctx).settle(tx, fresh.body, gpu_hours=0.0, run_hours=0.0)
            ExperimentRecords(ctx).fold(tx, fresh.body["experiment_id"])
        elif failure is None:
            late = ("git", "provenance_sha256", "versions", "annotations", "native_id", "host")
            fresh = RunRecords(ctx).change(tx, fresh, {key: values[key] for key in late if key in values})
    return fresh


def _came_through(ctx: Context, run: RunRow) -> Sighting | None:
    """Returns the run as it is if any launcher has executed its command."""
    seen = taken(ctx, run, scheduler_for(ctx, run).poll(None, RunRecords(ctx).log_dir(run.id)))
    executed = seen.state in LIVING or (seen.state == "ended" and seen.reason != "exec_failed")
    return seen if executed else None


def wanted_gpus(run: RunRow) -> list[int]:
    """Returns the GPUs that were asked for by number when the run was made."""
    return [*run.body["wanted_gpus"]]
