"""The evidence rule against other programs' numbers, pinned here: none of them is needed to run these tests.

Where the numbers are from:

- `expectation` 0.6.1 (Python, read from its wheel): the two-sided t mixture of Wang and Ramdas (2025, their theorem
  4.9), the beta-binomial mixture, and e-BH (Wang and Ramdas 2022) by its compiled engine.
- `savvi` 0.3.1 (Python): the same t mixture by Lindon, Ham, Tingley and Bojinov (2024), and the Dirichlet-multinomial
  odds of Lindon and Malek (2022).
- `safestats` (R): printed by `safeTTest` of a published analysis with deltaS = 0.5, alternative greater, on two groups
  that grow together, by an unnamed release. Its t values are worked back from the printed intervals and p-values of
  Welch's test, whose t is the pooled one for groups of one size.
- scipy 1.17.1: noncentral t densities, and their quadrature over the prior of effects.

What is not compared, since the constructions differ: Welch's variance and degrees of freedom of two arms that differ,
winsorised arms, and rates beside a rate that was run (universal inference here, a reverse information projection
there). These have their own tests.
"""

from __future__ import annotations

import math

import pytest

from perpetual.science.discoveries import discoveries
from perpetual.science.evalues import CASH, SCALES, Statistic, either, half_width, log_e, paired, two_arms
from perpetual.science.rates import Count, log_e_above


def seen(t: float, nu: float, n: float) -> Statistic:
    return Statistic(t, 1.0, nu, n)


def log_density(t: float, nu: float, shift: float) -> float:
    """Log density of a noncentral t, up to a constant of nu: an integral over the measured noise in the true one."""
    steps = [math.exp(-9 + 11 * step / 300) for step in range(301)]
    logs = [(nu + 1) * math.log(w) - nu * w * w / 2 - (t * w - shift) ** 2 / 2 for w in steps]
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(each - peak) for each in logs))


def point(t: float, nu: float, n: float, delta: float) -> float:
    """The e-value of one effect, `delta` noises large: a ratio of t densities, as by Perez-Ortiz et al. (2024)."""
    return math.exp(log_density(t, nu, delta * math.sqrt(n)) - log_density(t, nu, 0.0))


# One effect


# t, runs of each group, the e-value
SAFESTATS = (
    (-1.7162832, 2, 0.4924300),
    (0.4985387, 3, 1.1421242),
    (0.8276813, 4, 1.4055865),
    (0.3721123, 5, 0.9910386),
    (0.1452762, 6, 0.7821122),
    (0.3704708, 7, 0.9201306),
    (2.2176, 150, 1.2631),
)


@pytest.mark.parametrize(("t", "runs", "e"), SAFESTATS)
def test_the_ratio_of_t_densities_is_that_of_safestats(t: float, runs: int, e: float) -> None:
    assert point(t, 2 * runs - 2, runs / 2, 0.5) == pytest.approx(e, rel=2e-4 if runs == 150 else 4e-7)


# scipy 1.17.1, nct.pdf / t.pdf: t, runs of both groups (0: none), delta, greater, two-sided
POINTS = (
    (1.0, (100, 0), 0.4, 0.01887682095, 0.009441638861),
    (3.0, (100, 0), 0.3, 75.82077908, 37.91039072),
    (2.1, (3, 4), 1.0, 4.279161254, 2.170476629),
    (4.5, (5, 4), 2.0, 85.83604185, 42.91804071),
    (-1.3, (4, 8), 0.5, 0.2680104792, 1.137977459),
    (6.0, (2, 2), 4.0, 21.21064134, 10.60532398),
)


@pytest.mark.parametrize(("t", "runs", "delta", "greater", "either_way"), POINTS)
def test_the_ratio_of_t_densities_is_that_of_scipy(
    t: float, runs: tuple[int, int], delta: float, greater: float, either_way: float
) -> None:
    first, second = runs
    nu, n = (first + second - 2, first * second / (first + second)) if second else (first - 1, float(first))
    assert point(t, nu, n, delta) == pytest.approx(greater, rel=1e-6)
    assert (point(t, nu, n, delta) + point(t, nu, n, -delta)) / 2 == pytest.approx(either_way, rel=1e-6)


# Mixtures of effects


@pytest.mark.parametrize(("t", "runs"), [(row[0], row[1]) for row in (SAFESTATS[0], SAFESTATS[2])])
def test_an_e_value_is_the_mean_of_that_ratio_over_all_effects(t: float, runs: int) -> None:
    """And of the share of the stake that is never bet."""
    nu, n, mean = 2 * runs - 2, runs / 2, CASH
    for scale, weight in SCALES:
        middles = [scale * (step + 0.5) * 6 / 120 for step in range(120)]
        ratios = [point(t, nu, n, delta) * 2 * math.exp(-((delta / scale) ** 2) / 2) for delta in middles]
        mean += (1 - CASH) * weight * math.fsum(ratios) * 6 / 120 / math.sqrt(2 * math.pi)
    assert math.exp(log_e(seen(t, nu, n))) == pytest.approx(mean, rel=2e-3)


# scipy 1.17.1, quadrature to 1e-10 of the same mixture: t, degrees of freedom, effective runs, the e-value
MIXTURES = (
    (2.1, 1.0, 2.0, 1.96637958),
    (-1.5, 2.0, 3.0, 0.177905297),
    (3.0, 5.0, 12 / 7, 6.61563632),
    (4.5, 7.0, 20 / 9, 38.9472948),
    (0.3, 9.0, 10.0, 0.216296338),
    (5.0, 3.7, 2.4, 18.4793649),
    (8.0, 4.0, 5.0, 98.536639),
)


