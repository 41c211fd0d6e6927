"""Simulated research with a known truth: what a policy of choosing runs costs, and how honest the evidence rule is.

Imported by the command `bench-policy`, by tests and by authors of scorers. Standard library, no clock, no I/O: the
same seed answers the same, whatever computes it.

A campaign has twelve hypotheses, each true with probability one half, and four designs for each: a cheap proxy, a
standard run, the full scale, and a poor one. A policy chooses replicates until `perpetual.science.confidence`, the same
for every policy, has taken each hypothesis past a threshold. All policies meet the same truths and the same outcomes:
replicate n of a design comes out the same for every caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from perpetual.api import ScorerState
from perpetual.science.evidence import confidence
from perpetual.science.information import COST_FLOOR_RUN_HOURS, MIN_GAIN_BITS, failure_probability, propose

if TYPE_CHECKING:
    from perpetual.documents.scorer import CandidateState, HypothesisState

__all__ = ["WORLDS", "Broken", "Cell", "Episode", "Policy", "Result", "StrategyPolicy", "bench", "episode", "summary"]

Policy = Callable[[ScorerState, int], Sequence[str]]
"""Answers at most k candidate ids, best first, for a state as of `perpetual.science.propose`."""

WORLDS = ("standard", "misdeclared-effect", "misdeclared-noise")

HYPOTHESES = 12
CRASHES = 0.08  # of runs, which burn their hours
LONGEST_RUN_HOURS = 400.0  # a campaign that has not ended by then has not decided; any that has not is charged as much
MOST_RUNS = 400  # several times what any sensible campaign takes: only the cheapest runs again and again go on so long
ASKED_AGAIN_EVERY = 16  # decisions: a policy must answer the same state the same
_RESAMPLES = 1000
_CHUNK = 5  # campaigns in a job: enough to outweigh sending it to another process
_BINS = 10

# Ranges of each kind of design: run-hours, noise of a replicate, spread between implementations (of an effect of 1).
_KINDS = {
    "proxy": ((0.1, 0.4), (0.6, 1.0), 0.8),
    "standard": ((0.6, 1.6), (0.6, 1.0), 0.2),
    "full": ((3.0, 6.0), (0.25, 0.5), 0.1),
    "poor": ((0.8, 3.0), (1.8, 3.0), 0.5),
}


class Broken(Exception):
    """A policy broke the contract of its slot; says how."""


class Design:
    """One way to test a hypothesis: what is declared of it, and the outcomes it has in store."""

    def __init__(self, id: str, kind: str, world: str, effect: float, rng: Random) -> None:
        hours, noise, self.tau = _KINDS[kind]
        self.id, self.cost = id, rng.uniform(*hours)
        self.sigma = rng.uniform(*noise)
        factor = math.exp(rng.uniform(-math.log(2), math.log(2)))
        self._sigma = self.sigma * factor if world == "misdeclared-noise" else self.sigma
        self._mean = effect + rng.gauss(0.0, self.tau)
        self._rng = rng
        self.n_seen = self.crashes = 0

    def run(self) -> float | None:
        """Returns the next replicate's value, None if it crashes."""
        crashed, value = self._rng.random() < CRASHES, self._rng.gauss(self._mean, self._sigma)
        if crashed:
            self.crashes += 1
            return None
        self.n_seen += 1
        return value


class _Measured(TypedDict):
    """A row of evidence, as `perpetual.science.confidence` reads it."""

    id: str
    kind: str
    design_id: str
    value: float


class _Claim:
    """One hypothesis with its truth, its designs and its ledger."""

    def __init__(self, id: str, world: str, rng: Random, seed: str) -> None:
        self.id, self.is_true = id, rng.random() < 0.5
        effect = float(self.is_true)
        if world == "misdeclared-effect":
            effect = rng.uniform(0.5, 2.0) if self.is_true else rng.uniform(-1.0, 0.25)
        self.designs = [Design(f"{id}-{kind}", kind, world, effect, Random(f"{seed}:{kind}")) for kind in _KINDS]
        self.rows: list[_Measured] = []
        self.runs = 0
        self.confidence = 0.5

    def observe(self, design: Design) -> None:
        value = design.run()
        self.runs += 1
        if value is not None:
            row = _Measured(id=f"{self.id}-{self.runs}", kind="measured", design_id=design.id, value=value)
            self.rows.append(row)

    def refold(self) -> None:
        designs = {
            design.id: {"mu1": 1.0, "mu0": 0.0, "sigma": design.sigma, "tau": design.tau} for design in self.designs
        }
        self.confidence = confidence({"id": self.id, "prior": 0.5}, designs, self.rows, {})["confidence"]


