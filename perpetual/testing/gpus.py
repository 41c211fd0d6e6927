"""The contract suite of the GPU slot: every promise of `perpetual.slots.gpu`, as tests to be subclassed.

    class TestAcmeRack(GpuContract):
        @pytest.fixture
        def backend(self) -> GpuBackend:
            return build({})

Instead of the fixture a subclass may name the part as its provider does: `factory = "acme.rack:build"`, and `options`
where it has some. It reads whatever devices there are; what it cannot see (a driver that hangs, a device that is lost)
is for a subclass whose fixture makes it so, and `alter` for one that can make its devices fare differently. Imported by
the tests of plugins; nothing but pytest is needed.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from perpetual.records import to_json
from perpetual.slots.gpu import Gpu, GpuBackend, GpuProcess, GpuReading, MigDevice
from perpetual.testing.elsewhere import elsewhere
from perpetual.testing.verdicts import vacuous

__all__ = ["GpuContract"]

_GRACE_S = 1.0  # of the contract, on top of every deadline
_TINY_S = 0.001
_AT_ONCE = 8
_READINGS = 20
_LEAST_BYTES = 64 * 1024**2  # no device has less; a smaller number is in another unit
_ROUNDING = 1.01
_UNOWNED_BYTES = 4 * 1024**3  # more than any driver keeps for itself
_CHANGES_S = 2.0  # how long a device is given to fare differently by itself
_CELSIUS = (-50.0, 150.0)  # outside of it a chip does not work: the number is kelvin or thousandths
_MOST_WATTS = 5000.0  # several times the largest board; more is milliwatts
_STAND_INS = {"", "n/a", "[n/a]", "none", "null", "nan", "unknown", "not supported", "[not supported]", "-1"}
_PROC = Path("/proc/self")

_Number = (int, float)


def _numbers(gpu: Gpu) -> Iterator[tuple[str, Any]]:
    """Yields every number of a device that may be None, with its place."""
    at = f"GPU {gpu.index}"
    for name in ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes"):
        yield f"{at}.{name}", getattr(gpu, name)
    for name in ("utilization", "temperature_celsius", "power_watts"):
        yield f"{at}.{name}", getattr(gpu, name)
    for process in gpu.processes:
        yield f"{at}, process {process.pid}: memory_bytes", process.memory_bytes
    for part in gpu.mig:
        for process in part.processes:
            yield f"{at}, {part.uuid}, process {process.pid}: memory_bytes", process.memory_bytes
        yield f"{at}, {part.uuid}: memory_total_bytes", part.memory_total_bytes
        yield f"{at}, {part.uuid}: memory_used_bytes", part.memory_used_bytes


def _words(reading: GpuReading) -> Iterator[tuple[str, Any]]:
    """Yields every text that may be None, with its place."""
    yield "driver", reading.driver
    yield "reason", reading.reason
    for gpu in reading.gpus:
        for name in ("uuid", "name", "compute_mode", "error"):
            yield f"GPU {gpu.index}.{name}", getattr(gpu, name)
        for part in gpu.mig:
            yield f"GPU {gpu.index}, {part.uuid}: error", part.error
        for process in [*gpu.processes, *(one for part in gpu.mig for one in part.processes)]:
            yield f"GPU {gpu.index}, process {process.pid}: user", process.user
            yield f"GPU {gpu.index}, process {process.pid}: name", process.name


def _names(reading: GpuReading) -> list[tuple[Any, ...]]:
    """Returns what of the devices does not change from one moment to the next."""
    return [(gpu.index, gpu.uuid, gpu.name, [part.uuid for part in gpu.mig]) for gpu in reading.gpus]


def _held() -> dict[str, int]:
    """Returns how much this process holds.

    Its threads and, where /proc tells, its open files and its children, dead ones too.

    A process that ends meanwhile takes its folder with it, which is no trouble.
    """
    held = {"threads of Python": threading.active_count()}
    if not _PROC.is_dir():
        return held
    parents: Counter[int] = Counter()
    for place in _PROC.resolve().parent.iterdir():
        if place.name.isdecimal():
            try:
                parents[int((place / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])] += 1
            except OSError:
                continue
    files, threads = (sum(1 for _ in (_PROC / name).iterdir()) for name in ("fd", "task"))
    return {**held, "open files": files, "threads": threads, "children": parents[os.getpid()]}


class GpuContract:
    """For every GPU backend."""

    deadline_s: ClassVar[float] = 5.0  # of a reading that is not about time; less where the driver never answers

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}

    # False of a backend that reads no device on this machine: there is then no change to be read.
    reads_devices: ClassVar[bool] = True

    @pytest.fixture
    def backend(self) -> GpuBackend:
        """Returns the backend under test, as `factory` builds it; may be overridden."""
        if not self.factory:
            raise NotImplementedError("override the fixture `backend`, or name the `factory`")
        return self._another()

    def alter(self, backend: GpuBackend) -> bool:
        """Makes a device fare differently, and answers whether it could; to be overridden where that can be done."""
        return False

    def _another(self) -> GpuBackend:
        module, _, name = self.factory.partition(":")
        build: Callable[[dict[str, object]], GpuBackend] = getattr(import_module(module), name)
        return build(dict(self.options))

    def test_it_answers_within_its_deadline(self, backend: GpuBackend) -> None:
        """And one second, however small the deadline; it may be left out."""
        try:
            for words in ({}, {"deadline_s": 1.0}):
                inspect.signature(backend.read).bind(**words)
        except TypeError as problem:
            pytest.fail(f"read() and read(deadline_s=1.0) are calls of the lab: {problem}")
        for deadline_s in (self.deadline_s, 0.1, _TINY_S):
            for _ in range(3):  # a machine may stand still for a second, but not each time
                begun_s = time.monotonic()
                backend.read(deadline_s)
                took_s = time.monotonic() - begun_s
                if took_s <= deadline_s + _GRACE_S:
                    break
            else:
                pytest.fail(f"{took_s:.2f} s at the third attempt, and it had {deadline_s:g} s")

    def test_a_reading_has_its_shape(self, backend: GpuBackend) -> None:
        """Records of the slot with values of the types that they name."""
        reading = backend.read(self.deadline_s)
        assert type(reading) is GpuReading
        assert (type(reading.gpus), type(reading.transient)) == (tuple, bool)
        for gpu in reading.gpus:
            assert type(gpu) is Gpu
            assert (type(gpu.index), type(gpu.healthy)) == (int, bool)
            assert (type(gpu.processes), type(gpu.mig)) == (tuple, tuple)
            assert {type(process) for process in gpu.processes} <= {GpuProcess}
            assert {type(part) for part in gpu.mig} <= {MigDevice}
            assert all((type(part.uuid), type(part.processes)) == (str, tuple) for part in gpu.mig)
            assert {type(process) for part in gpu.mig for process in part.processes} <= {GpuProcess}
            for place, number in _numbers(gpu):
                allowed = (int,) if place.endswith("_bytes") else _Number
                assert number is None or type(number) in allowed, f"{place} is {number!r}"
        for place, text in _words(reading):
            assert text is None or type(text) is str, f"{place} is {text!r}"

    def test_devices_are_numbered_from_zero(self, backend: GpuBackend) -> None:
        """In the order of the list and without a gap: a person names them so."""
        reading = backend.read(self.deadline_s)
        assert [gpu.index for gpu in reading.gpus] == [*range(len(reading.gpus))]

    def test_no_uuid_stands_twice(self, backend: GpuBackend) -> None:
        """Nor does a part's: a run is given devices by their uuids alone."""
        gpus = backend.read(self.deadline_s).gpus
        uuids = [gpu.uuid for gpu in gpus if gpu.uuid is not None] + [part.uuid for gpu in gpus for part in gpu.mig]
        assert [uuid for uuid, times in Counter(uuids).items() if times > 1] == []

    def test_another_process_names_the_same_devices(self, backend: GpuBackend) -> None:
        """The same number, the same uuid, the same name: a run is watched by another process than the one it is of."""
        asked = [("read", (self.deadline_s,))]
        here = _names(backend.read(self.deadline_s))
        now, later = elsewhere(backend, asked, factory=self.factory, options=self.options)
        elsewhere_named = [_names(cast(GpuReading, answer)) for answer in (*now, *later)]
        assert elsewhere_named == [here, here], "another process names other devices"

    def test_a_reading_is_of_now(self, backend: GpuBackend) -> None:
        """Not of the time when the object was made: a device that fares differently is read differently."""
        first = backend.read(self.deadline_s)
        if self.alter(backend):
            assert backend.read(self.deadline_s) != first, "a device fares differently, and the reading is the same"
            return
        if not self.reads_devices:
            assert first.gpus == (), "it reads devices, and is said to read none"
            return
        if not self.factory or not first.gpus:
            vacuous("there was no change of a device to be read: override `alter`, or set `factory`")
        differs, until_s = 0, time.monotonic() + _CHANGES_S
        while time.monotonic() < until_s:
            if backend.read(self.deadline_s) != first:
                return
            differs += self._another().read(self.deadline_s) != first
            assert differs < 3, "a new object reads a change, and this one what it has read before"
            time.sleep(0.02)
        vacuous(f"no device fared differently within {_CHANGES_S:g} s: override `alter`")

    def test_memory_in_use_has_a_process_or_an_error(self, backend: GpuBackend) -> None:
        """Gigabytes that are used, and no process that uses them: then the error says that they are not known."""
        for gpu in backend.read(self.deadline_s).gpus:
            used = gpu.memory_used_bytes or 0
            assert used < _UNOWNED_BYTES or gpu.processes or gpu.error, (
                f"GPU {gpu.index} uses {used / 1024**3:.0f} GiB, and there is neither a process nor an error"
            )
            for part in gpu.mig:
                used = part.memory_used_bytes or 0
                assert used < _UNOWNED_BYTES or part.processes or part.error or gpu.error, (
                    f"{part.uuid} uses {used / 1024**3:.0f} GiB, and there is neither a process nor an error"
                )

    def test_a_reason_stands_where_no_devices_are(self, backend: GpuBackend) -> None:
        """And nowhere else."""
        reading = backend.read(self.deadline_s)
        assert bool(reading.reason) is not bool(reading.gpus), f"{len(reading.gpus)} devices, {reading.reason!r}"

    def test_only_a_reason_is_transient(self, backend: GpuBackend) -> None:
        """Where there are devices, runs have nothing to wait for but those."""
        reading = backend.read(self.deadline_s)
        assert reading.reason or not reading.transient, f"{len(reading.gpus)} devices, and transient"

    def test_an_unhealthy_device_says_why(self, backend: GpuBackend) -> None:
        """In its error."""
        silent = [gpu.index for gpu in backend.read(self.deadline_s).gpus if not gpu.healthy and not gpu.error]
        assert silent == [], "unhealthy without an error"

    def test_sizes_are_bytes_and_add_up(self, backend: GpuBackend) -> None:
        """Used and free memory together do not exceed the total."""
        for gpu in backend.read(self.deadline_s).gpus:
            _check_sizes(f"GPU {gpu.index}", gpu.memory_total_bytes, gpu.memory_used_bytes, gpu.memory_free_bytes)
            for part in gpu.mig:
                _check_sizes(part.uuid, part.memory_total_bytes, part.memory_used_bytes, None)

    def test_measures_are_in_their_units(self, backend: GpuBackend) -> None:
        """Percent, degrees Celsius, watts."""
        for gpu in backend.read(self.deadline_s).gpus:
            spans = (
                ("utilization", 0.0, 100.0), ("temperature_celsius", *_CELSIUS), ("power_watts", 0.0, _MOST_WATTS),
            )  # fmt: skip
            for name, least, most in spans:
                value = getattr(gpu, name)
                assert value is None or least <= value <= most, f"GPU {gpu.index}.{name} is {value!r}"

    def test_what_is_not_known_is_none(self, backend: GpuBackend) -> None:
        """Not NaN, not -1, and not a word that says so."""
        reading = backend.read(self.deadline_s)
        for gpu in reading.gpus:
            for place, number in _numbers(gpu):
                assert number is None or math.isfinite(number), f"{place} is {number!r}"
                assert number is None or number >= 0 or place.endswith("celsius"), f"{place} is {number!r}"
        for place, text in _words(reading):
            assert text is None or text.strip().lower() not in _STAND_INS, f"{place} is {text!r}"

    def test_each_process_stands_once(self, backend: GpuBackend) -> None:
        """On each device that it uses, by its pid."""
        for gpu in backend.read(self.deadline_s).gpus:
            pids = [process.pid for process in gpu.processes]
            assert all(type(pid) is int and pid > 0 for pid in pids), f"GPU {gpu.index}: {pids}"
            assert len({*pids}) == len(pids), f"GPU {gpu.index}: {pids}"
            for part in gpu.mig:
                own = [process.pid for process in part.processes]
                assert len({*own}) == len(own), f"{part.uuid}: {own}"

    def test_processes_of_an_instance_are_of_its_device(self, backend: GpuBackend) -> None:
        """The list of devices alone misses none."""
        for gpu in backend.read(self.deadline_s).gpus:
            pids = {process.pid for process in gpu.processes}
            for part in gpu.mig:
                missing = {process.pid for process in part.processes} - pids
                assert not missing, f"{part.uuid}: {sorted(missing)} not among those of GPU {gpu.index}"

    def test_a_reading_can_be_written_down(self, backend: GpuBackend) -> None:
        """As JSON in UTF-8, and it is the same when it is read again."""
        document = to_json(backend.read(self.deadline_s))
        try:
            text = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (TypeError, ValueError) as problem:
            pytest.fail(f"it cannot be written: {problem}")
        assert json.loads(text) == document

    def test_an_earlier_reading_stays_as_it_was(self, backend: GpuBackend) -> None:
        """It belongs to the caller: later ones do not touch it."""
        reading = backend.read(self.deadline_s)
        kept = copy.deepcopy(reading)
        for _ in range(3):
            backend.read(self.deadline_s)
        assert reading == kept

    def test_each_reading_names_the_same_devices(self, backend: GpuBackend) -> None:
        """The same number, the same uuid, the same name."""
        first = _names(backend.read(self.deadline_s))
        assert [_names(backend.read(self.deadline_s)) for _ in range(2)] == [first] * 2

    def test_threads_agree(self, backend: GpuBackend) -> None:
        """Readings of several threads at once name what a single one names."""
        alone = _names(backend.read(self.deadline_s))
        together = threading.Barrier(_AT_ONCE)

        def read(_: int) -> list[tuple[object, ...]]:
            together.wait(60)
            return _names(backend.read(self.deadline_s))

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = [pool.submit(read, number) for number in range(_AT_ONCE)]
        problems = [answer.exception() for answer in answers]
        assert problems == [None] * _AT_ONCE
        assert [answer.result() for answer in answers] == [alone] * _AT_ONCE

    def test_nothing_stays_open(self, backend: GpuBackend) -> None:
        """No file, no thread, no process, after however many readings."""
        before = _held()
        for _ in range(_READINGS):
            backend.read(self.deadline_s)
        after = _held()
        grown = {what: f"{before[what]} -> {count}" for what, count in after.items() if count > before[what]}
        assert grown == {}, f"after {_READINGS} readings"


def _check_sizes(place: str, total: int | None, used: int | None, free: int | None) -> None:
    parts = [size for size in (used, free) if size is not None]
    assert all(size >= 0 for size in parts), f"{place}: {parts}"
    if total is not None:
        assert total >= _LEAST_BYTES, f"{place}: a total of {total} bytes"
        assert sum(parts) <= total * _ROUNDING, f"{place}: {used} used and {free} free of {total}"
