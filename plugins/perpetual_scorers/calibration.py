"""Calibration of the evidence rule, measured: its calibration, and false support where one looks after every run.

Imported by tests and for audits of the rule; pure and seeded, standard library only. The effect that would be worth
having is 1, no effect is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from perpetual.science.evalues import arm, log_e, two_arms
from perpetual.science.evidence import probability
from perpetual.science.intervals import student_quantile
from perpetual.science.judgement import judge
from perpetual_scorers.earlier_rule import log_odds
from perpetual_scorers.figures import Said, brier_score, calibration_error, interval, said_true

__all__ = ["CalibrationRow", "StoppingRow", "calibration", "optional_stopping", "runs_needed"]

BASELINE_RUNS = 4
LOOKS = 50
_SPREADS = (0.1, 0.3, 0.8)  # between implementations
_NOISE = 1.2  # of a replicate, where calibration is measured
_CORRELATION = 0.8  # of seeds that are shared
_MOST_REPLICATES = 8
_FLOOR = 0.01  # nearest to certainty that the rules of thumb go
_MISDECLARED = math.log(2)  # a wrong noise is off by a factor of 0.5 to 2

Values = Sequence[float]


class CalibrationRow(NamedTuple):
    """A rule's calibration; `low` and `high` bound its Brier score by a 95 % bootstrap."""

    rule: str
    brier: float
    low: float
    high: float
    log_loss_bits: float
    ece: float
    said_true: Said
    said_untrue_true_share: float | None  # of those said to be true with at most 0.2


class StoppingRow(NamedTuple):
    """Share of true nulls ever said to be supported; `bound` is the rule's promise at any effect of 0 or less."""

    rule: str
    bound: float | None
    no_effect: float
    harm: float  # an effect of -0.5
    twice_the_noise: float  # no effect, and runs scatter twice as wide as declared


class _Case(NamedTuple):
    """One hypothesis that was measured: what a rule may look at."""

    values: Values
    baseline: Values
    tau: float
    declared: float  # the wrong noise
    shared: tuple[Values, Values]  # the same claim and its baseline on shared seeds


def _judged(values: Values, baseline: Values, tau: float, noise: float | None, *, paired: bool) -> float:
    """Returns the confidence of the lab."""
    claim = {"metric": "m", "direction": "max", "mde": 1.0, "noise": noise, "tau": tau, "paired": paired}
    runs, others = (
        [{"seed": n if paired else f"{arm}{n}", "value": value, "status": "done"} for n, value in enumerate(each)]
        for arm, each in (("own", values), ("base", baseline))
    )
    return judge(claim, others, runs, {})["confidence"]


def _earlier(case: _Case) -> float:
    return probability(log_odds([(case.values, case.baseline, case.tau)]))


def _product(case: _Case) -> float:
    return probability(sum((value - 0.5) / _NOISE**2 for value in _differences(case)))


def _differences(case: _Case) -> list[float]:
    center = math.fsum(case.baseline) / len(case.baseline)
    return [value - center for value in case.values]


def _steps(case: _Case) -> float:
    p = 0.5
    for value in _differences(case):
        p = min(max(p + math.copysign(0.1, value - 0.5), _FLOOR), 1 - _FLOOR)
    return p


_RULES: dict[str, Callable[[_Case], float]] = {
    "the lab's": lambda case: _judged(case.values, case.baseline, case.tau, None, paired=False),
    "the lab's, noise misdeclared x0.5-2": lambda case: _judged(
        case.values, case.baseline, case.tau, case.declared, paired=False
    ),
    "the lab's, shared seeds correlate 0.8": lambda case: _judged(*case.shared, case.tau, None, paired=True),
    "that of 7c2e50b": _earlier,
    "product over runs, noise known, tau ignored": _product,
    "+-0.1 a run by sign": _steps,
    "last run's verdict, 0.9 or 0.1": lambda case: 0.9 if _differences(case)[-1] > 0.5 else 0.1,
}


def _case(rng: Random) -> tuple[bool, _Case]:
    is_true, tau = rng.random() < 0.5, rng.choice(_SPREADS)
    mean = float(is_true) + rng.gauss(0.0, tau)
    count = rng.randint(1, _MOST_REPLICATES)
    values = [rng.gauss(mean, _NOISE) for _ in range(count)]
    declared = _NOISE * math.exp(rng.uniform(-_MISDECLARED, _MISDECLARED))
    baseline = [rng.gauss(0.0, _NOISE) for _ in range(BASELINE_RUNS)]
    luck = [rng.gauss(0.0, _NOISE * math.sqrt(_CORRELATION)) for _ in range(max(count, BASELINE_RUNS))]
    own = _NOISE * math.sqrt(1 - _CORRELATION)
    shared = [mean + each + rng.gauss(0.0, own) for each in luck[:count]], [each + rng.gauss(0.0, own) for each in luck]
    return is_true, _Case(values, baseline, tau, declared, shared)


def calibration(hypotheses: int = 2000, seed: int = 2) -> list[CalibrationRow]:
    """Returns the calibration of the rule, of an earlier one and of three rules of thumb, on the same hypotheses.

    Each is true with probability one half and has one design with 1 to 8 replicates beside 4 runs of its baseline.
    """
    rng = Random(f"calibration:{seed}")
    cases = [_case(rng) for _ in range(hypotheses)]
    rows = []
    for rule, confidence in _RULES.items():
        said = [(is_true, confidence(case)) for is_true, case in cases]
        low, high = interval([(p - is_true) ** 2 for is_true, p in said], str(seed))
        loss = -math.fsum(math.log2(p if is_true else 1 - p) for is_true, p in said) / len(said)
        untrue = [is_true for is_true, p in said if p <= 0.2]
        share = sum(untrue) / len(untrue) if untrue else None
        rows.append(
            CalibrationRow(rule, brier_score(said), low, high, loss, calibration_error(said), said_true(said), share)
        )
    return rows


