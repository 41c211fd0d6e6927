"""The worst moments: agents restored or deleted while they work, and handlers and tools that fail."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Conflict, CorruptData, NotFound, PerpetualError, UsageError
from perpetual_agents import PerpetualAgent, bundle, operations
from perpetual_agents.agents import Agents
from perpetual_agents.alignment import Alignment, by_words
from perpetual_agents.checkpoints import Checkpoints
from perpetual_agents.model import ModelError, ModelReply, ModelRequest, Say
from perpetual_agents.service import Server
from perpetual_agents.serving import Worker
from perpetual_agents.tools import FunctionTool, ToolContext, ToolError

from .support import Scripted, agent, call, say, work

Bundle = dict[str, Any]


def test_a_limit_of_seconds_holds(lab: Lab) -> None:
    """A request begins only while seconds are left, and gets at most those."""
    id = agent(lab, limits={"seconds": 0.05})

    def slow(request: ModelRequest) -> ModelReply:
        time.sleep(0.06)
        return say("late")

    backend = Scripted(slow)
    first, second = work(lab, id, backend, "one", "two")
    assert [len(backend.requests), backend.requests[0].timeout_s] == [1, 0.05]
    assert (first["state"], second["state"]) == ("done", "pending")
    assert "0 of 0.05 seconds left" in str(Agents(lab).get(id).reason)


def test_a_failed_request_books_the_seconds_that_it_took(lab: Lab) -> None:
    """A refusal at once leaves the time to the next request."""
    id = agent(lab, limits={"seconds": 60})
    refusal = ModelError("no", is_transient=False)
    assert [one["state"] for one in work(lab, id, Scripted(refusal, say("fine")), "a", "b")] == ["failed", "done"]


@pytest.mark.parametrize("calls", [(), (call("goals"),)], ids=["answer", "tool"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_message_that_is_dropped_by_restore_stays_dropped(lab: Lab, goes_on: bool, calls: tuple) -> None:  # type: ignore[type-arg]
    """The step in flight ends; its turn does not go on, not even where the agent runs again."""
    id = agent(lab)
    Checkpoints(lab).take(id, label="before")

    def restored(request: ModelRequest) -> ModelReply:
        operations.pause(lab, id)
        Checkpoints(lab).restore(id, "before")
        if goes_on:
            operations.resume(lab, id)
        return say("too late", *calls)

    backend = Scripted(restored, say("wrong"))
    message = work(lab, id, backend, "hello")[0]
    assert (message["state"], message["answer"], message["queue"], len(backend.requests)) == ("dropped", None, None, 1)
    assert Agents(lab).get(id).counters["model_calls"] == 1


def test_an_agent_that_is_deleted_at_work_ends_quietly(lab: Lab) -> None:
    """The message is dropped, and the worker has no error."""
    id = agent(lab)

    def deleted(request: ModelRequest) -> ModelReply:
        operations.stop(lab, id)
        Agents(lab).delete(id)
        return say("", call("goals"))

    assert work(lab, id, Scripted(deleted), "hello")[0]["state"] == "dropped"


@pytest.mark.anyio
async def test_a_prompt_that_failed_often_is_asked_anew(lab: Lab) -> None:
    """Each later process asks again, and the first answer is kept."""
    refusals = [ModelError(words, is_transient=False) for words in ("no", "never", "not at all")]
    backend = Scripted(*refusals, say("fine"))
    found = []
    for _ in range(5):
        one = PerpetualAgent("asks", model="openai:x", lab=lab, backend=backend)
        try:
            found.append(await one.ask("why"))
        except PerpetualError:
            found.append("failed")
        await one.cleanup()
    assert (found, len(backend.requests)) == (["failed"] * 3 + ["fine"] * 2, 4)


@pytest.mark.anyio
async def test_a_prompt_that_was_not_awaited_is_paid_once(lab: Lab) -> None:
    """Asked again, it goes on with the request that was cut off, under its key."""

    class Slow(Scripted):
        async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
            self.requests.append(request)
            if len(self.requests) == 1:
                came.set()
                await asyncio.Event().wait()
            return self.script[0]  # type: ignore[return-value]

    came, backend = asyncio.Event(), Slow(say("fine"))
    one = PerpetualAgent("asks", model="openai:x", lab=lab, backend=backend)
    asked = asyncio.create_task(one.ask("why"))
    await came.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert await one.ask("why") == "fine"
    assert [request.key for request in backend.requests] == ["a1/m1/1", "a1/m1/1"]
    await one.cleanup()


@pytest.mark.anyio
async def test_a_handler_that_raises_does_not_end_the_agent(lab: Lab) -> None:
    """Its event stays in the inbox with the reason, and the events after it are handled."""
    heard, done = list[object](), asyncio.Event()

    def handle(event: dict) -> None:  # type: ignore[type-arg]
        heard.append(1 / int(event["data"]))
        done.set()

    one = PerpetualAgent("hears", lab=lab)
    await one.subscribe("t", handle)  # type: ignore[arg-type]
    await one.start()
    for data in ("0", "1"):
        Agents(lab).post("hears", data, type="t", data={"type": "t", "data": data})
    async with asyncio.timeout(20):
        await done.wait()
    health = await one.health_check()
    stays = Agents(lab).message("m1")
    assert (heard, stays["state"], health["healthy"]) == ([1.0], "pending", False)
    assert stays["error"]["message"] == "ZeroDivisionError: division by zero"
    await one.cleanup()


def test_a_label_is_no_id(lab: Lab) -> None:
    """A label in the form of an id would hide the checkpoint that has the id."""
    with pytest.raises(UsageError, match="form of an id"):
        Checkpoints(lab).take(agent(lab), label="K2")


@pytest.mark.anyio
async def test_a_tool_that_exits_fails(lab: Lab) -> None:
    """It ends neither the process nor the service, which would try it again and again."""

    def leave() -> None:
        sys.exit(3)

    with pytest.raises(ToolError, match="SystemExit"):
        await FunctionTool(leave).call({}, ToolContext(lab, Agents(lab).get(agent(lab)), "k"))


@pytest.mark.anyio
async def test_the_service_waits_after_any_fault(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent whose tool is gone is not tried without an end."""
    id = agent(lab, tools=["goals"])
    lab.records("agents.agent").update(id, tools=["gone"])
    Agents(lab).post(id, "hello")
    server = Server(lab, 2)
    async with asyncio.timeout(20):
        await server.run(lambda: bool(server.troubles))
    assert server.trouble == f"{id}: {id} has the tool gone, which there is not here any longer"


