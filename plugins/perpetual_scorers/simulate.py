"""Simulated research with a known truth: what a policy of choosing runs costs, by the rules that the lab applies.

Imported by the command `bench-policy`, by tests and by authors of scorers. Standard library, no clock, no I/O: the
same seed answers the same, whatever computes it.

A campaign has twelve hypotheses on three baselines, and a menu of designs for each: a cheap stand-in that shows too
much, a standard run, the full scale, and a poor one. Baselines are run too, and cost as much as what is compared with
them. The noise is not known: the evidence is `perpetual.science.judge`, a verdict needs two measured runs and one that
is no stand-in, and runs that crash count as the rule has it. All policies meet the same truths and the same outcomes:
replicate n of a design comes out the same for every caller that has its seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple, cast

from perpetual.api import ScorerState
from perpetual.science.costs import COST_FLOOR_RUN_HOURS, failure_probability
from perpetual.science.intervals import pooled_sd
from perpetual.science.judgement import MIN_REPLICATES, judge
from perpetual_scorers.earlier_rule import log_odds
from perpetual_scorers.figures import (
    RIGHT_AFTER,
    Cell,
    Comparison,
    Episode,
    Result,
    Said,
    brier_score,
    calibration_error,
    compared,
    failed,
    interval,
    said_true,
    summary,
)
from perpetual_scorers.proposing.information import MIN_GAIN_BITS, propose
from perpetual_scorers.proposing.prospects import StandIn, measured_effect, seed_correlation, stand_in
from perpetual_scorers.stopping import AT, Stopping, rung_of

if TYPE_CHECKING:
    from perpetual.documents.scorer import CandidateState, HypothesisState

__all__ = ["ARMS", "MENUS", "WORLDS", "Arm", "Bench", "Broken", "Cell", "Comparison", "Conditions", "Design", "Episode",
           "Job", "Mapper", "Policy", "Result", "Said", "StrategyPolicy", "bench", "benched", "brier_score",
           "calibration_error", "episode", "interval", "play", "said_true", "summary"]  # fmt: skip

Policy = Callable[[ScorerState, int], Sequence[str]]
"""Answers at most k candidate ids, best first, for a state as of `perpetual.science.propose`.

Candidates of kind `baseline` are in the state of a policy that has an attribute `weighs_baselines` which is true.
"""

WORLDS = ("standard", "misdeclared-effect", "misdeclared-noise")
MENUS = {"standard": ("standard",), "proxy": ("proxy", "standard"), "all": ("proxy", "standard", "full", "poor")}

HYPOTHESES = 12
BASELINES = 3  # of each kind of design, shared by four hypotheses
FLOOR_RUNS = 4  # of a baseline, before anything is compared with it, where a policy cannot ask for its runs
CRASHES = 0.08  # of runs, which burn their hours
STAND_IN_BIAS = 0.5  # of an effect of 1: what stand-ins show too much
LONGEST_RUN_HOURS = 400.0  # a campaign that has not ended by then has not decided; any that has not is charged as much
MOST_RUNS = 600  # several times what any sensible campaign takes: only the cheapest runs again and again go on so long
ASKED_AGAIN_EVERY = 16  # decisions: a policy must answer the same state the same
_CHUNK = 5  # campaigns in a job: enough to outweigh sending it to another process

# Ranges of each kind of design: run-hours, noise of a replicate, spread between implementations (of an effect of 1).
_KINDS = {
    "proxy": ((0.1, 0.4), (0.6, 1.0), 0.8),
    "standard": ((0.6, 1.6), (0.6, 1.0), 0.2),
    "full": ((3.0, 6.0), (0.25, 0.5), 0.1),
    "poor": ((0.8, 3.0), (1.8, 3.0), 0.5),
}


class Broken(Exception):
    """A policy broke the contract of its slot; says how."""


class Conditions(NamedTuple):
    """How a policy's runs are launched and judged: on the baseline's seeds, with baseline runs to choose, by what rule.

    `baselines` None asks the policy whether it weighs them.
    """

    paired: bool = True
    baselines: bool | None = None
    earlier: bool = False  # the rule of commit 7c2e50b
    known: bool = False  # judged by one that knows the noise, which no lab does: a floor under the hours of any other
    stopping: Stopping | None = None  # what stops runs early


class Arm(NamedTuple):
    """A policy under conditions other than the lab's present ones."""

    policy: Policy
    conditions: Conditions


