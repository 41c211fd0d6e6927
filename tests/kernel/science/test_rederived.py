"""The formulas again, by brute force: each e-value and each gain as an integral over what it stands for.

Nothing here shares a line with what it checks: a density of t is integrated over the noise that it leaves open, a
gain over the outcomes that it averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from perpetual.science.evalues import Statistic, log_e
from perpetual_scorers.proposing.information import binary_information_gain, expected_information_gain, separation


def log_integral(log_density: Callable[[float], float], low: float, high: float, steps: int = 2000) -> float:
    """Log of the integral of exp(log_density), by the trapezoid rule."""
    width = (high - low) / steps
    logs = [log_density(low + i * width) for i in range(steps + 1)]
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(x - peak) for x in logs) * width)


BUMPS = ((0.5, 0.2), (1.0, 0.35), (2.0, 0.25), (4.0, 0.1))  # of the effects' prior, by where they are
WIDE = (12.0, 0.1)


def prior(delta: float) -> float:
    """Density of effects in units of the noise: bumps, which are none at no effect, and a wide half-normal."""
    bumps = math.fsum(
        share * 4 / scale * (math.exp(-((delta / scale) ** 2) / 2) - math.exp(-2 * (delta / scale) ** 2))
        for scale, share in BUMPS
    )
    scale, share = WIDE
    return (bumps + share * 2 / scale * math.exp(-((delta / scale) ** 2) / 2)) / math.sqrt(2 * math.pi)


def log_t_density(t: float, nu: float, shift: float) -> float:
    """Log density of the noncentral t statistic, up to what does not depend on the shift: the noise is integrated out.

    With w the measured over the true noise, t = (z + shift) / w: nu w^2 is chi-squared on nu degrees of freedom.
    """

    def log_density(log_w: float) -> float:
        w = math.exp(log_w)
        return (nu + 1) * log_w - nu * w * w / 2 - (t * w - shift) ** 2 / 2

    middle = math.log(max(abs(shift), 1.0) / max(abs(t), 1.0))
    return log_integral(log_density, min(middle, 0.0) - 12.0, 2.5, 400)


def log_mean_over_effects(t: float, nu: float, n: float) -> float:
    """Log of the density's mean over all effects."""

    def log_density(log_delta: float) -> float:
        delta = math.exp(log_delta)
        return math.log(prior(delta)) + log_delta + log_t_density(t, nu, delta * math.sqrt(n))

    return log_integral(log_density, -14.0, 4.2, 400)


@pytest.mark.parametrize(
    ("t", "nu", "n"), [(0.0, 1.0, 2.0), (2.5, 3.0, 4.0), (-3.0, 2.0, 3.0), (6.0, 7.5, 2.4), (-40.0, 12.0, 6.0)]
)
def test_the_e_value_is_an_average_over_effects_and_noises(t: float, nu: float, n: float) -> None:
    null = log_t_density(t, nu, 0.0)
    mixed = math.exp(log_mean_over_effects(t, nu, n) - null)
    found = log_e(Statistic(t / math.sqrt(n), 1 / n, nu, n))
    assert found == pytest.approx(math.log(0.1 + 0.9 * mixed), abs=2e-4)


@pytest.mark.parametrize("seed", range(12))
def test_the_gain_is_what_an_outcome_tells_of_the_truth_on_average(seed: int) -> None:
    rng = Random(seed)
    p, d2 = rng.uniform(0.02, 0.98), 10 ** rng.uniform(-3, 0.6)
    d, steps = math.sqrt(d2), 4000
    width, total = (20 + d) / steps, 0.0
    for i in range(steps + 1):
        x = -10 + i * width
        true, false = p * math.exp(-((x - d) ** 2) / 2), (1 - p) * math.exp(-x * x / 2)
        for part, prior in ((true, p), (false, 1 - p)):
            if part > 0:
                total += part * math.log2(part / (true + false) / prior)
    expected = total * width / math.sqrt(2 * math.pi)
    assert expected_information_gain(p, d2) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_further_replicates_separate_as_their_conditional_distributions_do(seed: int) -> None:
    """What an implementation's first replicates have shown of its luck is known when the next ones are drawn."""
    rng = Random(seed)
    tau, s2, seen, k = rng.uniform(0.05, 2), rng.uniform(0.1, 3), rng.choice([0, 1, 6]), rng.choice([1, 3])
    left = 1 / (1 / tau**2 + seen / s2)  # variance of the luck, given those seen
    gap = 1.7 * left / tau**2
    assert separation(1.7, s2=s2, tau=tau, n_seen=seen, k=k) == pytest.approx(gap**2 / (left + s2 / k))
    p, s1, s0 = rng.random(), rng.random(), rng.random()
    told = 0.0
    for true, false in ((s1, s0), (1 - s1, 1 - s0)):
        mixed = p * true + (1 - p) * false
        told += p * true * math.log2(true / mixed) + (1 - p) * false * math.log2(false / mixed)
    assert binary_information_gain(p, s1, s0) == pytest.approx(told, abs=1e-12)
