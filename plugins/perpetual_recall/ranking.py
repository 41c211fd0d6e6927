"""The arithmetic of the second phase: half what a note says, half how the work went in whose context it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

__all__ = ["KEPT_TYPES", "NEUTRAL", "UNIT", "UNTRIED", "Utility", "scores", "z_scores"]

UNIT = 2520  # parts of a credit: divisible by every number up to 10, so that sums are exact
NEUTRAL = 0.5  # weight of each half
KEPT_TYPES = frozenset({"failure_pattern", "episodic_case"})  # what failed is to be met again, so it is not ranked out


@dataclass(frozen=True, slots=True)
class Utility:
    """Good and bad outcomes of a note, each in fractions of one over the notes that shared the context."""

    good: float = 0.0
    bad: float = 0.0

    @property
    def mean(self) -> float:
        """Returns Q, the mean of Beta(a + 1, b + 1)."""
        return (self.good + 1) / (self.good + self.bad + 2)

    @property
    def sd(self) -> float:
        """Returns the standard deviation of that distribution."""
        total = self.good + self.bad + 2
        return sqrt((self.good + 1) * (self.bad + 1) / (total * total * (total + 1)))

    @property
    def lower(self) -> float:
        """Returns Q less one standard deviation: what is little tried counts for little."""
        return self.mean - self.sd


UNTRIED = Utility()


def z_scores(values: Sequence[float]) -> list[float]:
    """Returns how many standard deviations each value lies above the mean; zeros where all are the same."""
    if not values:
        return []
    mean = sum(values) / len(values)
    sd = sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [0.0] * len(values) if sd < 1e-12 else [(value - mean) / sd for value in values]


def scores(sims: Sequence[float], utilities: Sequence[Utility], types: Sequence[str]) -> list[tuple[float, ...]]:
    """Returns z(sim), z(Q) and the score of each candidate; notes of failures lose nothing by their own failures."""
    of_q = [
        max(0.0, z) if type in KEPT_TYPES else z
        for z, type in zip(z_scores([utility.lower for utility in utilities]), types, strict=True)
    ]
    return [(s, q, NEUTRAL * s + NEUTRAL * q) for s, q in zip(z_scores(sims), of_q, strict=True)]
