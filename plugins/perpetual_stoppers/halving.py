"""The stopper `async-halving`: stops a run that is not among the best share of those that have come as far.

Source: Li, Jamieson, Rostamizadeh and others (2020), A system for massively parallel hyperparameter tuning, MLSys 2
(ASHA, as its stopping variant). Of a search the best of all settings go on. Of a claim its own runs and its baseline's
are ranked together: that finds runs that cannot win, and for a claim it does not pay, see `perpetual_stoppers.curve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from perpetual_stoppers.stopper import Stopper, StopState

__all__ = ["ETA", "HalvingStopper", "build"]

ETA = 3.0


class HalvingStopper(Stopper):
    """Stops a run below the best share of those at its rung.

    Args:
        eta: one in `eta` goes on.
    """

    def __init__(self, eta: float = ETA) -> None:
        self._eta = eta

    def why(self, state: StopState) -> str | None:
        """Implements `Stopper`; the first `eta` runs go on."""
        peers = state.peers
        if state.sort != "search":
            peers = (*(value for value, _ in (*state.complete, *state.others)), *state.stopped)
        whole = len(peers) + 1
        place = 1 + sum(value > state.value for value in peers)
        going_on = int(whole / self._eta)
        if going_on < 1 or place <= going_on:
            return None
        return f"it is at place {place} of the {whole} runs that have come so far, and the best {going_on} go on"


def build(options: Mapping[str, object]) -> HalvingStopper:
    """Builds the provider `async-halving`."""
    return HalvingStopper(cast("float", options.get("eta", ETA)))
