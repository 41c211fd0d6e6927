"""The contract suite of handlers of agents: the promises of `perpetual_agents.handler` as tests.

    class TestAcme(HandlerContract):
        @pytest.fixture
        def handler(self):
            return acme.handler.build({})

The suite makes its own projects and agents, and a model that says what the suite wants. A handler may refuse a step
with a PerpetualError, or suspend it: it keeps every promise then as well.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import time
from collections.abc import Awaitable, Coroutine, Sequence
from typing import TypeVar

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError
from perpetual_agents.handler import Handler, Suspend
from perpetual_agents.messages import Call, Message, assistant, summary, tool_result, user
from perpetual_agents.model import ModelError, ModelReply, ModelRequest
from perpetual_agents.testing.labs import Adds, OfProjects, Says, make_agent, make_turn

__all__ = ["HandlerContract"]

Found = TypeVar("Found")
Outcome = Message | PerpetualError | Suspend
_ENDS_S = 2.0  # within which a cancelled turn ends
_STARTS_S = 0.3
_GAP_S = 0.5  # for which the event loop may be held
_TICK_S = 0.02
_LIMIT_S = 60.0
_ENDS = ModelReply("It is two.", (), 7, 3, 0.0, "contract")


def _run(work: Coroutine[object, object, Found]) -> Found:
    return asyncio.run(asyncio.wait_for(work, _LIMIT_S))


async def _outcome(work: Awaitable[Message]) -> Outcome:
    """Returns the message, or what may be raised instead."""
    try:
        return await work
    except (PerpetualError, Suspend) as problem:
        return problem


def _call() -> Call:
    return {"id": "call00001", "name": "add", "args": {"a": 1}}


def _model() -> Says:
    """Returns a model that calls the tool and then ends."""
    return Says(ModelReply("", (_call(),), 7, 3, 0.0, "contract"), _ENDS)


def _is_sound(messages: Sequence[Message]) -> bool:
    """Returns whether each call of a tool has its result, after it and before what is said next."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("call") not in waiting:
                return False
            waiting.discard(message.get("call", ""))
            continue
        if waiting:
            return False
        waiting = {call["id"] for call in message.get("calls", ())}
    return not waiting