@pytest.mark.anyio
async def test_a_mean_of_words_and_models_says_so(lab: Lab) -> None:
    """It is called neither."""
    from perpetual_agents import LeadershipAgent

    class Sure(LeadershipAgent):
        async def evaluate_purpose_alignment(self, action: object) -> Alignment:
            return Alignment(0.5, ["sure"], "model")

    other = LeadershipAgent("words", purpose="measure val_loss", lab=lab)
    lead = Sure("lead", purpose="measure val_loss", lab=lab)
    decision = await lead.make_decision(["measure val_loss"], [other])
    assert decision["method"] == "mixed"
    assert "longer words weigh more" in by_words(await other.record(), "measure it").reasons[0]
    await other.cleanup()


def _set(*path: str | int, to: object) -> Callable[[Bundle], None]:
    def change(content: Bundle) -> None:
        place: Any = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


@pytest.mark.parametrize("change", [
    _set("checkpoints", 0, "snapshot", "goals", to=[{}]),
    _set("checkpoints", 0, "snapshot", "settings", to={"max_steps": "abc"}),
    _set("checkpoints", 0, "snapshot", "tools", to=["goals", 5]),
    _set("checkpoints", 0, "snapshot", "model", to={"a": 1}),
    _set("checkpoints", 0, "snapshot", to={}),
    _set("checkpoints", 0, "after", to=-1000),
    _set("checkpoints", 0, "after", to=True),
    _set("checkpoints", 0, "label", to="k1"),
    _set("tools", to=None),
    _set("counters", to={"turns": -5}),
    _set("steps", 0, "body", to={}),
    _set("steps", 1, "body", to={"message": {"role": "user", "text": 5}}),
    _set("steps", 1, "body", to={"message": {"role": "assistant", "text": "x", "calls": [5]}}),
    _set("steps", 1, "body", to={"message": {"role": "assistant", "text": "x", "calls": "abc"}}),
])  # fmt: skip
def test_a_bundle_that_would_break_later_is_refused(lab: Lab, tmp_path: Path, change: Callable[[Bundle], None]) -> None:
    """Its hash fits, as anyone can make one; nothing of it is kept."""
    id = agent(lab)
    work(lab, id, Scripted(say("hi")), "hello")
    Checkpoints(lab).take(id, label="past")
    bundle.write(lab, id, str(tmp_path / "good.json"))
    content: Bundle = json.loads((tmp_path / "good.json").read_text())
    del content["sha256"]
    change(content)
    form = json.dumps(content, sort_keys=True).encode()
    (tmp_path / "bad.json").write_text(json.dumps({**content, "sha256": sha256(form).hexdigest()}))
    with pytest.raises((CorruptData, UsageError)):
        bundle.read(lab, str(tmp_path / "bad.json"), name="other")
    assert Agents(lab).count()["total"] == 1


