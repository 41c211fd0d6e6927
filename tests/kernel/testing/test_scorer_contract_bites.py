"""The scorer's contract suite fails on every scorer that breaks one promise."""

from __future__ import annotations

import datetime
import inspect
import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpetual.records import Score
from perpetual.slots.scorer import Scorer, ScorerState
from perpetual.testing.scorers import ScorerContract
from perpetual_scorers.information_gain import InformationGain


class Cheapest(Scorer):
    """Keeps the contract: the cheaper the better."""

    def score(self, state: ScorerState) -> list[Score]:
        return [Score(None, row["cost"], 1 / max(row["cost"], 1e-6), "cheap") for row in state["candidates"]]


class DropsOne(Cheapest):
    """Candidates that it does not like have no score."""

    def score(self, state: ScorerState) -> list[Score]:
        return super().score(state)[:-1]


class SortsThem(Cheapest):
    """The best score comes first."""

    def score(self, state: ScorerState) -> list[Score]:
        return sorted(super().score(state), key=lambda score: -(score.score or 0))


class SaysInfinity(Cheapest):
    """What is nearly free is worth everything."""

    def score(self, state: ScorerState) -> list[Score]:
        return [replace(score, score=math.inf) for score in super().score(state)]


class Remembers(Cheapest):
    """Each call is worth less than the one before."""

    calls = 0

    def score(self, state: ScorerState) -> list[Score]:
        self.calls += 1
        return [replace(score, score=(score.score or 0) / self.calls) for score in super().score(state)]


class TakesTurns(Cheapest):
    """Each pick begins where the last one ended."""

    calls = 0

    def pick(self, state: ScorerState, k: int) -> list[str]:
        self.calls += 1
        picks = super().pick(state, k)
        turn = self.calls % max(1, len(picks))
        return picks[turn:] + picks[:turn]


class OnlyTheFirstThread(Cheapest):
    """What it answers depends on the thread."""

    def __init__(self) -> None:
        self._mine = threading.get_ident()

    def score(self, state: ScorerState) -> list[Score]:
        reason = "mine" if threading.get_ident() == self._mine else "another's"
        return [replace(score, reason=reason) for score in super().score(state)]


class NotesInTheState(Cheapest):
    """A candidate that was looked at is marked."""

    def score(self, state: ScorerState) -> list[Score]:
        for row in state["candidates"]:
            row["n_pending"] += 1
        return super().score(state)


class PicksAll(Cheapest):
    """However few were asked for."""

    def pick(self, state: ScorerState, k: int) -> list[str]:
        return super().pick(state, len(state["candidates"]))


class PicksHypotheses(Cheapest):
    """Ids of something else."""

    def pick(self, state: ScorerState, k: int) -> list[str]:
        rows: list[Any] = [
            row for row in state["candidates"] if row["id"] in super(PicksHypotheses, self).pick(state, k)
        ]
        return [row["hypothesis_id"] for row in rows]


class Salted(Cheapest):
    """Ties are broken by `hash` of a text, which each process salts."""

    def score(self, state: ScorerState) -> list[Score]:
        scores = zip(super().score(state), state["candidates"], strict=True)
        return [replace(score, score=(score.score or 0) + hash(row["id"]) % 1000 / 1e6) for score, row in scores]


class SeasonalByTime(Cheapest):
    """Reads the year."""

    def score(self, state: ScorerState) -> list[Score]:
        return [replace(score, reason=str(time.localtime().tm_year)) for score in super().score(state)]


class SeasonalByDate(Cheapest):
    """Reads the month and the hour."""

    def score(self, state: ScorerState) -> list[Score]:
        now = datetime.datetime.now(datetime.UTC)
        return [replace(score, reason=f"{now.month} {now.hour}") for score in super().score(state)]


class SlipsAtTimes(Cheapest):
    """One answer in 200 is another."""

    calls = 0

    def score(self, state: ScorerState) -> list[Score]:
        self.calls += 1
        return [replace(score, score=0.0) if self.calls % 200 == 0 else score for score in super().score(state)]


