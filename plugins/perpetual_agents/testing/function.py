"""A backend whose model is a Python function, by the engine's own FunctionModel: for tests without any model.

    from pydantic_ai.messages import ModelResponse, TextPart

    backend = FunctionBackend(lambda messages, info: ModelResponse([TextPart("two")]))
    backend = FunctionBackend(scripted("two", [("add", {"a": 1})], ModelError("busy", is_transient=True)))

Its model is named `function:NAME`. A reply goes the way of a real one, streamed too, and is marked as a stand-in's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from perpetual_agents.model import ModelBackend, ModelReply, ModelRequest, ModelUnavailable, Say

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models.function import AgentInfo, DeltaToolCalls

__all__ = ["Answer", "FunctionBackend", "scripted"]

_PREFIX = "function:"
Function: TypeAlias = "Callable[[list[ModelMessage], AgentInfo], ModelResponse]"
Answer: TypeAlias = "str | Sequence[tuple[str, Mapping[str, object]]] | Exception"


class FunctionBackend(ModelBackend):
    """Answers by a function.

    Args:
        function: given the engine's messages and what is known of the request, returns the engine's response.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self.asked: list[ModelRequest] = []

    def problem(self, model: str) -> ModelUnavailable | None:
        """Returns why it cannot be asked: the engine is missing, or the name is no function's."""
        if not model.startswith(_PREFIX):
            return ModelUnavailable(f"{model[:60]!r} is no function", hint="function:NAME")
        if find_spec("pydantic_ai") is None:
            return ModelUnavailable("the package pydantic-ai is not installed",
                                    hint="pip install 'perpetual-lab[agents]'")  # fmt: skip
        return None

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        """Calls the function, and keeps the request in `asked`.

        Raises:
            ModelError: where the function raises.
        """
        problem = self.problem(request.model)
        if problem is not None:
            raise problem
        self.asked.append(request)
        from pydantic_ai.models.function import FunctionModel

        from perpetual_agents import pydantic_engine

        model = FunctionModel(self._function, stream_function=self._stream, model_name=request.model)
        try:
            async with asyncio.timeout(request.timeout_s):
                return replace(await pydantic_engine.ask(model, request, say), mock=True)
        except Exception as failed:
            raise pydantic_engine.failure(failed, "function", key=None, variable=None) from failed

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        from pydantic_ai.messages import ToolCallPart
        from pydantic_ai.models.function import DeltaToolCall

        response = self._function(messages, info)
        for piece in re.findall(r"\S+\s*|\s+", response.text or "") or [""]:
            yield piece
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        for number, part in enumerate(calls, 1):
            yield {number: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}


def scripted(*answers: Answer) -> Function:
    """Returns a function that gives one answer after the other, the last again and again.

    Args:
        answers: a text, the calls of tools as (name, arguments), or what is raised.
    """
    left = [*answers]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        if isinstance(found, str):
            return ModelResponse([TextPart(found)])
        place = len(messages)
        return ModelResponse([ToolCallPart(name, dict(args), f"call{place}-{number}")
                              for number, (name, args) in enumerate(found, 1)])  # fmt: skip

    return answer
