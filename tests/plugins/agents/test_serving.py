"""Working on inboxes: what is cancelled leaves neither the record nor the agent locked."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time

import pytest

from perpetual import Lab
from perpetual_agents.agents import Agents
from perpetual_agents.pulse import pulse_of
from perpetual_agents.service import Server
from perpetual_agents.serving import Worker, busy, is_busy
from perpetual_agents.threads import in_thread
from perpetual_agents.tools import FunctionTool, ToolContext
from tests.plugins.agents.support import Scripted, agent, call, say


def test_a_call_in_a_thread_is_waited_for_where_its_caller_is_cancelled() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def write() -> None:
        begun.set()
        go_on.wait(20)

    async def cancelled() -> None:
        task = asyncio.create_task(in_thread(write))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=0.05)
        assert not done
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


@pytest.mark.slow
def test_who_is_cancelled_while_it_waits_for_an_agent_does_not_keep_it(lab: Lab) -> None:
    id = agent(lab)

    async def cancelled() -> None:
        async def wait() -> None:
            async with busy(lab, id, timeout_s=None):
                raise AssertionError("it was busy")

        async with busy(lab, id) as held:
            assert held
            task = asyncio.create_task(wait())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
    assert not is_busy(lab, id)


def test_a_tool_that_goes_on_after_its_turn_was_cancelled_does_not_lock_the_record(lab: Lab) -> None:
    """It is within a transaction when its worker ends, and writes more."""
    id = agent(lab)
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def slow(context: ToolContext) -> str:
        """Writes for long."""
        with context.lab.transaction():
            begun.set()
            go_on.wait(20)
            context.lab.hypotheses.add("warm-up lowers val_loss")
        over.set()
        return "done"

    async def cancelled() -> None:
        backend = Scripted(say("", call("slow")))
        worker = Worker(lab, id, backend=backend, own_tools={"slow": FunctionTool(slow)})
        task = asyncio.create_task(worker.work())
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    Agents(lab).post(id, "go")
    asyncio.run(cancelled())
    assert over.wait(10)
    began = time.monotonic()
    lab.hypotheses.add("dropout lowers val_loss")
    assert time.monotonic() - began < 5.0
    assert [one.statement for one in lab.hypotheses.list().items] == ["warm-up lowers val_loss",
                                                                     "dropout lowers val_loss"]  # fmt: skip


@pytest.mark.slow
def test_a_message_that_waits_behind_another_does_not_turn_the_server(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = agent(lab)
    first, _ = Agents(lab).post(id, "one"), Agents(lab).post(id, "two")
    Agents(lab).close_message(first.id, "waiting")
    begun: list[str] = []

    async def work(server: Server, agent: str) -> None:
        begun.append(agent)

    monkeypatch.setattr(Server, "_work", work)
    ends = time.monotonic() + 0.3
    asyncio.run(Server(lab, 2).run(lambda: time.monotonic() > ends))
    assert begun == []


@pytest.mark.slow
def test_a_thousand_that_wait_share_one_thread_and_all_are_woken(lab: Lab) -> None:
    async def woken() -> int:
        seen = lab.feed.last()
        async with pulse_of(lab) as one, pulse_of(lab) as other:
            assert one is other
            waiting = [asyncio.create_task(one.wait(seen, 20)) for _ in range(1000)]
            await asyncio.sleep(0)
            assert threading.active_count() < 20
            assert [thread.name for thread in threading.enumerate()].count("agents-pulse") == 1
            assert not await one.wait(seen, 0.01)
            await in_thread(lab.hypotheses.add, "warm-up lowers val_loss")
            return sum(await asyncio.gather(*waiting))

    assert asyncio.run(woken()) == 1000
    assert not [thread for thread in threading.enumerate() if thread.name == "agents-pulse"]


@pytest.mark.slow
def test_a_server_whose_project_is_deleted_ends(lab: Lab) -> None:
    agent(lab)

    async def serve() -> None:
        server = asyncio.create_task(Server(lab, 2).run(lambda: False))
        await asyncio.sleep(0.1)
        shutil.rmtree(lab.root)
        await asyncio.wait_for(server, 20)

    asyncio.run(serve())


@pytest.mark.slow
def test_a_feed_that_is_shorter_than_before_is_waited_for_anew(lab: Lab) -> None:
    """A backup was put back: events come again with numbers that were seen."""

    async def woken() -> list[bool]:
        async with pulse_of(lab) as pulse:
            lab.hypotheses.add("warm-up lowers val_loss")
            assert await pulse.wait(lab.feed.last() - 1, 20)
            backup = lab.feed.last()
            store, kept = lab.root / ".perpetual" / "store", lab.root / "kept"
            shutil.copytree(store, kept)
            lab.hypotheses.add("dropout lowers val_loss")
            assert await pulse.wait(backup, 20)
            shutil.rmtree(store)
            kept.rename(store)
            while await pulse.wait(backup, 0.05):
                await asyncio.sleep(0.01)
            with Lab.open(lab.root, registry=lab.registry) as other:
                other.hypotheses.add("less data does")
            return [await pulse.wait(backup, 20)]

    assert asyncio.run(asyncio.wait_for(woken(), 60)) == [True]
