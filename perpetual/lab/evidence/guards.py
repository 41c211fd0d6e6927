"""Guard metrics of a claim: what may not get worse by more than a margin, from the claim's own runs.

A claim with guards is supported where its metric is better and each guard is not worse: the smallest of the e-values
counts (intersection-union: Berger 1982, Technometrics 24). A guard that is worse by more than its margin speaks
against the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.errors import UsageError
from perpetual.lab.context import Context
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.hypotheses import check_metric
from perpetual.toolkit.units import finite

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody, FoldRow, GuardBody, Model
    from perpetual.lab.evidence.stale import Comparison

__all__ = ["guarded", "guards_of"]

_MOST = 8
_FORM = "--guard METRIC:max|min:MARGIN, as latency:min:0.05"


def guards_of(words: Sequence[str], claim: str | None, metric: str | None, baseline: object) -> list[GuardBody]:
    """Returns the guards that were asked for; raises UsageError for one that is none."""
    if not words:
        return []
    if claim is None or not isinstance(baseline, str):
        raise UsageError("a guard belongs to a claim against an experiment", hint="--baseline EXPERIMENT, and a claim")
    if len(words) > _MOST:
        raise UsageError(f"{len(words)} guards are too many", hint=f"at most {_MOST}")
    found: list[GuardBody] = []
    for word in words:
        name, direction, margin = [*word.rsplit(":", 2), "", ""][:3]
        if direction not in ("max", "min"):
            raise UsageError(f"the guard {word} has no direction", hint=_FORM)
        try:
            allowed = finite(float(margin), f"the margin of the guard {name}", above=0.0)
        except ValueError:
            raise UsageError(f"the guard {word} has no margin", hint=_FORM) from None
        if check_metric(name) is None or name == metric or name in {other["metric"] for other in found}:
            raise UsageError(f"the guard {word} needs a metric of its own", hint=_FORM)
        found.append({"metric": name, "direction": direction, "margin": allowed})
    return found


def guarded(ctx: Context, id: str, design: DesignBody, compared: Comparison) -> list[tuple[str, Model, list[FoldRow]]]:
    """Returns by name the designs of a claim's guards, and their rows, as the science wants them."""
    found: list[tuple[str, Model, list[FoldRow]]] = []
    for guard in design.get("guards") or ():
        metric, sign = guard["metric"], -1.0 if guard["direction"] == "min" else 1.0
        base = [(run.body["seed"], value) for run in compared.against
                if (value := run.body["metrics"].get(metric)) is not None]  # fmt: skip
        if not base:
            continue
        mean = math.fsum(value for _, value in base) / len(base)
        name, rows, lost = f"{id}#{metric}", [], 0
        for row in compared.rows:
            run = ctx.need(RUN, row["run_id"]) if row["run_id"] is not None else None
            value = run.body["metrics"].get(metric) if run is not None else None
            if value is None:
                lost += 1
                continue
            shifted: FoldRow = {
                **row,
                "id": f"{row['id']}#{metric}",
                "metric": metric,
                "value": sign * (value - mean),
                "design_id": name,
                "content_hash": f"{metric}:{row.get('seed')}={value!r}",
            }
            rows.append(shifted)
        margin = -guard["margin"]
        model: Model = {
            "model": "gaussian", "metric": metric, "mu1": margin, "mu0": margin, "null": margin, "tau": 0.0,
            "sigma": None, "s0": None, "paired": True, "baseline_id": f"{compared.against[0].id}:{metric}",
            "baseline": [sign * (value - mean) for _, value in base], "baseline_seeds": [seed for seed, _ in base],
            "lost": [None] * lost, "baseline_lost": [], "guard_of": id, "margin": guard["margin"],
        }  # fmt: skip
        if compared.stale:
            model["stale"] = [*compared.stale]
        found.append((name, model, rows))
    return found
