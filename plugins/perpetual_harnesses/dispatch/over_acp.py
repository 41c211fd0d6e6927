"""The dispatcher `acp`: harnesses that speak the Agent Client Protocol (agentclientprotocol.com, version 1).

The wire is the library's (`agent-client-protocol`, the extra `harnesses`); its messages are read here as they come,
since harnesses send more than a version of the schema knows. Updates are taken in the order of the lines, before the
answer that follows them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from perpetual import __version__
from perpetual.api import PerpetualError
from perpetual.toolkit.fence import neutralise
from perpetual_harnesses.dispatch.base import Dispatcher, DispatchError, Row, Server, Task, Turn, Usage
from perpetual_harnesses.dispatch.environment import cleaned
from perpetual_harnesses.dispatch.permission import allows, kind_of, option_of
from perpetual_harnesses.dispatch.process import Process
from perpetual_harnesses.dispatch.stream import Gathered, count, difference, money, trouble_in

if TYPE_CHECKING:
    from acp.connection import Connection

__all__ = ["AcpDispatcher", "build"]

EXTRA = "pip install 'perpetual-lab[harnesses]'"
LONGEST_LINE_BYTES = 16 * 1024 * 1024
_PROTOCOL = 1
_AUTH_REQUIRED, _NO_METHOD = -32000, -32601
_CANCEL_S, _CUT_S = 0.8, 2.0  # for the harness to confirm that it has stopped: for a caller, and at a limit
_CLOSE_S = 1.0
_READY_TICK_S = 0.02
_MOST_REQUESTS, _LINES_AT_ONCE = 64, 32
_MOST_CALLS = 1000  # of tools, whose input is kept for a question about it
_MOST_KEYS = 20  # of an input
_MOST_BAD_LINES = 100  # of what is no message, such as a warning that was printed to the wrong stream

Json = dict[str, object]


class AcpDispatcher(Dispatcher):
    """Drives harnesses over ACP; see the contract in `perpetual_harnesses.dispatch.base`."""

    name = "acp"

    def __init__(self) -> None:
        self._lock = threading.RLock()  # `cancel` may come in a signal handler
        self._going: set[_Going] = set()

    def problem(self, row: Row, environment: Mapping[str, str]) -> PerpetualError | None:
        """Returns what is missing: words in the row, the program, or the library."""
        if not row.acp:
            return DispatchError(f"{row.name} is not known to speak ACP")
        if shutil.which(row.acp[0], path=environment.get("PATH")) is None:
            return DispatchError(f"{row.acp[0]} is not installed", hint=row.install or None)
        if find_spec("acp") is None:
            return DispatchError("the package agent-client-protocol is not installed", hint=EXTRA)
        return None

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        """Sends the prompt in a new process of the harness, and returns what came of it."""
        import os

        environment = cleaned(os.environ, row, task)
        process = Process(_resolved(row.acp, environment), cwd=task.cwd, env=environment)
        gathered = Gathered(task, seen)
        gathered.session = task.session
        going = _Going(process, gathered)
        with self._lock:
            self._going.add(going)
        try:
            asyncio.run(_drive(row, task, process, gathered, going))
        finally:
            with self._lock:
                self._going.discard(going)
            status, left = process.end(is_hasty=gathered.is_over)
        if going.is_cancelled:
            gathered.outcomes -= {"broken_stream", "budget_cut"}
            gathered.blame("cancelled")
        elif "broken_stream" in gathered.outcomes and not gathered.problem:
            gathered.problem = (
                f"the harness ended in the middle of the turn with status {status}: {_last(process.errors)}"
            )
        return gathered.turn(self.name, left, process.errors)

    def cancel(self) -> None:
        """Ends the turns that go on: asks the harness, and ends its processes where it does not stop."""
        with self._lock:
            for going in self._going:
                going.cancel()


class _Going:
    """A turn that goes on, as another thread may end it."""

    def __init__(self, process: Process, gathered: Gathered) -> None:
        self._process, self._gathered = process, gathered
        self.is_cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def ready(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        """Takes what wakes the turn."""
        self._loop, self._stop = loop, stop
        if self.is_cancelled:
            stop.set()

    def cancel(self) -> None:
        """Wakes the turn, which then asks the harness to stop."""
        self.is_cancelled = True
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(stop.set)


class _Wire:
    """The harness's lines as messages; updates of the session are taken right here, in their order."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, update: Callable[[Json], None]
    ) -> None:
        self._reader, self._writer, self._update = reader, writer, update
        self._bad = self._lines = 0
        self._open_requests = 0  # of the harness, that were not answered yet

    async def send(self, message: Json) -> None:
        self._writer.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        await self._writer.drain()
        if "method" not in message:
            self._open_requests -= 1

    async def receive(self) -> Json | None:
        while True:
            self._lines += 1
            if self._lines % _LINES_AT_ONCE == 0:
                await asyncio.sleep(0)  # a flood of lines keeps no limit from being noticed
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, OSError):
                return None
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                self._bad += 1
                if self._bad > _MOST_BAD_LINES:
                    return None
                continue
            if message.get("method") == "session/update":
                parameters = message.get("params")
                if isinstance(parameters, dict) and isinstance(parameters.get("update"), dict):
                    self._update(parameters["update"])
                continue
            if "method" in message and "id" in message:
                self._open_requests += 1
                if self._open_requests > _MOST_REQUESTS:
                    return None  # it asks on without taking the answers
            return message

    async def close(self) -> None:
        self._writer.close()