# --- optional stopping ------------------------------------------------------------------------------------------------


def _log_e(values: Values, baseline: Values) -> list[float]:
    """Returns the log e-value of an effect above none after each look, as the lab computes it of one design."""
    against = arm(baseline)
    return [log_e(two_arms([values[: n + 1]], against), planned=1.0) for n in range(len(values))]


def _log_odds(values: Values, baseline: Values) -> list[float]:
    """Returns the log odds of the rule of 7c2e50b after each look."""
    return [log_odds([(values[: n + 1], baseline, 0.0)]) for n in range(len(values))]


def _reaches(path: Sequence[float], bar: float, least: int = 1) -> bool:
    return any(value >= bar for value in path[least - 1 :])


def _walks(values: Values) -> bool:
    """Returns whether +-0.1 a run by sign ever reaches 0.8 from 0.5."""
    steps = 0
    for value in values:
        steps = max(steps + (1 if value > 0 else -1), -5)  # a confidence ends at 0
        if steps >= 3:
            return True
    return False


def _peeks(values: Values) -> bool:
    """Returns whether a one-sided t test ever has p < 0.05."""
    total, squares = values[0], values[0] ** 2
    for n, value in enumerate(values[1:], 2):
        total, squares = total + value, squares + value * value
        variance = (squares - total * total / n) / (n - 1)
        if variance > 0 and total / n > student_quantile(0.95, n - 1) * math.sqrt(variance / n):
            return True
    return False


def _said_supported(rng: Random, effect: float, spread: float) -> list[bool]:
    """Returns, for one true null, whether each rule of `_STOPPING` ever calls it supported."""
    values = [rng.gauss(effect, spread) for _ in range(LOOKS)]
    few, many = ([rng.gauss(0.0, spread) for _ in range(count)] for count in (BASELINE_RUNS, 4 * BASELINE_RUNS))
    leaning, finding = math.log(0.8 / 0.2), math.log(0.95 / 0.05)
    found = [_walks(values), _peeks(values)]
    for baseline in (few, many):
        e_values = _log_e(values, baseline)
        found += [_reaches(e_values, leaning), _reaches(e_values, finding)]
    earlier = _log_odds(values, few)
    return [*found, _reaches(earlier, leaning, 2), _reaches(earlier, finding, 2)]


_STOPPING = (
    ("+-0.1 a run, >= 0.8", None),
    ("t-test p < 0.05 at every look", None),
    ("e-value for 0.8, 4 baseline runs", 1 / 4),
    ("e-value for 0.95, 4 baseline runs", 1 / 19),
    ("e-value for 0.8, 16 baseline runs", 1 / 4),
    ("e-value for 0.95, 16 baseline runs", 1 / 19),
    ("0.8 by the rule of 7c2e50b, 4 baseline runs", 1 / 4),
    ("0.95 by the rule of 7c2e50b, 4 baseline runs", 1 / 19),
)


def optional_stopping(nulls: int = 2000, seed: int = 1) -> list[StoppingRow]:
    """Returns the rate of false support with a look after each of up to 50 runs of a design, until the first success.

    An effect of 1 and a noise of 1 were declared. The baseline is as noisy as the claim: the rules of thumb are spared
    its error, and compare with its true mean.
    """
    shares = []
    for effect, spread in ((0.0, 1.0), (-0.5, 1.0), (0.0, 2.0)):
        rng = Random(f"stopping:{seed}")  # the same draws in each column
        said = [_said_supported(rng, effect, spread) for _ in range(nulls)]
        shares.append([sum(column) / nulls for column in zip(*said, strict=True)])
    return [
        StoppingRow(rule, bound, *row) for (rule, bound), row in zip(_STOPPING, zip(*shares, strict=True), strict=True)
    ]


# --- shared seeds -----------------------------------------------------------------------------------------------------

_PLANNED_NOISE, _PLANNED_SPREAD = 0.8, 0.2  # of an effect of 1
_LIKELY = 0.8


def runs_needed(
    threshold: float, correlation: float, *, paired: bool, trials: int = 300, most: int = 60, seed: int = 7
) -> int | None:
    """Returns the least runs of a claim, with as many of its baseline, that support a true effect four times in five.

    Args:
        threshold: the confidence that supports.
        correlation: of two runs on one seed.
        paired: whether the two arms share their seeds.
        trials: simulated claims of each size, judged once.
        most: runs from which on None is answered.
        seed: of all that is drawn.
    """

    def supports(rng: Random, size: int) -> bool:
        mean = 1.0 + rng.gauss(0.0, _PLANNED_SPREAD)
        arms = []
        luck = [rng.gauss(0.0, math.sqrt(correlation)) for _ in range(size)]
        for shift in (mean, 0.0):
            own = luck if paired else [rng.gauss(0.0, math.sqrt(correlation)) for _ in range(size)]
            noise = math.sqrt(1 - correlation)
            arms.append([shift + _PLANNED_NOISE * (each + rng.gauss(0.0, noise)) for each in own])
        p = _judged(arms[0], arms[1], _PLANNED_SPREAD, _PLANNED_NOISE, paired=paired)
        return p >= threshold

    for size in range(2, most):
        rng = Random(f"runs:{seed}")
        if sum(supports(rng, size) for _ in range(trials)) >= _LIKELY * trials:
            return size
    return None
