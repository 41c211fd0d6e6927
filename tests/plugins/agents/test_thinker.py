"""The thinker `agents`: it keeps its slot's promises over HTTP, and asks what the project's configuration names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_agents.pydantic_backend import build as backend
from perpetual_agents.thinker import BackendThinker, build
from perpetual_thinkers.base import Thinker, ThinkerError
from perpetual_thinkers.testing import ThinkerContract, example
from tests.plugins.agents.chat_server import Does, Server, serving

OPTIONS = {"thinker_model": None, "thinker_timeout_s": 30.0}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    import perpetual_agents.pydantic_engine  # noqa: F401 - what takes seconds once is no part of a question

    with serving() as server:
        monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
        server.script = [Does(text='{"note": "fine"}')]
        yield server


@pytest.mark.slow
class TestOverHttp(ThinkerContract):
    @pytest.fixture
    def thinker(self, server: Server) -> Thinker:
        return BackendThinker("ollama:tiny")


@pytest.mark.slow
class TestThatHangs(TestOverHttp):
    @pytest.fixture
    def thinker(self, server: Server) -> Thinker:
        server.script = [Does(hangs=True)]
        return BackendThinker("ollama:tiny", timeout_s=0.5)


class TestWithoutAModel(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return build(OPTIONS)


@pytest.mark.slow
class TestStandIn(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return build({**OPTIONS, "thinker_model": "test:echo"})


def test_a_question_has_its_schema_its_key_and_its_counts(server: Server, tmp_path: Path) -> None:
    thinker = BackendThinker("tiny:1b")
    thinker.open(tmp_path)
    found = thinker.think(example())
    [asked] = server.asked
    assert (found.text, found.tokens_in, found.tokens_out, found.model) == ('{"note": "fine"}', 11, 7, "tiny-1")
    assert asked.headers["idempotency-key"] == example().request_id
    assert asked.body["response_format"]["json_schema"]["schema"]["required"] == ["note"]
    assert asked.body["messages"][-1]["content"] == example().state
    assert asked.body["model"] == "tiny:1b"


def test_a_failure_is_one_line_and_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    server.script = [Does(status=503, body=b'{"error": {"message": "two\\nlines"}}')]
    thinker = BackendThinker("ollama:tiny")
    thinker.open(tmp_path)
    with pytest.raises(ThinkerError, match="two lines"):
        thinker.think(example())
    assert len(server.asked) == 1


def test_a_stand_in_is_shown_as_one(tmp_path: Path) -> None:
    thinker = BackendThinker("test:echo", backend=backend({}))
    thinker.open(tmp_path)
    found = thinker.think(example())
    assert "stand-in" in found.model
    assert set(json.loads(found.text)) == {"note"}


def test_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    monkeypatch.delenv("GROQ_BASE_URL", raising=False)
    for model, words in (("groq:x", "GROQ_API_KEY"), ("openia:x", "openai"), (None, "no model")):
        thinker = build({**OPTIONS, "thinker_model": model})
        thinker.open(tmp_path)
        assert words in str(thinker.problem())
        with pytest.raises(ThinkerError, match=words):
            thinker.think(example())


def test_a_project_chooses_the_thinker_and_its_model(lab: Lab, server: Server) -> None:
    lab.settings.set_config("slots.thinker", "agents")
    lab.settings.set_config("plugins.agents.model", "qwen3:4b")
    with Lab.open(lab.root) as opened:
        thinker: Thinker = opened.part("thinker")
        thinker.open(Path(opened.root))
        assert thinker.problem() is None
        assert json.loads(thinker.think(example()).text) == {"note": "fine"}
    lab.settings.set_config("plugins.agents.thinker_model", "ollama:tiny")
    with Lab.open(lab.root) as opened:
        other: Thinker = opened.part("thinker")
        other.open(Path(opened.root))
        other.think(example())
    assert [asked.body["model"] for asked in server.asked] == ["qwen3:4b", "tiny"]
