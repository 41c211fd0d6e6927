"""How often a rule of decision says "improved" of runs between which nothing was changed, by resampling them.

Pure and seeded, standard library only. A comparison is a split: runs of different seeds are dealt to a baseline and to
a treatment. The share of splits in which a rule says "improved" is a U-statistic of independent runs. Its interval is
Hoeffding's (1963, section 5) in its relative-entropy form: valid for any distribution and any number of runs, and wide,
since n runs hold only floor(n / k) comparisons of k runs that have none in common. Of a rule that turns with the arms
only ties are unknown: without them it is right in one half. The splits mix early runs with late ones, so drift does not
show here but in `perpetual_scorers.aa.drift`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, permutations
from random import Random
from typing import NamedTuple

from perpetual.science.intervals import student_tail
from perpetual_scorers.aa import Measured, by_seed

__all__ = ["Ask", "RuleShare", "Verdicts", "rates", "share_interval"]

ALPHA = 0.05
LIMIT = 2_000  # splits at most; where there are fewer, all of them
LIMIT_LOOKING = 400  # of rules that look after each run
MOST_IN_ARM = 6  # of a rule that looks after each run: more looks cost more and change little
KEEP_ONE, KEEP_THREE, TWO_SIGMA, PERMUTATION = "keep_if_better", "keep_if_better_3", "two_sigma", "permutation_peeking"
_TWO_SIGMA = student_tail(2.0, math.inf)  # a normal value above the mean by two known standard deviations
_SIMULATED = 400  # pools of normal noise
_HALVINGS = 60

# baseline and treatment in the order of launches, better is larger: what each look says
Verdicts = Callable[[Sequence[tuple[Sequence[float], Sequence[float]]]], "list[Mapping[str, bool]]"]


class RuleShare(NamedTuple):
    """How often a rule said "improved" in `splits` comparisons of `runs` runs each, all that there are if `is_all`.

    `said` is None where there are fewer than `runs` seeds. `promised` is what the rule is taken to promise, `normal`
    what independent normal noise makes of it; None where there is no such figure.
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


class Ask(NamedTuple):
    """A rule that is asked for many sequences of looks at once; it may say several words, each with its promise."""

    promises: Mapping[str, float]
    verdicts: Verdicts


def rates(runs: Sequence[Measured], *, direction: str, ours: Ask | None = None, seed: int = 0) -> list[RuleShare]:
    """Returns the rules' shares, the bundled four first, then the words of `ours`.

    Where a seed was run more than once, each split takes one of its runs by lot.

    Args:
        direction: `max` or `min`; rules see larger as better.
        seed: of the splits.
    """
    sign = 1.0 if direction == "max" else -1.0
    pool = [[sign * run.value for run in group] for group in by_seed(runs)]
    n = len(pool)
    arm, known = max(3, min(n // 2, MOST_IN_ARM)), max(3, n // 2)
    rng = Random(f"aa:rules:{seed}")
    once, looking = _splits(pool, known, 1, rng), _deals(pool, arm, rng)
    one_value = student_tail(2.0 / math.sqrt(1.0 + 1.0 / known), known - 1.0)
    found = [
        _kept(KEEP_ONE, pool, 1, rng),
        _kept(KEEP_THREE, pool, 3, rng),
        _rated(TWO_SIGMA, once, once.said(_two_sigma), n, _TWO_SIGMA, one_value),
        # With two runs an arm no permutation is rarer than 1 in 6.
        _rated(PERMUTATION, looking, looking.said(_peeks), n, ALPHA, _peeking(arm)),
    ]
    return [*found, *_ours(pool, arm, ours, rng)] if ours is not None else found


def _kept(name: str, pool: Sequence[Sequence[float]], arm: int, rng: Random) -> RuleShare:
    """Returns the share of a rule that keeps the larger sum, each split counted both ways round."""
    deal = _splits(pool, arm, arm, rng)
    ties = deal.said(lambda a, b: math.fsum(b) == math.fsum(a))
    tied = _rated(name, deal, ties, len(pool), None, 0.5)
    if tied.said is None or tied.low is None or tied.high is None:
        return tied
    return tied._replace(said=(1.0 - tied.said) / 2.0, low=(1.0 - tied.high) / 2.0, high=(1.0 - tied.low) / 2.0)


def _two_sigma(baseline: Sequence[float], treatment: Sequence[float]) -> bool:
    mean = math.fsum(baseline) / len(baseline)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in baseline) / (len(baseline) - 1))
    return treatment[0] > mean + 2.0 * sd


