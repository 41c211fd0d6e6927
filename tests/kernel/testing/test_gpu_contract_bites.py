"""The GPU slot's contract suite fails on every backend that breaks one promise, and there at the test that holds it."""

from __future__ import annotations

import copy
import inspect
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from perpetual.slots.gpu import Gpu, GpuBackend, GpuProcess, GpuReading, MigDevice
from perpetual.testing.gpus import GpuContract
from perpetual.testing.verdicts import Vacuous

GIB = 1024**3
PART = MigDevice("MIG-one", 10 * GIB, 0, (GpuProcess(78, None, None, None),))
WELL = Gpu(
    index=0,
    uuid="GPU-a",
    name="Acme One",
    memory_total_bytes=80 * GIB,
    memory_used_bytes=30 * GIB,
    memory_free_bytes=49 * GIB,  # the driver keeps the rest
    utilization=97,
    temperature_celsius=61,
    power_watts=412.5,
    compute_mode="default",
    processes=(GpuProcess(77, 29 * GIB, "ada", "python"), GpuProcess(78, None, None, None)),
    healthy=True,
    error=None,
    mig=(PART, MigDevice("MIG-two", None, None)),
)
BARE = replace(
    WELL, index=1, uuid=None, name=None, memory_total_bytes=None, memory_used_bytes=None, memory_free_bytes=None,
    utilization=None, temperature_celsius=None, power_watts=None, compute_mode=None, processes=(), mig=(),
)  # fmt: skip
LOST = replace(BARE, index=2, healthy=False, error="GPU is lost")
MUTE = replace(WELL, index=3, uuid="GPU-d", processes=(), mig=(), error="the driver does not tell its processes")


class Rack(GpuBackend):
    """Keeps the contract: one device that is well, one that tells nothing, one that is lost, one that is half known."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        return GpuReading("acme 7", (replace(WELL), BARE, LOST, MUTE), None)


class Empty(Rack):
    """Keeps the contract: there is nothing."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        return GpuReading(None, (), "no driver on this machine")


class Silent(Rack):
    """Keeps the contract: there may be devices, and this time nobody said so."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        return GpuReading(None, (), "the driver did not answer", transient=True)


def with_(reading: GpuReading, **wrong: Any) -> GpuReading:
    """The reading with values of any type."""
    return replace(reading, **wrong)


def tells(**wrong: Any) -> type[Rack]:
    """A rack whose first device tells something else."""

    class Twin(Rack):
        def read(self, deadline_s: float = 5.0) -> GpuReading:
            reading = super().read(deadline_s)
            return with_(reading, gpus=(replace(reading.gpus[0], **wrong), *reading.gpus[1:]))

    Twin.__name__ = "tells_" + "_".join(wrong)
    return Twin


def answers(name: str, change: Callable[[GpuReading], Any]) -> type[Rack]:
    """A rack whose reading is another."""

    class Twin(Rack):
        def read(self, deadline_s: float = 5.0) -> GpuReading:
            changed: GpuReading = change(super().read(deadline_s))
            return changed

    Twin.__name__ = name
    return Twin


class Waits(Rack):
    """The least that it takes is more than a second."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        time.sleep(1.05 if deadline_s < 0.1 else 0)
        return super().read()


class WantsADeadline(Rack):
    """The lab asks without one."""

    def read(self, deadline_s: float) -> GpuReading:  # type: ignore[override]
        return super().read(deadline_s)


class Counts(Rack):
    """Numbers and names go on from reading to reading."""

    seen = 0

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        reading = super().read(deadline_s)
        self.seen += 1
        return replace(reading, gpus=(replace(reading.gpus[0], uuid=f"GPU-{self.seen}"), *reading.gpus[1:]))


class NamesThemAnew(Rack):
    """Uuids begin with a number that each process chooses."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        reading = super().read(deadline_s)
        named = replace(reading.gpus[0], uuid=f"GPU-{hash('rack')}")
        return replace(reading, gpus=(named, *reading.gpus[1:]))


class Ticks(Rack):
    """Keeps the contract: each reading is a watt more than the one before, whichever object reads."""

    watts: ClassVar[float] = 100.0

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        Ticks.watts += 1
        reading = super().read(deadline_s)
        return replace(reading, gpus=(replace(reading.gpus[0], power_watts=Ticks.watts), *reading.gpus[1:]))


class ReadsOnce(Ticks):
    """When it is made."""

    def __init__(self) -> None:
        self._first = super().read()

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        return copy.deepcopy(self._first)


class Refreshes(Rack):
    """There is one reading, which is always of now."""

    def __init__(self) -> None:
        self._now = super().read()

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        gpu = self._now.gpus[0]
        object.__setattr__(gpu, "temperature_celsius", (gpu.temperature_celsius or 0) + 1)
        return self._now


class OneAtATime(Rack):
    """Who comes while another reads is told that there is nothing."""

    def __init__(self) -> None:
        self._reading = threading.Lock()

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        if not self._reading.acquire(blocking=False):
            return GpuReading(None, (), "busy")
        try:
            time.sleep(0.01)
            return super().read(deadline_s)
        finally:
            self._reading.release()


class OnlyTheFirstThread(Rack):
    """Others are refused."""

    def __init__(self) -> None:
        self._mine = threading.get_ident()

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        if threading.get_ident() != self._mine:
            raise RuntimeError("not your driver")
        return super().read(deadline_s)


class Leaky(Rack):
    """What it holds is let go of at the end of a test."""

    def __init__(self) -> None:
        self.held: list[Callable[[], object]] = []

    def let_go(self) -> None:
        while self.held:
            self.held.pop()()


class LeavesFiles(Leaky):
    """One open file a reading."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        file = os.open(os.devnull, os.O_RDONLY)
        self.held.append(lambda: os.close(file))
        return super().read(deadline_s)


