"""Units that can be leased: a whole device, or one instance of a device that MIG has cut; and what is in the way.

Used by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perpetual.api import Gpu, GpuProcess, GpuReading, LiveRun, MigDevice, PlacementSettings
from perpetual.toolkit.units import shown_bytes
from perpetual_gpus.claims import Claim
from perpetual_gpus.owners import UNKNOWN, Owner

__all__ = ["Hold", "Holds", "Unit", "holds_of", "in_words", "units_of"]

# Memory in use by no known process: less may be the driver's own, more is a process's in another container, or
# of a run that has ended and is not yet given back.
_UNSEEN_BYTES = 2**30


class Hold(NamedTuple):
    """A live run's lease of one unit; without `memory_bytes` the run has it alone.

    Of another project's run, `run_id` says of which project it is too, and `claim` is what that project claims.
    """

    run_id: str
    memory_bytes: int | None
    claim: Claim | None = None


Holds = Mapping[str, Sequence[Hold]]  # by the unit's uuid


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing that can be leased, as it is now."""

    number: int  # of the device, as the driver counts
    name: str  # for people
    uuid: str  # empty where the device does not tell it
    is_part: bool  # a MIG instance
    is_single: bool  # takes one run at a time, whatever that one declared
    capacity_bytes: int | None  # what an idle one offers
    used_bytes: int | None
    left_bytes: int | None  # what one more run may take
    strange_bytes: int  # what is in use by processes that are no run's
    holds: tuple[Hold, ...]
    never: str | None  # why no run gets it, until a setting changes
    obstacle: str | None  # why no run gets it now
    is_sick: bool  # it failed, or its backend cannot tell how it fares


def holds_of(live: Sequence[LiveRun], others: Sequence[Claim] = ()) -> dict[str, list[Hold]]:
    """Returns the leases of these live runs, and what other projects have claimed, by uuid."""
    found: dict[str, list[Hold]] = {}
    for run in live:
        for uuid in run.gpus:
            found.setdefault(uuid, []).append(Hold(run.run_id, run.memory_bytes))
    for claim in others:
        for uuid, memory_bytes in claim.units.items():
            found.setdefault(uuid, []).append(Hold(claim.who, memory_bytes, claim))
    return found


def units_of(reading: GpuReading, owners: Mapping[int, Owner], holds: Holds, rules: PlacementSettings) -> list[Unit]:
    """Returns every unit of the machine, in the driver's order; a device without a uuid cannot be leased."""
    return [unit for gpu in reading.gpus for unit in _units(gpu, owners, holds, rules)]


def _units(gpu: Gpu, owners: Mapping[int, Owner], holds: Holds, rules: PlacementSettings) -> Iterator[Unit]:
    never = None
    if {str(gpu.index), gpu.uuid} & rules.excluded:
        never = "is excluded by gpus_excluded"
    elif gpu.compute_mode == "prohibited":
        never = "takes no program (compute mode prohibited)"
    for place, part in enumerate(gpu.mig):
        excluded = never or ("is excluded by gpus_excluded" if part.uuid in rules.excluded else None)
        yield _part(gpu, place, part, owners, tuple(holds.get(part.uuid, ())), rules, excluded)
    if gpu.mig:
        return
    uuid = gpu.uuid or ""
    held = tuple(holds.get(uuid, ()))
    is_single = gpu.compute_mode == "exclusive_process"
    sick = _sickness(gpu)
    total, used, free = gpu.memory_total_bytes, gpu.memory_used_bytes, gpu.memory_free_bytes
    # What the driver keeps for itself is neither used nor free, and no run ever gets it.
    capacity = total if used is None or free is None else used + free
    yield Unit(
        number=gpu.index,
        name=f"GPU {gpu.index}",
        uuid=uuid,
        is_part=False,
        is_single=is_single,
        capacity_bytes=capacity,
        used_bytes=used,
        left_bytes=_left(capacity, used, gpu.processes, owners, held),
        strange_bytes=_strange(gpu.processes, owners),
        holds=held,
        never=never,
        # Sharing with a stranger is not the configuration's to allow where the driver lets one process in.
        obstacle=sick or _intruder(used, gpu.processes, owners, held, rules.allows_foreign and not is_single),
        is_sick=sick is not None,
    )


def _part(
    gpu: Gpu,
    place: int,
    part: MigDevice,
    owners: Mapping[int, Owner],
    held: tuple[Hold, ...],
    rules: PlacementSettings,
    never: str | None,
) -> Unit:
    total = part.memory_total_bytes
    sick = _sickness(gpu) or (None if part.error is None else f"cannot be judged: {part.error}")
    return Unit(
        number=gpu.index,
        name=f"MIG {place} of GPU {gpu.index}",
        uuid=part.uuid,
        is_part=True,
        is_single=True,
        capacity_bytes=total,
        used_bytes=part.memory_used_bytes,
        left_bytes=_left(total, part.memory_used_bytes, part.processes, owners, held),
        strange_bytes=_strange(part.processes, owners),
        holds=held,
        never=never,
        obstacle=sick or _intruder(part.memory_used_bytes, part.processes, owners, held, rules.allows_foreign),
        is_sick=sick is not None,
    )


