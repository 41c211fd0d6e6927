"""The contract suite of the slot `harness_hook`: the promises of `perpetual_loop.harness_hook` as tests.

    class TestAcme(HarnessHookContract):
        @pytest.fixture
        def harness_hook(self):
            return acme.hook.build({})

The suite makes its own lab.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.toolkit.agents import DISPATCH
from perpetual_loop.harness_hook import HarnessHook

__all__ = ["HarnessHookContract"]

_EVENT: dict[str, object] = {"session_id": "s-1", "prompt": "/auto 3", "hook_event_name": "Stop", "cwd": "."}
# What a harness of another version, or another program, may hand over.
_STRANGE: list[Mapping[str, object]] = [
    {},
    {"session_id": None, "prompt": None},
    {"session_id": "a\nb", "prompt": ["/auto"], "last_assistant_message": {"text": 1}},
    {"session_id": "x" * 100_000, "prompt": "/auto " + "9" * 5000, "last_assistant_message": "\x00\x1b[2J" * 1000},
    {"session_id": "s-2", "prompt": "\ud800", "last_assistant_message": "\ud800"},
]


class HarnessHookContract:
    """For every hook of a coding agent; see the module."""

    @pytest.fixture
    def lab(self, tmp_path: Path) -> Iterator[Lab]:
        """Returns a lab in which there is something to do."""
        with Lab.init(tmp_path / "hooked", name="hooked") as lab:
            lab.hypotheses.add("warm-up lowers the loss")
            yield lab

    def test_it_answers_one_json_object_or_nothing(self, lab: Lab, harness_hook: HarnessHook) -> None:
        """What it answers can be written as JSON."""
        _check(harness_hook.answer(lab, _EVENT))

    @pytest.mark.parametrize("place", range(len(_STRANGE)))
    def test_it_bears_any_event(self, lab: Lab, harness_hook: HarnessHook, place: int) -> None:
        """No key has to be there, or of the type that is expected."""
        _check(harness_hook.answer(lab, _STRANGE[place]))

    def test_it_is_silent_where_the_lab_drives_the_harness(
        self, lab: Lab, harness_hook: HarnessHook, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The record stays as it is, too."""
        monkeypatch.setenv(DISPATCH, "1")
        before = lab.feed.last()
        assert harness_hook.answer(lab, _EVENT) is None
        assert lab.feed.last() == before


def _check(answer: Mapping[str, object] | None) -> None:
    if answer is None:
        return
    assert isinstance(answer, Mapping), "it is no object"
    json.dumps(dict(answer), allow_nan=False).encode("utf-8")
