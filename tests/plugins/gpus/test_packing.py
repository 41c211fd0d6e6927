"""Which GPU a run gets, and what it waits for: the arithmetic of `perpetual_gpus`, on readings made by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from perpetual.slots.gpu import Gpu, GpuProcess, GpuReading, MigDevice
from perpetual.slots.placement import GpuNeed, PlacementSettings, PlacementView
from perpetual.toolkit.units import shown_bytes
from perpetual_gpus.leasable import Hold, Unit, units_of
from perpetual_gpus.owners import FOREIGN, UNKNOWN, Owner, owners_of
from perpetual_gpus.packing import could_ever, pick, waits_for
from perpetual_nvml.none import build as no_gpus

GIB = 2**30
ALLOWED = PlacementSettings(allows_foreign=True)  # strangers' processes
NO_VIEW = PlacementView(backend=lambda: no_gpus({}))  # outside of a project


def gpu(index: int, *, used: float | None = 0, total: float | None = 80, **given: Any) -> Gpu:
    """A device with sizes in GiB."""
    values: dict[str, Any] = {
        "uuid": f"GPU-{index}", "name": "H100", "utilization": 0.0, "temperature_celsius": 30.0, "power_watts": 60.0,
        "compute_mode": "default", "processes": (), "healthy": True, "error": None, **given,
        "memory_total_bytes": None if total is None else int(total * GIB),
        "memory_used_bytes": None if used is None else int(used * GIB),
        "memory_free_bytes": None if used is None or total is None else int((total - used) * GIB),
    }  # fmt: skip
    return Gpu(index=index, **values)


def process(pid: int, memory: float | None = 1, user: str | None = "alice") -> GpuProcess:
    return GpuProcess(pid, None if memory is None else int(memory * GIB), user, "python")


def units(
    *gpus: Gpu,
    holds: Mapping[str, list[Hold]] | None = None,
    owners: Mapping[int, Owner] | None = None,
    rules: PlacementSettings = PlacementSettings(),  # noqa: B008 - it is frozen
) -> list[Unit]:
    return units_of(GpuReading("1", gpus, None), owners or {}, holds or {}, rules)


def chosen(found: list[Unit], need: GpuNeed) -> list[str] | None:
    got = pick(found, need)
    return None if got is None else [unit.uuid for unit in got]


def alone(number: int = 1, *wanted: int) -> GpuNeed:
    return GpuNeed(number, None, wanted)


def shared(memory: float, number: int = 1, *wanted: int) -> GpuNeed:
    return GpuNeed(number, int(memory * GIB), wanted)


def holds(*runs: tuple[str, float | None]) -> list[Hold]:
    return [Hold(run, None if memory is None else int(memory * GIB)) for run, memory in runs]


# --- alone -----------------------------------------------------------------------------------------------------------


def test_a_run_alone_gets_the_emptiest_device_and_of_equal_ones_the_first() -> None:
    display = gpu(0, used=9.9, processes=(process(7, 9.9),))
    found = units(display, gpu(1, used=0.004), gpu(2, used=0), owners={7: FOREIGN}, rules=ALLOWED)
    assert chosen(found, alone()) == ["GPU-1"]  # a few MiB of the driver's are no difference
    assert chosen(found, alone(2)) == ["GPU-1", "GPU-2"]
    assert chosen(found, alone(3)) == ["GPU-1", "GPU-2", "GPU-0"]
    assert chosen(found, alone(4)) is None


def test_an_exclusive_run_shares_no_device() -> None:
    found = units(gpu(0), gpu(1), holds={"GPU-0": holds(("r1", None)), "GPU-1": holds(("r2", 10), ("r3", 5))})
    assert chosen(found, alone()) is None
    assert waits_for(found, alone()) == "needs 1 GPU, 0 of 2 are free: GPU 0 is held by r1, GPU 1 is held by r2, r3"
    assert chosen(found, shared(1)) == ["GPU-1"]


def test_devices_are_chosen_by_number() -> None:
    found = units(gpu(0), gpu(1), gpu(2), holds={"GPU-1": holds(("r1", None))})
    assert chosen(found, alone(1, 2)) == ["GPU-2"]
    assert chosen(found, alone(2, 2, 0)) == ["GPU-2", "GPU-0"]
    assert chosen(found, alone(2, 0, 1)) is None
    assert waits_for(found, alone(2, 0, 1)) == "needs 2 GPUs, 1 of 2 are free: GPU 1 is held by r1"


def test_a_device_that_was_there_when_it_was_asked_for() -> None:
    found = units(gpu(0))
    assert chosen(found, alone(2, 0, 3)) is None
    assert waits_for(found, alone(2, 0, 3)) == "needs 2 GPUs, 1 of 1 are free: GPU 3 is not there"


def test_a_reason_names_a_few_of_many_devices() -> None:
    found = units(*(gpu(n) for n in range(10)), holds={f"GPU-{n}": holds((f"r{n}", None)) for n in range(10)})
    told = waits_for(found, alone())
    assert told.count("held by") == 8
    assert told.endswith("GPU 7 is held by r7, and 2 more")


# --- sharing ---------------------------------------------------------------------------------------------------------


def test_a_shared_run_goes_where_least_is_left_over() -> None:
    found = units(gpu(0), gpu(1), gpu(2), holds={"GPU-1": holds(("r1", 30)), "GPU-2": holds(("r2", 50))})
    assert chosen(found, shared(20)) == ["GPU-2"]
    assert chosen(found, shared(40)) == ["GPU-1"]
    assert chosen(found, shared(60)) == ["GPU-0"]
    assert chosen(found, shared(20, 2)) == ["GPU-2", "GPU-1"]
    assert chosen(found, shared(81)) is None


def test_reserved_memory_counts_before_it_is_used() -> None:
    """A reading alone lies while a run warms up."""
    warming = units(gpu(0, used=0), holds={"GPU-0": holds(("r1", 50))})
    assert [unit.left_bytes for unit in warming] == [30 * GIB]
    mine = {1: Owner("run", "r1")}
    warm = units(gpu(0, used=50, processes=(process(1, 50),)), holds={"GPU-0": holds(("r1", 50))}, owners=mine)
    assert [unit.left_bytes for unit in warm] == [30 * GIB]
    greedy = units(gpu(0, used=70, processes=(process(1, 70),)), holds={"GPU-0": holds(("r1", 50))}, owners=mine)
    assert [unit.left_bytes for unit in greedy] == [10 * GIB]
    assert waits_for(greedy, shared(20)) == "needs 20 GiB on one GPU; GPU 0 has 10 GiB free (r1 holds 50 GiB)"


def test_two_warming_runs_and_a_stranger_add_up() -> None:
    found = units(
        gpu(0, used=15, processes=(process(1, 10), process(2, 5))),
        holds={"GPU-0": holds(("r1", 20), ("r2", 15))},
        owners={1: Owner("run", "r1"), 2: FOREIGN},
        rules=ALLOWED,
    )
    assert found[0].left_bytes == (80 - 20 - 15 - 5) * GIB
    assert (chosen(found, shared(40)), chosen(found, shared(40.1))) == (["GPU-0"], None)


def test_a_process_that_tells_no_memory_is_not_counted_twice() -> None:
    found = units(
        gpu(0, used=30, processes=(process(1, None),)),
        holds={"GPU-0": holds(("r1", 30))},
        owners={1: Owner("run", "r1")},
    )
    assert found[0].left_bytes == 50 * GIB


def test_memory_that_the_driver_keeps_is_not_leased() -> None:
    kept = gpu(0, used=0)
    kept = Gpu(**{**{name: getattr(kept, name) for name in Gpu.__dataclass_fields__}, "memory_free_bytes": 79 * GIB})
    (unit,) = units(kept)
    assert (unit.capacity_bytes, unit.left_bytes) == (79 * GIB, 79 * GIB)
    assert not could_ever(unit, shared(80))
    assert could_ever(unit, shared(79))


def test_a_device_that_tells_no_memory_takes_runs_alone() -> None:
    found = units(gpu(0, used=None, total=None))
    assert chosen(found, alone()) == ["GPU-0"]
    assert chosen(found, shared(1)) is None
    assert waits_for(found, shared(1)) == "needs 1 GiB on one GPU; GPU 0 does not tell how much memory it has"


def test_an_exclusive_device_takes_one_process() -> None:
    found = units(gpu(0, compute_mode="exclusive_process"), holds={"GPU-0": holds(("r1", 10))})
    assert chosen(found, shared(10)) is None
    assert waits_for(found, shared(10)) == "needs 10 GiB on one GPU; GPU 0 is held by r1"
    assert chosen(units(gpu(0, compute_mode="exclusive_process")), shared(10)) == ["GPU-0"]
    allowed = ALLOWED  # not this project's to allow: the driver lets nobody else in
    with_stranger = gpu(0, compute_mode="exclusive_process", processes=(process(9),))
    assert chosen(units(with_stranger, owners={9: FOREIGN}, rules=allowed), alone()) is None


# --- what keeps a run off --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        (FOREIGN, "GPU 0 is used by pid 7 of alice"),
        (UNKNOWN, "GPU 0 is used by pid 7, which cannot be seen from here"),
        (Owner("ended", "r12"), "GPU 0 is still held by pid 7 of r12, which has ended"),
        (Owner("run", "r5"), "GPU 0 is used by r5, which did not lease it"),
    ],
)
def test_a_process_keeps_runs_off(owner: Owner, told: str) -> None:
    found = units(gpu(0, processes=(process(7),)), owners={7: owner})
    for need, needs in ((alone(), "needs 1 GPU, 0 of 1 are free:"), (shared(1), "needs 1 GiB on one GPU;")):
        assert chosen(found, need) is None
        assert waits_for(found, need) == f"{needs} {told}"


@pytest.mark.parametrize("owner", [FOREIGN, UNKNOWN])
def test_strangers_may_be_allowed(owner: Owner) -> None:
    found = units(gpu(0, used=1, processes=(process(7),)), owners={7: owner}, rules=ALLOWED)
    assert chosen(found, alone()) == ["GPU-0"]
    assert chosen(found, shared(79)) == ["GPU-0"]
    assert chosen(found, shared(79.5)) is None


@pytest.mark.parametrize("owner", [Owner("ended", "r12"), Owner("run", "r5")])
def test_processes_of_our_own_runs_are_not_foreign(owner: Owner) -> None:
    found = units(gpu(0, processes=(process(7),)), owners={7: owner}, rules=ALLOWED)
    assert chosen(found, alone()) is None


def test_an_unseen_process_on_our_device_is_taken_for_ours_while_it_fits() -> None:
    """In a container the driver numbers processes as the host does, and no run is found again."""
    fits = units(gpu(0, used=20, processes=(process(7, 20),)), holds={"GPU-0": holds(("r1", 30))}, owners={7: UNKNOWN})
    assert (chosen(fits, shared(50)), chosen(fits, shared(51))) == (["GPU-0"], None)
    nameless = units(gpu(0, used=20), holds={"GPU-0": holds(("r1", 30))})  # a container may be told no pids at all
    assert (chosen(nameless, shared(50)), chosen(nameless, shared(51))) == (["GPU-0"], None)
    more = units(gpu(0, used=40, processes=(process(7, 40),)), holds={"GPU-0": holds(("r1", 30))}, owners={7: UNKNOWN})
    assert chosen(more, shared(1)) is None
    assert "cannot be seen" in waits_for(more, shared(1))
    seen = units(gpu(0, used=20, processes=(process(7, 20),)), holds={"GPU-0": holds(("r1", 30))}, owners={7: FOREIGN})
    assert chosen(seen, shared(1)) is None


def test_used_memory_without_a_visible_process_keeps_runs_off() -> None:
    """It is another container's, or that of a run which has ended and is not given back yet."""
    found = units(gpu(0, used=20))
    assert chosen(found, alone()) is None
    assert waits_for(found, shared(10)) == (
        "needs 10 GiB on one GPU; GPU 0 has 20 GiB in use by processes that cannot be seen from here"
    )
    assert chosen(units(gpu(0, used=0.9)), alone()) == ["GPU-0"]  # the driver's own
    assert chosen(units(gpu(0, used=20), rules=ALLOWED), alone()) == ["GPU-0"]
    held = units(gpu(0, used=40), holds={"GPU-0": holds(("r1", 30))})
    assert chosen(held, shared(10)) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"healthy": False, "error": "GPU is lost"}, "GPU 0 is sick: GPU is lost"),
        ({"healthy": False, "error": "GPU is lost", "uuid": None}, "GPU 0 is sick: GPU is lost"),
        ({"error": "it does not tell"}, "GPU 0 cannot be judged: it does not tell"),
        ({"uuid": None}, "GPU 0 tells no uuid, and so cannot be given to a run"),
    ],
)
def test_a_device_in_trouble_is_not_leased(given: dict[str, Any], told: str) -> None:
    found = units(gpu(0, **given), rules=ALLOWED)
    assert chosen(found, alone()) is None
    assert waits_for(found, alone()) == f"needs 1 GPU, 0 of 1 are free: {told}"
    assert could_ever(found[0], alone())  # it may be mended


