"""One session over ACP: what a harness is sent, and what is made of what comes. Used by `over_acp`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from perpetual import __version__
from perpetual.toolkit.fence import neutralise
from perpetual_harnesses.dispatch.base import DispatchError, Row, Server, Task, Usage
from perpetual_harnesses.dispatch.messages import Json, mapping, mappings, text
from perpetual_harnesses.dispatch.permission import allows, kind_of, option_of
from perpetual_harnesses.dispatch.stream import Gathered, count, difference, money

if TYPE_CHECKING:
    from acp.connection import Connection

__all__ = ["AUTH_REQUIRED", "CLOSE_S", "Session"]

AUTH_REQUIRED = -32000  # of ACP, in the range that JSON-RPC leaves to programs
CLOSE_S = 1.0
_PROTOCOL = 1
_READY_TICK_S = 0.02
_MOST_CALLS = 1000  # of tools, whose input is kept for a question about it
_MOST_KEYS = 20  # of an input


class Session:
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
        hello = mapping(await connection.send_request("initialize", {
            "protocolVersion": _PROTOCOL,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "perpetual", "title": "Perpetual", "version": __version__},
        }))  # fmt: skip
        opened = await self._open(connection, mapping(hello.get("agentCapabilities")))
        await self._set_mode(connection, opened)
        await self._set_model(connection, opened)
        await self._await_server()
        self._is_prompted = True
        answer = mapping(await connection.send_request("session/prompt", {
            "sessionId": self._gathered.session, "prompt": [{"type": "text", "text": self._task.prompt}],
        }))  # fmt: skip
        self._is_answered = True
        self._take_usage(answer)
        self._take_reason(answer.get("stopReason"))
        await self._close(connection, mapping(hello.get("agentCapabilities")))

    async def _open(self, connection: Connection, abilities: Json) -> Json:
        """Opens a new session, or the one to go on with; returns the harness's answer."""
        from acp.exceptions import RequestError

        servers = [_server(server) for server in self._task.servers]
        place: Json = {"cwd": str(self._task.cwd), "mcpServers": servers}
        earlier = self._task.session
        if earlier is not None:
            ways = (["session/resume"] if "resume" in mapping(abilities.get("sessionCapabilities")) else []) + (
                ["session/load"] if abilities.get("loadSession") else []
            )
            problem: Exception | None = None
            for way in ways:
                try:
                    found = mapping(await connection.send_request(way, {"sessionId": earlier, **place}))
                    self._gathered.session = earlier
                    return found
                except RequestError as refused:
                    if refused.code == AUTH_REQUIRED:
                        raise
                    problem = refused
            raise problem or DispatchError("the harness cannot go on with a session")
        found = mapping(await connection.send_request("session/new", place))
        if not isinstance(found.get("sessionId"), str) or not found["sessionId"]:
            raise DispatchError("the harness opened no session")
        self._gathered.session = neutralise(found["sessionId"], 200)
        return found

    async def _set_mode(self, connection: Connection, opened: Json) -> None:
        """Chooses the agent that the task wants, or the mode of the row in which the harness asks for permissions."""
        modes = mapping(opened.get("modes"))
        known = {str(one.get("id")) for one in mappings(modes.get("availableModes"))}
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
        models = mapping(opened.get("models"))
        known = {str(one.get("modelId")) for one in mappings(models.get("availableModels"))}
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
        if "close" in mapping(abilities.get("sessionCapabilities")):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._ask(connection, "session/close", {}), CLOSE_S)

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
        asked = mapping(parameters)
        call = mapping(asked.get("toolCall"))
        id = str(call.get("toolCallId"))
        title = str(call.get("title") or self._gathered.title_of(id))
        kind = kind_of(call["kind"]) if call.get("kind") else self._gathered.kind_of(id)
        is_mcp = (
            any(mapping(one.get("_meta")).get("is_mcp_tool_call") is True for one in (asked, call)) or id in self._mcp
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
            text = mapping(update.get("content")).get("text")
            if isinstance(text, str):
                if not self._is_speaking:
                    self._gathered.begin_words()
                self._gathered.say(text)
            self._is_speaking = True
            self._add_usage(mapping(mapping(update.get("_meta")).get("usage")))
        elif kind in ("tool_call", "tool_call_update"):
            self._take_call(update)
        elif kind == "usage_update":
            cost = mapping(update.get("cost"))
            if cost.get("currency") == "USD":
                self._take_sum(money(cost.get("amount")))
        if self._gathered.passed() is not None:
            self._stop()

    def _take_call(self, update: Json) -> None:
        """Takes what is new of a tool call; its result is what the next call of the model begins with."""
        id, self._is_speaking = str(update.get("toolCallId")), False
        status = text(update.get("status"))
        if status in ("completed", "failed"):
            self._is_stepping = False
        if mapping(update.get("_meta")).get("is_mcp_tool_call") is True:
            self._mcp.add(id)
        if raw := mapping(update.get("rawInput")):
            self._raw[id] = {key[:40]: _short(value) for key, value in [*raw.items()][:_MOST_KEYS]}
            if len(self._raw) > _MOST_CALLS:
                del self._raw[next(iter(self._raw))]
        self._gathered.tool(
            id, title=text(update.get("title")), kind=kind_of(update["kind"]) if update.get("kind") else None,
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
        more = mapping(answer.get("_meta"))
        usage = mapping(answer.get("usage")) or mapping(more.get("usage"))
        out, total = count(usage.get("outputTokens")), count(usage.get("totalTokens"))
        into = count(usage.get("inputTokens"))
        if total is not None and out is not None and total >= out:  # with what was read from a cache
            into = total - out
        if not usage and self._gathered.used.tokens is not None:
            return  # said call by call
        if not usage:
            quota = mapping(mapping(more.get("quota")).get("token_count"))
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
    for one in mappings(opened.get("configOptions")):
        if id in (one.get("id"), one.get("category")):
            found = mappings(one.get("options"))
            groups = [inner for group in found for inner in mappings(group.get("options"))]
            return str(one.get("id")), {str(item.get("value")) for item in (*found, *groups) if item.get("value")}
    return None, set()


def _current(opened: Json, id: str) -> str | None:
    return next(
        (str(one.get("currentValue")) for one in mappings(opened.get("configOptions"))
         if id in (one.get("id"), one.get("category"))), None,
    )  # fmt: skip


def _short(value: object) -> object:
    """Returns a value of an input as it is kept: a short text, or that there is something else."""
    return value if isinstance(value, str) and len(value) < 200 else None
