"""Agents that do the same failing thing again and again: paused with a reason, before the next request is paid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from perpetual import Lab
from perpetual.api import Record
from perpetual_agents.agents import Agents
from perpetual_agents.handlers.loops import LoopsHandler, alike
from perpetual_agents.model import ModelError, ModelReply, ModelRequest
from perpetual_agents.operations import resume
from perpetual_agents.serving import Worker
from perpetual_agents.tools import FunctionTool, ToolError
from tests.plugins.agents.support import Scripted, agent, call, say

TRIES: list[str] = []


def flaky(path: str) -> str:
    """Fails for every path but one."""
    TRIES.append(path)
    if path != "good":
        raise ToolError(f"no such file: {path}, at 0x7f{len(TRIES):04x} after {len(TRIES)} s")
    return "read"


@pytest.fixture(autouse=True)
def quick(lab: Lab) -> None:
    TRIES.clear()
    lab.settings.set_config("plugins.agent_handler.loops.backoff_s", "0")


def work(lab: Lab, id: str, backend: Scripted, *texts: str) -> list[Record]:
    """Works on texts; answers the agent's messages, oldest first."""
    for text in texts:
        Agents(lab).post(id, text)
    asyncio.run(Worker(lab, id, backend=backend, own_tools={"flaky": FunctionTool(flaky)}).work())
    return [*Agents(lab).messages(id).items][::-1]


def tries(*paths: str) -> Callable[[ModelRequest], ModelReply]:
    """A model that tries the paths one after the other, the last one for ever."""
    left = [*paths]

    def answer(request: ModelRequest) -> ModelReply:
        path = left.pop(0) if len(left) > 1 else left[0]
        return say("", call("flaky", path=path)) if path else say("done")

    return answer


def test_the_same_failing_call_pauses_the_agent_and_a_person_who_resumes_gives_a_fresh_count(lab: Lab) -> None:
    id, backend = agent(lab), Scripted(tries("bad"))
    (message,) = work(lab, id, backend, "read it")
    assert TRIES == ["bad"] * 3
    assert len(backend.requests) == 3  # the fourth was not paid
    found = Agents(lab).get(id)
    assert (found.state, message["state"]) == ("paused", "pending")
    assert "called flaky 3 times with the same arguments" in str(found.reason)
    assert "failed: no such file: bad" in str(found.reason)
    assert "untrusted" not in str(found.reason)
    (moved,) = [event for event in lab.feed.read() if event.payload.get("to") == "paused"]
    assert moved.payload["reason"] == found.reason
    resume(lab, id)
    work(lab, id, backend)
    assert TRIES == ["bad"] * 6
    assert Agents(lab).get(id).state == "paused"
    resume(lab, id)
    assert work(lab, id, Scripted(tries("bad", "good", "")))[0]["answer"] == "done"
    assert TRIES == ["bad"] * 7 + ["good"]


@pytest.mark.parametrize("paths", [
    ("a", "a", "b", "b", ""), ("a", "a", "good", "a", "a", ""), ("a", "b", "a", "b", ""), ("a", "b", "c", "d", ""),
])  # fmt: skip
def test_what_changes_its_arguments_or_succeeds_is_no_loop(lab: Lab, paths: tuple[str, ...]) -> None:
    (message,) = work(lab, agent(lab), Scripted(tries(*paths)), "read it")
    assert message["answer"] == "done"


def test_two_failing_calls_in_turns_are_a_loop(lab: Lab) -> None:
    id = agent(lab)
    work(lab, id, Scripted(tries("a", "b", "a", "b", "a", "b", "a")), "read it")
    assert Agents(lab).get(id).state == "paused"
    assert TRIES == ["a", "b", "a", "b", "a"]


def test_the_agents_setting_says_how_often(lab: Lab) -> None:
    id = agent(lab, settings={"loop_after": 5})
    work(lab, id, Scripted(tries("bad")), "read it")
    assert len(TRIES) == 5


def test_a_process_that_is_killed_after_the_last_failure_pauses_where_it_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has three failures, and the agent was not paused yet."""
    id, backend = agent(lab), Scripted(tries("bad"))
    monkeypatch.setattr(LoopsHandler, "model", lambda self, turn, request, proceed: proceed(request))

    def dies(request: ModelRequest) -> ModelReply:
        raise KeyboardInterrupt

    backend.script = [tries("bad"), tries("bad"), tries("bad"), dies]
    with pytest.raises(KeyboardInterrupt):
        work(lab, id, backend, "read it")
    monkeypatch.undo()
    assert Agents(lab).get(id).state == "running"
    again = Scripted(tries("bad"))
    work(lab, id, again)
    assert Agents(lab).get(id).state == "paused"
    assert again.requests == []
    assert len(TRIES) == 3


def test_the_same_error_of_a_model_in_turns_one_after_the_other_pauses(lab: Lab) -> None:
    id, backend = agent(lab), Scripted(ModelError("the key 123 was refused"), ModelError("the key 456 was refused"))
    states = [one["state"] for one in work(lab, id, backend, "one", "two", "three", "four")]
    assert states == ["failed", "failed", "pending", "pending"]
    found = Agents(lab).get(id)
    assert found.state == "paused"
    assert "failed 3 times in a row with: the key 456 was refused" in str(found.reason)
    resume(lab, id)
    states = [one["state"] for one in work(lab, id, Scripted(ModelError("the key 456 was refused"), say("well")))]
    assert states == ["failed", "failed", "failed", "done"]


def test_other_errors_and_answers_between_are_no_loop(lab: Lab) -> None:
    id = agent(lab)
    backend = Scripted(ModelError("one"), ModelError("one"), say("well"), ModelError("one"), ModelError("two"),
                       ModelError("one"))  # fmt: skip
    work(lab, id, backend, *"abcdef")
    assert Agents(lab).get(id).state == "running"


def test_a_repetition_waits_longer_each_time(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.settings.set_config("plugins.agent_handler.loops.backoff_s", "2")
    waits: list[float] = []
    monkeypatch.setattr("perpetual_agents.handlers.loops.sleep", _noted(waits))
    id = agent(lab)
    work(lab, id, Scripted(tries("bad", "bad", "bad")), "read it")
    assert waits == [2.0, 4.0]
    resume(lab, id)
    work(lab, id, Scripted(tries("good", "")))
    assert waits == [2.0, 4.0]  # those of the journal were not waited for again


def _noted(waits: list[float]) -> Callable[[float], object]:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return sleep


def test_errors_that_differ_by_numbers_are_alike() -> None:
    assert alike("at 0x7f01 after 3 s") == alike("at 0x7fab after 12 s")
    assert alike("no such file: a") != alike("no such file: b")
