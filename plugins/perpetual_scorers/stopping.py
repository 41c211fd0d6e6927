"""Early stopping in simulated research: curves, and the lab's own rule of stopping on them.

A run's curve is its value at a quarter of its steps. That correlates with its last value among runs of one design, by
`Cell.curve_correlation`. Each implementation also learns somewhat sooner or later than its baseline, which its curve
does not tell. Curves have chances of their own: with and without stopping the runs come out the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from perpetual_stoppers.rule import why_not
from perpetual_stoppers.stopper import Stopper, StopState

if TYPE_CHECKING:
    from perpetual_scorers.simulate import Runs

__all__ = ["AT", "InstalledStopper", "Stopping", "rung_of"]

AT = 0.25  # of a run's steps, which is what a stopped run costs of its hours
_LATER = 0.3  # sd of what an implementation learns later than its baseline, in units of an effect of 1
_TO_LEARN = 3.0  # what every run still gains after the rung


class InstalledStopper(Stopper):
    """The stopper that a provider's factory (`module:callable`) makes with these options; can be pickled."""

    def __init__(self, factory: str, options: Mapping[str, object]) -> None:
        self._factory, self._options = factory, dict(options)
        self._built: Stopper | None = None

    def why(self, state: StopState) -> str | None:
        """Implements `Stopper`; builds it at the first call."""
        if self._built is None:
            from importlib import import_module

            module, _, attribute = self._factory.partition(":")
            built = getattr(import_module(module), attribute)(dict(self._options))
            if not isinstance(built, Stopper):
                raise TypeError(f"its factory answered {type(built).__name__}, which is no Stopper")
            self._built = built
        return self._built.why(state)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_built": None}


def rung_of(key: str, seed: object, noise: float | None, *, sd: float, mean: float, correlation: float) -> float | None:
    """Returns where the curve of a run stands at the rung; None of one that crashes before, at a moment of chance.

    Args:
        key: of its design; what its curve has of its own derives from it.
        seed: of the run.
        noise: of its last value, in sd; None of a run that crashes.
        sd: of a last value.
        mean: of last values.
        correlation: of the rung with the last value.
    """
    later = Random(f"{key}:later").gauss(0.0, _LATER)
    rng = Random(f"{key}:{seed}:curve")
    own = rng.gauss(0.0, 1.0)
    if noise is None:
        if rng.random() < AT:
            return None
        noise = rng.gauss(0.0, 1.0)
    return mean - _TO_LEARN - later + sd * (correlation * noise + math.sqrt(1 - correlation**2) * own)


class Stopping:
    """Whether a run is stopped at the rung: by a stopper, under the lab's rule."""

    def __init__(self, stopper: Stopper) -> None:
        self.stopper = stopper

    def stops(self, rung: float, own: Runs, others: Runs | None = None) -> bool:
        """Returns whether a run is stopped that stands at `rung`, beside the runs of its design and its baseline's.

        A baseline's run has no others.
        """
        state = StopState(
            "baseline" if others is None else "claim", rung, own.points(), own.stopped(),
            () if others is None else others.points(),
        )  # fmt: skip
        return why_not(state) is None and self.stopper.why(state) is not None
