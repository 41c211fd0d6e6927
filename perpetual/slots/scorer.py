"""The scorer slot: which candidate is worth its cost.

The contract: a scorer is a pure function of the state it is given (and, where it draws, of `state["seed"]`): the same
state gives the same answer, from any thread, and the state, which stays the caller's, is not changed. A score's numbers
are finite or None. It never sets a confidence. The state is the mapping of `perpetual.science.propose`: hypotheses with
their confidence, candidates with their design, `n_seen`, `n_pending`, cost in run-hours and failure probability, and
thresholds; a hypothesis may say how many runs it had (`n_runs`) and how many it lacks (`missing_replicates`), the state
what the budget leaves (`budget_left`). Where the methodology sets them it says `explore_fraction` and `cost_exponent`,
which a scorer that explores or weighs costs heeds before its own options. A cost may be 0, a probability or a
confidence 0 or 1. `seed` changes with every proposal and every run. `score` answers one `Score` per candidate in the
order given; `pick` answers at most `k` candidate ids, the best first, repeats meaning further replicates, none meaning
that nothing is worth its cost. The default `pick` takes the largest positive scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from perpetual.documents.scorer import ScorerState
from perpetual.records import Score

__all__ = ["Scorer", "ScorerState"]


class Scorer(ABC):
    """Base of every scorer; see the contract at the top of this module.

    Candidates of kind `baseline`, which have no hypothesis, are in the state only of one that `weighs_baselines`.
    """

    weighs_baselines: ClassVar[bool] = False

    @abstractmethod
    def score(self, state: ScorerState) -> list[Score]:
        """Returns one score per candidate of `state["candidates"]`, in their order."""

    def pick(self, state: ScorerState, k: int) -> list[str]:
        """Returns at most `k` candidate ids, best first."""
        scored = zip(self.score(state), state["candidates"], strict=True)
        worth = [(score.score, candidate["id"]) for score, candidate in scored if score.score]
        worth.sort(key=lambda pair: -pair[0])
        return [id for _, id in worth[:k]]
