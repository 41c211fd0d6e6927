"""The contract suite of the service slot: every promise of `perpetual.slots.service` as tests.

    class TestAcmeService(ServiceContract):
        @pytest.fixture
        def service(self):
            return acme.service.build({})

`prepare` may be overridden, for a service that needs something in the lab. Nothing but pytest is needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from perpetual.slots.sections import Finding
from perpetual.slots.service import Service
from perpetual.testing.quick import quickest

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["ServiceContract"]

_HEALTH_S = 1.0  # for one look at how it fares


class _Running:
    """A service in a thread, as its host would run it."""

    def __init__(self, service: Service, lab: Lab) -> None:
        self.stop = threading.Event()
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(service, lab), daemon=True)
        self.thread.start()

    def _run(self, service: Service, lab: Lab) -> None:
        try:
            service.run(lab, self.stop)
        except BaseException as problem:  # noqa: BLE001 - the test tells it
            self.problem = problem

    def end(self, within_s: float) -> None:
        """Asks it to end, and fails if it does not."""
        self.stop.set()
        self.thread.join(within_s)
        assert not self.thread.is_alive(), f"it had not ended {within_s:g} s after it was asked"
        assert self.problem is None, f"it raised {self.problem!r}"


class ServiceContract:
    """For every service."""

    serves_s: ClassVar[float] = 0.5  # a service goes on for at least so long
    ends_s: ClassVar[float] = 5.0  # and ends within so long once it is asked

    def prepare(self, lab: Lab) -> None:
        """Puts into the lab what the service needs."""

    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a project of its own, in a state folder of its own."""
        from perpetual.lab import Lab

        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        with Lab.init(tmp_path / "project", name="contract") as made:
            self.prepare(made)
            yield made

    def test_it_serves_until_it_is_asked_to_stop(self, service: Service, lab: Lab) -> None:
        """It neither returns before nor raises."""
        running = _Running(service, lab)
        running.thread.join(self.serves_s)
        assert running.problem is None, f"it raised {running.problem!r}"
        assert running.thread.is_alive(), "it ended before it was asked"
        running.end(self.ends_s)

    def test_it_ends_soon(self, service: Service, lab: Lab) -> None:
        """Within seconds, also where it is asked before it began."""
        running = _Running(service, lab)
        began = time.monotonic()
        running.end(self.ends_s)
        assert time.monotonic() - began < self.ends_s
        stop = threading.Event()
        stop.set()
        thread = threading.Thread(target=service.run, args=(lab, stop), daemon=True)
        thread.start()
        thread.join(self.ends_s)
        assert not thread.is_alive(), "it was asked before it began, and goes on"

    def test_it_may_run_again(self, service: Service, lab: Lab) -> None:
        """The next process goes on from the record; here the next thread does."""
        for _ in range(2):
            running = _Running(service, lab)
            running.thread.join(self.serves_s)
            assert running.thread.is_alive(), f"it ended before it was asked, with {running.problem!r}"
            running.end(self.ends_s)

    def test_it_leaves_no_thread_behind(self, service: Service, lab: Lab) -> None:
        """What it started has ended with it."""
        before = {*threading.enumerate()}
        running = _Running(service, lab)
        running.thread.join(self.serves_s)
        running.end(self.ends_s)
        deadline = time.monotonic() + self.ends_s
        while (left := {*threading.enumerate()} - before) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not left, f"it left {', '.join(thread.name for thread in left)} behind"

    def test_its_health_is_a_finding_at_any_time(self, service: Service, lab: Lab) -> None:
        """Before it runs, while it runs and afterwards; at once."""

        def asked() -> None:
            found = service.health(lab)
            assert type(found) is Finding, f"it answered a {type(found).__name__}"
            assert found.detail.strip(), "the detail is empty"
            took_s = quickest(lambda: service.health(lab), _HEALTH_S)
            assert took_s < _HEALTH_S, "it took more than a second to say how it fares"

        asked()
        running = _Running(service, lab)
        asked()
        running.end(self.ends_s)
        asked()

    def test_it_copes_with_others_that_write(self, service: Service, lab: Lab) -> None:
        """The record is everybody's while it runs."""
        running = _Running(service, lab)
        for number in range(5):
            lab.hypotheses.add(f"written meanwhile {number}")
        running.thread.join(self.serves_s)
        assert running.problem is None, f"it raised {running.problem!r}"
        running.end(self.ends_s)
        assert lab.storage.verify() == []
