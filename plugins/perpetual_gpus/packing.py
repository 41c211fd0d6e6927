"""Choice of the units that a run gets, or of the reason why it waits. Used by `leases.py` and `backfill.py`."""

from __future__ import annotations

from collections.abc import Sequence

from perpetual.api import GpuNeed
from perpetual.toolkit.units import shown_bytes
from perpetual_gpus.leasable import Unit

__all__ = ["could_ever", "pick", "waits_for"]

_SHOWN = 8  # devices of which a waiting run says why they are not for it
_COARSE_BYTES = 2**30


def could_ever(unit: Unit, need: GpuNeed) -> bool:
    """Returns whether the unit would take the run if it were idle and well."""
    big_enough = need.memory_bytes is None or unit.capacity_bytes is None or unit.capacity_bytes >= need.memory_bytes
    return unit.never is None and big_enough and not (unit.is_part and need.amount > 1)


def pick(units: Sequence[Unit], need: GpuNeed) -> list[Unit] | None:
    """Returns the units that the run gets now; None if it has to wait."""
    fit = [unit for unit in _named(units, need) if _why_not(unit, need) is None]
    memory = need.memory_bytes
    if memory is None:
        # Alone: a whole device before an instance, the emptiest first (strangers may be allowed on it; the few MiB of
        # a driver or a display are no difference), then by number.
        fit.sort(key=lambda unit: (unit.is_part, (unit.used_bytes or 0) // _COARSE_BYTES, unit.number))
    else:
        # Shared: where the least is left over, so that whole devices stay free for runs that need much, or all.
        fit.sort(key=lambda unit: ((unit.left_bytes or 0) - memory, unit.number))
    if need.wanted:  # one unit for each number: of a device that is cut, its best instance
        first = {unit.number: unit for unit in reversed(fit)}
        fit = [first[number] for number in need.wanted if number in first]
    return fit[: need.amount] if len(fit) >= need.amount else None


def waits_for(units: Sequence[Unit], need: GpuNeed) -> str:
    """Returns what a run that gets no device now waits for, naming each device and its obstacle."""
    named = _named(units, need)
    reasons = [(unit, _why_not(unit, need)) for unit in named]
    obstacles = [f"{unit.name} {why}" for unit, why in reasons if why is not None]
    free = len(named) - len(obstacles)
    obstacles += [
        f"GPU {number} is not there" for number in need.wanted if all(unit.number != number for unit in units)
    ]
    more = f", and {len(obstacles) - _SHOWN} more" if len(obstacles) > _SHOWN else ""
    if need.memory_bytes is None:
        return f"{need}, {free} of {len(named)} are free: {', '.join(obstacles[:_SHOWN])}{more}"
    return f"{need}; {', '.join(obstacles[:_SHOWN])}{more}"


def _named(units: Sequence[Unit], need: GpuNeed) -> list[Unit]:
    return [unit for unit in units if not need.wanted or unit.number in need.wanted]


def _why_not(unit: Unit, need: GpuNeed) -> str | None:
    """Returns why the unit is not for this run now, worded to follow its name; None if it is."""
    if unit.never or unit.is_sick:
        return unit.never or unit.obstacle
    if need.memory_bytes is not None and unit.capacity_bytes is not None and unit.capacity_bytes < need.memory_bytes:
        return f"has {shown_bytes(unit.capacity_bytes)} in all"
    if unit.obstacle:
        return unit.obstacle
    if unit.is_part and need.amount > 1:
        return "is given to a run that needs one GPU"
    alone = [hold.run_id for hold in unit.holds if hold.memory_bytes is None]
    if alone or (unit.holds and (need.memory_bytes is None or unit.is_single)):
        return f"is held by {', '.join(alone or [hold.run_id for hold in unit.holds])}"
    if need.memory_bytes is None:
        return None
    if unit.left_bytes is None:
        return "does not tell how much memory it has"
    if unit.left_bytes >= need.memory_bytes:
        return None
    held = ", ".join(f"{hold.run_id} holds {shown_bytes(hold.memory_bytes or 0)}" for hold in unit.holds)
    return f"has {shown_bytes(unit.left_bytes)} free" + (f" ({held})" if held else "")
