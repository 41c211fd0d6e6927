"""The handler `retry`: asks a model again where its failure is transient, after a growing and jittered wait."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from perpetual_agents.handler import Handler
from perpetual_agents.model import ModelError

if TYPE_CHECKING:
    from perpetual_agents.model import ModelReply, ModelRequest
    from perpetual_agents.turn import Turn

__all__ = ["RetryHandler", "build"]


class RetryHandler(Handler):
    """Retries requests to models.

    Args:
        times: how often it asks again at most.
        first_s: seconds of the first wait; each further one is twice as long, and each is drawn from its half up.
        longest_s: seconds of a wait at most; a provider that asks for a longer one fails the turn.
    """

    def __init__(self, times: int = 4, first_s: float = 0.5, longest_s: float = 60.0) -> None:
        self._times, self._first_s, self._longest_s = times, first_s, longest_s

    async def model(
        self, turn: Turn, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]
    ) -> ModelReply:
        """Asks until there is a reply, or an error that trying again does not mend."""
        for number in range(self._times + 1):
            try:
                return await proceed(request)
            except ModelError as problem:
                wait_s = problem.retry_after_s
                if wait_s is None:
                    wait_s = min(self._longest_s, self._first_s * 2**number) * random.uniform(0.5, 1.0)
                if not problem.is_transient or number == self._times or wait_s > self._longest_s:
                    raise
                turn.facts["retries"] = int(str(turn.facts.get("retries", 0))) + 1
                await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")


def build(options: Mapping[str, object]) -> RetryHandler:
    """Builds the handler."""
    return RetryHandler(int(str(options["times"])), float(str(options["first_s"])), float(str(options["longest_s"])))
