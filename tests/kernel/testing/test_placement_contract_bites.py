"""The placement's contract suite fails on every placement that breaks one promise."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpetual.slots.placement import (
    GpuStatus,
    Lease,
    Placement,
    PlacementRequest,
    PlacementSettings,
    PlacementView,
    RunNote,
    Survey,
    Waits,
)
from perpetual.slots.scheduler import LaunchError
from perpetual.slots.sections import Finding
from perpetual.testing.placements import PlacementContract
from perpetual.toolkit import platform
from perpetual_gpus.placement import build

pytestmark = pytest.mark.skipif(platform.supports_runs() is not None, reason="no runs, and so no leases, here")


class Sound(Placement):
    """Keeps the contract: it passes everything on. Twins change one thing of what goes in or comes out."""

    def __init__(self) -> None:
        self.inner = build({})

    def seen(self, view: PlacementView) -> PlacementView:
        return view

    def survey(self, view: PlacementView) -> Survey:
        return Passed(self, self.inner.survey(self.seen(view)))

    def check(self, survey: Survey, request: PlacementRequest) -> None:
        survey.check(request)

    def reserve(self, survey: Survey, view: PlacementView, request: PlacementRequest, take: bool) -> Lease | Waits:
        return survey.reserve(self.seen(view), request, take=take)

    def environment(self, view: PlacementView, gpus: Sequence[str], numbers: Sequence[int | None]) -> dict[str, str]:
        return self.inner.environment(view, gpus, numbers)

    def status(self, view: PlacementView) -> GpuStatus:
        return self.inner.status(view)

    def examine(self, view: PlacementView) -> Finding:
        return self.inner.examine(view)


class Passed(Survey):
    def __init__(self, owner: Sound, inner: Survey) -> None:
        self._owner, self.inner = owner, inner
        self.view: PlacementView | None = None

    @property
    def is_asked(self) -> bool:
        return self.inner.is_asked

    def ask(self) -> None:
        self.inner.ask()

    def check(self, request: PlacementRequest) -> None:
        self._owner.check(self.inner, request)

    def reserve(self, view: PlacementView, request: PlacementRequest, *, take: bool) -> Lease | Waits:
        return self._owner.reserve(self.inner, view, request, take)


class AsksAtOnce(Sound):
    def survey(self, view: PlacementView) -> Survey:
        made = super().survey(view)
        made.ask()
        return made


class GivesOne(Sound):
    def reserve(self, survey: Survey, view: PlacementView, request: PlacementRequest, take: bool) -> Lease | Waits:
        found = super().reserve(survey, view, request, take)
        return replace(found, gpus=found.gpus[:1], numbers=found.numbers[:1]) if isinstance(found, Lease) else found


class ChoosesItself(Sound):
    def reserve(self, survey: Survey, view: PlacementView, request: PlacementRequest, take: bool) -> Lease | Waits:
        return super().reserve(survey, view, replace(request, need=replace(request.need, wanted=())), take)


class RefusesNothing(Sound):
    def check(self, survey: Survey, request: PlacementRequest) -> None:
        return


class RefusesTheBusy(Sound):
    def survey(self, view: PlacementView) -> Survey:
        self.view = view
        return super().survey(view)

    def check(self, survey: Survey, request: PlacementRequest) -> None:
        survey.check(request)
        if self.view.live():
            raise LaunchError("it is busy here", code="does_not_fit")


class RefusesTheSilent(Sound):
    def survey(self, view: PlacementView) -> Survey:
        self.view = view
        return super().survey(view)

    def check(self, survey: Survey, request: PlacementRequest) -> None:
        survey.check(request)
        if not self.view.backend().read().gpus:
            raise LaunchError("there are no GPUs", code="does_not_fit")


class ForgetsLiveRuns(Sound):
    def seen(self, view: PlacementView) -> PlacementView:
        # what shares its GPU is remembered
        return replace(view, live=lambda: [run for run in view.live() if run.memory_bytes is not None])


class PromisesTwice(Sound):
    def seen(self, view: PlacementView) -> PlacementView:
        return replace(view, live=lambda: [replace(run, memory_bytes=run.memory_bytes and 1) for run in view.live()])


class LetsStrangersBe(Sound):
    def seen(self, view: PlacementView) -> PlacementView:
        return replace(view, settings=replace(view.settings, allows_foreign=True))


class ExcludesNothing(Sound):
    def seen(self, view: PlacementView) -> PlacementView:
        return replace(view, settings=PlacementSettings(allows_foreign=view.settings.allows_foreign))


class Overtakes(Sound):
    def seen(self, view: PlacementView) -> PlacementView:
        return replace(view, ahead=tuple)


class AlwaysTakes(Sound):
    def reserve(self, survey: Survey, view: PlacementView, request: PlacementRequest, take: bool) -> Lease | Waits:
        found = super().reserve(survey, view, request, True)
        if not take and isinstance(found, Lease):
            self.inner.release(found)
        return found


class KeepsHolds(Sound):
    kept: list[Lease]

    def release(self, lease: Lease) -> None:
        self.kept = [*getattr(self, "kept", ()), lease]


class Remembers(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.given: set[str] = set()

    def reserve(self, survey: Survey, view: PlacementView, request: PlacementRequest, take: bool) -> Lease | Waits:
        found = super().reserve(survey, view, request, take)
        if not isinstance(found, Lease) or self.given & {*found.gpus}:
            return Waits("it was given before")
        self.given |= {*found.gpus}
        return found


class HidesNothing(Sound):
    def environment(self, view: PlacementView, gpus: Sequence[str], numbers: Sequence[int | None]) -> dict[str, str]:
        return super().environment(view, gpus, numbers) if gpus else {}


class LeavesOut(Sound):
    def status(self, view: PlacementView) -> GpuStatus:
        found: Any = super().status(view)
        del found["transient"]
        left: GpuStatus = found
        return left


class IsWordless(Sound):
    def examine(self, view: PlacementView) -> Finding:
        return replace(super().examine(view), detail="")


class Blames(Sound):
    def watch(self, view: PlacementView, survey: Survey) -> Sequence[RunNote]:
        return [RunNote(run.run_id, "is slow") for run in view.live()]


BROKEN: list[tuple[type[Sound], str]] = [
    (AsksAtOnce, "test_a_survey_asks_once"),
    (GivesOne, "test_a_run_gets_what_it_needs"),
    (ChoosesItself, "test_named_gpus_are_given"),
    (RefusesNothing, "test_what_never_fits_is_refused"),
    (RefusesTheBusy, "test_what_is_busy_is_not_refused"),
    (RefusesTheSilent, "test_a_driver_that_does_not_answer_refuses_nothing"),
    (ForgetsLiveRuns, "test_a_gpu_has_one_run_alone"),
    (PromisesTwice, "test_memory_is_not_promised_twice"),
    (LetsStrangersBe, "test_strangers_keep_their_gpu"),
    (ExcludesNothing, "test_excluded_and_sick_gpus_are_given_to_none"),
    (Overtakes, "test_a_run_in_front_is_not_delayed"),
    (AlwaysTakes, "test_a_plan_holds_nothing"),
    (KeepsHolds, "test_a_hold_is_released"),
    (Remembers, "test_a_lease_ends_with_its_run"),
    (HidesNothing, "test_a_program_sees_its_gpus_alone"),
    (LeavesOut, "test_the_status_is_its_document"),
    (IsWordless, "test_the_doctor_gets_a_finding"),
    (Blames, "test_the_watch_names_live_runs_alone"),
]


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(PlacementContract).items() if name.startswith("test_")}


def _run(name: str, placement: Placement, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    make: Any = inspect.unwrap(PlacementContract.machine)
    machine = make(PlacementContract(), folder, monkeypatch)
    _tests()[name](PlacementContract(), placement, machine)


def test_there_is_a_broken_placement_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == {*_tests()}


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_broken_placement_fails(
    broken: type[Sound], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(name, Sound(), tmp_path / "sound", monkeypatch)
    with pytest.raises((AssertionError, LaunchError, pytest.fail.Exception)):
        _run(name, broken(), tmp_path / "broken", monkeypatch)