class Episode(NamedTuple):
    """The outcome of one campaign: run-hours, launches, and of each hypothesis its truth and its last confidence.

    A campaign that left something undecided counts 400 run-hours or more: giving up is not cheap.
    """

    run_hours: float
    runs: int
    said: tuple[tuple[bool, float], ...]


class Cell(NamedTuple):
    """What is simulated: the support threshold (refuted at one minus it), the batch size and the world."""

    threshold: float
    batch: int
    world: str = "standard"


def _state(claims: Sequence[_Claim], cell: Cell, seed: int) -> ScorerState:
    """Returns what the lab would show a scorer: open hypotheses and their candidates."""
    rows: list[HypothesisState] = [
        {"id": claim.id, "confidence": claim.confidence, "missing_replicates": 0, "n_runs": claim.runs}
        for claim in claims
    ]
    candidates: list[CandidateState] = [
        {
            "id": design.id,
            "hypothesis_id": claim.id,
            "mu1": 1.0,
            "mu0": 0.0,
            "sigma": design.sigma,
            "tau": design.tau,
            "cost": design.cost,
            "p_fail": failure_probability(design.crashes, design.n_seen + design.crashes),
            "n_seen": design.n_seen,
            "n_pending": 0,
        }
        for claim in claims
        for design in claim.designs
    ]
    return {
        "hypotheses": rows,
        "candidates": candidates,
        "support": cell.threshold,
        "refute": 1 - cell.threshold,
        "min_information_gain_bits": MIN_GAIN_BITS,
        "budget_left": None,
        "seed": seed,
    }


def episode(policy: Policy, cell: Cell, seed: int, number: int) -> Episode:
    """Plays campaign `number` of `seed`. Raises Broken where the policy breaks its contract."""
    rng = Random(f"{seed}:{number}")
    claims = [_Claim(f"h{n}", cell.world, rng, f"{seed}:{number}:{n}") for n in range(1, HYPOTHESES + 1)]
    owners = {design.id: (claim, design) for claim in claims for design in claim.designs}
    hours, runs, decisions = 0.0, 0, 0
    draws = Random(f"{seed}:{number}:draws")
    while True:
        opened = [claim for claim in claims if 1 - cell.threshold < claim.confidence < cell.threshold]
        if not opened:
            break
        if hours >= LONGEST_RUN_HOURS or runs >= MOST_RUNS:
            return _ended(claims, max(hours, LONGEST_RUN_HOURS), runs)
        draw = draws.getrandbits(62)
        picks = _asked(policy, opened, cell, draw, is_again=decisions % ASKED_AGAIN_EVERY == 0)
        decisions += 1
        if not picks:
            return _ended(claims, max(hours, LONGEST_RUN_HOURS), runs)
        touched = {}
        for id in picks:
            claim, design = owners[id]
            claim.observe(design)
            hours += max(design.cost, COST_FLOOR_RUN_HOURS)
            runs += 1
            touched[claim.id] = claim
        for claim in touched.values():
            claim.refold()
    return _ended(claims, hours, runs)


def _ended(claims: Sequence[_Claim], hours: float, runs: int) -> Episode:
    return Episode(hours, runs, tuple((claim.is_true, claim.confidence) for claim in claims))


