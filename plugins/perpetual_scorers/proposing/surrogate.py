"""A Gaussian process on few settings: what their values let one believe of all of them.

Imported by `sweep`. A run's value is a common mean, plus a smooth function of the setting's numbers, plus a part of
the setting's own, plus noise. The smooth part has a squared exponential kernel over numbers scaled to
the unit cube. Length scale, size and roughness come from a small grid, weighted by marginal likelihood and averaged;
the scale of the noise is integrated out. In plain Python: some milliseconds for 16 settings, seconds for 150.

Sources: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, chapter 2; Frazier, Powell and Dayanik
(2009), The Knowledge-Gradient Policy for Correlated Normal Beliefs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random

_LENGTHS = (0.15, 0.3, 0.6)  # of the unit cube's diagonal
_SIZES = (1.5, 3.0, 9.0)  # sd of the smooth part, in units of the noise
_ROUGH = {0.3: 0.6, 1.0: 0.25, 3.0: 0.15}  # sd of a setting's own part, in units of the smooth one: prior weight
_VAGUE = 10.0  # variance of the common mean, in units of the smooth part's
_AVERAGED, _FEW = (9, 3), 60  # points of the grid that are averaged: up to so many settings, and beyond
_PIVOT_FLOOR = 1e-10

Row = list[float]


class Belief(NamedTuple):
    """What one point of the grid makes of the values: means and covariance of the true values of all settings.

    The covariance is in units of the noise variance; `noise` is the estimated sd of the noise, with `df`.
    """

    weight: float
    mean: Row
    covariance: list[Row]
    noise: float
    df: int

    def after(self, i: int) -> Belief:
        """Returns the belief once one more run of setting `i` has come out as expected."""
        own = self.covariance[i]
        shares = [value / (own[i] + 1) for value in own]
        shrunk = [[v - share * o for v, o in zip(row, own)] for row, share in zip(self.covariance, shares)]  # noqa: B905
        return self._replace(covariance=shrunk)

    def gains(self) -> Row:
        """Returns by how much one more run of each setting is expected to raise the best mean."""
        return [
            expected_rise(self.mean, [self.noise * value / math.sqrt(row[i] + 1) for value in row])
            for i, row in enumerate(self.covariance)
        ]

    def draw(self, rng: Random, lower: Sequence[Row]) -> Row:
        """Draws true values of all settings; `lower` is `cholesky(covariance)`."""
        sd = self.noise * math.sqrt(self.df / (2 * rng.gammavariate(self.df / 2, 1)))
        lots = [sd * rng.gauss(0, 1) for _ in lower]
        return [mean + sum(map(mul, row, lots)) for mean, row in zip(self.mean, lower, strict=True)]


def expected_rise(means: Sequence[float], slopes: Sequence[float]) -> float:
    """Returns E max(mean + slope Z) - max mean for a standard normal Z, exactly."""
    hull: list[tuple[float, float]] = []
    cuts: Row = []
    for slope, mean in sorted(zip(slopes, means, strict=True)):
        while hull:
            rise, gap = slope - hull[-1][0], hull[-1][1] - mean
            cut = gap / rise if rise > 1e-12 else math.copysign(math.inf, gap)
            if cut > (cuts[-1] if cuts else -math.inf):
                break
            hull.pop()
            del cuts[-1:]
        if hull and cut == math.inf:
            continue  # parallel to a line above it
        if hull:
            cuts.append(cut)
        hull.append((slope, mean))
    kinks = zip(hull, hull[1:], cuts, strict=False)
    return math.fsum((right[0] - left[0]) * _mean_beyond(abs(cut)) for left, right, cut in kinks)


def _mean_beyond(z: float) -> float:
    """Returns E max(Z - z, 0)."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / math.sqrt(2)) / 2


def cholesky(matrix: Sequence[Row]) -> list[Row]:
    """Returns the rows of the lower triangle whose product with itself is `matrix`."""
    lower: list[Row] = []
    for i, line in enumerate(matrix):
        row: Row = []
        for other, value in zip(lower, line, strict=False):
            row.append((value - sum(map(mul, row, other))) / other[-1])
        row.append(math.sqrt(max(line[i] - sum(map(mul, row, row)), _PIVOT_FLOOR)))
        lower.append(row)
    return lower


