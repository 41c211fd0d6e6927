"""Refusing a claim that cannot be decided, before hours are spent on it, with the numbers that could decide it.

Only what is known to be hopeless is refused (`perpetual.science.planning.is_hopeless`): the first claim of a
hypothesis, at the lower 95 % limit of the noise that was measured on its baseline, or at a fourth of a declared one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.errors import UsageError
from perpetual.lab.context import Context
from perpetual.lab.evidence.stale import baseline_values, parts_of
from perpetual.lab.kinds import EXPERIMENT, RUN, HypothesisRow
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody
    from perpetual.science.planning import Noise, Plan, Rates

__all__ = ["is_underpowered"]

_FEWEST = 3  # one or two replicates are a first look, which may be extended
_GUESS = 0.25  # of a declared noise: a guess is given the benefit of the doubt
_SHARED_RHO = 0.99  # which seeds that are shared may have: only pairs of runs show it
_LIKELY = 0.8
_BASELINES = (4, 6, 8, 12, 16, 24, 32, 48, 64)
_MOST_MDES = 40


def is_underpowered(ctx: Context, hypothesis: HypothesisRow | None, design: DesignBody, *, allowed: bool) -> bool:
    """Returns whether the design is known to decide nothing, and `allowed` all the same.

    Raises:
        UsageError: (underpowered) if it is not allowed.
    """
    if hypothesis is None or design["claim"] is None or design["mde"] is None or design.get("proxy_of"):
        return False
    if hypothesis.body.get("n_measured"):  # by then more is known than a plan
        return False
    from perpetual.science.planning import Noise, noise_of, plan_of

    baseline = baseline_values(ctx, design)
    values = [*baseline.values()] if isinstance(baseline, dict) else []
    against = baseline if isinstance(baseline, float) else values
    measured, declared = noise_of([values]), design["noise"]
    noise = measured or (Noise(declared, 0.0) if declared else None)
    least = measured.low if measured else _GUESS * (declared or 0.0)
    if against == [] if design["kind"] == "binary" else noise is None:
        return False
    planned = sum(ctx.need(EXPERIMENT, id).body["design"]["replicates"] for id in parts_of(ctx, design))
    methodology = ctx.config.methodology
    rule = {
        "support": methodology["confidence_support_threshold"],
        "refute": methodology["confidence_refute_threshold"],
        "prior": hypothesis.body["prior"],
        "least": methodology["min_replicates"],
    }
    plan = plan_of(design, rule, least, against, max(len(values), planned) or None)
    runs = max(_FEWEST, design["replicates"] + _other_replicates(ctx, hypothesis.id, design))
    if not _is_hopeless(plan, runs):
        return False
    if allowed:
        return True
    raise UsageError(
        f"{counted(runs, 'replicate')} cannot decide an mde of {design['mde']:g} in {design['metric']}",
        hint=f"{_no_go(ctx, design, values, noise)}; {_ways_out(plan, noise, runs)}--underpowered proposes it anyway",
        code="underpowered",
    )


def _is_hopeless(plan: Plan | Rates, runs: int) -> bool:
    from perpetual.science.planning import Rates, is_hopeless

    if not isinstance(plan, Rates):
        if plan.mde >= plan.sd:
            return False  # as most designs: nothing is computed for them
        plan = plan._replace(planned=None, rho=plan.rho if plan.rho is None else _SHARED_RHO)
    return is_hopeless(plan, runs)


def _other_replicates(ctx: Context, hypothesis_id: str, design: DesignBody) -> int:
    """Returns the replicates of the hypothesis's other claims with that metric and baseline: all count together."""
    others = [item.body for item in ctx.store.find(EXPERIMENT, hypothesis_id=hypothesis_id)]
    return sum(
        other["design"]["replicates"]
        for other in others
        if other["status"] not in ("rejected", "expired")
        and other["design"]["claim"] is not None
        and all(other["design"][key] == design[key] for key in ("metric", "baseline"))
    )


def _no_go(ctx: Context, design: DesignBody, values: Sequence[float], noise: Noise | None) -> str:
    """Returns the baseline with its standard error, the best that is known, and the noise."""
    metric, baseline = design["metric"] or "", design["baseline"]
    said = [f"NO-GO: baseline {baseline}"]
    if values:
        mean = math.fsum(values) / len(values)
        error = noise.sd if noise else math.sqrt(mean * (1 - mean))
        said = [f"{said[0]} {mean:.4g} (standard error {error / math.sqrt(len(values)):.2g}, "
                f"{counted(len(values), 'run')})"]  # fmt: skip
    best = _best(ctx, metric, design["direction"])
    said += [] if best is None else [f"best known {best[1]:.4g} ({best[0]})"]
    said += [] if noise is None else [f"noise {noise.sd:.2g} a run"]
    return ", ".join(said)


def _best(ctx: Context, metric: str, direction: str | None) -> tuple[str, float] | None:
    """Returns the experiment with the best mean at full scale, and that mean."""
    found = []
    for item in ctx.store.find(EXPERIMENT):
        design = item.body["design"]
        if design["metric"] != metric or design.get("proxy_of"):
            continue
        runs = [run.body for run in ctx.store.find(RUN, experiment_id=item.id)]
        values = [
            value for run in runs if run["status"] == "done" and (value := run["metrics"].get(metric)) is not None
        ]
        if values:
            found.append((item.id, math.fsum(values) / len(values)))
    return (min if direction == "min" else max)(found, key=lambda each: each[1], default=None)


def _ways_out(plan: Plan | Rates, noise: Noise | None, runs: int) -> str:
    """Returns the numbers with a chance of 80 %."""
    from perpetual.science.planning import MOST_RUNS, Rates, bars, chance, one_look, runs_for, statistic_of

    found = []
    if isinstance(plan, Rates):
        enough = next((n for n in range(runs, MOST_RUNS) if one_look(plan, n) >= _LIKELY), None)
        found.append(f"more than {MOST_RUNS} replicates" if enough is None else counted(enough, "replicate"))
    elif noise is not None:
        bar = math.exp(bars(plan, 1.0)[0])
        size = plan.n_baseline if plan.typed_n is None else max(1, round(plan.typed_n))
        for others in [size, *(more for more in _BASELINES if more > (size or math.inf))]:
            enough = runs_for(plan.effect - plan.null, noise.sd, others, bar, tau=plan.tau, likely=_LIKELY)
            if enough is not None:
                against = f" against {counted(others, 'baseline run')}" if others else ""
                found.append(counted(enough, "replicate") + against)
                break
        else:
            found.append(f"more than {MOST_RUNS} replicates")
        for step in range(1, _MOST_MDES):
            mde = float(f"{max(plan.mde, noise.sd / 4) * 1.25**step:.2g}")
            luck = plan.tau * mde / plan.mde
            if chance(statistic_of(mde, noise.sd, runs, size, tau=luck), bar) >= _LIKELY:
                found.append(f"--mde {mde:g}")
                break
    return f"80 % chance: {', or '.join(found)}; "
