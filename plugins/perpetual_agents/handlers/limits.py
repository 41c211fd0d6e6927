"""The handler `limits`: no request goes to a model that the agent's limits or the project's day do not hold."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual_agents import accounts
from perpetual_agents.handler import Handler
from perpetual_agents.messages import size_of

if TYPE_CHECKING:
    from perpetual_agents.model import ModelReply, ModelRequest
    from perpetual_agents.turn import Turn

__all__ = ["LimitsHandler", "build"]

_LOCAL = ("ollama:", "test:", "function:")
_BYTES_PER_TOKEN = 4


class LimitsHandler(Handler):
    """Books each request before it is made, and what it used once its reply is recorded.

    Args:
        usd_per_call: US dollars that a request may cost, where the provider takes money.
    """

    def __init__(self, usd_per_call: float) -> None:
        self._usd = usd_per_call

    async def model(
        self, turn: Turn, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]
    ) -> ModelReply:
        """Books, asks and settles. Raises LimitReached where less is left than the request may use."""
        key = f"{turn.key}#{turn.attempt}"
        account = await turn.blocking(lambda: accounts.of(turn.lab, turn.agent.id))
        is_local = request.model.startswith(_LOCAL)
        tools = json.dumps([{**tool.schema} for tool in request.tools])
        tokens = sum(map(size_of, request.messages)) + (len(request.system) + len(tools)) // _BYTES_PER_TOKEN
        uses = {"calls": 1, "tokens": tokens + request.max_tokens, "usd": 0.0 if is_local else self._usd}
        uses["seconds"] = request.timeout_s
        booked = await turn.blocking(lambda: accounts.book(turn.lab, turn.agent.id, account, key, uses))
        if "seconds" in booked:
            request = replace(request, timeout_s=booked["seconds"])
        began = time.monotonic()
        try:
            reply = await proceed(request)
        except PerpetualError:
            failed_s = time.monotonic() - began
            await turn.blocking(lambda: accounts.took(turn.lab, account, key, failed_s))
            raise
        seconds = time.monotonic() - began
        sent = None if reply.tokens_out is None else float(reply.tokens_out + (reply.tokens_in or 0))
        usd = 0.0 if is_local else reply.usd
        used: dict[str, float | None] = {"calls": 1, "tokens": sent, "usd": usd}
        turn.at_done(lambda: accounts.settle(turn.lab, account, key, used, seconds))
        return reply


def build(options: Mapping[str, object]) -> LimitsHandler:
    """Builds the handler."""
    return LimitsHandler(float(str(options["usd_per_call"])))