def test_a_checkpoint_of_a_bundle_has_no_hypothesis_of_another_project(lab: Lab, tmp_path: Path) -> None:
    """An id of another project would name another hypothesis here."""
    hypothesis = lab.hypotheses.add("less is more").id
    id = Agents(lab).create("scout", model="test:echo", hypothesis=hypothesis).id
    Checkpoints(lab).take(id, label="past")
    bundle.write(lab, id, str(tmp_path / "good.json"))
    other = bundle.read(lab, str(tmp_path / "good.json"), name="other")
    restored, _ = Checkpoints(lab).restore(other.id, "past")
    assert (other.hypothesis, restored.hypothesis, restored.model) == (None, None, "test:echo")


def test_a_bundle_is_a_file(lab: Lab) -> None:
    """A device would be read without an end."""
    with pytest.raises(NotFound, match="no file"):
        bundle.read(lab, "/dev/zero")


@pytest.mark.anyio
async def test_a_handler_that_waits_for_its_own_agent_is_refused(lab: Lab) -> None:
    """It would wait for itself for ever; what it sends itself comes after it."""
    one, heard = PerpetualAgent("asks", model="test:echo", lab=lab), list[object]()

    async def handle(event: dict) -> None:  # type: ignore[type-arg]
        heard.append(event["data"])
        if event["data"] == "first":
            heard.append((await one.handle_event({"type": "t", "data": "second"}))["status"])
            with pytest.raises(Conflict, match="this very call"):
                await one.ask("why")

    await one.subscribe("t", handle)  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        await one.handle_event({"type": "t", "data": "first"})
    assert heard == ["first", "pending"]
    await one.cleanup()


@pytest.mark.anyio
async def test_a_value_that_cannot_be_kept_leaves_the_state_as_it_was(lab: Lab) -> None:
    """Later changes are saved."""
    one = PerpetualAgent("keeps", lab=lab)
    await one.initialize()
    with pytest.raises(UsageError, match="persisted"):
        await one.update_state("bad", {1, 2})
    await one.update_state("good", 1)
    assert await one.get_state() == {"good": 1}
    await one.cleanup()


def test_the_name_of_an_agent_of_a_program_is_no_id() -> None:
    """It would take over another agent, with its tools."""
    with pytest.raises(UsageError, match="form of an id"):
        PerpetualAgent("a1")


@pytest.mark.anyio
async def test_no_options_are_none(lab: Lab) -> None:
    """An empty list is not itself an option."""
    one = PerpetualAgent("decides", purpose="measure", lab=lab)
    decision = await one.make_purpose_driven_decision({"options": []})
    assert decision["reasons"] == ["no options were given"]
    await one.cleanup()


def test_a_bundle_that_cannot_be_written_is_said(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is no lost answer."""

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("perpetual_agents.bundle.write_atomic", full)
    with pytest.raises(PerpetualError, match="could not be written: No space left"):
        bundle.write(lab, agent(lab), str(tmp_path / "x.json"))


def test_those_that_wait_hear_why_a_message_is_not_taken_up(lab: Lab) -> None:
    """The service could not run the agent: the one that waits would wait for ever."""
    id = agent(lab)
    lab.records("agents.agent").update(id, tools=["gone"])
    Agents(lab).post(id, "before it")
    posted = Agents(lab).post(id, "hello")

    def serve() -> None:
        with Lab.open(lab.root) as own, suppress(PerpetualError):
            asyncio.run(Worker(own, id).work())

    server = threading.Timer(0.2, serve)
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operations, "is_served", lambda lab: True)
            with pytest.raises(PerpetualError, match="the tool gone"):
                operations.watched(lab, posted.id, 30.0)
    finally:
        server.join()
    assert Agents(lab).message(posted.id)["state"] == "pending"
