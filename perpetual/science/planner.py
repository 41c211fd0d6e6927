"""The slot `planner`: says before hours are spent what runs that are still to be launched can do for a verdict.

The contract
------------
*Pure.* The same arguments give the same answer; what it is given stays as it is. It reads no record and no clock.

*Refuses what is hopeless alone.* `hopeless` answers None unless it is known that the runs which are asked for decide
nothing: never before a noise was measured or declared, and never for a design that has a fair chance of a verdict. It
is asked of the first claim of a hypothesis alone, and a person or an agent may propose it all the same. Its words are
one printable line each, and name the numbers that could decide the claim.

*Learns and decides nothing.* What `seed_correlation`, `measured_effect` and `stand_in` answer changes which runs are
proposed, and no verdict: the evidence is weighed without it. They answer None where too little was measured. A
correlation lies from 0 to 1; a variance is above 0.

A planner that raises ends the proposal, and nothing is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody

__all__ = ["Planner", "Refusal", "StandInGap"]


class Refusal(Protocol):
    """Why a design decides nothing."""

    def words(self, best: tuple[str, float] | None) -> tuple[str, str]:
        """Returns the message and the hint of the refusal.

        Args:
            best: the experiment with the best mean in the metric, and that mean.
        """


class StandInGap(Protocol):
    """How far stand-ins were off: by how much in the mean, and the sd of that."""

    @property
    def tau(self) -> float:
        """Returns the sd, in the metric's units."""

    @property
    def bias(self) -> float:
        """Returns the mean, in the metric's units."""


class Planner(ABC):
    """Plans runs; see the contract at the top of this module."""

    @abstractmethod
    def hopeless(
        self,
        design: DesignBody,
        rule: Mapping[str, float],
        baseline: Sequence[float] | float,
        *,
        planned: int,
        replicates: int,
    ) -> Refusal | None:
        """Returns why the design of a first claim decides nothing; None where that is not known.

        Args:
            design: as the record has it, with its `mde`.
            rule: support, refute, prior and least (measured runs that a verdict needs).
            baseline: the values of its runs, or a number.
            planned: replicates of the baseline, run or not; 0 for a number.
            replicates: those of the claim, and of what counts together with it.
        """

    @abstractmethod
    def seed_correlation(self, claims: Iterable[Sequence[tuple[float, float]]]) -> float | None:
        """Returns the correlation of the two runs of a seed, by the pairs (claim, baseline) of each claim."""

    @abstractmethod
    def measured_effect(self, own: Sequence[float], baseline: Sequence[float]) -> tuple[float, float] | None:
        """Returns the effect of a claim's runs over its baseline's, and its variance."""

    @abstractmethod
    def stand_in(self, gaps: Sequence[tuple[float, float, float]]) -> StandInGap | None:
        """Returns how far stand-ins are off; each gap has both effects and the variance of their difference."""
