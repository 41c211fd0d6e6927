"""How many runs would decide: what e-values need at a sample size, and the chance to get there at one look.

Pure. The noise is taken as given and normal. One look at the end is assumed: within a few points of a look after each
run from five runs on, and below it where seeds are shared; `perpetual_scorers.looks` simulates each look. Imported by
`power` and by refusals of designs that cannot decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perpetual.science.evalues import arm, either, log_e, winsorised
from perpetual.science.evidence import log_bayes_factor_binary
from perpetual.science.rates import Count, log_e_above, luck_of_rate
from perpetual.science.reach import MOST_RUNS, chance, critical, pairs_of, runs_for, statistic_of, two_variances

if TYPE_CHECKING:
    Json = Mapping[str, Any]

__all__ = ["MOST_RUNS", "SURE", "Noise", "Plan", "Rates", "bars", "chance", "critical", "is_hopeless", "most_log_e",
           "noise_of", "one_look", "plan_of", "rate_log_e", "runs_for", "statistic_of", "two_variances"]  # fmt: skip

SURE = 20.0  # e-value from which on "Helps" is said
_LEAST_BAR = 0.1  # nats
_Z95 = 1.6449
_TINY_RATE = 1e-9
_HOPELESS = 0.03
_NEAR = 0.5  # standard errors


class Plan(NamedTuple):
    """A design: what is assumed of it, and what its e-values are tested against; in the metric's units, oriented.

    Attributes:
        effect: the true effect.
        sd: noise of one run.
        n_baseline: runs of the baseline, all before the first look; None for a number.
        null: the effect that a support exceeds: 0, or the mde of the claim `at_least`.
        mde: the effect that a refutation falls below.
        typed_n: runs that a number was measured with; None takes it as exact.
        rho: correlation of the runs on seeds that both arms share; None where they share none.
        tau: sd of what all runs of the claim share beside the effect: the luck of implementation and test items.
        planned: the mde in units of a noise that was declared before any run.
        support: confidence from which on it is supported.
        refute: the same of refuted.
        prior: confidence before any run.
        least: runs without which nothing is decided.
        is_two_sided: an effect of either sign supports it.
    """

    effect: float
    sd: float
    n_baseline: int | None
    null: float = 0.0
    mde: float = 0.0
    typed_n: float | None = None
    rho: float | None = None
    tau: float = 0.0
    planned: float | None = None
    support: float = 0.8
    refute: float = 0.2
    prior: float = 0.5
    least: int = 2
    is_two_sided: bool = False


class Rates(NamedTuple):
    """A design of success rates, oriented: a success is what is claimed to become more frequent."""

    rate: float  # the true one
    baseline: float
    trials: int | None  # of the baseline; None for a rate taken as exact
    null: float = 0.0
    mde: float = 0.0
    support: float = 0.8
    refute: float = 0.2
    prior: float = 0.5
    least: int = 2


def bars(plan: Plan | Rates, sign: float) -> tuple[float, float]:
    """Returns the log e-values of a verdict (1 a support, -1 a refutation) and of a sure one.

    What was measured must pass the threshold by itself, and with the prior.
    """
    support, refute, prior = (math.log(p / (1 - p)) for p in (plan.support, plan.refute, plan.prior))
    bar = support if sign > 0 else -refute
    bar = max(bar, bar - sign * prior, _LEAST_BAR)
    # Of the mean of the e-values of either sign the other one is taken as nothing.
    both = math.log(2) if sign > 0 and isinstance(plan, Plan) and plan.is_two_sided else 0.0
    return bar + both, max(bar, math.log(SURE)) + both


class Noise(NamedTuple):
    """Spread of one run, and with how many degrees of freedom it is known."""

    sd: float
    df: float

    @property
    def low(self) -> float:
        """Returns its lower 95 % limit, of normal noise (Wilson and Hilferty 1931, PNAS 17)."""
        share = 2 / (9 * self.df)
        return self.sd / math.sqrt((1 - share + _Z95 * math.sqrt(share)) ** 3)


def noise_of(arms: Sequence[Sequence[float]]) -> Noise | None:
    """Returns the spread of runs within arms, outliers tamed; None with less than two degrees of freedom.

    An arm whose runs measured the same shows no spread, as its seeds may not have been applied: it is left out.
    """
    tamed = [arm(values) for values in winsorised(arms)[0] if len({*values}) > 1]
    df, ss = sum(each.n - 1 for each in tamed), math.fsum(each.ss for each in tamed)
    return Noise(math.sqrt(ss / df), df) if df > 1 and ss > 0 else None


def plan_of(
    design: Json,
    rule: Json,
    noise: float,
    baseline: Sequence[float] | float,
    size: int | None,
) -> Plan | Rates:
    """Returns the plan of a recorded claim of an mde; the true effect is what it was planned for.

    Args:
        design: with the keys of an experiment's design.
        rule: support, refute, prior and least.
        noise: sd of one run; unused of a rate.
        baseline: its values, or a number.
        size: runs that the baseline has or is to have; None for a number.
    """
    null, mde = float(design.get("null_effect") or 0.0), float(design["mde"])
    values = [baseline] if isinstance(baseline, float | int) else [*baseline]
    runs = design.get("baseline_runs") if size is None else None
    if design["kind"] == "binary":
        rate = math.fsum(values) / len(values)
        rate = rate if design["direction"] == "max" else 1 - rate
        return Rates(min(rate + null + mde, 1.0), rate, runs if size is None else size, null, mde, **rule)
    items = design.get("items")
    luck = luck_of_rate(values, items) if items and values else None
    declared = design.get("noise")
    return Plan(
        null + mde,
        noise,
        size,
        null,
        mde,
        runs,
        0.0 if design.get("paired") and size else None,
        math.hypot(design.get("tau") or 0.0, luck or 0.0),
        mde / declared if declared else None,
        **rule,
    )


def one_look(plan: Plan | Rates, n: int, sign: float = 1.0) -> float:
    """Returns about the chance of a verdict (1 a support, -1 a refutation) at one look at `n` runs.

    Of rates the baseline's one is taken as exact.
    """
    bar = bars(plan, sign)[0]
    if isinstance(plan, Rates):
        rate = min(max(plan.rate if sign > 0 else 1 - plan.rate, _TINY_RATE), 1 - _TINY_RATE)
        least = next((k for k in range(n + 1) if rate_log_e(plan, k, n, sign, plan.baseline) >= bar), n + 1)
        hit, miss, ways = math.log(rate), math.log1p(-rate), math.lgamma(n + 1)
        logs = (
            ways - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * hit + (n - k) * miss for k in range(least, n + 1)
        )
        return math.fsum(map(math.exp, logs))
    if n < 2:
        return 0.0
    effect, var = plan.effect - plan.null if sign > 0 else plan.mde - plan.effect, plan.sd**2
    alone = two_variances(effect, n, var, plan.n_baseline, var, typed_n=plan.typed_n, fixed=plan.tau**2)
    pairs = min(n, plan.n_baseline or 0)
    if plan.rho is None or pairs < 2:
        return chance(alone, math.exp(bar))
    together = pairs_of(effect, plan.sd, pairs, plan.rho, plan.tau)
    return max(chance(each, math.exp(bar), paired=True) for each in (alone, together))


def rate_log_e(plan: Rates, hits: int, n: int, sign: float, against: Count | float) -> float:
    """Returns the log e-value of so many successes, or where `sign` is -1 failures, beside a baseline's count."""
    if isinstance(against, Count):
        others: Count | float = against if sign > 0 else Count(against.n - against.k, against.n)
    else:
        others = against if sign > 0 else 1 - against
    found = log_e_above(Count(hits, n), others, plan.null if sign > 0 else -plan.mde)
    if isinstance(against, Count) or plan.null or not plan.mde:
        return found
    successes, planned = hits if sign > 0 else n - hits, min(plan.baseline + plan.mde, 1.0)
    return either(found, sign * log_bayes_factor_binary(successes, n, p1=planned, p0=plan.baseline))


