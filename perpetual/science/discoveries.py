"""All claims of a lab looked at together: which stand (e-BH), and how many of the supported are probably false.

Pure. Imported by the status, and by reports on a whole project.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

__all__ = ["ENOUGH", "base_rate", "discoveries", "expected_false", "in_words"]

ENOUGH = 10  # claims that say something of their base rate
CAP = 99.0  # of an e-value here: no claim is taken for surer
_BISECTIONS = 30
_LISTED = 10


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


def base_rate(e_values: Iterable[float]) -> float:
    """Returns which share of claims like these is true, estimated from their e-values by maximum likelihood.

    Each capped e-value is taken as the likelihood ratio of true to false. One false claim is added, since few claims
    alone overstate their own base rate. In simulated labs of 20 claims `expected_false` then says 0.8 times as many
    as there are where no claim is true, and 1.0 to 1.6 times elsewhere.
    """
    gains = [min(e, CAP) - 1 for e in e_values]
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        share = (low + high) / 2
        # The slope of the log-likelihood of the share, with the false claim's own term: it falls as the share grows.
        slope = math.fsum(gain / (1 + share * gain) for gain in gains) - 1 / (1 - share)
        low, high = (share, high) if slope > 0 else (low, share)
    return low


def expected_false(e_values: Mapping[str, float], supported: Collection[str], share: float | None = None) -> float:
    """Returns how many of the supported claims are expected to be false, given the e-values of all claims.

    The sum of one minus each confidence would take every claim as likely beforehand as its prior says.

    Args:
        share: their base rate, where the caller has computed it.
    """
    share = base_rate(e_values.values()) if share is None else share
    return math.fsum((1 - share) / (share * min(e_values[name], CAP) + 1 - share) for name in supported)


def in_words(tested: int, supported: int, false: float, found: Sequence[str], share: float | None = None) -> str:
    """Returns on one line what is said of all tested claims together.

    Args:
        tested: how many claims were tested.
        supported: how many of them are supported.
        false: how many of the supported are expected to be false.
        found: the discoveries.
        share: the base rate, which is named where ten claims or more were tested.
    """
    about = "under 0.1" if false < 0.1 else f"about {false:.1f}"
    said = f"{supported} supported, {about} of them expected to be false; " if supported else ""
    listed = ", ".join(found[:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
    which = f" ({listed})" if found else ""
    return (
        f"{said}{len(found)} of {tested} tested {'stands' if len(found) == 1 else 'stand'} when taken together{which}"
        f"{f'; about {share:.0%} of such claims are true' if share is not None and tested >= ENOUGH else ''}"
    )
