"""The contract suite of the scorer slot: every promise of `perpetual.slots.scorer`, as tests to be subclassed.

    class TestAcmeScorer(ScorerContract):
        @pytest.fixture
        def scorer(self) -> Scorer:
            return build({})

Imported by the tests of plugins; nothing but pytest is needed.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest

from perpetual.records import Score
from perpetual.slots.scorer import Scorer

__all__ = ["ScorerContract", "state_of"]


def state_of(count: int = 5, seed: int = 7) -> dict[str, Any]:
    """A state with `count` candidates for two hypotheses; no two candidates cost the same."""
    candidates = [
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
    hypotheses = [
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


class ScorerContract:
    """For every scorer. Promised: purity (no memory of earlier calls, no change of the state, whatever the thread),
    one score per candidate in their order, and picks that are candidates, no more than asked for.
    """

    @pytest.fixture
    def scorer(self) -> Scorer:
        """The scorer under test; to be overridden."""
        raise NotImplementedError("override the fixture `scorer`")

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

    def test_threads_get_the_same_answers(self, scorer: Scorer) -> None:
        """Calls of several threads do not disturb each other."""
        sizes = [1 + n % 5 for n in range(40)]
        alone = [scorer.score(state_of(size)) for size in sizes]
        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(lambda size: scorer.score(state_of(size)), sizes)] == alone

    def test_the_state_is_not_changed(self, scorer: Scorer) -> None:
        """Neither by scoring nor by picking, at any depth."""
        state = state_of()
        before = deepcopy(state)
        scorer.score(state)
        assert state == before
        scorer.pick(state, 3)
        assert state == before

    def test_no_more_is_picked_than_asked_for(self, scorer: Scorer) -> None:
        """At most `k`; nothing where there are no candidates."""
        for k in (1, 2, 5, 50):
            assert len(scorer.pick(state_of(), k)) <= k
        assert [*scorer.pick(state_of(0), 3)] == []

    def test_only_candidates_are_picked(self, scorer: Scorer) -> None:
        """Every pick is the id of a candidate."""
        state = state_of()
        assert {*scorer.pick(state, 5)} <= {candidate["id"] for candidate in state["candidates"]}
