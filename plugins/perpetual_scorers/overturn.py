"""Which runs would change the status of a hypothesis: what they would have to show, how likely that is, what they cost.

from perpetual import Lab
from perpetual_scorers.overturn import overturn

with Lab.open() as lab:
    print(overturn(lab, "h1")["sentence"])

Each possible outcome is weighed by the rule itself (`perpetual.science.judge`), beside all that was measured. The
chance is that of runs drawn from what is known: the effect that was measured with its standard error, and the noise
with its degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from random import Random
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from perpetual.science.evidence import probability
from perpetual.science.judgement import judge
from perpetual.science.versions import RENEW, baseline_to_renew
from perpetual.toolkit.units import counted, identifier, shown_hours
from perpetual_scorers.plan_facts import Claim, LabFacts, measured, rule_of
from perpetual_scorers.proposing.planning import Noise, noise_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Hypothesis, Run
    from perpetual_scorers.plan_documents import Overturn, OverturnOption

__all__ = ["overturn"]

COUNTS = (1, 2, 3, 5, 8)
LEAST_CHANCE = 0.05
_DRAWS = 200
_DESIGNS = 3  # those with most runs
_REACH, _STEP = 12.0, 0.5  # standard deviations
_BISECTIONS = 12
_CLOSE = 0.02  # log odds, by which a fold of this module may differ from the lab's

_Arm = Literal["claim", "baseline"]
_Row = dict[str, Any]
_Runs = list[_Row]


def overturn(lab: Lab, id: str) -> Overturn:
    """Returns which further runs would change the status of a hypothesis, the cheapest first.

    Of a supported or refuted one they take its confidence back below the threshold, or past the other one; of an open
    one they decide it. Nothing is written.

    Raises:
        NotFound: for an id that the lab does not have.
    """
    hypothesis = lab.hypotheses.get(identifier(id))
    facts = LabFacts(lab)
    ledger = _Ledger(lab, hypothesis, facts.claims_of(hypothesis.id))
    options: list[OverturnOption] = []
    if hypothesis.decided_by in (None, "evidence") and hypothesis.needs is None:
        for place in range(min(len(ledger.claims), _DESIGNS)):
            options += _options(facts, ledger, place)
    options.sort(key=lambda option: (option["run_hours"], -option["chance"], option["arm"]))
    likely = [option for option in options if option["chance"] >= LEAST_CHANCE]
    cheapest = min(
        likely, key=lambda option: (option["run_hours"], option["runs"]),
        default=max(options, key=lambda option: option["chance"], default=None),
    )  # fmt: skip
    return {
        "hypothesis_id": hypothesis.id,
        "status": hypothesis.status,
        "confidence": hypothesis.confidence,
        "cheapest": cheapest,
        "options": options,
        "is_exact": ledger.is_exact,
        "sentence": _sentence(hypothesis, ledger, cheapest),
    }


# --- the ledger, weighed anew -----------------------------------------------------------------------------------------


class _Ledger:
    """The designs of a hypothesis as `judge` takes them; what else moves its confidence is added as it stands."""

    def __init__(self, lab: Lab, hypothesis: Hypothesis, claims: Sequence[Claim]) -> None:
        self._rule = rule_of(lab, hypothesis.prior)
        self.hypothesis, self.claims = hypothesis, [claim for claim in claims if _is_measurable(claim)]
        self._said = [_said(claim) for claim in self.claims]
        self._own = [[_row(run, claim) for run in (*claim.own, *claim.lost)] for claim in self.claims]
        self._baselines: dict[tuple[str, ...], object] = {}
        for claim in self.claims:
            self._baselines.setdefault(claim.baseline_ids or (str(claim.design.baseline),), _baseline(claim))

    def _key(self, place: int) -> tuple[str, ...]:
        claim = self.claims[place]
        return claim.baseline_ids or (str(claim.design.baseline),)

    @cached_property
    def _offset(self) -> float:
        """Returns the log odds that opinions, hands and whatever else is not weighed here add."""
        here: float = self._folded({})["log_odds"]
        return _log_odds(self.hypothesis.confidence) - here

    @property
    def is_exact(self) -> bool:
        """Returns whether the lab's confidence is that of these runs and the prior alone."""
        return bool(self.claims) and abs(self._offset) < _CLOSE

    def _folded(self, more: Mapping[tuple[int, _Arm], _Runs]) -> Mapping[str, Any]:
        own = [[*rows, *more.get((place, "claim"), [])] for place, rows in enumerate(self._own)]
        extra = {self._key(place): runs for (place, arm), runs in more.items() if arm == "baseline"}
        baselines = {
            key: [*known, *extra[key]] if key in extra and isinstance(known, list) else known
            for key, known in self._baselines.items()
        }
        return judge(self._said, [baselines[self._key(place)] for place in range(len(own))], own, self._rule)

    def status(self, place: int, arm: _Arm, runs: _Runs) -> str:
        """Returns the status with more runs of one arm of a design."""
        found = self._folded({(place, arm): runs})
        if found["n_measured"] < self._rule["least"]:
            return "open"
        p = probability(found["log_odds"] + self._offset)
        for status, passed, e, threshold in (
            ("supported", p >= self._rule["support"], found["e_support"], self._rule["support"]),
            ("refuted", p <= self._rule["refute"], found["e_refute"], 1 - self._rule["refute"]),
        ):
            if passed and e >= threshold / (1 - threshold) * (1 - 1e-9):
                return status
        return "open"


