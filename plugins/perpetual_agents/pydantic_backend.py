"""The backend `pydantic-ai`: twelve providers of models by their names, and a stand-in that is asked for by name.

    {"model": "ollama:qwen3:4b"}    {"model": "openrouter:z-ai/glm-4.6"}    {"model": "test:echo"}

What is heavy is imported with the first request, in a thread, so that a request can be cancelled meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from perpetual_agents import providers, stand_in
from perpetual_agents.model import ModelBackend, ModelReply, ModelRequest, ModelUnavailable, Say

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["PydanticBackend", "build", "engine"]

_ENGINE = "perpetual_agents.pydantic_engine"


async def engine() -> ModuleType:
    """Returns the module that asks models."""
    return await asyncio.to_thread(import_module, _ENGINE)


class _Heard:
    """Hands pieces of a reply on, and keeps the error of the one that hears them."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.problem: Exception | None = None

    def __call__(self, piece: str) -> None:
        try:
            self._say(piece)
        except Exception as problem:
            self.problem = problem
            raise


class PydanticBackend(ModelBackend):
    """Asks models through pydantic-ai. It keeps nothing open between two requests."""

    def problem(self, model: str) -> ModelUnavailable | None:
        """Returns why a model could not be asked: an unknown provider, a missing package or key."""
        return providers.problem_of(model)

    def resolved(self, model: str) -> tuple[str, str | None]:
        """Returns the full name; a bare one that ends with a size is one of Ollama, and the note says so.

        Raises:
            ModelUnavailable: for a name that no provider has.
        """
        providers.split(model)
        return providers.full_name(model)

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        """Sends one request.

        Raises:
            ModelError: where there is no reply.
        """
        problem = self.problem(request.model)
        if problem is not None:
            raise problem
        name, model = providers.split(request.model)
        if name == providers.STAND_IN:
            return stand_in.answer(request, say)
        provider = providers.PROVIDERS[name]
        found = providers.address(provider)
        asks = await engine()
        heard = None if say is None else _Heard(say)
        try:
            async with asyncio.timeout(request.timeout_s), asks.client() as client:
                asked = await asyncio.to_thread(asks.model_of, provider, model, found, client)  # imports, at first
                return cast("ModelReply", await asks.ask(asked, request, heard, is_priced=found.is_own))
        except Exception as failed:
            if heard is not None and failed is heard.problem:
                raise  # it is the caller's
            raise asks.failure(failed, name, key=found.key, variable=provider.keys[0]) from None


def build(options: Mapping[str, object]) -> PydanticBackend:
    """Builds the backend."""
    return PydanticBackend()
