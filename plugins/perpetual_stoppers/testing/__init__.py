"""The contract suite of stoppers: the promises of `perpetual_stoppers.stopper` as tests.

class TestAcme(StopperContract):
@pytest.fixture
def stopper(self):
return acme.stopper.build({...})
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from random import Random
from typing import Literal

import pytest

from perpetual_stoppers.stopper import Stopper, StopState

__all__ = ["StopperContract", "states"]

_LONGEST = 500  # characters of a reason
_SORTS: tuple[Literal["claim", "baseline", "search"], ...] = ("claim", "baseline", "search")


def states(n: int = 60, seed: int = 0) -> list[StopState]:
    """Returns states as they come up: few and many runs, with curves that foretell much or nothing."""
    rng, found = Random(seed), []
    for number in range(n):
        correlation, scale = rng.choice((0.0, 0.5, 0.9, 0.99)), rng.choice((1e-6, 1.0, 1e6))

        def points(count: int, shift: float, r: float = correlation, by: float = scale) -> list[tuple[float, float]]:
            made = []
            for _ in range(count):
                z, u = rng.gauss(0, 1), rng.gauss(0, 1)
                made.append((by * (shift - 3 + r * z + math.sqrt(1 - r * r) * u), by * (shift + z)))
            return made

        others, complete = points(rng.randint(0, 9), 0.0), points(rng.randint(0, 6), rng.uniform(-2, 2))
        stopped = [x for x, _ in points(rng.randint(0, 6), 0.0)]
        own = points(1, rng.uniform(-3, 3))[0][0]
        found.append(
            StopState(_SORTS[number % 3], own, tuple(complete), tuple(stopped), tuple(others),
                      tuple(x for x, _ in points(rng.randint(0, 12), 0.0)))
        )  # fmt: skip
    return found


def _edges() -> list[StopState]:
    same = ((1.0, 2.0),) * 6
    return [
        *(StopState(sort, value) for sort in _SORTS for value in (0.0, -1e100, 1e100)),
        *(StopState(sort, 1.0, same, (1.0,) * 3, same, (1.0,) * 9) for sort in _SORTS),
        StopState("claim", 1.0, ((-1e100, 1e100), (1e100, -1e100)), (), ((0.0, 0.0), (1e-300, 1e-300)) * 2),
    ]


class StopperContract:
    """For every stopper."""

    def test_it_answers_whatever_the_state(self, stopper: Stopper) -> None:
        """Without runs to hold the run against, with equal values, and with huge ones, it raises nothing."""
        for state in (*_edges(), *states()):
            try:
                stopper.why(state)
            except Exception as problem:  # the report names the state
                raise AssertionError(f"it raised {problem!r} for {state}") from problem

    def test_a_reason_is_one_printable_line(self, stopper: Stopper) -> None:
        """It is shown in tables, and kept in the record."""
        reasons = [why for state in states(200, 1) if (why := stopper.why(state)) is not None]
        for why in reasons:
            assert 0 < len(why) <= _LONGEST, f"{why!r:.80} is no reason of one line"
            assert why.isprintable(), f"{why!r:.80} is not printable"

    def test_the_same_state_gets_the_same_answer(self, stopper: Stopper) -> None:
        """Also after others were asked about, and in another order: it remembers nothing and draws nothing."""
        asked = states(40, 2)
        first = self._answers(stopper, asked)
        assert self._answers(stopper, asked) == first, "asked again, it answers otherwise"
        assert self._answers(stopper, asked[::-1])[::-1] == first, "asked in another order, it answers otherwise"

    def test_it_leaves_the_state_as_it_is(self, stopper: Stopper) -> None:
        """The state is the caller's."""
        for state in states(20, 3):
            before = astuple(state)
            stopper.why(state)
            assert astuple(state) == before, "it changed the state"

    @staticmethod
    def _answers(stopper: Stopper, asked: Sequence[StopState]) -> list[bool]:
        return [stopper.why(state) is not None for state in asked]

    @pytest.fixture
    def stopper(self) -> Stopper:
        """Returns what is tested; overridden."""
        raise NotImplementedError
