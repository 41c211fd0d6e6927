"""Comparisons dealt from the runs of an A/A test: a baseline and a treatment between which nothing was changed.

Pure, standard library only; chance comes from the caller's generator. A pool holds the runs of each seed; a split takes
one of them, by lot, so that no two runs of one seed are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, permutations
from random import Random
from typing import NamedTuple

__all__ = ["LIMIT", "Deal", "Look", "Pool", "Split", "any_way", "in_order", "in_turn"]

LIMIT = 2_000  # splits at most of a rule that looks once; where there are fewer, all of them
_LIMIT_LOOKING = 400  # of a rule that looks after each run
_LIMIT_IN_ORDER = 100

Pool = Sequence[Sequence[tuple[float, float]]]  # by seed: order of launch and value, larger is better


class Look(NamedTuple):
    """The values that are known at one look, in the order of launches."""

    baseline: Sequence[float]
    treatment: Sequence[float]
    is_in_turn: bool = True  # the arms' runs were launched in turn; else the baseline's came first


class Split(NamedTuple):
    """A comparison, in the order of launches."""

    baseline: Sequence[float]
    treatment: Sequence[float]
    is_in_turn: bool = True

    def looks(self) -> Iterator[Look]:
        """Yields what is known after each run, once each arm has a value."""
        if self.is_in_turn:
            for known in range(2, len(self.baseline) + len(self.treatment) + 1):
                yield Look(self.baseline[: (known + 1) // 2], self.treatment[: known // 2])
            return
        for known in range(1, len(self.treatment) + 1):
            yield Look(self.baseline, self.treatment[:known], False)


class Deal(NamedTuple):
    """Splits of `runs` runs each; `is_all` says that there are no others."""

    splits: Sequence[Split]
    is_all: bool
    runs: int

    def said(self, says: Callable[[Split], bool]) -> list[bool]:
        """Returns what a rule says of each split."""
        return [says(split) for split in self.splits]


def any_way(pool: Pool, first: int, second: int, rng: Random) -> Deal:
    """Returns splits for a rule that looks once: the order within an arm makes no difference."""
    n, need = len(pool), first + second
    if n < need:
        return Deal([], False, need)
    is_all = math.comb(n, first) * math.comb(n - first, second) <= LIMIT
    chosen = _all(n, first, second) if is_all else (rng.sample(range(n), need) for _ in range(LIMIT))
    return _dealt(pool, chosen, first, need, rng, is_all)


def in_turn(pool: Pool, arm: int, rng: Random) -> Deal:
    """Returns splits for a rule that looks after each run: the order matters too."""
    n, need = len(pool), 2 * arm
    if n < need:
        return Deal([], False, need)
    is_all = math.perm(n, need) <= _LIMIT_LOOKING
    orders = permutations(range(n), need) if is_all else (rng.sample(range(n), need) for _ in range(_LIMIT_LOOKING))
    return _dealt(pool, orders, arm, need, rng, is_all)


def in_order(pool: Pool, first: int, second: int, rng: Random) -> Deal:
    """Returns splits in which each run of the baseline was launched before those of the treatment."""
    n, need = len(pool), first + second
    if n < need:
        return Deal([], False, need)
    is_all = math.comb(n, need) <= _LIMIT_IN_ORDER
    chosen = combinations(range(n), need) if is_all else (rng.sample(range(n), need) for _ in range(_LIMIT_IN_ORDER))
    splits = []
    for places in chosen:
        values = [value for _, value in sorted(rng.choice(pool[place]) for place in places)]
        splits.append(Split(values[:first], values[first:], False))
    return Deal(splits, is_all, need)


def _all(n: int, first: int, second: int) -> Iterator[Sequence[int]]:
    for one in combinations(range(n), first):
        rest = [place for place in range(n) if place not in one]
        for other in combinations(rest, second):
            yield [*one, *other]


def _dealt(pool: Pool, orders: Iterable[Sequence[int]], first: int, need: int, rng: Random, is_all: bool) -> Deal:
    drawn = [[rng.choice(pool[place])[1] for place in order] for order in orders]
    return Deal([Split(values[:first], values[first:]) for values in drawn], is_all, need)
