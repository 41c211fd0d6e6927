"""The companion `digest`: one digest for each due time, whatever is killed, and none where nothing has happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Event
from perpetual_daemon.companion import Companion
from perpetual_daemon.testing import CompanionContract
from perpetual_digest.collect import OWN
from perpetual_digest.companion import PERIOD, DigestCompanion, build, interval_hours, write_due
from tests.support import until

START = datetime(2031, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def digests(lab: Lab) -> list[Event]:
    return [event for event in lab.events() if event.kind == OWN]


def test_the_first_look_starts_the_count(project: Path, clock: Clock) -> None:
    with Lab.open(project, clock=clock) as lab:
        lab.hypotheses.add("before")
        assert not write_due(lab, 12.0, clock())
        clock.now += timedelta(hours=11.9)
        lab.hypotheses.add("after")
        assert not write_due(lab, 12.0, clock())
        assert digests(lab) == []
        clock.now += timedelta(hours=0.2)
        assert write_due(lab, 12.0, clock())
        (event,) = digests(lab)
    assert event.subject == "2031-01-01T12:00:00.000Z"  # when it was due, and not when it was written
    assert (event.payload["since"], event.payload["until"]) == ("2031-01-01T00:00:00.000Z", event.subject)
    assert "**Waits**" in event.payload["text"]


def test_each_event_is_in_one_digest(project: Path, clock: Clock) -> None:
    with Lab.open(project, clock=clock) as lab:
        write_due(lab, 1.0, clock())
        for hour in range(4):
            lab.hypotheses.add(f"claim {hour}")
            clock.now += timedelta(hours=1)
            assert write_due(lab, 1.0, clock())
            assert not write_due(lab, 1.0, clock())
        found = digests(lab)
        spans = [(event.payload["first"], event.payload["last"]) for event in found]
        assert all(before[1] == after[0] for before, after in pairwise(spans))
        assert [lab.events(since=last - 1, limit=1)[0].kind for _, last in spans] == ["hypothesis_added"] * 4


def test_where_nothing_has_happened_there_is_none(project: Path, clock: Clock) -> None:
    with Lab.open(project, clock=clock) as lab:
        write_due(lab, 1.0, clock())
        lab.hypotheses.add("a claim")
        clock.now += timedelta(hours=1)
        assert write_due(lab, 1.0, clock())
        for _ in range(3):  # the digest itself is no news
            clock.now += timedelta(hours=1)
            assert not write_due(lab, 1.0, clock())
        assert len(digests(lab)) == 1
        lab.hypotheses.add("another")
        assert not write_due(lab, 1.0, clock())  # it comes when it is due, not as soon as there is something
        clock.now += timedelta(hours=1)
        assert write_due(lab, 1.0, clock())
        rows = lab.records(PERIOD).list().items
        assert [row["is_written"] for row in rows] == [False, True, False, False, False, True]


def test_times_that_passed_without_a_daemon_are_one(project: Path, clock: Clock) -> None:
    with Lab.open(project, clock=clock) as lab:
        write_due(lab, 2.0, clock())
        lab.hypotheses.add("a claim")
        clock.now += timedelta(hours=9)
        assert write_due(lab, 2.0, clock())
        assert not write_due(lab, 2.0, clock())
        (event,) = digests(lab)
        assert event.subject == "2031-01-01T08:00:00.000Z"
        clock.now += timedelta(hours=-20)  # a clock that was set back writes nothing
        assert not write_due(lab, 2.0, clock())


def test_of_many_writers_one_writes(project: Path, clock: Clock) -> None:
    with Lab.open(project, clock=clock) as lab:
        write_due(lab, 1.0, clock())
        lab.hypotheses.add("a claim")
        clock.now += timedelta(hours=1)
        gate, written = threading.Barrier(4), []

        def writer() -> None:
            with Lab.open(project, clock=clock) as own:
                gate.wait()
                written.append(write_due(own, 1.0, clock()))

        threads = [threading.Thread(target=writer) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(written) == [False, False, False, True]
        assert len(digests(lab)) == 1


_WRITER = """
import sys
from datetime import UTC, datetime, timedelta
from perpetual import Lab
from perpetual_digest.companion import write_due
now = [datetime(2031, 1, 1, tzinfo=UTC) + timedelta(hours=int(sys.argv[1]))]
with Lab.open(clock=lambda: now[0]) as lab:
    print("open", flush=True)
    for _ in range(200):
        lab.hypotheses.add("a claim")
        write_due(lab, 1.0, now[0])
        now[0] += timedelta(hours=1)
"""


@pytest.mark.slow
def test_kill_9_neither_loses_nor_doubles_one(project: Path) -> None:
    for kill in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(1000 * kill)], stdout=subprocess.PIPE, cwd=project, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with Lab.open(project) as lab:
            before = lab.records(PERIOD).count()
            until(lambda: lab.records(PERIOD).count() > before + 3 + kill)  # noqa: B023 - called here alone
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with Lab.open(project) as lab:
        assert lab.storage.verify() == []
        rows = lab.records(PERIOD).list(limit=10_000).items
        due = [str(row["due_at"]) for row in rows]
        assert due == sorted(set(due))
        assert all(str(row["first"]) == str(before["last"]) for before, row in pairwise(rows))
        assert [event.subject for event in digests(lab)] == [row["due_at"] for row in rows if row["is_written"]]


# --- the companion ----------------------------------------------------------------------------------------------------


def test_it_works_until_it_is_stopped_and_reads_the_methodology_again(project: Path, clock: Clock) -> None:
    stop = threading.Event()

    def work() -> None:
        with Lab.open(project, clock=clock) as own:
            DigestCompanion(look_s=0.01, clock=clock).run(own, stop)

    thread = threading.Thread(target=work)
    thread.start()
    with Lab.open(project, clock=clock) as lab:
        assert not stop.wait(0.1)
        assert lab.records(PERIOD).count() == 0  # off by default
        lab.settings.set_methodology("report_interval_hours", "1")
        until(lambda: lab.records(PERIOD).count() == 1)
        lab.hypotheses.add("a claim")
        clock.now += timedelta(hours=1)
        until(lambda: digests(lab))
        stop.set()
        thread.join(5)
        assert not thread.is_alive()
        assert len(digests(lab)) == 1
    assert build({}).trouble() is None


class TestDigestCompanion(CompanionContract):
    @pytest.fixture
    def companion(self) -> Companion:
        return DigestCompanion(look_s=0.05)

    def prepare(self, lab: Lab) -> None:
        lab.settings.set_methodology("report_interval_hours", "0.01")


def test_the_methodology_says_how_often(project: Path) -> None:
    with Lab.open(project) as lab:
        assert interval_hours(lab) is None  # never, unless it is asked for
        lab.settings.set_methodology("report_interval_hours", "0.5")
        assert interval_hours(lab) == 0.5


def test_the_daemon_finds_it(project: Path) -> None:
    with Lab.open(project) as lab:
        found = dict(lab.parts("companion"))
    assert isinstance(found["perpetual-lab/digest"], DigestCompanion)


def test_a_held_project_gets_no_digest(project: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(project) as lab:
        lab.settings.set_methodology("report_interval_hours", "1")
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(project.parent / "of-another-user"))
    with Lab.open(project, clock=clock) as lab:
        assert lab.status()["trust"]["state"] == "held"
        DigestCompanion(look_s=0.01, clock=clock).run(lab, stop)
        assert lab.records(PERIOD).count() == 0
