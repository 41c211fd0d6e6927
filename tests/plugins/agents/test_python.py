"""The Python interface, as users of an agent operating system know it; and what holds there: nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypedDict
from unittest.mock import AsyncMock

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NoProject, NotFound, PerpetualError, UsageError
from perpetual_agents import (
    AgentManager,
    Agents,
    GenericPurposeDrivenAgent,
    IllegalMove,
    LeadershipAgent,
    ModelReply,
    ModelRequest,
    PerpetualAgent,
    PurposeDrivenAgent,
    ToolContext,
    UnpersistableState,
    prompt,
    tool,
)
from perpetual_agents.alignment import by_words
from tests.plugins.agents.support import Scripted, call, say

pytestmark = pytest.mark.anyio


class Module(TypedDict):
    """One module of a plan."""

    path: str
    api: str


@dataclass
class Finding:
    """A value that a typed state holds."""

    name: str
    effect: float


class Recorder(PurposeDrivenAgent):
    """You record findings."""

    findings: list[Finding] = []  # noqa: RUF012 - each object has a copy of its own
    seen: set[int]
    limit: int = 3
    shared: ClassVar[list[str]] = []
    _scratch: object = None

    async def handle_event(self, event: Mapping[str, object]) -> dict[str, object]:
        """Keeps what an event found."""
        self.findings.append(Finding(str(event["name"]), float(str(event["effect"]))))
        return await super().handle_event(event)


async def test_as_its_skill_document_says(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create, initialize, start, events, goals; a restart; the state is there again."""
    monkeypatch.chdir(lab.root)
    agent = GenericPurposeDrivenAgent(agent_id="ceo", purpose="Strategic growth", adapter_name="ceo",
                                      purpose_scope="Major decisions", success_criteria=["Revenue growth"])  # fmt: skip
    await agent.initialize()
    assert agent.context_server is not None
    await agent.start()
    await agent.update_state("test_key", "test_value")
    assert await agent.get_state("test_key") == "test_value"
    alignment = await agent.evaluate_purpose_alignment({"type": "hire", "role": "engineer"})
    assert isinstance(alignment, float)
    assert 0.0 <= alignment <= 1.0
    goal = await agent.add_goal("Increase revenue by 50%")
    await agent.update_goal(goal, status="in_progress", progress=0.25)
    await agent.handle_event({"type": "test_event", "data": "test"})
    assert await agent.get_state("last_event") == {"type": "test_event", "data": "test"}
    await agent.cleanup()

    again = GenericPurposeDrivenAgent(agent_id="ceo", purpose="Strategic growth")
    await again.initialize()
    assert await again.get_state("test_key") == "test_value"
    assert await again.get_state() == {"test_key": "test_value", "last_event": {"type": "test_event", "data": "test"}}
    (kept,) = await again.get_goals()
    assert (kept["text"], kept["status"], kept["progress"]) == ("Increase revenue by 50%", "in_progress", 0.25)
    record = await again.record()
    assert (record.state, record.adapter, record.scope) == ("running", "ceo", "Major decisions")
    assert record.counters["wakes"] == 1
    await again.stop()
    assert (await again.record()).state == "stopped"
    await again.cleanup()


async def test_a_context_server_may_be_replaced(lab: Lab) -> None:
    """As tests of such agents do."""
    agent = PerpetualAgent(agent_id="test", adapter_name="test", lab=lab)
    agent.context_server = server = AsyncMock()
    server.save_state = AsyncMock(return_value=True)
    server.load_state = AsyncMock(return_value={})
    await agent.initialize()
    await agent.update_state("key", "value")
    server.save_state.assert_called()
    assert server.save_state.call_args.args[0]["state"] == {"key": "value"}


async def test_typed_state_is_persisted_whole(lab: Lab) -> None:
    """Lists of dataclasses, sets and defaults come back as what they were; objects share no default."""
    one = Recorder("recorder", "record", lab=lab)
    await one.initialize()
    one.seen = {3, 1}
    one.limit = 7
    await one.handle_event({"type": "found", "name": "warmup", "effect": 0.5})
    assert Recorder("another", "record", lab=lab).findings == []
    await one.cleanup()
    two = Recorder("recorder", "record", lab=lab)
    await two.initialize()
    assert (two.findings, two.seen, two.limit) == ([Finding("warmup", 0.5)], {1, 3}, 7)
    assert two.system_prompt == "You record findings."
    two.limit = "many"  # type: ignore[assignment]
    with pytest.raises(UsageError, match="limit"):
        await two.save_state()


@pytest.mark.parametrize(
    ("annotation", "words"),
    [(threading.Lock, "lock"), (object, "JSON"), (Any, "JSON"), (Callable[[], int], "JSON"), ("Missing", "Missing"),
     (int | threading.Thread, "Thread")],
)  # fmt: skip
def test_a_type_that_cannot_be_persisted_is_an_error_at_definition(annotation: object, words: str) -> None:
    """The class is not made; the error names the field."""
    with pytest.raises(UnpersistableState, match=f"(?s)Bad.*{words}"):
        type("Bad", (PerpetualAgent,), {"__annotations__": {"field": annotation}, "__module__": __name__})


