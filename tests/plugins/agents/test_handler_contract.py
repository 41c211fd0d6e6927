"""The bundled handlers and tools of agents keep the promises of their slots, and the suites fail on each broken one."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from perpetual import Lab
from perpetual_agents.data import Agent
from perpetual_agents.event_tools import build_ask, build_timers
from perpetual_agents.handler import Handler, Suspend
from perpetual_agents.handlers import approval, checkpoint, history, journal, limits, loops, retry, scan
from perpetual_agents.lab_tools import GoalTools, LabTools
from perpetual_agents.memory_tools import build as build_memory
from perpetual_agents.messages import Call, Message, assistant, tool_result
from perpetual_agents.model import ModelError, ModelReply, ModelRequest
from perpetual_agents.testing.handlers import HandlerContract
from perpetual_agents.testing.labs import OfProjects
from perpetual_agents.testing.tools import AgentToolContract
from perpetual_agents.tools import AgentTool, FunctionTool, ToolContext
from perpetual_agents.turn import Turn

Ask = Callable[[ModelRequest], Awaitable[ModelReply]]
Run = Callable[[Call], Awaitable[Message]]


@pytest.mark.slow
class TestCheckpoint(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return checkpoint.build({})


class TestJournal(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return journal.build({})


@pytest.mark.slow
class TestScan(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return scan.build({})


@pytest.mark.slow
class TestRetry(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return retry.build({"times": 2, "first_s": 0.01, "longest_s": 1.0})


@pytest.mark.slow
class TestLimits(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return limits.build({"usd_per_call": 0.05})


@pytest.mark.slow
class TestHistory(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return history.build({})


@pytest.mark.slow
class TestApproval(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return approval.build({})


@pytest.mark.slow
class TestLoops(HandlerContract):
    @pytest.fixture
    def handler(self) -> Handler:
        return loops.build({"backoff_s": 0.0})


@pytest.mark.slow
class TestTimerTools(AgentToolContract):
    @pytest.fixture
    def tool(self) -> AgentTool:
        return build_timers({})


@pytest.mark.slow
class TestAskTools(AgentToolContract):
    @pytest.fixture
    def tool(self) -> AgentTool:
        return build_ask({})


@pytest.mark.slow
class TestLabTools(AgentToolContract):
    @pytest.fixture
    def tool(self) -> AgentTool:
        return LabTools()


class TestGoalTools(AgentToolContract):
    @pytest.fixture
    def tool(self) -> AgentTool:
        return GoalTools()


@pytest.mark.slow
class TestMemoryTools(AgentToolContract):
    @pytest.fixture
    def tool(self) -> AgentTool:
        return build_memory({})


# handlers that break a promise


class AnswersForTheModel(Handler):
    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        await proceed()
        return assistant("It is three.", [], model="mine")


class Appends(Handler):
    async def history(self, turn: Turn, messages: list[Message]) -> list[Message]:
        messages.append(assistant("hm", [], model="mine"))
        return messages


class ChangesArguments(Handler):
    async def tool(self, turn: Turn, call: Call, proceed: Run) -> Message:
        call["args"]["seen"] = True
        return await proceed(call)


class DropsResults(Handler):
    async def history(self, turn: Turn, messages: list[Message]) -> list[Message]:
        return [message for message in messages if message["role"] != "tool"]


class AnswersAnotherCall(Handler):
    async def tool(self, turn: Turn, call: Call, proceed: Run) -> Message:
        await proceed(call)
        return tool_result({"id": "mine", "name": call["name"], "args": {}}, "2")


class TakesAnErrorForAFault(Handler):
    async def model(self, turn: Turn, request: ModelRequest, proceed: Ask) -> ModelReply:
        try:
            return await proceed(request)
        except ModelError as problem:
            raise RuntimeError("no reply") from problem


class GoesOn(Handler):
    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        try:
            return await proceed()
        except Suspend:
            return assistant("Never mind.", [], model="mine")


class Holds(Handler):
    async def model(self, turn: Turn, request: ModelRequest, proceed: Ask) -> ModelReply:
        time.sleep(0.6)
        return await proceed(request)


class Remembers(Handler):
    said: ModelReply | None = None

    async def model(self, turn: Turn, request: ModelRequest, proceed: Ask) -> ModelReply:
        reply = await proceed(request)
        self.said = self.said or (None if reply.calls else reply)
        return self.said or reply


class OnlyOnce(Handler):
    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        if turn.id in self.seen:
            raise Suspend("it was there before")
        self.seen.add(turn.id)
        return await proceed()


class Stubborn(Handler):
    async def model(self, turn: Turn, request: ModelRequest, proceed: Ask) -> ModelReply:
        try:
            return await proceed(request)
        except asyncio.CancelledError:
            await asyncio.sleep(2.5)
            raise

    async def tool(self, turn: Turn, call: Call, proceed: Run) -> Message:
        try:
            return await proceed(call)
        except asyncio.CancelledError:
            await asyncio.sleep(2.5)
            raise


CANCELS = "test_it_can_be_cancelled"
BROKEN: dict[type[Handler], set[str]] = {
    Handler: set(),
    AnswersForTheModel: {"test_a_turn_goes_through", "test_turns_of_two_agents_keep_out_of_each_others_way"},
    Appends: {"test_what_it_is_given_is_not_changed"},
    ChangesArguments: {"test_what_it_is_given_is_not_changed"},
    DropsResults: {"test_a_history_keeps_calls_with_their_results"},
    AnswersAnotherCall: {"test_a_result_answers_its_call", "test_a_turn_goes_through"},
    TakesAnErrorForAFault: {"test_an_error_of_a_model_stays_one"},
    GoesOn: {"test_a_turn_that_is_suspended_stays_so"},
    Holds: {"test_it_holds_no_event_loop"},
    Remembers: {"test_turns_of_two_agents_keep_out_of_each_others_way"},
    OnlyOnce: {"test_a_turn_may_be_taken_up_again"},
    Stubborn: {CANCELS},
}
SLOW: dict[type[Handler], set[str]] = {Holds: {"test_it_holds_no_event_loop"}, Stubborn: {CANCELS}}


# tools that break a promise


def noop() -> str:
    """Does nothing."""
    return "done"


class Plain(AgentTool):
    """Keeps the contract."""

    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [noop]


class Misspells(Plain):
    needs_approval = ("nop",)


class Writes(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        lab.hypotheses.add("it was looked at")
        return [noop]


class Twice(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [noop, noop]


class Silent(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [_silent]


def _silent() -> str:
    return "done"


class Untyped(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [_untyped]


def _untyped(x) -> str:  # type: ignore[no-untyped-def]
    """Takes anything."""
    return "done"


class Raises(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [_raises]


def _raises() -> str:
    """Fails."""
    raise KeyError("x")


class NoJson(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [_no_json]


def _no_json() -> object:
    """Returns what is no JSON."""
    return object()


class Anything(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [_anything]


def _anything(**more: object) -> str:
    """Takes what it is given."""
    return "done"


class Another(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [_another]


def _another(context: ToolContext) -> str:
    """Writes in another's name."""
    with Lab.open(context.lab.root, actor="user:ada") as lab:
        return lab.hypotheses.add("it holds").id