def _sickness(gpu: Gpu) -> str | None:
    if not gpu.healthy:
        return f"is sick: {gpu.error}"
    if gpu.uuid is None:
        return "tells no uuid, and so cannot be given to a run"
    return None if gpu.error is None else f"cannot be judged: {gpu.error}"


def _intruder(
    used: int | None,
    processes: Sequence[GpuProcess],
    owners: Mapping[int, Owner],
    held: Sequence[Hold],
    allowed: bool,
) -> str | None:
    """Returns what keeps runs off a unit, in words: a process, or memory in use by no listed process; else None."""
    holders = {hold.run_id for hold in held}
    unknown = [process for process in processes if owners.get(process.pid, UNKNOWN).kind == "unknown"]
    unseen = _unseen(used, processes)
    are_ours = _may_be_ours(unseen + sum(process.memory_bytes or 0 for process in unknown), held)
    for process in processes:
        owner = owners.get(process.pid, UNKNOWN)
        if owner.run_id in holders or (owner.kind in ("foreign", "unknown") and allowed):
            continue
        if owner.kind == "unknown" and are_ours:
            continue
        return in_words(process, owner)
    if unseen > _UNSEEN_BYTES and not allowed and not are_ours:
        return f"has {shown_bytes(unseen)} in use by processes that cannot be seen from here"
    return None


def _unseen(used: int | None, processes: Sequence[GpuProcess]) -> int:
    """Returns how many bytes are in use by no process that the driver lists."""
    sizes = [process.memory_bytes for process in processes]
    if used is None or None in sizes:
        return 0  # it may be that one's
    return max(0, used - sum(size for size in sizes if size is not None))


def _may_be_ours(number_bytes: int, held: Sequence[Hold]) -> bool:
    """Returns whether unseen memory is attributed to the runs that hold the unit.

    A unit with unseen memory is never leased, so that memory came after the lease. In a container the pids are the
    host's or are missing, and every run looks like this. It must not exceed what those runs declared.
    """
    declared = [hold.memory_bytes for hold in held]
    if not declared or None in declared:
        return bool(declared)
    return number_bytes <= sum(size for size in declared if size is not None) + _UNSEEN_BYTES


def in_words(process: GpuProcess, owner: Owner) -> str:
    """Returns what a process uses of its device, worded to follow the device's name."""
    if owner.kind == "ended":
        return f"is still held by pid {process.pid} of {owner.run_id}, which has ended"
    if owner.kind in ("run", "other"):
        return f"is used by {owner.run_id}, which did not lease it"
    if owner.kind == "unknown":
        return f"is used by pid {process.pid}, which cannot be seen from here"
    return f"is used by pid {process.pid} of {process.user or 'an unknown user'}"


def _left(
    capacity: int | None,
    used: int | None,
    processes: Sequence[GpuProcess],
    owners: Mapping[int, Owner],
    held: Sequence[Hold],
) -> int | None:
    """Returns how many bytes one more run may take: those free, less what our runs have declared and not taken yet.

    A reading alone lies while runs warm up. So each run counts with what it declared or with what it really takes,
    whichever is more, and strangers with what they take.
    """
    if capacity is None:
        return None
    taken: dict[str | None, int] = {}
    strange = _strange(processes, owners)
    for process in processes:
        owner = owners.get(process.pid, UNKNOWN)
        if owner.kind != "foreign":  # under None what cannot be assigned: of any of our runs
            taken[owner.run_id] = taken.get(owner.run_id, 0) + (process.memory_bytes or 0)
    if used is not None:  # by unknown processes, or by ones of unknown use
        taken[None] = taken.get(None, 0) + max(0, used - strange - sum(taken.values()))
    holders = {hold.run_id for hold in held}
    declared = {run_id: sum(hold.memory_bytes or 0 for hold in held if hold.run_id == run_id) for run_id in holders}
    missing = sum(max(0, size - taken.get(run_id, 0)) for run_id, size in declared.items())
    pending = max(0, missing - taken.get(None, 0))
    free = capacity - (used if used is not None else strange + sum(taken.values()))
    return max(0, min(free - pending, capacity - sum(declared.values()) - strange))


def _strange(processes: Sequence[GpuProcess], owners: Mapping[int, Owner]) -> int:
    return sum(one.memory_bytes or 0 for one in processes if owners.get(one.pid, UNKNOWN).kind == "foreign")
