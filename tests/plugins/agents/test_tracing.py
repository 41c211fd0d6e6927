"""The handler `tracing`: spans and metrics of a turn in the memory of OpenTelemetry's own exporters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perpetual import Lab
from perpetual_agents.agents import Agents
from perpetual_agents.handler import Handler
from perpetual_agents.handlers.tracing import CONVENTIONS, build
from perpetual_agents.model import ModelError
from perpetual_agents.testing.handlers import HandlerContract
from tests.plugins.agents.support import Scripted, agent, call, say, work


@pytest.mark.slow
class TestTracing(HandlerContract):
    """Where nothing takes the spans."""

    @pytest.fixture
    def handler(self) -> Handler:
        return build({})


@contextmanager
def exported(patch: pytest.MonkeyPatch) -> Iterator[tuple[InMemorySpanExporter, InMemoryMetricReader]]:
    """Sets providers for this block alone; the interface itself sets them once in a process."""
    spans, figures = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([figures])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    patch.setattr(trace, "get_tracer_provider", lambda: tracers)
    patch.setattr(trace, "get_tracer", lambda name, **more: tracers.get_tracer(name, schema_url=more["schema_url"]))
    patch.setattr(metrics, "get_meter_provider", lambda: meters)
    patch.setattr(metrics, "get_meter", lambda name, **more: meters.get_meter(name, schema_url=more["schema_url"]))
    yield spans, figures
    tracers.shutdown()
    meters.shutdown()


@pytest.mark.slow
class TestTracingToMemory(TestTracing):
    """Where something takes them."""

    @pytest.fixture
    def handler(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handler]:
        with exported(monkeypatch):
            yield build({})


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[InMemorySpanExporter, InMemoryMetricReader]]:
    with exported(monkeypatch) as found:
        yield found


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_a_turn_is_one_trace_with_its_steps_and_their_tokens(
    lab: Lab, traced: tuple[InMemorySpanExporter, InMemoryMetricReader]
) -> None:
    spans, figures = traced
    id = agent(lab, tools=["goals"])
    work(lab, id, Scripted(say("", call("no_such_tool")), say("done")), "go on")
    ended = spans.get_finished_spans()
    assert [span.name for span in ended] == [
        "chat script", "execute_tool no_such_tool", "chat script", "invoke_agent scout",
    ]  # fmt: skip
    whole = ended[-1]
    assert whole.context is not None
    assert {span.parent.span_id for span in ended[:-1] if span.parent} == {whole.context.span_id}
    assert attributes(whole) == {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai", "gen_ai.request.model": "script",
        "gen_ai.agent.id": id, "gen_ai.agent.name": "scout", "gen_ai.conversation.id": Agents(lab).get(id).branch,
        "gen_ai.usage.input_tokens": 14, "gen_ai.usage.output_tokens": 6,
    }  # fmt: skip
    assert ended[0].kind is trace.SpanKind.CLIENT
    asked = attributes(ended[0])
    assert (asked["gen_ai.operation.name"], asked["gen_ai.response.model"]) == ("chat", "script")
    assert (asked["gen_ai.usage.input_tokens"], asked["gen_ai.usage.output_tokens"]) == (7, 3)
    tool = attributes(ended[1])
    assert (tool["gen_ai.tool.name"], tool["gen_ai.tool.call.id"], tool["error.type"]) == (
        "no_such_tool", "c1", "tool_error",
    )  # fmt: skip
    assert ended[0].instrumentation_scope is not None
    assert ended[0].instrumentation_scope.schema_url == f"https://opentelemetry.io/schemas/{CONVENTIONS}"
    assert "go on" not in str([attributes(span) for span in ended]), "what is said is in no span"
    counted = points(figures, "gen_ai.client.token.usage")
    assert {str(one.attributes["gen_ai.token.type"]): one.sum for one in counted if one.attributes} == {
        "input": 14, "output": 6,
    }  # fmt: skip
    assert sum(one.count for one in points(figures, "gen_ai.client.operation.duration")) == 2


def points(figures: InMemoryMetricReader, name: str) -> list[HistogramDataPoint]:
    found = figures.get_metrics_data()
    assert found is not None
    return [
        cast("HistogramDataPoint", point)
        for resource in found.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
        if metric.name == name for point in metric.data.data_points
    ]  # fmt: skip


def test_an_error_has_its_code_and_none_of_its_words(
    lab: Lab, traced: tuple[InMemorySpanExporter, InMemoryMetricReader]
) -> None:
    spans, figures = traced
    work(lab, agent(lab), Scripted(ModelError("it is about a secret", code="bad_reply")), "go on")
    ended = spans.get_finished_spans()
    assert [(span.name, attributes(span)["error.type"]) for span in ended] == [
        ("chat script", "bad_reply"), ("invoke_agent scout", "bad_reply"),
    ]  # fmt: skip
    assert all(span.status.status_code is trace.StatusCode.ERROR for span in ended)
    assert not any(span.events for span in ended)
    assert points(figures, "gen_ai.client.operation.duration")[0].attributes["error.type"] == "bad_reply"  # type: ignore[index]


def test_nothing_is_imported_where_nothing_was_set_up() -> None:
    look = (
        "import asyncio, sys\nfrom perpetual_agents.handlers.tracing import build\n"
        "async def proceed(): return {'text': 'x'}\n"
        "print(asyncio.run(build({}).turn(None, proceed)), 'opentelemetry' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "{'text': 'x'} False\n"