ARMS = {
    "unpaired": Conditions(paired=False),
    "no baseline runs": Conditions(baselines=False),
    "unpaired, no baseline runs": Conditions(paired=False, baselines=False),
    "rule of 7c2e50b": Conditions(paired=False, baselines=False, earlier=True),
    "noise known": Conditions(known=True),
}


class _Run(NamedTuple):
    """A run that has ended; without a value it was stopped early, or crashed."""

    seed: object
    value: float | None
    order: int
    rung: float | None = None  # where its curve stood at a quarter of its steps
    is_stopped: bool = False  # there

    def row(self) -> dict[str, object]:
        """Returns the run as `perpetual.science.judge` reads it."""
        status = "killed" if self.is_stopped else "failed" if self.value is None else "done"
        row: dict[str, object] = {"seed": self.seed, "value": self.value, "status": status, "order": self.order}
        return row if self.rung is None else row | {"rung": self.rung, "stopped": self.is_stopped}


class Runs:
    """The runs of one arm, and what they were drawn from."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.runs: list[_Run] = []

    @property
    def values(self) -> list[float]:
        """Returns the values of those that did not crash."""
        return [run.value for run in self.runs if run.value is not None]

    @property
    def n_seen(self) -> int:
        """Returns how many gave a value, or were stopped before they did."""
        return sum(run.value is not None or run.is_stopped for run in self.runs)

    @property
    def crashes(self) -> int:
        """Returns how many gave nothing."""
        return sum(run.value is None and not run.is_stopped for run in self.runs)

    def seeds(self) -> set[object]:
        """Returns the seeds of runs that did not crash."""
        return {run.seed for run in self.runs if run.value is not None or run.is_stopped}

    def points(self) -> tuple[tuple[float, float], ...]:
        """Returns the value at the rung and the last one of complete runs, where they have curves."""
        return tuple((run.rung, run.value) for run in self.runs if run.rung is not None and run.value is not None)

    def stopped(self) -> tuple[float, ...]:
        """Returns the values at the rung of the runs that were stopped there."""
        return tuple(run.rung for run in self.runs if run.rung is not None and run.is_stopped)


class Baseline(Runs):
    """What designs of one kind are compared with: its cost and noise are theirs, and its seeds may be."""

    def __init__(self, kind: str, cell: Cell, key: str) -> None:
        rng = Random(key)
        hours, noise, self.tau = _KINDS[kind]
        self.kind, self.key, self.correlation = kind, key, cell.seed_correlation
        self.curve_correlation = cell.curve_correlation
        self.cost, self.sigma = rng.uniform(*hours), rng.uniform(*noise)
        factor = math.exp(rng.uniform(-math.log(2), math.log(2)))
        self.declared = self.sigma * factor if cell.world == "misdeclared-noise" else self.sigma
        super().__init__(Random(f"{key}:runs"))
        self._luck: dict[object, float] = {}

    def draw(self, rng: Random, seed: object, mean: float) -> float | None:
        """Returns a run's value, None if it crashes; its noise is in part that of the seed."""
        if seed not in self._luck:
            self._luck[seed] = Random(f"{self.key}:{seed}").gauss(0.0, 1.0)
        crashed, own = rng.random() < CRASHES, rng.gauss(0.0, 1.0)
        shared = self.correlation
        noise = math.sqrt(shared) * self._luck[seed] + math.sqrt(1 - shared) * own
        return None if crashed else mean + self.sigma * noise

    def run(self, order: int, stopping: Stopping | None = None) -> float:
        """Runs the first seed that has no value yet; returns the share of its hours that it took."""
        seed = _unused(self.seeds())
        value = self.draw(self.rng, seed, 0.0)
        rung = None if stopping is None else self.rung(self.key, seed, value, 0.0)
        is_stopped = rung is not None and stopping is not None and stopping.stops(rung, self)
        self.runs.append(_Run(seed, None if is_stopped else value, order, rung, is_stopped))
        return AT if is_stopped else 1.0

    def rung(self, key: str, seed: object, value: float | None, mean: float) -> float | None:
        """Returns where the curve of a run stands at the rung; None of one that crashes before."""
        noise = None if value is None else (value - mean) / self.sigma
        return rung_of(key, seed, noise, sd=self.sigma, mean=mean, correlation=self.curve_correlation)


