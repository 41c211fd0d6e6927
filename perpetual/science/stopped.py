"""What runs that were stopped early say of their arm's mean: an estimate by regression on where their curves stood.

Pure. Some runs of a design are stopped at one step, the rung; others are complete, and showed the metric there too.
Whether a run is stopped is decided by its curve up to the rung and by earlier runs, so that the values that are missing
are missing at random given those at the rung. The mean is then estimated by the regression of last values on values at
the rung: Anderson (1957), Maximum likelihood estimates for a multivariate normal distribution when some observations
are missing, JASA 52; as double sampling, Cochran (1977), Sampling Techniques, section 12.6. Values are in the metric's
units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LEAST_COMPLETE", "Filled", "filled"]

LEAST_COMPLETE = 2  # runs of the arm itself


class Filled(NamedTuple):
    """What stands for the last values of stopped runs.

    `v` is the variance that the arm's mean has beyond that of so many measured values, with `nu` degrees of freedom;
    `spread` the sd of a last value about what the rung predicts.
    """

    values: list[float]
    v: float
    nu: float
    spread: float


def filled(
    complete: Sequence[tuple[float, float]],
    stopped: Sequence[float],
    others: Sequence[tuple[float, float]] = (),
    *,
    n: int | None = None,
) -> Filled | None:
    """Returns what the regression puts in the place of stopped runs; None where too few runs are complete.

    Args:
        complete: value at the rung and last value of the arm's runs that were not stopped.
        stopped: value at the rung of those that were.
        others: as `complete`, of the other arm: it shares slope and spread, and not the level.
        n: runs of the arm in all, where some that are complete did not show where they stood at the rung.
    """
    k, c = len(complete), len(stopped)
    if k < LEAST_COMPLETE or not c:
        return None
    arms = [_centred(complete), *([_centred(others)] if len(others) > 1 else [])]
    nu = math.fsum(len(each.points) - 1 for each in arms) - 1
    sxx = math.fsum(x * x for each in arms for x, _ in each.points)
    if nu < 1 or sxx <= 0:
        return None
    slope = math.fsum(x * y for each in arms for x, y in each.points) / sxx
    rests = [math.fsum((y - slope * x) ** 2 for x, y in each.points) for each in arms]
    s2, own2 = math.fsum(rests) / nu, rests[0] / (k - 1)
    # An arm whose runs depart more from their curves than the other's is taken at its own spread; one that shows less
    # borrows the other's, and with it as many degrees of freedom as it has itself, as in `evalues.two_arms`.
    s2, nu = (own2, k - 1.0) if own2 > s2 else (s2, min(nu, 2.0 * (k - 1)))
    x_mean, y_mean = arms[0].mean
    shift, whole = math.fsum(x - x_mean for x in stopped), k + c if n is None else n
    v = s2 * (2 * c + c * c / k + shift * shift / sxx) / (whole * whole)
    return Filled([y_mean + slope * (x - x_mean) for x in stopped], v, nu, math.sqrt(s2))


class _Centred(NamedTuple):
    """Points about their mean."""

    mean: tuple[float, float]
    points: list[tuple[float, float]]


def _centred(points: Sequence[tuple[float, float]]) -> _Centred:
    x_mean, y_mean = (math.fsum(each[side] for each in points) / len(points) for side in (0, 1))
    return _Centred((x_mean, y_mean), [(x - x_mean, y - y_mean) for x, y in points])