async def _drive(row: Row, task: Task, process: Process, gathered: Gathered, going: _Going) -> None:
    """Speaks with the harness until the turn is over; what goes wrong is noted in `gathered`."""
    from acp.connection import Connection
    from acp.exceptions import RequestError

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    reader = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    read, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.output)
    write, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.input)
    session = _Session(row, task, gathered, stop.set)
    wire = _Wire(reader, asyncio.StreamWriter(write, protocol, None, loop), session.update)
    connection = Connection(session.answer, wire)
    going.ready(loop, stop)
    speaking = asyncio.ensure_future(session.speak(connection))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((speaking, stopping), timeout=max(0.0, gathered.left_s()), return_when="FIRST_COMPLETED")
        if not speaking.done():
            gathered.is_over = True
            if not going.is_cancelled:
                gathered.blame("budget_cut", gathered.passed() or f"no answer within {task.limits.wall_s:g} s")
            await session.stop(connection, speaking, _CANCEL_S if going.is_cancelled else _CUT_S)
        if speaking.done() and not speaking.cancelled():
            _judge(speaking.exception(), gathered, RequestError)
    finally:
        stopping.cancel()
        speaking.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await speaking
        with contextlib.suppress(Exception):
            await asyncio.wait_for(connection.close(), _CLOSE_S)
        read.close()
        if write.get_write_buffer_size():
            write.abort()  # what a harness does not read is not waited for
        else:
            write.close()


def _judge(problem: BaseException | None, gathered: Gathered, refused: type[Exception]) -> None:
    """Notes why the harness gave no answer."""
    if problem is None:
        return
    if isinstance(problem, refused):
        code, data = getattr(problem, "code", 0), getattr(problem, "data", None)
        said = f"{problem}: {json.dumps(data, default=str)}" if data else str(problem)
        wants_login = code == _AUTH_REQUIRED or "auth_required" in trouble_in(said)
        gathered.blame("auth_required" if wants_login else "no_answer", said)
    elif isinstance(problem, DispatchError):  # what was asked for cannot be had
        gathered.blame("no_answer", problem.message)
    elif isinstance(problem, (ConnectionError, OSError)):
        gathered.blame("broken_stream")
    else:
        gathered.blame("broken_stream", f"{type(problem).__name__}: {problem}")