class HandlerContract(OfProjects):
    """For every handler; see the module."""

    def test_a_turn_goes_through(self, handler: Handler, lab: Lab) -> None:
        """The model's last words are the answer, and each request has its calls with their results."""
        backend, tool = _model(), Adds()
        found = _run(_outcome(make_turn(lab, make_agent(lab), [handler], backend, tool).run()))
        assert all(_is_sound(request.messages) for request in backend.asked)
        if isinstance(found, dict):
            assert found["role"] == "assistant"
            assert found["text"] == "It is two."
            assert not found.get("calls")

    def test_what_it_is_given_is_not_changed(self, handler: Handler, lab: Lab) -> None:
        """A handler hands a changed copy on."""
        turn = make_turn(lab, make_agent(lab), [handler], Says(_ENDS), Adds())
        past = _past()
        request = ModelRequest(
            "test:contract", "Be brief.", [*past, user("And?", "user:x")], [Adds.spec], 60, "k", 10.0
        )
        call = _call()
        before = copy.deepcopy((past, request, call))

        async def work() -> None:
            turn.key = "k/1"
            await _quietly(handler.history(turn, past))
            await _quietly(handler.model(turn, request, _replies))
            turn.key = "k/2"
            await _quietly(handler.tool(turn, call, _results))

        _run(work())
        assert (past, request, call) == before

    def test_a_history_keeps_calls_with_their_results(self, handler: Handler, lab: Lab) -> None:
        """No provider takes one without the other."""
        turn = make_turn(lab, make_agent(lab), [handler], Says(_ENDS), Adds())

        async def work() -> list[Message]:
            try:
                return await handler.history(turn, _past())
            except (PerpetualError, Suspend):
                return []

        assert _is_sound(_run(work()))

    def test_a_result_answers_its_call(self, handler: Handler, lab: Lab) -> None:
        """Whatever a handler makes of it, or answers instead."""
        turn = make_turn(lab, make_agent(lab), [handler], Says(_ENDS), Adds())

        async def work() -> Outcome:
            turn.key = "k/1"
            return await _outcome(handler.tool(turn, _call(), _results))

        found = _run(work())
        if isinstance(found, dict):
            assert (found["role"], found.get("call")) == ("tool", _call()["id"])

    def test_an_error_of_a_model_stays_one(self, handler: Handler, lab: Lab) -> None:
        """It is not taken for a fault of the handler."""
        backend = Says(ModelError("the model has no answer"))
        found = _run(_outcome(make_turn(lab, make_agent(lab), [handler], backend, Adds()).run()))
        assert isinstance(found, PerpetualError | Suspend | dict)

    def test_a_turn_that_is_suspended_stays_so(self, handler: Handler, lab: Lab) -> None:
        """What waits, waits: a handler around it makes no answer of it."""

        async def waits() -> Message:
            raise Suspend("a person is asked")

        turn = make_turn(lab, make_agent(lab), [handler], Says(_ENDS), Adds())
        assert isinstance(_run(_outcome(handler.turn(turn, waits))), Suspend)

    def test_it_holds_no_event_loop(self, handler: Handler, lab: Lab) -> None:
        """Other agents go on meanwhile."""
        agent = make_agent(lab)

        async def work() -> float:
            ticks = [time.monotonic()]

            async def tick() -> None:
                while True:
                    await asyncio.sleep(_TICK_S)
                    ticks.append(time.monotonic())

            ticking = asyncio.ensure_future(tick())
            turn = await asyncio.to_thread(make_turn, lab, agent, [handler], _model(), Adds())
            await _outcome(turn.run())
            ticking.cancel()
            ticks.append(time.monotonic())
            return max(after - before for before, after in itertools.pairwise(ticks))

        gaps = [_run(work()) for _ in range(3)]  # another process may hold this one up
        assert min(gaps) < _GAP_S, f"the event loop was held for {min(gaps):.1f} s"

    def test_turns_of_two_agents_keep_out_of_each_others_way(self, handler: Handler, lab: Lab) -> None:
        """A handler keeps nothing of one agent for another."""
        replies = {name: ModelReply(f"I am {name}.", (), 7, 3, 0.0, "contract") for name in ("one", "two")}
        turns = {name: make_turn(lab, make_agent(lab, name), [handler], Says(reply), Adds())
                 for name, reply in replies.items()}  # fmt: skip

        async def work() -> list[Outcome]:
            return await asyncio.gather(*(_outcome(turn.run()) for turn in turns.values()))

        for name, found in zip(turns, _run(work()), strict=True):
            if isinstance(found, dict):
                assert found["text"] == f"I am {name}."

    def test_a_turn_may_be_taken_up_again(self, handler: Handler, lab: Lab) -> None:
        """After a crash the same turn comes once more, and comes out alike."""
        agent = make_agent(lab)
        first = make_turn(lab, agent, [handler], _model(), Adds())
        before = _run(_outcome(first.run()))
        again = make_turn(lab, agent, [handler], _model(), Adds(), first.id)
        after = _run(_outcome(again.run()))
        assert type(after) is type(before)
        if isinstance(before, dict) and isinstance(after, dict):
            assert after["text"] == before["text"]

    @pytest.mark.parametrize("where", ["model", "tool"])
    def test_it_can_be_cancelled(self, handler: Handler, lab: Lab, where: str) -> None:
        """A turn that goes on ends soon after."""
        backend = Says(_ENDS, waits=True) if where == "model" else _model()
        turn = make_turn(lab, make_agent(lab), [handler], backend, Adds(waits=where == "tool"))

        async def work() -> float:
            task = asyncio.ensure_future(_outcome(turn.run()))
            await asyncio.wait([task], timeout=_STARTS_S)
            began = time.monotonic()
            task.cancel()
            await asyncio.wait([task], timeout=3 * _ENDS_S)
            assert task.done(), f"it goes on {3 * _ENDS_S:g} s after it was cancelled"
            return time.monotonic() - began

        took = _run(work())
        assert took <= _ENDS_S, f"it ended {took:.1f} s after it was cancelled"


def _past() -> list[Message]:
    call = _call()
    return [summary("They have met.", 3), user("Add one.", "user:x"), assistant("", [call], model="contract"),
            tool_result(call, "2"), assistant("It is two.", [], model="contract")]  # fmt: skip


async def _replies(request: ModelRequest) -> ModelReply:
    return _ENDS


async def _results(call: Call) -> Message:
    return tool_result(call, "2")


async def _quietly(work: Awaitable[object]) -> None:
    try:
        await work
    except (PerpetualError, Suspend):
        return