@pytest.mark.parametrize("excluded", ["1", "GPU-1"])
def test_excluded_devices_are_not_chosen(excluded: str) -> None:
    found = units(gpu(0), gpu(1), rules=PlacementSettings(frozenset({excluded})))
    assert chosen(found, alone()) == ["GPU-0"]
    assert chosen(found, alone(1, 1)) is None
    assert [could_ever(unit, alone()) for unit in found] == [True, False]


def test_a_prohibited_device_is_never_used() -> None:
    found = units(gpu(0, compute_mode="prohibited"))
    assert chosen(found, alone()) is None
    assert not could_ever(found[0], alone())
    assert waits_for(found, alone()).endswith("GPU 0 takes no program (compute mode prohibited)")


# --- MIG -------------------------------------------------------------------------------------------------------------


def cut(index: int, *sizes: float, processes: Mapping[int, tuple[GpuProcess, ...]] | None = None, **given: Any) -> Gpu:
    parts = [
        MigDevice(f"MIG-{index}.{place}", int(memory * GIB), sum((one.memory_bytes or 0) for one in on), on)
        for place, memory in enumerate(sizes)
        for on in ((processes or {}).get(place, ()),)
    ]
    everybody = tuple(one for part in parts for one in part.processes)
    return gpu(index, mig=tuple(parts), processes=everybody, **given)