def is_hopeless(plan: Plan | Rates, runs: int) -> bool:
    """Returns whether the design decides nothing: with these runs, or with any number beside that baseline.

    That is where no verdict comes three points in a hundred more often where it is right than by luck where it is
    wrong, at one look; or where the effect is less than half a standard error of what stays unknown with runs without
    end.
    """
    if isinstance(plan, Rates):
        none: Plan | Rates = plan._replace(rate=plan.baseline)
        over, luck = plan.rate - plan.baseline - plan.null, 0.0
        sd, size = math.sqrt(plan.baseline * (1 - plan.baseline)), plan.trials or 0.0
    else:
        none, over, luck = plan._replace(effect=0.0), plan.effect - plan.null, plan.tau
        apart = min(1.0, math.sqrt(2 * (1 - (plan.rho or 0.0))))  # of what is left of seeds that both arms share
        sd, size = plan.sd * apart, plan.n_baseline or plan.typed_n or 0.0
    if size and over < _NEAR * math.hypot(sd / math.sqrt(size), luck):
        return True
    gains = (one_look(plan, runs) - one_look(none, runs), one_look(none, runs, -1.0) - one_look(plan, runs, -1.0))
    return max(gains) < _HOPELESS


def most_log_e(plan: Plan) -> float:
    """Returns the log e-value of a support with runs without end, where the effect comes out as it is."""
    pairs, effect, var = min(MOST_RUNS, plan.n_baseline or 0), plan.effect - plan.null, plan.sd**2
    alone = log_e(
        two_variances(effect, MOST_RUNS, var, plan.n_baseline, var, typed_n=plan.typed_n, fixed=plan.tau**2),
        planned=plan.planned,
    )
    if plan.rho is None or pairs < 2:
        return alone
    return either(alone, log_e(pairs_of(effect, plan.sd, pairs, plan.rho, plan.tau), planned=plan.planned))
