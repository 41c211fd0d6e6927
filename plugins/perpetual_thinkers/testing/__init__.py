"""The contract suite of thinkers: the promises of `perpetual_thinkers.base` as tests.

    class TestAcme(ThinkerContract):
        @pytest.fixture
        def thinker(self):
            return acme.thinker.build({"model": "small"})

Each test asks a question or two: a thinker that costs money is given a cheap model here. One that has no answers, or
cannot be asked as it is configured, raises ThinkerError and keeps every promise.
"""

from __future__ import annotations

import copy
import json
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual_thinkers.base import MOST_REPLY_BYTES, Reply, Request, Thinker, ThinkerError

__all__ = ["ThinkerContract", "example"]

_ENDS_S = 2.0  # within which a cancelled `think` ends
_STARTS_S = 0.3
_LOOK_S = 0.02


def example(number: int = 1) -> Request:
    """Returns a question with a small schema."""
    state = {
        "task": "Answer with one JSON object of the schema.",
        "run": {"id": f"r{number}", "metrics": {"loss": 0.5}},
    }
    schema: dict[str, object] = {
        "type": "object",
        "required": ["note"],
        "properties": {"note": {"type": "string", "maxLength": 200}},
    }
    return Request(f"{number:064x}", "analyse", json.dumps(state), schema, 200)


def _outcome(thinker: Thinker, request: Request) -> Reply | ThinkerError:
    """Returns the answer, or the one error that is allowed."""
    try:
        return thinker.think(request)
    except ThinkerError as problem:
        return problem


class ThinkerContract:
    """For every thinker; see the module."""

    @pytest.fixture
    def root(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Returns the project's folder, which is the working directory as well."""
        (tmp_path / "project").mkdir()
        monkeypatch.chdir(tmp_path / "project")
        return tmp_path / "project"

    @pytest.fixture
    def opened(self, thinker: Thinker, root: Path) -> Thinker:
        """Returns the thinker, open."""
        thinker.open(root)
        return thinker

    def test_it_answers_or_raises_its_one_error(self, opened: Thinker) -> None:
        """A reply holds a text of a bounded size and counts that are possible; an error is one printable line."""
        found = _outcome(opened, example())
        if isinstance(found, ThinkerError):
            assert found.message
            assert found.message.isprintable()
            return
        assert isinstance(found, Reply)
        assert isinstance(found.text, str)
        assert len(found.text.encode()) <= MOST_REPLY_BYTES
        for count in (found.tokens_in, found.tokens_out):
            assert count is None or (type(count) is int and count >= 0)
        assert found.usd is None or (math.isfinite(found.usd) and found.usd >= 0)
        assert found.model.isprintable()

    def test_the_request_is_not_changed(self, opened: Thinker) -> None:
        """It may be asked again, and its schema checks the answer."""
        request = example()
        before = copy.deepcopy(request)
        _outcome(opened, request)
        assert request == before

    def test_it_leaves_no_traces(self, opened: Thinker, root: Path) -> None:
        """Environment, working directory and the project's folder are as they were."""
        before = dict(os.environ), Path.cwd()
        _outcome(opened, example())
        assert (dict(os.environ), Path.cwd()) == before
        assert [*root.iterdir()] == []

    def test_it_leaves_nothing_running(self, opened: Thinker) -> None:
        """No process and no thread goes on after the answer."""
        import psutil

        this = psutil.Process()
        before = {child.pid for child in this.children(recursive=True)}, {*threading.enumerate()}
        _outcome(opened, example())
        left = {child.pid for child in this.children(recursive=True)} - before[0]
        assert not left
        assert not {*threading.enumerate()} - before[1]

    def test_the_same_question_may_come_again(self, opened: Thinker) -> None:
        """From another thread too, and it is answered in the same way."""
        first = _outcome(opened, example())
        found: list[Reply | ThinkerError] = []
        thread = threading.Thread(target=lambda: found.append(_outcome(opened, example())))
        thread.start()
        thread.join()
        assert [type(one) for one in found] == [type(first)]

    def test_it_can_be_ended(self, opened: Thinker) -> None:
        """A question that goes on ends soon after `cancel`."""
        thread = threading.Thread(target=lambda: _outcome(opened, example()), daemon=True)
        thread.start()
        _until(lambda: not thread.is_alive(), _STARTS_S)
        opened.cancel()
        _until(lambda: not thread.is_alive(), _ENDS_S)
        assert not thread.is_alive(), f"it goes on {_ENDS_S:g} s after it was cancelled"

    def test_it_works_after_it_was_ended(self, opened: Thinker) -> None:
        """`cancel` ends the question that goes on, and no later one."""
        before = _outcome(opened, example(1))
        opened.cancel()
        assert type(_outcome(opened, example(2))) is type(before)


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
