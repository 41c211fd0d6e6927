"""The Student-t ratio of one design's replicates: the evidence rule before e-values, kept to compare with.

It is no e-value where the noise is unknown: the mean of the ratio exceeds 1 for two runs. Imported by calibration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["student_ratio"]


def student_ratio(
    values: Sequence[float], *, tau: float, sigma: float | None = None, s0: float | None = None, nu0: float = 0.0
) -> float:
    """Returns the log ratio (nats) of an effect of 1 against none, of one design's replicates pooled.

    Args:
        values: differences from the baseline.
        tau: sd between implementations, which replicates share.
        sigma: the replicates' noise, taken as known; else it is estimated.
        s0: a guess of the noise, worth `nu0` degrees of freedom.
    """
    n = len(values)
    mean = math.fsum(values) / n
    if sigma is not None:
        return (mean - 0.5) / (tau * tau + sigma * sigma / n)
    prior_nu = 0.0 if s0 is None else nu0
    nu = prior_nu + n - 1
    if nu <= 0:
        return 0.0
    s2 = (prior_nu * (s0 or 0.0) ** 2 + math.fsum((x - mean) ** 2 for x in values)) / nu
    scale = nu * (tau * tau + s2 / n)
    if scale <= 0:
        return 0.0
    # The ratio peaks at this distance from the middle; beyond it a better result would count for less.
    reach = math.sqrt(0.25 + scale)
    clipped = min(max(mean, 0.5 - reach), 0.5 + reach)
    lead = 2 * (clipped - 0.5)
    near = clipped - (1.0 if lead >= 0 else 0.0)
    return math.copysign((nu + 1) / 2 * math.log1p(abs(lead) / (scale + near * near)), lead)
