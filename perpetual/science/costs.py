"""What the next run is expected to cost, and its chance to fail. Pure.

Costs are in run-hours: wall hours times GPUs, at least one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["COST_FLOOR_RUN_HOURS", "DEFAULT_FAILURE", "failure_probability", "learned_cost"]

COST_FLOOR_RUN_HOURS = 1 / 3600
DEFAULT_FAILURE = 0.1  # failure_probability(0, 0)


def failure_probability(crashes: int, runs: int) -> float:
    """Returns chance that the next run yields no result, after `crashes` of `runs`: 0.1 to begin with."""
    return (crashes + 1) / (runs + 10)


def learned_cost(declared: float, ratios: Iterable[float]) -> float:
    """Returns expected run-hours, at least one second: the declared cost corrected by earlier actual / declared.

    The two unseen ratios of 1 in the mean keep one odd run from deciding. Raises ValueError for a ratio that
    is not > 0.
    """
    logs = [math.log(ratio) for ratio in ratios]
    return max(declared * math.exp(math.fsum(logs) / (len(logs) + 2)), COST_FLOOR_RUN_HOURS)