def test_a_cut_device_is_leased_by_instance() -> None:
    found = units(cut(0, 20, 10), gpu(1))
    assert [unit.uuid for unit in found] == ["MIG-0.0", "MIG-0.1", "GPU-1"]
    assert chosen(found, alone()) == ["GPU-1"]  # a run that says nothing of memory may need all of a device
    assert chosen(found, shared(8)) == ["MIG-0.1"]
    assert chosen(found, shared(12)) == ["MIG-0.0"]
    assert chosen(found, shared(30)) == ["GPU-1"]
    assert chosen(units(cut(0, 20, 10)), alone()) == ["MIG-0.0"]
    assert waits_for(units(cut(0, 20), gpu(1), holds={"GPU-1": holds(("r1", 70))}), shared(30)) == (
        "needs 30 GiB on one GPU; MIG 0 of GPU 0 has 20 GiB in all, GPU 1 has 10 GiB free (r1 holds 70 GiB)"
    )


def test_an_instance_takes_one_run_and_a_run_one_instance() -> None:
    found = units(cut(0, 20, 20), holds={"MIG-0.0": holds(("r1", 5))})
    assert chosen(found, shared(5)) == ["MIG-0.1"]
    assert chosen(found, shared(5, 2)) is None
    assert not could_ever(found[1], shared(5, 2))
    assert waits_for(found, alone(2)) == (
        "needs 2 GPUs, 0 of 2 are free: MIG 0 of GPU 0 is given to a run that needs one GPU, "
        "MIG 1 of GPU 0 is given to a run that needs one GPU"
    )