def _unused(taken: set[object]) -> int:
    return next(seed for seed in range(len(taken) + 1) if seed not in taken)


class Design(Runs):
    """One way to test a hypothesis: what is declared of it, and the outcomes it has in store."""

    def __init__(self, id: str, baseline: Baseline, effect: float, rng: Random) -> None:
        super().__init__(rng)
        self.id, self.baseline = id, baseline
        self._mean = effect + rng.gauss(0.0, baseline.tau) + STAND_IN_BIAS * (baseline.kind == "proxy")

    def run(self, order: int, *, paired: bool = True, stopping: Stopping | None = None) -> float:
        """Runs the next seed: one that the baseline has a value on, where there is one, or one of its own.

        Returns the share of its hours that it took.
        """
        taken = self.seeds()
        seed: object = f"{self.id}:{len(taken)}"
        if paired:
            known = self.baseline.seeds()
            shared = [run.seed for run in self.baseline.runs if run.seed in known and run.seed not in taken]
            seed = shared[0] if shared else _unused(taken)
        value = self.baseline.draw(self.rng, seed, self._mean)
        rung = None if stopping is None else self.baseline.rung(self.id + self.baseline.key, seed, value, self._mean)
        is_stopped = rung is not None and stopping is not None and stopping.stops(rung, self, self.baseline)
        self.runs.append(_Run(seed, None if is_stopped else value, order, rung, is_stopped))
        return AT if is_stopped else 1.0

    def pairs(self) -> list[tuple[float, float]]:
        """Returns the values of both arms on the seeds that they share."""
        theirs = {run.seed: run.value for run in self.baseline.runs if run.value is not None}
        return [(run.value, theirs[run.seed]) for run in self.runs if run.value is not None and run.seed in theirs]

    def known_log_odds(self) -> float:
        """Returns the log odds of an effect of 1 against none where noise, luck and correlation are known exactly.

        The likelihood ratio grows fastest of all e-values of the two (Wald, 1945), so that verdicts by it are a floor.
        The effect is that of the pairs alone, or that of both arms' means, whichever has the smaller variance.
        """
        own, base, pairs = self.values, self.baseline.values, self.pairs()
        if not own or not base:
            return 0.0
        shared, rho = len(pairs) / (len(own) * len(base)), self.baseline.correlation
        means = math.fsum(own) / len(own) - math.fsum(base) / len(base), 1 / len(own) + 1 / len(base) - 2 * rho * shared
        found = [means]
        if pairs:
            found.append((math.fsum(one - other for one, other in pairs) / len(pairs), 2 * (1 - rho) / len(pairs)))
        effect, v = min(found, key=lambda each: each[1])
        return (effect - 0.5) / (self.baseline.tau**2 + self.baseline.sigma**2 * v)

    def effect(self) -> tuple[float, float] | None:
        """Returns what was measured, and its variance from noise; None before two runs of each arm."""
        return measured_effect(self.values, self.baseline.values)


class _Claim:
    """One hypothesis with its truth, its designs and its verdict."""

    def __init__(self, id: str, cell: Cell, rng: Random, baselines: Mapping[str, Baseline], key: str) -> None:
        self.id = id
        self.effect = _effect(cell, rng)
        self.designs = [
            Design(f"{id}-{kind}", base, self.effect, Random(f"{key}:{kind}")) for kind, base in baselines.items()
        ]
        self.runs = 0
        self.confidence, self.status, self.needs_full = 0.5, "open", False

    @property
    def truth(self) -> bool | None:
        """Returns whether there is the effect that is claimed; None where it lies between that and nothing."""
        return None if 0 < self.effect < 1 else self.effect > 0

    @property
    def is_right(self) -> bool:
        """Returns whether the verdict is: an effect better than none, or less than that worth having."""
        return self.effect > 0 if self.status == "supported" else self.effect < 1

    @property
    def missing(self) -> int:
        """Returns the runs that a verdict needs whatever they say: two, and one that is no stand-in."""
        return max(MIN_REPLICATES - sum(design.n_seen for design in self.designs), int(self.needs_full))

    def refold(self, threshold: float, conditions: Conditions) -> None:
        """Judges anew, as the lab would."""
        measured = [design for design in self.designs if design.runs and design.baseline.runs]
        if not measured:
            return
        self.confidence, reached = _judged(measured, threshold, conditions)
        self.needs_full = reached != "open" and all(design.baseline.kind == "proxy" for design in measured)
        self.status = "open" if self.needs_full else reached


