"""The exploration strategies: what one more replicate of a candidate is worth.

Imported by `information`, which divides a worth by its cost and fills batches. Chance is a hash of `seed` and of what
is drawn, so the same state draws the same; `d2` is a squared separation as in `information`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from perpetual.science.draws import uniform

__all__ = ["STRATEGIES", "Look", "Strategy", "crossing_probability", "missing_evidence", "strategy", "uniform",
           "verdict_probability"]  # fmt: skip

ENOUGH = 1.5  # evidence bought beyond Wald's expectation: results scatter around it

_LOGIT_LIMIT = 500.0  # exp() stays finite; a confidence of the lab is never nearer to certainty
_NUDGE = 1e-9  # orders candidates of one hypothesis without moving it among the others


class Look(NamedTuple):
    """What a strategy may look at for one more replicate of one candidate."""

    confidence: float
    pending_d2: float  # of what waits for its result, or was picked before in this batch
    new_d2: float
    gain_bits: float
    support: float
    refute: float
    seed: object = 0
    pick: int = 0  # how many were picked before in this batch
    candidate_id: object = None
    hypothesis_id: object = None
    runs: float = 0.0  # of the hypothesis so far, live and picked ones included
    order: float = 0.0  # the hypothesis's place among the others, 0..1
    verdicts: float | None = None  # expected of it, where the noise is unknown; as a share of its series


class Strategy(NamedTuple):
    """`worth` of a replicate; `by_cost`: divided by its cost; `fresh`: drawn anew for each pick; `note`: of reasons."""

    worth: Callable[[Look], float]
    by_cost: bool = True
    fresh: bool = False
    note: str = ""


def _normal_below(z: float) -> float:
    """Returns P(Z < z) of the standard normal."""
    return math.erfc(-z / math.sqrt(2)) / 2


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def _certainty(p: float) -> float:
    """Returns (2p - 1) logit(p): the expected evidence, in nats, behind a calibrated confidence `p`; nil at 0.5."""
    return (2 * p - 1) * _logit(p) if 0 < p < 1 else math.inf


def missing_evidence(p: float, support: float, refute: float) -> float:
    """Nats that a decision still needs in the mean at confidence `p`: nil at and beyond the thresholds.

    Wald's expected log likelihood ratio, averaged over the truth, without overshoot. Source: Wald (1947),
    Sequential Analysis.
    """
    if not refute < p < support:
        return 0.0
    share = (p - refute) / (support - refute)
    return max(share * _certainty(support) + (1 - share) * _certainty(refute) - _certainty(p), 0.0)


def crossing_probability(p: float, d2: float, support: float) -> float:
    """Returns chance that an observation with squared separation `d2` takes confidence `p` to `support` or beyond."""
    if not 0 < p < 1 or not 0 < support < 1 or d2 <= 0:
        return float(p >= support)
    d, bar = math.sqrt(d2), _logit(support) - _logit(p)
    return p * _normal_below((d2 / 2 - bar) / d) + (1 - p) * _normal_below((-d2 / 2 - bar) / d)


def verdict_probability(p: float, d2: float, spread: float, support: float, refute: float) -> float:
    """Returns chance that confidence `p`, within both thresholds, passes one of them.

    The evidence comes out normal, with mean +-d2/2 (nats) and variance `spread`: under unknown noise the e-value is
    expected to say less than known noise would let it, and scatters no less.
    """
    if not 0 < refute < p < support < 1 or d2 <= 0:
        return 0.0
    sd, up, down = math.sqrt(max(spread, d2)), _logit(support) - _logit(p), _logit(p) - _logit(refute)

    def past(mean: float) -> float:
        return _normal_below((mean - up) / sd) + _normal_below((-mean - down) / sd)

    return min(p * past(d2 / 2) + (1 - p) * past(-d2 / 2), 1.0)


def _hypothesis_driven(look: Look) -> float:
    # A verdict counts as the one bit that it answers: what no verdict comes of is not worth its hours.
    return look.gain_bits if look.verdicts is None else look.verdicts


def _decisive(look: Look) -> float:
    enough = ENOUGH * missing_evidence(look.confidence, look.support, look.refute)
    return min((look.pending_d2 + look.new_d2) / 2, enough) - min(look.pending_d2 / 2, enough)


def _greedy(look: Look) -> float:
    p, before = look.confidence, look.pending_d2
    after = crossing_probability(p, before + look.new_d2, look.support)
    if p >= look.support:
        return after  # past the threshold already: how surely the replicate leaves it there
    return max(after - crossing_probability(p, before, look.support), 0.0)


def _drawn_odds(log_odds: float, d2: float, is_true: bool, *key: object) -> float:
    """Returns log odds after one drawn outcome: the log likelihood ratio is normal, mean +-d2/2 and variance d2."""
    mean = d2 / 2 if is_true else -d2 / 2
    # Box and Muller: two even draws make a normal one.
    z = math.sqrt(-2 * math.log(uniform("radius", *key))) * math.cos(2 * math.pi * uniform("angle", *key))
    drawn = log_odds + mean + math.sqrt(d2) * z
    return min(max(drawn, -_LOGIT_LIMIT), _LOGIT_LIMIT)


def _divergence(log_odds: float, earlier: float) -> float:
    """Returns KL divergence in nats of a belief from an earlier one, both as log odds."""

    def log_p(x: float) -> float:
        return -math.log1p(math.exp(-x))

    post = 1 / (1 + math.exp(-log_odds))
    return post * (log_p(log_odds) - log_p(earlier)) + (1 - post) * (log_p(-log_odds) - log_p(-earlier))


def _thompson(look: Look) -> float:
    p = look.confidence
    if not 0 < p < 1:
        return 0.0
    is_true = uniform(look.seed, "truth", look.hypothesis_id) < p
    known = _logit(p)
    if look.pending_d2 > 0:
        known = _drawn_odds(known, look.pending_d2, is_true, look.seed, "pending", look.hypothesis_id)
    return max(
        _divergence(_drawn_odds(known, look.new_d2, is_true, look.seed, look.candidate_id, look.pick), known), 0.0
    )


def _random(look: Look) -> float:
    hypothesis = uniform(look.seed, "hypothesis", look.pick, look.hypothesis_id)
    return hypothesis + _NUDGE * uniform(look.seed, "candidate", look.pick, look.candidate_id)


def _round_robin(look: Look) -> float:
    # One number that sorts by turns taken, then by the hypotheses' order, then by lot among its candidates.
    lot = uniform(look.seed, "candidate", look.pick, look.candidate_id)
    return 1 / (1 + look.runs + look.order + _NUDGE * lot)


STRATEGIES: dict[str, Strategy] = {
    "hypothesis_driven": Strategy(_hypothesis_driven),
    "decisive": Strategy(_decisive),
    "greedy": Strategy(_greedy),
    "thompson": Strategy(_thompson),
    "random": Strategy(_random, by_cost=False, fresh=True, note="by lot: "),
    "round_robin": Strategy(_round_robin, by_cost=False, note="by turns: "),
}
_ALSO = {"information_gain": "hypothesis_driven"}


def strategy(name: str) -> Strategy:
    """Returns the strategy of that name, with `-` or `_`. Raises ValueError naming those there are."""
    plain = name.replace("-", "_")
    found = STRATEGIES.get(_ALSO.get(plain, plain))
    if found is None:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {name!r}")
    return found
