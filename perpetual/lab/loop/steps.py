"""The loop's steps on the record: propose, approve, launch, and why to stop. Each is safe to repeat."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from perpetual.errors import Conflict, PerpetualError, Refused, UsageError
from perpetual.lab.budget import OF_DAY, Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys, needs_driver
from perpetual.lab.evidence.confidence import refold
from perpetual.lab.evidence.decision_preview import explained
from perpetual.lab.experiments.pick import drafts, rescored, tell
from perpetual.lab.experiments.propose import propose as propose_one
from perpetual.lab.experiments.propose import state_of
from perpetual.lab.experiments.related import Related
from perpetual.lab.kinds import EVENT, EVIDENCE, EXPERIMENT, HYPOTHESIS, RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.hypotheses import HypothesisRecords
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.ledger.specification import Specification
from perpetual.lab.proposals import Proposals
from perpetual.lab.provenance.code_check import Changed, CodeCheck, is_held
from perpetual.lab.runs.admission import quiet
from perpetual.lab.runs.launch import reserve
from perpetual.lab.runs.start import start
from perpetual.records import ENDED
from perpetual.toolkit.contained import contained
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.quiet import next_day
from perpetual.toolkit.units import iso

if TYPE_CHECKING:
    from perpetual.documents.provenance import CodeStateDocument
    from perpetual.lab import Lab

__all__ = ["Launches", "approve", "halt_reason", "launch", "propose", "stop_reason"]

_FAILURES_IN_A_ROW = 3
_FAILURE_WINDOW = 10
_PROGRESS_WINDOW = 8
_PROGRESS_NATS = 0.1


class Launches(NamedTuple):
    """What a launch step did: the runs it started, and why nothing more was."""

    runs: tuple[str, ...]
    refused: str | None = None  # the budget's words, if it was what held a run back
    parked: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()  # what could not be started, and why
    idle: bool = False  # no run was live when it last looked
    held: tuple[str, ...] = ()  # experiments whose code was changed since their approval
    paused: tuple[str, str] | None = None  # why what would be launched waits, and until when (UTC)


def propose(ctx: Context) -> list[str]:
    """Returns new proposals from the proposers, at most `proposal_batch_size` open ones; answers their ids."""
    if not ctx.config.methodology["auto_propose"] or _proposal_room(ctx) <= 0:
        return []
    ranked = sorted(drafts(ctx), key=lambda pair: -(pair[1].score.score or 0.0))
    made: list[str] = []
    # The proposers worked without a lock; another caller may have decided their hypotheses, and another loop
    # may have taken their ideas, or the room.
    with ctx.store.transaction():
        ranked = [pair for pair in ranked if HypothesisRecords(ctx).get(pair[0].hypothesis_id).status == "open"]
        for draft, _ in ranked[: max(0, _proposal_room(ctx))]:
            with suppress(Conflict):
                made.append(propose_one(ctx, draft.hypothesis_id, Specification(**draft.arguments)).id)
    return made


def _proposal_room(ctx: Context) -> int:
    size: int = ctx.config.methodology["proposal_batch_size"]
    return size - ctx.store.count("experiment", status="proposed")


def approve(ctx: Context, lab: Lab) -> list[str]:
    """Approves proposals by the rule of `auto_approve`, then those that parts of the slot `approver` answer for.

    A plugin brings that slot. A part that fails approves nothing, and the feed names it.
    """
    methodology, approved = ctx.config.methodology, list[str]()
    if methodology["auto_approve"]:
        most = methodology["auto_approve_max_run_hours"]
        costs = {
            item.id: item.body["design"]["cost_run_hours"] for item in ctx.store.find(EXPERIMENT, status="proposed")
        }
        cheap = [id for id, cost in costs.items() if most is None or (cost is not None and cost <= most)]
        approved += _approve(ctx, cheap, lambda codes: dict.fromkeys(codes, ctx.actor))
    for name, part in ctx.parts("approver") if "approver" in ctx.registry.slots else ():
        try:
            with contained():
                approved += _approve(ctx, part.candidates(lab), partial(part.decide, lab))
        except Exception as problem:  # noqa: BLE001 - of any plugin; what it would have approved waits for a person
            tell(ctx, "approver_failed", name, f"{type(problem).__name__}: {problem}")
    return approved


def _approve(
    ctx: Context, ids: Collection[str], decide: Callable[[dict[str, CodeStateDocument | None]], Mapping[str, str]]
) -> list[str]:
    """Approves, in one transaction with what `decide` records, the ids that it answers, each in the name it says.

    Args:
        ids: proposals that may be approved; only those whose command, read before the transaction, is still the same.
        decide: gets the code that each would run, None where that is unknown.
    """
    if not ids:
        return []
    check, hashes = CodeCheck(ctx), dict[str, str]()
    codes: dict[str, CodeStateDocument | None] = {}
    for item in ctx.store.find(EXPERIMENT, status="proposed"):
        if item.id in ids and item.body["command"] is not None:
            with suppress(UsageError):  # approving it by hand says why no copy of its code can be kept
                codes[item.id], hashes[item.id] = check.states_of([item.id]).get(item.id), item.body["spec_hash"]
    with ctx.store.transaction() as tx:  # or another loop approves in between
        waiting = [item for item in tx.find(EXPERIMENT, status="proposed") if item.id in codes]
        same = {item.id: codes[item.id] for item in waiting if item.body["spec_hash"] == hashes[item.id]}
        names = decide(same) if same else {}
        step("approve:decided")
        return [
            ExperimentRecords(ctx.acting_as(names[id])).bind(id, code=code).id
            for id, code in same.items()
            if id in names
        ]


def launch(ctx: Context) -> Launches:
    """Fills the room for runs: baselines that a claim waits for, then claims by what they teach per run-hour."""
    started: list[str] = []
    surveys = Surveys(ctx)
    for item in _ready(ctx):
        if needs_driver(item, (), surveys):
            surveys.of(item).ask()  # it may hang, and `_reserve` looks at the answer inside a transaction
    failed: dict[str, str] = {}  # by experiment: one that cannot be started holds up no other
    while True:
        check = CodeCheck(ctx)  # before the transaction: a repository takes its time
        found = {item.id: check.changed(item, by_queue=True) for item in _ready(ctx)}
        changed = {id: change for id, change in found.items() if change is not None}
        held = {id for id, change in changed.items() if change.rule == "ask"}
        made = _reserve(ctx, surveys, held | failed.keys(), changed)
        if made.runs:
            step("launch:reserved")
            try:
                started.append(start(ctx, made.runs[0], surveys).id)
            except PerpetualError as problem:  # it is looked at again in the next cycle
                failed[ctx.need(RUN, made.runs[0]).body["experiment_id"]] = f"{made.runs[0]}: {problem.message}"
            continue
        if made.failed:
            failed[made.failed[0]] = f"{made.failed[0]}: {made.failed[1]}"
            continue
        waits = made.refused is not None or made.paused is not None
        spent = not started and not failed and made.idle and not waits
        parked = tuple(_park(ctx)) if spent and RunRecords(ctx).queue_state() == "running" else ()
        return made._replace(
            runs=tuple(started), parked=parked, failed=tuple(failed.values()), held=tuple(sorted(held))
        )


def _unheld(ctx: Context) -> list[RunRow]:
    """Returns the live runs but those that wait for a person to approve their code again."""
    return [run for run in RunRecords(ctx).live() if not is_held(run)]


def _reserve(ctx: Context, surveys: Surveys, held: Collection[str], changed: Mapping[str, Changed]) -> Launches:
    """Returns the next run, made but not started, or why there is none; `failed`: an experiment's id, and why.

    In one transaction: two loops on one record neither take the same replicate nor fill the same room twice.
    """
    with ctx.store.transaction():
        live = len(_unheld(ctx))
        if RunRecords(ctx).queue_state() != "running" or live >= ctx.config.methodology["max_concurrent_runs"]:
            return Launches((), idle=not live)
        pause = quiet(ctx)
        chosen = _next_plain(ctx, held) or _next_claim(ctx, held, is_looked_at=pause is not None)
        if chosen is None:
            return Launches((), idle=not live)
        if pause is not None:
            return Launches((), idle=not live, paused=pause)
        try:
            return Launches((reserve(ctx, chosen, surveys, changed.get(chosen)),))
        except Refused as problem:
            if problem.code == OF_DAY and Budget(ctx).used_of_day("run_hours") > 0:  # else no day is long enough for it
                until = iso(next_day(ctx.clock()))
                return Launches(
                    (), idle=not live, paused=(f"the day's run-hours are used up: {problem.message}", until)
                )
            return Launches((), problem.message, idle=not live)
        except PerpetualError as problem:
            return Launches((), failed=(chosen, problem.message))


def _missing(ctx: Context, experiment: ExperimentRow) -> int:
    if experiment.body["design"].get("runs_of"):
        return 0
    runs = ctx.store.find(RUN, experiment_id=experiment.id)
    return int(experiment.body["design"]["replicates"]) - len({run.body["replicate"] for run in runs})


def _ready(ctx: Context) -> list[ExperimentRow]:
    found = [item for status in ("approved", "active") for item in ctx.store.find(EXPERIMENT, status=status)]
    return sorted((item for item in found if _missing(ctx, item) > 0), key=lambda item: item.number)


def _next_plain(ctx: Context, held: Collection[str]) -> str | None:
    """Returns an approved experiment without a claim.

    A baseline of a claim that is open, or what a person wants to see.
    """
    opened = {item.id for item in ctx.store.find(HYPOTHESIS, status="open")}
    for item in _ready(ctx):
        if item.id not in held and item.body["design"]["claim"] is None:
            users = ctx.cached(Related).users(item.id)
            if not users or users & opened:
                return item.id
    return None


def _next_claim(ctx: Context, held: Collection[str], *, is_looked_at: bool = False) -> str | None:
    """Returns the claim whose next replicate teaches most per run-hour, given what is pending.

    Args:
        is_looked_at: nothing is launched, so that its score is not written down.
    """
    opened = ctx.store.find(HYPOTHESIS, status="open")
    state = state_of(ctx, opened)
    state["candidates"] = [item for item in state["candidates"] if item["id"] not in held]
    if not state["candidates"]:
        return None
    picker, left, of_day = ctx.cached(Proposals), state.get("budget_left"), Budget(ctx).room_of_day("run_hours")
    today = [] if of_day is None else [of_day if left is None else min(left, of_day)]
    rooms = dict.fromkeys((*today, left, None))  # costs are guesses: what does not fit the reservation refuses
    picked = next(filter(None, (picker.pick({**state, "budget_left": room}, 1) for room in rooms)), [])
    if picked and not is_looked_at:
        score = picker.score({**state, "budget_left": None})[picked[0]]
        rescored(ctx, picked[0], explained(ctx, ExperimentRecords(ctx).get(picked[0]), score))
    return picked[0] if picked else None


def _park(ctx: Context) -> list[str]:
    """Parks open hypotheses whose every candidate teaches less than the minimum; nothing while a run is live."""
    parked = []
    with ctx.store.transaction() as tx:  # or another caller launches, decides or approves in between
        if RunRecords(ctx).live():
            return []
        opened = ctx.store.find(HYPOTHESIS, status="open")
        state = state_of(ctx, opened)
        scores = ctx.cached(Proposals).score({**state, "budget_left": None})  # a lack of budget is none of use
        least = ctx.config.methodology["min_information_gain_bits"]
        for hypothesis in opened:
            own = [scores[item["id"]] for item in state["candidates"] if item["hypothesis_id"] == hypothesis.id]
            if own and all((score.information_gain_bits or 0.0) < least for score in own):
                HypothesisRecords(ctx).edit(hypothesis.id, parked=True)
                refold(ctx, tx, hypothesis.id)
                parked.append(hypothesis.id)
    return parked


def halt_reason(ctx: Context) -> tuple[str, str] | None:
    """Returns why nothing more should be launched, whatever is left to do: (reason, explanation), or None to go on.

    Only what happened since the loop last stopped counts: the person that starts it again has seen the rest.
    """
    stops = ctx.store.page(EVENT, limit=1, newest_first=True, kind="loop_stopped").items
    since = stops[0].number if stops else 0  # not its time: a clock may jump
    if (failure := _failure_rate(ctx, since)) is not None:
        return "failure_rate", failure
    if (still := _no_progress(ctx, since)) is not None:
        return "no_progress", still
    return None


def stop_reason(ctx: Context, launches: Launches) -> tuple[str, str] | None:
    """Returns why the loop should stop after a launch step: (reason, explanation), or None to go on."""
    if len(launches.failed) >= _FAILURES_IN_A_ROW:
        return "failure_rate", "; ".join(launches.failed[:_FAILURES_IN_A_ROW])
    if not launches.idle or _unheld(ctx):
        return None  # also where another loop has recorded the end of a run since: what that teaches was not seen yet
    if RunRecords(ctx).queue_state() != "running":
        return "stop_requested", f"the queue is {RunRecords(ctx).queue_state()} (perpetual queue resume)"
    if ctx.store.count("hypothesis") and not ctx.store.count("hypothesis", status="open"):
        return "all_decided", "no hypothesis is open"
    if launches.runs or launches.parked:
        return None
    if launches.paused is not None:
        return None
    if launches.refused is not None:
        return "budget_exhausted", launches.refused
    held = sorted({*launches.held, *(run.body["experiment_id"] for run in RunRecords(ctx).live() if is_held(run))})
    if held:
        named = ", ".join(held[:5])
        return "waiting_for_approval", f"the code of {named} has changed since it was approved, or cannot be compared"
    if launches.failed:  # one missing program is no rate of failures: a person mends it, or rejects the experiment
        return "waiting_for_approval", "cannot be started until a person has mended it: " + "; ".join(launches.failed)
    if proposed := ctx.store.find(EXPERIMENT, status="proposed"):
        ids = [item.id for item in proposed[:5]]
        return "waiting_for_approval", f"not approved yet: {', '.join(ids)} (perpetual approve {' '.join(ids)})"
    return "queue_empty", "nothing is running, approved or worth proposing"


def _is_after(ctx: Context, since: int, kind: str, subject: str) -> bool:
    """Returns whether the subject's last event of that kind was recorded after event `since`; 0 is before all."""
    events = ctx.store.find(EVENT, subject=subject) if since else []
    return not since or any(row.number > since and row.body["kind"] == kind for row in events)


