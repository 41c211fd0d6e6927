"""The contract suite of the scorer slot: every promise of `perpetual.slots.scorer`, as tests to be subclassed.

    class TestAcmeScorer(ScorerContract):
        @pytest.fixture
        def scorer(self) -> Scorer:
            return build({})

Instead of the fixture a subclass may name the part as its provider does: `factory = "acme.scorer:build"`, and `options`
where it has some. Imported by the tests of plugins; nothing but pytest is needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import pytest

from perpetual.records import Score
from perpetual.slots.scorer import Scorer
from perpetual.testing.elsewhere import elsewhere

if TYPE_CHECKING:
    from perpetual.documents.scorer import CandidateState, HypothesisState, ScorerState

__all__ = ["EDGES", "ScorerContract", "edge", "state_of"]

_REPEATS, _REPEATS_S = 600, 1.0  # answers that are compared, and for how long at most
_Answer = TypeVar("_Answer")


def state_of(count: int = 5, seed: int = 7) -> ScorerState:
    """Returns a state with `count` candidates for two hypotheses; no two candidates cost the same."""
    candidates: list[CandidateState] = [
        {
            "id": f"e{n}",
            "hypothesis_id": "h1" if n % 2 else "h2",
            "mu1": 1.1,
            "mu0": 1.0,
            "sigma": 0.05 * n,
            "tau": 0.01,
            "cost": 0.5 * (1 + (3 * n) % 7),
            "p_fail": 0.05,
            "n_seen": n % 3,
            "n_pending": 0,
        }
        for n in range(1, count + 1)
    ]
    hypotheses: list[HypothesisState] = [
        {"id": "h1", "confidence": 0.5, "missing_replicates": 0, "n_runs": 3},
        {"id": "h2", "confidence": 0.7, "missing_replicates": 0, "n_runs": 2},
    ]
    return {
        "hypotheses": hypotheses,
        "candidates": candidates,
        "support": 0.95,
        "refute": 0.05,
        "min_information_gain_bits": 0.001,
        "budget_left": None,
        "seed": seed,
    }


# What a state may say at its edges: of the first candidate, of each hypothesis, and of the whole.
EDGES: Mapping[str, tuple[Mapping[str, object], Mapping[str, object], Mapping[str, object]]] = {
    "a cost of 0": ({"cost": 0.0}, {}, {}),
    "a cost of a million run-hours": ({"cost": 1e6}, {}, {}),
    "p_fail 1": ({"p_fail": 1.0}, {}, {}),
    "p_fail 0": ({"p_fail": 0.0}, {}, {}),
    "a binary outcome": ({"model": "binary", "mu1": 1.0, "mu0": 0.5, "sigma": None, "tau": 0.0}, {}, {}),
    "equal predictions": ({"mu1": 1.0, "mu0": 1.0, "tau": 0.0}, {}, {}),
    "a thousand values seen": ({"n_seen": 1000, "n_pending": 50, "n_left": 1, "baseline_n": 3}, {}, {}),
    "confidence 0": ({}, {"confidence": 0.0}, {}),
    "confidence 1": ({}, {"confidence": 1.0}, {}),
    "no budget left": ({}, {}, {"budget_left": 0.0}),
    "seed 0": ({}, {}, {"seed": 0}),
    "the largest seed": ({}, {}, {"seed": 2**63 - 1}),
    "no least gain": ({}, {}, {"min_information_gain_bits": 0.0}),
}
_MAY_LACK = ("n_runs", "missing_replicates"), ("budget_left",)  # of each hypothesis, of the whole


def edge(name: str) -> ScorerState:
    """Returns a state with five candidates at the named edge."""
    state: dict[str, Any] = {**state_of()}
    first, each, whole = EDGES[name]
    state["candidates"][0].update(first)
    for hypothesis in state["hypotheses"]:
        hypothesis.update(each)
    return cast("ScorerState", {**state, **whole})


def _bare() -> ScorerState:
    """Returns a state without what it may lack."""
    state: dict[str, Any] = {**state_of()}
    for hypothesis in state["hypotheses"]:
        for name in _MAY_LACK[0]:
            del hypothesis[name]
    for name in _MAY_LACK[1]:
        del state[name]
    return cast("ScorerState", state)


def _edges() -> Iterator[tuple[str, ScorerState]]:
    yield from ((name, edge(name)) for name in EDGES)
    yield "without n_runs, missing_replicates and budget_left", _bare()
    yield "without candidates and hypotheses", {**state_of(0), "hypotheses": []}


def _asked(name: str, deed: Callable[[], _Answer]) -> _Answer:
    """Returns what the deed answers; one that raises fails the test, which names the state."""
    try:
        return deed()
    except Exception as problem:
        raise AssertionError(f"{name}: it raised {problem!r}") from problem


class ScorerContract:
    """The contract of scorers.

    Promised: purity (no memory of earlier calls, no change of the state, whatever the thread, the
    process and the clock), one score per candidate in their order, and picks that are candidates, at most as many as
    are asked for.
    """

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}

    @pytest.fixture
    def scorer(self) -> Scorer:
        """Returns the scorer under test, as `factory` builds it; may be overridden."""
        if not self.factory:
            raise NotImplementedError("override the fixture `scorer`, or name the `factory`")
        module, _, name = self.factory.partition(":")
        build: Callable[[dict[str, object]], Scorer] = getattr(import_module(module), name)
        return build(dict(self.options))

    def test_there_is_one_score_per_candidate(self, scorer: Scorer) -> None:
        """As many as there are candidates, also for one and for none."""
        for count in (5, 1, 0):
            scores = scorer.score(state_of(count))
            assert len(scores) == count
            assert all(isinstance(score, Score) for score in scores)

    def test_scores_are_in_the_order_of_the_candidates(self, scorer: Scorer) -> None:
        """A score that names a cost names that of the candidate in its place, however they are ordered."""
        forwards, backwards = state_of(), state_of()
        backwards["candidates"].reverse()
        for state in (forwards, backwards):
            for score, candidate in zip(scorer.score(state), state["candidates"], strict=True):
                assert score.cost_run_hours in (None, pytest.approx(candidate["cost"]))

    def test_scores_can_be_stored(self, scorer: Scorer) -> None:
        """Numbers are finite or None, and the reason is text."""
        for score in scorer.score(state_of()):
            for value in (score.information_gain_bits, score.cost_run_hours, score.score):
                assert value is None or math.isfinite(value)
            assert isinstance(score.reason, str)

    def test_the_same_state_gives_the_same_scores(self, scorer: Scorer) -> None:
        """Also after other states were scored in between."""
        first = scorer.score(state_of())
        scorer.score(state_of(2, seed=8))
        scorer.pick(state_of(3, seed=9), 2)
        assert scorer.score(state_of()) == first

    def test_the_same_state_gives_the_same_picks(self, scorer: Scorer) -> None:
        """Also after others were picked in between."""
        first = scorer.pick(state_of(), 3)
        scorer.pick(state_of(2, seed=8), 1)
        scorer.score(state_of(3, seed=9))
        assert scorer.pick(state_of(), 3) == first

    def test_hundreds_of_answers_are_alike(self, scorer: Scorer) -> None:
        """Or as many as a second allows: chance comes from the state's seed alone."""
        score, pick = scorer.score(state_of(2)), scorer.pick(state_of(2), 1)
        until_s = time.monotonic() + _REPEATS_S
        for number in range(2, _REPEATS + 1):
            assert (scorer.score(state_of(2)), scorer.pick(state_of(2), 1)) == (score, pick), f"at call {number}"
            if time.monotonic() > until_s:
                break

    def test_another_process_gives_the_same_answers(self, scorer: Scorer) -> None:
        """With another hash seed, in another folder, and next year: nothing counts but the state."""
        asked = [("score", (state_of(),)), ("pick", (state_of(), 3)), ("score", (state_of(3, seed=8),))]
        here = [getattr(scorer, name)(*given) for name, given in asked]
        now, later = elsewhere(scorer, asked, factory=self.factory, options=self.options)
        assert now == here, "another process answers otherwise"
        assert later == here, "at another time it answers otherwise"

    def test_edges_can_be_scored(self, scorer: Scorer) -> None:
        """Costs of 0, certain failure, certain confidence; and a state without what it may lack."""
        for name, state in _edges():
            scores = _asked(name, lambda state=state: scorer.score(state))  # type: ignore[misc]
            assert len(scores) == len(state["candidates"]), name
            for number, score in enumerate(scores):
                for value in (score.information_gain_bits, score.cost_run_hours, score.score):
                    assert value is None or math.isfinite(value), f"{name}: candidate {number} is worth {value}"
            picks = _asked(name, lambda state=state: scorer.pick(state, 3))  # type: ignore[misc]
            assert len(picks) <= 3, name
            assert {*picks} <= {candidate["id"] for candidate in state["candidates"]}, name

    def test_threads_get_the_same_answers(self, scorer: Scorer) -> None:
        """Calls of several threads do not disturb each other."""
        sizes = [1 + n % 5 for n in range(40)]
        alone = [scorer.score(state_of(size)) for size in sizes]
        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(lambda size: scorer.score(state_of(size)), sizes)] == alone

    def test_the_state_is_not_changed(self, scorer: Scorer) -> None:
        """Neither by scoring nor by picking, at any depth; nor is what it lacks filled in."""
        for name, state in (("of five candidates", state_of()), *_edges()):
            before = deepcopy(state)
            scorer.score(state)
            assert state == before, f"{name}: scoring has changed it"
            scorer.pick(state, 3)
            assert state == before, f"{name}: picking has changed it"

    def test_no_more_is_picked_than_asked_for(self, scorer: Scorer) -> None:
        """At most `k`; nothing where there are no candidates."""
        for k in (1, 2, 5, 50):
            assert len(scorer.pick(state_of(), k)) <= k
        assert [*scorer.pick(state_of(0), 3)] == []

    def test_only_candidates_are_picked(self, scorer: Scorer) -> None:
        """Every pick is the id of a candidate."""
        state = state_of()
        assert {*scorer.pick(state, 5)} <= {candidate["id"] for candidate in state["candidates"]}
