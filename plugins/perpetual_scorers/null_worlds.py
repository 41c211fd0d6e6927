"""Worlds that attack the evidence rule, each by one violation: what the lab would judge after each run.

Imported by `perpetual_scorers.cells` and by tests; pure, standard library, every draw from the `Random` that is given.
Nothing here knows how the rule works: the shapes are those of `perpetual.science.judge`, as documented.

Inside a world the unit is the mde and bigger is better; direction, units and offset of the metric are drawn per
campaign, so that a rule which depends on them is found out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypedDict

__all__ = ["Baseline", "Claim", "Ending", "Look", "Metric", "Run", "World", "campaign", "claim_of", "metric", "run_of"]

Claim = dict[str, object]

_UNSHARED = 1000  # more than the runs of any arm


class Run(TypedDict):
    """One run of an arm, as `judge` reads it."""

    seed: int
    value: float | None
    status: str
    by: str | None
    order: int
    code: str | None
    items: list[float] | None
    last_value: float | None


Baseline = float | Mapping[str, object] | Sequence[Run] | Sequence[Sequence[Run]]
"""A number, a number with the runs it was measured with, the runs of one baseline, or of one for each design."""


class Look(NamedTuple):
    """One input of `judge`, with what only the world knows.

    `truth` is the oriented effect in the metric's units, `unit` the mde in these units.
    """

    claim: Claim | list[Claim]
    baseline: Baseline
    runs: list[Run] | list[list[Run]]
    config: dict[str, object]
    truth: float
    unit: float


class Ending(NamedTuple):
    """How a run ended that gave no value: its status, the actor that ended it, its last value in units of the noise."""

    status: str
    by: str | None = None
    last: float | None = None


class Metric(NamedTuple):
    """A metric's direction, unit and offset."""

    direction: str
    unit: float
    offset: float

    def value(self, x: float) -> float:
        """Returns, in the metric's units, a result that is `x` mde better than the offset."""
        return self.offset + (x if self.direction == "max" else -x) * self.unit


def metric(rng: Random) -> Metric:
    """Draws a metric: larger or smaller is better, in thousandths or in hundreds."""
    return Metric(rng.choice(("max", "min")), rng.choice((0.004, 0.3, 1.0, 250.0)), rng.choice((0.0, 2.0, -30.0)))


def claim_of(metric: Metric, claim: Mapping[str, object]) -> Claim:
    """Returns the claim in the metric's units: no noise, tau or items declared, `claim` over it (noise, tau in mde)."""
    whole: Claim = {
        "metric": "m", "direction": metric.direction, "kind": "gaussian", "claim": "improves", "mde": metric.unit,
        "noise": None, "tau": None, "paired": False, "items": None, "prior": 0.5, "opinions": [], "changes": [],
        **claim,
    }  # fmt: skip
    for key in ("noise", "tau"):
        share = whole[key]
        if isinstance(share, float):
            whole[key] = share * metric.unit
    if whole["claim"] == "any":
        whole["mde"] = None
    return whole


