"""The slot `agent_handler`: what happens around the steps of an agent, one concern each.

An agent is data. What is done with it is done by handlers, in the order that the option `handlers` of the plugin names
(by default that of their providers): the first is outermost. Each wraps the steps of a turn as middleware does:

    class Timing(Handler):
        async def model(self, turn, request, proceed):
            began = time.monotonic()
            reply = await proceed(request)
            turn.note("model_s", time.monotonic() - began)
            return reply

The contract
------------
*Pass on.* A handler calls `proceed` with what it was given or with a changed copy, and returns what came of it or a
changed copy. It may answer instead (a recorded reply), refuse (raise), or call it again (a retry).

*Of one agent at a time.* The methods run in the event loop of the agent's turn. What blocks goes through
`turn.blocking`. A handler keeps nothing between turns but caches: what it needs to go on is in the record.

*Errors.* A PerpetualError ends the turn: its message fails with the error. `Suspend` ends it without a result: the
message waits, and the turn goes on where it was once it is taken up again. `Pause` ends it so too, and pauses the agent
with its words as the reason, until a person lets it go on. Any other exception is a fault of the
handler, and the agent goes to the state error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from perpetual.api import PerpetualError

if TYPE_CHECKING:
    from perpetual_agents.messages import Call, Message
    from perpetual_agents.model import ModelReply, ModelRequest
    from perpetual_agents.turn import Turn

__all__ = ["Handler", "Pause", "Suspend", "ToolRequest"]

Proceed: TypeAlias = "Callable[[ModelRequest], Awaitable[ModelReply]]"
ToolRequest: TypeAlias = "Call"
ProceedTool: TypeAlias = "Callable[[Call], Awaitable[Message]]"


class Suspend(Exception):
    """Ends a turn for now: its message waits, and the turn goes on at the same step later.

    Args:
        reason: what it waits for, in words.
        hint: the command that ends the wait.
        still: returns whether there is still something to wait for; asked in the transaction in which the message is
            set to wait, so that what ended the wait just before is not missed.
    """

    def __init__(self, reason: str, *, hint: str | None = None, still: Callable[[], bool] | None = None) -> None:
        super().__init__(reason)
        self.reason, self.hint, self.still = reason, hint, still


class Pause(PerpetualError):
    """Pauses the agent with a reason: its message waits, and goes on at the same step once a person resumes it."""

    code = "agent_paused"
    exit = 7


class Handler:
    """One concern around the steps of a turn; see the contract at the top of this module. Each method passes on.

    `journals` is true of a handler that records the steps; it is left out where another handler asks the model for
    itself (`Turn.beside`), which is a step that is recorded already.
    """

    journals = False

    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        """Wraps a whole turn; returns the last message of the agent."""
        return await proceed()

    async def history(self, turn: Turn, messages: list[Message]) -> list[Message]:
        """Returns the conversation that a model is shown, given what the handlers before made of it."""
        return messages

    async def model(self, turn: Turn, request: ModelRequest, proceed: Proceed) -> ModelReply:
        """Wraps one request to a model."""
        return await proceed(request)

    async def tool(self, turn: Turn, call: Call, proceed: ProceedTool) -> Message:
        """Wraps one call of a tool."""
        return await proceed(call)
