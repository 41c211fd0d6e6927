"""Launching: from an approved experiment to a run whose worst case is reserved; `start` then makes it a process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from perpetual.errors import Conflict, NotPermitted, PerpetualError, Refused, UsageError
from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys, check_place
from perpetual.lab.engines.schedulers import scheduler_name, scheduler_of
from perpetual.lab.engines.sight import leftovers
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS, RUN, ExperimentRow, LabTransaction, RunRow
from perpetual.lab.ledger.experiments import ExperimentRecords, argv_of
from perpetual.lab.ledger.runs import SEEDS, RunRecords, seed_of
from perpetual.lab.permissions import for_agent
from perpetual.lab.provenance.code_check import Changed, CodeCheck, accepted_of, accepted_values, require_same
from perpetual.lab.provenance.isolation import code_root, isolation_of, keep, kept_for, marked
from perpetual.lab.runs.admission import Moment, check_machine, room
from perpetual.lab.runs.environment import keep as keep_environment
from perpetual.lab.runs.environment import tidy
from perpetual.lab.runs.launch_spec import spec_of
from perpetual.lab.runs.order import keep_moving
from perpetual.lab.runs.start import start, start_many, wanted_gpus
from perpetual.records import ENDED, Run, from_json
from perpetual.slots.placement import Waits
from perpetual.slots.scheduler import LaunchSpec, Sighting
from perpetual.toolkit.crashpoints import step

if TYPE_CHECKING:
    from perpetual.documents.provenance import KeptCode
    from perpetual.documents.runs import Hours, RunPlan

__all__ = ["launch", "plan", "plan_retry", "requeued", "reserve", "retry", "try_again"]


# What the next attempt of a job that its engine has started anew shares with the one before.
_KEPT = ("nonce", "spec_hash", "launcher", "grace_s", "cancelled_by", "cancel_grace_s", "on_overrun", "gpus",
         "gpu_numbers", "shares_folder", "isolated", "needs", "kept",
         "kept_mark", "git", "provenance_sha256", "versions", "tainted", "environment")  # fmt: skip


class _Wish(NamedTuple):
    """What is asked of a run beyond its experiment."""

    attempt: int = 1
    seed: int | None = None  # picked by hand, or that of an earlier attempt
    gpus: Sequence[int] = ()  # by their numbers
    is_chosen: bool = False  # the seed, by hand
    changed: Changed | None = None  # the code since the approval, of which the caller was warned
    accepted: Sequence[str] = ()  # hashes of code, other than the approved one, that a person has started it with
    kept: KeptCode | None = None  # a copy of the code that it starts from, where its experiment is not isolated
    environment: str | None = None  # that is kept for it


def launch(
    ctx: Context,
    experiment_id: str,
    *,
    command: str | None = None,
    every: bool = False,
    seed: int | None = None,
    gpus: Sequence[int] = (),
    isolate: bool = False,
    idempotency_key: str | None = None,
) -> list[Run]:
    """Starts the next missing replicate of an approved experiment, or `every` one, as `Runs.launch` says."""
    ctx.redaction.refuse_command(command)
    _check_seed(seed, every)
    with ctx.store.transaction() as tx:
        earlier = ctx.recall(tx, idempotency_key, "run")
    if earlier is not None:
        return _recalled(ctx, earlier)
    surveys = Surveys(ctx)
    candidate = _candidate(ctx, ctx.need(EXPERIMENT, experiment_id), command)
    _check_place(ctx, candidate, gpus, surveys)
    check = CodeCheck(ctx)
    typed = None if command is None or ctx.need(EXPERIMENT, experiment_id).body["command"] else candidate
    code = check.bound(typed, check.state_of(typed)) if typed is not None else None
    changed = require_same(ctx, check, candidate) if typed is None else None
    is_extra = isolate and not candidate.body["resources"].get("isolate")
    kept = keep(ctx, candidate.body) if is_extra else None
    wish = _Wish(1, seed, gpus, seed is not None, changed, kept=kept)
    with ctx.store.transaction() as tx:
        earlier = ctx.recall(tx, idempotency_key, "run")
        if earlier is not None:
            return _recalled(ctx, earlier)
        experiment = ctx.need(EXPERIMENT, experiment_id)
        if _candidate(ctx, experiment, command) is not experiment:
            assert command is not None
            experiment = ExperimentRecords(ctx).complete_spec(tx, experiment, command, code)
        missing = _open_replicates(ctx, experiment)
        wish = wish._replace(environment=keep_environment(ctx))
        made: list[str] = []
        for replicate in missing if every else missing[:1]:
            try:
                made.append(_create(ctx, tx, experiment, replicate, wish).id)
            except Refused:
                if not made:
                    raise
                break
        ExperimentRecords(ctx).fold(tx, experiment_id)  # once: it reads all of the experiment's runs
        ctx.remember(tx, idempotency_key, "run", " ".join(made))
    step("launch:reserved")
    started = start_many(ctx, made, surveys)
    tidy(ctx)
    keep_moving(ctx)
    return [from_json(Run, run.body) for run in started]


def reserve(ctx: Context, experiment_id: str, surveys: Surveys, changed: Changed | None = None) -> str:
    """Returns the first half of `launch`, for the loop, which picks in the same transaction.

    Answers the queued run's id.

    Args:
        changed: what of its code is not as it was approved, where it starts all the same.

    Raises:
        As `launch`.
    """
    experiment = ctx.need(EXPERIMENT, experiment_id)
    _check_place(ctx, _candidate(ctx, experiment, None), (), surveys)
    with ctx.store.transaction() as tx:
        missing = _open_replicates(ctx, experiment)
        made = _create(ctx, tx, experiment, missing[0], _Wish(changed=changed, environment=keep_environment(ctx)))
        ExperimentRecords(ctx).fold(tx, experiment_id)
        return made.id


def retry(ctx: Context, run_id: str, *, idempotency_key: str | None = None) -> Run:
    """Returns a new attempt of a run that ended without a result, as `Runs.retry` says."""
    with ctx.store.transaction() as tx:
        earlier = ctx.recall(tx, idempotency_key, "retry")
    if earlier is not None:
        return _recalled(ctx, earlier)[0]
    old, experiment = _retryable(ctx, run_id)
    _require_gone(ctx, old)
    surveys = Surveys(ctx)
    _check_place(ctx, experiment, wanted_gpus(old), surveys)
    changed = require_same(ctx, CodeCheck(ctx), experiment)
    with ctx.store.transaction() as tx:
        earlier = ctx.recall(tx, idempotency_key, "retry")
        if earlier is not None:
            return _recalled(ctx, earlier)[0]
        made = _next_attempt(ctx, tx, run_id, changed, keep_environment(ctx))
        ctx.remember(tx, idempotency_key, "retry", made.id)
    step("launch:reserved")
    return start(ctx, made.id, surveys)


def _next_attempt(
    ctx: Context, tx: LabTransaction, run_id: str, changed: Changed | None = None, environment: str | None = None
) -> RunRow:
    """Returns the next attempt of the run's replicate, queued: same seed, same wishes, by default same environment."""
    old, experiment = _retryable(ctx, run_id)
    wish = _again(ctx, old)._replace(changed=changed, environment=environment or old.body.get("environment"))
    made = _create(ctx, tx, experiment, old.body["replicate"], wish)
    ExperimentRecords(ctx).fold(tx, experiment.id)
    return made


