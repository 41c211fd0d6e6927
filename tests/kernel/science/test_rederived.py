"""The formulas again, by brute force: each factor and each gain as an integral over what it stands for.

Nothing here shares a line with what it checks: a Student density is integrated over the noise that it leaves open, a
gain over the outcomes that it averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from perpetual.science.evidence import jzs_log_bayes_factor, log_bayes_factor_gaussian
from perpetual.science.information import binary_information_gain, expected_information_gain, separation


def log_integral(log_density: Callable[[float], float], low: float, high: float, steps: int = 2000) -> float:
    """Log of the integral of exp(log_density), by the trapezoid rule."""
    width = (high - low) / steps
    logs = [log_density(low + i * width) for i in range(steps + 1)]
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(x - peak) for x in logs) * width)


def log_marginal(values: list[float], mu: float, s0: float, nu0: float) -> float:
    """Log density of the values, their variance integrated over a scaled inverse chi-squared distribution."""
    squares = math.fsum((value - mu) ** 2 for value in values)

    def log_density(log_s2: float) -> float:
        return -(nu0 + len(values)) / 2 * log_s2 - (nu0 * s0 * s0 + squares) / (2 * math.exp(log_s2))

    return log_integral(log_density, -12.0, 25.0)


@pytest.mark.parametrize("seed", range(12))
def test_the_factor_is_the_ratio_of_two_marginal_densities(seed: int) -> None:
    rng = Random(seed)
    s0, nu0 = 10 ** rng.uniform(-0.3, 0.3), rng.choice([2.0, 3.0, 8.0])
    values = [rng.gauss(rng.choice([0.2, 0.5, 0.8]), s0) for _ in range(rng.choice([1, 2, 5]))]
    mean = math.fsum(values) / len(values)
    if abs(mean - 0.5) > math.sqrt(0.25 + nu0 * s0 * s0 / len(values)):
        values = [value - mean + 0.7 for value in values]  # beyond the peak the factor is held where it is
    expected = log_marginal(values, 1.0, s0, nu0) - log_marginal(values, 0.0, s0, nu0)
    found = log_bayes_factor_gaussian(values, mu1=1.0, mu0=0.0, tau=0.0, s0=s0, nu0=nu0)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_default_factor_is_an_average_over_effects(seed: int) -> None:
    rng = Random(seed)
    t, nu, n, r = rng.gauss(0, 3), rng.choice([1.0, 4.0, 38.0]), rng.choice([2.0, 10.0]), 0.707

    def log_density(log_g: float) -> float:
        spread = 1 + n * math.exp(log_g) * r * r
        likelihood = -math.log(spread) / 2 - (nu + 1) / 2 * math.log1p(t * t / (nu * spread))
        return likelihood - math.log(2 * math.pi) / 2 - log_g / 2 - math.exp(-log_g) / 2

    expected = log_integral(log_density, -8.0, 50.0, 4000) + (nu + 1) / 2 * math.log1p(t * t / nu)
    assert jzs_log_bayes_factor(t, nu, n, r=r) == pytest.approx(expected, abs=1e-6)


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