class PricesAtNothing(Cheapest):
    """What costs nothing is worth NaN."""

    def score(self, state: ScorerState) -> list[Score]:
        costs = [row["cost"] for row in state["candidates"]]
        return [Score(None, cost, 1 / cost if cost else math.nan, "cheap") for cost in costs]


class PromisesInfinity(Cheapest):
    """What fails for certain is worth more than anything."""

    def score(self, state: ScorerState) -> list[Score]:
        chances = [1 - row["p_fail"] for row in state["candidates"]]
        return [
            replace(score, score=(score.score or 0) / chance if chance else math.inf)
            for score, chance in zip(super().score(state), chances, strict=True)
        ]


class WantsTheRuns(Cheapest):
    """Each hypothesis has to say how many runs it had."""

    def score(self, state: ScorerState) -> list[Score]:
        return super().score(state) if sum(row["n_runs"] for row in state["hypotheses"]) >= 0 else []


class FillsIn(Cheapest):
    """A hypothesis that does not say how many runs it had gets a 0."""

    def score(self, state: ScorerState) -> list[Score]:
        for row in state["hypotheses"]:
            row.setdefault("n_runs", 0)
        return super().score(state)


BROKEN: list[tuple[type[Cheapest], str]] = [
    (DropsOne, "test_there_is_one_score_per_candidate"),
    (SortsThem, "test_scores_are_in_the_order_of_the_candidates"),
    (SaysInfinity, "test_scores_can_be_stored"),
    (Remembers, "test_the_same_state_gives_the_same_scores"),
    (TakesTurns, "test_the_same_state_gives_the_same_picks"),
    (SlipsAtTimes, "test_hundreds_of_answers_are_alike"),
    (Salted, "test_another_process_gives_the_same_answers"),
    (SeasonalByTime, "test_another_process_gives_the_same_answers"),
    (SeasonalByDate, "test_another_process_gives_the_same_answers"),
    (PricesAtNothing, "test_edges_can_be_scored"),
    (PromisesInfinity, "test_edges_can_be_scored"),
    (WantsTheRuns, "test_edges_can_be_scored"),
    (FillsIn, "test_the_state_is_not_changed"),
    (OnlyTheFirstThread, "test_threads_get_the_same_answers"),
    (NotesInTheState, "test_the_state_is_not_changed"),
    (PicksAll, "test_no_more_is_picked_than_asked_for"),
    (PicksHypotheses, "test_only_candidates_are_picked"),
]


BROKEN_FIRST = {name: broken for broken, name in reversed(BROKEN)}  # with it the sound one is tried, too


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(ScorerContract).items() if name.startswith("test_")}


def test_there_is_a_broken_scorer_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == {*_tests()}


def _in_a_module(made: type[Cheapest], folder: Path) -> ScorerContract:
    """The suite, with a factory that other processes find: these classes in a module of their own."""
    classes: list[type[Cheapest]] = [Cheapest] if made is Cheapest else [Cheapest, made]
    lines = [
        "import datetime, math, time",
        "from dataclasses import replace",
        "from perpetual.records import Score",
        "from perpetual.slots.scorer import Scorer, ScorerState",
        *(inspect.getsource(one) for one in classes),
        f"def build(options): return {made.__name__}()",
    ]
    name = f"twin_{made.__name__.lower()}"
    (folder / f"{name}.py").write_text("\n".join(lines), "utf-8")

    class Suite(ScorerContract):
        factory = f"{name}:build"

    return Suite()


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_broken_scorer_fails(
    broken: type[Cheapest], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = _tests()[name]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    if broken is BROKEN_FIRST[name]:
        test(_in_a_module(Cheapest, tmp_path), Cheapest())
    with pytest.raises(AssertionError):
        test(_in_a_module(broken, tmp_path), broken())


def test_a_scorer_without_a_factory_is_copied_or_untold() -> None:
    test = _tests()["test_another_process_gives_the_same_answers"]
    test(ScorerContract(), InformationGain({}))

    class Local(Cheapest):
        """No copy of it can be made."""

    with pytest.raises(pytest.skip.Exception, match="set `factory`"):
        test(ScorerContract(), Local())
