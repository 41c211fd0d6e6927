"""The handler `tracing`: turns, requests and calls of tools as spans of OpenTelemetry, and tokens and times as metrics.

It does nothing unless the process has a provider of tracers or of meters, which a program sets, or the command
`opentelemetry-instrument` of the extra `otel`. Names are those of the conventions for generative AI in the version
below, which are not stable yet. What is said, and the arguments and results of tools, are in no span.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual_agents.handler import Handler, Suspend

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import Span, SpanKind, Tracer

    from perpetual_agents.messages import Call, Message
    from perpetual_agents.model import ModelReply, ModelRequest
    from perpetual_agents.turn import Turn

__all__ = ["CONVENTIONS", "TracingHandler", "build"]

CONVENTIONS = "1.41.0"  # the last version before those of generative AI moved into a repository of their own
_SCHEMA = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
_SCOPE = "perpetual.agents"
_PROVIDERS = {"mistral": "mistral_ai", "google": "gcp.gemini"}  # of models, where the conventions have another name
_SET_BY = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
# The conventions' own bounds of the buckets.
_TOKENS = [4.0**power for power in range(14)]
_SECONDS = [0.01 * 2**power for power in range(14)]
_used: ContextVar[dict[str, int] | None] = ContextVar("perpetual_agents_tokens", default=None)


@dataclass(frozen=True, slots=True)
class _Instruments:
    """What spans and metrics are made with, of the providers in force."""

    of: tuple[object, object]
    tracer: Tracer
    tokens: Histogram
    seconds: Histogram


class TracingHandler(Handler):
    """Traces a turn and its steps."""

    def __init__(self) -> None:
        self._cached: _Instruments | None = None

    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        """Makes the span `invoke_agent`."""
        made = self._instruments()
        if made is None:
            return await proceed()
        about = {**_of_model("invoke_agent", turn.agent.model or ""), "gen_ai.agent.id": turn.agent.id,
                 "gen_ai.agent.name": turn.agent.name, "gen_ai.conversation.id": turn.journal.branch}  # fmt: skip
        tokens = {"input": 0, "output": 0}
        token = _used.set(tokens)
        try:
            with _span(made, f"invoke_agent {turn.agent.name}", about) as span:
                try:
                    return await proceed()
                finally:
                    for kind, count in tokens.items():
                        span.set_attribute(f"gen_ai.usage.{kind}_tokens", count)
        finally:
            _used.reset(token)

    async def model(
        self, turn: Turn, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]
    ) -> ModelReply:
        """Makes the span `chat`, with the tokens that were used; a recorded reply has used none."""
        made = self._instruments()
        if made is None:
            return await proceed(request)
        about = _of_model("chat", request.model)
        began, failed = time.monotonic(), ""
        with _span(made, f"chat {about['gen_ai.request.model']}", about, is_client=True) as span:
            span.set_attribute("gen_ai.request.max_tokens", request.max_tokens)
            span.set_attribute("gen_ai.agent.name", turn.agent.name)
            try:
                reply = await proceed(request)
            except PerpetualError as problem:
                failed = problem.code
                raise
            finally:
                if not turn.is_replayed:
                    of_time = {**about, "error.type": failed} if failed else about
                    made.seconds.record(time.monotonic() - began, of_time)
            span.set_attribute("gen_ai.response.model", reply.model or request.model)
            if reply.mock:
                span.set_attribute("perpetual.mock", True)
            if turn.is_replayed:
                span.set_attribute("perpetual.replayed", True)
                return reply
            about["gen_ai.response.model"] = reply.model or request.model
            total = _used.get()
            for kind, count in (("input", reply.tokens_in), ("output", reply.tokens_out)):
                if count is not None:
                    span.set_attribute(f"gen_ai.usage.{kind}_tokens", count)
                    made.tokens.record(count, {**about, "gen_ai.token.type": kind})
                    if total is not None:
                        total[kind] += count
            return reply

    async def tool(self, turn: Turn, call: Call, proceed: Callable[[Call], Awaitable[Message]]) -> Message:
        """Makes the span `execute_tool`."""
        made = self._instruments()
        if made is None:
            return await proceed(call)
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call["name"],
                 "gen_ai.tool.call.id": call["id"], "gen_ai.tool.type": "function"}  # fmt: skip
        with _span(made, f"execute_tool {call['name']}", about) as span:
            result = await proceed(call)
            if turn.is_replayed:
                span.set_attribute("perpetual.replayed", True)
            if result.get("is_error"):
                _fail(span, "tool_error")
            return result

    def _instruments(self) -> _Instruments | None:
        """Returns what spans are made with; None where nothing in the process would take them."""
        if "opentelemetry.trace" not in sys.modules and not any(os.environ.get(name) for name in _SET_BY):
            return None  # a provider is set by what imports this module
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            return None
        of = trace.get_tracer_provider(), metrics.get_meter_provider()
        if all(type(one).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics")) for one in of):
            return None  # the interface's own, which take nothing
        if self._cached is None or self._cached.of != of:
            meter = metrics.get_meter(_SCOPE, schema_url=_SCHEMA)
            self._cached = _Instruments(
                of, trace.get_tracer(_SCOPE, schema_url=_SCHEMA),
                meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens that were used",
                                       explicit_bucket_boundaries_advisory=_TOKENS),
                meter.create_histogram("gen_ai.client.operation.duration", "s", "Seconds of a request",
                                       explicit_bucket_boundaries_advisory=_SECONDS),
            )  # fmt: skip
        return self._cached


@contextmanager
def _span(made: _Instruments, name: str, about: Mapping[str, str], *, is_client: bool = False) -> Iterator[Span]:
    """Yields a span that is current; what fails inside is marked by the code of its error."""
    from opentelemetry.trace import SpanKind

    kind: SpanKind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
    with made.tracer.start_as_current_span(
        name, kind=kind, attributes=dict(about), record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Suspend:
            raise  # it goes on later
        except PerpetualError as problem:
            _fail(span, problem.code)
            raise
        except Exception as problem:
            _fail(span, type(problem).__name__)
            raise


def _fail(span: Span, kind: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _of_model(operation: str, model: str) -> dict[str, str]:
    """Returns the attributes of an operation with a model, `provider:name`."""
    provider, _, name = model.partition(":")
    return {"gen_ai.operation.name": operation, "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": name or model}  # fmt: skip


def build(options: Mapping[str, object]) -> TracingHandler:
    """Builds the handler."""
    return TracingHandler()