def try_again(ctx: Context, tx: LabTransaction, run: RunRow, cause: str) -> RunRow | None:
    """Returns a further attempt, queued, of a run that has just ended by `cause`, where the methodology says so.

    Once, since the caller's transaction is the one in which the run ends. What stands against it is noted beside the
    run: no caller waits for an answer here.

    Args:
        cause: `lost`, `oom` or `preempted`, as in the methodology's `auto_retry`.
    """
    methodology = ctx.config.methodology
    if cause not in methodology["auto_retry"] or run.body["attempt"] >= methodology["max_attempts"]:
        return None
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    hypothesis = tx.get(HYPOTHESIS, experiment.body["hypothesis_id"] or "")
    if hypothesis is not None and hypothesis.body["status"] in ("supported", "refuted"):
        why = f"{hypothesis.id} is {hypothesis.body['status']}"
        _note_untried(ctx, tx, run, cause, f"not tried again by itself: what it would measure is decided, {why}")
        return None
    try:
        with ctx.store.transaction():  # all of it, or none
            made = _next_attempt(ctx, tx, run.id)
            payload = {"run_id": run.id, "attempt": made.body["attempt"], "cause": cause}
            ctx.emit(tx, "run_retried", made.id, payload)
    except PerpetualError as problem:
        _note_untried(ctx, tx, run, cause, f"not tried again by itself: {problem.message}")
        return None
    return made


def _note_untried(ctx: Context, tx: LabTransaction, run: RunRow, cause: str, text: str) -> None:
    RunRecords(ctx).annotate(tx, ctx.need(RUN, run.id), [{"kind": "retry", "text": text, "source": cause}])