def _asked(policy: Policy, opened: Sequence[_Claim], cell: Cell, draw: int, *, is_again: bool) -> list[str]:
    """Returns the policy's picks, checked."""
    state = _state(opened, cell, draw)
    try:
        answer = policy(state, cell.batch)
    except (Exception, SystemExit) as problem:  # whatever a policy raises is its failure, and is reported
        raise Broken(f"it raised {type(problem).__name__}: {problem}") from problem
    untouched = _state(opened, cell, draw)
    known = {candidate["id"] for candidate in untouched["candidates"]}
    if not isinstance(answer, list | tuple):
        raise Broken(f"it answered {type(answer).__name__} {answer!r:.60}, not a list of candidate ids")
    picks = [*answer]
    strange = [id for id in picks if not isinstance(id, str) or id not in known]
    if strange:
        raise Broken(f"it picked {strange[0]!r:.60}, which is no candidate")
    if len(picks) > cell.batch:
        raise Broken(f"it picked {len(picks)} where {cell.batch} were asked for")
    if state != untouched:
        raise Broken("it changed the state, which is the caller's")
    if is_again:
        try:
            repeated = policy(untouched, cell.batch)
        except (Exception, SystemExit) as problem:
            raise Broken(f"asked again, it raised {type(problem).__name__}: {problem}") from problem
        if repeated != answer:
            raise Broken("it is not pure: asked again with the same state it answered otherwise")
    return picks


class StrategyPolicy:
    """A policy that is `perpetual.science.propose` with one strategy and its knobs. Can be pickled."""

    def __init__(self, strategy: str, **knobs: float) -> None:
        self._config: dict[str, object] = {"strategy": strategy, **knobs}

    def __call__(self, state: ScorerState, k: int) -> list[str]:
        """Implements `Policy`."""
        thresholds = {key: state[key] for key in ("support", "refute", "min_information_gain_bits")}
        return propose(state, k, {**self._config, **thresholds})