def _is_measurable(claim: Claim) -> bool:
    has_baseline = bool(claim.baseline) or isinstance(claim.design.baseline, float | int)
    return bool(claim.own) and has_baseline


def _log_odds(p: float) -> float:
    return math.log(p / (1 - p))


def _said(claim: Claim) -> _Row:
    """Returns the claim in the words of `judge`."""
    design = claim.design
    what = design.claim if design.claim != "at_least" or design.null_effect else "improves"
    return {
        "metric": design.metric,
        "direction": design.direction or "max",
        "kind": design.kind,
        "claim": what,
        "mde": design.mde,
        "noise": design.noise,
        "tau": design.tau or 0.0,
        "items": design.items,
        "changes": design.changes.split(",") if design.changes else [],
    }


def _row(run: Run, claim: Claim) -> _Row:
    value = run.metrics.get(claim.design.metric or "")
    status = run.status if run.status in ("done", "failed", "killed", "timeout") else "lost"
    code = run.versions.get("code") or {}
    return {
        "seed": run.seed,
        "value": value if status == "done" else None,
        "last_value": value,
        "status": "lost" if status == "done" and value is None else status,
        "code": code.get("tree"),
        "data": run.versions.get("data"),
        "environment": run.versions.get("environment"),
    }


def _baseline(claim: Claim) -> object:
    if isinstance(claim.design.baseline, float | int):
        return {"value": float(claim.design.baseline), "n": claim.design.baseline_runs}
    return [_row(run, claim) for run in (*claim.baseline, *claim.baseline_lost)]


# --- further runs -----------------------------------------------------------------------------------------------------


