"""The slot `stopper`: decides from a run's curve whether the rest of the run is worth its hours.

The contract
------------
*Asked once.* `why(state)` is asked of a live run when its metric has been logged up to one step, the rung. It answers a
reason in one line, and the run is stopped; or None, and the run goes on to its end.

*From the curve alone.* What it answers depends on the state alone, which holds the run's value at the rung, and what
other runs showed there and at their ends. The same state gives the same answer. So what is missing after a stop is
missing at random given the curve, and the evidence can take it into account (`perpetual.science.stopped`).

*Values are oriented.* Larger is better, whichever way the metric goes.

*No last word.* A claim's run is stopped only where `perpetual_stoppers.rule` allows it; a stopper that raises stops
nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

__all__ = ["StopState", "Stopper"]


@dataclass(frozen=True, slots=True)
class StopState:
    """One run at the rung, and the runs to hold it against.

    - `sort`: `claim`, whose runs are evidence; `baseline`, which claims are compared with; or `search`, as of a sweep,
      whose runs are evidence of nothing.
    - `value`: of the run at the rung.
    - `complete`: value at the rung and last value of the runs of the same design that are complete, oldest first.
    - `stopped`: values at the rung of those that were stopped.
    - `others`: as `complete`, of a claim's baseline.
    - `peers`: values at the rung of all runs of the same search that have come so far, this one left out.
    """

    sort: Literal["claim", "baseline", "search"]
    value: float
    complete: tuple[tuple[float, float], ...] = ()
    stopped: tuple[float, ...] = ()
    others: tuple[tuple[float, float], ...] = ()
    peers: tuple[float, ...] = ()


class Stopper(ABC):
    """Decides whether a run is stopped at the rung; see the contract at the top of this module."""

    @abstractmethod
    def why(self, state: StopState) -> str | None:
        """Returns why the run is stopped, in one line of printable text; None lets it go on."""
