"""The GPUs of this machine as launching sees them: asked for at most once, whether a run fits, and what it gets.

The lease of a device is the `gpus` of a run's record while the run is launching or running; it is decided inside the
transaction that makes the run `launching`. Used by the flows beside it; `gpu_watch` looks at what came of a lease.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

from perpetual.errors import UsageError
from perpetual.lab.context import Context
from perpetual.lab.flows import Desks
from perpetual.lab.gpus.owners import Owner, owners_of
from perpetual.lab.gpus.packing import Need, could_ever, pick, waits_for
from perpetual.lab.gpus.units import Rules, Unit, holds_of, size, units_of
from perpetual.slots.gpu import GpuBackend, Reading
from perpetual.slots.scheduler import LaunchError, Scheduler
from perpetual.slots.store import Document

__all__ = ["Devices", "Lease", "check_devices", "lease", "needs_driver", "places_gpus", "variables"]

# A driver that has just not answered is not asked again for so long: whoever waits for runs looks every second, and
# would be held up each time.
_PATIENCE_S = 30.0
_silent: WeakKeyDictionary[Context, tuple[float, Reading]] = WeakKeyDictionary()


class Lease(NamedTuple):
    """What a run gets, or what it waits for."""

    gpus: tuple[str, ...] = ()
    numbers: tuple[int | None, ...] = ()  # as the driver counts; None for a MIG instance, which has none
    waits_for: str | None = None


class Devices:
    """The machine's devices for one deed. The driver is asked when they are first looked at, and then no more.

    To be asked outside a transaction: a driver that hangs takes its whole deadline to be given up.
    """

    def __init__(self, desks: Desks) -> None:
        self._ctx = desks.ctx
        self.is_asked = False

    @cached_property
    def reading(self) -> Reading:
        """What the driver says."""
        self.is_asked = True
        asked_s, reading = _silent.get(self._ctx, (0.0, None))
        if reading is not None and time.monotonic() - asked_s < _PATIENCE_S:
            return reading
        backend: GpuBackend = self._ctx.part("gpus")
        reading = backend.read()
        if reading.transient:
            _silent[self._ctx] = time.monotonic(), reading
        else:
            _silent.pop(self._ctx, None)
        return reading

    @cached_property
    def owners(self) -> dict[int, Owner]:
        """Whose the processes of the reading are, by pid."""
        return owners_of(self._ctx, self.reading)

    def ask(self) -> None:
        """Has the driver asked now, so that no transaction waits for it."""
        assert self.owners is not None

    def units(self, busy: Sequence[Document]) -> list[Unit]:
        """What can be leased, given the runs that are launching or running."""
        return units_of(self.reading, self.owners, holds_of(self._ctx, busy), Rules.of(self._ctx.config))


def places_gpus(desks: Desks) -> bool:
    """Whether the scheduler's engine assigns devices itself, so that none are leased here."""
    scheduler: Scheduler = desks.ctx.part("scheduler")
    return scheduler.places_gpus


def needs_driver(desks: Desks, experiment: Document, wanted: Sequence[int]) -> bool:
    """Whether the driver has something to say about where a run of the experiment goes."""
    return need_of(experiment, wanted) is not None and not places_gpus(desks)


def need_of(experiment: Document, wanted: Sequence[int]) -> Need | None:
    """What a run needs of the machine's GPUs; None for a CPU run."""
    resources = experiment.body["resources"]
    number = len(wanted) or resources["gpus"]
    return Need(number, resources["gpu_memory_bytes"], tuple(wanted)) if number else None