def test_a_number_that_is_cut_means_one_of_its_instances() -> None:
    found = units(gpu(0), cut(1, 20, 10), holds={"MIG-1.0": holds(("r1", None))})
    assert chosen(found, alone(1, 1)) == ["MIG-1.1"]
    assert chosen(found, shared(15, 1, 1)) is None


def test_processes_count_on_their_own_instance() -> None:
    found = units(cut(0, 20, 20, processes={0: (process(7),)}), owners={7: FOREIGN})
    assert chosen(found, alone()) == ["MIG-0.1"]
    assert [unit.obstacle for unit in found] == ["is used by pid 7 of alice", None]


def test_an_instance_may_be_excluded_and_may_be_sick() -> None:
    found = units(cut(0, 20, 20), rules=PlacementSettings(frozenset({"MIG-0.0"})))
    assert chosen(found, alone()) == ["MIG-0.1"]
    assert chosen(units(cut(0, 20, healthy=False, error="lost")), alone()) is None
    mute = gpu(0, mig=(MigDevice("MIG-a", GIB, 0, (), "not told"), MigDevice("MIG-b", GIB, 0)))
    assert chosen(units(mute), alone()) == ["MIG-b"]
    assert [could_ever(unit, alone()) for unit in units(cut(0, 20, 10), rules=PlacementSettings(frozenset({"0"})))] == [
        False
    ] * 2


# --- whose a process is ----------------------------------------------------------------------------------------------


def test_every_process_is_foreign_outside_a_project() -> None:
    reading = GpuReading("1", (gpu(0, processes=(process(os.getpid()), process(2**22 + 1))),), None)
    assert owners_of(NO_VIEW, reading) == {os.getpid(): FOREIGN, 2**22 + 1: UNKNOWN}
    assert owners_of(NO_VIEW, GpuReading("1", (gpu(0),), None)) == {}


@pytest.mark.parametrize(
    ("number", "down", "up"),
    [(80 * GIB, "80 GiB", "80 GiB"), (80 * GIB - 1, "79.9 GiB", "80 GiB"), (2**20, "1 MiB", "1 MiB"), (5, "5 bytes",
     "5 bytes"), (1536, "1.5 KiB", "1.5 KiB")],
)  # fmt: skip
def test_free_sizes_round_down_and_needed_sizes_up(number: int, down: str, up: str) -> None:
    """What is there is rounded down and what is needed up, so that a run never waits for what seems to be there."""
    assert (shown_bytes(number), shown_bytes(number, up=True)) == (down, up)
