"""The default scorer: bits expected per run-hour. The formulas are `perpetual.science.information`'s.

Only the factory `build` is imported from outside, by the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perpetual.api import Score, Scorer, State
from perpetual.science.information import propose, score_candidates

__all__ = ["InformationGain", "build"]


class InformationGain(Scorer):
    """Pure and stateless; see `perpetual.slots.scorer` for the contract."""

    def score(self, state: State) -> list[Score]:
        """What one more replicate of each candidate teaches, in their order."""
        return [
            Score(row["information_gain_bits"], row["cost_run_hours"], row["score"], row["reason"])
            for row in score_candidates(state, _config(state))
        ]

    def pick(self, state: State, k: int) -> list[str]:
        """A batch in which each pick lowers what the next one of the same hypothesis is worth."""
        return propose(state, k, _config(state))


def _config(state: State) -> dict[str, Any]:
    return {key: state[key] for key in ("support", "refute", "min_information_gain_bits") if key in state}


def build(options: Mapping[str, Any]) -> InformationGain:
    """Factory of the provider `information-gain`."""
    return InformationGain()
