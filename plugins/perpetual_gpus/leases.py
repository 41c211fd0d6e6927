"""The GPUs of this machine as one command sees them: asked for at most once, whether a run fits, and what it gets.

A lease is decided inside the transaction that makes the run `launching`. A claim shows it to other projects: it is made
when the lease is, and handed to the run's supervisor. Used by `placement.py`; `watch.py` looks at what came of a lease.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf

from perpetual.api import (
    GpuNeed,
    GpuReading,
    LaunchError,
    Lease,
    LiveRun,
    PlacementRequest,
    PlacementView,
    Survey,
    UsageError,
    Waits,
)
from perpetual.toolkit.units import shown_bytes
from perpetual_gpus.backfill import first_start, pick_behind
from perpetual_gpus.claims import Claim, Home, deciding, home_of, living, others
from perpetual_gpus.leasable import Unit, holds_of, units_of
from perpetual_gpus.owners import Owner, owners_of
from perpetual_gpus.packing import could_ever, pick, waits_for

__all__ = ["Devices", "Silence"]

# A driver that has just not answered is not asked again for so long: a command that waits for runs looks every second,
# and would be held up each time.
_PATIENCE_S = 30.0


class Silence:
    """The last reading of a driver that did not answer, for a while."""

    def __init__(self) -> None:
        self._found: tuple[float, GpuReading] | None = None

    def reading(self) -> GpuReading | None:
        """Returns what a driver that has not answered a moment ago would say again, None if it is to be asked."""
        found = self._found
        return found[1] if found is not None and time.monotonic() - found[0] < _PATIENCE_S else None

    def note(self, reading: GpuReading) -> None:
        """Keeps the reading if the driver did not answer."""
        self._found = (time.monotonic(), reading) if reading.transient else None


class Devices(Survey):
    """The machine's devices for one command. The driver is asked when they are first looked at, and then not again."""

    def __init__(self, view: PlacementView, silence: Silence) -> None:
        self._view, self._silence = view, silence
        self._is_asked = False

    @property
    def is_asked(self) -> bool:
        """Returns whether the driver was polled."""
        return self._is_asked

    @cached_property
    def reading(self) -> GpuReading:
        """Returns the driver's reading."""
        self._is_asked = True
        known = self._silence.reading()
        if known is not None:
            return known
        reading = self._view.backend().read()
        self._silence.note(reading)
        return reading

    @cached_property
    def owners(self) -> Mapping[int, Owner]:
        """Returns the owners of the processes of the reading, by pid."""
        claims = others(living(), _home(self._view)) if self.reading.gpus else []
        return owners_of(self._view, self.reading, claims)

    def ask(self) -> None:
        """Has the driver asked now, so that no transaction waits for it."""
        _ = self.owners  # looked at for its effect

    def units(self, live: Sequence[LiveRun] = (), theirs: Sequence[Claim] = ()) -> list[Unit]:
        """Returns what can be leased, given the live runs and what other projects claim."""
        return units_of(self.reading, self.owners, holds_of(live, theirs), self._view.settings)

    def check(self, request: PlacementRequest) -> None:
        """Raises unless the machine could ever give the run its GPUs; a driver that does not answer refuses nothing."""
        reading, need = self.reading, request.need
        if reading.transient:
            return
        if need.amount > len([part for gpu in reading.gpus for part in gpu.mig or (gpu,)]):
            raise _never(request, f"{replace(need, memory_bytes=None)} and this machine has {len(reading.gpus)}"
                         + (f": {reading.reason}" if reading.reason else ""))  # fmt: skip
        units = self.units()
        if need.wanted:
            _check_named(request, units, len(reading.gpus))
        elif len([unit for unit in units if could_ever(unit, need)]) < need.amount:
            raise _never(request, _shortage(units, need))

    def reserve(self, view: PlacementView, request: PlacementRequest, *, take: bool) -> Lease | Waits:
        """Returns the devices that the run gets now, or what it waits for; `take` claims them for the run."""
        reading = self.reading
        if not reading.gpus:
            return Waits(f"{reading.reason}" if reading.transient
                         else f"{request.need}, and there is none: {reading.reason}")  # fmt: skip
        if request.run_id is None or not take:
            claims = living()
            return self._begun(view, request, claims) or self._choose(view, request, claims)[0]
        with deciding() as board:
            if board.is_busy:
                return Waits("another process is choosing among the GPUs of this machine")
            begun = self._begun(view, request, board.claims)
            if begun is not None:
                return begun
            got, chosen = self._choose(view, request, board.claims)
            if isinstance(got, Lease):
                held = board.make(_claim(view, request, chosen))
                got = replace(got, held=held, unclaimed=board.problem)
            return got

    def _choose(
        self, view: PlacementView, request: PlacementRequest, claims: Sequence[Claim]
    ) -> tuple[Lease | Waits, list[Unit]]:
        need, live = request.need, view.live()
        theirs = others(claims, _home(view))
        units = self.units(live, theirs)
        chosen = pick(units, need)
        first = None
        if chosen is not None:
            first = next((one for one in view.ahead() if pick(units, one.need) is None), None)
        if first is not None and chosen is not None:
            start = first_start(units, first.need, _ends_s(live, theirs))
            behind = pick_behind(units, need, request.ends_at_s, first.need, start) if start is not None else chosen
            if behind is None:
                kept = {unit.uuid for unit in chosen}
                why = f"is kept free for {first.experiment_id}"
                units = [replace(unit, obstacle=why) if unit.uuid in kept else unit for unit in units]
            chosen = behind
        if chosen is None:
            return Waits(waits_for(units, need)), []
        numbers = tuple(None if unit.is_part else unit.number for unit in chosen)
        return Lease(tuple(unit.uuid for unit in chosen), numbers), chosen

    def _begun(self, view: PlacementView, request: PlacementRequest, claims: Sequence[Claim]) -> Lease | None:
        """Returns the lease that a run already has through a supervisor whose launcher died; None without one.

        Such a lease went unseen when the run was queued again. Nothing else is chosen for the run: that supervisor may
        be about to start the command with those devices.
        """
        if request.run_id is None:
            return None
        mine = (_home(view), request.run_id)
        own = next((claim for claim in claims if (claim.home, claim.run_id) == mine), None)
        if own is None:
            return None
        numbers = {unit.uuid: None if unit.is_part else unit.number for unit in self.units()}
        return Lease((*own.units,), tuple(numbers.get(uuid) for uuid in own.units), is_begun=True)


