"""Working on the inbox of an agent: one message after the other, by one process at a time, from where it was left.

A process holds the lock of an agent while it works on it, and the kernel frees the lock when the process ends. A
message that is `working` while the lock is free was cut off, and the next process goes on with it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from perpetual import Lab
from perpetual.api import ConfigError, Conflict, NotFound, PerpetualError, TransientError, unknown
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.fence import fence
from perpetual.toolkit.lock import FileLock, is_locked
from perpetual.toolkit.reserved import known_name
from perpetual_agents.accounts import LimitReached
from perpetual_agents.agents import OVER, Agents
from perpetual_agents.checkpoints import Checkpoints
from perpetual_agents.handler import Handler, Pause, Suspend
from perpetual_agents.journal import Journal
from perpetual_agents.lifecycle import IllegalMove
from perpetual_agents.model import ModelUnavailable
from perpetual_agents.names import ANSWERED
from perpetual_agents.permission import require
from perpetual_agents.subscriptions import SENDER
from perpetual_agents.threads import in_thread
from perpetual_agents.times import present_time
from perpetual_agents.tools import AgentTool, Bound, FunctionTool, ToolError, mcp_servers, python_function
from perpetual_agents.turn import StepLimit, Turn

if TYPE_CHECKING:
    from perpetual.api import Record
    from perpetual_agents.data import Agent
    from perpetual_agents.messages import Message
    from perpetual_agents.model import ModelBackend, Say

__all__ = ["Outcome", "Worker", "busy", "handlers_of", "is_busy", "is_mine", "lock_of"]

_FOLDER = "agents"
_SLICE_S = 0.5  # of waiting for another process that works on an agent
_NOT_PERSONS = (
    "agent:",
    "mcp:",
    "program",
    "import:",
    SENDER,
)  # of senders that are no persons
_HOLDERS: dict[tuple[str, str], asyncio.Task[object] | None] = {}  # of the agents that this process works on
_PAUSES = (LimitReached, Pause, StepLimit)  # errors after which the message waits, and the agent is paused


class Outcome(NamedTuple):
    """How the work on a message came out."""

    message: Record
    facts: dict[str, object]


def lock_of(lab: Lab, agent: str) -> FileLock:
    """Returns the lock that the process holds which works on an agent."""
    folder = os.path.join(lab.root, ".perpetual", _FOLDER)
    make_folder(folder)
    return FileLock(os.path.join(folder, f"{agent}.lock"))


def is_busy(lab: Lab, agent: str) -> bool:
    """Returns whether a process works on an agent now."""
    return is_locked(os.path.join(lab.root, ".perpetual", _FOLDER, f"{agent}.lock"))


@asynccontextmanager
async def busy(lab: Lab, agent: str, *, timeout_s: float | None = 0.0) -> AsyncIterator[bool]:
    """Holds the lock of an agent; yields whether it was free within `timeout_s` (None waits).

    Raises:
        Conflict: where the same task holds it, such as a handler of the agent: it would wait for itself.
    """
    if is_mine(lab, agent):
        raise Conflict(f"{agent} is at work in this very call, which cannot wait for another answer of it",
                       hint="return first, or ask in a task of its own", code="reentrant")  # fmt: skip
    lock, place = lock_of(lab, agent), (str(lab.root), agent)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    held = False

    def take() -> None:
        nonlocal held
        left = _SLICE_S if deadline is None else min(_SLICE_S, deadline - time.monotonic())
        held = lock.acquire(True, left) if left > 0 else lock.acquire(False)

    try:
        while True:  # in slices: a caller that is cancelled does not leave a thread that waits
            await in_thread(take)
            if held or (deadline is not None and time.monotonic() >= deadline):
                break
        if held:
            _HOLDERS[place] = asyncio.current_task()
        yield held
    finally:
        if held:
            _HOLDERS.pop(place, None)
            lock.release()


def is_mine(lab: Lab, agent: str) -> bool:
    """Returns whether the task that asks works on an agent already."""
    holder = _HOLDERS.get((str(lab.root), agent))
    return holder is not None and holder is asyncio.current_task()


def handlers_of(lab: Lab) -> list[Handler]:
    """Returns the handlers in force, outermost first.

    Raises:
        ConfigError: for a name that no plugin offers.
    """
    built = {known_name("agent_handler", name): part for name, part in lab.parts("agent_handler")}
    wanted = cast("list[str]", lab.options("agents")["handlers"])
    if not wanted:
        return [cast("Handler", part) for part in built.values()]
    for name in wanted:
        if name not in built:
            raise ConfigError(unknown("handler of agents", name, built), hint="plugins.agents.handlers names them")
    return [cast("Handler", built[name]) for name in wanted]


class Worker:
    """Works on the inbox of one agent, in its name.

    Args:
        lab: the project.
        agent: id of the agent.
        own_tools: tools that a program has as objects, by name, besides those that the agent names.
        backend: what asks the models; None is the one in force.
        say: called with each piece of text of a model as it comes.
    """

    def __init__(
        self, lab: Lab, agent: str, *, own_tools: Mapping[str, Bound] | None = None,
        backend: ModelBackend | None = None, say: Say | None = None,
    ) -> None:  # fmt: skip
        self._outer, self._id, self._own, self._backend, self._say = lab, agent, own_tools or {}, backend, say
        self.lab, self._agents = lab, Agents(lab)  # those of the agent's own name while it is worked on
        self._has_left_tool = False

    async def work(
        self, *, until: str | None = None, timeout_s: float | None = 0.0, stop: Callable[[], bool] | None = None
    ) -> list[Outcome]:  # fmt: skip
        """Works on the messages of the agent until there is none that is due; returns how each came out.

        Args:
            until: id of a message after which it returns.
            timeout_s: seconds to wait for another process that works on the agent; None waits as long as it takes.
            stop: asked between two messages whether to return.

        Raises:
            TransientError: where another process works on it.
            NotPermitted: where the agent may not run here.
        """
        found: list[Outcome] = []
        async with busy(self._outer, self._id, timeout_s=timeout_s) as held:
            if not held:
                raise TransientError(f"another process works on {self._id}", hint="its answers come without this one")
            name = (await in_thread(Agents(self._outer).get, self._id)).name
            outer = self._outer
            async with self._acting(outer, name), AsyncExitStack() as stack:
                kit: _Kit | None = None
                while not (stop is not None and stop()):
                    message = await in_thread(self._next)
                    if message is None:
                        break
                    if kit is None:
                        try:
                            kit = await _Kit.open(self.lab, self._id, self._own, self._backend, stack)
                        except PerpetualError as problem:
                            await in_thread(self._put_back, message, problem)
                            raise
                    outcome = await self._answer(message, kit)
                    found.append(outcome)
                    if message.id == until or outcome.message["state"] not in ("done", "failed"):
                        break
        return found

    @asynccontextmanager
    async def _acting(self, outer: Lab, name: str) -> AsyncIterator[None]:
        """Acts in the agent's name; its lab stays open where a tool that was left may still use it."""
        self.lab = await in_thread(lambda: Lab.open(outer.root, actor=f"agent:{name}", registry=outer.registry))
        self._agents = Agents(self.lab)
        try:
            yield
        finally:
            if not self._has_left_tool:
                self.lab.close()
            self._has_left_tool = False

    def _next(self) -> Record | None:
        """Returns the message that is next, as `working`; None where the agent takes none or none is due."""
        now = present_time()
        with self.lab.transaction():
            agent = self._agents.get(self._id)
            if agent.state != "running":
                return None
            due = next((one for one in self._agents.pending(agent.id) if not one["due"] or one["due"] <= now), None)
            if due is None or due["state"] == "waiting":
                return None
            return self._agents.close_message(due.id, "working", attempts=due["attempts"] + 1,
                                              branch=due["branch"] or agent.branch)  # fmt: skip

    async def _answer(self, message: Record, kit: _Kit) -> Outcome:
        agent = await in_thread(self._agents.get, self._id)
        turn = Turn(
            self.lab, agent, id=message.id, text=_said(message), sender=message["sender"], type=message["type"],
            journal=Journal(self.lab, agent.id, message["branch"] or agent.branch), tools=kit.tools,
            backend=kit.backend, handlers=kit.handlers, say=self._say, check=partial(self._check, message.id),
            is_person=not str(message["sender"]).startswith(_NOT_PERSONS), output=_output(message),
            sources=kit.sources,
        )  # fmt: skip
        try:
            await in_thread(require, self.lab, agent)
            _require_model(kit.backend, agent)
            said = await turn.run()
        except Suspend as waits:
            return Outcome(await in_thread(self._suspend, message, turn, waits, False), turn.facts)
        except _PAUSES as problem:
            pause = Suspend(problem.message, hint=problem.hint)
            return Outcome(await in_thread(self._suspend, message, turn, pause, True), turn.facts)
        except PerpetualError as problem:
            return Outcome(await in_thread(self._failed, message, turn, problem), turn.facts)
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # noqa: BLE001 - a handler is a foreign part: its fault is the agent's state
            reason = f"{type(problem).__name__}: {problem}"
            fault = PerpetualError(f"a handler of {agent.id} failed: {reason}"[:1000], code="handler_failed")
            closed = await in_thread(self._failed, message, turn, fault)
            await in_thread(lambda: self._move("fail", reason[:1000]))
            return Outcome(closed, turn.facts)
        finally:
            self._has_left_tool = self._has_left_tool or turn.has_left_tool
        return Outcome(await in_thread(self._done, message, turn, said), turn.facts)

    def _check(self, message: str) -> None:
        """Raises Suspend between two steps once the agent does not run any longer, or the message is over."""
        if self._agents.message(message)["state"] in OVER:
            raise Suspend("the message was dropped")
        state = self._agents.get(self._id).state
        if state != "running":
            raise Suspend(f"the agent is {state}")

    def _dropped(self, message: Record, turn: Turn) -> Record | None:
        """Returns the message where it ended during its turn, as by restore or delete: what ended stays so."""
        present = self._agents.message(message.id)
        if present["state"] not in OVER:
            return None
        with suppress(NotFound):  # the agent is deleted
            self._count(turn)
        return present

    def _done(self, message: Record, turn: Turn, said: Message) -> Record:
        with self.lab.transaction():
            if (dropped := self._dropped(message, turn)) is not None:
                return dropped
            turn.journal.done(message.id, "result", f"{turn.journal.branch}/{message.id}/end",
                              {"outcome": "done", **turn.facts})  # fmt: skip
            self._count(turn, turns=1, messages=1)
            closed = self._agents.close_message(message.id, "done", answer=said["text"], error=None)
            self._answered(message, "done")
        return closed

    def _failed(self, message: Record, turn: Turn, problem: PerpetualError) -> Record:
        error = {"code": problem.code, "message": problem.message, "hint": problem.hint, "exit": problem.exit}
        with self.lab.transaction():
            if (dropped := self._dropped(message, turn)) is not None:
                return dropped
            turn.journal.done(message.id, "result", f"{turn.journal.branch}/{message.id}/end",
                              {"outcome": "failed", "error": error})  # fmt: skip
            self._count(turn, turns=1, messages=1, errors=1)
            closed = self._agents.close_message(message.id, "failed", error=error)
            self._answered(message, "failed")
        return closed

    def _put_back(self, message: Record, problem: PerpetualError) -> None:
        """Records why a message could not be taken up, for those that wait for its answer."""
        error = {"code": problem.code, "message": problem.message, "hint": problem.hint, "exit": problem.exit}
        with self.lab.transaction():
            if self._agents.message(message.id)["state"] not in OVER:
                self._agents.close_message(message.id, "pending", error=error)
                self.lab.feed.emit(ANSWERED, self._id, {"message": message.id, "outcome": "put_back"})

    def _suspend(self, message: Record, turn: Turn, waits: Suspend, pauses: bool) -> Record:
        with self.lab.transaction():
            if (dropped := self._dropped(message, turn)) is not None:
                return dropped
            self._count(turn)
            is_over = pauses or self._agents.get(self._id).state != "running"
            state = "pending" if is_over or not (waits.still is None or waits.still()) else "waiting"
            error = {"code": "waits", "message": waits.reason, "hint": waits.hint}
            closed = self._agents.close_message(message.id, state, error=error)
        if pauses:
            self._move("pause", waits.reason)
        return closed

    def _move(self, move: str, reason: str) -> None:
        try:
            self._agents.move(self._id, "pause" if move == "pause" else "fail", reason=reason)
        except IllegalMove:
            return  # another process has moved it meanwhile, and that counts
        if move == "pause":
            Checkpoints(self.lab).take(self._id, reason="pause")

    def _count(self, turn: Turn, **more: int) -> None:
        self._agents.count_up(self._id, **turn.counts, **more)

    def _answered(self, message: Record, outcome: str) -> None:
        self.lab.feed.emit(ANSWERED, self._id, {"message": message.id, "outcome": outcome})


