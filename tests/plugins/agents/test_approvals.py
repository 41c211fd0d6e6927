"""What agents ask persons: nothing is called before the answer, which is bound to the call and outlives every crash."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotPermitted, Record, UsageError
from perpetual_agents import PerpetualAgent, ToolContext, tool
from perpetual_agents.agents import Agents
from perpetual_agents.approvals import Approvals
from perpetual_agents.checkpoints import Checkpoints
from perpetual_agents.operations import pause, resume, send, start, stop
from perpetual_agents.serving import Worker
from perpetual_agents.tools import FunctionTool
from tests.plugins.agents.support import Scripted, agent, call, say

CALLED: list[tuple[object, ...]] = []


def shred(path: str, context: ToolContext) -> str:
    """Shreds a file."""
    CALLED.append((path, context.key))
    return f"{path} is gone"


@tool(approval=True)
def burn(path: str) -> str:
    """Burns a file."""
    CALLED.append((path,))
    return "burnt"


@pytest.fixture(autouse=True)
def nothing_was_called() -> None:
    CALLED.clear()


def work(lab: Lab, id: str, backend: Scripted) -> list[Record]:
    """Works on what is due; answers the agent's messages, newest first."""
    tools = {one.spec.name: one for one in (FunctionTool(shred), FunctionTool(burn))}
    asyncio.run(Worker(lab, id, backend=backend, own_tools=tools).work())
    return [*Agents(lab).messages(id).items]


def shredding(*more: object) -> Scripted:
    """Wants to shred one file, and says what came of it."""
    return Scripted(say("", call("shred", path="a.txt")), lambda request: say(request.messages[-1]["text"]))


def test_a_listed_tool_is_called_once_a_person_approved_it_and_the_answer_is_journalled(lab: Lab) -> None:
    id, backend = agent(lab, approvals=["shred"]), shredding()
    Agents(lab).post(id, "clean up")
    (message,) = work(lab, id, backend)
    assert message["state"] == "waiting"
    assert CALLED == []
    (asked,) = Approvals(lab).list(id)
    assert (asked["tool"], asked["args"], asked["question"]) == ("shred", {"path": "a.txt"}, None)
    assert message["error"]["hint"] == f"perpetual agent approve {asked['id']}"
    assert [one["state"] for one in work(lab, id, backend)] == ["waiting"]  # nothing is due
    assert len(backend.requests) == 1
    decided = Approvals(lab).approve(asked["id"], answer="go ahead")
    assert (decided["state"], decided["by"]) == ("approved", lab.actor)
    (message,) = work(lab, id, backend)
    assert message["state"] == "done"
    assert [one[0] for one in CALLED] == ["a.txt"]
    assert "a.txt is gone" in message["answer"]
    assert message["answer"].endswith("says: go ahead")
    assert len(backend.requests) == 2  # the first reply was not asked for again
    assert Approvals(lab).list(id) == []


def test_a_tool_may_say_itself_that_it_needs_a_person(lab: Lab) -> None:
    id = agent(lab)
    backend = Scripted(say("", call("burn", path="a.txt")), say("done"))
    Agents(lab).post(id, "clean up")
    assert work(lab, id, backend)[0]["state"] == "waiting"
    Approvals(lab).approve(Approvals(lab).list()[0]["id"])
    assert work(lab, id, backend)[0]["answer"] == "done"
    assert CALLED == [("a.txt",)]


def test_a_denied_call_is_not_made_and_the_model_reads_why(lab: Lab) -> None:
    id, backend = agent(lab, approvals=["*"]), shredding()
    Agents(lab).post(id, "clean up")
    work(lab, id, backend)
    Approvals(lab).deny(Approvals(lab).list(id)[0]["id"], why="it is the only copy")
    (message,) = work(lab, id, backend)
    assert message["answer"] == "a person denied this call: it is the only copy"
    assert CALLED == []


def test_a_question_is_answered_by_a_person(lab: Lab) -> None:
    id = agent(lab, tools=["ask"])
    backend = Scripted(say("", call("ask_person", question="which seed?")),
                       lambda request: say(request.messages[-1]["text"]))  # fmt: skip
    Agents(lab).post(id, "go on")
    work(lab, id, backend)
    (asked,) = Approvals(lab).list(id)
    assert asked["question"] == "which seed?"
    with pytest.raises(UsageError):
        Approvals(lab).approve(asked["id"])
    Approvals(lab).approve(asked["id"], answer="seed 7")
    assert work(lab, id, backend)[0]["answer"] == "seed 7"


