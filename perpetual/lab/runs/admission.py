"""Whether there is room for one more run on this machine: in the queue, among the live runs, in CPUs and in GPUs.

Used by launches and starts. What the driver must be asked for comes last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from perpetual.errors import PluginError
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys, need_of, placer_of, request_of, view_of
from perpetual.lab.engines.schedulers import is_of_this_machine, queues, scheduler_name, scheduler_of
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.runs.order import keeps_back
from perpetual.science.draws import uniform
from perpetual.slots.placement import Lease, QueuedRun, Waits
from perpetual.slots.scheduler import LaunchError
from perpetual.toolkit.platform import available_cpus, memory_bytes
from perpetual.toolkit.quiet import quiet_until
from perpetual.toolkit.units import counted, iso, shown_bytes

if TYPE_CHECKING:
    from perpetual.lab.bodies import ExperimentBody

__all__ = ["LOOP", "Moment", "check_machine", "held_back", "quiet", "room"]

LOOP = "loop"  # the name in which a daemon acts: its runs start in no quiet hours, also where they are queued


class Moment:
    """The queue and the live runs, read when they are first looked at: once, where many runs are looked at."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    @cached_property
    def queue_state(self) -> str:
        """Returns `running`, `paused` or `draining`."""
        return RunRecords(self._ctx).queue_state()

    @cached_property
    def busy(self) -> list[RunRow]:
        """Returns the runs that are launching or running."""
        return [run for run in RunRecords(self._ctx).live() if run.body["status"] in ("launching", "running")]

    @cached_property
    def live(self) -> list[RunRow]:
        """Returns those of `busy` that are in no engine's queue, nor on the way there."""
        return [run for run in self.busy if run.body["status"] == "running" or not self._is_pending(run)]

    def _is_pending(self, run: RunRow) -> bool:
        return bool(run.body.get("pending")) or queues(self._ctx, run.body["scheduler"])

    @cached_property
    def queue(self) -> list[tuple[tuple[float, float, float], RunRow]]:
        """Returns the queued runs with their ranks, in the order in which they start: by priority, score and age.

        Runs of a baseline and of what is compared with it start in an order drawn by lot, so that a drift of the
        machine meets both arms alike.
        """
        ranked = []
        for run in self._queued:
            id = run.body["experiment_id"]
            ranked.append((self.rank(id, self._waiting[id], run.number, run), run))
        return sorted(ranked, key=lambda each: each[0])

    @cached_property
    def _queued(self) -> list[RunRow]:
        return self._ctx.store.find(RUN, status="queued")

    @cached_property
    def _waiting(self) -> dict[str, ExperimentBody]:
        """Returns the experiments that have queued runs."""
        return {id: self._ctx.need(EXPERIMENT, id).body for id in {run.body["experiment_id"] for run in self._queued}}

    @cached_property
    def _compared(self) -> dict[str, float]:
        """Returns the baselines of queued claims, with the best score of those."""
        found: dict[str, float] = {}
        for body in self._waiting.values():
            if isinstance(baseline := body["design"]["baseline"], str):
                found[baseline] = max(found.get(baseline, 0.0), body["score"]["score"] or 0.0)
        return found

    def rank(
        self, id: str, body: ExperimentBody, number: float, run: RunRow | None = None
    ) -> tuple[float, float, float]:
        """Returns the place of a run of that number in the queue, the first being the smallest."""
        own = None if run is None else run.body.get("priority")
        priority = body["priority"] if own is None else own
        baseline = body["design"]["baseline"]
        group = id if id in self._compared else baseline if isinstance(baseline, str) else None
        if group is None:
            return (-priority, -(body["score"]["score"] or 0.0), number)
        lot = number if math.isinf(number) else uniform(self._ctx.config.project_id, group, number)
        return (-priority, -self._compared.get(group, body["score"]["score"] or 0.0), lot)


def room(
    ctx: Context,
    experiment: ExperimentRow,
    wanted: Sequence[int],
    surveys: Surveys,
    moment: Moment,
    run: RunRow | None = None,
    *,
    take: bool = False,
) -> Lease | Waits:
    """Returns the GPUs that a run of the experiment gets now, none for a CPU run, or what it waits for.

    Args:
        run: the one in the queue that is asked for; None for one that would come last of its rank.
        take: holds what it gets.
    """
    try:
        scheduler_of(ctx, experiment)
    except PluginError as problem:
        return Waits(problem.message)
    waits_for = held_back(ctx, experiment, moment, run)
    if waits_for is not None:
        return Waits(waits_for)
    need = need_of(experiment, wanted)
    if need is None:
        return Lease()

    placer = placer_of(ctx, experiment)

    def ahead() -> Iterator[QueuedRun]:
        return _before(ctx, experiment, moment, run, placer)

    view = view_of(ctx, placer, lambda: moment.busy, ahead)
    return surveys.of(experiment).reserve(view, request_of(ctx, experiment, need, run), take=take)


