"""`PerpetualAgent`: an agent as an object of a program, which lives on in the record of a project.

    agent = PerpetualAgent(agent_id="scout", purpose="find what is worth measuring", model="ollama:qwen3:4b")
    await agent.initialize()
    await agent.start()
    await agent.handle_event({"type": "run_ended", "data": {"run": "r7"}})

An object is a handle: state, goals, inbox and journal are in the record, so a program that starts again finds them. Its
model, tools and handlers work as they do for `perpetual agent`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, TypedDict, cast

from perpetual import Lab
from perpetual.api import Conflict, NotFound, PerpetualError, UsageError
from perpetual_agents import alignment
from perpetual_agents.agents import Agents, Changes
from perpetual_agents.alignment import Alignment, Decision
from perpetual_agents.approvals import Approvals
from perpetual_agents.context_server import ContextServer, StateKeeper
from perpetual_agents.data import Agent, Goal, check_name
from perpetual_agents.decorators import TOOL
from perpetual_agents.operations import OVER, failure_of, is_served, pause, resume, start, stop
from perpetual_agents.plain_types import plain_type
from perpetual_agents.pulse import pulse_of
from perpetual_agents.serving import Worker, busy, is_busy, is_mine
from perpetual_agents.state_json import checked_state, json_in, jsonable
from perpetual_agents.threads import in_thread
from perpetual_agents.times import seconds_until
from perpetual_agents.tools import Bound, FunctionTool, ToolContext
from perpetual_agents.typed_state import TypedState

if TYPE_CHECKING:
    from pathlib import Path

    from perpetual.api import Record
    from perpetual_agents.event_documents import ApprovalDocument
    from perpetual_agents.model import ModelBackend, Say

__all__ = ["Options", "PerpetualAgent"]

_FIELDS, _STATE = "fields", "state"
_UNFIT = "answer_unfit"
_HANDLER = "handler_failed"
_MENDS = 2  # further answers that a model is asked for where one does not fit its type
_SWEEP_S = 30.0  # between two looks at the inbox where nothing wakes


class Options(TypedDict, total=False):
    """What `PerpetualAgent` takes by name, besides its id, its purpose and its persona."""

    model: str | None
    system_prompt: str | None
    tools: Sequence[str | Callable[..., object]]
    purpose_scope: str
    success_criteria: Sequence[str]
    lab: Lab | None
    project: str | Path | None
    backend: ModelBackend | None
    limits: Mapping[str, object] | None
    settings: Mapping[str, object] | None
    session: str


EventHandler = Callable[[Mapping[str, object]], object]


class PerpetualAgent:
    """An agent that lives on.

    A subclass may annotate fields, which are persisted with its state: `plans: list[Plan] = []`. One whose type JSON
    cannot carry is an error where the class is defined. Methods with `@tool` are tools of its model, methods with
    `@prompt` are answered by it. Its docstring is its system prompt where none is given.

    Args:
        agent_id: its name in the project; the same name is the same agent, in every process and after every restart.
        adapter_name: a name of its persona.
        model: as `provider:name`; None has none: then alignment is lexical, and prompts raise.
        system_prompt: the words that come before its purpose.
        tools: names of tools, or functions.
        purpose, purpose_scope, success_criteria: what it is for.
        lab: the project; None opens the one of the working directory.
        project: the folder of the project to open instead.
        backend: what asks the model; None is the one in force.
        limits: calls, tokens, usd and seconds of its model at most, of a new agent.
        settings: see `perpetual_agents.data.SETTINGS`, of a new agent.
        session: prompts that were answered in a session are answered from the record when they are asked again in it.
    """

    _is_plain = True
    _typed: ClassVar[tuple[TypedState, ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        own = dict(inspect.get_annotations(cls))
        below = sys._getframe(1).f_locals
        cls._typed = cls._typed if not own else (*cls._typed, TypedState(cls, own, below))

    def __init__(
        self, agent_id: str, adapter_name: str | None = None, *, model: str | None = None,
        system_prompt: str | None = None, tools: Sequence[str | Callable[..., object]] = (), purpose: str = "",
        purpose_scope: str = "", success_criteria: Sequence[str] = (), lab: Lab | None = None,
        project: str | Path | None = None, backend: ModelBackend | None = None,
        limits: Mapping[str, object] | None = None, settings: Mapping[str, object] | None = None,
        session: str = "default",
    ) -> None:  # fmt: skip
        self.agent_id, self.adapter_name, self.model = check_name(agent_id), adapter_name, model
        self.purpose, self.purpose_scope, self.success_criteria = purpose, purpose_scope, [*success_criteria]
        self.system_prompt = _docstring_of(type(self)) if system_prompt is None else system_prompt
        self.state: dict[str, object] = {}
        self.context_server: StateKeeper | None = None
        self.session = session
        self.logger = logging.getLogger(f"perpetual_agents.{agent_id}")
        self._lab, self._project, self._owns_lab = lab, project, False
        self._backend, self._limits, self._settings = backend, limits, settings
        self._names = [name for name in tools if isinstance(name, str)]
        self._functions = [one for one in tools if not isinstance(one, str)]
        self._handlers: dict[str, list[EventHandler]] = {}
        self._asked: Counter[str] = Counter()
        self._serving: asyncio.Task[None] | None = None
        self._saved: object = None
        self._id: str | None = None
        for typed in self._typed:
            typed.begin(self)

    # life

    @property
    def lab(self) -> Lab:
        """Returns the project, opened at first use. Raises NoProject where there is none."""
        if self._lab is None:
            self._lab, self._owns_lab = Lab.open(self._project), True
        return self._lab

    @property
    def id(self) -> str:
        """Returns the id of the agent in the record. Raises Conflict before `initialize`."""
        if self._id is None:
            raise Conflict(f"{self.agent_id} is not initialized", hint="await agent.initialize()",
                           code="not_initialized")  # fmt: skip
        return self._id

    @property
    def is_initialized(self) -> bool:
        """Returns whether `initialize` was called."""
        return self._id is not None

    def adopt(self, lab: Lab) -> None:
        """Takes a project on; one that was initialized already keeps its own."""
        if self._id is None and self._lab is None:
            self._lab = lab

    async def initialize(self) -> bool:
        """Finds the agent in the record, or makes it; loads its state. A second call changes nothing."""
        if self._id is not None:
            return True
        record = await in_thread(self._found)
        self._id = record.id
        if self.context_server is None:
            self.context_server = ContextServer(self.lab, record.id)
        await self.load_state()
        return True

    def _found(self) -> Agent:
        agents = Agents(self.lab)
        try:
            known = agents.get(self.agent_id)
        except NotFound:
            return agents.create(
                self.agent_id, model=self.model, purpose=self.purpose, system_prompt=self.system_prompt,
                tools=self._names, scope=self.purpose_scope, criteria=self.success_criteria, adapter=self.adapter_name,
                cls=_name_of(type(self)), limits=self._limits, settings=self._settings,
            )  # fmt: skip
        own: dict[str, object] = {
            "model": self.model, "system_prompt": self.system_prompt, "purpose": self.purpose,
            "scope": self.purpose_scope, "criteria": self.success_criteria, "adapter": self.adapter_name,
        }  # fmt: skip
        own = {name: value for name, value in own.items() if value}  # what the program leaves out stays as recorded
        given = cast("Changes", {"cls": _name_of(type(self)), "tools": self._names, **own})
        changed = agents.change(known.id, **given) if _differs(known, given) else known
        self.model, self.purpose = changed.model, changed.purpose
        self.purpose_scope, self.success_criteria = changed.scope, [*changed.criteria]
        self.system_prompt, self.adapter_name = changed.system_prompt, changed.adapter
        return changed

    async def start(self) -> bool:
        """Lets the agent take messages, and answers those of its inbox in this program while it sleeps when idle.

        An agent that was running when its program ended goes on with what it was at.
        """
        await self.initialize()
        present = await self.record()
        if present.state == "paused":
            await in_thread(resume, self.lab, self.id)
        elif present.state != "running":
            await in_thread(start, self.lab, self.id)
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve(), name=f"agent {self.agent_id}")
        return True

    async def pause(self, reason: str | None = None) -> bool:
        """Lets the agent rest; its messages wait. Raises IllegalMove."""
        await in_thread(lambda: pause(self.lab, self.id, reason=reason))
        return True

    async def resume(self) -> bool:
        """Lets a paused agent go on. Raises IllegalMove."""
        await in_thread(resume, self.lab, self.id)
        return True

    async def stop(self) -> bool:
        """Ends the agent's duty and saves its state; the record keeps it. An agent that does not run stays as it is."""
        await self.save_state()
        await self._rest()
        if (await self.record()).state in ("running", "paused"):
            await in_thread(stop, self.lab, self.id)
        return True

    async def cleanup(self) -> None:
        """Saves the state, ends the work of this program, and closes what it opened; the agent stays as it is."""
        if self._id is not None:
            await self.save_state()
        await self._rest()
        if self._owns_lab and self._lab is not None:
            await in_thread(self._lab.close)
            self._lab, self._owns_lab = None, False
        self._id, self.context_server = None, None

    async def _rest(self) -> None:
        task, self._serving = self._serving, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def record(self) -> Agent:
        """Returns the agent as it is recorded now."""
        return await in_thread(Agents(self.lab).get, self.id)

    async def health_check(self) -> dict[str, object]:
        """Returns what goes on: state, whether a process works on it, what waits, and the newest error."""
        present = await self.record()
        inbox = await in_thread(Agents(self.lab).pending, self.id)
        is_here = self._serving is not None and not self._serving.done()
        is_working = await in_thread(is_busy, self.lab, self.id)
        served = is_here or is_working or await in_thread(is_served, self.lab)
        fails = any((one["error"] or {}).get("code") == _HANDLER for one in inbox)
        healthy = present.state != "error" and (present.state != "running" or served or not inbox) and not fails
        return {"agent_id": self.agent_id, "id": self.id, "state": present.state, "reason": present.reason,
                "healthy": healthy, "served": served, "working": is_working, "inbox": len(inbox),
                "counters": present.counters}  # fmt: skip

    # what it asks persons

    async def approvals(self, *, waiting: bool = True) -> list[ApprovalDocument]:
        """Returns what the agent asks a person, oldest first; with `waiting` off, what was decided as well."""
        await self.initialize()
        return [*await in_thread(lambda: Approvals(self.lab).list(self.id, waiting=waiting))]

    async def approve(self, approval: str, *, answer: str | None = None) -> ApprovalDocument:
        """Lets a call be made, or answers a question; the turn goes on. For a person.

        Raises:
            NotPermitted: where an agent asks for it.
            Conflict: where it was decided.
            UsageError: for a question without an answer.
        """
        return await in_thread(lambda: Approvals(self.lab).approve(approval, answer=answer))

    async def deny(self, approval: str, *, why: str) -> ApprovalDocument:
        """Refuses a call, whose reason the model reads; the turn goes on. Raises as `approve`."""
        return await in_thread(lambda: Approvals(self.lab).deny(approval, why=why))

    # events and messages

    async def subscribe(self, event_type: str, handler: EventHandler | None = None) -> bool:
        """Lets events of a type go to the agent's inbox, durably; `handler` is called with each in this program."""
        await self.initialize()
        if handler is not None:
            self._handlers.setdefault(event_type, []).append(handler)
        await in_thread(self._subscribe, event_type)
        return True

    def _subscribe(self, event_type: str) -> None:
        agents = Agents(self.lab)
        with self.lab.transaction():
            present = agents.get(self.id)
            if event_type not in present.subscriptions:
                agents.change(self.id, subscriptions=[*present.subscriptions, event_type])

    async def handle_event(self, event: Mapping[str, object]) -> dict[str, object]:
        """Handles an event: records it, calls the handlers of its type, and asks the model where there is one.

        Args:
            event: `{type, data, id}`; two events of one id are one. One that a handler of the agent sends waits in the
                inbox until the handler has returned.

        Returns:
            `{event_id, type, status, results, answer}`; `results` are those of the handlers.

        Raises:
            PerpetualError: where the model failed. What a handler raises goes through; the event stays in the inbox.
        """
        await self.initialize()
        kind = str(event.get("type") or "message")
        key = None if event.get("id") is None else f"event/{event['id']}"
        posted = await in_thread(lambda: Agents(self.lab).post(
            self.id, _text_of(event), type=kind, data=jsonable(event), key=key))  # fmt: skip
        if posted["state"] in OVER or is_mine(self.lab, self.id):  # what a handler sends itself comes after it
            return _handled(posted, [])
        return _handled(*await self._worked(posted.id))

    async def _handle(self, event: Mapping[str, object]) -> list[object]:
        """Calls the handlers of an event, and keeps it as the last one."""
        results = [await _value(handler(event)) for handler in self._handlers.get(str(event.get("type")), ())]
        self.state["last_event"] = jsonable(event)
        await self.save_state()
        await in_thread(lambda: Agents(self.lab).count_up(self.id, wakes=1, messages=1))
        return results

    async def _worked(self, id: str) -> tuple[Record, list[object]]:
        """Works on a message in this program, and returns it with the results of the handlers.

        The handlers of an event are called while the agent's lock is held, and once: what was handled is recorded.
        """
        agents, results = Agents(self.lab), list[object]()
        async with busy(self.lab, self.id, timeout_s=None):
            message = await in_thread(agents.message, id)
            if message["state"] not in OVER and message["type"] != "message" and not message["handled"]:
                event = cast("Mapping[str, object]", message["data"])
                results = await self._handle(event or {"type": message["type"], "data": message["text"]})
                fields = {} if self.model else {"answer": None, "attempts": message["attempts"] + 1}
                state = message["state"] if self.model else "done"
                message = await in_thread(partial(agents.close_message, id, state, handled=True, **fields))
        while message["state"] not in (*OVER, "waiting") and (await self.record()).state == "running":
            worked = await Worker(self.lab, self.id, own_tools=self._own_tools(), backend=self._backend).work(
                until=id, timeout_s=None
            )
            message = await in_thread(agents.message, id)
            if not worked:
                break  # one before it waits for a person, or it is not due yet
        await self.save_state()
        problem = failure_of(message)
        if problem is not None:
            raise problem
        return message, results

    async def message(self, text: str, *, key: str | None = None, say: Say | None = None) -> str:
        """Sends a message and returns the answer of the model. Raises PerpetualError where it failed."""
        await self._require_running()
        posted = await in_thread(lambda: Agents(self.lab).post(self.id, text, key=key))
        message, _ = await self._worked(posted.id)
        return self._answer_of(message)

    def _answer_of(self, message: Record) -> str:
        """Returns the answer to a message. Raises Conflict where it has none now, such as one that waits."""
        if message["state"] != "done":
            why = (message["error"] or {}).get("message", message["state"])
            raise Conflict(f"{self.agent_id} does not answer now: {why}", hint=f"perpetual agent show {self.id}",
                           code="not_answered")  # fmt: skip
        return str(message["answer"] or "")

    async def _require_running(self) -> None:
        await self.initialize()
        if (await self.record()).state == "created":
            await in_thread(start, self.lab, self.id)

    async def _serve(self) -> None:
        """Answers the inbox while this program lives; sleeps until something comes."""
        agents = Agents(self.lab)
        async with pulse_of(self.lab) as pulse:
            while True:
                seen = await in_thread(self.lab.feed.last)
                wait_s = _SWEEP_S
                for message in await in_thread(agents.pending, self.id):
                    if message["state"] == "waiting":
                        break  # a turn is answered as a whole before the next one begins
                    due_s = seconds_until(message["due"])
                    if due_s > 0:
                        wait_s = min(wait_s, due_s)
                        continue
                    try:
                        await self._serve_one(message)
                    except PerpetualError as problem:
                        self.logger.warning("%s: %s", message.id, problem)
                    except Exception as problem:  # of a handler: the event stays, and those after it have their turn
                        self.logger.exception("%s: a handler of the program failed", message.id)
                        await in_thread(self._stays, message.id, problem)
                await pulse.wait(seen, wait_s)

    def _stays(self, id: str, problem: Exception) -> None:
        """Records why an event stays in the inbox."""
        agents = Agents(self.lab)
        error = {"code": _HANDLER, "message": f"{type(problem).__name__}: {problem}"[:1000], "hint": None}
        with self.lab.transaction():
            present = agents.message(id)
            if present["state"] not in OVER and present["error"] != error:
                agents.close_message(id, present["state"], error=error)

    async def _serve_one(self, message: Record) -> None:
        if (await self.record()).state != "running":
            return
        if self.model or message["type"] != "message":
            await self._worked(message.id)

    def _own_tools(self) -> dict[str, Bound]:
        """Returns the functions and the `@tool` methods of this object as tools."""
        methods = [getattr(self, name) for name in dir(type(self)) if getattr(getattr(type(self), name), TOOL, False)]
        return {one.spec.name: one for one in map(FunctionTool, [*self._functions, *methods])}

    async def act(self, action: str | Mapping[str, object]) -> object:
        """Acts: a text is a task for the model, whose answer is returned; a mapping calls a tool.

        Args:
            action: a task, or `{tool, args}`; `type` may stand for `tool`.

        Raises:
            UsageError: for a mapping that names no tool of the agent.
            ModelUnavailable: for a task without a model.
        """
        if isinstance(action, str):
            return await self.message(action)
        await self.initialize()
        name = str(action.get("tool") or action.get("type") or "")
        tools = self._own_tools()
        if name not in tools:
            raise UsageError(f"{self.agent_id} has no tool {name!r}", hint=f"there is: {', '.join(tools) or 'none'}",
                             code="unknown_tool")  # fmt: skip
        given = action.get("args") or {}
        if not isinstance(given, Mapping):
            raise UsageError(f"the arguments of {name} are a {type(given).__name__}, not a mapping")
        number = self._asked[f"act {name}"] = self._asked[f"act {name}"] + 1
        context = ToolContext(self.lab, await self.record(), f"{self.id}/act/{self.session}/{name}/{number}")
        return await tools[name].call(given, context)

    async def ask(
        self, text: str, *, returns: object = str, name: str = "ask", arguments: Mapping[str, object] | None = None
    ) -> object:
        """Asks the model and returns an answer of a type; the same question in the same session is answered once.

        Args:
            text: the prompt.
            returns: the type of the answer; `str` is the text as it is.
            name, arguments: of the method that asks; with them a call is known again.

        Raises:
            PerpetualError: where there is no model, or its answers do not fit the type.
        """
        await self._require_running()
        form = json.dumps([name, text, jsonable(arguments or {})], ensure_ascii=False, sort_keys=True, default=str)
        digest = sha256(form.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        number = self._asked[digest] = self._asked[digest] + 1
        key = f"prompt/{self.session}/{name}/{digest}/{number}"
        try:
            return await self._asked_for(text, returns, name, key)
        except BaseException as problem:  # not answered, or not awaited to its end: it is the same when asked again
            is_answered = isinstance(problem, PerpetualError) and problem.code == _UNFIT
            if self._asked[digest] == number and not is_answered:
                self._asked[digest] = number - 1
            raise

    async def _asked_for(self, text: str, returns: object, name: str, key: str) -> object:
        from pydantic import TypeAdapter, ValidationError

        if returns is str:
            return await self._asked_once(text, key, None)
        adapter: TypeAdapter[object] = TypeAdapter(cast("type[object]", plain_type(returns)))
        schema = adapter.json_schema()
        said = text
        for place in range(_MENDS + 1):
            found = await self._asked_once(said, f"{key}/{place}", schema)
            try:
                return adapter.validate_json(json_in(found))
            except ValidationError as problem:
                words = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problem.errors()[:5])
                said = f"Your answer does not fit: {words}. Answer again with JSON of this schema: {json.dumps(schema)}"
        raise PerpetualError(f"{name}: the model gave {_MENDS + 1} answers that do not fit: {words}"[:1000],
                             hint="another model, or a simpler type", code=_UNFIT)  # fmt: skip

    async def _asked_once(self, text: str, key: str, schema: Mapping[str, object] | None) -> str:
        data = {} if schema is None else {"output": dict(schema)}
        posted = await in_thread(self._posted, text, key, data)
        message, _ = await self._worked(posted.id)
        return self._answer_of(message)

    def _posted(self, text: str, key: str, data: Mapping[str, object]) -> Record:
        """Returns the message of a prompt; one that failed before or was dropped is sent anew."""
        agents, tried = Agents(self.lab), key
        while True:
            posted = agents.post(self.id, text, sender="program", key=tried, data=data)
            if posted["state"] not in ("failed", "dropped"):
                return posted
            tried = f"{key}/{posted.id}"

    # goals and purpose

    async def add_goal(self, goal: str, *, status: str = "open", progress: float = 0.0) -> str:
        """Adds a goal; returns its id."""
        await self.initialize()
        return (await in_thread(lambda: Agents(self.lab).add_goal(
            self.id, goal, status=status, progress=progress)))["id"]  # fmt: skip

    async def get_goals(self) -> list[Goal]:
        """Returns the goals, oldest first."""
        return [*(await self.record()).goals]

    async def update_goal(
        self, goal_id: str, *, status: str | None = None, progress: float | None = None, text: str | None = None
    ) -> Goal:
        """Changes a goal and returns it. Raises NotFound, UsageError."""
        return await in_thread(lambda: Agents(self.lab).update_goal(
            self.id, goal_id, status=status, progress=progress, text=text))  # fmt: skip

    async def evaluate_purpose_alignment(self, action: object) -> Alignment:
        """Returns how far an action serves the purpose, from 0 to 1, with `reasons` and `method`.

        The model judges where the agent has one; without one the measure is lexical and says so.
        """
        await self.initialize()
        if not self.model:
            return alignment.by_words(await self.record(), action)
        found = cast("alignment.Judgement", await self.ask(
            alignment.question(action), returns=alignment.Judgement, name="alignment"))  # fmt: skip
        return Alignment(found["score"], [*found["reasons"]], "model")

    async def make_purpose_driven_decision(self, context: object) -> Decision:
        """Returns the option of a context that serves the purpose most, with its alignment and the reasons.

        Args:
            context: a list of options, or a mapping that has them under `options`. A mapping without options is itself
                the one option.
        """
        options = alignment.options_of(context)
        return alignment.decide(options, [await self.evaluate_purpose_alignment(option) for option in options])

    async def get_purpose_status(self) -> dict[str, object]:
        """Returns purpose, scope, criteria, goals and how many are done."""
        present = await self.record()
        done = sum(goal["status"] == "done" for goal in present.goals)
        return {"purpose": present.purpose, "scope": present.scope, "success_criteria": [*present.criteria],
                "goals": [*present.goals], "goals_done": done, "goals_total": len(present.goals)}  # fmt: skip

    # state

    async def get_state(self, key: str | None = None, default: object = None) -> object:
        """Returns a value of the agent's own state, or all of it."""
        return dict(self.state) if key is None else self.state.get(key, default)

    async def update_state(self, key: str, value: object) -> None:
        """Changes a value of the agent's own state; durable before it returns."""
        before = dict(self.state)
        self.state[key] = value
        try:
            await self.save_state()
        except UsageError:  # it cannot be kept, and nothing after it could be
            self.state = before
            raise

    async def save_state(self) -> bool:
        """Saves the agent's own state and its typed fields; durable before it returns.

        Raises:
            UsageError: for a value that is no JSON or not of its type, and for one that holds a secret.
        """
        if self.context_server is None:
            raise Conflict(f"{self.agent_id} is not initialized", hint="await agent.initialize()",
                           code="not_initialized")  # fmt: skip
        fields: dict[str, object] = {}
        for typed in self._typed:
            fields |= typed.dump(self)
        document = {_STATE: checked_state(self.state), _FIELDS: fields}
        form = json.dumps(document, sort_keys=True)
        if form != self._saved:
            await self.context_server.save_state(document)
            self._saved = form
        return True

    async def load_state(self) -> dict[str, object]:
        """Loads what was saved last: sets the typed fields, and returns the agent's own state."""
        if self.context_server is None:
            await self.initialize()
        assert self.context_server is not None
        found = await self.context_server.load_state()
        state = found.get(_STATE, {})
        fields = found.get(_FIELDS, {})
        for typed in self._typed:
            typed.load(self, cast("Mapping[str, object]", fields))
        self.state = dict(cast("Mapping[str, object]", state))
        return self.state


def _docstring_of(cls: type) -> str:
    """Returns the docstring of a class as a prompt; that of a plain class of ours documents it for programs."""
    return "" if "_is_plain" in vars(cls) else inspect.cleandoc(cls.__doc__ or "")


def _name_of(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _differs(known: Agent, given: Changes) -> bool:
    return any(_plain(getattr(known, name)) != _plain(value) for name, value in given.items())


def _plain(value: object) -> object:
    return [*value] if isinstance(value, tuple | list) else value


def _text_of(event: Mapping[str, object]) -> str:
    data = event.get("data")
    return data if isinstance(data, str) else ""


def _handled(message: Record, results: list[object]) -> dict[str, object]:
    return {"event_id": message.id, "type": message["type"], "status": message["state"], "results": results,
            "answer": message["answer"]}  # fmt: skip


async def _value(found: object) -> object:
    return await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found
