"""The contract suite of backends of models: the promises of `perpetual_agents.model` as tests.

    class TestAcme(BackendContract):
        @pytest.fixture
        def backend(self):
            return acme.backend.build({"region": "eu"})

        @pytest.fixture
        def model(self):
            return "acme:small"

Each test sends a request or two: a backend that costs money is given a cheap model here. Without the fixture `model`
the model is `test:contract`. A backend that cannot be asked as it is configured raises ModelUnavailable, and keeps
every promise.
"""

from __future__ import annotations

import asyncio
import builtins
import copy
import json
import math
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import pytest

from perpetual_agents.messages import Call, Message, assistant, summary, tool_result, user
from perpetual_agents.model import ModelBackend, ModelError, ModelReply, ModelRequest, ModelUnavailable, Say, ToolSpec

__all__ = ["BackendContract", "example"]

Found = TypeVar("Found")
_ENDS_S = 2.0  # within which a cancelled request ends
_STARTS_S = 0.2
_LIMIT_S = 60.0
_SECRET = "contract-secret-0451"
_NOBODY = "no-such-provider-0451:no-such-model"
_HEAVY = ("anthropic", "google.genai", "httpx", "httpx2", "langchain", "litellm", "mcp", "mistralai", "numpy", "openai",
          "pydantic", "pydantic_ai", "torch", "transformers")  # fmt: skip


def example(model: str) -> ModelRequest:
    """Returns a request with a tool, and with a past in which a tool was called."""
    call: Call = {"id": "call00001", "name": "add", "args": {"a": 1}}
    past: list[Message] = [
        summary("They have met.", 3), user("What is one and one?", "user:contract"),
        assistant("", [call], model=model), tool_result(call, "2"),
        assistant("It is two.", [], model=model), user("Say one word.", "user:contract"),
    ]  # fmt: skip
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    return ModelRequest(model, "You are brief.", past, [ToolSpec("add", "Adds one.", schema)], 60, "contract/1", 30.0)


def _run(work: Callable[[], Awaitable[Found]]) -> Found:
    async def whole() -> Found:
        return await asyncio.wait_for(work(), _LIMIT_S)

    return asyncio.run(whole())


def _outcome(backend: ModelBackend, request: ModelRequest, say: Say | None = None) -> ModelReply | ModelError:
    """Returns the reply, or the one error that is allowed, in an event loop of its own; closes the backend."""

    async def work() -> ModelReply | ModelError:
        try:
            return await backend.request(request, say)
        except ModelError as problem:
            return problem
        finally:
            await backend.close()

    return _run(work)


