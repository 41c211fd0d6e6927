"""Backfill: a queued run may overtake a waiting GPU run only if that does not delay it. Used by `leases.py`.

Backfilling with one reservation, as EASY does it (D. Lifka, The ANL/IBM SP Scheduling System, 1995): devices are kept
for the first run in the order of the queue that waits for them, and for no other. A later one may go ahead if it will
have ended, by its wall limit, when the first could start by the wall limits of the runs that are live; or if the first
could start then all the same. A run without a wall limit never ends by that reckoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from perpetual.api import GpuNeed
from perpetual_gpus.leasable import Hold, Unit
from perpetual_gpus.packing import pick

__all__ = ["Start", "first_start", "pick_behind"]

_LATE = "a run that goes ahead"


class Start(NamedTuple):
    """When a run could start, at the latest; `units` is the machine then."""

    at_s: float
    units: list[Unit]


def first_start(units: Sequence[Unit], need: GpuNeed, ends_s: Mapping[str, float]) -> Start | None:
    """Returns when the live runs' wall limits let a run start; None if it is blocked by something other than runs.

    Args:
        ends_s: the latest end of each run that holds a unit, by its id; one that is missing never ends, and what it
            holds is there after all others.
    """
    for at_s in sorted({inf, *(ends_s.get(hold.run_id, inf) for unit in units for hold in unit.holds)}):
        then = [_without(unit, [hold for hold in unit.holds if ends_s.get(hold.run_id, inf) > at_s]) for unit in units]
        if pick(then, need) is not None:
            return Start(at_s, then)
    return None


def pick_behind(units: Sequence[Unit], need: GpuNeed, end_s: float, first: GpuNeed, start: Start) -> list[Unit] | None:
    """Returns the units that a run gets while the `first` one waits; None if all that it could get is kept free.

    Args:
        end_s: when the run will have ended at the latest; infinity without a wall limit.
        start: when the first could start.
    """
    chosen = pick(units, need)
    has_ended = end_s != inf and end_s <= start.at_s
    if chosen is None or has_ended or _leaves_room(chosen, need, first, start):
        return chosen
    kept = {unit.uuid for unit in pick(start.units, first) or ()}
    chosen = pick([unit for unit in units if unit.uuid not in kept], need)
    return chosen if chosen is not None and _leaves_room(chosen, need, first, start) else None


def _leaves_room(chosen: Sequence[Unit], need: GpuNeed, first: GpuNeed, start: Start) -> bool:
    """Returns whether the first run could start as early with the later run on these units."""
    uuids = {unit.uuid for unit in chosen}
    then = [_with(unit, need.memory_bytes) if unit.uuid in uuids else unit for unit in start.units]
    return pick(then, first) is not None


def _without(unit: Unit, holds: Sequence[Hold]) -> Unit:
    """Returns the unit with these of its holds alone: what the others have counts as free."""
    if len(holds) == len(unit.holds):
        return unit
    left = unit.capacity_bytes
    if left is not None:
        left = max(0, left - unit.strange_bytes - sum(hold.memory_bytes or 0 for hold in holds))
    return replace(unit, holds=tuple(holds), left_bytes=left)


def _with(unit: Unit, memory_bytes: int | None) -> Unit:
    left = unit.left_bytes
    if left is not None and memory_bytes is not None:
        left = max(0, left - memory_bytes)
    return replace(unit, holds=(*unit.holds, Hold(_LATE, memory_bytes)), left_bytes=left)