async def test_state_that_json_cannot_carry_is_named(lab: Lab) -> None:
    """NaN, objects, keys that are no text, and a secret: nothing of it is saved, what was saved stays."""
    agent = PerpetualAgent("state", lab=lab)
    await agent.initialize()
    await agent.update_state("fine", 1)
    for bad in (float("nan"), object(), {"x": {1, 2}}, b"bytes"):
        with pytest.raises(UsageError, match="bad"):
            await agent.update_state("bad", bad)
        assert "bad" not in agent.state
    agent.state[7] = 1  # type: ignore[index]
    with pytest.raises(UsageError, match="7"):
        await agent.save_state()
    del agent.state[7]  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        await agent.update_state("token", "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5")
    again = PerpetualAgent("state", lab=lab)
    await again.initialize()
    assert await again.get_state() == {"fine": 1}


async def test_the_lexical_measure_says_what_it_is(lab: Lab) -> None:
    """It is no constant: nothing in common is 0, the purpose itself is 1, and more in common is more."""
    agent = GenericPurposeDrivenAgent("lex", "lower the validation loss of small models", lab=lab)
    nothing = await agent.evaluate_purpose_alignment("bake a cake")
    some = await agent.evaluate_purpose_alignment("measure the validation loss of cakes")
    all_ = await agent.evaluate_purpose_alignment("lower the validation loss of small models")
    assert nothing == 0.0
    assert 0.0 < some < 1.0
    assert all_ == 1.0
    assert some.method == "lexical"
    assert "validation" in some.reasons[0]
    assert "not meaning" in some.reasons[1]
    assert await agent.evaluate_purpose_alignment("") == 0.0
    decision = await agent.make_purpose_driven_decision({"options": ["bake a cake", "measure validation loss"]})
    assert decision["decision"] == "measure validation loss"
    assert decision["scores"][0] == 0.0
    none = await agent.make_purpose_driven_decision({"options": ["bake", "sleep"]})
    assert none["decision"] is None
    assert "none is taken" in none["reasons"][-1]
    assert (await agent.make_purpose_driven_decision({}))["decision"] is None
    tie = await agent.make_purpose_driven_decision(["loss alpha", "loss gamma"])
    assert "2 options have this score" in tie["reasons"][-1]
    bare = PerpetualAgent("bare", lab=lab)
    await bare.initialize()
    assert by_words(await bare.record(), "anything").reasons == ("the agent has no purpose to hold the action against",)


async def test_a_model_judges_where_there_is_one(lab: Lab) -> None:
    """Its answer has a type; one that does not fit is asked for again, and in the end is an error."""
    backend = Scripted(say("certainly!"), say('```json\n{"score": 0.8, "reasons": ["it measures"]}\n```'))
    agent = GenericPurposeDrivenAgent("judge", "lower the loss", lab=lab, model="openai:m", backend=backend)
    found = await agent.evaluate_purpose_alignment("measure the loss")
    assert (found, found.method, found.reasons) == (0.8, "model", ("it measures",))
    assert backend.requests[0].output is not None
    assert "does not fit" in backend.requests[1].messages[-1]["text"]
    never = GenericPurposeDrivenAgent("never", "p", lab=lab, model="openai:m", backend=Scripted(say("no json")))
    with pytest.raises(PerpetualError, match="3 answers that do not fit"):
        await never.evaluate_purpose_alignment("x")


class Architect(PerpetualAgent):
    """You plan small libraries."""

    rounds: int = 0

    @tool
    def files(self) -> list[str]:
        """Lists the files that there are."""
        return ["a.py"]

    @tool
    async def write(self, path: str, text: str, context: ToolContext) -> str:
        """Writes a file."""
        Architect.written.append((path, context.key))
        return f"wrote {path}"

    @prompt
    async def plan(self, spec: str, most: int = 3) -> list[Module]:
        """Split this into at most {most} modules, leave out what `files` lists: {spec}"""
        raise NotImplementedError

    written: ClassVar[list[tuple[str, str]]] = []


async def test_prompts_are_typed_and_answered_once_in_a_session(lab: Lab) -> None:
    """Tools are called by the model; a restart of the program repeats no call, another session asks anew."""

    def answer(request: ModelRequest) -> ModelReply:
        results = [message["text"] for message in request.messages if message["role"] == "tool"]
        if not results:
            assert {one.name for one in request.tools} == {"files", "write"}
            return say("", call("files"), call("write", id="c2", path="b.py", text="x"))
        assert "a.py" in results[0]
        return say('[{"path": "b.py", "api": "f()"}]')

    Architect.written.clear()
    backend = Scripted(answer)
    one = Architect("architect", model="openai:m", lab=lab, backend=backend)
    plan = await one.plan("a library", most=2)
    assert plan == [{"path": "b.py", "api": "f()"}]
    assert "at most 2 modules" in backend.requests[0].messages[-1]["text"]
    assert len(backend.requests) == 2
    again = Architect("architect", model="openai:m", lab=lab, backend=backend)
    assert await again.plan("a library", most=2) == plan
    assert len(backend.requests) == 2
    assert await again.plan("a library", most=2) == plan  # the second time in one program: a new question
    assert len(backend.requests) > 2
    asked = len(backend.requests)
    other = Architect("architect", model="openai:m", lab=lab, backend=backend, session="tomorrow")
    await other.plan("a library", most=2)
    assert len(backend.requests) > asked
    assert len({key for _, key in Architect.written}) == len(Architect.written)


