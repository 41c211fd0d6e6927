"""The bundled scorers, one for each strategy. The formulas are `perpetual.science`'s.

Only the factories are imported from outside, by the kernel: `build` makes the default scorer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from perpetual.api import ConfigError, Score, Scorer, ScorerState
from perpetual_scorers.proposing.information import propose, score_candidates

__all__ = ["Decisive", "Greedy", "InformationGain", "RandomChoice", "RoundRobin", "StrategyScorer", "Thompson", "build"]

_OF_THE_STATE = ("support", "refute", "min_information_gain_bits", "explore_fraction", "cost_exponent")


class StrategyScorer(Scorer):
    """One of `perpetual.science`'s strategies. Pure: what it draws derives from the state's seed.

    Raises:
        ConfigError: for a knob out of its range.
    """

    strategy: ClassVar[str]
    weighs_baselines = True

    def __init__(self, options: Mapping[str, float]) -> None:
        explore, exponent = options.get("explore_fraction", 0.0), options.get("cost_exponent", 1.0)
        if not 0 <= explore <= 1:
            raise ConfigError(f"explore_fraction is a share of the picks, 0 to 1, not {explore:g}")
        if not 0 <= exponent <= 10:
            raise ConfigError(f"cost_exponent must be 0 (cost is ignored) to 10, not {exponent:g}")
        self.knobs: dict[str, object] = {
            "strategy": self.strategy,
            "explore_fraction": explore,
            "cost_exponent": exponent,
        }

    def score(self, state: ScorerState) -> list[Score]:
        """Returns what one more replicate of each candidate is worth, in their order."""
        return [
            Score(row["information_gain_bits"], row["cost_run_hours"], row["score"], row["reason"])
            for row in score_candidates(state, self._config(state))
        ]

    def pick(self, state: ScorerState, k: int) -> list[str]:
        """Returns a batch in which each pick lowers what the next one of the same hypothesis is worth."""
        return propose(state, k, self._config(state))

    def _config(self, state: ScorerState) -> dict[str, object]:
        return self.knobs | {key: value for key, value in state.items() if key in _OF_THE_STATE}


class InformationGain(StrategyScorer):
    """Bits expected per run-hour."""

    strategy = "hypothesis_driven"


class Decisive(StrategyScorer):
    """Evidence per run-hour, capped by what a decision still needs."""

    strategy = "decisive"


class Greedy(StrategyScorer):
    """Chance of reaching the support threshold, per run-hour."""

    strategy = "greedy"


class Thompson(StrategyScorer):
    """What one drawn outcome would teach, per run-hour."""

    strategy = "thompson"


class RandomChoice(StrategyScorer):
    """A hypothesis by lot, and one of its candidates by lot."""

    strategy = "random"


class RoundRobin(StrategyScorer):
    """The hypothesis with the fewest runs, and one of its candidates by lot."""

    strategy = "round_robin"


def build(options: Mapping[str, float]) -> InformationGain:
    """Builds the provider `information-gain`."""
    return InformationGain(options)
