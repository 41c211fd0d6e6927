"""How often campaigns keep a candidate, simulated through the lab's own rule and the looks of a campaign. Pure.

    python -m perpetual_campaign.simulation --candidates 20000 --replicates 6 --most 24

draws candidates without an effect, with normal noise, and prints the share that is kept, with its exact 95 % interval.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from perpetual.science import judge
from perpetual_campaign.looks import Look, measured, needed, said_of

__all__ = ["World", "interval", "is_kept", "kept", "main"]

_STEPS = 60
_CONFIG = {"support": 0.8, "refute": 0.2, "min_replicates": 2}  # the methodology's defaults


class World(NamedTuple):
    """A candidate and its measurements.

    - `effect`: in units of the best's noise, positive where the candidate is better.
    - `ratio`: the candidate's noise over the best's.
    - `shared`: the correlation of a pair, whose seed is the same.
    - `mde`: the smallest effect worth having, in the same units; None counts any.
    """

    effect: float = 0.0
    ratio: float = 1.0
    shared: float = 0.0
    mde: float | None = None
    replicates: int = 6
    most: int = 24
    alpha: float = 0.05


def _arms(world: World, pairs: int, draw: random.Random) -> tuple[list[float], list[float]]:
    of_best, own = [], []
    for _ in range(pairs):
        seed = draw.gauss(0.0, 1.0)
        luck = world.shared**0.5 * seed, (1 - world.shared) ** 0.5
        of_best.append(luck[0] + luck[1] * draw.gauss(0.0, 1.0))
        own.append(world.effect + world.ratio * (luck[0] + luck[1] * draw.gauss(0.0, 1.0)))
    return of_best, own


def _compared(world: World, least: float, draw: random.Random) -> tuple[bool, float, int]:
    """Returns whether a comparison passes, its e-value and its pairs."""
    of_best: list[float] = []
    own: list[float] = []
    claim = {"metric": "m", "direction": "max", "claim": "improves", "mde": world.mde, "paired": True}
    while True:
        size = min(world.replicates, world.most - len(own))
        more = _arms(world, size, draw)
        of_best, own = of_best + more[0], own + more[1]
        found = judge(claim, _runs(of_best), _runs(own), _CONFIG)
        effect, sd = measured(dict(enumerate(of_best)), dict(enumerate(own)))
        look = Look(len(own), world.most, found["status"], found["e_support"], least, effect, sd, world.mde)
        said = said_of(look)
        if said != "go_on":
            return said == "passed", found["e_support"], len(own)


def _runs(values: Sequence[float]) -> list[dict[str, object]]:
    return [{"seed": place, "value": value, "status": "done"} for place, value in enumerate(values)]


def is_kept(world: World, draw: random.Random) -> tuple[bool, int]:
    """Returns whether a candidate is kept, and how many pairs it took."""
    passed, trial, pairs = _compared(world, needed("trial", _CONFIG["support"], world.alpha, 1.0), draw)
    if not passed:
        return False, pairs
    passed, _, more = _compared(world, needed("confirmation", _CONFIG["support"], world.alpha, trial), draw)
    return passed, pairs + more


def kept(world: World, candidates: int, seed: int = 1) -> tuple[int, float]:
    """Returns how many of so many candidates are kept, and the mean number of pairs that one took."""
    draw = random.Random(seed)
    found = [is_kept(world, draw) for _ in range(candidates)]
    return sum(one for one, _ in found), sum(pairs for _, pairs in found) / candidates


def interval(count: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Returns the exact interval of a share (Clopper and Pearson 1934, Biometrika 26)."""
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else _root(lambda p: 1 - _at_most(count - 1, of, p) - tail)
    high = 1.0 if count == of else _root(lambda p: tail - _at_most(count, of, p))
    return low, high


def _at_most(count: int, of: int, share: float) -> float:
    """Returns the chance of at most so many of `of`, at a share strictly between 0 and 1."""
    log, rest = math.log(share), math.log1p(-share)
    whole = math.lgamma(of + 1)
    return math.fsum(
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(of - k + 1) + k * log + (of - k) * rest)
        for k in range(count + 1)
    )


def _root(rises: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if rises(middle) > 0 else (middle, high)
    return (low + high) / 2


def main(words: Sequence[str] | None = None) -> None:
    """Prints the share of candidates that are kept, and of campaigns of 20 that keep any."""
    parser = argparse.ArgumentParser(prog="python -m perpetual_campaign.simulation", description=__doc__)
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--effect", type=float, default=0.0, help="in units of the noise of a run")
    parser.add_argument("--ratio", type=float, default=1.0, help="the candidate's noise over the best's")
    parser.add_argument("--shared", type=float, default=0.0, help="the correlation of a pair")
    parser.add_argument("--mde", type=float)
    parser.add_argument("--replicates", type=int, default=6)
    parser.add_argument("--most", type=int, default=24)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    chosen = vars(parser.parse_args(words))
    candidates, seed = chosen.pop("candidates"), chosen.pop("seed")
    count, pairs = kept(World(**chosen), candidates, seed)
    low, high = interval(count, candidates)
    print(  # noqa: T201 - a command of its own
        f"kept {count} of {candidates}: {count / candidates:.2%}, between {low:.2%} and {high:.2%}; "
        f"{pairs:.1f} pairs each"
    )


if __name__ == "__main__":
    main()