def _home(view: PlacementView) -> Home:
    assert view.project is not None, "runs are placed inside of projects"
    return home_of(view.project)


def _never(request: PlacementRequest, why: str) -> LaunchError:
    hint = "propose it with fewer --gpus or less --gpu-memory, or choose another scheduler; perpetual gpu-status"
    return LaunchError(f"{request.experiment_id} {why}", hint=hint, code="does_not_fit")


def _check_named(request: PlacementRequest, units: Sequence[Unit], count: int) -> None:
    need = request.need
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
            largest = shown_bytes(max((unit.capacity_bytes or 0 for unit in own), default=0))
            raise _never(request, f"asks for GPU {number}: {never}" if never
                         else f"{need}, and GPU {number} has {largest}")  # fmt: skip


def _shortage(units: Sequence[Unit], need: GpuNeed) -> str:
    """Returns why this machine could never give so much."""
    open_ = [unit for unit in units if unit.never is None]
    sizes = [unit.capacity_bytes or 0 for unit in open_]
    if need.memory_bytes is not None and sizes and max(sizes) < need.memory_bytes:
        return f"{need}, and the largest here has {shown_bytes(max(sizes))}"
    fit = len([unit for unit in units if could_ever(unit, need)])
    closed = "; ".join(f"{unit.name} {unit.never}" for unit in units if unit.never)
    cut = "a MIG instance is given to a run that needs one GPU" if any(unit.is_part for unit in open_) else ""
    why = "; ".join(text for text in (closed, cut) if text)
    return f"{need}, and {fit} of the {len(units)} here could serve it" + (f": {why}" if why else "")


def _claim(view: PlacementView, request: PlacementRequest, chosen: Sequence[Unit]) -> Claim:
    assert view.project is not None, "runs are placed inside of projects"
    return Claim(
        project=os.fsencode(view.project.root).decode("utf-8", "replace"),  # other projects' records show it
        home=_home(view),
        run_id=str(request.run_id),
        run_dir=str(request.run_dir),
        units={unit.uuid: request.need.memory_bytes for unit in chosen},
        ends_at_s=None if request.ends_at_s == inf else request.ends_at_s,
    )


def _ends_s(live: Sequence[LiveRun], theirs: Sequence[Claim]) -> dict[str, float]:
    """Returns the latest end of each run that holds a device, by its wall limit."""
    ends = {claim.who: inf if claim.ends_at_s is None else claim.ends_at_s for claim in theirs}
    return ends | {run.run_id: run.ends_at_s for run in live}