def _effect(cell: Cell, rng: Random) -> float:
    is_true, which, share = rng.random() < cell.base_rate, rng.random(), rng.random()
    if cell.world == "misdeclared-effect":
        return 0.5 + 1.5 * share if is_true else -1.0 + 1.25 * share
    if is_true:
        return 1.0 if which < 2 / 3 else 1.5
    return 0.0 if which < 1 / 2 else -0.5 if which < 3 / 4 else 0.2 + 0.4 * share


def _judged(measured: Sequence[Design], threshold: float, conditions: Conditions) -> tuple[float, str]:
    """Returns confidence and status of these designs."""
    if conditions.earlier:
        values = [(design.values, design.baseline.values, design.baseline.tau) for design in measured]
        p = 1 / (1 + math.exp(-log_odds([each for each in values if len(each[1]) > 1])))
        enough = sum(design.n_seen for design in measured) >= MIN_REPLICATES
        return p, "open" if not enough or 1 - threshold < p < threshold else "supported" if p > 0.5 else "refuted"
    if conditions.known:
        p = 1 / (1 + math.exp(-math.fsum(design.known_log_odds() for design in measured)))
        return p, "open" if 1 - threshold < p < threshold else "supported" if p > 0.5 else "refuted"
    claims = [
        {"metric": design.baseline.kind, "direction": "max", "mde": 1.0, "noise": design.baseline.declared,
         "tau": design.baseline.tau, "paired": conditions.paired}
        for design in measured
    ]  # fmt: skip
    runs = [[run.row() for run in design.runs] for design in measured]
    against = [[run.row() for run in design.baseline.runs] for design in measured]
    found = judge(claims, against, runs, {"support": threshold, "refute": 1 - threshold})
    return found["confidence"], found["status"]


