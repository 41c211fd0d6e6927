"""The claims of a record that were tested, looked at together: their base rate, and the prior that follows from it.

Used by the status, and where a hypothesis is added without a prior of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.lab.context import Context
from perpetual.lab.kinds import HYPOTHESIS
from perpetual.lab.ledger.hypotheses import PRIORS
from perpetual.science.discoveries import ENOUGH, base_rate

if TYPE_CHECKING:
    from perpetual.lab.bodies import HypothesisBody

__all__ = ["EVEN", "prior_of", "tested"]

EVEN = 0.5


def tested(ctx: Context) -> list[HypothesisBody]:
    """Returns the claims that runs were measured for; what was decided by hand was no test."""
    bodies = [item.body for item in ctx.store.find(HYPOTHESIS)]
    return [body for body in bodies if body.get("n_measured") and body.get("decided_by") in (None, "evidence")]


def prior_of(ctx: Context) -> float:
    """Returns the prior of a claim that is added without one: 0.5, or the record's base rate if it is to be that.

    A base rate is known once ten tested claims are decided. No prior is surer than 0.25 or 0.75, wherever it is from.
    """
    if ctx.config.methodology["prior"] != "empirical":
        return EVEN
    bodies = tested(ctx)
    if sum(body["status"] != "open" for body in bodies) < ENOUGH:
        return EVEN
    low, high = PRIORS
    return round(min(max(base_rate(body["e_support"] for body in bodies), low), high), 3)
