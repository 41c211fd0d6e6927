"""The backend `pydantic-ai`, over HTTP on the loopback interface, one layer below: what is sent, read, and raised."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from perpetual_agents.messages import assistant, summary, tool_result, user
from perpetual_agents.model import ModelError, ModelReply, ModelRequest, ModelUnavailable, ToolSpec
from perpetual_agents.providers import PROVIDERS
from perpetual_agents.pydantic_backend import PydanticBackend, build
from perpetual_agents.stand_in import example
from tests.plugins.agents.chat_server import Does, Server, serving

Found = TypeVar("Found")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
NOTE = {"type": "object", "properties": {"note": {"type": "string", "maxLength": 20}}, "required": ["note"]}
CALL = ("call00001", "add", '{"a": 1}')
OVER_CHAT = [name for name in PROVIDERS if name not in ("anthropic", "google")]
MODEL = {"openrouter": "openrouter:acme/tiny"}
KEY = "sk-a-very-secret-key-0001"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that follows its script, at the address of every provider."""
    running.script, running.asked = [Does()], []
    running.came.clear()
    running.over.clear()
    for provider in PROVIDERS.values():
        for variable in (*provider.keys, *provider.bases):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv(provider.bases[0], running.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return running


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of any provider is set."""
    for provider in PROVIDERS.values():
        for variable in (*provider.keys, *provider.bases):
            monkeypatch.delenv(variable, raising=False)


def asking(**changes: object) -> ModelRequest:
    whole = ModelRequest("openai:tiny", "Be brief.", [user("hi", "me")], [ADD], 50, "a1/m1/1", 10.0)
    return replace(whole, **changes)  # type: ignore[arg-type]


def done(work: Callable[[PydanticBackend], Awaitable[Found]]) -> Found:
    """Runs work with a backend in an event loop of its own, and closes the backend."""

    async def whole() -> Found:
        backend = build({})
        try:
            return await work(backend)
        finally:
            await backend.close()

    return asyncio.run(whole())


def reply(**changes: object) -> ModelReply:
    return done(lambda backend: backend.request(asking(**changes)))


def fault(said: list[str] | None = None, **changes: object) -> ModelError:
    with pytest.raises(ModelError) as caught:
        done(lambda backend: backend.request(asking(**changes), None if said is None else said.append))
    assert caught.value.message.isprintable()
    assert KEY not in f"{caught.value.message} {caught.value.hint}"
    return caught.value


# what is sent


def test_a_request_reaches_the_provider_once_with_its_key_and_limits(server: Server) -> None:
    found = reply()
    [asked] = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["idempotency-key"] == "a1/m1/1"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["max_completion_tokens"] == 50
    assert [one["content"] for one in asked.body["messages"]] == ["Be brief.", "hi"]
    assert asked.body["tools"][0]["function"]["name"] == "add"
    assert (found.text, found.tokens_in, found.tokens_out, found.model) == ("Fine.", 11, 7, "tiny-1")
    assert found.usd is None  # no price is known of a server that a variable names
    assert not found.mock


@pytest.mark.parametrize("name", OVER_CHAT)
def test_each_provider_of_the_chat_api_is_asked_at_its_address(server: Server, name: str) -> None:
    assert reply(model=MODEL.get(name, f"{name}:tiny")).text == "Fine."
    [asked] = server.asked
    limits = {asked.body.get("max_tokens"), asked.body.get("max_completion_tokens")}
    assert limits == {50, None}
    assert asked.body["model"] in ("tiny", "acme/tiny")
    if name != "openai":
        assert KEY not in json.dumps(asked.headers)


def test_a_conversation_keeps_its_order_and_its_calls(server: Server) -> None:
    call = {"id": "c1", "name": "add", "args": {"a": 1}}
    said = [summary("they met", 4), user("add one", "me"), assistant("so:", [call], model="x"),  # type: ignore[list-item]
            tool_result(call, "2"), tool_result(call, "no", is_error=True), user("and now?", "me")]  # type: ignore[arg-type]  # fmt: skip
    reply(messages=said)
    sent = server.asked[0].body["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "user", "assistant", "tool", "tool", "user"]
    assert "they met" in sent[1]["content"]
    assert sent[3]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert (sent[4]["tool_call_id"], sent[4]["content"]) == ("c1", "2")
    assert "no" in sent[5]["content"]


def test_what_only_the_engine_reads_goes_back_to_the_provider(server: Server) -> None:
    server.script = [Does(text="so:", thinking="one and one", calls=[CALL])]
    first = reply(model="ollama:tiny")
    assert [call["args"] for call in first.calls] == [{"a": 1}]
    kept = json.loads(json.dumps(first.raw))
    server.script = [Does()]

    def sent(raw: object, text: str = first.text) -> dict[str, object]:
        said = [user("hi", "me"), assistant(text, first.calls, model="x", raw=raw), tool_result(first.calls[0], "2")]
        reply(model="ollama:tiny", messages=said)
        found: dict[str, object] = server.asked[-1].body["messages"][2]
        return found

    assert sent(kept)["reasoning"] == "one and one"
    for other in ({"acme": 1}, None, [1], {**kept, "parts": [{"part_kind": "no"}]}, "x"):
        again = sent(other)
        assert "reasoning" not in again
        assert again["content"] == "so:"
    assert sent(kept, "another text")["content"] == "another text"  # a changed record shows what it says


def test_a_json_answer_is_asked_for_in_the_providers_own_way_or_in_words(server: Server) -> None:
    server.script = [Does(text='{"note": "x"}')]
    assert json.loads(reply(output=NOTE, tools=[]).text) == {"note": "x"}
    assert server.asked[-1].body["response_format"]["json_schema"]["schema"]["required"] == ["note"]
    server.script = [Does(text='```json\n{"note": "x"}\n```')]
    assert json.loads(reply(model="deepseek:chat", output=NOTE, tools=[]).text) == {"note": "x"}
    assert "note" in json.dumps(server.asked[-1].body["messages"])


# what comes


def test_a_stream_is_said_as_it_comes(server: Server) -> None:
    server.script = [Does(text="one two three", calls=[CALL])]
    said: list[str] = []
    found = done(lambda backend: backend.request(asking(), said.append))
    assert said == ["one ", "two ", "three"]
    assert (found.text, len(found.calls), found.tokens_out) == ("one two three", 1, 7)


def test_an_error_of_the_one_that_hears_it_is_its_own(server: Server) -> None:
    def hears(piece: str) -> None:
        raise KeyError(piece)

    with pytest.raises(KeyError):
        done(lambda backend: backend.request(asking(), hears))


def test_counts_are_none_where_the_provider_says_nothing(server: Server) -> None:
    server.script = [Does(usage=None)]
    found = reply()
    assert (found.tokens_in, found.tokens_out, found.usd) == (None, None, None)


def test_calls_have_ids_of_their_own(server: Server) -> None:
    server.script = [Does(calls=[CALL, CALL, ("", "add", "{}")])]
    found = reply()
    assert len({call["id"] for call in found.calls}) == 3
    assert all(call["id"] for call in found.calls)


def test_a_price_is_the_providers_own_else_that_of_the_list() -> None:
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    from perpetual_agents.pydantic_engine import ask

    def usd(details: dict[str, object] | None, name: str) -> float | None:
        answer = ModelResponse([TextPart("x")], usage=RequestUsage(input_tokens=10**6), provider_name="openai",
                               provider_details=details)  # fmt: skip
        model = FunctionModel(lambda messages, info: answer, model_name=name)
        return asyncio.run(ask(model, asking(), None, is_priced=True)).usd

    assert usd(None, "gpt-4o") == pytest.approx(2.5)
    assert usd({"cost": 0.25}, "gpt-4o") == 0.25
    assert usd({"cost": float("nan")}, "gpt-4o") is None
    assert usd(None, "no-such-model-of-anyone") is None


# what goes wrong


@pytest.mark.parametrize(
    ("does", "is_transient", "words"),
    [
        (Does(status=429, headers={"Retry-After": "7"}, body=f'{{"error": {{"message": "slow {KEY}"}}}}'.encode()),
         True, "429"),
        (Does(status=429, body=b'{"error": {"message": "no money", "code": "insufficient_quota"}}'), False, "no money"),
        (Does(status=500), True, "500"),
        (Does(status=503, body=b"<html>\nbusy</html>"), True, "503"),
        (Does(status=401, body=b'{"error": {"message": "wrong key sk-abcdef***9"}}'), False, "401"),
        (Does(status=404, body=b'{"error": {"message": "no such model"}}'), False, "no such model"),
        (Does(status=400, body=b'{"error": {"message": "two\\nlines"}}'), False, "two lines"),
        (Does(body=b"<html>", headers={"Content-Type": "text/html"}), True, "read"),
        (Does(body=b'{"id": '), True, "JSON"),
        (Does(body=b'{"a": 1}'), True, "read"),
        (Does(body=b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[]}'), True, "read"),
        (Does(text="a " * 1000, cut=1), True, "connection"),
        (Does(calls=[("call00001", "add", '{"a": ')]), True, "arguments"),
        (Does(calls=[("call00001", "add", '{"a": ')], finish="length"), False, "50 tokens"),
        (Does(calls=[("call00001", "add", "[1]")]), True, "arguments"),
        (Does(finish="content_filter"), False, "refuses"),
    ],
)  # fmt: skip
def test_whatever_goes_wrong_is_one_error(server: Server, does: Does, is_transient: bool, words: str) -> None:
    server.script = [does]
    found = fault()
    assert len(server.asked) == 1, "the client has asked again by itself"
    assert words in found.message
    assert found.is_transient is is_transient
    assert "sk-abcdef" not in found.message
    assert found.retry_after_s == (7.0 if does.headers.get("Retry-After") else None)


@pytest.mark.parametrize("does", [Does(text="a b c d", cut=2), Does(text="a b c d", cut=4)])
def test_a_stream_that_is_cut_is_no_reply(server: Server, does: Does) -> None:
    server.script = [does]
    said: list[str] = []
    assert fault(said).is_transient
    assert said[:2] == ["a ", "b "]
    assert len(server.asked) == 1


def test_a_json_answer_that_was_cut_at_its_limit_says_so(server: Server) -> None:
    server.script = [Does(text='{"no', finish="length")]
    found = fault(output=NOTE)
    assert (found.code, found.is_transient) == ("reply_cut", False)


def test_a_late_answer_and_a_server_that_is_not_there_are_transient(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [Does(hangs=True)]
    assert fault(timeout_s=0.2).is_transient
    assert fault([], timeout_s=0.2).code == "model_timeout"
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9")
    found = fault(model="ollama:tiny")
    assert found.is_transient
    assert "ollama serve" in str(found.hint)


@pytest.mark.parametrize("said", [None, []])
def test_a_cancelled_request_ends_at_once_and_leaves_no_connection(server: Server, said: list[str] | None) -> None:
    server.script = [Does(text="a b c", hangs=True)]

    async def work(backend: PydanticBackend) -> float:
        task = asyncio.create_task(backend.request(asking(timeout_s=60.0), None if said is None else said.append))
        assert await asyncio.to_thread(server.came.wait, 30)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took = time.monotonic() - began
        assert await asyncio.to_thread(server.over.wait, 5), "the connection is still open"
        return took

    assert done(work) < 2.0


def test_requests_of_several_event_loops_and_at_once_keep_out_of_each_others_way(server: Server) -> None:
    backend = build({})
    server.script = [Does(hangs=True), Does()]

    async def work() -> None:
        late = asyncio.create_task(backend.request(asking(timeout_s=60.0)))
        assert await asyncio.to_thread(server.came.wait, 30)
        await backend.close()
        assert (await backend.request(asking())).text == "Fine."
        assert not late.done()
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)

    asyncio.run(work())
    server.script = [Does()]
    assert asyncio.run(backend.request(asking())).text == "Fine."


# names


@pytest.mark.parametrize("name", ["qwen3:1.7b", "llama3.2:3b", "gpt-oss:20b", "smollm:135m", "mixtral:8x7b",
                                  "gemma3n:e4b", "phi4:latest", "mistral:7b", "qwen3:4b-instruct-q4_K_M"])  # fmt: skip
def test_a_bare_name_with_a_size_is_one_of_ollama_and_says_so(bare: None, name: str) -> None:
    full, note = build({}).resolved(name)
    assert full == f"ollama:{name}"
    assert full in str(note)
    assert build({}).problem(name) is None
    assert build({}).resolved(full) == (full, None)


def test_a_bare_name_is_asked_of_ollama(server: Server) -> None:
    assert reply(model="qwen3:1.7b").text == "Fine."
    assert server.asked[0].body["model"] == "qwen3:1.7b"


@pytest.mark.parametrize(("name", "words"), [
    ("openia:gpt", "did you mean openai"), ("gpt-4o", "names no provider"), ("foo:bar", "foo"), ("", "model's name"),
    ("a b", "model's name"), ("openai:", "names no model"), ("ollama:\x1b[31m", "model's name"),
    ("openai:" + "x" * 400, "model's name"),
])  # fmt: skip
def test_a_name_that_no_provider_has_is_an_error(bare: None, name: str, words: str) -> None:
    problem = build({}).problem(name)
    assert problem is not None
    assert words in problem.message
    assert problem.message.isprintable()
    assert problem.hint
    with pytest.raises(ModelUnavailable):
        build({}).resolved(name)
    with pytest.raises(ModelUnavailable):
        reply(model=name)


@pytest.mark.parametrize("name", [name for name in OVER_CHAT if name != "ollama"])
def test_a_key_that_is_not_set_is_named(bare: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    problem = build({}).problem(f"{name}:x")
    assert problem is not None
    assert PROVIDERS[name].keys[0] in problem.message
    for variable in PROVIDERS[name].keys:
        with monkeypatch.context() as patch:
            patch.setenv(variable, "k")
            assert build({}).problem(f"{name}:x") is None
    monkeypatch.setenv(PROVIDERS[name].bases[0], "http://127.0.0.1:1/v1")
    assert build({}).problem(f"{name}:x") is None
    monkeypatch.setenv(PROVIDERS[name].bases[0], "localhost")
    assert PROVIDERS[name].bases[0] in str(build({}).problem(f"{name}:x"))


@pytest.mark.parametrize(("model", "missing", "line"), [
    ("openai:x", "pydantic_ai", "pip install 'perpetual-lab[agents]'"),
    ("ollama:x", "openai", "pip install 'perpetual-lab[agents]'"),
    ("anthropic:x", "anthropic", "pip install 'perpetual-lab[agents-anthropic]'"),
    ("google:x", "google.genai", "pip install 'perpetual-lab[agents-google]'"),
])  # fmt: skip
def test_a_missing_package_is_named_with_the_line_that_installs_it(
    bare: None, monkeypatch: pytest.MonkeyPatch, model: str, missing: str, line: str
) -> None:
    from importlib import util

    found = util.find_spec
    monkeypatch.setattr("perpetual_agents.providers.find_spec", lambda name: None if name == missing else found(name))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    problem = build({}).problem(model)
    assert problem is not None
    assert problem.hint == line
    with pytest.raises(ModelUnavailable):
        reply(model=model)


def test_neither_the_factory_nor_a_look_at_a_name_imports_the_engine() -> None:
    look = ("import sys\nfrom perpetual_agents.pydantic_backend import build\nbuild({}).problem('openai:x')\n"
            "build({}).resolved('qwen3:4b')\nprint([name for name in ('pydantic', 'pydantic_ai', 'openai', 'httpx2')"
            " if name in sys.modules])")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "[]\n"


# the stand-in


def test_a_stand_in_answers_only_by_its_name_and_says_that_it_is_one(bare: None) -> None:
    found = reply(model="test:echo")
    assert (found.text, found.mock, found.usd, found.calls) == ("hi", True, 0.0, ())
    assert reply(model="test:echo") == found
    said: list[str] = []
    done(lambda backend: backend.request(asking(model="test:echo", messages=[user("a b  c", "me")]), said.append))
    assert "".join(said) == "a b  c"


def test_a_stand_in_calls_each_tool_once_and_says_what_came(bare: None) -> None:
    first = reply(model="test:tools")
    assert [(call["name"], type(call["args"]["a"])) for call in first.calls] == [("add", int)]
    said = [user("hi", "me"), assistant("", first.calls, model="x"), tool_result(first.calls[0], "2")]
    found = reply(model="test:tools", messages=said)
    assert (found.text, found.calls) == ("add: 2", ())
    assert reply(model="test:tools", messages=[*said, user("again", "me")]).calls


def test_an_example_fits_its_schema() -> None:
    from jsonschema import Draft202012Validator

    schema: dict[str, object] = {
        "type": "object", "$defs": {"kind": {"enum": ["a", "b"]}}, "required": ["k", "n", "l", "o", "e", "c", "f", "s"],
        "properties": {
            "k": {"$ref": "#/$defs/kind"}, "n": {"type": "integer", "minimum": 3}, "c": {"const": 7},
            "l": {"type": "array", "items": {"type": "string"}, "minItems": 2}, "f": {"type": "number", "maximum": -2},
            "o": {"anyOf": [{"type": "null"}, {"type": "string"}]}, "e": {"type": ["boolean", "null"]},
            "s": {"type": "string", "minLength": 4}, "not_required": {"type": "string"},
        },
    }  # fmt: skip
    Draft202012Validator(schema).validate(example(schema))
    assert example({"$ref": "#"}) is None  # one that has no end