def check_devices(desks: Desks, experiment: Document, wanted: Sequence[int], devices: Devices) -> None:
    """Raises unless the machine could ever give the run its GPUs; a driver that does not answer refuses nothing."""
    declared = experiment.body["resources"]["gpus"]
    if wanted and (len(set(wanted)) != len(wanted) or declared not in (0, len(wanted))):
        raise UsageError(
            f"{experiment.id} declares {declared} GPUs, and -g names {', '.join(map(str, wanted))}",
            hint="name each GPU once, as many as were declared; without -g free ones are chosen",
        )
    need = need_of(experiment, wanted)
    if need is None or places_gpus(desks) or devices.reading.transient:
        return
    reading = devices.reading
    if need.amount > len([part for gpu in reading.gpus for part in gpu.mig or (gpu,)]):
        raise _never(experiment, f"{need._replace(memory_bytes=None)} and this machine has {len(reading.gpus)}"
                     + (f": {reading.reason}" if reading.reason else ""))  # fmt: skip
    units = devices.units(())
    if wanted:
        _check_named(experiment, units, need, len(reading.gpus))
    elif len([unit for unit in units if could_ever(unit, need)]) < need.amount:
        raise _never(experiment, _shortage(units, need))


def _never(experiment: Document, why: str) -> LaunchError:
    hint = "propose it with fewer --gpus or less --gpu-memory, or choose another scheduler; perpetual gpu-status"
    return LaunchError(f"{experiment.id} {why}", hint=hint, code="does_not_fit")


def _check_named(experiment: Document, units: Sequence[Unit], need: Need, count: int) -> None:
    for number in need.wanted:
        if not 0 <= number < count:
            raise UsageError(f"there is no GPU {number}", hint=f"0 to {count - 1}")
        own = [unit for unit in units if unit.number == number]
        if need.amount > 1 and any(unit.is_part for unit in own):
            raise UsageError(
                f"GPU {number} is cut into MIG instances, and a run gets one of them and no other GPU beside it",
                hint=f"-g {number} alone",
            )
        if not any(could_ever(unit, need) for unit in own):
            never = next((f"{unit.name} {unit.never}" for unit in own if unit.never), None)
            largest = size(max((unit.capacity_bytes or 0 for unit in own), default=0))
            raise _never(experiment, f"asks for GPU {number}: {never}" if never
                         else f"{need}, and GPU {number} has {largest}")  # fmt: skip


def _shortage(units: Sequence[Unit], need: Need) -> str:
    """Why this machine could never give so much."""
    open_ = [unit for unit in units if unit.never is None]
    sizes = [unit.capacity_bytes or 0 for unit in open_]
    if need.memory_bytes is not None and sizes and max(sizes) < need.memory_bytes:
        return f"{need}, and the largest here has {size(max(sizes))}"
    fit = len([unit for unit in units if could_ever(unit, need)])
    closed = "; ".join(f"{unit.name} {unit.never}" for unit in units if unit.never)
    cut = "a MIG instance is given to a run that needs one GPU" if any(unit.is_part for unit in open_) else ""
    why = "; ".join(text for text in (closed, cut) if text)
    return f"{need}, and {fit} of the {len(units)} here could serve it" + (f": {why}" if why else "")


def lease(
    desks: Desks, experiment: Document, wanted: Sequence[int], devices: Devices, busy: Sequence[Document]
) -> Lease:
    """The devices that the run gets now, or what it waits for.

    Args:
        busy: the runs that are launching or running, whose leases count.
    """
    need = need_of(experiment, wanted)
    if need is None or places_gpus(desks):
        return Lease()
    reading = devices.reading
    if not reading.gpus:
        return Lease(waits_for=reading.reason if reading.transient else f"{need}, and there is none: {reading.reason}")
    units = devices.units(busy)
    chosen = pick(units, need)
    if chosen is None:
        return Lease(waits_for=waits_for(units, need))
    numbers = tuple(None if unit.is_part else unit.number for unit in chosen)
    return Lease(tuple(unit.uuid for unit in chosen), numbers)


def variables(desks: Desks, gpus: Sequence[str], run: Document | None) -> dict[str, str]:
    """What makes a CUDA program see the devices that its run has leased, and no others."""
    if places_gpus(desks):
        return {}
    names = [*gpus]
    if run is not None and desks.ctx.config["gpu_ids"] == "index":
        # Counted as the driver counts, which is the order that the second variable asks CUDA for.
        numbers = run.body.get("gpu_numbers") or []
        names = [uuid if number is None else str(number) for uuid, number in zip(gpus, numbers, strict=True)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(names), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
