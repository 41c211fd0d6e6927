"""Parts of the worlds that attack the evidence rule: noises, drifts, lost runs; and worlds of rates and of test sets.

Imported by `perpetual_scorers.cells`. Pure, standard library; module-level functions, so that another process can be
given a cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from perpetual_scorers.null_worlds import Baseline, Claim, Ending, Look, Metric, Run, World, campaign, claim_of, run_of

__all__ = ["Rates", "TestSet", "mixture", "rates", "test_set"]

AGENT = "mcp:agent/1"

# --- noise of a run, of unit scale ------------------------------------------------------------------------------------


def t3(rng: Random) -> float:
    """Draws Student's t on 3 degrees of freedom."""
    return rng.gauss(0.0, 1.0) / math.sqrt(rng.gammavariate(1.5, 2.0) / 3)


def t2(rng: Random) -> float:
    """Draws Student's t on 2 degrees of freedom: no variance."""
    return rng.gauss(0.0, 1.0) / math.sqrt(rng.gammavariate(1.0, 2.0) / 2)


def lognormal(rng: Random) -> float:
    """Draws a log-normal: skewed towards good results."""
    return rng.lognormvariate(0.0, 1.0)


def lognormal_losses(rng: Random) -> float:
    """Draws a log-normal that is skewed towards bad results."""
    return -rng.lognormvariate(0.0, 1.0)


def diverging(rng: Random) -> float:
    """Draws a normal, or in one run of ten a result 20 sd worse."""
    return rng.gauss(0.0, 1.0) - (20.0 if rng.random() < 0.1 else 0.0)


# --- drift of the machine, in mde -------------------------------------------------------------------------------------


def autoregressive(rng: Random, before: float) -> float:
    """Draws the next of an AR(1) of coefficient 0.8 with a marginal sd of 1 mde."""
    return 0.8 * before + 0.6 * rng.gauss(0.0, 1.0)


def random_walk(rng: Random, before: float) -> float:
    """Draws the next of a random walk of 0.3 mde a run."""
    return before + 0.3 * rng.gauss(0.0, 1.0)


def trend(rng: Random, before: float) -> float:
    """Returns a machine that gives 0.15 mde more with each run."""
    return before + 0.15


# --- runs that are lost, by how good they would be --------------------------------------------------------------------


def _midway(rng: Random, z: float) -> float:
    """Draws what a run shows midway: correlated 0.7 with how it would end."""
    return 0.7 * z + math.sqrt(1 - 0.49) * rng.gauss(0.0, 1.0)