class BackendContract:
    """For every backend; see the module."""

    @pytest.fixture
    def model(self) -> str:
        """Returns the model that is asked."""
        return "test:contract"

    @pytest.fixture(autouse=True)
    def secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sets a variable whose value may be shown nowhere."""
        monkeypatch.setenv("PERPETUAL_CONTRACT_KEY", _SECRET)

    @pytest.fixture
    def offline(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        """Records attempts to reach a network, and imports of what is heavy."""
        done: list[str] = []
        imports = builtins.__import__

        def reach(*args: object, **_: object) -> None:
            done.append(f"reaches {args[1:]}")
            raise OSError("the suite is offline")

        def brings(name: str, *args: object, **more: object) -> object:
            if any(name == heavy or name.startswith(f"{heavy}.") for heavy in _HEAVY):
                done.append(f"imports {name}")
            return cast("Callable[..., object]", imports)(name, *args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", reach)
            patch.setattr(socket, "getaddrinfo", reach)
            patch.setattr(builtins, "__import__", brings)
            yield done

    def test_a_look_contacts_and_imports_nothing(self, backend: ModelBackend, model: str, offline: list[str]) -> None:
        """`problem` and `resolved` are asked wherever a name is shown."""
        for name in (model, _NOBODY):
            found = backend.problem(name)
            assert found is None or isinstance(found, ModelUnavailable)
        backend.resolved(model)
        assert offline == []

    def test_a_model_that_it_does_not_know_is_no_reply(self, backend: ModelBackend) -> None:
        """Nothing answers in place of a model, and the error says what to do."""
        problem = backend.problem(_NOBODY)
        assert isinstance(problem, ModelUnavailable)
        found = _outcome(backend, example(_NOBODY))
        assert isinstance(found, ModelUnavailable)
        for one in (problem, found):
            assert one.message.isprintable()
            assert one.hint

    def test_a_full_name_stays_as_it_is(self, backend: ModelBackend, model: str) -> None:
        """A guess has a note that says so, and what was guessed is no guess the next time."""
        full, note = backend.resolved(model)
        assert note is None or (note.isprintable() and full in note)
        assert full == model or note is not None
        assert backend.resolved(full) == (full, None)

    def test_it_replies_or_raises_its_one_error(self, backend: ModelBackend, model: str) -> None:
        """A reply has possible counts, calls that can be answered, and a form that JSON carries."""
        found = _outcome(backend, example(model))
        if isinstance(found, ModelError):
            assert found.message
            assert found.message.isprintable()
            assert found.retry_after_s is None or (math.isfinite(found.retry_after_s) and found.retry_after_s >= 0)
            return
        assert isinstance(found, ModelReply)
        assert isinstance(found.text, str)
        for count in (found.tokens_in, found.tokens_out):
            assert count is None or (type(count) is int and count >= 0)
        assert found.usd is None or (math.isfinite(found.usd) and found.usd >= 0)
        assert found.model.isprintable()
        ids = [call["id"] for call in found.calls]
        assert all(ids)
        assert len({*ids}) == len(ids)
        assert all(call["name"] and {**call["args"]} == call["args"] for call in found.calls)
        assert json.loads(json.dumps([found.raw, found.calls], allow_nan=False)) == [found.raw, [*found.calls]]

    def test_the_request_is_not_changed(self, backend: ModelBackend, model: str) -> None:
        """It may be sent again."""
        request = example(model)
        before = copy.deepcopy(request)
        _outcome(backend, request)
        assert request == before

    def test_a_reply_goes_back_into_the_conversation(self, backend: ModelBackend, model: str) -> None:
        """With its own form as JSON has kept it, and with that of another backend, which it leaves alone."""
        request = example(model)
        first = _outcome(backend, request)
        if isinstance(first, ModelError):
            return
        for raw in (json.loads(json.dumps(first.raw)), {"acme": [1]}, "x", None):
            said = assistant(first.text or "Two.", first.calls, model=first.model, raw=raw)
            results = [tool_result(call, "2") for call in first.calls]
            again = replace(request, messages=[*request.messages, said, *results, user("And now?", "user:contract")])
            assert isinstance(_outcome(backend, again), ModelReply)

    def test_a_stand_in_says_so(self, backend: ModelBackend, model: str) -> None:
        """A reply of no real model is marked."""
        for name in (model, "test:contract"):
            found = _outcome(backend, example(name))
            if name.startswith(("test:", "function:")) and isinstance(found, ModelReply):
                assert found.mock

    def test_what_is_said_is_the_reply(self, backend: ModelBackend, model: str) -> None:
        """The pieces of a stream are the text, in order; without anyone to hear it the text is there as well."""
        said: list[str] = []
        found = _outcome(backend, example(model), said.append)
        if isinstance(found, ModelReply):
            assert "".join(said) == found.text
            assert type(_outcome(backend, example(model))) is ModelReply

    def test_no_secret_is_shown(self, backend: ModelBackend, model: str) -> None:
        """Neither in an error nor in a reply."""
        for name in (model, _NOBODY):
            found = _outcome(backend, example(name))
            words = f"{found.message} {found.hint}" if isinstance(found, ModelError) else repr(found)
            assert _SECRET not in words

    def test_it_leaves_no_traces(self, backend: ModelBackend, model: str, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        """Environment, working directory and its files are as they were."""
        monkeypatch.chdir(tmp_path)
        before = dict(os.environ)
        _outcome(backend, example(model))
        assert (dict(os.environ), Path.cwd(), [*tmp_path.iterdir()]) == (before, tmp_path, [])

    def test_it_leaves_nothing_open(self, backend: ModelBackend, model: str) -> None:
        """No process, thread and connection is left once it is closed, and closing it twice changes nothing."""
        before = _open()
        _outcome(backend, example(model))
        _run(backend.close)
        _until(lambda: not _open() - before, _ENDS_S)
        assert not _open() - before

    def test_it_works_again_after_it_was_closed(self, backend: ModelBackend, model: str) -> None:
        """Also in another event loop, and in another thread."""
        first = _outcome(backend, example(model))
        found: list[ModelReply | ModelError] = []
        thread = threading.Thread(target=lambda: found.append(_outcome(backend, example(model))))
        thread.start()
        thread.join()
        assert [type(one) for one in found] == [type(first)]

    def test_requests_at_once_keep_out_of_each_others_way(self, backend: ModelBackend, model: str) -> None:
        """Each has its own reply, also where the backend is closed meanwhile."""

        async def work() -> list[ModelReply | BaseException]:
            asked = [asyncio.ensure_future(backend.request(example(model))) for _ in range(3)]
            await asyncio.sleep(0)
            await backend.close()
            found = await asyncio.gather(*asked, return_exceptions=True)
            await backend.close()
            return [*found]

        first = _outcome(backend, example(model))
        assert {type(one) for one in _run(work)} == {type(first)}

    def test_it_can_be_cancelled(self, backend: ModelBackend, model: str) -> None:
        """A request that goes on ends soon after, and nothing of it is left."""
        before = _open()

        async def work() -> float:
            task = asyncio.ensure_future(backend.request(example(model)))
            await asyncio.wait([task], timeout=_STARTS_S)
            began = time.monotonic()
            task.cancel()
            await asyncio.wait([task], timeout=3 * _ENDS_S)
            took = time.monotonic() - began
            assert task.done(), f"it goes on {3 * _ENDS_S:g} s after it was cancelled"
            if not task.cancelled():
                assert task.exception() is None or isinstance(task.exception(), ModelError)
            await backend.close()
            return took

        took = _run(work)
        assert took <= _ENDS_S, f"it ended {took:.1f} s after it was cancelled"
        _until(lambda: not _open() - before, _ENDS_S)
        assert not _open() - before


def _open() -> set[str]:
    """Returns the processes, the threads and the connections of this process."""
    import psutil

    this = psutil.Process()
    found = {f"process {child.pid}" for child in this.children(recursive=True)}
    found |= {f"thread {thread.name}" for thread in threading.enumerate()}
    return found | {f"connection {one.laddr} {one.raddr}" for one in this.net_connections("inet")}


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