def test_prompts_and_tools_that_cannot_be_are_errors_at_definition(lab: Lab) -> None:
    """No docstring, an argument that is not taken, no coroutine; a parameter that JSON cannot carry."""
    with pytest.raises(UsageError, match="docstring"):

        @prompt
        async def nothing(self: object) -> str:
            return ""

    with pytest.raises(UsageError, match="missing"):

        @prompt
        async def strange(self: object) -> str:
            """Says {missing}."""
            return ""

    with pytest.raises(UsageError, match="coroutine"):

        @prompt  # type: ignore[arg-type]
        def plain(self: object) -> str:
            """Says."""
            return ""

    from perpetual_agents.tools import FunctionTool

    for function in (lambda x: x, lambda x, /: x):
        with pytest.raises(UsageError):
            FunctionTool(function)

    def odd(lock: threading.Lock) -> str:
        return ""

    with pytest.raises(UsageError, match="odd"):
        FunctionTool(odd)


async def test_act_calls_a_tool_or_asks_the_model(lab: Lab) -> None:
    """A text is a task; a mapping names a tool; what is neither is an error."""
    one = Architect("architect", model="openai:m", lab=lab, backend=Scripted(say("done")))
    assert await one.act("do it") == "done"
    assert await one.act({"tool": "files"}) == '["a.py"]'
    with pytest.raises(UsageError, match="no tool"):
        await one.act({"type": "fly"})
    with pytest.raises(UsageError):
        await one.act({"tool": "files", "args": 7})
    bare = PerpetualAgent("bare", lab=lab)
    with pytest.raises(PerpetualError, match="no model"):
        await bare.act("do it")


async def test_the_manager_keeps_agents_running(lab: Lab) -> None:
    """Registered with and without awaiting; events reach subscribers once; health is honest."""
    manager = AgentManager(lab)
    lead = LeadershipAgent(agent_id="lead", lab=lab)
    manager.register_agent(lead)
    cfo = LeadershipAgent(agent_id="cfo", purpose="watch the budget of the lab", lab=lab)
    assert await manager.register_agent(cfo)
    assert manager.list_agents() == ["lead", "cfo"]
    with pytest.raises(Conflict):
        manager.register_agent(LeadershipAgent(agent_id="cfo", purpose="p", lab=lab))
    heard: list[object] = []
    arrived = asyncio.Event()

    def hear(event: Mapping[str, object]) -> None:
        heard.append(event["data"])
        arrived.set()

    await cfo.subscribe("spent", hear)
    assert await manager.publish({"type": "spent", "data": {"usd": 5}, "id": "1"}) == ["cfo"]
    await asyncio.wait_for(arrived.wait(), 20)
    await manager.publish({"type": "spent", "data": {"usd": 5}, "id": "1"})
    await manager.publish({"type": "else", "data": 1})
    assert heard == [{"usd": 5}]
    statistics = manager.get_agent_statistics()
    assert (statistics["registered"], statistics["total_agents"]) == (2, 2)
    health = await manager.health_check_all()
    assert health["cfo"]["healthy"] is True
    assert health["cfo"]["state"] == "running"
    decision = await lead.make_decision(["spend the budget of the lab", "dance"], [cfo])
    assert decision["decision"] == "spend the budget of the lab"
    await manager.deregister_agent("lead")
    with pytest.raises(NotFound):
        manager.get_agent("lead")
    assert Agents(lab).get("lead").state == "stopped"
    await manager.close()
    assert Agents(lab).get("cfo").state == "running"


async def test_events_that_came_while_nobody_listened_are_handled_at_the_start(lab: Lab) -> None:
    """The inbox is durable; a stopped agent takes none."""
    one = GenericPurposeDrivenAgent("late", "p", lab=lab)
    await one.start()
    await one.subscribe("tick")
    await one.cleanup()
    Agents(lab).post("late", "", type="tick", data={"type": "tick", "data": 1})
    two = GenericPurposeDrivenAgent("late", "p", lab=lab)
    heard = asyncio.Event()
    await two.subscribe("tick", lambda event: heard.set())
    await two.start()
    await asyncio.wait_for(heard.wait(), 20)
    await two.stop()
    with pytest.raises(Conflict):
        await two.handle_event({"type": "tick"})
    with pytest.raises(IllegalMove):
        await two.pause()


async def test_outside_of_a_project_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a purpose is needed where a purpose is promised."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoProject):
        await PerpetualAgent("x").initialize()
    with pytest.raises(UsageError, match="purpose"):
        GenericPurposeDrivenAgent("x")
    agent = PerpetualAgent("x")
    with pytest.raises(Conflict, match="initialize"):
        await agent.save_state()
