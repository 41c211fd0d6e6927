"""Agents in the daemon's loop: the companion holds its contract, and the loop goes on with an agent's proposal."""

from __future__ import annotations

import threading
import time

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError
from perpetual_agents.agents import Agents
from perpetual_agents.companion import AgentCompanion, build
from perpetual_agents.operations import pause, start
from perpetual_daemon.companion import Companion
from perpetual_daemon.daemon import Daemon, Settings
from perpetual_daemon.testing import CompanionContract
from tests.support import until


def echo(lab: Lab, name: str = "scout", **fields: object) -> str:
    """Makes an agent whose model is a stand-in, and starts it; answers its id."""
    return start(lab, Agents(lab).create(name, model="test:echo", **fields).id).id  # type: ignore[arg-type]


@pytest.mark.slow
class TestCompanion(CompanionContract):
    """What works on inboxes while the daemon runs."""

    @pytest.fixture
    def companion(self) -> Companion:
        return build({})

    def prepare(self, lab: Lab) -> None:
        """Leaves a message to be answered."""
        try:
            Agents(lab).post("scout", "hello", key="first")
        except PerpetualError:
            echo(lab)
            Agents(lab).post("scout", "hello", key="first")


def test_it_is_at_work_while_a_message_is_due_or_an_event_is_on_its_way(lab: Lab) -> None:
    made = lab.hypotheses.add("warm-up lowers val_loss").id
    id, companion = echo(lab, hypothesis=made), AgentCompanion()
    assert not companion.is_at_work(lab)
    Agents(lab).post(id, "later", due="2099-01-01T00:00:00.000Z")
    assert not companion.is_at_work(lab)
    lab.hypotheses.update(made, status="parked", why="later")
    before = lab.feed.last()
    assert companion.is_at_work(lab)
    assert lab.feed.last() == before
    lab.scan()
    assert companion.is_at_work(lab)
    (_, event) = Agents(lab).pending(id)
    Agents(lab).close_message(event.id, "waiting")
    assert not companion.is_at_work(lab)
    Agents(lab).close_message(event.id, "pending")
    pause(lab, id)
    assert not companion.is_at_work(lab)


@pytest.mark.slow
def test_an_agent_that_cannot_be_worked_on_does_not_hold_up_the_loop(lab: Lab) -> None:
    id, companion = echo(lab, tools=["python:no_such_module_here:f"]), AgentCompanion()
    Agents(lab).post(id, "hello")
    stop = threading.Event()
    thread = threading.Thread(target=companion.run, args=(lab, stop))
    thread.start()
    try:
        until(lambda: companion.trouble() is not None)
        assert not companion.is_at_work(lab)
        assert id in str(companion.trouble())
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_the_loop_goes_on_with_what_an_agent_of_its_hypothesis_proposes(lab: Lab) -> None:
    """The daemon runs an experiment; its agent hears of the end, and proposes the next one, which the daemon runs."""
    made = lab.hypotheses.add("warm-up lowers val_loss").id
    (lab.root / "thoughts.py").write_text(
        "from perpetual_agents import ToolContext\n"
        "def next_one(context: ToolContext) -> str:\n"
        "    'Proposes the next experiment.'\n"
        "    if len(context.lab.experiments.list().items) > 1:\n"
        "        return 'enough'\n"
        "    return context.lab.experiments.propose(\n"
        f"        {made!r}, command='echo two', claim='none', idempotency_key=context.key).id\n"
    )
    agent = Agents(lab).create("scout", model="test:tools", tools=["python:thoughts:next_one"], hypothesis=made)
    start(lab, agent.id)
    lab.settings.set_methodology("auto_approve", "true")
    first = lab.experiments.propose(made, command="echo one", claim="none")
    lab.experiments.approve(first.id)
    daemon = Daemon(Settings(max_cycles=30))
    began = time.monotonic()
    daemon.run(lab, threading.Event())
    assert time.monotonic() - began < 25.0  # nothing is left that holds the record
    found = lab.experiments.list().items
    assert [one.proposed_by for one in found][1:] == ["agent:scout"]
    assert [one["state"] for one in Agents(lab).messages(agent.id).items] == ["done"] * 4  # two approved, two ended
    assert daemon.end is not None
    assert daemon.end.reason == "queue_empty"