class _Source(NamedTuple):
    """What further runs of one arm are drawn from: its values, the noise, and the runs that they are like."""

    values: Sequence[float]
    noise: Noise | None  # None of a rate
    like: _Row
    taken: frozenset[object]  # seeds
    free: Sequence[tuple[object, float]]  # seeds of the other arm that this one has not run on, with their distance
    rho: float

    def draw(self, rng: Random, count: int) -> list[float]:
        """Returns values of further runs, given what is known."""
        n = len(self.values)
        if self.noise is None:
            hits = math.fsum(self.values)
            rate = rng.betavariate(hits + 0.5, n - hits + 0.5)
            return [float(rng.random() < rate) for _ in range(count)]
        df = self.noise.df
        sd = self.noise.sd * math.sqrt(df / (2 * rng.gammavariate(df / 2, 1.0))) if df else self.noise.sd
        center = math.fsum(self.values) / n + rng.gauss(0.0, sd / math.sqrt(n))
        found = []
        for place in range(count):
            pull = self.rho * self.free[place][1] if place < len(self.free) else 0.0
            apart = math.sqrt(1 - self.rho**2) if place < len(self.free) else 1.0
            found.append(center + pull + rng.gauss(0.0, sd * apart))
        return found

    def rows(self, values: Sequence[float]) -> _Runs:
        """Returns runs with these values, on seeds that the other arm has where there are any."""
        seeds = [seed for seed, _ in self.free]
        return [{**self.like, "value": value, "seed": seeds[place] if place < len(seeds) else f"new {place}"}
                for place, value in enumerate(values)]  # fmt: skip

    def around(self, x: float, count: int) -> _Runs:
        """Returns runs whose mean is x, as far apart as runs are; of a rate so many successes."""
        if self.noise is None:
            return self.rows([1.0] * round(x) + [0.0] * (count - round(x)))
        shape = [2 * (place + 0.5) / count - 1 for place in range(count)]
        spread = math.sqrt(math.fsum(each * each for each in shape) / (count - 1)) if count > 1 else 1.0
        return self.rows([x + self.noise.sd * each / spread for each in shape])


def _options(facts: LabFacts, ledger: _Ledger, place: int) -> list[OverturnOption]:
    claim = ledger.claims[place]
    arms: list[_Arm] = ["claim", "baseline"] if claim.baseline else ["claim"]
    found: list[OverturnOption] = []
    for arm in arms:
        source = _source(facts, claim, arm)
        if source is None:
            continue
        chances = _chances(ledger, place, arm, source)
        ids = claim.members if arm == "claim" else claim.baseline_ids
        hours = facts.run_hours(ids, facts.lab.experiments.get(ids[0]).design)
        for count in COUNTS:
            for status, chance in chances[count].items():
                outcome = _outcome(ledger, place, arm, source, count, status)
                if outcome is None and chance <= 0:
                    continue
                found.append({
                    "arm": arm, "experiment_id": ids[0], "runs": count, "becomes": status,
                    "outcome": None if outcome is None else outcome[0], "side": outcome[1] if outcome else "at_least",
                    "chance": chance, "run_hours": count * hours,
                    "command": _command(ledger.hypothesis, claim, arm, count),
                })  # fmt: skip
    return found


def _command(hypothesis: Hypothesis, claim: Claim, arm: _Arm, count: int) -> str | None:
    """Returns how these runs are proposed; None where no line says it all."""
    if arm == "baseline" or hypothesis.status not in ("supported", "refuted"):
        id = claim.baseline_ids[0] if arm == "baseline" else claim.members[0]
        return f"perpetual propose --extends {id} --replicates {count}"
    lead = claim.lead  # what is decided is not extended; the same command with another number pools its runs
    if lead.command is None or lead.config or lead.env or lead.cwd or lead.design.replicates == count:
        return None
    return f"perpetual propose -h {hypothesis.id} --command {quote(lead.command)} --replicates {count}"


def _source(facts: LabFacts, claim: Claim, arm: _Arm) -> _Source | None:
    """Returns what further runs of an arm are drawn from; None where no noise is known yet."""
    metric = claim.design.metric
    mine, others = (claim.own, claim.baseline) if arm == "claim" else (claim.baseline, claim.own)
    values, theirs = measured(mine, metric), measured(others, metric)
    noise: Noise | None = None
    if claim.design.kind != "binary":
        known = facts.noise(metric, claim.design.baseline)
        noise = noise_of([values, theirs]) or (known.noise if known else None)
        noise = noise or (Noise(claim.design.noise, 0.0) if claim.design.noise else None)
        if noise is None:
            return None
    taken = frozenset(run.seed for run in mine)
    rho = facts.seeds(metric, claim.design.baseline).rho
    center = math.fsum(theirs) / len(theirs) if theirs else 0.0
    free = [(run.seed, value - center) for run, value in zip(others, theirs, strict=True)
            if claim.design.paired and run.seed is not None and run.seed not in taken]  # fmt: skip
    return _Source(values, noise, _row(mine[-1], claim) | {"status": "done"}, taken, free, rho)


