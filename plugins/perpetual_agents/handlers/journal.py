"""The handler `journal`: records each step before its effect and after it, and answers a recorded step at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, cast

from perpetual.toolkit.crashpoints import step
from perpetual_agents.handler import Handler
from perpetual_agents.messages import Message, assistant, tool_result, user
from perpetual_agents.model import ModelReply

if TYPE_CHECKING:
    from perpetual_agents.journal import Kind, Step
    from perpetual_agents.messages import Call
    from perpetual_agents.model import ModelRequest
    from perpetual_agents.turn import Turn

__all__ = ["JournalHandler", "build"]


class JournalHandler(Handler):
    """Makes the steps of an agent durable."""

    journals = True

    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        """Records what was said to the agent, once."""
        key = f"{turn.journal.branch}/{turn.id}/0"
        message = user(turn.text, turn.sender, pinned=turn.is_person)

        def begin() -> None:
            if turn.journal.find(turn.id, key)[1] is None:
                turn.journal.done(turn.id, "message", key, {"message": message})

        await turn.blocking(begin)
        return await proceed()

    async def model(
        self, turn: Turn, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]
    ) -> ModelReply:
        """Asks the model unless its reply is recorded."""
        recorded = await turn.blocking(lambda: _begin(turn, "model", {
            "model": request.model, "messages": len(request.messages), "tools": [tool.name for tool in request.tools],
        }))  # fmt: skip
        if recorded is not None:
            turn.is_replayed = True
            return _reply(recorded)
        reply = await proceed(request)
        step("agent:effect", turn.number)
        said = assistant(reply.text, reply.calls, model=reply.model or request.model, mock=reply.mock, raw=reply.raw)
        body = {"message": said, "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out, "usd": reply.usd}
        done = await turn.blocking(lambda: turn.complete(lambda: turn.journal.done(turn.id, "model", turn.key, body)))
        step("agent:done", turn.number)
        return _reply(done)  # as it was recorded, so that a resumed turn reads the same

    async def tool(self, turn: Turn, call: Call, proceed: Callable[[Call], Awaitable[Message]]) -> Message:
        """Calls the tool unless its result is recorded."""
        recorded = await turn.blocking(
            lambda: _begin(turn, "tool", {"name": call["name"], "args": call["args"], "call": call["id"]})
        )
        if recorded is not None:
            turn.is_replayed = True
            return recorded.message or tool_result(call, "")
        message = await proceed(call)
        step("agent:effect", turn.number)
        done = await turn.blocking(
            lambda: turn.complete(lambda: turn.journal.done(turn.id, "tool", turn.key, {"message": message}))
        )
        step("agent:done", turn.number)
        return done.message or message


def _begin(turn: Turn, kind: Kind, body: Mapping[str, object]) -> Step | None:
    """Returns what a step came to, or records that it is begun once more and returns None."""
    begun = [one for one in turn.journal.of_turn(turn.id) if one.key == turn.key]
    done = next((one for one in begun if one.phase == "done"), None)
    if done is not None:
        return done
    turn.attempt = len(begun) + 1
    turn.journal.begin(turn.id, kind, turn.key, {**body, "attempt": turn.attempt})
    step("agent:begun", turn.number)
    return None


def _reply(found: Step) -> ModelReply:
    message = cast("Message", found.body["message"])
    return ModelReply(
        text=message["text"], calls=tuple(message.get("calls", ())), tokens_in=_count(found.body.get("tokens_in")),
        tokens_out=_count(found.body.get("tokens_out")), usd=cast("float | None", found.body.get("usd")),
        model=message.get("model", ""), raw=message.get("raw"), mock=bool(message.get("mock")),
    )  # fmt: skip


def _count(found: object) -> int | None:
    return found if isinstance(found, int) else None


def build(options: Mapping[str, object]) -> JournalHandler:
    """Builds the handler."""
    return JournalHandler()
