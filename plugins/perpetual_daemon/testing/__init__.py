"""The contract suites of the slots `loop` and `companion`: every promise of the two modules as tests.

    class TestAcmeLoop(LoopContract):
        @pytest.fixture
        def strategy(self):
            return acme.strategy.build({})

    class TestAcmeCompanion(CompanionContract):
        @pytest.fixture
        def companion(self):
            return acme.companion.build({})

The suites make their own labs. Their runs are short programs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import UsageError
from perpetual.loop import EXITS, Cycle
from perpetual.testing.quick import quickest
from perpetual_daemon.companion import Companion
from perpetual_daemon.strategy import LoopStrategy

__all__ = ["CompanionContract", "LoopContract", "claim", "turned"]

_ENDS_S = 5.0  # within which a companion ends once it is asked
_WORKS_S = 0.3
_TROUBLE_S = 0.5  # for one question after its trouble
_TURN_S = 10.0  # a turn does not wait for runs, which here take a minute
_MOST_TURNS = 60
_ALWAYS = ("all_decided", "queue_empty", "budget_exhausted", "waiting_for_approval")


def claim(
    lab: Lab,
    *,
    command: str = "sh -c 'echo acc=1.5$PERPETUAL_SEED'",
    approve: bool = True,
    replicates: int = 2,
    wall_s: float = 60.0,
    statement: str = "acc rises",
) -> str:  # fmt: skip
    """Makes an open claim with one experiment and returns the experiment's id."""
    made = lab.hypotheses.add(statement, metric="acc", direction="max", mde=0.1, baseline=1.0)
    found = lab.experiments.propose(
        made.id, command=command, noise=0.05, replicates=replicates, cost_run_hours=0.001, wall_s=wall_s
    )
    if approve:
        lab.experiments.approve(found.id)
    return found.id


def turned(strategy: LoopStrategy, lab: Lab) -> Cycle:
    """Turns a loop until it says why it stops, and returns the last turn."""
    for number in range(1, _MOST_TURNS + 1):
        done = strategy.turn(lab, number=number)
        if done.reason is not None:
            return done
        lab.loop.wait_any(5.0)
    raise AssertionError(f"after {_MOST_TURNS} turns the loop goes on")