def _permutation_says(baseline: Sequence[float], treatment: Sequence[float]) -> bool:
    """Returns whether at most 5 % of the ways to deal the values give the treatment as much."""
    values = [*baseline, *treatment]
    count = math.comb(len(values), len(treatment))
    if ALPHA * count < 1.0:
        return False
    own = math.fsum(treatment)
    bar = own - 1e-12 * (abs(own) + math.fsum(map(abs, values)))
    return sum(sum(each) >= bar for each in combinations(values, len(treatment))) <= ALPHA * count


def _looks(baseline: Sequence[float], treatment: Sequence[float]) -> Iterator[tuple[Sequence[float], Sequence[float]]]:
    """Yields what is known after each run, the arms launched in turn, once each has a value."""
    for known in range(2, len(baseline) + len(treatment) + 1):
        yield baseline[: (known + 1) // 2], treatment[: known // 2]


def _peeks(baseline: Sequence[float], treatment: Sequence[float]) -> bool:
    return any(_permutation_says(a, b) for a, b in _looks(baseline, treatment))


@cache
def _peeking(arm: int) -> float:
    """Returns how often the peeking permutation test says "improved" of independent normal noise, simulated."""
    rng = Random(f"aa:peeking:{arm}")
    values = [[rng.gauss(0.0, 1.0) for _ in range(2 * arm)] for _ in range(_SIMULATED)]
    return sum(_peeks(each[:arm], each[arm:]) for each in values) / _SIMULATED


class _Deal(NamedTuple):
    """Splits of the pool into a baseline and a treatment, in the order of launches; `runs` of them in each."""

    splits: list[tuple[list[float], list[float]]]
    is_all: bool
    runs: int

    def said(self, says: Callable[[Sequence[float], Sequence[float]], bool]) -> list[bool]:
        """Returns what a rule says of each split."""
        return [says(baseline, treatment) for baseline, treatment in self.splits]


def _splits(pool: Sequence[Sequence[float]], first: int, second: int, rng: Random) -> _Deal:
    """Returns splits for a rule that looks once: the order within an arm makes no difference."""
    n, need = len(pool), first + second
    if n < need:
        return _Deal([], False, need)
    is_all = math.comb(n, first) * math.comb(n - first, second) <= LIMIT
    chosen = _all_splits(n, first, second) if is_all else _some(n, first, second, rng)
    drawn = [([rng.choice(pool[k]) for k in a], [rng.choice(pool[k]) for k in b]) for a, b in chosen]
    return _Deal(drawn, is_all, need)


def _all_splits(n: int, first: int, second: int) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    for one in combinations(range(n), first):
        rest = [k for k in range(n) if k not in one]
        for other in combinations(rest, second):
            yield one, other


def _some(n: int, first: int, second: int, rng: Random) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    for _ in range(LIMIT):
        drawn = rng.sample(range(n), first + second)
        yield drawn[:first], drawn[first:]


def _deals(pool: Sequence[Sequence[float]], arm: int, rng: Random) -> _Deal:
    """Returns splits for a rule that looks after each run: the order matters too."""
    n, need = len(pool), 2 * arm
    if n < need:
        return _Deal([], False, need)
    is_all = math.perm(n, need) <= LIMIT_LOOKING
    orders = permutations(range(n), need) if is_all else (rng.sample(range(n), need) for _ in range(LIMIT_LOOKING))
    drawn = [[rng.choice(pool[k]) for k in order] for order in orders]
    return _Deal([(values[:arm], values[arm:]) for values in drawn], is_all, need)


def _rated(
    name: str, deal: _Deal, said: Sequence[bool], n: int, promised: float | None, normal: float | None = None
) -> RuleShare:
    if not said:
        return RuleShare(name, deal.runs, None, None, None, 0, False, promised, normal)
    share = sum(said) / len(said)
    low, high = share_interval(share, n // deal.runs)
    return RuleShare(name, deal.runs, share, low, high, len(said), deal.is_all, promised, normal)


def _ours(pool: Sequence[Sequence[float]], arm: int, ours: Ask, rng: Random) -> list[RuleShare]:
    deal = _deals(pool, arm, rng)
    looks = [[*_looks(*split)] for split in deal.splits]
    answers = iter(ours.verdicts([look for each in looks for look in each]))
    by_split = [[next(answers) for _ in each] for each in looks]
    found = []
    for word, promise in ours.promises.items():
        said = [any(answer[word] for answer in each) for each in by_split]
        found.append(_rated(word, deal, said, len(pool), promise))
    return found


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
