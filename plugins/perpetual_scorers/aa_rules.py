"""How often a rule of decision says "improved" of runs between which nothing was changed, by resampling them.

Pure and seeded, standard library only. The share of splits in which a rule says "improved" is a U-statistic of
independent runs. Its interval is Hoeffding's (1963, section 5) in its relative-entropy form: valid for any distribution
and any number of runs, and wide, since n runs hold only floor(n / k) comparisons of k runs that have none in common. Of
a rule that turns with the arms only ties are unknown: without them it is right in one half. These splits mix early runs
with late ones; `in_order` is the share where the baseline came first, which is where drift shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from random import Random
from typing import NamedTuple

from perpetual.science.intervals import student_tail
from perpetual_scorers.aa import Measured, by_seed
from perpetual_scorers.aa_splits import Deal, Look, Pool, Split, any_way, in_order, in_turn

__all__ = ["KEEP_ONE", "KEEP_THREE", "PERMUTATION", "TWO_SIGMA", "Ask", "RuleShare", "Verdicts", "rates",
           "share_interval"]  # fmt: skip

ALPHA = 0.05
MOST_IN_ARM = 6  # of a rule that looks after each run: more looks cost more and change little
KEEP_ONE, KEEP_THREE, TWO_SIGMA, PERMUTATION = "keep_if_better", "keep_if_better_3", "two_sigma", "permutation_peeking"
_TWO_SIGMA = student_tail(2.0, math.inf)  # a normal value above the mean by two known standard deviations
_SIMULATED = 400  # pools of normal noise
_HALVINGS = 60

Verdicts = Callable[[Sequence[Look]], "list[Mapping[str, bool]]"]  # better is larger; what each look says


class RuleShare(NamedTuple):
    """How often a rule said "improved" in `splits` comparisons of `runs` runs each, all that there are if `is_all`.

    `said` is None where there are fewer than `runs` seeds. `in_order` is the share where the baseline's runs came
    first. `promised` is what the rule is taken to promise, `normal` what independent normal noise makes of it; None
    where there is no such figure.
    """

    rule: str
    runs: int
    said: float | None
    low: float | None
    high: float | None
    splits: int
    is_all: bool
    promised: float | None
    normal: float | None
    in_order: float | None


class Ask(NamedTuple):
    """A rule that is asked for many looks at once; it may say several words, each with its promise."""

    promises: Mapping[str, float]
    verdicts: Verdicts


def rates(runs: Sequence[Measured], *, direction: str, ours: Ask | None = None, seed: int = 0) -> list[RuleShare]:
    """Returns the rules' shares, the bundled four first, then the words of `ours`.

    Args:
        direction: `max` or `min`; rules see larger as better.
        seed: of the splits.
    """
    sign = 1.0 if direction == "max" else -1.0
    pool = [[(run.order, sign * run.value) for run in group] for group in by_seed(runs)]
    rng = Random(f"aa:rules:{seed}")
    found = [_kept(KEEP_ONE, pool, 1, rng), _kept(KEEP_THREE, pool, 3, rng), _beyond(pool, rng), _tested(pool, rng)]
    return [*found, *_ours(pool, ours, rng)] if ours is not None else found


def _kept(name: str, pool: Pool, arm: int, rng: Random) -> RuleShare:
    """Returns the share of a rule that keeps the larger sum, each split counted both ways round."""
    deal = any_way(pool, arm, arm, rng)
    ties = deal.said(lambda split: math.fsum(split.treatment) == math.fsum(split.baseline))
    ordered = in_order(pool, arm, arm, rng).said(lambda split: math.fsum(split.treatment) > math.fsum(split.baseline))
    tied = _rated(name, deal, ties, len(pool), None, 0.5, ordered)
    if tied.said is None or tied.low is None or tied.high is None:
        return tied
    return tied._replace(said=(1.0 - tied.said) / 2.0, low=(1.0 - tied.high) / 2.0, high=(1.0 - tied.low) / 2.0)


def _beyond(pool: Pool, rng: Random) -> RuleShare:
    """Returns the share of the rule that takes a run beyond two sd of half of the runs."""
    known = max(3, len(pool) // 2)
    deal = any_way(pool, known, 1, rng)
    normal = student_tail(2.0 / math.sqrt(1.0 + 1.0 / known), known - 1.0)
    ordered = in_order(pool, known, 1, rng).said(_two_sigma)
    return _rated(TWO_SIGMA, deal, deal.said(_two_sigma), len(pool), _TWO_SIGMA, normal, ordered)


def _tested(pool: Pool, rng: Random) -> RuleShare:
    """Returns the share of the permutation test; with fewer than three runs an arm it could not say anything."""
    deal = in_turn(pool, _arm(pool), rng)
    ordered = in_order(pool, *_arms_in_order(pool), rng).said(_peeks)
    return _rated(PERMUTATION, deal, deal.said(_peeks), len(pool), ALPHA, _peeking(_arm(pool)), ordered)


def _ours(pool: Pool, ours: Ask, rng: Random) -> list[RuleShare]:
    deal, ordered = in_turn(pool, _arm(pool), rng), in_order(pool, *_arms_in_order(pool), rng)
    looks = [[*split.looks()] for split in (*deal.splits, *ordered.splits)]
    answers = iter(ours.verdicts([look for each in looks for look in each]))
    by_split = [[next(answers) for _ in each] for each in looks]
    found = []
    for word, promise in ours.promises.items():
        said = [any(answer[word] for answer in each) for each in by_split]
        mixed, late = said[: len(deal.splits)], said[len(deal.splits) :]
        found.append(_rated(word, deal, mixed, len(pool), promise, None, late))
    return found


def _arm(pool: Pool) -> int:
    """Returns the runs an arm of a rule that looks after each run."""
    return max(3, min(len(pool) // 2, MOST_IN_ARM))


def _arms_in_order(pool: Pool) -> tuple[int, int]:
    """Returns the runs of both arms where one comes first: fewer, or there would be a single such split."""
    arm = max(3, min(len(pool) // 3, MOST_IN_ARM))
    return arm, arm


def _two_sigma(split: Split) -> bool:
    mean = math.fsum(split.baseline) / len(split.baseline)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in split.baseline) / (len(split.baseline) - 1))
    return split.treatment[0] > mean + 2.0 * sd


def _peeks(split: Split) -> bool:
    return any(_permutation_says(look.baseline, look.treatment) for look in split.looks())


def _permutation_says(baseline: Sequence[float], treatment: Sequence[float]) -> bool:
    """Returns whether at most 5 % of the ways to deal the values give the treatment as much."""
    values = [*baseline, *treatment]
    count = math.comb(len(values), len(treatment))
    if ALPHA * count < 1.0:
        return False
    own = math.fsum(treatment)
    bar = own - 1e-12 * (abs(own) + math.fsum(map(abs, values)))
    return sum(sum(each) >= bar for each in combinations(values, len(treatment))) <= ALPHA * count


@cache
def _peeking(arm: int) -> float:
    """Returns how often the peeking permutation test says "improved" of independent normal noise, simulated."""
    rng = Random(f"aa:peeking:{arm}")
    values = [[rng.gauss(0.0, 1.0) for _ in range(2 * arm)] for _ in range(_SIMULATED)]
    return sum(_peeks(Split(each[:arm], each[arm:])) for each in values) / _SIMULATED


def _rated(
    name: str,
    deal: Deal,
    said: Sequence[bool],
    n: int,
    promised: float | None,
    normal: float | None,
    ordered: Sequence[bool],
) -> RuleShare:
    late = sum(ordered) / len(ordered) if ordered else None
    if not said:
        return RuleShare(name, deal.runs, None, None, None, 0, False, promised, normal, late)
    share = sum(said) / len(said)
    low, high = share_interval(share, n // deal.runs)
    return RuleShare(name, deal.runs, share, low, high, len(said), deal.is_all, promised, normal, late)


def share_interval(share: float, blocks: int) -> tuple[float, float]:
    """Returns the 95 % interval of a rate, given the share of a U-statistic with `blocks` disjoint comparisons.

    All rates whose relative entropy from the share is at most ln(2 / 0.05) / blocks.
    """
    reach = math.log(2.0 / ALPHA) / blocks

    def end(side: float) -> float:
        near, far = share, side
        for _ in range(_HALVINGS):
            middle = (near + far) / 2.0
            near, far = (middle, far) if _entropy(share, middle) <= reach else (near, middle)
        return far

    return end(0.0), end(1.0)


def _entropy(share: float, rate: float) -> float:
    """Returns the relative entropy of two coins, in nats."""
    if not 0.0 < rate < 1.0:
        return 0.0 if share == rate else math.inf
    return sum(p * math.log(p / q) for p, q in ((share, rate), (1.0 - share, 1.0 - rate)) if p > 0.0)