def plan(
    ctx: Context,
    experiment_id: str,
    *,
    command: str | None = None,
    every: bool = False,
    seed: int | None = None,
    gpus: Sequence[int] = (),
    isolate: bool = False,
) -> RunPlan:
    """Returns what `launch` would do, its refusals included, without doing it, as `Runs.plan` says."""
    ctx.redaction.refuse_command(command)
    _check_seed(seed, every)
    experiment = _candidate(ctx, ctx.need(EXPERIMENT, experiment_id), command)
    surveys = Surveys(ctx)
    spec = _check_place(ctx, experiment, gpus, surveys)
    is_typed = command is not None and ctx.need(EXPERIMENT, experiment_id).body["command"] is None
    changed = None if is_typed else require_same(ctx, CodeCheck(ctx), experiment)
    missing = _open_replicates(ctx, experiment)
    wish = _Wish(1, seed, gpus, seed is not None, changed)
    found = _planned(ctx, experiment, spec, missing if every else missing[:1], wish, surveys)
    if isolate and not experiment.body["resources"].get("isolate"):
        part = isolation_of(ctx, code_root(ctx, experiment.body))
        found["isolated"] = part.preview(argv_of(experiment.body["command"] or ""))
    return found


def plan_retry(ctx: Context, run_id: str) -> RunPlan:
    """Returns what `retry` would do, its refusals included, without doing it; answers as `plan`."""
    old, experiment = _retryable(ctx, run_id)
    _require_gone(ctx, old)
    surveys = Surveys(ctx)
    spec = _check_place(ctx, experiment, wanted_gpus(old), surveys)
    wish = _again(ctx, old)._replace(changed=require_same(ctx, CodeCheck(ctx), experiment))
    return _planned(ctx, experiment, spec, [old.body["replicate"]], wish, surveys)


def requeued(ctx: Context, tx: LabTransaction, run: RunRow, seen: Sighting) -> RunRow:
    """Returns the attempt that an engine has made of a run's job, in the transaction that ends the run.

    It goes on in the same folder and under the same nonce. Its worst case is reserved, whatever is left.
    """
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    made = RunRecords(ctx).create(
        tx,
        experiment,
        replicate=run.body["replicate"],
        attempt=1 + max(other.body["attempt"] for other in _attempts(tx, run)),
        seed=run.body["seed"],
        chosen_seed=run.body["chosen_seed"],
        scheduler=run.body["scheduler"],
        status="queued",
        reason=None,
        wanted_gpus=wanted_gpus(run),
    )
    Budget(ctx).reserve(tx, made.body, **_worst_case(experiment, wanted_gpus(run)))
    home = run.body.get("lives_in", run.id)
    kept = {key: value for key, value in run.body.items() if key in _KEPT}
    made = RunRecords(ctx).change(
        tx,
        made,
        {
            **kept,
            "status": "launching",
            "pending": True,
            "reason": seen.detail or f"started anew by {run.body['scheduler']}",
            "native_id": seen.native_id or run.body["native_id"],
            "requeued": seen.requeued,
            "annotations": [note for note in run.body.get("annotations", ()) if note["kind"] == "late"],
            "lives_in": home,
            "log_dir": f".perpetual/runs/{home}",
        },
    )
    payload = {"run_id": run.id, "attempt": made.body["attempt"], "cause": "requeued"}
    ctx.emit(tx, "run_retried", made.id, payload)
    return made


def _attempts(tx: LabTransaction, run: RunRow) -> list[RunRow]:
    """Returns the attempts of a run's replicate, itself among them."""
    runs = tx.find(RUN, experiment_id=run.body["experiment_id"])
    return [other for other in runs if other.body["replicate"] == run.body["replicate"]]


def reserve_anew(ctx: Context, tx: LabTransaction, run: RunRow) -> None:
    """Reserves the worst case of a run that was taken for lost and goes on, whatever is left: it uses it already."""
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    Budget(ctx).reserve(tx, run.body, **_worst_case(experiment, wanted_gpus(run)))


def _again(ctx: Context, old: RunRow) -> _Wish:
    """Returns the same as was asked of a run that has ended."""
    accepted, body = tuple(accepted_of(ctx, old)), old.body
    return _Wish(
        body["attempt"] + 1, body["seed"], wanted_gpus(old), body["chosen_seed"], accepted=accepted,
        kept=body.get("kept") and kept_for(ctx, ctx.need(EXPERIMENT, body["experiment_id"]), old),
    )  # fmt: skip


