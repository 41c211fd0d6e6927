"""Whether a memory helps: a betting test on paired replays. Imported by the replay gate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from perpetual.science.evidence import is_finite, number

if TYPE_CHECKING:
    from typing import TypedDict

    class Replayed(TypedDict):
        """What pairs decide about a memory; the e-values are those of help and of harm."""

        decision: str
        pairs: int
        e: float
        e_harm: float


STAKES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)


def gate(diffs: Iterable[float], config: Mapping[str, object]) -> Replayed:
    """Decides on a memory from paired differences in their order: score with it minus without, in [-1, 1].

    Bets of each stake on "it helps" and on "it harms" are multiplied up pair by pair and averaged over the
    stakes. While the memory does not help on average, the first average is a test supermartingale, so
    whatever the stopping rule it is promoted with probability `alpha` at most (Ville's inequality).

    `config`: "alpha" (0.05) to promote, "harm_alpha" (0.2) to reject, "min_pairs" (5), "max_pairs" (60).
    Returns "decision", the "pairs" read up to it, "e" (that it helps) and "e_harm". Raises ValueError for a
    difference that is no number in [-1, 1], and an alpha outside (0, 1].
    """
    help_bar, harm_bar = (1 / _share(config, key, default) for key, default in (("alpha", 0.05), ("harm_alpha", 0.2)))
    min_pairs, max_pairs = number(config, "min_pairs", 5), number(config, "max_pairs", 60)
    helps, harms = [1.0] * len(STAKES), [1.0] * len(STAKES)
    decision, pairs, e_help, e_harm = "quarantine", 0, 1.0, 1.0
    for diff in diffs:
        if decision != "quarantine" or pairs >= max_pairs:
            break
        if not is_finite(diff) or not -1 <= diff <= 1:
            raise ValueError(f"pair {pairs + 1}: a paired difference lies in [-1, 1], not {diff!r}")
        pairs += 1
        helps = [wealth * (1 + stake * diff) for wealth, stake in zip(helps, STAKES, strict=True)]
        harms = [wealth * (1 - stake * diff) for wealth, stake in zip(harms, STAKES, strict=True)]
        e_help, e_harm = (math.fsum(side) / len(STAKES) for side in (helps, harms))
        if pairs >= min_pairs and e_help >= help_bar:
            decision = "promote"
        elif pairs >= min_pairs and e_harm >= harm_bar:
            decision = "reject"
    return {"decision": decision, "pairs": pairs, "e": e_help, "e_harm": e_harm}


def _share(config: Mapping[str, object], key: str, default: float) -> float:
    value = number(config, key, default)
    if not 0 < value <= 1:
        raise ValueError(f"{key} must lie in (0, 1], not {value:g}")
    return value