class KeepsTheDriverOpen(Leaky):
    """One file, opened by the first reading and used by all."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        if not self.held:
            file = os.open(os.devnull, os.O_RDONLY)
            self.held.append(lambda: os.close(file))
        return super().read(deadline_s)


class LeavesThreads(Leaky):
    """One that refreshes, started by the first reading."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        if not self.held:
            ended = threading.Event()
            thread = threading.Thread(target=ended.wait)
            thread.start()
            self.held += [thread.join, ended.set]
        return super().read(deadline_s)


class LeavesZombies(Leaky):
    """One process, whose end nobody asked for."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        if not self.held:
            process = subprocess.Popen([sys.executable, "-S", "-c", ""])
            self.held.append(process.wait)
        return super().read(deadline_s)


def _ordered(reading: GpuReading, *order: int) -> GpuReading:
    return replace(reading, gpus=tuple(reading.gpus[index] for index in order))


BROKEN: list[tuple[type[Rack], str]] = [
    (Waits, "test_it_answers_within_its_deadline"),
    (WantsADeadline, "test_it_answers_within_its_deadline"),
    (answers("Lists", lambda reading: with_(reading, gpus=[*reading.gpus])), "test_a_reading_has_its_shape"),
    (answers("Documents", lambda reading: with_(reading, gpus=({"index": 0},))), "test_a_reading_has_its_shape"),
    (answers("NumberedDriver", lambda reading: with_(reading, driver=570.86)), "test_a_reading_has_its_shape"),
    (tells(utilization="97 %"), "test_a_reading_has_its_shape"),
    (tells(memory_used_bytes=0.5 * GIB), "test_a_reading_has_its_shape"),
    (tells(healthy=1), "test_a_reading_has_its_shape"),
    (tells(processes=[]), "test_a_reading_has_its_shape"),
    (tells(mig=("MIG-one",)), "test_a_reading_has_its_shape"),
    (tells(mig=(replace(PART, processes=(78,)),)), "test_a_reading_has_its_shape"),  # type: ignore[arg-type]
    (answers("SaysPerhaps", lambda reading: with_(reading, transient="perhaps")), "test_a_reading_has_its_shape"),
    (answers("AsksToWait", lambda reading: replace(reading, transient=True)), "test_only_a_reason_is_transient"),
    (tells(index=1), "test_devices_are_numbered_from_zero"),
    (answers("Shuffles", lambda reading: _ordered(reading, 1, 0, 2, 3)), "test_devices_are_numbered_from_zero"),
    (answers("HidesTheLost", lambda reading: _ordered(reading, 0, 1, 3)), "test_devices_are_numbered_from_zero"),
    (tells(uuid="GPU-d"), "test_no_uuid_stands_twice"),
    (tells(mig=(PART, PART)), "test_no_uuid_stands_twice"),
    (NamesThemAnew, "test_another_process_names_the_same_devices"),
    (
        tells(memory_used_bytes=60 * GIB, memory_free_bytes=19 * GIB, processes=(), mig=()),
        "test_memory_in_use_has_a_process_or_an_error",
    ),
    (tells(mig=(MigDevice("MIG-one", 40 * GIB, 30 * GIB),)), "test_memory_in_use_has_a_process_or_an_error"),
    (answers("SaysNoReason", lambda reading: GpuReading(None, (), None)), "test_a_reason_stands_where_no_devices_are"),
    (answers("Chatters", lambda reading: replace(reading, reason="fine")), "test_a_reason_stands_where_no_devices_are"),
    (tells(healthy=False), "test_an_unhealthy_device_says_why"),
    (tells(memory_total_bytes=81920), "test_sizes_are_bytes_and_add_up"),
    (tells(memory_total_bytes=0), "test_sizes_are_bytes_and_add_up"),
    (tells(memory_used_bytes=-1), "test_sizes_are_bytes_and_add_up"),
    (tells(memory_free_bytes=80 * GIB), "test_sizes_are_bytes_and_add_up"),
    (tells(mig=(replace(PART, memory_used_bytes=11 * GIB),)), "test_sizes_are_bytes_and_add_up"),
    (tells(utilization=250), "test_measures_are_in_their_units"),
    (tells(temperature_celsius=334), "test_measures_are_in_their_units"),
    (tells(power_watts=412500), "test_measures_are_in_their_units"),
    (tells(temperature_celsius=math.nan), "test_what_is_not_known_is_none"),
    (tells(utilization=-1), "test_what_is_not_known_is_none"),
    (tells(processes=(GpuProcess(77, -1, None, None),)), "test_what_is_not_known_is_none"),
    (tells(name="[N/A]"), "test_what_is_not_known_is_none"),
    (tells(mig=(replace(PART, error="unknown"),)), "test_what_is_not_known_is_none"),
    (tells(error=""), "test_what_is_not_known_is_none"),
    (tells(processes=(GpuProcess(0, None, None, None),)), "test_each_process_stands_once"),
    (tells(processes=(WELL.processes[0], WELL.processes[0])), "test_each_process_stands_once"),
    (tells(mig=(replace(PART, processes=PART.processes * 2),)), "test_each_process_stands_once"),
    (tells(processes=WELL.processes[:1]), "test_processes_of_an_instance_are_of_its_device"),
    (tells(power_watts=math.inf), "test_a_reading_can_be_written_down"),
    (tells(processes=(GpuProcess(77, None, None, "odd\udcff"),)), "test_a_reading_can_be_written_down"),
    (Refreshes, "test_an_earlier_reading_stays_as_it_was"),
    (Counts, "test_each_reading_names_the_same_devices"),
    (OneAtATime, "test_threads_agree"),
    (OnlyTheFirstThread, "test_threads_agree"),
    (LeavesFiles, "test_nothing_stays_open"),
    (KeepsTheDriverOpen, "test_nothing_stays_open"),
    (LeavesThreads, "test_nothing_stays_open"),
    (LeavesZombies, "test_nothing_stays_open"),
]
_NEED_PROC = {LeavesFiles, KeepsTheDriverOpen, LeavesZombies}


class Anew(GpuContract):
    """The suite, which makes more objects of the class under test."""

    made: type[Rack] = Rack

    def _another(self) -> GpuBackend:
        return self.made()


class Alters(GpuContract):
    """The suite, for a rack whose first device can be made to use less power."""

    def alter(self, backend: GpuBackend) -> bool:
        """As a subclass of an outsider does it."""
        Dims.watts -= 1
        return True


class Dims(Rack):
    """Keeps the contract: what `Alters` does is read."""

    watts: ClassVar[float] = 400.0

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        reading = super().read(deadline_s)
        return replace(reading, gpus=(replace(reading.gpus[0], power_watts=self.watts), *reading.gpus[1:]))


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(GpuContract).items() if name.startswith("test_")}


@pytest.fixture
def run() -> Iterator[Callable[[str, Rack], None]]:
    """Runs a test of the suite; what a backend holds is let go of at the end."""
    used: list[Rack] = []

    def run(name: str, backend: Rack) -> None:
        used.append(backend)
        test = _tests()[name]
        assert [*inspect.signature(test).parameters] == ["self", "backend"]
        suite = Anew()
        suite.made = type(backend)
        test(suite, backend)

    yield run
    for backend in used:
        if isinstance(backend, Leaky):
            backend.let_go()


def test_there_is_a_broken_backend_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == {*_tests()} - {"test_a_reading_is_of_now"}  # which has a test of its own


@pytest.mark.parametrize("name", _tests())
@pytest.mark.parametrize("sound", [Rack, Empty, Silent])
def test_a_sound_backend_passes(sound: type[Rack], name: str, run: Callable[[str, Rack], None]) -> None:
    if name == "test_a_reading_is_of_now":  # nothing changes here by itself
        with pytest.raises(Vacuous, match="there was no change"):
            run(name, sound())
    else:
        run(name, sound())


def test_a_change_is_read() -> None:
    """By itself, and where the suite's subclass makes it; where there is none it is not judged."""
    test = _tests()["test_a_reading_is_of_now"]
    suite = Anew()
    suite.factory, suite.made = "there:is one", Ticks  # type: ignore[misc]
    test(suite, Ticks())
    suite.made = ReadsOnce
    with pytest.raises(AssertionError, match="what it has read before"):
        test(suite, ReadsOnce())
    test(Alters(), Dims())
    with pytest.raises(AssertionError, match="the reading is the same"):
        test(Alters(), Rack())


def test_a_backend_that_reads_no_device_reads_none() -> None:
    class OfNone(GpuContract):
        reads_devices: ClassVar[bool] = False

    test = _tests()["test_a_reading_is_of_now"]
    test(OfNone(), Empty())
    with pytest.raises(AssertionError, match="it reads devices"):
        test(OfNone(), Rack())


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{broken.__name__}-{name}" for broken, name in BROKEN])
def test_a_broken_backend_fails(broken: type[Rack], name: str, run: Callable[[str, Rack], None]) -> None:
    if broken in _NEED_PROC and not sys.platform.startswith("linux"):
        run(name, broken())  # nothing tells there what a process holds
        return
    # By the suite's own judgement: a twin that merely crashed would prove nothing.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(name, broken())


def test_an_outsider_s_devices_are_named_in_the_failure(run: Callable[[str, Rack], None]) -> None:
    with pytest.raises(AssertionError, match=r"GPU 0\.power_watts is 412500"):
        run("test_measures_are_in_their_units", tells(power_watts=412500)())