def _recalled(ctx: Context, made: str) -> list[Run]:
    return [RunRecords(ctx).get(id) for id in made.split()]


def _check_seed(seed: int | None, every: bool) -> None:
    if seed is None:
        return
    if not 0 <= seed < SEEDS:
        raise UsageError(f"a seed is a whole number from 0 to 2^31 - 1, not {seed}", hint="as in --seed 7")
    if every:
        raise UsageError(
            "one seed for every replicate makes them the same run",
            hint="leave the seed out: each replicate gets its own",
        )


def _candidate(ctx: Context, experiment: ExperimentRow, command: str | None) -> ExperimentRow:
    """Returns the experiment as it would run: itself, or a draft with the command that a person typed.

    Nothing is written.

    Raises:
        NotPermitted, Conflict, UsageError: if it may not run, or not with this command.
    """
    approved = experiment.body["command"]
    if command is not None and approved is None:
        return _with_command(ctx, experiment, command)
    if command is not None and argv_of(command) != argv_of(approved or ""):
        raise Conflict(
            f"{experiment.id} was approved with another command: {approved}"
            if experiment.body["approved_by"]
            else f"{experiment.id} was proposed with another command: {approved}",
            hint="leave the command out to run that one; propose a new experiment for the other",
            code="command_differs",
        )
    ExperimentRecords(ctx).check_launchable(experiment)
    return experiment


def _with_command(ctx: Context, experiment: ExperimentRow, command: str) -> ExperimentRow:
    argv_of(command)
    if for_agent(ctx):
        raise NotPermitted(
            f"{experiment.id} has no command, and only a person may give it one",
            hint="propose an experiment with its command, for a person to approve",
        )
    if experiment.body["status"] != "proposed":  # typing the command approves a proposal, and nothing else
        ExperimentRecords(ctx).check_open(experiment)
    return replace(experiment, body={**experiment.body, "command": command})


def _check_place(ctx: Context, experiment: ExperimentRow, gpus: Sequence[int], surveys: Surveys) -> LaunchSpec:
    """Raises LaunchError if the experiment could never start on this machine."""
    spec = spec_of(ctx, experiment, run_id="check", gpus=())
    check_machine(ctx, experiment)
    scheduler_of(ctx, experiment).check(spec)
    check_place(ctx, experiment, gpus, surveys)
    return spec


def _open_replicates(ctx: Context, experiment: ExperimentRow) -> list[int]:
    """Returns the replicates that have no run yet, one at least."""
    if RunRecords(ctx).queue_state() == "draining":
        raise _draining()
    taken = {run.body["replicate"] for run in ctx.store.find(RUN, experiment_id=experiment.id)}
    wanted = experiment.body["design"]["replicates"]
    missing = [number for number in range(1, wanted + 1) if number not in taken]
    if not missing:
        raise Conflict(
            f"{experiment.id} has all of its {wanted} replicates",
            hint=f"perpetual runs --experiment {experiment.id}; retry a failed one: perpetual retry RUN",
        )
    return missing


def _draining() -> Refused:
    return Refused("the queue is draining and takes nothing new", hint="perpetual queue resume", code="draining")


def _retryable(ctx: Context, run_id: str) -> tuple[RunRow, ExperimentRow]:
    """Returns the run and its experiment, if the run may be tried again."""
    old = ctx.need(RUN, run_id)
    experiment = ctx.need(EXPERIMENT, old.body["experiment_id"])
    ExperimentRecords(ctx).check_launchable(experiment)
    metric = experiment.body["design"]["metric"]
    fruitless = old.body["status"] == "done" and metric is not None and old.body["metrics"].get(metric) is None
    if old.body["status"] not in ENDED or (old.body["status"] == "done" and not fruitless):
        raise Conflict(f"{old.id} is {old.body['status']}; only a run that ended without a result is retried",
                       hint=f"perpetual runs {old.id}")  # fmt: skip
    others = [
        run
        for run in ctx.store.find(RUN, experiment_id=experiment.id)
        if run.body["replicate"] == old.body["replicate"]
    ]
    if others[-1].id != old.id:
        raise Conflict(f"{old.id} has been retried already by {others[-1].id}", hint=f"perpetual runs {others[-1].id}")
    if RunRecords(ctx).queue_state() == "draining":
        raise _draining()
    return old, experiment