def test_a_question_without_words_is_no_interrupt(lab: Lab) -> None:
    id = agent(lab, tools=["ask"])
    backend = Scripted(say("", call("ask_person", question="  ")), say("well"))
    Agents(lab).post(id, "go on")
    assert work(lab, id, backend)[0]["answer"] == "well"
    assert backend.requests[-1].messages[-1].get("is_error")


@pytest.mark.parametrize("variable", ["CLAUDECODE"])
def test_only_a_person_answers(lab: Lab, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    id, backend = agent(lab, approvals=["shred"]), shredding()
    Agents(lab).post(id, "clean up")
    work(lab, id, backend)
    (asked,) = Approvals(lab).list(id)
    with Lab.open(lab.root, actor="agent:scout", registry=lab.registry) as own:
        with pytest.raises(NotPermitted):
            Approvals(own).approve(asked["id"])
        with pytest.raises(NotPermitted):
            Approvals(own).deny(asked["id"], why="x")
        with pytest.raises(NotPermitted):
            Agents(own).change(id, approvals=[])
        Agents(own).change(id, approvals=["shred", "burn"])  # more of them is no harm
    monkeypatch.setenv(variable, "1")
    with Lab.open(lab.root, registry=lab.registry) as own, pytest.raises(NotPermitted):
        Approvals(own).approve(asked["id"])
    assert Approvals(lab).get(asked["id"])["state"] == "waiting"


def test_an_answer_that_was_written_behind_the_back_counts_as_none(lab: Lab) -> None:
    id, backend = agent(lab, approvals=["shred"]), shredding()
    Agents(lab).post(id, "clean up")
    (message,) = work(lab, id, backend)
    (asked,) = Approvals(lab).list(id)
    lab.records("agents.approval").update(asked["id"], state="approved", waits=None, by="user:root", mark="0" * 64)
    Agents(lab).close_message(message.id, "pending")
    assert work(lab, id, backend)[0]["state"] == "waiting"
    assert CALLED == []
    assert [one["id"] for one in Approvals(lab).list(id)] != [asked["id"]]


def test_an_approval_holds_for_the_arguments_that_were_shown(lab: Lab) -> None:
    id, backend = agent(lab, approvals=["shred"]), shredding()
    Agents(lab).post(id, "clean up")
    (message,) = work(lab, id, backend)
    approvals, (asked,) = Approvals(lab), Approvals(lab).list(id)
    step = lab.records("agents.approval").get(asked["id"])["step"]
    other = approvals.asked(id, message.id, step, call("shred", path="b.txt"), None)
    assert (other["state"], approvals.get(asked["id"])["state"]) == ("waiting", "void")
    with pytest.raises(Conflict):
        approvals.approve(asked["id"])
    approvals.approve(other["id"])
    assert work(lab, id, backend)[0]["state"] == "waiting"  # the call is of a.txt
    assert CALLED == []


def test_an_answer_in_the_moment_of_the_question_is_not_lost(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person answers after the question is recorded, and before the message is set to wait."""
    id, backend = agent(lab, approvals=["shred"]), shredding()
    ask = Approvals.asked

    def answered(self: Approvals, *args: object) -> object:
        found = ask(self, *args)  # type: ignore[arg-type]
        if found["state"] == "waiting":
            Approvals(lab).approve(found["id"])
        return found

    monkeypatch.setattr(Approvals, "asked", answered)
    Agents(lab).post(id, "clean up")
    assert work(lab, id, backend)[0]["state"] == "pending"
    assert work(lab, id, backend)[0]["state"] == "done"
    assert len(CALLED) == 1


def test_an_agent_that_was_paused_meanwhile_goes_on_once_it_is_resumed(lab: Lab) -> None:
    id, backend = agent(lab, approvals=["shred"]), shredding()
    Agents(lab).post(id, "clean up")
    work(lab, id, backend)
    pause(lab, id)
    Approvals(lab).approve(Approvals(lab).list(id)[0]["id"])
    assert work(lab, id, backend)[0]["state"] == "pending"
    resume(lab, id)
    assert work(lab, id, backend)[0]["state"] == "done"


def test_what_waits_is_void_once_its_message_is_over(lab: Lab) -> None:
    id, backend = agent(lab, approvals=["shred"]), shredding()
    kept = Checkpoints(lab).take(id)["id"]
    Agents(lab).post(id, "clean up")
    work(lab, id, backend)
    (asked,) = Approvals(lab).list(id)
    pause(lab, id)
    Checkpoints(lab).restore(id, kept)
    assert Approvals(lab).list(id) == []
    with pytest.raises(Conflict) as caught:
        Approvals(lab).approve(asked["id"])
    assert "void" in caught.value.message


def test_a_message_that_waits_holds_up_those_after_it_and_costs_nothing(lab: Lab) -> None:
    from perpetual_agents.service import due_agents

    id, backend = agent(lab, approvals=["shred"]), shredding()
    Agents(lab).post(id, "clean up")
    work(lab, id, backend)
    Agents(lab).post(id, "and then?")
    assert due_agents(Agents(lab))[0] == []
    assert send(lab, id, "hello?", backend=backend)["state"] == "pending"


def test_without_the_handler_nothing_that_needs_a_person_is_called(lab: Lab) -> None:
    lab.settings.set_config("plugins.agents.handlers", '["journal", "history"]')
    id, backend = agent(lab, approvals=["shred"]), shredding()
    Agents(lab).post(id, "clean up")
    (message,) = work(lab, id, backend)
    assert "needs a person's approval" in message["answer"]
    assert CALLED == []


def test_a_fork_and_a_restored_agent_keep_the_list(lab: Lab) -> None:
    id = agent(lab, approvals=["shred"])
    kept = Checkpoints(lab).take(id)["id"]
    Agents(lab).change(id, approvals=["shred", "burn"])
    assert Checkpoints(lab).fork(id, "twin").approvals == ("burn", "shred")
    stop(lab, id)
    assert Checkpoints(lab).restore(id, kept)[0].approvals == ("shred", "burn")


class Janitor(PerpetualAgent):
    """You clean up."""

    @tool(approval=True)
    def sweep(self, room: str) -> str:
        """Sweeps a room."""
        CALLED.append((room,))
        return f"{room} is clean"

    @tool
    def look(self) -> str:
        """Looks."""
        return "dusty"


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_program_asks_and_answers(lab: Lab) -> None:
    backend = Scripted(say("", call("look"), call("sweep", id="c2", room="attic")),
                       lambda request: say(request.messages[-1]["text"]))  # fmt: skip
    janitor = Janitor("janitor", model="openai:script", lab=lab, backend=backend)
    with pytest.raises(Conflict) as caught:
        await janitor.message("clean the attic")
    assert "wants to call sweep" in caught.value.message
    (asked,) = await janitor.approvals()
    await janitor.approve(asked["id"])
    await janitor.start()
    async with asyncio.timeout(20):
        while Agents(lab).messages(janitor.id).items[0]["state"] != "done":
            await asyncio.sleep(0.01)
    assert CALLED == [("attic",)]
    assert [one["state"] for one in await janitor.approvals(waiting=False)] == ["approved"]
    await janitor.cleanup()


ASKS = """
import asyncio, os, signal, sys
from perpetual import Lab
from perpetual_agents.agents import Agents
from perpetual_agents.serving import Worker
def die(context):
    os.kill(os.getpid(), signal.SIGKILL)
with Lab.open(sys.argv[1]) as lab:
    asyncio.run(Worker(lab, "scout").work())
    print(Agents(lab).messages("scout").items[0]["state"], flush=True)
    if len(sys.argv) > 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_an_approval_survives_the_process_that_asked(lab: Lab) -> None:
    made = Agents(lab).create("scout", model="test:tools", tools=["timers"], approvals=["timers"])
    start(lab, made.id)
    Agents(lab).post(made.id, "wake me")

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", ASKS, str(lab.root), *args], capture_output=True, text=True,
                              timeout=120, env={**os.environ})  # fmt: skip

    killed = run("killed")
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "waiting\n")
    for expected in ("waiting\n", "waiting\n", "done\n"):  # of three calls one after the other
        (asked,) = Approvals(lab).list()
        Approvals(lab).approve(asked["id"])
        assert run().stdout == expected
