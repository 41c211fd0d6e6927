"""What agents cost while they have nothing to do: a thousand of them, fifty running, under 1 % of one core."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from perpetual import Lab
from perpetual_agents.agents import Agents
from perpetual_agents.timers import Timers
from tests.support import until

pytestmark = pytest.mark.slow
AGENTS, RUNNING, WATCHED_S, MOST = 1_000, 50, 10.0, 0.01
PROGRAM = """
import asyncio, sys
from perpetual import Lab
from perpetual_agents import AgentManager, GenericPurposeDrivenAgent
async def main(lab):
    manager = AgentManager(lab)
    for number in range(50):
        await manager.register_agent(GenericPurposeDrivenAgent(f"agent-{number}", "idle"))
    print("ready", flush=True)
    await asyncio.Event().wait()
with Lab.open(sys.argv[1]) as lab:
    asyncio.run(main(lab))
"""


@pytest.fixture
def crowd(lab: Lab) -> Lab:
    """A thousand agents, fifty of which take messages; some hear of events, and some have timers."""
    agents = Agents(lab)
    for start in range(0, AGENTS, 100):
        with lab.transaction():
            for number in range(start, start + 100):
                made = agents.create(f"agent-{number}", model="test:echo", purpose="idle",
                                     subscriptions=["run_ended"] if number % 10 == 0 else [])  # fmt: skip
                if number < RUNNING:
                    agents.move(made.id, "start")
                    Timers(lab).add(made.id, cron="0 0 1 1 *" if number % 2 else None,
                                    every_s=None if number % 2 else 86_400.0)  # fmt: skip
    return lab


def share(process: psutil.Process) -> float:
    """The share of one core that a process uses over some seconds."""

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    before, began = used(), time.monotonic()
    time.sleep(WATCHED_S)
    return (used() - before) / (time.monotonic() - began)


def test_the_service_of_a_thousand_idle_agents_costs_next_to_nothing(crowd: Lab) -> None:
    crowd.services.start("agents")
    try:
        pid = crowd.services.status("agents")["pid"]
        assert pid is not None
        found = psutil.Process(pid)
        Agents(crowd).post("agent-7", "hello")
        until(lambda: Agents(crowd).messages("agent-7").items[0]["state"] == "done")
        time.sleep(3.0)  # what it does at its start is over
        idle = share(found)
        Agents(crowd).post("agent-8", "hello")  # and it still hears
        until(lambda: Agents(crowd).messages("agent-8").items[0]["state"] == "done")
    finally:
        crowd.services.stop("agents")
    assert idle < MOST, f"{idle:.2%} of a core"


def test_a_program_of_fifty_idle_agents_costs_next_to_nothing(crowd: Lab) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(crowd.root)], stdout=subprocess.PIPE, text=True) as made:
        try:
            assert made.stdout is not None
            assert made.stdout.readline() == "ready\n"
            time.sleep(3.0)
            idle = share(psutil.Process(made.pid))
        finally:
            made.kill()
    assert idle < MOST, f"{idle:.2%} of a core"
