"""The standing of a sweep: what is believed of each setting, and what the present pick may lose.

Pure: no I/O, no clock. The state is as `perpetual.science.propose` takes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from perpetual_scorers.proposing.surrogate import Belief, cholesky
from perpetual_scorers.proposing.sweep import Sweep

__all__ = ["Believed", "Standing", "standing"]

DRAWS = 1000
_LEAST_VALUES = 4  # with fewer nothing is said of regret: the noise is a guess then
_SHARE = 0.975  # of the draws that lose at most that: beyond the 95 % that are said, for what the model gets wrong


class Believed(NamedTuple):
    """Of a setting: mean and sd of its true value, and how often it is the best of those in play."""

    mean: float
    sd: float
    chance: float


class Standing(NamedTuple):
    """The pick, the regret that the model says it stays under with 95 %, and what is believed of the settings in play.

    The bound rests on the model and is no e-value: it is valid at one look, for choosing what to test.
    """

    best: str | None
    regret_bound: float | None
    settings: dict[str, Believed]


def standing(state: Mapping[str, object]) -> Standing:
    """Returns the standing; without a full run it names the best of the furthest rung, and nothing is believed.

    Raises ValueError as `perpetual.science.best` does, but not where nothing has run.
    """
    sweep = Sweep(state)
    if not any(row.seen for row in sweep.settings):
        begun = any(row.curve for row in sweep.settings)
        return Standing(sweep.settings[sweep.best()].id if begun else None, None, {})
    rows, beliefs = sweep.settings, sweep.beliefs()
    best, means = sweep.best(), sweep.means()
    wins, losses = _drawn(sweep, beliefs, best)
    settings = {
        row.id: Believed(sweep.sign * means[i], _sd(beliefs, i, means[i]), wins[i] / DRAWS)
        for i, row in enumerate(rows)
    }
    bound = sorted(losses)[math.ceil(_SHARE * DRAWS) - 1]
    enough = sum(len(row.seen) for row in rows) >= _LEAST_VALUES
    return Standing(rows[best].id, bound if enough else None, settings)


def _drawn(sweep: Sweep, beliefs: list[Belief], best: int) -> tuple[list[int], list[float]]:
    """Returns how often each setting wins a draw of all true values, and what the pick loses in each."""
    rng, roots = sweep.random("standing"), [cholesky(belief.covariance) for belief in beliefs]
    wins, losses = [0] * len(sweep.settings), []
    weights = [belief.weight for belief in beliefs]
    for which in rng.choices(range(len(beliefs)), weights, k=DRAWS):
        drawn = beliefs[which].draw(rng, roots[which])
        top = max(range(len(drawn)), key=drawn.__getitem__)
        wins[top] += 1
        losses.append(drawn[top] - drawn[best])
    return wins, losses


def _sd(beliefs: list[Belief], i: int, mean: float) -> float:
    """Returns the sd of a setting's true value over the mixture of beliefs."""
    spread = math.fsum(
        belief.weight * (belief.noise**2 * max(belief.covariance[i][i], 0.0) + (belief.mean[i] - mean) ** 2)
        for belief in beliefs
    )
    return math.sqrt(spread)
