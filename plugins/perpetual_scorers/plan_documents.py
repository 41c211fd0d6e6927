"""Documents of `perpetual power` and `perpetual overturn`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Overturn", "OverturnOption", "Power", "PowerCeiling", "PowerChance", "PowerPlan"]


class PowerCeiling(TypedDict):
    """What runs without end reach beside `baseline_runs` (null of a number).

    `chance` is that of the verdict where the effect is as assumed; `confidence` is what it comes to where the effect
    also comes out as it is. `baseline_runs_needed` is the least number beside which the chance is the one that was
    asked for, null where it was not found.
    """

    baseline_runs: int | None
    chance: float
    confidence: float | None
    baseline_runs_needed: int | None


class PowerChance(TypedDict):
    """Chances with so many runs: to decide, and to reach an e-value of 20, from which on the lab says "Helps"."""

    replicates: int
    baseline_runs: int | None
    chance_to_decide: float
    chance_to_be_sure: float


class PowerPlan(TypedDict):
    """What was assumed; effects, noise and tau in the metric's units.

    `noise_source` is given, measured, declared, or rate; `noise_runs` counts the runs that it was measured on, and
    `seed_pairs` the pairs of runs that `seed_correlation` was learned from, null where no seeds are shared.
    """

    hypothesis_id: str | None
    experiment_id: str | None
    metric: str | None
    claim: str
    mde: float | None
    effect: float
    noise: float | None
    noise_source: str
    noise_runs: int
    tau: float
    seed_correlation: float | None
    seed_pairs: int
    confidence: float
    wanted_chance: float


class Power(TypedDict):
    """How many replicates and baseline runs decide a claim, in total, with which chance.

    `replicates` and `baseline_runs` are the cheapest numbers that have the wanted chance, null where none up to the
    limit have it; `chance_to_decide` is theirs, or the best that was found. `now` is the design as it stands.
    `run_hours` is what the runs cost that are not there yet.
    """

    replicates: int | None
    baseline_runs: int | None
    chance_to_decide: float
    chance_to_be_sure: float
    chance_to_refute: float | None
    ceiling: PowerCeiling
    sentence: str
    now: PowerChance | None
    chances: list[PowerChance]
    run_hours: float | None
    plan: PowerPlan


class OverturnOption(TypedDict):
    """More runs of one arm, and what they would have to show.

    `outcome` is the mean of these runs from which on the status changes to `becomes`, `at_least` or `at_most` it; of a
    rate the number of successes. It is null where no outcome was found that does it, and the noise of the runs moves
    it a little. `chance` is how likely the change is given all that was measured. `command` proposes the runs; null
    where no line says it all.
    """

    arm: str
    experiment_id: str
    runs: int
    becomes: str
    outcome: float | None
    side: str
    chance: float
    run_hours: float
    command: str | None


class Overturn(TypedDict):
    """Which runs would change the status of a hypothesis.

    `cheapest` is the option with the fewest run-hours that has a chance of 5 %, or else the likeliest. `is_exact` is
    false where the status rests on more than runs that this can weigh anew.
    """

    hypothesis_id: str
    status: str
    confidence: float
    cheapest: OverturnOption | None
    options: list[OverturnOption]
    is_exact: bool
    sentence: str
