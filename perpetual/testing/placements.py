"""The contract suite of the placement slot: every promise of `perpetual.slots.placement`, as tests to be subclassed.

    class TestAcmePlacement(PlacementContract):
        @pytest.fixture
        def placement(self) -> Placement:
            return build({})

The machine is imitated: three GPUs of 80 GiB that no driver has, in a state folder of the test's own. Imported by the
tests of plugins; nothing but pytest is needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

import pytest

from perpetual.errors import UsageError
from perpetual.slots.gpu import Gpu, GpuBackend, GpuProcess, GpuReading
from perpetual.slots.placement import (
    DeviceStatus,
    GpuNeed,
    GpuStatus,
    Lease,
    LiveRun,
    Placement,
    PlacementProject,
    PlacementRequest,
    PlacementSettings,
    PlacementView,
    QueuedRun,
    RunNote,
    Survey,
    Waits,
)
from perpetual.slots.scheduler import LaunchError
from perpetual.slots.sections import Finding

__all__ = ["Machine", "PlacementContract"]

_GIB = 2**30
_NOW_S = 1_000_000.0
_AGAIN = 20
_FDS = Path("/proc/self/fd")


def _gpu(number: int) -> Gpu:
    return Gpu(
        index=number,
        uuid=f"GPU-{number}",
        name="Acme",
        memory_total_bytes=80 * _GIB,
        memory_used_bytes=0,
        memory_free_bytes=80 * _GIB,
        utilization=0.0,
        temperature_celsius=30.0,
        power_watts=60.0,
        compute_mode="default",
        processes=(),
        healthy=True,
        error=None,
    )


class _Driver(GpuBackend):
    """Answers the same reading each time, and counts."""

    def __init__(self, reading: GpuReading) -> None:
        self.reading, self.asked = reading, 0

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        self.asked += 1
        return self.reading


@dataclass
class Machine:
    """A machine with a project, as a placement sees it; every field may be changed."""

    root: Path
    driver: _Driver = field(default_factory=lambda: _Driver(GpuReading("acme 1", tuple(map(_gpu, range(3))), None)))
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    live: Sequence[LiveRun] = ()
    ahead: Sequence[QueuedRun] = ()

    def becomes(self, *gpus: Gpu) -> None:
        """Has the driver answer these devices."""
        self.driver.reading = replace(self.driver.reading, gpus=gpus)

    @property
    def view(self) -> PlacementView:
        """Returns what the placement sees."""
        return PlacementView(
            backend=lambda: self.driver,
            project=PlacementProject(self.root, "a-project"),
            settings=self.settings,
            now_s=_NOW_S,
            live=lambda: self.live,
            ahead=lambda: self.ahead,
        )

    def request(
        self, amount: int = 1, memory: int | None = None, wanted: tuple[int, ...] = (), *, end_s: float = inf
    ) -> PlacementRequest:
        """Returns the request of the run r9, with memory in GiB."""
        need = GpuNeed(amount, None if memory is None else memory * _GIB, wanted)
        return PlacementRequest("e9", need, end_s, "r9", self.root / "runs" / "r9")

    def surveyed(self, placement: Placement) -> Survey:
        """Returns a survey that was asked, as the kernel does it."""
        survey = placement.survey(self.view)
        survey.ask()
        return survey

    def reserved(self, placement: Placement, request: PlacementRequest, *, take: bool = False) -> Lease | Waits:
        """Returns what the run gets; a hold is left to the caller."""
        return self.surveyed(placement).reserve(self.view, request, take=take)


def _got(found: Lease | Waits) -> Lease:
    assert isinstance(found, Lease), f"it answered {found!r}"
    return found


def _waits(found: Lease | Waits) -> None:
    assert isinstance(found, Waits), f"it answered {found!r}"
    assert found.reason.strip(), "the reason is empty"
    assert found.reason.isprintable(), f"the reason is one printable line, not {found.reason!r}"


def _run(number: int, *gpus: int, memory: int | None = None, end_s: float = inf) -> LiveRun:
    """Returns a run that has these GPUs, with memory in GiB."""
    size = None if memory is None else memory * _GIB
    return LiveRun(f"r{number}", "running", tuple(f"GPU-{gpu}" for gpu in gpus), gpus, size, None, end_s)


class PlacementContract:
    """For every placement."""

    @pytest.fixture
    def machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
        """Returns the imitated machine, in a state folder of its own."""
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        (tmp_path / "project").mkdir()
        return Machine(tmp_path / "project")

    def test_a_survey_asks_once(self, placement: Placement, machine: Machine) -> None:
        """Nothing when it is made; one reading then serves every check and every reservation."""
        survey = placement.survey(machine.view)
        assert (survey.is_asked, machine.driver.asked) == (False, 0), "making a survey asks the driver"
        survey.ask()
        assert (survey.is_asked, machine.driver.asked) == (True, 1)
        for amount in (1, 2):
            survey.check(machine.request(amount))
            survey.reserve(machine.view, machine.request(amount), take=False)
        assert machine.driver.asked == 1, f"the driver was asked {machine.driver.asked} times"

    def test_a_run_gets_what_it_needs(self, placement: Placement, machine: Machine) -> None:
        """As many GPUs as it needs, each once, with their numbers."""
        for amount in (1, 2, 3):
            lease = _got(machine.reserved(placement, machine.request(amount)))
            assert len({*lease.gpus}) == len(lease.gpus) == amount, f"{amount} were needed: {lease.gpus}"
            assert lease.gpus == tuple(f"GPU-{number}" for number in lease.numbers), f"{lease}"

    def test_named_gpus_are_given(self, placement: Placement, machine: Machine) -> None:
        """A run that names its GPUs gets those, or waits for those."""
        assert {*_got(machine.reserved(placement, machine.request(2, wanted=(0, 2)))).gpus} == {"GPU-0", "GPU-2"}
        machine.live = (_run(1, 2),)
        _waits(machine.reserved(placement, machine.request(wanted=(2,))))

    def test_what_never_fits_is_refused(self, placement: Placement, machine: Machine) -> None:
        """By `check`: too many, too large, one that there is not, or no GPU at all."""
        survey = machine.surveyed(placement)
        survey.check(machine.request(3))
        for request in (machine.request(4), machine.request(memory=81)):
            with pytest.raises(LaunchError) as caught:
                survey.check(request)
            assert caught.value.code == "does_not_fit", "the code says that it never fits"
        with pytest.raises(UsageError):
            survey.check(machine.request(wanted=(3,)))
        machine.driver.reading = GpuReading(None, (), "no driver")
        with pytest.raises(LaunchError):
            machine.surveyed(placement).check(machine.request())

    def test_what_is_busy_is_not_refused(self, placement: Placement, machine: Machine) -> None:
        """A run that would fit on the idle machine waits."""
        machine.live = (_run(1, 0, 1, 2),)
        machine.surveyed(placement).check(machine.request(3))
        _waits(machine.reserved(placement, machine.request()))

    def test_a_driver_that_does_not_answer_refuses_nothing(self, placement: Placement, machine: Machine) -> None:
        """The run waits for it."""
        machine.driver.reading = GpuReading(None, (), "the driver did not answer", transient=True)
        survey = machine.surveyed(placement)
        survey.check(machine.request(8))
        _waits(survey.reserve(machine.view, machine.request(), take=False))

    def test_a_gpu_has_one_run_alone(self, placement: Placement, machine: Machine) -> None:
        """Neither a second that wants it alone nor one that would share it gets it."""
        machine.live = (_run(1, 0), _run(2, 1, memory=10))
        for request in (machine.request(), machine.request(memory=1)):
            assert "GPU-0" not in _got(machine.reserved(placement, request)).gpus, "r1 has GPU-0 alone"
        assert _got(machine.reserved(placement, machine.request())).gpus == ("GPU-2",), "r2 is on GPU-1"
        _waits(machine.reserved(placement, machine.request(2)))

    def test_memory_is_not_promised_twice(self, placement: Placement, machine: Machine) -> None:
        """What live runs have declared counts from their start, used or not."""
        machine.live = (_run(1, 0, 1, 2, memory=50),)
        _waits(machine.reserved(placement, machine.request(memory=40)))

    def test_strangers_keep_their_gpu(self, placement: Placement, machine: Machine) -> None:
        """A GPU with a process of no run is given to none, unless the settings allow it."""
        process = GpuProcess(os.getpid(), 20 * _GIB, "ada", "python")
        used = [replace(_gpu(number), processes=(process,), memory_used_bytes=20 * _GIB,
                        memory_free_bytes=60 * _GIB) for number in range(3)]  # fmt: skip
        machine.becomes(*used)
        _waits(machine.reserved(placement, machine.request()))
        machine.settings = PlacementSettings(allows_foreign=True)
        _got(machine.reserved(placement, machine.request()))

    def test_excluded_and_sick_gpus_are_given_to_none(self, placement: Placement, machine: Machine) -> None:
        """Excluded by number or by uuid; sick by what the backend says; nameless ones cannot be leased."""
        machine.settings = PlacementSettings(frozenset({"0", "GPU-1"}))
        assert _got(machine.reserved(placement, machine.request())).gpus == ("GPU-2",)
        machine.settings = PlacementSettings()
        machine.becomes(replace(_gpu(0), healthy=False, error="lost"), replace(_gpu(1), uuid=None), _gpu(2))
        assert _got(machine.reserved(placement, machine.request())).gpus == ("GPU-2",)

    def test_a_run_in_front_is_not_delayed(self, placement: Placement, machine: Machine) -> None:
        """GPUs that the first waiting run needs are kept free for it."""
        machine.live = (_run(1, 0, end_s=_NOW_S + 100),)
        machine.ahead = (QueuedRun("e1", GpuNeed(3)),)
        for end_s in (inf, _NOW_S + 200):
            _waits(machine.reserved(placement, machine.request(end_s=end_s)))

    def test_a_plan_holds_nothing(self, placement: Placement, machine: Machine) -> None:
        """Without `take` no file is open and none is written, for a run that is not made yet as well."""
        before = _files(machine)
        for request in (machine.request(), replace(machine.request(), run_id=None, run_dir=None)):
            assert _got(machine.reserved(placement, request)).held is None
        assert _files(machine) == before

    def test_a_hold_is_released(self, placement: Placement, machine: Machine) -> None:
        """The launcher's file is closed, and nothing stays open after many launches; CPU runs have none."""
        placement.release(Lease())
        counts = []
        for _ in range(_AGAIN):
            lease = _got(machine.reserved(placement, machine.request(), take=True))
            placement.release(lease)
            counts.append(len(os.listdir(_FDS)) if _FDS.is_dir() else 0)
            assert lease.held is None or not _is_open(lease.held), "release leaves the hold open"
        assert counts[-1] <= counts[0], f"open files grew from {counts[0]} to {counts[-1]}"

    def test_a_lease_ends_with_its_run(self, placement: Placement, machine: Machine) -> None:
        """What was released and is in no live run's record is free, however it came to that."""
        machine.becomes(_gpu(0))
        for number in (1, 2, 3):
            request = replace(machine.request(), run_id=f"r{number}")
            placement.release(_got(machine.reserved(placement, request, take=True)))

    def test_a_program_sees_its_gpus_alone(self, placement: Placement, machine: Machine) -> None:
        """By its environment: those of its lease, and none without one."""
        first, second, none = (
            placement.environment(machine.view, gpus, numbers)
            for gpus, numbers in ((("GPU-0",), (0,)), (("GPU-1",), (1,)), ((), ()))
        )
        for variables in (first, second, none):
            assert all(type(text) is str for pair in variables.items() for text in pair), f"{variables}"
        assert first != second != none != first, "the variables do not tell which GPUs"
        assert {*first} == {*second} == {*none}, "a variable that one run has and another lacks is inherited"
        assert "GPU-1" not in "".join(first.values()), f"{first}"

    def test_the_status_is_its_document(self, placement: Placement, machine: Machine) -> None:
        """With every key, in JSON; also outside of a project, and without GPUs."""
        machine.live = (_run(1, 1),)
        outside = PlacementView(backend=lambda: machine.driver)
        for view in (machine.view, outside):
            found = placement.status(view)
            assert json.loads(json.dumps(found, allow_nan=False)) == found
            assert {*found} == {*GpuStatus.__annotations__}
            assert [{*gpu} for gpu in found["gpus"]] == [{*DeviceStatus.__annotations__}] * 3
            held = [gpu["run_ids"] for gpu in found["gpus"]]
            assert held == ([[], ["r1"], []] if view.project is not None else [[], [], []])
        machine.driver.reading = GpuReading(None, (), "no driver")
        found = placement.status(machine.view)
        assert (found["gpus"], found["reason"]) == ([], "no driver")

    def test_the_doctor_gets_a_finding(self, placement: Placement, machine: Machine) -> None:
        """On one printable line; a machine without GPUs is not ill."""
        for reading in (machine.driver.reading, GpuReading(None, (), "no driver")):
            machine.driver.reading = reading
            found = placement.examine(machine.view)
            assert type(found) is Finding, f"it answered a {type(found).__name__}"
            assert found.detail.strip(), "the detail is empty"
            assert found.detail.isprintable(), f"{found.detail!r}"
            assert reading.gpus or found.ok is None, "no GPU is no fault"

    def test_the_watch_names_live_runs_alone(self, placement: Placement, machine: Machine) -> None:
        """In notes, and nothing of runs that keep to their leases."""
        machine.live = (_run(1, 0), _run(2))
        assert list(placement.watch(machine.view, placement.survey(machine.view))) == []
        machine.live = (_run(1, 0), _run(2))
        machine.becomes(replace(_gpu(0), healthy=False, error="fallen off the bus"), _gpu(1), _gpu(2))
        for note in placement.watch(machine.view, placement.survey(machine.view)):
            assert type(note) is RunNote, f"it answered a {type(note).__name__}"
            assert note.run_id == "r1", f"{note}"
            assert note.text.strip(), "the note is empty"
            assert note.text.isprintable(), f"{note.text!r}"


def _files(machine: Machine) -> list[str]:
    return sorted(map(str, machine.root.parent.rglob("*")))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
