"""Whether there is room for one more run on this machine: in the queue, among the live runs, in CPUs and in GPUs.

Used by the flows that launch and start runs. What the driver must be asked for comes last.
"""

from __future__ import annotations

from collections.abc import Sequence

from perpetual.lab.flows import Desks
from perpetual.lab.flows.devices import Devices, Lease, lease
from perpetual.slots.scheduler import LaunchError, Scheduler
from perpetual.slots.store import Document
from perpetual.toolkit.platform import available_cpus

__all__ = ["check_cpus", "held_back", "room"]


def room(desks: Desks, experiment: Document, wanted: Sequence[int], devices: Devices) -> Lease:
    """The GPUs that a run of the experiment gets now, none for a CPU run, or what it waits for."""
    waits_for = held_back(desks, experiment)
    if waits_for is not None:
        return Lease(waits_for=waits_for)
    return lease(desks, experiment, wanted, devices, _busy(desks))


def held_back(desks: Desks, experiment: Document) -> str | None:
    """What a run waits for whatever the GPUs are like; None if nothing but them can hold it back."""
    if desks.runs.queue_state() == "paused":
        return "the queue is paused (perpetual queue resume)"
    busy = _busy(desks)
    most = desks.ctx.config.methodology["max_concurrent_runs"]
    if len(busy) >= most:
        return f"{len(busy)} runs are live, and max_concurrent_runs is {most}"
    need = _cpus(experiment)
    if not need or _is_placed(desks):
        return None
    held = {run.id: _cpus(desks.ctx.need("experiment", run.body["experiment_id"])) for run in busy}
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


def _busy(desks: Desks) -> list[Document]:
    return [run for run in desks.runs.live() if run.body["status"] in ("launching", "running")]


def _cpus(experiment: Document) -> int:
    """What its runs declare; a run that declares none takes none."""
    declared: int | None = experiment.body["resources"]["cpus"]
    return declared or 0


def _is_placed(desks: Desks) -> bool:
    """Whether an engine finds the run a place, on machines that may not be this one."""
    scheduler: Scheduler = desks.ctx.part("scheduler")
    return scheduler.places_gpus or scheduler.queues
