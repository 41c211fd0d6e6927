"""The bundled backends keep the promises of their slot, and the suite fails on each that breaks one."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from perpetual_agents.model import ModelBackend, ModelError, ModelReply, ModelRequest, ModelUnavailable, Say
from perpetual_agents.pydantic_backend import build
from perpetual_agents.testing.backends import BackendContract
from perpetual_agents.testing.function import FunctionBackend, scripted
from tests.plugins.agents.chat_server import Does, Server, serving

NAMES = [name for name, _ in inspect.getmembers(BackendContract, inspect.isfunction) if name.startswith("test_")]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
        yield server


class TestStandIn(BackendContract):
    @pytest.fixture
    def backend(self) -> ModelBackend:
        return build({})


@pytest.mark.slow
class TestOverHttp(BackendContract):
    @pytest.fixture
    def backend(self, server: Server) -> ModelBackend:
        server.script = [Does(text="one word", thinking="hm")]
        return build({})

    @pytest.fixture
    def model(self) -> str:
        return "ollama:tiny"


@pytest.mark.slow
class TestThatCallsATool(TestOverHttp):
    @pytest.fixture
    def backend(self, server: Server) -> ModelBackend:
        server.script = [Does(text="", calls=[("call00002", "add", '{"a": 1}')])]
        return build({})


@pytest.mark.slow
class TestThatHangs(TestOverHttp):
    """Only what it does when it is cancelled takes its time."""

    @pytest.fixture
    def backend(self, server: Server, request: pytest.FixtureRequest) -> ModelBackend:
        server.script = [Does(hangs="cancelled" in request.node.name)]
        return build({})


@pytest.mark.slow
class TestThatFails(TestOverHttp):
    @pytest.fixture
    def backend(self, server: Server) -> ModelBackend:
        server.script = [Does(status=500)]
        return build({})


@pytest.mark.slow
class TestThatIsNotThere(BackendContract):
    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch) -> ModelBackend:
        monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1")
        return build({})

    @pytest.fixture
    def model(self) -> str:
        return "ollama:tiny"


@pytest.mark.slow
class TestFunction(BackendContract):
    @pytest.fixture
    def backend(self) -> ModelBackend:
        return FunctionBackend(scripted("one word"))

    @pytest.fixture
    def model(self) -> str:
        return "function:scripted"


class Plain(ModelBackend):
    """Keeps the contract."""

    def problem(self, model: str) -> ModelUnavailable | None:
        return None if model.startswith("test:") else ModelUnavailable("there is none", hint="name another")

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        problem = self.problem(request.model)
        if problem is not None:
            raise problem
        if say is not None:
            say("fine")
        return ModelReply("fine", tokens_out=1, model="plain", mock=True)


class Imports(Plain):
    def problem(self, model: str) -> ModelUnavailable | None:
        import openai  # noqa: F401

        return super().problem(model)


class Reaches(Plain):
    def problem(self, model: str) -> ModelUnavailable | None:
        try:
            socket.getaddrinfo("localhost", 80)
        except OSError:
            return super().problem(model)
        return super().problem(model)


class AnswersInItsPlace(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        return ModelReply("fine", mock=True)


class Guesses(Plain):
    def resolved(self, model: str) -> tuple[str, str | None]:
        return f"test:{model}", None


class TwoLines(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        await super().request(request)
        raise ModelError("two\nlines")


class OneIdForAll(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        await super().request(request)
        return ModelReply(
            "", ({"id": "c", "name": "add", "args": {}}, {"id": "c", "name": "add", "args": {}}), mock=True
        )


class Nan(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        await super().request(request)
        return ModelReply("fine", usd=float("nan"), mock=True)


class Changes(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        cast("list[object]", request.messages).append({"role": "user"})
        return await super().request(request, say)


class TrustsWhatComesBack(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        for message in request.messages:
            if message.get("raw") is not None and "mine" not in cast("dict[str, object]", message["raw"]):
                raise ModelError("what is that?")
        return ModelReply("fine", raw={"mine": 1}, mock=True)


class SaysNothingOfIt(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        await super().request(request, say)
        return ModelReply("fine")


class SaysAnother(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        if say is not None:
            say("fi")
        return await super().request(request)


class ShowsSecrets(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        await super().request(request, say)
        raise ModelError(f"sent {dict(os.environ)}")


class KeepsALog(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        Path("requests.log").write_text(request.key)
        return await super().request(request, say)


class LeavesAThread(Plain):
    done = threading.Event()

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        threading.Thread(target=self.done.wait, args=(60,), daemon=True).start()
        return await super().request(request, say)


class LeavesAProcess(Plain):
    left: list[subprocess.Popen[bytes]] = []  # noqa: RUF012 - of the test, which ends them

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        self.left.append(subprocess.Popen(["sleep", "60"]))
        return await super().request(request, say)


class LeavesAConnection(Plain):
    left: list[socket.socket] = []  # noqa: RUF012 - of the test, which closes them

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        self.left.append(socket.create_server(("127.0.0.1", 0)))
        return await super().request(request, say)


class ClosedForGood(Plain):
    closed = False

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        await super().request(request, say)
        if self.closed:
            raise ModelError("it was closed")
        return ModelReply("fine", mock=True)

    async def close(self) -> None:
        self.closed = True


class OneAtATime(Plain):
    busy = False

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        found = await super().request(request, say)
        if self.busy:
            raise ModelError("it is busy")
        self.busy = True
        await asyncio.sleep(0.02)
        self.busy = False
        return found


class Stubborn(Plain):
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        for _ in range(24):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        return await super().request(request, say)


OPEN = {"test_it_leaves_nothing_open", "test_it_can_be_cancelled"}
BROKEN: dict[type[Plain], set[str]] = {
    Plain: set(),
    Imports: {"test_a_look_contacts_and_imports_nothing"},
    Reaches: {"test_a_look_contacts_and_imports_nothing"},
    AnswersInItsPlace: {"test_a_model_that_it_does_not_know_is_no_reply", "test_what_is_said_is_the_reply"},
    Guesses: {"test_a_full_name_stays_as_it_is"},
    TwoLines: {"test_it_replies_or_raises_its_one_error"},
    OneIdForAll: {"test_it_replies_or_raises_its_one_error"},
    Nan: {"test_it_replies_or_raises_its_one_error", "test_what_is_said_is_the_reply"},
    Changes: {"test_the_request_is_not_changed"},
    TrustsWhatComesBack: {"test_a_reply_goes_back_into_the_conversation",
                          "test_a_model_that_it_does_not_know_is_no_reply", "test_what_is_said_is_the_reply"},
    SaysNothingOfIt: {"test_a_stand_in_says_so"},
    SaysAnother: {"test_what_is_said_is_the_reply"},
    ShowsSecrets: {"test_no_secret_is_shown"},
    KeepsALog: {"test_it_leaves_no_traces"},
    LeavesAThread: OPEN,
    LeavesAProcess: OPEN,
    LeavesAConnection: OPEN,
    ClosedForGood: {"test_it_works_again_after_it_was_closed", "test_a_reply_goes_back_into_the_conversation",
                    "test_what_is_said_is_the_reply", "test_requests_at_once_keep_out_of_each_others_way"},
    OneAtATime: {"test_requests_at_once_keep_out_of_each_others_way"},
    Stubborn: {"test_it_can_be_cancelled"},
}  # fmt: skip
SLOW: dict[type[Plain], set[str]] = {Stubborn: {"test_it_can_be_cancelled"}}  # the other tests would wait for it too


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    LeavesAThread.done.set()
    for process in LeavesAProcess.left:
        process.kill()
        process.wait()
    for left in LeavesAConnection.left:
        left.close()
    LeavesAProcess.left.clear()
    LeavesAConnection.left.clear()


def holds(name: str, backend: Plain, folder: Path) -> bool:
    """Whether a backend passes one test of the suite."""
    test: Callable[..., None] = getattr(BackendContract(), name)
    with pytest.MonkeyPatch.context() as patch:
        offline = inspect.unwrap(BackendContract.offline)(BackendContract(), patch)
        wanted = inspect.signature(test).parameters
        given = {"backend": backend, "model": "test:contract", "tmp_path": folder, "monkeypatch": patch}
        patch.setenv("PERPETUAL_CONTRACT_KEY", "contract-secret-0451")
        if "offline" in wanted:
            given["offline"] = next(offline)
        try:
            test(**{key: given[key] for key in wanted})
        except (AssertionError, pytest.fail.Exception):
            return False
        finally:
            offline.close()
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Plain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # one of them leaves a file where it runs
    failed = set()
    for name in SLOW.get(kind, NAMES):
        (tmp_path / name).mkdir()
        LeavesAThread.done.clear()
        if not holds(name, kind(), tmp_path / name):
            failed.add(name)
        LeavesAThread.done.set()
    assert failed == BROKEN[kind]


def test_every_test_of_the_suite_has_a_backend_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == set(NAMES)