def _require_gone(ctx: Context, run: RunRow) -> None:
    """Raises Conflict while processes live that a lost run has left: no other attempt starts beside them."""
    left = leftovers(ctx, run)
    if left:
        raise Conflict(
            f"{run.id} left processes that still run: {', '.join(map(str, left))}", hint=f"perpetual kill {run.id}"
        )


def _worst_case(experiment: ExperimentRow, gpus: Sequence[int]) -> Hours:
    resources = experiment.body["resources"]
    hours, count = (resources["wall_s"] or 0.0) / 3600.0, max(len(gpus), resources["gpus"])
    return {"gpu_hours": hours * count, "run_hours": hours * max(1, count)}


def _seed(ctx: Context, experiment: ExperimentRow, replicate: int) -> int:
    """Returns the seed of a replicate: that of its baseline's one of the same number, where the two share seeds.

    What extends an experiment goes on with its seeds, so that a claim and its baseline share them however often either
    is extended; what is run anew keeps the seeds that others share.
    """
    body = experiment.body
    own = body.get("extends") or experiment.id
    shared = body["design"]["baseline"] if body["design"]["paired"] else None
    root = shared if isinstance(shared, str) else body.get("renews") or own
    number = replicate + next((start for id, start, _ in _parts(ctx, own) if id == experiment.id), 0)
    if root == own:
        return seed_of(ctx.config.project_id, root, number)
    recorded = [
        run.body["seed"]
        for id, start, size in _parts(ctx, root)
        if start < number <= start + size
        for run in ctx.store.find(RUN, experiment_id=id)
        if start + run.body["replicate"] == number
        and not run.body["chosen_seed"]
        and run.body.get("is_seed_known", True)
    ]  # what the partner ran with, which an earlier version may have drawn otherwise
    drawn = seed_of(ctx.config.project_id, root, number)
    return drawn if not recorded or recorded[-1] is None else int(recorded[-1])


def _parts(ctx: Context, root: str) -> Iterator[tuple[str, int, int]]:
    """Yields an experiment and what extends it, each with how many replicates come before it and how many it has."""
    start = 0
    for id in (root, *ctx.need(EXPERIMENT, root).body.get("extended_by", [])):
        size = ctx.need(EXPERIMENT, id).body["design"]["replicates"]
        yield id, start, size
        start += size


def _planned(
    ctx: Context, experiment: ExperimentRow, spec: LaunchSpec, replicates: Sequence[int], wish: _Wish, surveys: Surveys
) -> RunPlan:
    worst = _worst_case(experiment, wish.gpus)
    Budget(ctx).require_room(**worst)
    got = room(ctx, experiment, wish.gpus, surveys, Moment(ctx))
    return {
        "experiment_id": experiment.id,
        "attempt": wish.attempt,
        "replicates": [*replicates],
        "seeds": [_seed(ctx, experiment, number) if wish.seed is None else wish.seed for number in replicates],
        "argv": [*spec.argv],
        "cwd": str(spec.cwd),
        "wall_s": spec.wall_s,
        **worst,
        "waits_for": got.reason if isinstance(got, Waits) else None,
        "code_changed": wish.changed.text if wish.changed else None,
        "isolated": None,
    }


def _create(ctx: Context, tx: LabTransaction, experiment: ExperimentRow, replicate: int, wish: _Wish) -> RunRow:
    """Returns a queued run, its worst case reserved: refused here, not later, where the budget does not hold it.

    The caller folds the experiment anew when it has made all of its runs.
    """
    worst = _worst_case(experiment, wish.gpus)
    Budget(ctx).require_room(**worst)
    run = RunRecords(ctx).create(
        tx,
        experiment,
        replicate=replicate,
        attempt=wish.attempt,
        seed=_seed(ctx, experiment, replicate) if wish.seed is None else wish.seed,
        chosen_seed=wish.is_chosen,
        scheduler=scheduler_name(ctx, experiment),
        status="queued",
        reason=None,
        wanted_gpus=wish.gpus,
        environment=wish.environment,
    )
    Budget(ctx).reserve(tx, run.body, **worst)
    accepted = [*wish.accepted]
    if wish.changed is not None and wish.changed.now.sha256 is not None:
        accepted.append(wish.changed.now.sha256)
        run = RunRecords(ctx).annotate(tx, run, [wish.changed.annotation])
    if wish.kept is not None:
        run = RunRecords(ctx).change(tx, run, marked(ctx, run, wish.kept))
    return RunRecords(ctx).change(tx, run, accepted_values(ctx, run, accepted)) if accepted else run