class _Session:
    """One session of the protocol: what is sent, and what is made of what comes."""

    def __init__(self, row: Row, task: Task, gathered: Gathered, stop: Callable[[], None]) -> None:
        self._row, self._task, self._gathered, self._stop = row, task, gathered, stop
        self._is_prompted = self._is_answered = False
        self._is_speaking = False  # whether the last update was words of the model
        self._is_stepping = False  # whether what comes is of a call of the model that was counted
        self._mcp: set[str] = set()  # tool calls that the harness marks as those of servers
        self._raw: dict[str, Json] = {}  # inputs of tool calls

    async def speak(self, connection: Connection) -> None:
        """Opens the session, sends the prompt, and takes the answer."""
        hello = _mapping(await connection.send_request("initialize", {
            "protocolVersion": _PROTOCOL,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "perpetual", "title": "Perpetual", "version": __version__},
        }))  # fmt: skip
        opened = await self._open(connection, _mapping(hello.get("agentCapabilities")))
        await self._set_mode(connection, opened)
        await self._set_model(connection, opened)
        await self._await_server()
        self._is_prompted = True
        answer = _mapping(await connection.send_request("session/prompt", {
            "sessionId": self._gathered.session, "prompt": [{"type": "text", "text": self._task.prompt}],
        }))  # fmt: skip
        self._is_answered = True
        self._take_usage(answer)
        self._take_reason(answer.get("stopReason"))
        await self._close(connection, _mapping(hello.get("agentCapabilities")))

    async def _open(self, connection: Connection, abilities: Json) -> Json:
        """Opens a new session, or the one to go on with; returns the harness's answer."""
        from acp.exceptions import RequestError

        servers = [_server(server) for server in self._task.servers]
        place: Json = {"cwd": str(self._task.cwd), "mcpServers": servers}
        earlier = self._task.session
        if earlier is not None:
            ways = (["session/resume"] if "resume" in _mapping(abilities.get("sessionCapabilities")) else []) + (
                ["session/load"] if abilities.get("loadSession") else []
            )
            problem: Exception | None = None
            for way in ways:
                try:
                    found = _mapping(await connection.send_request(way, {"sessionId": earlier, **place}))
                    self._gathered.session = earlier
                    return found
                except RequestError as refused:
                    if refused.code == _AUTH_REQUIRED:
                        raise
                    problem = refused
            raise problem or DispatchError("the harness cannot go on with a session")
        found = _mapping(await connection.send_request("session/new", place))
        if not isinstance(found.get("sessionId"), str) or not found["sessionId"]:
            raise DispatchError("the harness opened no session")
        self._gathered.session = neutralise(found["sessionId"], 200)
        return found

    async def _set_mode(self, connection: Connection, opened: Json) -> None:
        """Chooses the agent that the task wants, or the mode of the row in which the harness asks for permissions."""
        modes = _mapping(opened.get("modes"))
        known = {str(one.get("id")) for one in _list(modes.get("availableModes"))}
        option, choices = _option(opened, "agent") if self._task.agent else (None, set[str]())
        if option is None and self._task.agent:
            option, choices = _option(opened, "mode")
        wanted = self._task.agent or self._row.mode
        if self._task.agent and self._task.agent not in known | choices:
            self._gathered.blame("fallback_agent", f"the harness does not know the agent {self._task.agent}")
            wanted = self._row.mode
        if not wanted:
            return
        if wanted in known:
            if wanted != modes.get("currentModeId"):
                await self._ask(connection, "session/set_mode", {"modeId": wanted})
        elif option is not None and wanted in choices:
            await self._ask(connection, "session/set_config_option", {"configId": option, "value": wanted})

    async def _set_model(self, connection: Connection, opened: Json) -> None:
        """Chooses the model that the task names, and notes the one in force."""
        option, choices = _option(opened, "model")
        models = _mapping(opened.get("models"))
        known = {str(one.get("modelId")) for one in _list(models.get("availableModels"))}
        self._gathered.model = str(models.get("currentModelId") or _current(opened, "model") or "")
        wanted = self._task.model
        if not wanted:
            return
        if option is not None and wanted in choices:
            await self._ask(connection, "session/set_config_option", {"configId": option, "value": wanted})
        elif wanted in known:
            await self._ask(connection, "session/set_model", {"modelId": wanted})
        else:
            some = ", ".join(sorted(choices | known)[:8])
            raise DispatchError(f"the harness offers no model {neutralise(wanted, 60)}; it has {some or 'no choice'}")
        self._gathered.model = wanted

    async def _await_server(self) -> None:
        """Waits a while for the harness to speak to the lab's server: some send the prompt to the model before."""
        ready, deadline = self._task.ready, time.monotonic() + min(self._task.ready_s, self._gathered.left_s() / 2)
        while ready is not None and not ready.exists() and time.monotonic() < deadline:
            await asyncio.sleep(_READY_TICK_S)

    async def _ask(self, connection: Connection, method: str, parameters: Json) -> None:
        await connection.send_request(method, {"sessionId": self._gathered.session, **parameters})

    async def _close(self, connection: Connection, abilities: Json) -> None:
        """Closes the session where the harness offers that, so that it is written down."""
        if "close" in _mapping(abilities.get("sessionCapabilities")):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._ask(connection, "session/close", {}), _CLOSE_S)

    async def stop(self, connection: Connection, speaking: asyncio.Future[None], seconds: float) -> None:
        """Asks the harness to stop, and waits a while for its word that it has."""
        if not self._is_prompted:
            return
        asked = asyncio.ensure_future(
            connection.send_notification("session/cancel", {"sessionId": self._gathered.session})
        )
        try:  # a harness that does not read any more takes no word either
            await asyncio.wait((speaking, asked), timeout=seconds, return_when="FIRST_EXCEPTION")
            if not speaking.done() and asked.done():
                await asyncio.wait((speaking,), timeout=seconds)
        finally:
            asked.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asked

    # --- what comes ---------------------------------------------------------------------------------------------

    async def answer(self, method: str, parameters: object, is_notification: bool) -> object:
        """Answers a request of the harness: permissions by the policy, everything else not at all."""
        from acp.exceptions import RequestError

        if is_notification:
            return None  # of a kind that no one here needs
        if method != "session/request_permission":
            raise RequestError.method_not_found(method)
        asked = _mapping(parameters)
        call = _mapping(asked.get("toolCall"))
        id = str(call.get("toolCallId"))
        title = str(call.get("title") or self._gathered.title_of(id))
        kind = kind_of(call["kind"]) if call.get("kind") else self._gathered.kind_of(id)
        is_mcp = (
            any(_mapping(one.get("_meta")).get("is_mcp_tool_call") is True for one in (asked, call)) or id in self._mcp
        )
        raw = call.get("rawInput") or self._raw.get(id)
        is_over = self._gathered.is_over or self._is_answered or not self._is_prompted
        allowed = not is_over and allows(self._task, kind, title, raw, is_mcp=is_mcp)
        option = option_of(asked.get("options"), allowed=allowed)
        if option is None and allowed:  # only for good, or in a way that is not known here
            allowed, option = False, option_of(asked.get("options"), allowed=False)
        if not is_over:
            self._gathered.asked(title, kind, allowed=allowed)
        if option is None or is_over:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": option}}

    def update(self, update: Json) -> None:
        """Takes one update of the session; what is said again of earlier turns is left out."""
        if not self._is_prompted or self._gathered.is_over:
            return
        kind = update.get("sessionUpdate")
        if kind in ("agent_message_chunk", "agent_thought_chunk", "tool_call") and not self._is_stepping:
            self._gathered.step()
            self._is_stepping = True
        if kind == "agent_message_chunk":
            text = _mapping(update.get("content")).get("text")
            if isinstance(text, str):
                if not self._is_speaking:
                    self._gathered.begin_words()
                self._gathered.say(text)
            self._is_speaking = True
            self._add_usage(_mapping(_mapping(update.get("_meta")).get("usage")))
        elif kind in ("tool_call", "tool_call_update"):
            self._take_call(update)
        elif kind == "usage_update":
            cost = _mapping(update.get("cost"))
            if cost.get("currency") == "USD":
                self._take_sum(money(cost.get("amount")))
        if self._gathered.passed() is not None:
            self._stop()

    def _take_call(self, update: Json) -> None:
        """Takes what is new of a tool call; its result is what the next call of the model begins with."""
        id, self._is_speaking = str(update.get("toolCallId")), False
        status = _text(update.get("status"))
        if status in ("completed", "failed"):
            self._is_stepping = False
        if _mapping(update.get("_meta")).get("is_mcp_tool_call") is True:
            self._mcp.add(id)
        if raw := _mapping(update.get("rawInput")):
            self._raw[id] = {key[:40]: _short(value) for key, value in [*raw.items()][:_MOST_KEYS]}
            if len(self._raw) > _MOST_CALLS:
                del self._raw[next(iter(self._raw))]
        self._gathered.tool(
            id, title=_text(update.get("title")), kind=kind_of(update["kind"]) if update.get("kind") else None,
            status=status,
        )  # fmt: skip

    def _add_usage(self, usage: Json) -> None:
        """Takes the tokens of one call of the model, as Qwen Code adds them to its words."""
        into, out = count(usage.get("inputTokens")), count(usage.get("outputTokens"))
        if into is not None and out is not None:
            used = self._gathered.used
            self._gathered.used = replace(
                used, tokens_in=(used.tokens_in or 0) + into, tokens_out=(used.tokens_out or 0) + out
            )

    def _take_sum(self, usd: float | None) -> None:
        """Takes the money that the session has cost so far."""
        if usd is None:
            return
        self._gathered.sums = replace(self._gathered.sums, usd=usd)
        self._gathered.used = replace(
            self._gathered.used, usd=difference(Usage(usd=usd), Usage(usd=self._task.known.usd)).usd
        )

    def _take_usage(self, answer: Json) -> None:
        """Takes the tokens of this prompt, where the harness says them."""
        more = _mapping(answer.get("_meta"))
        usage = _mapping(answer.get("usage")) or _mapping(more.get("usage"))
        out, total = count(usage.get("outputTokens")), count(usage.get("totalTokens"))
        into = count(usage.get("inputTokens"))
        if total is not None and out is not None and total >= out:  # with what was read from a cache
            into = total - out
        if not usage and self._gathered.used.tokens is not None:
            return  # said call by call
        if not usage:
            quota = _mapping(_mapping(more.get("quota")).get("token_count"))
            into, out = count(quota.get("input_tokens")), count(quota.get("output_tokens"))
        if self._row.usage == "last_step" and (self._gathered.used.steps or 0) > 1:
            return  # of the calls of the model before the last one nothing is known
        self._gathered.used = replace(self._gathered.used, tokens_in=into, tokens_out=out)

    def _take_reason(self, reason: object) -> None:
        if reason == "cancelled":
            self._gathered.blame("budget_cut" if "budget_cut" in self._gathered.outcomes else "cancelled")
        elif reason in ("max_tokens", "max_turn_requests"):
            self._gathered.blame("budget_cut", f"the harness stopped at its own limit: {reason}")
        elif reason == "refusal":
            self._gathered.blame("no_answer", "the model refused to answer")
        elif reason != "end_turn":
            self._gathered.blame("broken_stream", f"the turn ended for the unknown reason {neutralise(reason, 40)}")