def _failure_rate(ctx: Context, since: int) -> str | None:
    newest = ctx.store.page(RUN, limit=_FAILURE_WINDOW, newest_first=True).items
    own = [run for run in newest if "adopted" not in run.body]  # earlier work failed elsewhere
    ended = [run for run in own if run.body["status"] in ENDED and _is_after(ctx, since, "run_status", run.id)]
    broken = [run for run in ended if run.body["status"] in ("failed", "timeout", "lost")]
    row = next((place for place, run in enumerate(ended) if run not in broken), len(ended))
    if row >= _FAILURES_IN_A_ROW or (len(ended) >= _FAILURE_WINDOW and 2 * len(broken) >= len(ended)):
        reasons = sorted({str(run.body["reason"]) for run in broken})
        return f"{len(broken)} of the last {len(ended)} runs failed: {'; '.join(reasons[:3])}"
    return None


def _no_progress(ctx: Context, since: int) -> str | None:
    """Returns how little the last measured runs, `_PROGRESS_WINDOW` of them at least, moved; None where they did."""
    newest = ctx.store.page(EVIDENCE, limit=_PROGRESS_WINDOW, newest_first=True, kind="measured").items
    counting = [row for row in newest if not row.body.get("post_hoc")]
    rows = [row for row in counting if _is_after(ctx, since, "evidence_added", f"v{row.number}")]
    moved: dict[str, float] = {}
    for row in rows:
        id, nats = row.body["hypothesis_id"], abs(row.body["log_bayes_factor"] or 0.0)
        moved[id] = moved.get(id, 0.0) + nats
    if len(rows) < _PROGRESS_WINDOW or any(nats >= _PROGRESS_NATS for nats in moved.values()):
        return None
    named = ", ".join(f"{id} by {nats:.2g}" for id, nats in sorted(moved.items())[:5])
    return f"the last {len(rows)} measured runs moved {named} nats, and {_PROGRESS_NATS} count as progress"