class _Kit(NamedTuple):
    """What the turns of one agent share while its lock is held."""

    tools: dict[str, Bound]
    sources: dict[str, str]
    backend: ModelBackend
    handlers: Sequence[Handler]

    @classmethod
    async def open(
        cls, lab: Lab, agent: str, own: Mapping[str, Bound], backend: ModelBackend | None,
        stack: AsyncExitStack,
    ) -> _Kit:  # fmt: skip
        found = await in_thread(Agents(lab).get, agent)
        await in_thread(require, lab, found)
        tools, sources = dict(own), dict[str, str]()
        for name in found.tools:
            for bound in await _bound(lab, found, name, stack):
                tool = _renamed(bound, name) if bound.spec.name in tools else bound
                if tool.spec.name not in tools:
                    tools[tool.spec.name], sources[tool.spec.name] = tool, name
        if backend is None:
            backend = cast("ModelBackend", lab.part("model_backend"))
            stack.push_async_callback(backend.close)
        return cls(tools, sources, backend, handlers_of(lab))


async def _bound(lab: Lab, agent: Agent, name: str, stack: AsyncExitStack) -> Sequence[Bound]:
    """Returns the tools that a name stands for."""
    if name.startswith("python:"):
        return [FunctionTool(python_function(name, str(lab.root)))]
    if name.startswith("mcp:"):
        from perpetual_agents.mcp_client import connect

        server = mcp_servers(lab).get(name.removeprefix("mcp:"))
        if server is None:
            raise _missing(agent, name)
        return await connect(server, str(lab.root), stack)
    parts = {known_name("agent_tool", full): part for full, part in lab.parts("agent_tool")}
    if name not in parts:
        raise _missing(agent, name)
    tool = cast("AgentTool", parts[name])
    return [FunctionTool(function, needs_approval=function.__name__ in tool.needs_approval or None)
            for function in tool.functions(lab, agent)]  # fmt: skip


