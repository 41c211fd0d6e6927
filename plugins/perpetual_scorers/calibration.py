"""Calibration of the evidence rule, measured: its calibration, and false support where one looks after every run.

Imported by tests and for audits of the rule; pure and seeded, standard library only. The effect that would be worth
having is 1, no effect is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from perpetual.science.evalues import log_e, two_arms
from perpetual.science.evidence import DESIGN_CAP_NATS, confidence, probability
from perpetual.science.intervals import student_quantile
from perpetual_scorers.simulate import Said, brier_score, calibration_error, interval, said_true
from perpetual_scorers.student_rule import student_ratio

__all__ = ["CalibrationRow", "StoppingRow", "calibration", "optional_stopping"]

BASELINE_RUNS = 4
LOOKS = 50
_SPREADS = (0.1, 0.3, 0.8)  # between implementations
_NOISE = 1.2  # of a replicate, where calibration is measured
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
    twice_the_noise: float  # no effect, and replicates scatter twice as wide as declared


def _capped(nats: float) -> float:
    return min(max(nats, -DESIGN_CAP_NATS), DESIGN_CAP_NATS)


class _Case(NamedTuple):
    """One hypothesis that was measured: what a rule may look at."""

    values: Values
    tau: float
    sigma: float
    declared: float  # the wrong noise
    floor: float  # sd of the baseline runs


def _pooled(case: _Case, *, sigma: float | None = None, s0: float | None = None, nu0: float = 0.0) -> float:
    nats = student_ratio(case.values, tau=case.tau, sigma=sigma, s0=s0, nu0=nu0)
    return probability(_capped(nats))


def _lab(case: _Case) -> float:
    """Returns the confidence that the lab would state: noise unknown, a wrong one declared."""
    design = {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, "tau": case.tau, "s0": case.declared}
    rows = [{"id": n, "kind": "measured", "design_id": "d", "value": value} for n, value in enumerate(case.values)]
    return confidence({"id": "h", "prior": 0.5}, {"d": design}, rows, {})["confidence"]


def _product(case: _Case) -> float:
    return probability(sum((value - 0.5) / case.sigma**2 for value in case.values))


def _steps(case: _Case) -> float:
    p = 0.5
    for value in case.values:
        p = min(max(p + math.copysign(0.1, value - 0.5), _FLOOR), 1 - _FLOOR)
    return p


_RULES: dict[str, Callable[[_Case], float]] = {
    "the lab's rule": _lab,
    "pooled, noise known": lambda case: _pooled(case, sigma=case.sigma),
    "pooled, noise of 4 baseline runs": lambda case: _pooled(case, s0=case.floor, nu0=BASELINE_RUNS - 1.0),
    "noise misdeclared x0.5-2, trusted": lambda case: _pooled(case, sigma=case.declared),
    "noise misdeclared x0.5-2, t with nu0 = 2": lambda case: _pooled(case, s0=case.declared, nu0=2.0),
    "product over runs, tau ignored": _product,
    "+-0.1 a run by sign": _steps,
    "last run's verdict, 0.9 or 0.1": lambda case: 0.9 if case.values[-1] > 0.5 else 0.1,
}


def _case(rng: Random) -> tuple[bool, _Case]:
    is_true, tau = rng.random() < 0.5, rng.choice(_SPREADS)
    mean = float(is_true) + rng.gauss(0.0, tau)
    values = [rng.gauss(mean, _NOISE) for _ in range(rng.randint(1, _MOST_REPLICATES))]
    declared = _NOISE * math.exp(rng.uniform(-_MISDECLARED, _MISDECLARED))
    return is_true, _Case(values, tau, _NOISE, declared, _sd([rng.gauss(0.0, _NOISE) for _ in range(BASELINE_RUNS)]))


def _sd(values: Values) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def calibration(hypotheses: int = 2000, seed: int = 2) -> list[CalibrationRow]:
    """Returns the calibration of the rule, its variants and three rules of thumb, on the same simulated hypotheses.

    Each is true with probability one half and has one design with 1 to 8 replicates.
    """
    rng = Random(f"calibration:{seed}")
    cases = [_case(rng) for _ in range(hypotheses)]
    rows = []
    for rule, judge in _RULES.items():
        said = [(is_true, judge(case)) for is_true, case in cases]
        low, high = interval([(p - is_true) ** 2 for is_true, p in said], str(seed))
        loss = -math.fsum(math.log2(p if is_true else 1 - p) for is_true, p in said) / len(said)
        untrue = [is_true for is_true, p in said if p <= 0.2]
        share = sum(untrue) / len(untrue) if untrue else None
        rows.append(
            CalibrationRow(rule, brier_score(said), low, high, loss, calibration_error(said), said_true(said), share)
        )
    return rows


# --- optional stopping ------------------------------------------------------------------------------------------------


def _log_odds(values: Values, *, sigma: float | None = None, s0: float | None = None, nu0: float = 0.0) -> list[float]:
    """Returns the log odds after each look at one design's replicates."""
    return [student_ratio(values[: n + 1], tau=0.0, sigma=sigma, s0=s0, nu0=nu0) for n in range(len(values))]


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
    floor = _sd([rng.gauss(0.0, spread) for _ in range(BASELINE_RUNS)])
    known = _log_odds(values, sigma=1.0)
    guessed = _log_odds(values, s0=1.0, nu0=2.0)
    measured = _log_odds(values, s0=floor, nu0=BASELINE_RUNS - 1.0)
    leaning, finding = math.log(0.8 / 0.2), math.log(0.95 / 0.05)
    lab = [log_e(two_arms([values[: n + 1]], None)) for n in range(1, len(values))]
    return [
        _reaches(lab, leaning),
        _reaches(lab, finding),
        _walks(values),
        _peeks(values),
        _reaches(known, leaning),
        _reaches(known, finding),
        _reaches(guessed, leaning),
        _reaches(guessed, leaning, 3),
        _reaches(guessed, finding),
        _reaches(measured, leaning),
        _reaches(measured, leaning, 3),
        _reaches(measured, finding),
    ]


