"""The scorer's contract suite fails on every scorer that breaks one promise."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perpetual.records import Score
from perpetual.slots.scorer import Scorer, State
from perpetual.testing.scorers import ScorerContract


class Cheapest(Scorer):
    """Keeps the contract: the cheaper the better."""

    def score(self, state: State) -> list[Score]:
        return [Score(None, row["cost"], 1 / row["cost"], "cheap") for row in state["candidates"]]


class DropsOne(Cheapest):
    """Candidates that it does not like have no score."""

    def score(self, state: State) -> list[Score]:
        return super().score(state)[:-1]


class SortsThem(Cheapest):
    """The best score comes first."""

    def score(self, state: State) -> list[Score]:
        return sorted(super().score(state), key=lambda score: -(score.score or 0))


class SaysInfinity(Cheapest):
    """What is nearly free is worth everything."""

    def score(self, state: State) -> list[Score]:
        return [replace(score, score=math.inf) for score in super().score(state)]


class Remembers(Cheapest):
    """Each call is worth less than the one before."""

    calls = 0

    def score(self, state: State) -> list[Score]:
        self.calls += 1
        return [replace(score, score=(score.score or 0) / self.calls) for score in super().score(state)]


class TakesTurns(Cheapest):
    """Each pick begins where the last one ended."""

    calls = 0

    def pick(self, state: State, k: int) -> list[str]:
        self.calls += 1
        picks = super().pick(state, k)
        turn = self.calls % max(1, len(picks))
        return picks[turn:] + picks[:turn]


class OnlyTheFirstThread(Cheapest):
    """What it answers depends on the thread."""

    def __init__(self) -> None:
        self._mine = threading.get_ident()

    def score(self, state: State) -> list[Score]:
        reason = "mine" if threading.get_ident() == self._mine else "another's"
        return [replace(score, reason=reason) for score in super().score(state)]


class NotesInTheState(Cheapest):
    """A candidate that was looked at is marked."""

    def score(self, state: State) -> list[Score]:
        for row in state["candidates"]:
            row["n_pending"] += 1
        return super().score(state)


class PicksAll(Cheapest):
    """However few were asked for."""

    def pick(self, state: State, k: int) -> list[str]:
        return super().pick(state, len(state["candidates"]))


class PicksHypotheses(Cheapest):
    """Ids of something else."""

    def pick(self, state: State, k: int) -> list[str]:
        rows: list[Any] = [
            row for row in state["candidates"] if row["id"] in super(PicksHypotheses, self).pick(state, k)
        ]
        return [row["hypothesis_id"] for row in rows]


BROKEN: list[tuple[type[Cheapest], str]] = [
    (DropsOne, "test_there_is_one_score_per_candidate"),
    (SortsThem, "test_scores_are_in_the_order_of_the_candidates"),
    (SaysInfinity, "test_scores_can_be_stored"),
    (Remembers, "test_the_same_state_gives_the_same_scores"),
    (TakesTurns, "test_the_same_state_gives_the_same_picks"),
    (OnlyTheFirstThread, "test_threads_get_the_same_answers"),
    (NotesInTheState, "test_the_state_is_not_changed"),
    (PicksAll, "test_no_more_is_picked_than_asked_for"),
    (PicksHypotheses, "test_only_candidates_are_picked"),
]


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(ScorerContract).items() if name.startswith("test_")}


def test_there_is_a_broken_scorer_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == {*_tests()}


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_broken_scorer_fails(broken: type[Cheapest], name: str) -> None:
    test = _tests()[name]
    test(ScorerContract(), Cheapest())
    with pytest.raises(AssertionError):
        test(ScorerContract(), broken())
