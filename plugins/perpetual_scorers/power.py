"""How many seeds and baseline runs decide a claim, with which chance, before any of them is paid for.

from perpetual import Lab
from perpetual_scorers.power import power

with Lab.open() as lab:
    found = power(lab, "h1")
    print(found["replicates"], found["baseline_runs"], found["sentence"])

The noise is what the lab has measured, else what was declared. Everything is computed under the rule of the evidence
with a look after each run (`perpetual_scorers.looks`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Design, UsageError, to_json
from perpetual.science.evidence import probability
from perpetual.toolkit.units import counted, finite, identifier, shown_hours
from perpetual_scorers.looks import Chances, chances
from perpetual_scorers.plan_facts import LabFacts, Measured, Seeds, measured, rule_of
from perpetual_scorers.proposing.planning import MOST_RUNS, Noise, Plan, Rates, most_log_e, one_look, plan_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Hypothesis
    from perpetual_scorers.plan_documents import Power, PowerCeiling, PowerChance

__all__ = ["power"]

LIKELY = 0.8
MOST_REPLICATES = 200
_BASELINES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_SHOWN = (2, 3, 5, 8, 12, 20)
_QUICK, _PATHS = 300, 1000
_ROUGH = 0.1  # by which one look at the end may fall short of a look after each run
_CLOSER = 3  # sizes of the baseline at most that are looked at closer


class _Case(NamedTuple):
    """What is planned: the design, how far it is there, what is known of it."""

    design: Design
    hypothesis: Hypothesis | None
    experiment: Experiment | None
    noise: Measured
    seeds: Seeds | None
    values: Sequence[float]  # of the baseline's runs
    there: int  # runs of the claim that count
    hours: float | None  # of a run of the claim
    baseline_hours: float
    present: int | None  # runs that the baseline has, or is to have as proposed
    is_unsized: bool = False  # it claims some effect: the mde is only what is expected


def power(
    lab: Lab | None,
    id: str | None = None,
    *,
    metric: str | None = None,
    mde: float | None = None,
    effect: float | None = None,
    noise: float | None = None,
    tau: float | None = None,
    rho: float | None = None,
    baseline_runs: int | None = None,
    replicates: int | None = None,
    confidence: float | None = None,
    likely: float = LIKELY,
) -> Power:
    """Returns how many replicates and baseline runs decide a claim, with which chance.

    Args:
        lab: None computes with the numbers alone, and the default thresholds.
        id: of a hypothesis, or of an experiment with a claim; None takes the numbers alone.
        metric: whose noise is looked up where no id is given.
        mde: the smallest effect worth having, in the metric's units; by default the claim's.
        effect: the true effect that is assumed; by default the mde, twice that of a claim `at_least`.
        noise: sd of one run; by default what was measured, else what was declared.
        tau: sd between implementations; by default the claim's, else a quarter of the mde.
        rho: correlation of the runs on seeds that both arms share; by default what was measured.
        baseline_runs: runs that the baseline has; by default those that it has or is proposed with.
        replicates: of the design as it stands, by default the experiment's.
        confidence: that is to be reached, by default the methodology's; refuted is one minus it.
        likely: the chance that is wanted.

    Raises:
        UsageError: for an impossible number, without an mde, or where no noise is known.
        NotFound: for an id that the lab does not have.
    """
    _check(mde, effect, noise, tau, rho, baseline_runs, replicates, confidence, likely)
    case = _case(lab, id, metric, mde, noise, baseline_runs)
    rule = rule_of(lab, case.hypothesis.prior if case.hypothesis else 0.5) if lab is not None else {}
    if confidence is not None:
        rule = {**rule, "support": confidence, "refute": 1 - confidence}
    plan = _plan(case, rule, effect=effect, tau=tau, rho=rho)
    return _Answer(case, plan, likely, replicates).document()


def _check(
    mde: float | None,
    effect: float | None,
    noise: float | None,
    tau: float | None,
    rho: float | None,
    baseline_runs: int | None,
    replicates: int | None,
    confidence: float | None,
    likely: float,
) -> None:
    for name, value in (("mde", mde), ("effect", effect), ("noise", noise)):
        if value is not None:
            finite(value, f"the {name}", above=0.0)
    if tau is not None:
        finite(tau, "tau", minimum=0.0)
    if rho is not None:
        finite(rho, "rho", minimum=0.0, maximum=1.0)
    if confidence is not None and not 0.5 < confidence < 1:
        raise UsageError(f"a confidence lies between 0.5 and 1, not {confidence:g}", hint="--confidence 0.95")
    if not 0 < likely < 1:
        raise UsageError(f"a chance lies between 0 and 1, not {likely:g}", hint="--chance 0.8")
    for name, count in (("--baseline-runs", baseline_runs), ("--replicates", replicates)):
        if count is not None and not 1 <= count <= MOST_RUNS:
            raise UsageError(f"{name} takes 1 to {MOST_RUNS}, not {count}")


# --- what is planned --------------------------------------------------------------------------------------------------


def _case(
    lab: Lab | None,
    id: str | None,
    metric: str | None,
    mde: float | None,
    noise: float | None,
    baseline_runs: int | None,
) -> _Case:
    given = None if noise is None else Measured(Noise(noise, math.inf), "given", 0)
    if id is None:
        return _of_numbers(lab, metric, mde, given, baseline_runs)
    if lab is None:
        raise UsageError(f"{id} belongs to a lab", hint="run this in a project's folder, or leave the id out")
    facts, named = LabFacts(lab), identifier(id)
    experiment = lab.experiments.get(named) if named.startswith("e") else None
    hypothesis_id = named if experiment is None else experiment.hypothesis_id
    hypothesis = lab.hypotheses.get(hypothesis_id) if hypothesis_id is not None else None
    if hypothesis is not None and experiment is None:
        experiment = _latest(facts, hypothesis.id)
    design = _design(hypothesis, experiment, named)
    is_unsized = design.mde is None
    if mde is not None:
        design = replace(design, mde=mde, null_effect=design.null_effect and mde)
    if design.mde is None:
        raise UsageError(f"{named} claims an effect of no size", hint="--mde X: the effect that you expect")
    found = given or _noise(facts, design)
    ids = facts.baseline_ids(design.baseline)
    runs, _ = facts.baseline_of(design, None)
    there = 0
    if hypothesis is not None:
        there = sum(len(each.own) for each in facts.claims_of(hypothesis.id) if each.design.baseline == design.baseline)
    theirs = facts.run_hours(ids, next((item.design for item in facts.experiments if item.id in ids), None))
    own = facts.run_hours([] if experiment is None else [experiment.id], design, theirs if ids else None)
    return _Case(
        design,
        hypothesis,
        experiment,
        found,
        facts.seeds(design.metric, design.baseline) if ids else None,
        measured(runs, design.metric),
        there,
        own,
        theirs,
        max(len(runs), facts.planned(ids)) or None if baseline_runs is None else baseline_runs,
        is_unsized,
    )


def _of_numbers(
    lab: Lab | None, metric: str | None, mde: float | None, noise: Measured | None, baseline_runs: int | None
) -> _Case:
    if mde is None:
        raise UsageError("the size of the effect is not given", hint="name a hypothesis, or give --mde X")
    if noise is None and metric is not None and lab is not None:
        noise = LabFacts(lab).noise(metric)
    if noise is None:
        raise UsageError(
            f"the noise of {metric or 'a run'} is not known", hint="--noise SD, or --metric M of a lab that measured it"
        )
    design = Design(metric=metric, direction="max", baseline="", claim="improves", mde=mde, tau=mde / 4)
    return _Case(design, None, None, noise, None, (), 0, None, 0.0, baseline_runs)


def _latest(facts: LabFacts, hypothesis_id: str) -> Experiment | None:
    """Returns the newest experiment with a claim at full scale that was not turned down."""
    found = [item for item in facts.experiments if item.hypothesis_id == hypothesis_id and item.design.proxy_of is None
             and item.design.claim is not None and item.status not in ("rejected", "expired")]  # fmt: skip
    return found[-1] if found else None


def _design(hypothesis: Hypothesis | None, experiment: Experiment | None, name: str) -> Design:
    if experiment is not None and experiment.design.claim is not None:
        return experiment.design
    if hypothesis is None:
        raise UsageError(f"{name} makes no claim", hint="name a hypothesis, or give --mde and --metric alone")
    said = hypothesis.prediction
    if said.metric is None:
        raise UsageError(f"{name} predicts nothing yet", hint=f"perpetual propose -h {name} says what it predicts")
    mde = said.mde
    return Design(metric=said.metric, direction=said.direction or "max", baseline=said.baseline, claim="improves",
                  mde=mde, tau=None if mde is None else mde / 4, paired=isinstance(said.baseline, str))  # fmt: skip


def _noise(facts: LabFacts, design: Design) -> Measured:
    if design.kind == "binary":
        return Measured(Noise(0.0, 0.0), "rate", 0)
    found = facts.noise(design.metric, design.baseline) or facts.noise(design.metric)
    if found is None and design.noise:
        found = Measured(Noise(design.noise, 0.0), "declared", 0)
    if found is None:
        way = f"perpetual run {design.baseline} --all measures it" if isinstance(design.baseline, str) else "--noise SD"
        raise UsageError(f"the noise of {design.metric} is not known", hint=f"{way}, or --noise SD")
    return found


def _plan(
    case: _Case, rule: Mapping[str, float], *, effect: float | None, tau: float | None, rho: float | None
) -> Plan | Rates:
    design = case.design if tau is None else replace(case.design, tau=tau)
    is_number = isinstance(design.baseline, float | int)
    against: Sequence[float] | float = float(design.baseline) if is_number else case.values  # type: ignore[arg-type]
    if design.kind == "binary" and against == ():
        raise UsageError(f"the rate of {design.baseline} is not known", hint=f"perpetual run {design.baseline} --all")
    size = None if is_number else case.present or _BASELINES[0]
    plan = plan_of(to_json(design), rule, case.noise.noise.sd, against, size)
    if isinstance(plan, Rates):
        return plan if effect is None else plan._replace(rate=min(plan.baseline + effect, 1.0))
    if case.is_unsized:  # tested against no effect, in either direction
        is_two_sided = design.direction is None
        plan = plan._replace(mde=-math.inf if is_two_sided else 0.0, planned=None, is_two_sided=is_two_sided)
    if is_number and case.present is not None:
        plan = plan._replace(typed_n=float(case.present))
    if rho is None and case.seeds is not None and plan.rho is not None:
        rho = case.seeds.rho
    return plan._replace(rho=None if is_number else rho, effect=plan.effect if effect is None else effect)


# --- what it takes ----------------------------------------------------------------------------------------------------


class _Need(NamedTuple):
    """Numbers of runs, and what is left to pay of them in run-hours."""

    replicates: int
    baseline_runs: int | None
    left: float


class _Answer:
    """Searches for the cheapest runs that decide, and words what it found."""

    def __init__(self, case: _Case, plan: Plan | Rates, likely: float, replicates: int | None) -> None:
        self._case, self._plan, self._likely = case, plan, likely
        self._size = plan.trials if isinstance(plan, Rates) else plan.n_baseline
        self._is_number = self._size is None or isinstance(case.design.baseline, float | int)
        design = case.experiment.design if case.experiment is not None else None
        asked = replicates or (design.replicates if design is not None else None)
        self._paths = _PATHS if isinstance(plan, Rates) or plan.rho is None else _PATHS // 2  # pairs take long
        self._now = max(asked, case.there) if asked is not None else case.there or None
        self.curve = cache(self._curve)

    def _at(self, size: int | None) -> Plan | Rates:
        if self._is_number:
            return self._plan
        plan = self._plan
        return plan._replace(trials=size) if isinstance(plan, Rates) else plan._replace(n_baseline=size)

    def _curve(self, size: int | None, runs: int, paths: int) -> list[Chances]:
        return chances(self._at(size), runs, paths=paths)

    def _sizes(self) -> list[int | None]:
        if self._is_number:
            return [self._size]
        least = self._case.present or _BASELINES[0]
        return [least, *(size for size in _BASELINES if size > least)]

    def _need(self) -> tuple[_Need | None, int | None]:
        """Returns the cheapest numbers with the wanted chance, and the least size of the baseline that has it.

        One look at the end, which is quick, says where to look closer.
        """
        roughly = {size: about for size in self._sizes() if (about := self._roughly(size)) is not None}
        found: list[_Need] = []
        for size in sorted(roughly, key=lambda size: (self._left(roughly[size], size), size or 0))[:_CLOSER]:
            for most in (roughly[size] + roughly[size] // 4 + 3, MOST_REPLICATES):
                curve = self.curve(size, most, self._paths)
                runs = next((each.n for each in curve if each.support >= self._likely), None)
                if runs is not None:
                    found.append(_Need(runs, size, self._left(runs, size)))
                    break
        if not found:
            return None, None
        sizes = [need.baseline_runs for need in found if need.baseline_runs is not None]
        return min(found, key=lambda need: (need.left, need.replicates)), min(sizes) if sizes else None

    def _roughly(self, size: int | None) -> int | None:
        """Returns the least number of runs that have about the wanted chance at one look; None above the most."""
        plan = self._at(size)
        if isinstance(plan, Rates):
            return next((each.n for each in self.curve(size, MOST_REPLICATES, 0) if each.support >= self._likely), None)
        low, high = plan.least - 1, MOST_REPLICATES
        likely = self._likely - _ROUGH
        if one_look(plan, high) < likely:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if one_look(plan, middle) >= likely else (middle, high)
        return high

    def _left(self, replicates: int, size: int | None) -> float:
        """Returns the run-hours, or where a run costs nothing the runs, that are not there yet."""
        own, others = self._missing(replicates, size)
        hours, theirs = self._case.hours, self._case.baseline_hours
        return own * hours + others * theirs if hours and theirs else float(own + others)

    def _missing(self, replicates: int, size: int | None) -> tuple[int, int]:
        own = max(replicates - self._case.there, 0)
        return own, 0 if size is None or self._is_number else max(size - len(self._case.values), 0)

    def document(self) -> Power:
        """Returns what `power` answers."""
        need, least = self._need()
        sizes = self._sizes()
        runs, size = (need.replicates, need.baseline_runs) if need else (MOST_REPLICATES, sizes[-1])
        at = self._chance(runs, size)
        ceiling = self._ceiling(least)
        now = None if self._now is None else self._chance(self._now, self._size)
        hours = None
        if need is not None and self._case.hours is not None:
            own, others = self._missing(runs, size)
            hours = own * self._case.hours + others * self._case.baseline_hours
        return {
            "replicates": need.replicates if need else None,
            "baseline_runs": need.baseline_runs if need else None,
            "chance_to_decide": at["chance_to_decide"],
            "chance_to_be_sure": at["chance_to_be_sure"],
            "chance_to_refute": self._refuted(runs, size, at["chance_to_decide"]),
            "ceiling": ceiling,
            "sentence": self._sentence(need, at, now, ceiling, hours),
            "now": now,
            "chances": self._table([self._size, size]),
            "run_hours": hours,
            "plan": {
                "hypothesis_id": self._case.hypothesis.id if self._case.hypothesis else None,
                "experiment_id": self._case.experiment.id if self._case.experiment else None,
                "metric": self._case.design.metric,
                "claim": self._case.design.claim or "improves",
                "mde": self._case.design.mde,
                "effect": self._effect(),
                "noise": None if isinstance(self._plan, Rates) else self._plan.sd,
                "noise_source": self._case.noise.source,
                "noise_runs": self._case.noise.runs,
                "tau": 0.0 if isinstance(self._plan, Rates) else self._plan.tau,
                "seed_correlation": None if isinstance(self._plan, Rates) else self._plan.rho,
                "seed_pairs": self._case.seeds.pairs if self._case.seeds else 0,
                "confidence": self._plan.support,
                "wanted_chance": self._likely,
            },
        }

    def _effect(self) -> float:
        return self._plan.rate - self._plan.baseline if isinstance(self._plan, Rates) else self._plan.effect

    def _chance(self, runs: int, size: int | None) -> PowerChance:
        return self._row(self.curve(size, runs, self._paths)[-1], size)

    def _refuted(self, runs: int, size: int | None, supported: float) -> float | None:
        """Returns the chance to refute the claim where there is no effect; None where nothing refutes it."""
        plan = self._at(size)
        if plan.mde <= 0:
            return None
        if plan.prior == 0.5 and isinstance(plan, Plan) and math.isclose(plan.effect - plan.null, plan.mde):
            return supported  # as far from what it is tested against
        none = plan._replace(rate=plan.baseline) if isinstance(plan, Rates) else plan._replace(effect=0.0)
        return round(chances(none, runs, paths=self._paths)[-1].refute, 4)

    def _ceiling(self, least: int | None) -> PowerCeiling:
        plan = self._plan
        found = self.curve(self._size, MOST_RUNS, _QUICK)[-1]
        top: float | None = None
        if isinstance(plan, Plan):
            prior = math.log(plan.prior / (1 - plan.prior))
            top = round(probability(prior + min(max(most_log_e(plan), 0.0), math.log(99))), 4)
        return {"baseline_runs": self._size, "chance": round(found.support, 4), "confidence": top,
                "baseline_runs_needed": least}  # fmt: skip

    def _table(self, sizes: Sequence[int | None]) -> list[PowerChance]:
        found = []
        for size in dict.fromkeys(sizes):
            by = {each.n: each for each in self.curve(size, max(_SHOWN), _PATHS // 2)}
            found += [self._row(by[n], size) for n in _SHOWN if n in by]
        return found

    def _row(self, found: Chances, size: int | None) -> PowerChance:
        return {"replicates": found.n, "baseline_runs": size, "chance_to_decide": round(found.support, 4),
                "chance_to_be_sure": round(found.sure_support, 4)}  # fmt: skip

    # --- in words -----------------------------------------------------------------------------------------------------

    def _sentence(
        self, need: _Need | None, at: PowerChance, now: PowerChance | None, ceiling: PowerCeiling, hours: float | None
    ) -> str:
        what = f"confidence {self._plan.support:g}"
        said = []
        if now is not None:
            said.append(f"{self._numbers(now['replicates'], self._size)} reach {what} with a chance of "
                        f"{now['chance_to_decide']:.0%}, if the effect is {self._effect():.3g}")  # fmt: skip
        elif need is None:
            said.append(f"no number of runs up to {MOST_REPLICATES} was found that reaches {what} with a chance of "
                        f"{self._likely:.0%}, if the effect is {self._effect():.3g}")  # fmt: skip
        if need is not None:
            price = "" if hours is None else f" ({shown_hours(hours)} to pay)"
            one = f"{self._numbers(need.replicates, need.baseline_runs)} have {at['chance_to_decide']:.0%}{price}"
            if now is None:
                one = f"{self._numbers(need.replicates, need.baseline_runs)} reach {what} with a chance of " \
                      f"{at['chance_to_decide']:.0%}{price}, if the effect is {self._effect():.3g}"  # fmt: skip
            said.append(one)
        said.append(self._of_ceiling(need, ceiling))
        words = "; ".join(filter(None, said))
        return f"{words[0].upper()}{words[1:]}. {self._of_noise()}."

    def _numbers(self, runs: int, size: int | None) -> str:
        against = "" if size is None or self._is_number else f" against {counted(size, 'baseline run')}"
        return counted(runs, "replicate") + against

    def _of_ceiling(self, need: _Need | None, ceiling: PowerCeiling) -> str:
        size, needed = ceiling["baseline_runs"], ceiling["baseline_runs_needed"]
        if size is None or (need is not None and need.baseline_runs == size and ceiling["chance"] >= self._likely):
            return ""
        end = f"runs without end beside {counted(size, 'baseline run')} have {ceiling['chance']:.0%}"
        if ceiling["chance"] >= self._likely or self._is_number:
            return end
        return f"{end}, {f'and {needed} can carry it' if needed else f'and no {_BASELINES[-1]} carry it'}"

    def _of_noise(self) -> str:
        noise, seeds = self._case.noise, self._case.seeds
        if isinstance(self._plan, Rates):
            return f"The baseline's rate is taken to be {self._plan.baseline:.3g}"
        how = {"measured": f"as measured on {counted(noise.runs, 'run')}", "declared": "as declared, not measured"}
        words = f"Noise {noise.noise.sd:.3g} a run, {how.get(noise.source, 'as given')}"
        if self._plan.rho and seeds is not None and seeds.pairs:
            words += f"; seed correlation {self._plan.rho:.2f}, of {seeds.pairs} pairs"
        return words