def _missing(agent: Agent, name: str) -> ToolError:
    return ToolError(f"{agent.id} has the tool {name}, which there is not here any longer", code="unknown_tool",
                     hint=f"bring it back, or: perpetual agent set {agent.id} tools=...")  # fmt: skip


def _renamed(bound: Bound, name: str) -> Bound:
    """Returns a tool whose name is taken; one of an MCP server gets the server's name before its own."""
    if not name.startswith("mcp:"):
        return bound
    from perpetual_agents.mcp_client import prefixed

    return prefixed(bound, name.removeprefix("mcp:"))


def _require_model(backend: ModelBackend, agent: Agent) -> None:
    if not agent.model:
        raise ModelUnavailable(f"{agent.id} has no model", hint=f"perpetual agent set {agent.id} model=PROVIDER:NAME")
    problem = backend.problem(agent.model)
    if problem is not None:
        raise problem


def _output(message: Record) -> Mapping[str, object] | None:
    """Returns the JSON schema that a program wants the answer in, None where it wants text."""
    found = message["data"].get("output") if message["sender"] == "program" else None
    return found if isinstance(found, dict) else None


def _said(message: Record) -> str:
    if message["type"] == "message":
        return str(message["text"])
    import json

    data = fence(json.dumps(message["data"], ensure_ascii=False), "the event") if message["data"] else ""
    return "\n".join(part for part in (f"Event {message['type']}:", message["text"], data) if part)