@pytest.mark.parametrize(("t", "nu", "n", "e"), MIXTURES)
def test_an_e_value_is_scipys_quadrature(t: float, nu: float, n: float, e: float) -> None:
    assert math.exp(log_e(seen(t, nu, n))) == pytest.approx(e, rel=1e-7)


# expectation 0.6.1, TtestGaussianMixtureMartingale(1 / scale).log_superMG of the runs, by scale of SCALES; savvi 0.3.1,
# linear_regression.log_bf(t * t, n - 1, 1 / scale**2, n), gives the same to 1e-14
TWO_SIDED = (
    ((0.9, 1.3), (0.05489949656, 0.1868592049, 0.4872707534, 0.8706802206, 1.043178029, 0.5092582253)),
    ((0.4, 0.9, -0.1), (0.03481040448, 0.07360954546, -0.006397540122, -0.3799280787, -0.9655970199, -2.029274108)),
    ((1.1, 0.7, 1.4, 0.9, 1.2), (0.5055625574, 1.472041298, 3.031589251, 4.371026353, 4.789105136, 4.162961325)),
    (
        (0.3, -0.5, 0.2, 0.8, -0.1, 0.4, 0.6, -0.3),
        (0.001584917, -0.1296703585, -0.5287096957, -1.122278177, -1.788140998, -2.878463195),
    ),
    ((-0.2, -0.4, -0.3, 0.1), (0.1140192126, 0.2737362663, 0.3078570395, -0.02245375463, -0.5977728011, -1.658598488)),
)


@pytest.mark.parametrize(("runs", "logs"), TWO_SIDED)
def test_both_directions_together_are_the_two_sided_mixture(runs: tuple[float, ...], logs: tuple[float, ...]) -> None:
    """Of pairs and of runs beside a number, which are one sample each."""
    mixture = CASH + (1 - CASH) * math.fsum(
        weight * math.exp(log) for (_, weight), log in zip(SCALES, logs, strict=True)
    )
    mirrored = [-value for value in runs]
    beside = either(log_e(two_arms([runs], None)), log_e(two_arms([mirrored], None)))
    assert math.exp(beside) == pytest.approx(mixture, rel=1e-8)
    assert either(log_e(paired(runs)), log_e(paired(mirrored))) == pytest.approx(beside, rel=1e-12)


# savvi 0.3.1: where log_bf, averaged over INTERVAL_SCALES, is log(1 / (0.7 alpha)), solved by scipy's brentq
WIDTHS = (
    (1.0, 2.0, 0.05, 241.4668628),
    (4.0, 5.0, 0.05, 7.63297266),
    (11.0, 12.0, 0.05, 4.324119155),
    (6.3, 2.4, 0.05, 5.670606334),
    (19.0, 20.0, 0.01, 4.675439566),
    (29.0, 30.0, 0.05, 3.779332613),
)


@pytest.mark.parametrize(("nu", "n", "alpha", "t"), WIDTHS)
def test_the_confidence_sequence_ends_where_savvis_bayes_factor_excludes(
    nu: float, n: float, alpha: float, t: float
) -> None:
    assert half_width(Statistic(0.0, 0.25, nu, n), alpha) == pytest.approx(0.5 * t, rel=1e-6)


# Rates


# savvi 0.3.1, Multinomial(theta_0=[0.5, 0.5], k=1), whose prior is Jeffreys'; expectation 0.6.1, BetaBinomialMixture
# with the same prior (r = 0.25), gives the logs of the first and the fourth
ODDS = ((7, 9, 1.1171875), (9, 9, 94.9609375), (5, 8, 0.3515625), (40, 60, 3.066397953), (30, 60, 0.102578173))


@pytest.mark.parametrize(("k", "n", "odds"), ODDS)
def test_a_rate_beside_one_half_has_savvis_odds(k: int, n: int, odds: float) -> None:
    assert math.exp(log_e_above(Count(k, n), 0.5)) == pytest.approx(odds, rel=1e-8)
    assert math.exp(log_e_above(Count(n - k, n).failures, 0.5)) == pytest.approx(odds, rel=1e-8)


# All claims together


# expectation 0.6.1, ParallelSequentialTest.e_bh of eight tests: e-values, rejected at 0.05, rejected at 0.2
E_BH = (
    ((1.52464, 1.46868, 28.4881, 1.55234, 0.426999, 0.334526, 0.397545, 0.33782), "", ""),
    ((1.42312, 11.9091, 68.8438, 38.0597, 0.256733, 0.258521, 0.698208, 0.944927), "", "23"),
    ((1.17595, 745.879, 72.6856, 10.1765, 0.218076, 0.201665, 0.325192, 0.464937), "1", "12"),
    ((112.815, 119.472, 179.984, 5.00833, 0.350162, 0.328967, 0.295218, 0.373035), "012", "012"),
    ((134.767, 5138.72, 654.404, 36.1791, 0.916041, 0.443382, 0.351686, 0.262445), "012", "0123"),
)


@pytest.mark.parametrize(("e_values", "strict", "wide"), E_BH)
def test_discoveries_are_those_of_e_bh(e_values: tuple[float, ...], strict: str, wide: str) -> None:
    named = {str(place): e for place, e in enumerate(e_values)}
    assert sorted(discoveries(named, 0.05)) == [*strict]
    assert sorted(discoveries(named, 0.2)) == [*wide]
