"""Whether there is room for one more run on this machine: in the queue, among the live runs, in CPUs and in GPUs.

Used by the flows that launch and start runs. What the driver must be asked for comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from perpetual.lab.flows import Desks
from perpetual.lab.placing import need_of, request_of, view_of
from perpetual.slots.placement import Lease, QueuedRun, Survey, Waits
from perpetual.slots.scheduler import LaunchError, Scheduler
from perpetual.slots.store import Document
from perpetual.toolkit.platform import available_cpus

__all__ = ["Moment", "check_cpus", "held_back", "room"]


class Moment:
    """The queue and the live runs, read when they are first looked at: once, where many runs are looked at."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    @cached_property
    def queue_state(self) -> str:
        """`running`, `paused` or `draining`."""
        return self._desks.runs.queue_state()

    @cached_property
    def busy(self) -> list[Document]:
        """The runs that are launching or running."""
        return [run for run in self._desks.runs.live() if run.body["status"] in ("launching", "running")]

    @cached_property
    def queue(self) -> list[tuple[tuple[float, float, float], Document]]:
        """The queued runs with their ranks, in the order in which they start: by priority, score and age."""
        ctx = self._desks.ctx
        queued = ctx.store.find("run", status="queued")
        experiments = {id: ctx.need("experiment", id) for id in {run.body["experiment_id"] for run in queued}}
        ranked = [(_rank(experiments[run.body["experiment_id"]].body, run.number), run) for run in queued]
        return sorted(ranked, key=lambda each: each[0])


def room(
    desks: Desks,
    experiment: Document,
    wanted: Sequence[int],
    survey: Survey,
    moment: Moment,
    run: Document | None = None,
    *,
    take: bool = False,
) -> Lease | Waits:
    """The GPUs that a run of the experiment gets now, none for a CPU run, or what it waits for.

    Args:
        run: the one in the queue that is asked for; None for one that would come last of its rank.
        take: holds what it gets.
    """
    waits_for = held_back(desks, experiment, moment)
    if waits_for is not None:
        return Waits(waits_for)
    need = need_of(experiment, wanted)
    if need is None:
        return Lease()

    def ahead() -> Iterator[QueuedRun]:
        return _before(desks, experiment, moment, run)

    view = view_of(desks.ctx, lambda: moment.busy, ahead)
    return survey.reserve(view, request_of(desks.ctx, experiment, need, run), take=take)


def _rank(experiment: Mapping[str, Any], number: float) -> tuple[float, float, float]:
    return (-experiment["priority"], -(experiment["score"]["score"] or 0.0), number)


def _before(desks: Desks, experiment: Document, moment: Moment, run: Document | None) -> Iterator[QueuedRun]:
    """The queued runs before this one that nothing but GPUs can hold back."""
    own = _rank(experiment.body, float("inf") if run is None else run.number)
    for rank, other in moment.queue:
        if rank >= own:
            return
        if other.body.get("code_held"):
            continue  # it waits for a person, and keeps no device from others
        theirs = desks.ctx.need("experiment", other.body["experiment_id"])
        need = need_of(theirs, other.body["wanted_gpus"])
        if need is not None and held_back(desks, theirs, moment) is None:
            yield QueuedRun(theirs.id, need)


def held_back(desks: Desks, experiment: Document, moment: Moment) -> str | None:
    """What a run waits for whatever the GPUs are like; None if nothing but them can hold it back."""
    if moment.queue_state == "paused":
        return "the queue is paused (perpetual queue resume)"
    most = desks.ctx.config.methodology["max_concurrent_runs"]
    if len(moment.busy) >= most:
        return f"{len(moment.busy)} runs are live, and max_concurrent_runs is {most}"
    need = _cpus(experiment)
    if not need or _is_placed(desks):
        return None
    held = {run.id: _cpus(desks.ctx.need("experiment", run.body["experiment_id"])) for run in moment.busy}
    free = available_cpus() - sum(held.values())
    if need <= free:
        return None
    holders = ", ".join(f"{run_id} holds {count}" for run_id, count in held.items() if count)
    return f"needs {need} CPUs; {max(0, free)} of {available_cpus()} are free ({holders})"


def check_cpus(desks: Desks, experiment: Document) -> None:
    """Raises LaunchError if the run declares more CPUs than this machine lets us use."""
    need = _cpus(experiment)
    if need > available_cpus() and not _is_placed(desks):
        raise LaunchError(
            f"{experiment.id} needs {need} CPUs, and {available_cpus()} may be used on this machine",
            hint="propose it with fewer --cpus, or choose another scheduler",
            code="does_not_fit",
        )


def _cpus(experiment: Document) -> int:
    """What its runs declare; a run that declares none takes none."""
    declared: int | None = experiment.body["resources"]["cpus"]
    return declared or 0


def _is_placed(desks: Desks) -> bool:
    """Whether an engine finds the run a place, on machines that may not be this one."""
    scheduler: Scheduler = desks.ctx.part("scheduler")
    return scheduler.places_gpus or scheduler.queues