_STOPPING = (
    ("the lab's rule, >= 0.8", 1 / 4),
    ("the lab's rule, >= 0.95", 1 / 19),
    ("+-0.1 a run, >= 0.8", None),
    ("t-test p < 0.05 at every look", None),
    ("confidence >= 0.8, noise declared and trusted", 1 / 4),
    ("confidence >= 0.95, noise declared and trusted", 1 / 19),
    ("confidence >= 0.8, t form, nu0 = 2", 1 / 4),
    ("confidence >= 0.8, t form, nu0 = 2, 3 replicates or more", 1 / 4),
    ("confidence >= 0.95, t form, nu0 = 2", 1 / 19),
    ("confidence >= 0.8, noise of 4 baseline runs", 1 / 4),
    ("confidence >= 0.8, noise of 4 baseline runs, 3 replicates or more", 1 / 4),
    ("confidence >= 0.95, noise of 4 baseline runs", 1 / 19),
)


def optional_stopping(nulls: int = 2000, seed: int = 1) -> list[StoppingRow]:
    """Returns the rate of false support with a look after each of up to 50 runs of a design, until the first success.

    The noise of 4 baseline runs is measured where the runs are, so there the last column just means a noisier metric.
    """
    shares = []
    for effect, spread in ((0.0, 1.0), (-0.5, 1.0), (0.0, 2.0)):
        rng = Random(f"stopping:{seed}")  # the same draws in each column
        said = [_said_supported(rng, effect, spread) for _ in range(nulls)]
        shares.append([sum(column) / nulls for column in zip(*said, strict=True)])
    return [
        StoppingRow(rule, bound, *row) for (rule, bound), row in zip(_STOPPING, zip(*shares, strict=True), strict=True)
    ]