class _Campaign:
    """A campaign as it goes on."""

    def __init__(self, cell: Cell, conditions: Conditions, seed: int, number: int) -> None:
        key = f"{seed}:{number}"
        rng = Random(key)
        self.cell, self.conditions = cell, conditions
        self.baselines = [
            {kind: Baseline(kind, cell, f"{key}:b{n}:{kind}") for kind in MENUS[cell.menu]} for n in range(BASELINES)
        ]
        self.claims = [
            _Claim(f"h{n}", cell, rng, self.baselines[n % BASELINES], f"{key}:{n}") for n in range(1, HYPOTHESES + 1)
        ]
        self.designs = {design.id: (claim, design) for claim in self.claims for design in claim.designs}
        self.shared = {
            f"b{n}-{kind}": baseline for n, kinds in enumerate(self.baselines) for kind, baseline in kinds.items()
        }
        self.names = {id(baseline): name for name, baseline in self.shared.items()}
        self.hours, self.runs = 0.0, 0
        self.right: list[int] = []
        self.half_hours: float | None = None

    @property
    def opened(self) -> list[_Claim]:
        """Returns the hypotheses without a verdict."""
        return [claim for claim in self.claims if claim.status == "open"]

    def launch(self, picks: Iterable[str]) -> None:
        """Runs what was picked, and judges what it says."""
        touched: dict[str, _Claim] = {}
        for name in picks:
            if name in self.shared:
                self._run(self.shared[name].cost, self._base_run(self.shared[name]))
                touched |= {claim.id: claim for claim in self.opened if self._uses(claim, self.shared[name])}
                continue
            claim, design = self.designs[name]
            while not self.conditions.baselines and design.baseline.n_seen < FLOOR_RUNS:
                self._run(design.baseline.cost, self._base_run(design.baseline))
            self._run(design.baseline.cost, self._replicate(design))
            claim.runs += 1
            touched[claim.id] = claim
        for claim in touched.values():
            claim.refold(self.cell.threshold, self.conditions)
        if self.half_hours is None and 2 * self._right() >= HYPOTHESES:
            self.half_hours = self.hours

    def _replicate(self, design: Design) -> Callable[[int], float]:
        return lambda order: design.run(order, paired=self.conditions.paired, stopping=self.conditions.stopping)

    def _base_run(self, baseline: Baseline) -> Callable[[int], float]:
        return lambda order: baseline.run(order, self.conditions.stopping)

    def _uses(self, claim: _Claim, baseline: Baseline) -> bool:
        return any(design.baseline is baseline and design.runs for design in claim.designs)

    def _run(self, cost: float, run: Callable[[int], float]) -> None:
        self.runs += 1
        price = max(cost, COST_FLOOR_RUN_HOURS) * run(self.runs)
        while len(self.right) < len(RIGHT_AFTER) and self.hours + price > RIGHT_AFTER[len(self.right)]:
            self.right.append(self._right())
        self.hours += price

    def _right(self) -> int:
        return sum(claim.status != "open" and claim.is_right for claim in self.claims)

    def ended(self) -> Episode:
        """Returns the outcome."""
        undecided, right = len(self.opened), self._right()
        hours = max(self.hours, LONGEST_RUN_HOURS) if undecided else self.hours
        return Episode(
            run_hours=hours,
            runs=self.runs,
            said=tuple((claim.truth, claim.confidence) for claim in self.claims),
            right=(*self.right, *[right] * (len(RIGHT_AFTER) + 1 - len(self.right))),
            wrong=HYPOTHESES - undecided - right,
            undecided=undecided,
            half_hours=LONGEST_RUN_HOURS if self.half_hours is None else self.half_hours,
            false_supports=sum(claim.status == "supported" and claim.effect <= 0 for claim in self.claims),
            refutable=sum(claim.effect <= 0 for claim in self.claims),
            spent_hours=self.hours,
        )

    def state(self, draw: int) -> ScorerState:
        """Returns what the lab would show a scorer: open hypotheses, their candidates, and runs of their baselines."""
        threshold = self.cell.threshold
        hypotheses: list[HypothesisState] = [
            {"id": claim.id, "confidence": claim.confidence, "missing_replicates": claim.missing,
             "n_runs": claim.runs}
            for claim in self.opened
        ]  # fmt: skip
        learned = self._correlations()
        known = self._stand_in()
        candidates = [
            self._candidate(claim, design, learned, known)
            for claim in self.opened
            for design in claim.designs
            if not (claim.needs_full and design.baseline.kind == "proxy")
        ]
        if self.conditions.baselines:
            candidates += [self._baseline(name, baseline) for name, baseline in self.shared.items()]
        return {
            "hypotheses": hypotheses,
            "candidates": candidates,
            "support": threshold,
            "refute": 1 - threshold,
            "min_information_gain_bits": MIN_GAIN_BITS,
            "budget_left": None,
            "seed": draw,
        }

    def _correlations(self) -> dict[str, float]:
        """Returns the correlation of seeds by kind of design, as far as pairs show it."""
        if not self.conditions.paired:
            return {}
        pairs: dict[str, list[list[tuple[float, float]]]] = {}
        for _, design in self.designs.values():
            pairs.setdefault(design.baseline.kind, []).append(design.pairs())
        return {kind: seed_correlation(each) or 0.0 for kind, each in pairs.items()}

    def _stand_in(self) -> StandIn | None:
        """Returns what pairs of a stand-in and the standard design show of its bias and spread."""
        gaps = []
        for claim in self.claims:
            found = {design.baseline.kind: design.effect() for design in claim.designs}
            cheap, whole = found.get("proxy"), found.get("standard")
            if cheap is not None and whole is not None:
                gaps.append((cheap[0], whole[0], cheap[1] + whole[1]))
        return stand_in(gaps)

    def _candidate(
        self, claim: _Claim, design: Design, learned: Mapping[str, float], known: StandIn | None
    ) -> CandidateState:
        baseline = design.baseline
        noise = pooled_sd([design.values, baseline.values]) or baseline.declared
        row: CandidateState = {
            "id": design.id,
            "hypothesis_id": claim.id,
            "mu1": 1.0,
            "mu0": 0.0,
            "sigma": noise,
            "tau": baseline.tau,
            "cost": baseline.cost,
            "p_fail": failure_probability(design.crashes, len(design.runs)),
            "n_seen": design.n_seen,
            "n_pending": 0,
            "baseline_n": baseline.n_seen if self.conditions.baselines else max(baseline.n_seen, FLOOR_RUNS),
        }
        if self.conditions.earlier:
            return row
        row["sigma"], row["s0"], row["baseline_id"] = None, noise, self.names[id(baseline)]
        if self.conditions.paired:
            row["rho"] = learned[baseline.kind]
        if baseline.kind == "proxy":
            row["proxy"] = True
            if known is not None:
                row["tau"], row["bias"] = known.tau, known.bias
        return row

    def _baseline(self, name: str, baseline: Baseline) -> CandidateState:
        row = {
            "id": name,
            "kind": "baseline",
            "baseline_id": name,
            "cost": baseline.cost,
            "p_fail": failure_probability(baseline.crashes, len(baseline.runs)),
            "n_seen": baseline.n_seen,
            "n_pending": 0,
        }
        return cast("CandidateState", row)