def _server(server: Server) -> Json:
    return {
        "name": server.name, "command": server.command, "args": [*server.args],
        "env": [{"name": name, "value": value} for name, value in server.env.items()],
    }  # fmt: skip


def _option(opened: Json, id: str) -> tuple[str | None, set[str]]:
    """Returns the id of a choice that the session offers, by id or category, and its values."""
    for one in _list(opened.get("configOptions")):
        if id in (one.get("id"), one.get("category")):
            found = _list(one.get("options"))
            groups = [inner for group in found for inner in _list(group.get("options"))]
            return str(one.get("id")), {str(item.get("value")) for item in (*found, *groups) if item.get("value")}
    return None, set()


def _current(opened: Json, id: str) -> str | None:
    return next(
        (str(one.get("currentValue")) for one in _list(opened.get("configOptions"))
         if id in (one.get("id"), one.get("category"))), None,
    )  # fmt: skip


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _short(value: object) -> object:
    """Returns a value of an input as it is kept: a short text, or that there is something else."""
    return value if isinstance(value, str) and len(value) < 200 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _last(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return neutralise(lines[-1], 200) if lines else "it said nothing"


def _resolved(words: tuple[str, ...], environment: Mapping[str, str]) -> list[str]:
    """Returns the words with the program's whole path, so that it is the one of the cleaned PATH."""
    return [shutil.which(words[0], path=environment.get("PATH")) or words[0], *words[1:]]


def build(options: Mapping[str, object]) -> AcpDispatcher:
    """Builds the provider `acp`; it has no options."""
    return AcpDispatcher()