@dataclass(frozen=True, slots=True)
class Said:
    """Of the hypotheses said to be true with at least 0.8: how many, the share that is, and the mean confidence."""

    n: int
    true_share: float | None
    mean_confidence: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a policy did in one cell; where `problem` says how it broke its contract, the figures are None.

    `low` and `high` bound `run_hours`, the mean of a campaign, by a 95 % bootstrap over campaigns; `undecided` is of
    the hypotheses of a campaign, in the mean. `error_rate` is of the decided ones. `false_support_rate` is the share of
    the untrue ones that were said to be supported; optional stopping can bring it to `false_support_bound` at most.
    """

    policy: str
    threshold: float
    batch: int
    world: str
    episodes: int
    run_hours: float | None
    low: float | None
    high: float | None
    runs: float | None
    error_rate: float | None
    undecided: float | None
    brier: float | None
    ece: float | None
    said_true: Said | None
    false_support_rate: float | None
    false_support_bound: float
    problem: str | None


def interval(values: Sequence[float], key: str) -> tuple[float, float]:
    """Returns the 95 % percentile bootstrap interval of the mean; the resamples derive from `key`."""
    rng, n = Random(f"bootstrap:{key}"), len(values)
    means = sorted(math.fsum(rng.choices(values, k=n)) / n for _ in range(_RESAMPLES))
    return means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]


def brier_score(said: Sequence[tuple[bool, float]]) -> float:
    """Returns the mean squared distance of confidence from truth."""
    return math.fsum((p - is_true) ** 2 for is_true, p in said) / len(said)


def calibration_error(said: Sequence[tuple[bool, float]]) -> float:
    """Returns the expected calibration error: the mean gap of stated and true share over ten bins, by their counts."""
    bins: list[list[tuple[bool, float]]] = [[] for _ in range(_BINS)]
    for is_true, p in said:
        bins[min(int(p * _BINS), _BINS - 1)].append((is_true, p))
    gaps = (abs(math.fsum(p - is_true for is_true, p in group)) for group in bins)
    return math.fsum(gaps) / len(said)


def said_true(said: Sequence[tuple[bool, float]], least: float = 0.8) -> Said:
    """Counts the claims said to be true with at least `least`, and how often that was so."""
    high = [(is_true, p) for is_true, p in said if p >= least]
    if not high:
        return Said(0, None, None)
    return Said(len(high), sum(is_true for is_true, _ in high) / len(high), math.fsum(p for _, p in high) / len(high))


def summary(name: str, cell: Cell, episodes: Sequence[Episode], key: str = "") -> Result:
    """Returns the row that sums up these campaigns of one policy in one cell."""
    hours = [played.run_hours for played in episodes]
    said = [pair for played in episodes for pair in played.said]
    decided = [(is_true, p >= cell.threshold) for is_true, p in said if not 1 - cell.threshold < p < cell.threshold]
    untrue = [p for is_true, p in said if not is_true]
    low, high = interval(hours, key)
    return Result(
        policy=name,
        threshold=cell.threshold,
        batch=cell.batch,
        world=cell.world,
        episodes=len(episodes),
        run_hours=math.fsum(hours) / len(hours),
        low=low,
        high=high,
        runs=math.fsum(played.runs for played in episodes) / len(episodes),
        error_rate=sum(a != b for a, b in decided) / len(decided) if decided else None,
        undecided=(len(said) - len(decided)) / len(episodes),
        brier=brier_score(said),
        ece=calibration_error(said),
        said_true=said_true(said),
        false_support_rate=sum(p >= cell.threshold for p in untrue) / len(untrue) if untrue else None,
        false_support_bound=(1 - cell.threshold) / cell.threshold,
        problem=None,
    )


def failed(name: str, cell: Cell, episodes: int, problem: str) -> Result:
    """Returns the row of a policy that broke its contract."""
    return Result(
        policy=name,
        threshold=cell.threshold,
        batch=cell.batch,
        world=cell.world,
        episodes=episodes,
        run_hours=None,
        low=None,
        high=None,
        runs=None,
        error_rate=None,
        undecided=None,
        brier=None,
        ece=None,
        said_true=None,
        false_support_rate=None,
        false_support_bound=(1 - cell.threshold) / cell.threshold,
        problem=problem,
    )


class Job(NamedTuple):
    """Some campaigns of one policy in one cell; may be played by any process."""

    policy: Policy
    cell: Cell
    seed: int
    numbers: tuple[int, ...]


def play(job: Job) -> list[Episode] | str:
    """Plays campaigns; returns them, or how the policy broke its contract in the first that it did not survive."""
    try:
        return [episode(job.policy, job.cell, job.seed, number) for number in job.numbers]
    except Broken as problem:
        return str(problem)


def bench(
    policies: Mapping[str, Policy],
    *,
    thresholds: Sequence[float] = (0.8, 0.95),
    batches: Sequence[int] = (1, 3),
    world: str = "standard",
    episodes: int = 20,
    seed: int = 0,
    run: Callable[[Callable[[Job], list[Episode] | str], Iterable[Job]], Iterable[list[Episode] | str]] = map,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Returns one result for each policy in each cell; all meet the same campaigns, so differences are the policies'.

    `run` is `map` or what works like it, a process pool's `imap` say; the answer does not depend on it. `progress` is
    called with campaigns played and campaigns in all.

    Raises ValueError for a threshold, batch, world or number that makes no sense.
    """
    cells = [_checked(Cell(threshold, batch, world)) for threshold in thresholds for batch in batches]
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    chunks = [tuple(range(start, min(start + _CHUNK, episodes))) for start in range(0, episodes, _CHUNK)]
    rows = [(name, cell) for cell in cells for name in policies]
    jobs = [Job(policies[name], cell, seed, chunk) for name, cell in rows for chunk in chunks]
    played = _counted(run(play, jobs), jobs, progress)
    results = []
    for name, cell in rows:
        parts = [next(played) for _ in chunks]
        problem = next((part for part in parts if isinstance(part, str)), None)
        if problem is not None:
            results.append(failed(name, cell, episodes, problem))
        else:
            whole = [one for part in parts for one in part if isinstance(one, Episode)]
            results.append(summary(name, cell, whole, key=str(seed)))
    return results


def _checked(cell: Cell) -> Cell:
    if not 0.5 < cell.threshold < 1:
        raise ValueError(f"a threshold lies between 0.5 and 1, not {cell.threshold:g}")
    if cell.batch < 1:
        raise ValueError(f"a batch holds at least 1, not {cell.batch}")
    if cell.world not in WORLDS:
        raise ValueError(f"world must be one of {', '.join(WORLDS)}, not {cell.world!r}")
    return cell


def _counted(
    played: Iterable[list[Episode] | str], jobs: Sequence[Job], progress: Callable[[int, int], None] | None
) -> Iterator[list[Episode] | str]:
    done, whole = 0, sum(len(job.numbers) for job in jobs)
    for part, job in zip(played, jobs, strict=True):
        done += len(job.numbers)
        if progress is not None:
            progress(done, whole)
        yield part
