"""Whether a comparison goes on: the rule of one look at its pairs of runs. Pure.

The e-values of the lab hold at every look, so a comparison may go on for as long as it is open. It ends as soon as it
is decided, at its most pairs, and where its pairs so far leave hardly a chance that the most would be enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from perpetual.science.intervals import pooled_sd
from perpetual.science.reach import chance, statistic_of

__all__ = ["FUTILE", "Look", "Said", "chance_left", "measured", "needed", "said_of"]

FUTILE = 0.1  # chance to have enough at the most pairs, below which a comparison ends
Said = Literal["passed", "refuted", "go_on", "futile", "most"]


class Look(NamedTuple):
    """What a comparison has come to.

    - `pairs`: those that are over; `most`: those that it may have.
    - `status`: of its claim; `e_value`: for the claim, and `needed`: the least that passes.
    - `effect`: positive where the candidate is better, and `sd`: the noise of a run. None where not known.
    - `mde`: the smallest effect worth having; None counts any.
    """

    pairs: int
    most: int
    status: str
    e_value: float
    needed: float
    effect: float | None
    sd: float | None
    mde: float | None


def said_of(look: Look) -> Said:
    """Returns whether a comparison has passed, is refuted, goes on, or ends undecided and why."""
    if look.status == "supported" and look.e_value >= look.needed:
        return "passed"
    if look.status == "refuted":
        return "refuted"
    if look.pairs >= look.most:
        return "most"
    left = chance_left(look)
    return "futile" if left is not None and left < FUTILE else "go_on"


def needed(kind: str, support: float, alpha: float, before: float) -> float:
    """Returns the least e-value with which a comparison passes.

    Args:
        kind: trial or confirmation.
        support: the confidence from which on a claim is supported.
        alpha: the chance at most that a candidate that changes nothing is kept.
        before: the e-value of the trial; that of a confirmation is multiplied with it.
    """
    least = support / (1 - support) if support < 1 else math.inf
    return least if kind == "trial" else max(least, 1 / alpha / before)


def measured(
    of_best: Mapping[object, float], own: Mapping[object, float], sign: float = 1.0
) -> tuple[float | None, float | None]:
    """Returns the effect of a candidate, positive where it is better, and the noise of a run; None where unknown.

    Where seeds matter to both arms alike the noise is that of the differences.

    Args:
        of_best: what the best has measured, by seed.
        own: what the candidate has.
    """
    if not of_best or not own or (noise := pooled_sd(([*of_best.values()], [*own.values()]))) is None:
        return None, None
    both = [own[seed] - of_best[seed] for seed in own if seed in of_best]
    apart = pooled_sd((both,))
    effect = sign * (math.fsum(own.values()) / len(own) - math.fsum(of_best.values()) / len(of_best))
    return effect, noise if apart is None else min(noise, apart / math.sqrt(2))


def chance_left(look: Look) -> float | None:
    """Returns the chance that the e-value is enough at the most pairs; None where the noise is not known.

    The pairs to come are taken to be better than those so far: by the mde where they have shown less, else by a
    standard error of what they have shown. So a chance near 0 is one that hope does not change.
    """
    if look.effect is None or not look.sd or look.pairs < 1:
        return None
    hoped = look.effect + look.sd * math.sqrt(2 / look.pairs) if look.mde is None else max(look.mde, look.effect)
    share = look.pairs / look.most
    planned = statistic_of(share * look.effect + (1 - share) * hoped, look.sd, look.most, look.most)
    return chance(planned, look.needed)