def run_of(seed: int, order: int, value: float | None, code: str = "a", *, end: Ending | None = None) -> Run:
    """Returns a run that is done, or ended as `end` says."""
    status, by = ("done", None) if end is None else (end.status, end.by)
    return {
        "seed": seed, "value": value, "status": status, "by": by, "order": order, "code": code, "items": None,
        "last_value": None,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """What is true of a campaign, in units of the mde; by default nothing is violated.

    Attributes:
        designs: Designs of the one hypothesis, at most 12; each has `replicates` runs.
        n_b: Runs of a baseline before the first run against it.
        own: Each design has a baseline of its own.
        interleaved: Each treatment run has a baseline run, launched before or after it at random.
        rounds: Designs take turns, instead of one after another.
        opportunist: A design is left as soon as the mean of its runs looks worse than the baseline.
        typed: The baseline is typed: the mean of this many runs of it (0: exact), with or without its `n`, and is the
            worst of `worst_of` such.
        sigma, sigma_t: Noise of a run of the baseline and of the treatment.
        noise: Draws the noise of a run of unit scale.
        luck: Sd of what all runs of one implementation share (with `same_luck`: of all designs); the baseline has its
            own where `luck_b`.
        rho: Correlation of runs of both arms that have the same seed.
        unpaired: Each arm draws seeds of its own, so that none is shared.
        repeat: Runs of an arm that reuse a seed, their values apart by `jitter` sigma only.
        drift: Draws the drift of all runs in the order of their launches, from what it was before.
        loss: Says how a run that would be `z` sigma better than its arm's mean (treatment or not) ended early, if so.
        step: Values are rounded to multiples of it.
        outlier_b, outlier_t: Result of the first baseline run, and of treatment run number `outlier_at`.
        codes: Codes of the baseline's and of the treatment's runs, each repeated in turn; None: each design its own.
        bias: Added to every run on code "mended".
    """

    designs: int = 1
    replicates: int = 12
    n_b: int = 4
    own: bool = False
    interleaved: bool = False
    rounds: bool = False
    opportunist: bool = False
    typed: int | None = None
    with_n: bool = False
    worst_of: int = 1
    effect: float = 0.0
    sigma: float = 1.0
    sigma_t: float | None = None
    noise: Callable[[Random], float] | None = None
    luck: float = 0.0
    luck_b: bool = False
    same_luck: bool = False
    rho: float | None = None
    unpaired: bool = False
    repeat: int = 1
    jitter: float = 0.0
    drift: Callable[[Random, float], float] | None = None
    loss: Callable[[Random, float, bool], Ending | None] | None = None
    step: float = 0.0
    outlier_b: float | None = None
    outlier_t: float | None = None
    outlier_at: int = 2
    codes: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    bias: float = 0.0
    claim: Mapping[str, object] = field(default_factory=dict)


class _Arm:
    """Runs of one baseline or design: draws them, and keeps the list that a look shows."""

    def __init__(self, lab: _Lab, number: int, *, is_treatment: bool) -> None:
        world, rng = lab.world, lab.rng
        self._lab, self._is_treatment = lab, is_treatment
        self._sigma = world.sigma_t if is_treatment and world.sigma_t is not None else world.sigma
        self._mean = world.effect if is_treatment else 0.0
        if is_treatment or world.luck_b:
            same = world.same_luck and is_treatment
            self._mean += world.luck * (lab.luck if same else rng.gauss(0.0, 1.0))
        self._codes: tuple[str, ...] = ("a",)
        if world.codes is not None:
            self._codes = world.codes[is_treatment]
        elif is_treatment and world.designs > 1:
            self._codes = (f"c{number}",)
        self._first_seed = _UNSHARED * (2 * number + is_treatment) if world.unpaired else 0
        self._noises: dict[int, float] = {}
        self.total = 0.0  # of the values seen, in mde
        self.runs: list[Run] = []

    def _noise(self, seed: int) -> float:
        """Returns the noise of a seed, in sigma."""
        world, rng = self._lab.world, self._lab.rng
        if world.repeat > 1:
            if seed not in self._noises:
                self._noises[seed] = rng.gauss(0.0, 1.0)
            return self._noises[seed] + world.jitter * rng.gauss(0.0, 1.0)
        if world.rho is not None:
            shared = self._lab.of_seed(seed)
            sign = -1.0 if world.rho < 0 and self._is_treatment else 1.0
            size = abs(world.rho)
            return sign * math.sqrt(size) * shared + math.sqrt(1 - size) * rng.gauss(0.0, 1.0)
        return world.noise(rng) if world.noise is not None else rng.gauss(0.0, 1.0)

    def launch(self) -> None:
        """Runs once more; the list of before is left as it is, since a look may hold it."""
        lab, world, n = self._lab, self._lab.world, len(self.runs)
        seed = n // world.repeat + 1 + self._first_seed
        code = self._codes[n % len(self._codes)]
        z = self._noise(seed)
        x = self._mean + self._sigma * z + lab.drifted() + (world.bias if code == "mended" else 0.0)
        if world.step > 0:
            x = round(x / world.step) * world.step
        odd = world.outlier_t if self._is_treatment and n == world.outlier_at else None
        odd = world.outlier_b if not self._is_treatment and n == 0 else odd
        x = x if odd is None else odd
        end = world.loss(lab.rng, z, self._is_treatment) if world.loss is not None else None
        value = lab.metric.value(x) if end is None else None
        run = run_of(seed, lab.next_order(), value, code, end=end)
        if end is None:
            self.total += x
        elif end.last is not None:
            run["last_value"] = lab.metric.value(self._mean + self._sigma * end.last)
        self.runs = [*self.runs, run]


class _Lab:
    """What the arms of one campaign share."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng, self.metric = world, rng, metric(rng)
        self.luck = rng.gauss(0.0, 1.0)
        self._seeds: dict[int, float] = {}
        self._order = -1
        self._drift = 0.0

    def of_seed(self, seed: int) -> float:
        if seed not in self._seeds:
            self._seeds[seed] = self.rng.gauss(0.0, 1.0)
        return self._seeds[seed]

    def drifted(self) -> float:
        if self.world.drift is not None:
            self._drift = self.world.drift(self.rng, self._drift)
        return self._drift

    def next_order(self) -> int:
        self._order += 1
        return self._order


def _typed(lab: _Lab, runs: int) -> Baseline:
    """Returns the typed baseline: the worst of some means, without its error unless the world declares `n`."""
    world, rng = lab.world, lab.rng
    error = world.sigma / math.sqrt(runs) if runs else 0.0
    value = lab.metric.value(min(rng.gauss(0.0, error) for _ in range(world.worst_of)))
    return {"value": value, "n": runs} if world.with_n else value


def _turns(world: World) -> Iterator[int]:
    """Yields the design of each treatment run."""
    if world.rounds:
        yield from (design for _ in range(world.replicates) for design in range(world.designs))
    else:
        yield from (design for design in range(world.designs) for _ in range(world.replicates))


def campaign(world: World, rng: Random) -> Iterator[Look]:
    """Yields one campaign of the world: a look after each run since the first of a treatment."""
    lab = _Lab(world, rng)
    claim = claim_of(lab.metric, world.claim)
    if world.codes is None and world.designs > 1:
        claim = {**claim, "changes": ["code"]}
    arms = [_Arm(lab, n, is_treatment=True) for n in range(world.designs)]
    n_baselines = 0 if world.typed is not None else world.designs if world.own else 1
    baselines = [_Arm(lab, n, is_treatment=False) for n in range(n_baselines)]
    typed = _typed(lab, world.typed) if world.typed is not None else None
    left: set[int] = set()
    for design in _turns(world):
        arm = arms[design]
        if design in left:
            continue
        launches = [arm]
        if baselines:
            baseline = baselines[design if world.own else 0]
            while len(baseline.runs) < world.n_b:
                baseline.launch()
            if world.interleaved:
                launches.append(baseline)
                rng.shuffle(launches)
        for launched in launches:
            launched.launch()
            if arm.runs if world.own else any(each.runs for each in arms):
                yield _look(lab, claim, arms, baselines, typed)
        if world.opportunist and arm.total < 0:
            left.add(design)


def _look(lab: _Lab, claim: Claim, arms: Sequence[_Arm], baselines: Sequence[_Arm], typed: Baseline | None) -> Look:
    begun = [n for n, arm in enumerate(arms) if arm.runs]
    truth, unit = lab.world.effect * lab.metric.unit, lab.metric.unit
    if typed is not None:
        baseline: Baseline = typed
    elif lab.world.own and len(arms) > 1:
        baseline = [baselines[n].runs for n in begun]
    else:
        baseline = baselines[0].runs
    if len(arms) == 1:
        return Look(claim, baseline, arms[0].runs, {}, truth, unit)
    return Look([claim] * len(begun), baseline, [arms[n].runs for n in begun], {}, truth, unit)
