"""Multiple comparisons, the claims that stand when all were looked at: the e-value procedure of Benjamini and Hochberg.

Pure. Imported by reports on a whole project.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["discoveries"]


def discoveries(e_values: Mapping[str, float], alpha: float) -> list[str]:
    """Returns the claims that are discoveries at false discovery rate `alpha`, the largest e-value first.

    Of K claims with e-values e the k largest are discoveries, for the largest k with e_(k) >= K / (alpha k). It holds
    under any dependence between the claims, and however often each was looked at. Source: Wang and Ramdas (2022),
    False discovery rate control with e-values, Journal of the Royal Statistical Society B 84. Equal e-values keep the
    order in which they came.

    Raises:
        ValueError: for an alpha outside (0, 1], or an e-value that is negative or no number.
    """
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must lie in (0, 1], not {alpha!r}")
    for name, value in e_values.items():
        if math.isnan(value) or value < 0.0:
            raise ValueError(f"the e-value of {name} must be a number of at least 0, not {value!r}")
    ranked = sorted(e_values, key=lambda name: -e_values[name])
    found = 0
    for k, name in enumerate(ranked, 1):
        if e_values[name] * alpha * k >= len(ranked):
            found = k
    return ranked[:found]