def killed_early(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Kills, as an agent, each treatment run that looks bad midway."""
    last = _midway(rng, z)
    return Ending("killed", AGENT, last) if is_treatment and last < 0 else None


def killed_late(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Kills, as an agent, each treatment run that would end below its mean, just before it ends."""
    return Ending("killed", AGENT, z) if is_treatment and z < 0 else None


def good_baseline_killed(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Kills, as an agent, each baseline run that looks good midway."""
    last = _midway(rng, z)
    return Ending("killed", AGENT, last) if not is_treatment and last > 0 else None


def good_treatment_killed(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Kills, as an agent, each treatment run that looks good midway, to refute what is true."""
    last = _midway(rng, z)
    return Ending("killed", AGENT, last) if is_treatment and last > 0 else None


def all_bad_lost(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Loses each treatment run below its mean; nothing is known of it."""
    return Ending("lost") if is_treatment and z < 0 else None


def bad_half_fails(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Fails (exit 1) each treatment run that is losing, after its last value was logged."""
    return Ending("failed", None, z) if is_treatment and z < 0 else None


def slow_when_bad(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Lets each treatment run time out that is half a sigma below its mean: bad settings are slow."""
    return Ending("timeout", None, z + 0.3 * rng.gauss(0.0, 1.0)) if is_treatment and z < -0.5 else None


def diverges_below(bar: float, spread: float, rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Fails each run of either arm below `bar` sigma of the baseline; a treatment's sigma is `spread` times as wide."""
    return Ending("failed") if z * (spread if is_treatment else 1.0) < bar else None


def crashes_at_random(rng: Random, z: float, is_treatment: bool) -> Ending | None:
    """Fails one run of ten, in either arm, whatever it would have given."""
    return Ending("failed") if rng.random() < 0.1 else None


# --- worlds of their own ----------------------------------------------------------------------------------------------


def mixture(share: float, world: World, rng: Random) -> Iterator[Look]:
    """Yields a campaign whose effect is 1 mde with probability `share`, else 0."""
    yield from campaign(replace(world, effect=1.0 if rng.random() < share else 0.0), rng)


@dataclass(frozen=True, slots=True)
class Rates:
    """A binary claim: each run succeeds or fails.

    Attributes:
        rate, effect: Rate of success of the baseline, and what the treatment adds to it.
        mde: Declared, in rates.
        n_b: Trials of the baseline: as runs, or `typed` as their rate, with or without its n; 0 typed: exact.
        designs: Designs, one after another, with `replicates` runs each.
    """

    rate: float = 0.5
    effect: float = 0.0
    mde: float = 0.2
    n_b: int = 10
    typed: bool = False
    with_n: bool = False
    designs: int = 1
    replicates: int = 40
    claim: Mapping[str, object] = field(default_factory=dict)


def rates(world: Rates, rng: Random) -> Iterator[Look]:
    """Yields one campaign of rates: of success, or of failure where smaller is better."""
    shown = Metric(rng.choice(("max", "min")), 1.0, 0.0)
    is_max = shown.direction == "max"

    def trial(rate: float) -> float:
        return float((rng.random() < rate) is is_max)

    changes = ["code"] if world.designs > 1 else []
    claim = {**claim_of(shown, world.claim), "kind": "binary", "mde": world.mde, "changes": changes}
    trials = [trial(world.rate) for _ in range(world.n_b)]
    measured = [run_of(n + 1, n, value) for n, value in enumerate(trials)]
    baseline: Baseline = measured
    if world.typed:
        value = sum(trials) / len(trials) if trials else world.rate if is_max else 1 - world.rate
        baseline = {"value": value, "n": world.n_b} if world.with_n else value
    arms: list[list[Run]] = []
    order = world.n_b
    for design in range(world.designs):
        arms.append([])
        for n in range(world.replicates):
            run = run_of(n + 1, order, trial(world.rate + world.effect), f"c{design}" if world.designs > 1 else "a")
            arms[-1] = [*arms[-1], run]
            order += 1
            yield _looked(claim, baseline, arms, world.effect, world.mde)


def _looked(claim: Claim, baseline: Baseline, arms: list[list[Run]], truth: float, mde: float) -> Look:
    """Returns a look at one design, or at several where the claim declares that their code differs."""
    if not claim["changes"]:
        return Look(claim, baseline, arms[0], {}, truth, mde)
    return Look([claim] * len(arms), baseline, [*arms], {}, truth, mde)


@dataclass(frozen=True, slots=True)
class TestSet:
    """Two equally good models on one test set: each is right on items of its own.

    Attributes:
        size: Items of the set.
        right: Share of items that a model gets right in the whole population.
        same: Share of items that both arms find equally hard.
        shows: "nothing", the "count" of items in the claim, or the "scores" of each run per item.
        designs: Designs, each a model of its own, with `replicates` runs each; one baseline of `n_b` runs.
        mde: Declared, of the accuracy.
    """

    __test__ = False  # no test of pytest

    size: int = 100
    right: float = 0.8
    same: float = 0.0
    shows: str = "nothing"
    designs: int = 1
    replicates: int = 12
    n_b: int = 4
    mde: float = 0.02


_SURE = 0.97  # a model answers an item alike from seed to seed this often


def test_set(world: TestSet, rng: Random) -> Iterator[Look]:
    """Yields one campaign on one test set: the metric is accuracy, or the error rate where smaller is better."""
    shown = Metric(rng.choice(("max", "min")), world.mde, 0.0)
    is_max = shown.direction == "max"
    share = (world.right - (1 - _SURE)) / (2 * _SURE - 1)  # of items that a model knows
    common = [rng.random() < share for _ in range(world.size)]
    order = -1

    def model() -> list[float]:
        knows = (known if rng.random() < world.same else rng.random() < share for known in common)
        return [_SURE if known else 1 - _SURE for known in knows]

    def run(chances: list[float], seed: int, code: str) -> Run:
        nonlocal order
        order += 1
        scores = [float((rng.random() < chance) is is_max) for chance in chances]
        row = run_of(seed, order, sum(scores) / len(scores), code)
        row["items"] = scores if world.shows == "scores" else None
        return row

    items = world.size if world.shows != "nothing" else None
    claim = claim_of(shown, {"items": items, "changes": ["code"] if world.designs > 1 else []})
    base = model()
    baseline = [run(base, n + 1, "a") for n in range(world.n_b)]
    arms: list[list[Run]] = []
    for design in range(world.designs):
        chances = model()
        arms.append([])
        for n in range(world.replicates):
            arms[-1] = [*arms[-1], run(chances, n + 1, f"c{design}" if world.designs > 1 else "a")]
            yield _looked(claim, baseline, arms, 0.0, world.mde)


test_set.__test__ = False  # type: ignore[attr-defined]
