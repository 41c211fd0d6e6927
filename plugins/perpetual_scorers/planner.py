"""The part in the slot `planner`: refuses a claim that cannot be decided, and learns from runs what later ones bring.

Only what is known to be hopeless is refused (`is_hopeless`): at the lower 95 % limit of the noise that was measured on
the baseline of a claim, or at a fourth of a declared one. The refusal has the numbers that could decide it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Planner, Refusal
from perpetual.toolkit.units import counted
from perpetual_scorers.proposing.planning import (
    MOST_RUNS,
    Noise,
    Plan,
    Rates,
    bars,
    chance,
    is_hopeless,
    noise_of,
    one_look,
    plan_of,
    runs_for,
    statistic_of,
)
from perpetual_scorers.proposing.prospects import StandIn, measured_effect, seed_correlation, stand_in

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody

__all__ = ["Hopeless", "PowerPlanner", "build"]

_FEWEST = 3  # one or two replicates are a first look, which may be extended
_GUESS = 0.25  # of a declared noise: a guess is given the benefit of the doubt
_SHARED_RHO = 0.99  # which seeds that are shared may have: only pairs of runs show it
_LIKELY = 0.8
_BASELINES = (4, 6, 8, 12, 16, 24, 32, 48, 64)
_MOST_MDES = 40


class PowerPlanner(Planner):
    """Refuses by the chance of a verdict at one look; learns as `perpetual_scorers.proposing.prospects` does."""

    def seed_correlation(self, claims: Iterable[Sequence[tuple[float, float]]]) -> float | None:
        """Implements `Planner`."""
        return seed_correlation(claims)

    def measured_effect(self, own: Sequence[float], baseline: Sequence[float]) -> tuple[float, float] | None:
        """Implements `Planner`."""
        return measured_effect(own, baseline)

    def stand_in(self, gaps: Sequence[tuple[float, float, float]]) -> StandIn | None:
        """Implements `Planner`."""
        return stand_in(gaps)

    def hopeless(
        self,
        design: DesignBody,
        rule: Mapping[str, float],
        baseline: Sequence[float] | float,
        *,
        planned: int,
        replicates: int,
    ) -> Refusal | None:
        """Returns why the design of a first claim of an mde decides nothing; None where that is not known.

        Args:
            rule: support, refute, prior and least, as `plan_of` takes them.
            baseline: the values of its runs, or a number.
            planned: replicates of the baseline, run or not; 0 for a number.
            replicates: those of the claim, and of what counts together with it.
        """
        values = [] if isinstance(baseline, float) else [*baseline]
        measured, declared = noise_of([values]), design["noise"]
        noise = measured or (Noise(declared, 0.0) if declared else None)
        least = measured.low if measured else _GUESS * (declared or 0.0)
        if baseline == [] if design["kind"] == "binary" else noise is None:
            return None
        plan = plan_of(design, rule, least, baseline, max(len(values), planned) or None)
        runs = max(_FEWEST, replicates)
        return Hopeless(design, plan, noise, values, runs) if _is_hopeless(plan, runs) else None


class Hopeless(NamedTuple):
    """A design that decides nothing with so many runs; `values` are those of its baseline's runs."""

    design: DesignBody
    plan: Plan | Rates
    noise: Noise | None
    values: Sequence[float]
    runs: int

    def words(self, best: tuple[str, float] | None) -> tuple[str, str]:
        """Returns the message and the hint of a refusal.

        Args:
            best: the experiment with the best mean in the metric, and that mean.
        """
        message = (
            f"{counted(self.runs, 'replicate')} cannot decide an mde of {self.design['mde']:g} "
            f"in {self.design['metric']}"
        )
        ways = _ways_out(self.plan, self.noise, self.runs)
        return message, f"{self._no_go(best)}; {ways}--underpowered proposes it anyway"

    def _no_go(self, best: tuple[str, float] | None) -> str:
        """Returns the baseline with its standard error, the best that is known, and the noise."""
        said = [f"NO-GO: baseline {self.design['baseline']}"]
        if self.values:
            mean = math.fsum(self.values) / len(self.values)
            error = self.noise.sd if self.noise else math.sqrt(mean * (1 - mean))
            said = [f"{said[0]} {mean:.4g} (standard error {error / math.sqrt(len(self.values)):.2g}, "
                    f"{counted(len(self.values), 'run')})"]  # fmt: skip
        said += [] if best is None else [f"best known {best[1]:.4g} ({best[0]})"]
        said += [] if self.noise is None else [f"noise {self.noise.sd:.2g} a run"]
        return ", ".join(said)


def build(options: Mapping[str, object]) -> PowerPlanner:
    """Builds the part."""
    return PowerPlanner()


def _is_hopeless(plan: Plan | Rates, runs: int) -> bool:
    if not isinstance(plan, Rates):
        if plan.mde >= plan.sd:
            return False  # as most designs: nothing is computed for them
        plan = plan._replace(planned=None, rho=plan.rho if plan.rho is None else _SHARED_RHO)
    return is_hopeless(plan, runs)


def _ways_out(plan: Plan | Rates, noise: Noise | None, runs: int) -> str:
    """Returns the numbers with a chance of 80 %."""
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
