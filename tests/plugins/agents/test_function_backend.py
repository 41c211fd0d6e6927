"""Agents with the engine's function model: whole turns whose replies a test writes, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from perpetual import Lab
from perpetual_agents import accounts
from perpetual_agents.agents import Agents
from perpetual_agents.journal import Journal
from perpetual_agents.model import ModelError
from perpetual_agents.operations import start
from perpetual_agents.pydantic_backend import build
from perpetual_agents.serving import Outcome, Worker
from perpetual_agents.testing.function import FunctionBackend, scripted
from tests.plugins.agents.chat_server import Does, Server, serving


def made(lab: Lab, model: str, **fields: object) -> str:
    agent = Agents(lab).create("scout", model=model, **fields)  # type: ignore[arg-type]
    return start(lab, agent.id).id


def test_a_function_drives_a_turn_with_tools_and_retries(lab: Lab) -> None:
    id = made(lab, "function:scripted", tools=["goals"])
    goal = Agents(lab).add_goal(id, "find what lowers it")
    backend = FunctionBackend(scripted(
        ModelError("busy", is_transient=True, retry_after_s=0.0), [("goals_list", {})], "one goal is open",
    ))  # fmt: skip
    said: list[str] = []
    Agents(lab).post(id, "what is open?")
    [found] = asyncio.run(Worker(lab, id, backend=backend, say=said.append).work())
    assert (found.message["state"], found.message["answer"]) == ("done", "one goal is open")
    assert "".join(said) == "one goal is open"
    assert found.facts["retries"] == 1
    asked = backend.asked
    assert [len(request.messages) for request in asked] == [1, 1, 3]
    assert len({request.key for request in asked[:2]}) == 1
    assert goal["text"] in asked[2].messages[-1]["text"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield server


def asked(lab: Lab, id: str, text: str) -> Outcome:
    Agents(lab).post(id, text)
    [found] = asyncio.run(Worker(lab, id, backend=build({})).work())
    return found


def test_an_agent_over_http_is_debited_what_the_provider_counts(lab: Lab, server: Server) -> None:
    server.script = [
        Does(status=429, headers={"Retry-After": "0"}), Does(text="", thinking="hm", calls=[("call00001", "no", "{}")]),
        Does(text="two"),
    ]  # fmt: skip
    id = made(lab, "openai:tiny", limits={"calls": 10, "tokens": 100_000})
    found = asked(lab, id, "one and one?")
    assert found.message["answer"] == "two", found.message["error"]
    used = accounts.read(lab, Agents(lab).get(id).account)["used"]
    assert used["tokens"] >= 36
    keys = [one.headers["idempotency-key"] for one in server.asked]
    assert keys[0] == keys[1] != keys[2]
    branch = Agents(lab).get(id).branch
    kept = [step.message for step in Journal(lab, id, branch).newest_first() if step.kind == "model" and step.message]
    assert json.dumps(kept[0]["raw"])
    assert asked(lab, id, "and two?").message["answer"] == "two"
    said = [one for one in server.asked[-1].body["messages"] if one["role"] != "system"]
    assert [one["role"] for one in said] == ["user", "assistant", "tool", "assistant", "user"]
    assert said[-1]["content"] == "and two?"


def test_a_model_that_cannot_be_asked_fails_the_message_with_the_way_out(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GROQ_API_KEY", "GROQ_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    found = asked(lab, made(lab, "groq:tiny"), "hello").message
    assert found["state"] == "failed"
    assert "GROQ_API_KEY" in found["error"]["message"]
    assert "export GROQ_API_KEY" in found["error"]["hint"]
    assert found["answer"] is None
