"""One turn of an agent: from a message to the answer, step by step, through the handlers in force.

The steps follow from what is recorded: the number of a step gives its key, and each reply of a model says which tools
are called next. So a turn that is taken up again walks through its recorded steps, which the journal answers at once,
and goes on with the first that has no result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from perpetual.api import PerpetualError
from perpetual.toolkit.crashpoints import step
from perpetual_agents.handler import Handler
from perpetual_agents.messages import Call, Message, assistant, tool_result, user
from perpetual_agents.model import ModelReply, ModelRequest
from perpetual_agents.names import AGENT
from perpetual_agents.threads import in_thread
from perpetual_agents.tools import ToolContext, ToolError

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.data import Agent
    from perpetual_agents.journal import Journal, Kind, Step
    from perpetual_agents.model import ModelBackend, Say
    from perpetual_agents.tools import Bound

__all__ = ["StepLimit", "Turn", "system_of"]

_Found = TypeVar("_Found")


class StepLimit(PerpetualError):
    """A turn asked its model more often than the agent's setting `max_steps` allows."""

    code = "step_limit"
    exit = 7


class Turn:
    """One turn; handlers read it and add to it.

    - `lab`: acts in the agent's name; `agent`: as it was at the turn's begin.
    - `id`: of the message that is answered; `text`, `sender` and `type` are the message's.
    - `journal`: of the agent's branch.
    - `tools`: what the model may call, by name.
    - `messages`: what this turn has added to the conversation so far.
    - `key`: the idempotency key of the present step; `number`: its place in the turn; `attempt`: which try of it.
    - `has_left_tool`: whether a tool was left that may go on in its thread, with the lab.
    - `cleared`: the key of the step whose call needs no person any longer.
    - `sources`: by the name of a tool, the name by which the agent has it, such as `mcp:files`.
    - `facts`: figures that handlers add, shown with the answer; `cache`: messages that a handler keeps for the turn.
    """

    def __init__(
        self, lab: Lab, agent: Agent, *, id: str, text: str, sender: str, type: str, journal: Journal,
        tools: Mapping[str, Bound], backend: ModelBackend, handlers: Sequence[Handler], say: Say | None = None,
        check: Callable[[], None] | None = None, output: Mapping[str, object] | None = None, is_person: bool = True,
        sources: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.lab, self.agent, self.journal, self.tools, self.backend = lab, agent, journal, tools, backend
        self.id, self.text, self.sender, self.type, self.say, self.output = id, text, sender, type, say, output
        self.is_person, self.sources = is_person, sources or {}
        self.messages: list[Message] = []
        self.facts: dict[str, object] = {}
        self.cache: dict[str, list[Message]] = {}
        self.counts = {"model_calls": 0, "tool_calls": 0}
        self.key, self.attempt, self.is_replayed = "", 1, False
        self._handlers, self.number, self._check = handlers, 0, check
        self.has_left_tool, self.cleared = False, ""
        self._at_done: list[Callable[[], None]] = []

    async def run(self) -> Message:
        """Returns the agent's answer.

        Raises:
            Suspend: where the turn waits for something.
            PerpetualError: where it failed.
        """
        whole: Callable[[], Awaitable[Message]] = self._loop
        for handler in reversed(self._handlers):
            whole = partial(handler.turn, self, whole)
        return await whole()

    async def blocking(self, call: Callable[[], _Found]) -> _Found:
        """Calls what blocks, such as the store, in a thread."""
        return await in_thread(call)

    async def needs_person(self, call: Call) -> bool:
        """Returns whether a person approves each such call: the tool says so, or the agent's list as it is now."""
        if getattr(self.tools.get(call["name"]), "needs_approval", False):
            return True
        present = await self.blocking(lambda: self.lab.records(AGENT).get(self.agent.id))
        names = {"*", call["name"], self.sources.get(call["name"], call["name"])}
        return not names.isdisjoint(present["approvals"] or ())

    def at_done(self, call: Callable[[], None]) -> None:
        """Lets `call` run in the transaction in which the present step is recorded as done."""
        self._at_done.append(call)

    def complete(self, record: Callable[[], _Found]) -> _Found:
        """Records the present step's end by `record`, with all that was registered for it; called by the journal."""
        calls, self._at_done = self._at_done, []
        with self.lab.transaction():
            found = record()
            for call in calls:
                call()
        return found

    def _next_step(self) -> None:
        if self._check is not None:
            self._check()
        self.number += 1
        self.key, self.attempt, self.is_replayed = f"{self.journal.branch}/{self.id}/{self.number}", 1, False
        self._at_done = []

    async def _loop(self) -> Message:
        self.messages.append(user(self.text, self.sender, pinned=self.is_person))
        for _ in range(int(self.agent.setting("max_steps"))):
            said = await self._ask()
            self.messages.append(said)
            if not said.get("calls"):
                return said
            for call in said["calls"]:
                self.messages.append(await self._call(call))
        raise StepLimit(f"{self.agent.id} asked its model {int(self.agent.setting('max_steps'))} times in one turn",
                        hint=f"perpetual agent set {self.agent.id} max_steps=N, then resume")  # fmt: skip

    async def _ask(self) -> Message:
        await self.blocking(self._next_step)
        history: list[Message] = []
        for handler in self._handlers:
            history = await handler.history(self, history)
        request = ModelRequest(
            model=self.agent.model or "", system=system_of(self.agent), messages=[*history, *self.messages],
            tools=[tool.spec for tool in self.tools.values()], max_tokens=int(self.agent.setting("max_tokens")),
            key=self.key, timeout_s=self.agent.setting("timeout_s"), output=self.output,
        )  # fmt: skip
        reply = await self._request(request, self._handlers, self.say)
        self._finish()
        if not self.is_replayed:
            self.counts["model_calls"] += 1
        return assistant(reply.text, reply.calls, model=reply.model or request.model, mock=reply.mock, raw=reply.raw)

    async def _request(self, request: ModelRequest, handlers: Sequence[Handler], say: Say | None) -> ModelReply:
        ask: Callable[[ModelRequest], Awaitable[ModelReply]] = partial(self.backend.request, say=say)
        for handler in reversed(handlers):
            ask = partial(_model, handler, self, ask)
        return await ask(request)

    async def beside(
        self, kind: Kind, key: str, request: ModelRequest | PerpetualError, asked: Mapping[str, object],
        record: Callable[[ModelReply | PerpetualError], Callable[[], Step]],
    ) -> Step:  # fmt: skip
        """Asks the model for a handler, as a step of its own beside the present one; returns what was recorded of it.

        The request goes through the handlers but for those that journal. `record` is given the reply, or why there is
        none, and returns what writes the end of the step in the transaction in which its cost is settled; where it
        raises, nothing is recorded.

        Args:
            kind: of the step.
            key: of the step; one that is recorded is not asked again.
            request: what is asked, its key is `key`; or why nothing can be.
            asked: what the step's begin says of it.
            record: as above; it may block.
        """
        begun = [one for one in await self.blocking(lambda: self.journal.of_turn(self.id)) if one.key == key]
        done = next((one for one in begun if one.phase == "done"), None)
        if done is not None:
            return done
        present = self.key, self.attempt, self.is_replayed, self._at_done
        self.key, self.attempt, self.is_replayed, self._at_done = key, len(begun) + 1, False, []
        try:
            body = {**asked, "attempt": self.attempt}
            await self.blocking(lambda: self.journal.begin(self.id, kind, key, body))
            step("agent:begun", 0)  # no step of the turn
            handlers = [handler for handler in self._handlers if not handler.journals]
            found: ModelReply | PerpetualError
            try:
                if isinstance(request, PerpetualError):
                    raise request
                found = await self._request(request, handlers, None)
                self.counts["model_calls"] += 1
            except PerpetualError as problem:
                found = problem
            write = await self.blocking(lambda: record(found))
            step("agent:effect", 0)
            made = await self.blocking(lambda: self.complete(write))
            step("agent:done", 0)
            return made
        finally:
            self.key, self.attempt, self.is_replayed, self._at_done = present

    async def _call(self, call: Call) -> Message:
        await self.blocking(self._next_step)
        run: Callable[[Call], Awaitable[Message]] = self._run_tool
        for handler in reversed(self._handlers):
            run = partial(_tool, handler, self, run)
        found = await run(call)
        self._finish()
        if not self.is_replayed:
            self.counts["tool_calls"] += 1
        return found

    def _finish(self) -> None:
        """Runs what was registered for the step's end where no journal did."""
        if self._at_done:
            self.complete(lambda: None)

    async def _run_tool(self, call: Call) -> Message:
        tool = self.tools.get(call["name"])
        if tool is None:
            known = ", ".join(self.tools) or "none"
            return tool_result(call, f"there is no tool {call['name']}; there is: {known}", is_error=True)
        if self.cleared != self.key and await self.needs_person(call):
            words = f"{call['name']} needs a person's approval, and the handler approval is not in force"
            return tool_result(call, words, is_error=True)
        context = ToolContext(self.lab, self.agent, self.key)
        try:
            async with asyncio.timeout(self.agent.setting("timeout_s")):
                return tool_result(call, await tool.call(call["args"], context))
        except asyncio.CancelledError:
            self.has_left_tool = True
            raise
        except TimeoutError:
            self.has_left_tool = True
            limit = self.agent.setting("timeout_s")
            return tool_result(call, f"{call['name']} did not end within {limit:g} s", is_error=True)
        except ToolError as problem:
            return tool_result(call, problem.message, is_error=True)
        except PerpetualError as problem:
            hint = f" ({problem.hint})" if problem.hint else ""
            return tool_result(call, f"{problem.message}{hint}", is_error=True)


async def _model(
    handler: Handler, turn: Turn, proceed: Callable[[ModelRequest], Awaitable[ModelReply]], request: ModelRequest
) -> ModelReply:
    return await handler.model(turn, request, proceed)


async def _tool(handler: Handler, turn: Turn, proceed: Callable[[Call], Awaitable[Message]], call: Call) -> Message:
    return await handler.tool(turn, call, proceed)


def system_of(agent: Agent) -> str:
    """Returns the system prompt of an agent: its own words, then its purpose, scope, criteria and open goals."""
    parts = [agent.system_prompt.strip()] if agent.system_prompt.strip() else []
    if agent.purpose.strip():
        parts.append(f"Your purpose: {agent.purpose.strip()}")
    if agent.scope.strip():
        parts.append(f"What belongs to it: {agent.scope.strip()}")
    if agent.criteria:
        parts.append("You succeed where: " + "; ".join(agent.criteria))
    if agent.hypothesis:
        parts.append(f"You work on the hypothesis {agent.hypothesis}.")
    open_ = [goal for goal in agent.goals if goal["status"] in ("open", "in_progress")]
    if open_:
        lines = [f"- {goal['id']} ({goal['status']}, {goal['progress']:.0%}): {goal['text']}" for goal in open_]
        parts.append("Your goals:\n" + "\n".join(lines))
    return "\n\n".join(parts)