def _chances(ledger: _Ledger, place: int, arm: _Arm, source: _Source) -> dict[int, dict[str, float]]:
    """Returns by number of runs the chance of each status that is not the present one."""
    now = ledger.hypothesis.status if ledger.hypothesis.status in ("supported", "refuted") else "open"
    counts: dict[int, dict[str, int]] = {count: {} for count in COUNTS}
    for draw in range(_DRAWS):
        values = source.draw(Random(f"{arm}:{draw}"), COUNTS[-1])
        for count in COUNTS:
            status = ledger.status(place, arm, source.rows(values[:count]))
            if status != now:
                counts[count][status] = counts[count].get(status, 0) + 1
    others = ("supported", "refuted") if now == "open" else ("open", *({"supported", "refuted"} - {now}))
    return {count: {status: each.get(status, 0) / _DRAWS for status in others} for count, each in counts.items()}


def _outcome(
    ledger: _Ledger, place: int, arm: _Arm, source: _Source, count: int, status: str
) -> tuple[float, str] | None:
    """Returns the mean nearest to what was measured at which runs give the status, and the side on which they do."""

    def gives(x: float) -> bool:
        return ledger.status(place, arm, source.around(x, count)) == status

    if source.noise is None:
        expected = count * math.fsum(source.values) / len(source.values)
        hits = [hits for hits in range(count + 1) if gives(float(hits))]
        best = min(hits, key=lambda each: abs(each - expected), default=None)
        return None if best is None else (float(best), "at_least" if best >= expected else "at_most")
    center, sd = math.fsum(source.values) / len(source.values), source.noise.sd
    for step in range(1, round(_REACH / _STEP) + 1):
        for sign in (1, -1):
            far = center + sign * step * _STEP * sd
            if gives(far):
                return _edge(far - sign * _STEP * sd, far, gives), "at_least" if sign > 0 else "at_most"
    return None


def _edge(no: float, yes: float, gives: Callable[[float], bool]) -> float:
    for _ in range(_BISECTIONS):
        middle = (no + yes) / 2
        no, yes = (no, middle) if gives(middle) else (middle, yes)
    return yes


# --- in words ---------------------------------------------------------------------------------------------------------


def _sentence(hypothesis: Hypothesis, ledger: _Ledger, cheapest: OverturnOption | None) -> str:
    name, status = hypothesis.id, hypothesis.status
    if hypothesis.decided_by not in (None, "evidence"):
        return f"{name} is {status} by a {hypothesis.decided_by}'s word, which no run changes."
    if hypothesis.needs is not None:
        return f"{name} is past a threshold and still needs {hypothesis.needs.replace('_', ' ')}."
    if not ledger.claims:
        return f"{name} is {status}, and nothing was measured yet: perpetual power {name} says what would decide it."
    if cheapest is None and (baseline := baseline_to_renew(hypothesis.flags)) is not None:
        return f"{name} is {status}; runs on other code, data or environment count for nothing until {RENEW}{baseline}."
    if cheapest is None:
        return (
            f"{name} is {status}; no {COUNTS[-1]} further runs or fewer have a chance of {LEAST_CHANCE:.0%} to change "
            "that, as far as their noise is known."
        )
    arm = "more" if cheapest["arm"] == "claim" else "more baseline"
    runs = counted(cheapest["runs"], f"{arm} run")
    change = {"open": "open it again", "supported": "support it", "refuted": "refute it"}[cheapest["becomes"]]
    chance = cheapest["chance"]
    price = f"{shown_hours(cheapest['run_hours'])}; chance {f'{chance:.0%}' if chance >= 0.01 else 'under 1%'}"
    if chance < LEAST_CHANCE:
        price += f", and no {COUNTS[-1]} runs or fewer have {LEAST_CHANCE:.0%}"
    return f"{name} is {status}; {runs} of {cheapest['experiment_id']}{_at(cheapest)} would {change} ({price})."


def _at(option: OverturnOption) -> str:
    if option["outcome"] is None:
        return ""
    side = "or more" if option["side"] == "at_least" else "or less"
    return f" at a mean of {option['outcome']:.4g} {side}"
