"""Timers of agents: once per time, whatever is killed, however the clock is set, and whatever a time zone does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import NotFound, Refused, UsageError
from perpetual_agents.agents import Agents
from perpetual_agents.operations import start, stop
from perpetual_agents.service import Server
from perpetual_agents.timers import Timers, following, local_zone
from tests.plugins.agents.support import agent

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def inbox(lab: Lab, id: str) -> list[str]:
    """The scheduled times of the messages that timers have sent, in their order."""
    return [one["data"]["data"]["scheduled"] for one in Agents(lab).pending(id) if one["data"].get("data")]


def test_a_time_fires_once_and_is_over(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    made = timers.add(id, at=NOON + HOUR, text="look", now=NOON)
    assert timers.fire(NOON) == 3600.0
    assert inbox(lab, id) == []
    assert timers.fire(NOON + HOUR) is None
    assert timers.fire(NOON + 2 * HOUR) is None
    (message,) = Agents(lab).pending(id)
    assert (message["text"], message["type"], message["sender"]) == ("look", "timer", lab.actor)
    found = timers.get(made["id"])
    assert (found["active"], found["fired"], found["next"]) == (False, 1, None)


def test_a_time_without_a_zone_is_this_machines_and_one_that_is_over_fires_at_once(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    timers.add(id, at="2020-01-01T08:00", text="late")
    timers.fire()
    assert len(inbox(lab, id)) == 1


@pytest.mark.parametrize("given", [
    {}, {"at": "2026-12-01T08:00Z", "every_s": 5.0}, {"at": "soon"}, {"at": "0001-01-01"}, {"every_s": 0.5},
    {"every_s": float("nan")}, {"every_s": -3.0}, {"every_s": 1e300}, {"cron": "* * * *"}, {"cron": "61 * * * *"},
    {"cron": "* * * * * *"}, {"cron": "0 0 31 2 *"}, {"cron": ""}, {"cron": "0 8 * * *", "zone": "Mars/Olympus"},
    {"cron": "0 8 * * *", "zone": "../../etc/passwd"}, {"every_s": 5.0, "type": ""}, {"every_s": 5.0, "text": "a\0b"},
])  # fmt: skip
def test_what_is_no_timer_is_refused_with_words(lab: Lab, given: dict[str, object]) -> None:
    id = agent(lab)
    with pytest.raises(UsageError) as caught:
        Timers(lab).add(id, **given)  # type: ignore[arg-type]
    assert caught.value.message
    assert Timers(lab).list(id) == []


def test_an_interval_keeps_its_grid_and_what_was_missed_fires_once(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    timers.add(id, every_s=600.0, now=NOON)
    assert timers.fire(NOON + 9 * MINUTE) == 60.0
    assert timers.fire(NOON + 10 * MINUTE) == 600.0
    assert timers.fire(NOON + DAY + 15 * MINUTE) == 300.0  # 144 times were missed
    assert inbox(lab, id) == ["2026-03-10T12:10:00.000Z", "2026-03-10T12:20:00.000Z"]
    assert timers.list(id)[0]["fired"] == 2


@pytest.mark.parametrize("jump", [DAY, -DAY, 400 * DAY, -400 * DAY], ids=["day", "-day", "year", "-year"])
@pytest.mark.parametrize("timer", [{"every_s": 600.0}, {"cron": "*/10 * * * *", "zone": "UTC"}], ids=["every", "cron"])
def test_a_clock_that_is_set_makes_no_burst_and_no_negative_wait(
    lab: Lab, timer: dict[str, object], jump: timedelta
) -> None:
    id, timers = agent(lab), Timers(lab)
    timers.add(id, now=NOON, **timer)  # type: ignore[arg-type]
    timers.fire(NOON + 10 * MINUTE)
    now = NOON + 10 * MINUTE + jump
    for _ in range(3):
        wait_s = timers.fire(now)
        assert wait_s is not None
        assert 0.0 < wait_s <= 600.0
    assert len(inbox(lab, id)) == (2 if jump > timedelta() else 1)
    now += timedelta(seconds=wait_s or 0.0)
    assert timers.fire(now) == 600.0
    assert len(inbox(lab, id)) == len({*inbox(lab, id)})
    # and back again
    wait_s = timers.fire(NOON + 21 * MINUTE)
    assert wait_s is not None
    assert 0.0 < wait_s <= 600.0


def test_a_time_of_a_clock_that_was_set_back_is_not_fired_again(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    timers.add(id, cron="0 13 * * *", zone="UTC", now=NOON)
    timers.fire(NOON + HOUR)
    timers.fire(NOON)  # set back by an hour
    timers.fire(NOON + HOUR)
    assert inbox(lab, id) == ["2026-03-10T13:00:00.000Z"]


@pytest.mark.parametrize(("start", "expression", "times"), [
    # 2026-03-29: 02:00 to 03:00 is left out in Berlin; the time that is not there comes after the gap, once
    ("2026-03-28T12:00Z", "30 2 * * *", ["2026-03-29T01:00", "2026-03-30T00:30"]),
    # 2026-10-25: 02:00 to 03:00 comes twice; its times come in the first of them, once
    ("2026-10-24T12:00Z", "30 2 * * *", ["2026-10-25T00:30", "2026-10-26T01:30"]),
    # within the second of them the first is over
    ("2026-10-25T01:15Z", "30 2 * * *", ["2026-10-26T01:30", "2026-10-27T01:30"]),
    ("2026-10-25T00:59Z", "0 * * * *", ["2026-10-25T01:00", "2026-10-25T02:00"]),
])  # fmt: skip
def test_summer_time_comes_and_goes_without_a_burst(start: str, expression: str, times: list[str]) -> None:
    now = datetime.fromisoformat(start)
    found = []
    for _ in times:
        later = following("cron", expression, "Europe/Berlin", now, now)
        assert later is not None
        assert later > now
        now = later
        found.append(later.strftime("%Y-%m-%dT%H:%M"))
    assert found == times


def test_an_agent_that_takes_no_messages_is_not_fired_at_and_hears_once_later(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    timers.add(id, every_s=60.0, now=NOON)
    stop(lab, id)
    assert timers.fire(NOON + HOUR) is None
    assert inbox(lab, id) == []
    start(lab, id)
    assert timers.fire(NOON + HOUR) == 60.0
    assert len(inbox(lab, id)) == 1


def test_timers_of_an_agent_that_was_deleted_are_silent(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    timers.add(id, every_s=60.0, now=NOON)
    stop(lab, id)
    Agents(lab).delete(id)
    assert timers.fire(NOON + HOUR) is None


def test_a_timer_is_cancelled_by_its_owner_alone_and_set_once_per_key(lab: Lab) -> None:
    id, other, timers = agent(lab), agent(lab, "other"), Timers(lab)
    made = timers.add(id, every_s=60.0, key="daily")
    assert timers.add(id, every_s=90.0, key="daily") == made
    assert timers.add(other, every_s=90.0, key="daily")["id"] != made["id"]
    with pytest.raises(NotFound):
        timers.cancel(made["id"], agent=other)
    assert not timers.cancel(made["id"], agent=id)["active"]
    assert timers.list(id) == []
    assert [one["id"] for one in timers.list(id, active=False)] == [made["id"]]


def test_an_agent_has_a_hundred_active_timers_at_most(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    with lab.transaction():
        for _ in range(100):
            timers.add(id, every_s=60.0)
    with pytest.raises(Refused):
        timers.add(id, every_s=60.0)


def test_the_zone_of_a_cron_expression_is_this_machines_where_none_is_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert local_zone() == "Asia/Tokyo"
    made = Timers(lab).add(agent(lab), cron="0 8 * * *", now=NOON)
    assert (made["zone"], made["next"]) == ("Asia/Tokyo", "2026-03-10T23:00:00.000Z")
    monkeypatch.setenv("TZ", "no/such/zone")
    assert local_zone() in ("UTC", "Etc/UTC") or "/" in local_zone()


@pytest.mark.slow
def test_a_server_fires_what_is_due_and_again_once_a_nearer_timer_is_set(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    Agents(lab).move(id, "pause")  # its inbox takes messages, and nothing works on them
    timers.add(id, every_s=3600.0)

    async def serve() -> None:
        over = False
        server = asyncio.create_task(Server(lab, 2).run(lambda: over))
        await asyncio.sleep(0)
        await asyncio.to_thread(lambda: timers.add(id, at=datetime.now(UTC) + timedelta(seconds=0.2)))
        async with asyncio.timeout(20):
            while not inbox(lab, id):
                await asyncio.sleep(0.01)
        over = True
        await server

    asyncio.run(serve())
    assert len(inbox(lab, id)) == 1


FIRES = """
import os, signal, sys
from datetime import datetime
from perpetual import Lab
from perpetual_agents.timers import Timers
from perpetual.toolkit import crashpoints
with Lab.open(sys.argv[1]) as lab:
    print("ready", flush=True)
    sys.stdin.readline()
    Timers(lab).fire(datetime.fromisoformat(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_processes_that_fire_at_once_and_are_killed_fire_each_time_once(lab: Lab) -> None:
    id, timers = agent(lab), Timers(lab)
    with lab.transaction():
        for _ in range(20):
            timers.add(id, every_s=60.0, now=NOON)
    now = (NOON + HOUR).isoformat()
    processes = [
        subprocess.Popen([sys.executable, "-c", FIRES, str(lab.root), now], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for number, process in enumerate(processes):
        if number == 0:
            os.kill(process.pid, signal.SIGKILL)  # at any point
        process.communicate(timeout=60)
    timers.fire(NOON + HOUR)
    sent = [one["dedup"] for one in Agents(lab).pending(id)]
    assert len(sent) == len({*sent}) == 20
    assert {one["fired"] for one in timers.list(id)} == {1}


def test_without_the_extra_times_and_intervals_work_and_cron_says_what_to_install(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    id = agent(lab)
    Timers(lab).add(id, every_s=5.0)
    with pytest.raises(UsageError) as caught:
        Timers(lab).add(id, cron="0 8 * * *")
    assert "pip install" in str(caught.value.hint)