def episode(policy: Policy | Arm, cell: Cell, seed: int, number: int) -> Episode:
    """Plays campaign `number` of `seed`. Raises Broken where the policy breaks its contract."""
    asked, conditions = policy if isinstance(policy, Arm) else (policy, Conditions())
    if conditions.baselines is None:
        conditions = conditions._replace(baselines=_weighs_baselines(asked))
    campaign = _Campaign(cell, conditions, seed, number)
    draws, decisions = Random(f"{seed}:{number}:draws"), 0
    while campaign.opened and campaign.hours < LONGEST_RUN_HOURS and campaign.runs < MOST_RUNS:
        picks = _asked(asked, campaign, draws.getrandbits(62), is_again=decisions % ASKED_AGAIN_EVERY == 0)
        decisions += 1
        if not picks:
            break
        campaign.launch(picks)
    return campaign.ended()


def _weighs_baselines(policy: Policy) -> bool:
    try:
        return bool(getattr(policy, "weighs_baselines", False))
    except (Exception, SystemExit) as problem:  # a policy that is built at its first use
        raise Broken(f"it raised {type(problem).__name__}: {problem}") from problem


def _asked(policy: Policy, campaign: _Campaign, draw: int, *, is_again: bool) -> list[str]:
    """Returns the policy's picks, checked."""
    state, size = campaign.state(draw), campaign.cell.batch
    try:
        answer = policy(state, size)
    except (Exception, SystemExit) as problem:  # whatever a policy raises is its failure, and is reported
        raise Broken(f"it raised {type(problem).__name__}: {problem}") from problem
    untouched = campaign.state(draw)
    known = {candidate["id"] for candidate in untouched["candidates"]}
    if not isinstance(answer, list | tuple):
        raise Broken(f"it answered {type(answer).__name__} {answer!r:.60}, not a list of candidate ids")
    picks = [*answer]
    strange = [id for id in picks if not isinstance(id, str) or id not in known]
    if strange:
        raise Broken(f"it picked {strange[0]!r:.60}, which is no candidate")
    if len(picks) > size:
        raise Broken(f"it picked {len(picks)} where {size} were asked for")
    if state != untouched:
        raise Broken("it changed the state, which is the caller's")
    if is_again:
        try:
            repeated = policy(untouched, size)
        except (Exception, SystemExit) as problem:
            raise Broken(f"asked again, it raised {type(problem).__name__}: {problem}") from problem
        if repeated != answer:
            raise Broken("it is not pure: asked again with the same state it answered otherwise")
    return picks


class StrategyPolicy:
    """A policy that is `perpetual.science.propose` with one strategy and its knobs. Can be pickled."""

    weighs_baselines = True

    def __init__(self, strategy: str, **knobs: float) -> None:
        self._config: dict[str, object] = {"strategy": strategy, **knobs}

    def __call__(self, state: ScorerState, k: int) -> list[str]:
        """Implements `Policy`."""
        thresholds = {key: state[key] for key in ("support", "refute", "min_information_gain_bits")}
        return propose(state, k, {**self._config, **thresholds})


class Job(NamedTuple):
    """Some campaigns of one policy in one cell; may be played by any process."""

    policy: Policy | Arm
    cell: Cell
    seed: int
    numbers: tuple[int, ...]


def play(job: Job) -> list[Episode] | str:
    """Plays campaigns; returns them, or how the policy broke its contract in the first that it did not survive."""
    try:
        return [episode(job.policy, job.cell, job.seed, number) for number in job.numbers]
    except Broken as problem:
        return str(problem)