def _before(
    ctx: Context, experiment: ExperimentRow, moment: Moment, run: RunRow | None, placer: str | None
) -> Iterator[QueuedRun]:
    """Yields the queued runs before this one, of the same placement, that nothing but GPUs can hold back."""
    own = moment.rank(experiment.id, experiment.body, float("inf") if run is None else run.number, run)
    for rank, other in moment.queue:
        if rank >= own:
            return
        if other.body.get("code_held") or other.body.get("held"):
            continue  # it waits for a person, and keeps no device from others
        theirs = ctx.need(EXPERIMENT, other.body["experiment_id"])
        need = need_of(theirs, other.body["wanted_gpus"])
        try:
            is_rival = need is not None and placer_of(ctx, theirs) == placer
        except PluginError:
            continue  # its scheduler is gone: it keeps no device from others
        if need is not None and is_rival and held_back(ctx, theirs, moment, other) is None:
            yield QueuedRun(theirs.id, need)


def held_back(ctx: Context, experiment: ExperimentRow, moment: Moment, run: RunRow | None = None) -> str | None:
    """Returns what a run waits for whatever the GPUs are like; None if nothing but them can hold it back."""
    if moment.queue_state == "paused":
        return "the queue is paused (perpetual queue resume)"
    why = keeps_back(ctx, experiment, run, moment.busy)
    if why is not None:
        return why
    if run is not None and run.body["created_by"] == LOOP and (pause := quiet(ctx)) is not None:
        return pause[0]
    most = ctx.config.methodology["max_concurrent_runs"]
    if len(moment.live) >= most:
        return f"{counted(len(moment.live), 'run is', 'runs are')} live, and max_concurrent_runs is {most}"
    if not is_of_this_machine(ctx, scheduler_name(ctx, experiment)):
        return None
    return _lacks(ctx, experiment, moment, "cpus") or _lacks(ctx, experiment, moment, "memory_bytes")


def quiet(ctx: Context) -> tuple[str, str] | None:
    """Returns that it is quiet hours and until when (UTC), or None."""
    until = quiet_until(ctx.config.methodology["quiet_hours"], ctx.clock())
    return None if until is None else (f"quiet hours until {until.astimezone():%H:%M}", iso(until))


def _lacks(ctx: Context, experiment: ExperimentRow, moment: Moment, name: str) -> str | None:
    """Returns what of the machine a run waits for, with those that hold it; None if it has room."""
    need, whole = _declared(experiment, name), _machine(name)
    if not need or whole is None:
        return None
    held = {
        run.id: _declared(ctx.need(EXPERIMENT, run.body["experiment_id"]), name)
        for run in moment.live
        if is_of_this_machine(ctx, run.body["scheduler"])
    }
    free = whole - sum(held.values())
    if need <= free:
        return None
    holders = ", ".join(f"{run_id} holds {_amount(name, count)}" for run_id, count in held.items() if count)
    if name == "cpus":
        return f"needs {need} CPUs; {max(0, free)} of {whole} are free ({holders})"
    room = f"{shown_bytes(max(0, free))} of {shown_bytes(whole)} are free"
    return f"needs {shown_bytes(need)} of memory; {room} ({holders})"


def check_machine(ctx: Context, experiment: ExperimentRow) -> None:
    """Raises LaunchError if a run on this machine declares more CPUs or memory than it may use."""
    if not is_of_this_machine(ctx, scheduler_name(ctx, experiment)):
        return
    for name, words, flag in (("cpus", "CPUs", "fewer --cpus"), ("memory_bytes", "of memory", "less --memory")):
        need, whole = _declared(experiment, name), _machine(name)
        if whole is not None and need > whole:
            raise LaunchError(
                f"{experiment.id} needs {_amount(name, need)} {words}, and {_amount(name, whole)} may be used on this "
                "machine",
                hint=f"propose it with {flag}, or with another --scheduler",
                code="does_not_fit",
            )


def _declared(experiment: ExperimentRow, name: str) -> int:
    """Returns what its runs declare; a run that declares none takes none."""
    resources = experiment.body["resources"]
    return (resources["cpus"] if name == "cpus" else resources.get("memory_bytes")) or 0


def _machine(name: str) -> int | None:
    """Returns how much this machine has; None where it does not tell."""
    return available_cpus() if name == "cpus" else memory_bytes()


def _amount(name: str, count: int) -> str:
    return str(count) if name == "cpus" else shown_bytes(count)