def _solved(lower: Sequence[Row], right: Row) -> Row:
    found: Row = []
    for row, value in zip(lower, right, strict=True):
        found.append((value - sum(map(mul, row, found))) / row[-1])
    return found


def distances(points: Sequence[Row]) -> list[Row]:
    """Returns distances in the unit cube, in units of its diagonal: all far apart where nothing tells them apart."""
    columns = [(min(column), max(column)) for column in zip(*points, strict=True)]
    used = [i for i, (low, high) in enumerate(columns) if high > low]
    cube = [[(point[i] - columns[i][0]) / (columns[i][1] - columns[i][0]) for i in used] for point in points]
    if not used:
        return [[0.0 if i == j else math.inf for j in range(len(points))] for i in range(len(points))]
    return [[math.dist(one, other) / math.sqrt(len(used)) for other in cube] for one in cube]


class _Data(NamedTuple):
    """What was seen: places and runs of settings, their means less the grand mean, squares within, runs in all."""

    seen: list[int]
    runs: list[int]
    means: Row
    within: float
    total: int
    centre: float


def _pooled(values: Sequence[Row]) -> _Data:
    seen = [i for i, row in enumerate(values) if row]
    total = sum(map(len, values))
    centre = math.fsum(map(math.fsum, values)) / total
    means = [math.fsum(values[i]) / len(values[i]) - centre for i in seen]
    within = math.fsum((value - centre - mean) ** 2 for i, mean in zip(seen, means, strict=True) for value in values[i])
    return _Data(seen, [len(values[i]) for i in seen], means, within, total, centre)


class _Fit:
    """One point of the grid: `score` is its log marginal likelihood, up to what all points share, and log prior."""

    def __init__(self, near: Sequence[Row], size: float, rough: float, prior: float, data: _Data) -> None:
        self.kernel = [[size * size * (value + _VAGUE) for value in row] for row in near]
        for i, row in enumerate(self.kernel):
            row[i] += (size * rough) ** 2
        block = [[self.kernel[i][j] for j in data.seen] for i in data.seen]
        for i, runs in enumerate(data.runs):
            block[i][i] += 1 / runs
        self.lower = cholesky(block)
        self.shown = _solved(self.lower, data.means)
        self.squares = sum(map(mul, self.shown, self.shown)) + data.within
        likely = -(data.total - 1) / 2 * math.log(self.squares) if self.squares > 0 else 0.0
        self.score = math.log(prior) + likely - math.fsum(math.log(row[-1]) for row in self.lower)

    def belief(self, weight: float, data: _Data) -> Belief:
        explained = [_solved(self.lower, [row[i] for i in data.seen]) for row in self.kernel]
        covariance = [
            [value - sum(map(mul, mine, theirs)) for value, theirs in zip(row, explained, strict=True)]
            for row, mine in zip(self.kernel, explained, strict=True)
        ]
        df = max(data.total - 1, 1)
        mean = [data.centre + sum(map(mul, row, self.shown)) for row in explained]
        return Belief(weight, mean, covariance, math.sqrt(self.squares / df) or 1.0, df)


def fitted(apart: Sequence[Row], values: Sequence[Row]) -> list[Belief]:
    """Returns the beliefs that carry the most weight, after `values` (of each setting a list) at distances `apart`."""
    data, fits = _pooled(values), list[_Fit]()
    for length in _LENGTHS:
        near = [[math.exp(-((far / length) ** 2) / 2) for far in row] for row in apart]
        fits += [_Fit(near, size, rough, prior, data) for size in _SIZES for rough, prior in _ROUGH.items()]
    fits.sort(key=lambda fit: -fit.score)
    fits = fits[: _AVERAGED[len(apart) > _FEW]]
    shares = [math.exp(fit.score - fits[0].score) for fit in fits]
    return [fit.belief(share / math.fsum(shares), data) for fit, share in zip(fits, shares, strict=True)]
