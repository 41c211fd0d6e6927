"""The stopper `curve`: stops a run of a claim or of its baseline whose end its curve foretells.

The last value is extrapolated by the regression of last values on values at the rung, over the complete runs of the
claim and of its baseline; a baseline's are its own. A run is stopped where the sd of that is a share of the noise
between runs: what is left of the run would tell little more. It does not look at whether the run is a good or a bad
one. To stop the bad ones alone costs more hours than it saves, since complete and stopped runs then lie apart, and the
regression must bridge that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from perpetual.science.stopped import filled
from perpetual_stoppers.stopper import Stopper, StopState

__all__ = ["SPREAD", "CurveStopper", "build"]

SPREAD = 0.6  # of the noise between runs


class CurveStopper(Stopper):
    """Stops a run that is evidence where its curve foretells its last value.

    Args:
        spread: the sd of the last value given the curve, at most, as a share of the noise between runs.
    """

    def __init__(self, spread: float = SPREAD) -> None:
        self._spread = spread

    def why(self, state: StopState) -> str | None:
        """Implements `Stopper`; of a search it stops nothing."""
        if state.sort == "search":
            return None
        found = filled(state.complete, [*state.stopped, state.value], state.others)
        noise = _noise([state.complete, state.others])
        if found is None or not noise or found.spread > self._spread * noise:
            return None
        return (
            f"its curve foretells its last value to within {found.spread:.2g}, "
            f"{found.spread / noise:.0%} of the noise between runs"
        )


def _noise(arms: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Returns the sd of last values within the arms; 0 where it is not known."""
    total, nu = 0.0, 0
    for arm in arms:
        values = [last for _, last in arm]
        if len(values) > 1:
            mean = math.fsum(values) / len(values)
            total, nu = total + math.fsum((value - mean) ** 2 for value in values), nu + len(values) - 1
    return math.sqrt(total / nu) if nu else 0.0


def build(options: Mapping[str, object]) -> CurveStopper:
    """Builds the provider `curve`."""
    return CurveStopper(cast("float", options.get("spread", SPREAD)))
