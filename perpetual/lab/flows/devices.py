"""The GPUs of this machine as launching sees them: asked for at most once, whether a run fits, and what it gets.

The lease of a device is the `gpus` of a run's record while the run is launching or running; it is decided inside the
transaction that makes the run `launching`. A claim tells other projects of it: it is made when the lease is, and handed
to the run's supervisor. Used by the flows beside it; `gpu_watch` looks at what came of a lease.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import NamedTuple
from weakref import WeakKeyDictionary

from perpetual.errors import UsageError
from perpetual.lab.context import Context
from perpetual.lab.flows import Desks
from perpetual.lab.gpus.backfill import first_start, pick_behind
from perpetual.lab.gpus.claims import Claim, deciding, home_of, living, others
from perpetual.lab.gpus.owners import Owner, owners_of
from perpetual.lab.gpus.packing import Need, could_ever, pick, waits_for
from perpetual.lab.gpus.units import Rules, Unit, holds_of, size, units_of
from perpetual.slots.gpu import GpuBackend, Reading
from perpetual.slots.scheduler import LaunchError, Scheduler
from perpetual.slots.store import Document
from perpetual.toolkit.units import posix_of

__all__ = ["Devices", "Lease", "Waiting", "check_devices", "lease", "need_of", "needs_driver", "places_gpus",
           "variables"]  # fmt: skip

# A driver that has just not answered is not asked again for so long: whoever waits for runs looks every second, and
# would be held up each time.
_PATIENCE_S = 30.0
_silent: WeakKeyDictionary[Context, tuple[float, Reading]] = WeakKeyDictionary()


class Lease(NamedTuple):
    """What a run gets, or what it waits for."""

    gpus: tuple[str, ...] = ()
    numbers: tuple[int | None, ...] = ()  # as the driver counts; None for a MIG instance, which has none
    waits_for: str | None = None
    held: int | None = None  # an open file: whoever has a copy of it holds the claim
    unclaimed: str | None = None  # why other projects are not told
    is_begun: bool = False  # by a launcher that died; its supervisor has the devices


class Waiting(NamedTuple):
    """A run that stands before another in the queue, and needs GPUs."""

    experiment_id: str
    need: Need


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
        claims = others(living(), home_of(self._ctx.config)) if self.reading.gpus else []
        return owners_of(self._ctx, self.reading, claims)

    def ask(self) -> None:
        """Has the driver asked now, so that no transaction waits for it."""
        _ = self.owners  # looked at for its effect

    def units(self, busy: Sequence[Document], theirs: Sequence[Claim] = ()) -> list[Unit]:
        """What can be leased, given the runs that are launching or running, and what other projects claim."""
        return units_of(self.reading, self.owners, holds_of(self._ctx, busy, theirs), Rules.of(self._ctx.config))


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
    desks: Desks,
    experiment: Document,
    wanted: Sequence[int],
    devices: Devices,
    busy: Sequence[Document],
    before: Callable[[], Iterable[Waiting]],
    run: Document | None,
    *,
    take: bool,
) -> Lease:
    """The devices that the run gets now, or what it waits for.

    Args:
        busy: the runs that are launching or running, whose leases count.
        before: tells of the runs before it in the queue that need GPUs, in their order.
        run: the one that is asked for, if there is one yet.
        take: claims for the run what it gets.
    """
    need = need_of(experiment, wanted)
    if need is None or places_gpus(desks):
        return Lease()
    reading = devices.reading
    if not reading.gpus:
        return Lease(waits_for=reading.reason if reading.transient else f"{need}, and there is none: {reading.reason}")
    if run is None or not take:
        claims = living()
        begun = None if run is None else _begun(desks, devices, claims, run)
        return begun or _lease(desks, experiment, need, devices, busy, before, claims)[0]
    with deciding() as board:
        if board.is_busy:
            return Lease(waits_for="another process is choosing among the GPUs of this machine")
        begun = _begun(desks, devices, board.claims, run)
        if begun is not None:
            return begun
        got, chosen = _lease(desks, experiment, need, devices, busy, before, board.claims)
        if chosen:
            claim = _claim(desks, experiment, run, chosen, need)
            got = got._replace(held=board.make(claim), unclaimed=board.problem)
        return got


def _lease(
    desks: Desks,
    experiment: Document,
    need: Need,
    devices: Devices,
    busy: Sequence[Document],
    before: Callable[[], Iterable[Waiting]],
    claims: Sequence[Claim],
) -> tuple[Lease, list[Unit]]:
    theirs = others(claims, home_of(desks.ctx.config))
    units = devices.units(busy, theirs)
    chosen = pick(units, need)
    first = next((one for one in before() if pick(units, one.need) is None), None) if chosen is not None else None
    if first is not None and chosen is not None:
        start = first_start(units, first.need, _ends_s(desks, busy, theirs))
        end_s = _end_s(experiment, desks.ctx.config.methodology["on_overrun"], _now_s(desks))
        behind = pick_behind(units, need, end_s, first.need, start) if start is not None else chosen
        if behind is None:
            kept = {unit.uuid for unit in chosen}
            units = [replace(unit, obstacle=f"is kept free for {first.experiment_id}") if unit.uuid in kept else unit
                     for unit in units]  # fmt: skip
        chosen = behind
    if chosen is None:
        return Lease(waits_for=waits_for(units, need)), []
    numbers = tuple(None if unit.is_part else unit.number for unit in chosen)
    return Lease(tuple(unit.uuid for unit in chosen), numbers), chosen


def _begun(desks: Desks, devices: Devices, claims: Sequence[Claim], run: Document) -> Lease | None:
    """What the run has already by a supervisor of a launcher that died, and went unseen when the run was queued again.

    Nothing else is chosen for it: that supervisor may be about to start the command where it was told to.
    """
    home = home_of(desks.ctx.config)
    own = next((claim for claim in claims if (claim.home, claim.run_id) == (home, run.id)), None)
    if own is None:
        return None
    numbers = {unit.uuid: None if unit.is_part else unit.number for unit in devices.units(())}
    return Lease((*own.units,), tuple(numbers.get(uuid) for uuid in own.units), is_begun=True)


def _claim(desks: Desks, experiment: Document, run: Document, chosen: Sequence[Unit], need: Need) -> Claim:
    config = desks.ctx.config
    end_s = _end_s(experiment, config.methodology["on_overrun"], _now_s(desks))
    return Claim(
        project=os.fsencode(config.root).decode("utf-8", "replace"),  # it is told in other projects' records
        home=home_of(config),
        run_id=run.id,
        run_dir=str(desks.runs.log_dir(run.id)),
        units={unit.uuid: need.memory_bytes for unit in chosen},
        ends_at_s=None if end_s == inf else end_s,
    )


def _ends_s(desks: Desks, busy: Sequence[Document], theirs: Sequence[Claim]) -> dict[str, float]:
    """The latest end of each run that holds a device, by its wall limit."""
    ends = {claim.who: inf if claim.ends_at_s is None else claim.ends_at_s for claim in theirs}
    for run in busy:
        started = run.body["started_at"]
        since_s = _now_s(desks) if started is None else posix_of(started)
        experiment = desks.ctx.need("experiment", run.body["experiment_id"])
        ends[run.id] = _end_s(experiment, run.body.get("on_overrun"), since_s)
    return ends


def _end_s(experiment: Document, on_overrun: str | None, start_s: float) -> float:
    wall_s: float | None = experiment.body["resources"]["wall_s"]
    return inf if wall_s is None or on_overrun == "warn" else start_s + wall_s


def _now_s(desks: Desks) -> float:
    return desks.ctx.clock().timestamp()


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
