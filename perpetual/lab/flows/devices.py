"""The GPUs of this machine as launching sees them: which are free, which a run gets, or what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perpetual.errors import UsageError
from perpetual.lab.flows import Desks
from perpetual.slots.gpu import GpuBackend
from perpetual.slots.scheduler import LaunchError, Scheduler
from perpetual.slots.store import Document

__all__ = ["Device", "check_devices", "devices", "room"]


class Device(NamedTuple):
    """One GPU as a launch sees it."""

    number: int  # as the driver counts
    uuid: str
    idle: bool  # healthy, and used by no process that is not ours


def devices(desks: Desks) -> list[Device]:
    """The GPUs that can be named."""
    backend: GpuBackend = desks.ctx.part("gpus")
    live = {run.body["pid"] for run in desks.runs.live()}
    return [
        Device(
            gpu.index,
            gpu.uuid,
            gpu.healthy and gpu.error is None and all(process.pid in live for process in gpu.processes),
        )
        for gpu in backend.read().gpus
        if gpu.uuid is not None
    ]


def check_devices(desks: Desks, experiment: Document, wanted: Sequence[int]) -> None:
    """Raises unless the machine could ever give the run its GPUs."""
    declared = experiment.body["resources"]["gpus"]
    if wanted and (len(set(wanted)) != len(wanted) or declared not in (0, len(wanted))):
        raise UsageError(
            f"{experiment.id} declares {declared} GPUs, and -g names {', '.join(map(str, wanted))}",
            hint="name each GPU once, as many as were declared; without -g free ones are chosen",
        )
    need = len(wanted) or declared
    scheduler: Scheduler = desks.ctx.part("scheduler")
    if not need or scheduler.places_gpus:
        return
    backend: GpuBackend = desks.ctx.part("gpus")
    reading = backend.read()
    if need > len(reading.gpus):
        raise LaunchError(
            f"{experiment.id} needs {need} GPUs and this machine has {len(reading.gpus)}"
            + (f": {reading.reason}" if reading.reason else ""),
            hint="propose it with fewer --gpus, or choose another scheduler",
            code="does_not_fit",
        )
    for index in wanted:
        if index >= len(reading.gpus) or index < 0:
            raise UsageError(f"there is no GPU {index}", hint=f"0 to {len(reading.gpus) - 1}")


def room(
    desks: Desks, experiment: Document, devices: Sequence[Device], wanted: Sequence[int]
) -> tuple[list[str], str | None]:
    """The GPUs that the run gets, or what it waits for."""
    if desks.runs.queue_state() == "paused":
        return [], "the queue is paused (perpetual queue resume)"
    busy = [other for other in desks.runs.live() if other.body["status"] in ("launching", "running")]
    most = desks.ctx.config.methodology["max_concurrent_runs"]
    if len(busy) >= most:
        return [], f"{len(busy)} runs are live, and max_concurrent_runs is {most}"
    held = {uuid for other in busy for uuid in other.body["gpus"]}
    free = [device for device in devices if device.idle and device.uuid not in held]
    if wanted:
        chosen = [device for device in free if device.number in wanted]
        if len(chosen) < len(wanted):
            return [], f"GPU {', '.join(map(str, wanted))}: in use by another run or by a foreign process"
        return [device.uuid for device in chosen], None
    need = experiment.body["resources"]["gpus"]
    if len(free) < need:
        return [], f"needs {need} GPUs, {len(free)} of {len(devices)} are free"
    return [device.uuid for device in free[:need]], None