class _Project:
    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a new project; its runs have ended when the test is over."""
        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "false")
        with Lab.init(tmp_path / "project", name="contract") as made:
            yield made
            made.queue.set_state("paused")
            for run in made.runs.live():
                with suppress(UsageError):
                    made.runs.kill(run.id, grace_s=0.0)


class LoopContract(_Project):
    """For every loop strategy."""

    def test_it_decides_and_says_so(self, strategy: LoopStrategy, lab: Lab) -> None:
        """Turned again and again it comes to an end, with a reason, words, and an event."""
        claim(lab)
        last = turned(strategy, lab)
        assert last.reason in EXITS, f"{last.reason!r} is no reason to stop"
        assert last.explanation, "a reason has an explanation"
        assert lab.hypotheses.count_open() == 0, "the claim that two runs decide is open"
        stops = [event for event in lab.feed.read() if event.kind == "loop_stopped"]
        assert [event.payload["reason"] for event in stops] == [last.reason], "the feed does not say why it stopped"

    def test_a_turn_does_not_wait_for_runs(self, strategy: LoopStrategy, lab: Lab) -> None:
        """It returns while they go on, without a reason."""
        claim(lab, command="sleep 60")
        began = time.monotonic()
        done = strategy.turn(lab, number=1)
        assert time.monotonic() - began < _TURN_S, "the turn waited for its runs"
        assert done.reason is None, "there are live runs, and the loop would stop"
        assert done.launched, "an approved experiment was not started"

    def test_a_repeated_turn_does_nothing_twice(self, strategy: LoopStrategy, lab: Lab) -> None:
        """No replicate is started again."""
        claim(lab, command="sleep 60")
        for _ in range(3):
            strategy.turn(lab, number=1)
        places = [run.replicate for run in lab.runs.list().items]
        assert len(places) == len({*places}), "a replicate was started twice"

    def test_it_starts_what_is_approved_alone(self, strategy: LoopStrategy, lab: Lab) -> None:
        """A proposal waits for a person; then that is the reason to stop."""
        claim(lab, approve=False)
        done = turned(strategy, lab)
        assert lab.runs.list().items == (), "a proposal was started"
        assert done.reason == "waiting_for_approval", f"it stops for {done.reason}"

    def test_a_reason_that_is_waited_on_is_no_stop(self, strategy: LoopStrategy, lab: Lab) -> None:
        """It is returned, and not written down each time."""
        claim(lab, approve=False)
        for number in (1, 2):
            done = strategy.turn(lab, number=number, waits_on=_ALWAYS)
            assert done.reason == "waiting_for_approval", f"it says {done.reason}"
        assert not [event for event in lab.feed.read() if event.kind == "loop_stopped"], "a stop was written down"

    def test_it_keeps_to_the_room(self, strategy: LoopStrategy, lab: Lab) -> None:
        """Of `max_concurrent_runs`, as it is at each turn."""
        lab.settings.set_methodology("max_concurrent_runs", "1")
        claim(lab, command="sleep 60", replicates=4)
        strategy.turn(lab, number=1)
        strategy.turn(lab, number=2)
        assert len(lab.runs.live()) == 1, "more runs are live than may be"
        lab.settings.set_methodology("max_concurrent_runs", "2")
        strategy.turn(lab, number=3)
        assert len(lab.runs.live()) == 2, "the key was changed, and the next turn does not heed it"

    def test_it_keeps_to_the_budget(self, strategy: LoopStrategy, lab: Lab) -> None:
        """What does not fit is not started, and that is the reason to stop."""
        lab.settings.set_methodology("max_run_hours", "0.01")
        claim(lab, wall_s=3600.0)
        done = turned(strategy, lab)
        assert lab.runs.list().items == (), "a run was started that the budget does not hold"
        assert done.reason == "budget_exhausted", f"it stops for {done.reason}"


class _Working:
    """A companion in a thread, as the daemon runs it."""

    def __init__(self, companion: Companion, lab: Lab) -> None:
        self.stop = threading.Event()
        self.problem: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=(companion, lab), daemon=True)
        self.thread.start()

    def _run(self, companion: Companion, lab: Lab) -> None:
        try:
            companion.run(lab, self.stop)
        except Exception as problem:  # noqa: BLE001 - `end` says so
            self.problem = problem

    def end(self) -> None:
        """Asks it to end, and fails if it does not, or if it had raised."""
        self.stop.set()
        self.thread.join(_ENDS_S)
        assert not self.thread.is_alive(), f"it had not ended {_ENDS_S:g} s after it was asked"
        assert self.problem is None, f"it raised {self.problem!r}"


class CompanionContract(_Project):
    """For every companion."""

    def prepare(self, lab: Lab) -> None:
        """Puts into the lab what the companion works on."""

    def test_it_ends_soon(self, companion: Companion, lab: Lab) -> None:
        """Within seconds of being asked, also where it is asked before it began."""
        self.prepare(lab)
        working = _Working(companion, lab)
        working.thread.join(_WORKS_S)
        working.end()
        asked = threading.Event()
        asked.set()
        thread = threading.Thread(target=companion.run, args=(lab, asked), daemon=True)
        thread.start()
        thread.join(_ENDS_S)
        assert not thread.is_alive(), "it was asked before it began, and goes on"

    def test_it_may_run_again(self, companion: Companion, lab: Lab) -> None:
        """The next process goes on from the record; here the next thread does."""
        self.prepare(lab)
        for _ in range(2):
            working = _Working(companion, lab)
            working.thread.join(_WORKS_S)
            working.end()
        assert lab.storage.verify() == []

    def test_it_leaves_no_thread_behind(self, companion: Companion, lab: Lab) -> None:
        """What it started has ended with it."""
        before = {*threading.enumerate()}
        working = _Working(companion, lab)
        working.thread.join(_WORKS_S)
        working.end()
        lab.storage.verify()
        deadline = time.monotonic() + _ENDS_S
        while (left := _left(before)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not left, f"it left {', '.join(thread.name for thread in left)} behind"

    def test_its_trouble_is_a_line_at_any_time(self, companion: Companion, lab: Lab) -> None:
        """Or None; at once, before it runs, while it does and afterwards."""

        def asked() -> None:
            found = companion.trouble()
            assert found is None or found.strip(), f"it answered {found!r}"
            assert found is None or "\n" not in found, "its trouble has more than a line"
            assert quickest(companion.trouble, _TROUBLE_S) < _TROUBLE_S, "it did not answer at once"

        asked()
        working = _Working(companion, lab)
        asked()
        working.end()
        asked()

    def test_its_word_of_more_is_at_once(self, companion: Companion, lab: Lab) -> None:
        """Whether it is at work is answered at once, and asking changes nothing."""
        self.prepare(lab)
        before = lab.feed.last()
        took_s = quickest(lambda: companion.is_at_work(lab), _TROUBLE_S)
        assert took_s < _TROUBLE_S, "it did not answer at once"
        assert lab.feed.last() == before, "asking it wrote an event"

    def test_it_leaves_the_record_to_others(self, companion: Companion, lab: Lab) -> None:
        """While it works others write, at once."""
        self.prepare(lab)
        working = _Working(companion, lab)
        working.thread.join(_WORKS_S)
        writer = threading.Thread(target=lab.hypotheses.add, args=("written meanwhile",), daemon=True)
        writer.start()
        writer.join(_ENDS_S)
        waited = writer.is_alive()
        working.stop.set()
        writer.join(_ENDS_S)
        assert not waited, "a write waited for the companion"
        working.end()


def _left(before: set[threading.Thread]) -> set[threading.Thread]:
    """Returns the threads that were begun since, but for those of a lab's own watch on its store."""
    return {thread for thread in {*threading.enumerate()} - before if "watchdog" not in type(thread).__module__}
