"""Refusing a claim that cannot be decided, before hours are spent on it, as the part in the slot `planner` says.

Only the first claim of a hypothesis is refused. Where no plugin brings a planner, none is.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING

from perpetual.errors import PerpetualError, PluginError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.evidence.stale import baseline_values, parts_of
from perpetual.lab.kinds import EXPERIMENT, RUN, HypothesisRow
from perpetual.toolkit.contained import contained

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody
    from perpetual.science.planner import Planner, Refusal

__all__ = ["is_underpowered", "planner_of"]


def planner_of(ctx: Context) -> Planner | None:
    """Returns the planner in force; None where no plugin brings one."""
    found: Planner | None = ctx.part("planner") if "planner" in ctx.registry.slots else None
    return found


def is_underpowered(ctx: Context, hypothesis: HypothesisRow | None, design: DesignBody, *, allowed: bool) -> bool:
    """Returns whether the design is known to decide nothing, and `allowed` all the same.

    Raises:
        UsageError: (underpowered) if it is not allowed.
    """
    if hypothesis is None or design["claim"] is None or design["mde"] is None or design.get("proxy_of"):
        return False
    if hypothesis.body.get("n_measured") or (planner := planner_of(ctx)) is None:  # by then more is known than a plan
        return False
    baseline, methodology = baseline_values(ctx, design), ctx.config.methodology
    rule = {
        "support": methodology["confidence_support_threshold"],
        "refute": methodology["confidence_refute_threshold"],
        "prior": hypothesis.body["prior"],
        "least": methodology["min_replicates"],
    }
    values = baseline if isinstance(baseline, float) else [*(baseline or {}).values()]
    planned = sum(ctx.need(EXPERIMENT, id).body["design"]["replicates"] for id in parts_of(ctx, design))

    def asked(replicates: int) -> Refusal | None:
        return planner.hopeless(copy(design), rule, values, planned=planned, replicates=replicates)

    try:
        with contained():
            found = asked(design["replicates"])
            if found is not None:  # more runs make no design hopeless, and counting them reads the hypothesis's claims
                found = asked(design["replicates"] + _other_replicates(ctx, hypothesis.id, design))
            is_refused = found is not None and not allowed
            best = _best(ctx, design["metric"] or "", design["direction"]) if is_refused else None
            message, hint = found.words(best) if found is not None else ("", "")
    except PerpetualError:
        raise
    except Exception as problem:
        raise PluginError(
            f"the planner failed, and nothing is proposed: {type(problem).__name__}: {problem}",
            hint="choose another one: perpetual config set slots.planner power",
            code="plugin_broken",
        ) from problem
    if found is None or allowed:
        return found is not None
    raise UsageError(message, hint=hint, code="underpowered")


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
