"""The contract suite fails on each stopper that breaks one promise, and on no other."""

from __future__ import annotations

import inspect

import pytest

from perpetual_stoppers.stopper import Stopper, StopState
from perpetual_stoppers.testing import StopperContract

NAMES = [name for name, _ in inspect.getmembers(StopperContract, inspect.isfunction) if name.startswith("test_")]


class Plain(Stopper):
    """Keeps the contract."""

    def why(self, state: StopState) -> str | None:
        return "it is below none" if state.value < 0 else None


class Divides(Plain):
    """Takes it that there are runs to hold against."""

    def why(self, state: StopState) -> str | None:
        return super().why(state) if len(state.complete) / len(state.others) < 100 else None


class Shouts(Plain):
    """Writes a second line, with an escape."""

    def why(self, state: StopState) -> str | None:
        return f"{why}\n\x1b[2Jdone" if (why := super().why(state)) else None


class Talks(Plain):
    """Says it at length."""

    def why(self, state: StopState) -> str | None:
        return why * 100 if (why := super().why(state)) else None


class Remembers(Plain):
    """Stops what is below the run that it was asked about before."""

    before = 0.0

    def why(self, state: StopState) -> str | None:
        last, self.before = self.before, state.value
        return "it is below the one before" if state.value < last else None


class Keeps(Plain):
    """Writes into the state."""

    def why(self, state: StopState) -> str | None:
        object.__setattr__(state, "value", 0.0)
        return None


def failures(stopper: Stopper) -> list[str]:
    suite, found = StopperContract(), []
    for name in NAMES:
        try:
            getattr(suite, name)(stopper)
        except (AssertionError, ZeroDivisionError):  # one of the twins divides by none
            found.append(name)
    return found


def test_the_plain_one_keeps_every_promise() -> None:
    assert failures(Plain()) == []


@pytest.mark.parametrize(
    ("twin", "promise"),
    [
        (Divides(), "test_it_answers_whatever_the_state"),
        (Shouts(), "test_a_reason_is_one_printable_line"),
        (Talks(), "test_a_reason_is_one_printable_line"),
        (Remembers(), "test_the_same_state_gets_the_same_answer"),
        (Keeps(), "test_it_leaves_the_state_as_it_is"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_broken_twin_fails_its_promise(twin: Stopper, promise: str) -> None:
    assert promise in failures(twin)


def test_each_promise_has_a_twin() -> None:
    broken = {name for twin in (Divides(), Shouts(), Remembers(), Keeps()) for name in failures(twin)}
    assert broken == {*NAMES}
