"""The suite of the slot `harness_hook` fails on each hook that breaks one promise."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_loop.harness_hook import HarnessHook
from perpetual_loop.lease import is_dispatched
from perpetual_loop.testing import HarnessHookContract


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as lab:
        yield lab


class Trusting(HarnessHook):
    """Takes every key for what it should be."""

    def answer(self, lab: Lab, event: Mapping[str, object]) -> Mapping[str, object] | None:
        return None if is_dispatched() else {"said": str(event["session_id"]).strip()}


class Odd(HarnessHook):
    """Answers what is no JSON."""

    def answer(self, lab: Lab, event: Mapping[str, object]) -> Mapping[str, object] | None:
        return None if is_dispatched() else {"lab": lab}


class Talkative(HarnessHook):
    """Answers a harness that the lab drives."""

    def answer(self, lab: Lab, event: Mapping[str, object]) -> Mapping[str, object] | None:
        return {}


class Scribe(HarnessHook):
    """Writes to the record while the lab drives the harness."""

    def answer(self, lab: Lab, event: Mapping[str, object]) -> Mapping[str, object] | None:
        lab.hypotheses.add(f"claim {lab.feed.last()}")
        return None


TWINS: dict[type[HarnessHook], str] = {
    Trusting: "test_it_bears_any_event",
    Odd: "test_it_answers_one_json_object_or_nothing",
    Talkative: "test_it_is_silent_where_the_lab_drives_the_harness",
    Scribe: "test_it_is_silent_where_the_lab_drives_the_harness",
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_fails_its_promise(twin: type[HarnessHook], lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    test = getattr(HarnessHookContract(), TWINS[twin])
    given = {"lab": lab, "harness_hook": twin(), "monkeypatch": monkeypatch, "place": 0}
    with pytest.raises((AssertionError, KeyError, TypeError)):
        test(**{name: given[name] for name in inspect.signature(test).parameters})


def test_every_promise_has_a_twin_that_breaks_it() -> None:
    assert {*TWINS.values()} == {name for name in vars(HarnessHookContract) if name.startswith("test_")}