class Logs(Plain):
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        return [_logs]


def _logs() -> str:
    """Keeps a log."""
    Path("log").write_text("x")
    os.environ["ACME_LOG"] = "1"
    return "done"


RESULT = "test_a_call_has_a_result_or_an_error_in_words"
BROKEN_TOOLS: dict[type[Plain], set[str]] = {
    Plain: set(), Misspells: {"test_what_needs_a_person_is_a_function_of_it"},
    Writes: {"test_a_look_changes_nothing"}, Twice: {"test_each_has_a_name_of_its_own"},
    Silent: {"test_each_says_what_it_does"}, Untyped: {"test_each_parameter_is_annotated"}, Raises: {RESULT},
    NoJson: {RESULT}, Anything: {"test_arguments_that_do_not_fit_are_refused"},
    Another: {"test_it_acts_in_the_agents_name"}, Logs: {"test_it_leaves_no_traces"},
}  # fmt: skip


def names(suite: type[OfProjects]) -> list[str]:
    """The tests of a suite."""
    return [name for name, _ in inspect.getmembers(suite, inspect.isfunction) if name.startswith("test_")]


def holds(suite: type[OfProjects], name: str, part: object, folder: Path) -> bool:
    """Whether a part passes one test of its suite."""
    test: Callable[..., None] = getattr(suite(), name)
    wanted = inspect.signature(test).parameters
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACME_LOG", "0")
        labs = inspect.unwrap(suite.lab)(suite(), folder, patch)
        with closing(labs):
            lab = next(labs)
            given: dict[str, object] = {"handler": part, "tool": part, "lab": lab, "tmp_path": folder,
                                        "monkeypatch": patch}  # fmt: skip
            ways = [{"where": where} for where in ("model", "tool")] if "where" in wanted else [{}]
            try:
                if "bound" in wanted:
                    bound = inspect.unwrap(AgentToolContract.bound)
                    given["bound"] = bound(suite(), cast("AgentTool", part), lab)
                for way in ways[:1]:
                    test(**{key: {**given, **way}[key] for key in wanted})
            except (Exception, pytest.fail.Exception):  # noqa: BLE001 - also what a broken part raises itself
                return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_of_handlers_bites(kind: type[Handler], tmp_path: Path) -> None:
    failed = set()
    for name in SLOW.get(kind, names(HandlerContract)):
        (tmp_path / name).mkdir()
        if not holds(HandlerContract, name, kind(), tmp_path / name):
            failed.add(name)
    assert failed == BROKEN[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN_TOOLS, ids=lambda kind: kind.__name__)
def test_the_suite_of_tools_bites(kind: type[Plain], tmp_path: Path) -> None:
    failed = set()
    for name in names(AgentToolContract):
        (tmp_path / name).mkdir()
        if not holds(AgentToolContract, name, kind(), tmp_path / name):
            failed.add(name)
    assert failed == BROKEN_TOOLS[kind]


def test_every_test_of_the_suites_has_a_part_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == {*names(HandlerContract)}
    assert set().union(*BROKEN_TOOLS.values()) == {*names(AgentToolContract)}


def test_a_function_without_a_context_is_a_tool() -> None:
    assert FunctionTool(noop).spec.name == "noop"