class Bench(NamedTuple):
    """One result for each policy in each cell, and comparisons of one policy with the others."""

    results: list[Result]
    comparisons: list[Comparison]


Mapper = Callable[[Callable[[Job], "list[Episode] | str"], Iterable[Job]], Iterable["list[Episode] | str"]]
"""`map`, or what works like it."""


def bench(
    policies: Mapping[str, Policy | Arm],
    *,
    thresholds: Sequence[float] = (0.8, 0.95),
    batches: Sequence[int] = (1, 3),
    world: str = "standard",
    menu: str = "proxy",
    base_rate: float = 0.25,
    seed_correlation: float = 0.0,
    episodes: int = 20,
    seed: int = 0,
    run: Mapper = map,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Returns one result for each policy in each cell; all meet the same campaigns, so differences are the policies'.

    `run` is `map` or what works like it, a process pool's `imap` say; the answer does not depend on it. `progress` is
    called with campaigns played and campaigns in all.

    Raises ValueError for a threshold, batch, world or number that makes no sense.
    """
    cells = [
        Cell(threshold, batch, world, menu, base_rate, seed_correlation)
        for threshold in thresholds for batch in batches
    ]  # fmt: skip
    return benched(policies, cells, episodes=episodes, seed=seed, run=run, progress=progress).results


def benched(
    policies: Mapping[str, Policy | Arm],
    cells: Sequence[Cell],
    *,
    reference: str | None = None,
    episodes: int = 20,
    seed: int = 0,
    run: Mapper = map,
    progress: Callable[[int, int], None] | None = None,
) -> Bench:
    """Returns what `bench` does, and `reference` compared with each other policy in each cell."""
    for cell in cells:
        _check(cell)
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    chunks = [tuple(range(start, min(start + _CHUNK, episodes))) for start in range(0, episodes, _CHUNK)]
    rows = [(name, cell) for cell in cells for name in policies]
    jobs = [Job(policies[name], cell, seed, chunk) for name, cell in rows for chunk in chunks]
    parts = _counted(run(play, jobs), jobs, progress)
    results: list[Result] = []
    played: dict[tuple[str, Cell], Sequence[Episode]] = {}
    for name, cell in rows:
        found = [next(parts) for _ in chunks]
        problem = next((part for part in found if isinstance(part, str)), None)
        if problem is not None:
            results.append(failed(name, cell, episodes, problem))
            continue
        played[name, cell] = [one for part in found for one in part if isinstance(one, Episode)]
        results.append(summary(name, cell, played[name, cell], key=str(seed)))
    arms = {name: policy.conditions for name, policy in policies.items() if isinstance(policy, Arm)}
    others = {name for name, conditions in arms.items() if conditions.earlier or conditions.known}
    comparisons = [] if reference is None else compared(played, reference, str(seed), other_rules=others)
    return Bench(results, comparisons)


def _check(cell: Cell) -> None:
    if not 0.5 < cell.threshold < 1:
        raise ValueError(f"a threshold lies between 0.5 and 1, not {cell.threshold:g}")
    if cell.batch < 1:
        raise ValueError(f"a batch holds at least 1, not {cell.batch}")
    if cell.world not in WORLDS:
        raise ValueError(f"world must be one of {', '.join(WORLDS)}, not {cell.world!r}")
    if cell.menu not in MENUS:
        raise ValueError(f"menu must be one of {', '.join(MENUS)}, not {cell.menu!r}")
    if not 0 <= cell.base_rate <= 1:
        raise ValueError(f"a base rate lies between 0 and 1, not {cell.base_rate:g}")
    if not 0 <= cell.seed_correlation <= 1:
        raise ValueError(f"a correlation of seeds lies between 0 and 1, not {cell.seed_correlation:g}")
    if not 0 <= cell.curve_correlation <= 1:
        raise ValueError(f"a correlation of curves lies between 0 and 1, not {cell.curve_correlation:g}")


def _counted(
    played: Iterable[list[Episode] | str], jobs: Sequence[Job], progress: Callable[[int, int], None] | None
) -> Iterator[list[Episode] | str]:
    done, whole = 0, sum(len(job.numbers) for job in jobs)
    for part, job in zip(played, jobs, strict=True):
        done += len(job.numbers)
        if progress is not None:
            progress(done, whole)
        yield part
