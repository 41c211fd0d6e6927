"""Who may go ahead of a run that waits for GPUs: `perpetual_gpus.backfill`, by hand and by a simulated machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual.slots.gpu import Gpu, GpuProcess, GpuReading
from perpetual.slots.placement import GpuNeed, PlacementSettings
from perpetual_gpus.backfill import first_start, pick_behind
from perpetual_gpus.leasable import Hold, Unit, units_of
from perpetual_gpus.owners import FOREIGN, Owner
from perpetual_gpus.packing import pick

GIB = 2**30


class Job(NamedTuple):
    """A run with its devices, or one that waits for them."""

    name: str
    need: GpuNeed
    end_s: float  # of a live one; how long it lasts of one that waits
    uuids: tuple[str, ...] = ()


def machine(count: int, jobs: Sequence[Job] = (), *, strangers: Mapping[int, int] | None = None) -> list[Unit]:
    """Devices of 80 GiB with these runs on them; on some a stranger has so many GiB."""
    gpus: list[Gpu] = []
    owners: dict[int, Owner] = {}
    for number in range(count):
        memory = (strangers or {}).get(number, 0) * GIB
        processes = (GpuProcess(number + 1, memory, "alice", "x"),) if memory else ()
        owners |= {process.pid: FOREIGN for process in processes}
        total = 80 * GIB
        gpus.append(Gpu(number, f"GPU-{number}", "H100", total, memory, total - memory, None, None, None, "default",
                        processes, True, None))  # fmt: skip
    holds: dict[str, list[Hold]] = {}
    for job in jobs:
        for uuid in job.uuids:
            holds.setdefault(uuid, []).append(Hold(job.name, job.need.memory_bytes))
    return units_of(GpuReading("1", tuple(gpus), None), owners, holds, PlacementSettings(allows_foreign=True))


def behind(units: list[Unit], live: Sequence[Job], need: GpuNeed, end_s: float, first: GpuNeed) -> list[str] | None:
    """The devices that a later run gets."""
    assert pick(units, first) is None
    start = first_start(units, first, {job.name: job.end_s for job in live})
    assert start is not None
    got = pick_behind(units, need, end_s, first, start)
    return None if got is None else [unit.uuid for unit in got]


def alone(amount: int, *wanted: int) -> GpuNeed:
    return GpuNeed(amount, None, wanted)


def shared(gib: int, amount: int = 1) -> GpuNeed:
    return GpuNeed(amount, gib * GIB)


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_a_short_run_goes_ahead_and_a_long_one_does_not() -> None:
    live = [Job("r1", alone(1), 100.0, ("GPU-0",))]
    units = machine(2, live)
    assert behind(units, live, alone(1), 100.0, alone(2)) == ["GPU-1"]
    assert behind(units, live, alone(1), 100.5, alone(2)) is None
    assert behind(units, live, alone(1), inf, alone(2)) is None
    assert behind(units, live, shared(1), 100.5, alone(2)) is None


def test_devices_that_the_first_run_does_not_need_are_free() -> None:
    live = [Job("r1", alone(2), 100.0, ("GPU-0", "GPU-1")), Job("r2", alone(1), 50.0, ("GPU-3",))]
    units = machine(4, live)  # GPU 2 is free; three are there at 100, four with GPU 3
    assert behind(units, live, alone(1), inf, alone(3)) == ["GPU-2"]
    assert behind(units, live, alone(1), inf, alone(4)) is None
    named = alone(2, 0, 1)
    assert behind(units, live, alone(1), inf, named) == ["GPU-2"]


def test_the_device_that_is_not_kept_is_taken_where_the_best_one_is() -> None:
    live = [Job("r1", alone(1), 100.0, ("GPU-0",)), Job("r2", shared(60), inf, ("GPU-1",))]
    units = machine(3, live)
    # By itself the run would go where least is left over.
    assert [unit.uuid for unit in pick(units, shared(10)) or ()] == ["GPU-1"]
    wide = GpuNeed(2, None, (0, 2))
    assert behind(units, live, shared(10), inf, wide) == ["GPU-1"]
    tight = [Job("r1", alone(1), 100.0, ("GPU-0",)), Job("r2", shared(75), 100.0, ("GPU-1",))]
    assert behind(machine(3, tight), tight, shared(5), inf, GpuNeed(2, None, (0, 1))) == ["GPU-2"]


def test_a_run_that_never_ends_is_waited_for_and_its_neighbours_are_kept() -> None:
    live = [Job("r1", alone(1), inf, ("GPU-0",))]
    units = machine(2, live)
    assert behind(units, live, alone(1), inf, alone(2)) is None  # two of them would keep the first out for ever
    assert behind(units, live, alone(1), 1e9, alone(2)) == ["GPU-1"]


def test_memory_is_kept_too() -> None:
    live = [Job("r1", shared(50), 100.0, ("GPU-0",))]
    units = machine(1, live)
    assert behind(units, live, shared(20), inf, shared(60)) == ["GPU-0"]  # 60 fit beside 20
    assert behind(units, live, shared(21), inf, shared(60)) is None
    assert behind(units, live, shared(21), 99.0, shared(60)) == ["GPU-0"]
    crowded = machine(1, live, strangers={0: 5})
    assert behind(crowded, live, shared(15), inf, shared(60)) == ["GPU-0"]
    assert behind(crowded, live, shared(16), inf, shared(60)) is None


def test_nothing_is_kept_for_a_run_that_no_end_of_a_run_would_start() -> None:
    units = machine(2, [], strangers={0: 70})
    assert first_start(units, shared(20, 2), {}) is None
    assert first_start(units, alone(3), {}) is None


# --- by a simulated machine ------------------------------------------------------------------------------------------

NEEDS = st.one_of(
    st.builds(alone, st.integers(1, 3)), st.builds(shared, st.integers(1, 80), st.integers(1, 2)),
)  # fmt: skip
JOBS = st.lists(st.tuples(NEEDS, st.integers(1, 20) | st.just(inf)), max_size=12)


def runs(found: Sequence[tuple[GpuNeed, float]], letter: str) -> list[Job]:
    return [Job(f"{letter}{number}", need, float(end_s)) for number, (need, end_s) in enumerate(found)]


def placed(count: int, jobs: Sequence[Job]) -> list[Job]:
    """Those that find room, in this order, with what they get."""
    live: list[Job] = []
    for job in jobs:
        got = pick(machine(count, live), job.need)
        if got is not None:
            live.append(job._replace(uuids=tuple(unit.uuid for unit in got)))
    return live


def earliest(count: int, live: Sequence[Job], need: GpuNeed) -> float | None:
    """When a run could start if each live one ended at its limit: by building the machine of each moment anew."""
    for now_s in sorted({0.0, inf, *(job.end_s for job in live)}):
        left = [job for job in live if job.end_s > now_s]
        if pick(machine(count, left), need) is not None:
            return now_s
    return None


@settings(max_examples=150, deadline=None)
@given(count=st.integers(1, 4), before=JOBS, first=NEEDS, later=NEEDS, end_s=st.integers(1, 30) | st.just(inf))
def test_a_backfilled_run_delays_no_other(
    count: int, before: list[tuple[GpuNeed, float]], first: GpuNeed, later: GpuNeed, end_s: float
) -> None:
    live = placed(count, runs(before, "r"))
    units = machine(count, live)
    start = first_start(units, first, {job.name: job.end_s for job in live})
    expected = earliest(count, live, first)
    if pick(units, first) is not None or expected is None:
        assert (start is None) == (expected is None)
        return
    assert start is not None
    assert start.at_s == expected
    got = pick_behind(units, later, float(end_s), first, start)
    if got is None:
        return
    assert len(got) == later.amount
    assert {unit.uuid for unit in got} <= {unit.uuid for unit in units}
    ahead = Job("ahead", later, float(end_s), tuple(unit.uuid for unit in got))
    assert (earliest(count, [*live, ahead], first) or inf) <= expected
    if end_s == inf:  # nor for ever: the first could start with it still there
        left = [job for job in live if job.end_s > expected]
        assert pick(machine(count, [*left, ahead]), first) is not None


@settings(max_examples=60, deadline=None)
@given(count=st.integers(2, 4), before=JOBS, small=st.lists(st.tuples(NEEDS, st.integers(1, 20)), max_size=25))
def test_a_wide_run_starts_when_predicted(
    count: int, before: list[tuple[GpuNeed, float]], small: list[tuple[GpuNeed, float]]
) -> None:
    """However many small ones come after it: each ends at its limit, and two come in each unit of time."""
    live = placed(count, [job for job in runs(before, "r") if job.end_s != inf])
    wide = alone(count)
    told = earliest(count, live, wide)
    assert told is not None
    waiting = runs(small, "s")
    now_s = 0.0
    while pick(machine(count, live), wide) is None:
        assert now_s < told
        units = machine(count, live)
        for job in [waiting.pop() for _ in range(min(2, len(waiting)))]:
            start = first_start(units, wide, {one.name: one.end_s for one in live})
            assert start is not None
            end_s = now_s + job.end_s
            got = pick_behind(units, job.need, end_s, wide, start)
            if got is not None:
                live.append(job._replace(end_s=end_s, uuids=tuple(unit.uuid for unit in got)))
                units = machine(count, live)
        now_s += 1.0
        live = [job for job in live if job.end_s > now_s]
    assert now_s <= told
