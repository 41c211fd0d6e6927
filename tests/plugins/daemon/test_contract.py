"""The bundled loop keeps the contract, and the suites fail on each part that breaks one promise."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Service, StopSignal
from perpetual.loop import Cycle, cycle
from perpetual.testing.services import ServiceContract
from perpetual_daemon import strategy as strategies
from perpetual_daemon import testing
from perpetual_daemon.companion import Companion
from perpetual_daemon.daemon import build
from perpetual_daemon.keeper import Keeper
from perpetual_daemon.strategy import LoopStrategy
from perpetual_daemon.testing import CompanionContract, LoopContract

NONE: Collection[str] = ()


class TestDefaultLoop(LoopContract):
    @pytest.fixture
    def strategy(self) -> LoopStrategy:
        return strategies.build({})


@pytest.mark.slow
class TestDaemon(ServiceContract):
    @pytest.fixture
    def service(self) -> Service:
        return build({})


@pytest.mark.slow
class TestKeeper(ServiceContract):
    ends_s = 15.0

    @pytest.fixture
    def service(self) -> Service:
        return Keeper(["--stay"])


# --- broken twins of the loop ---------------------------------------------------------------------------------------


class Silent(LoopStrategy):
    """Writes no stop down."""

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = NONE) -> Cycle:
        return cycle(lab, number=number, waits_on=testing._ALWAYS)  # noqa: SLF001


class Waits(LoopStrategy):
    """Waits for what it has started."""

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = NONE) -> Cycle:
        done = cycle(lab, number=number, waits_on=waits_on)
        lab.loop.wait_any(1.0)
        return done


class Repeats(LoopStrategy):
    """Starts a replicate again."""

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = NONE) -> Cycle:
        done = cycle(lab, number=number, waits_on=waits_on)
        for run in lab.runs.live():
            lab.runs.kill(run.id, grace_s=0.0)
            lab.runs.retry(run.id)
        return done


class Approves(LoopStrategy):
    """Approves what a person is to approve."""

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = NONE) -> Cycle:
        for item in lab.experiments.list(status="proposed").items:
            lab.experiments.approve(item.id)
        return cycle(lab, number=number, waits_on=waits_on)


class Insists(LoopStrategy):
    """Writes each stop down, whatever is waited on."""

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = NONE) -> Cycle:
        return cycle(lab, number=number)


class Remembers(LoopStrategy):
    """Keeps the first room that it saw."""

    def __init__(self) -> None:
        self._room: str | None = None

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = NONE) -> Cycle:
        self._room = self._room or str(lab.config.methodology["max_concurrent_runs"])
        lab.settings.set_methodology("max_concurrent_runs", self._room)
        return cycle(lab, number=number, waits_on=waits_on)


class Spends(LoopStrategy):
    """Lifts the limit of the budget."""

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = NONE) -> Cycle:
        lab.settings.set_methodology("max_run_hours", "1000")
        return cycle(lab, number=number, waits_on=waits_on)


LOOPS: list[tuple[type[LoopStrategy], str]] = [
    (Silent, "test_it_decides_and_says_so"),
    (Waits, "test_a_turn_does_not_wait_for_runs"),
    (Repeats, "test_a_repeated_turn_does_nothing_twice"),
    (Approves, "test_it_starts_what_is_approved_alone"),
    (Insists, "test_a_reason_that_is_waited_on_is_no_stop"),
    (Remembers, "test_it_keeps_to_the_room"),
    (Spends, "test_it_keeps_to_the_budget"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("twin", "name"), LOOPS)
def test_a_loop_with_one_broken_promise_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch, twin: type[LoopStrategy], name: str
) -> None:
    monkeypatch.setattr(testing, "_TURN_S", 0.9)
    monkeypatch.setattr(testing, "_MOST_TURNS", 6)
    with Lab.open() as lab:
        with pytest.raises(AssertionError):
            getattr(LoopContract(), name)(twin(), lab)
        for run in lab.runs.live():
            lab.runs.kill(run.id, grace_s=0.0)


# --- broken twins of companions -------------------------------------------------------------------------------------


class Calm(Companion):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        while not stop.wait(0.05):
            lab.feed.last()


class IgnoresStop(Calm):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        time.sleep(1.5)


class RunsOnce(Calm):
    was_run = False

    def run(self, lab: Lab, stop: StopSignal) -> None:
        if self.was_run:
            raise RuntimeError("once is enough")
        self.was_run = True
        super().run(lab, stop)


class LeavesAThread(Calm):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        threading.Thread(target=time.sleep, args=(1.5,), daemon=True).start()
        super().run(lab, stop)


class Talks(Calm):
    def trouble(self) -> str | None:
        return "a line\nand another"


class Ponders(Calm):
    def is_at_work(self, lab: Lab) -> bool:
        time.sleep(0.6)
        return False


class Holds(Calm):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        with lab.transaction():
            super().run(lab, stop)


COMPANIONS: list[tuple[type[Companion], str]] = [
    (IgnoresStop, "test_it_ends_soon"),
    (RunsOnce, "test_it_may_run_again"),
    (LeavesAThread, "test_it_leaves_no_thread_behind"),
    (Talks, "test_its_trouble_is_a_line_at_any_time"),
    (Ponders, "test_its_word_of_more_is_at_once"),
    (Holds, "test_it_leaves_the_record_to_others"),
]


@pytest.mark.slow
class TestCalm(CompanionContract):
    @pytest.fixture
    def companion(self) -> Companion:
        return Calm()


@pytest.mark.slow
@pytest.mark.parametrize(("twin", "name"), COMPANIONS)
def test_a_companion_with_one_broken_promise_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch, twin: type[Companion], name: str
) -> None:
    monkeypatch.setattr(testing, "_ENDS_S", 0.5)
    with Lab.open() as lab:
        with pytest.raises(Exception):  # noqa: B017 - the suite's assertion, or the store's own error
            getattr(CompanionContract(), name)(twin(), lab)
        time.sleep(1.5 if twin in (IgnoresStop, LeavesAThread) else 0)


@pytest.mark.parametrize(("suite", "twins"), [(LoopContract, LOOPS), (CompanionContract, COMPANIONS)])
def test_there_is_a_twin_for_every_promise(suite: type, twins: list[tuple[type, str]]) -> None:
    promises = {name for name, _ in inspect.getmembers(suite, inspect.isfunction) if name.startswith("test_")}
    assert {name for _, name in twins} == promises
