"""How much each parameter of a sweep matters: its first-order share of the variance over the space searched.

Pure: no I/O, no clock; what is drawn is a hash of the sweep. A share is that of a functional analysis of variance. Take
the metric's true mean as a function of a setting, let settings be drawn from the space as declared (each choice, and
each part of a range on its own scale, equally often), and average out all other parameters: the share is the variance
of what is left, over the whole variance. Shares of parameters that are always there sum to 1 at most; what
lacks is what they do together.

The function is not known. The sweep's Gaussian process says what the values let one believe of its smooth part, at
`POINTS` settings of the space; what belongs to single settings, and to no parameter, is left out. Of each of `DRAWS`
functions drawn from that belief the shares are taken; shown are their mean and the range that holds 98 % of them. So
few runs make a wide range, and the range is as good as the model. It is one look at runs that chose themselves: no
evidence.

Sources: Hutter, Hoos and Leyton-Brown (2014), An Efficient Approach for Assessing Hyperparameter Importance; Oakley and
O'Hagan (2004), Probabilistic sensitivity analysis of complex models; Olejnik and Algina (2003) on omega squared, by
which chance differences between groups are taken off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import mul
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from perpetual_scorers.proposing.surrogate import Belief, cholesky, distances, fitted
from perpetual_scorers.proposing.sweep import Sweep
from perpetual_scorers.space import Parameter, Value, halton, placed

if TYPE_CHECKING:
    from perpetual_scorers.documents import ParameterImportance, SweepImportance

__all__ = ["CAUTION", "DRAWS", "LEAST_SETTINGS", "POINTS", "importance_of", "true_shares"]

CAUTION = "the settings differ no further than runs of one setting do: the shares say little"
POINTS = 128  # settings of the space at which functions are drawn
DRAWS = 200
LEAST_SETTINGS = 8  # that have run, or two for each number that the model sees of a setting, if that is more
_MOST_SETTINGS = 120  # the fit is cubic; beyond, so many by lot
_DEGREE = 4  # of the polynomial that is what a range does by itself
_LEAST_POINTS = 24  # where a parameter is there, and four for each of its words
_NOTHING = 1e-9  # squared length of a column below which it adds nothing to those before it
_SMOOTHED = 0.998  # of a setting's own part is left out: a smooth part alone is singular to rounding
_EDGE = 0.01  # of the draws lie below the range, and as many above: wide, for what the model gets wrong


Row = list[float]


class _Fit(NamedTuple):
    """What is believed at points of the space; `places` are those of the points among what the beliefs are of."""

    points: list[dict[str, Value]]
    places: list[int]
    beliefs: list[Belief]

    def draws(self, rng: Random) -> list[Row]:
        """Returns `DRAWS` functions as their values at the points."""
        roots = [cholesky(belief.covariance) for belief in self.beliefs]
        weights = [belief.weight for belief in self.beliefs]
        chosen = rng.choices(range(len(self.beliefs)), weights, k=DRAWS)
        drawn = (self.beliefs[which].draw(rng, roots[which]) for which in chosen)
        return [[values[place] for place in self.places] for values in drawn]

    @property
    def noise(self) -> float:
        """Returns the expected sd between runs of one setting."""
        return math.fsum(belief.weight * belief.noise for belief in self.beliefs)


def importance_of(
    parameters: Sequence[Parameter],
    settings: Sequence[tuple[Mapping[str, Value], Sequence[float | None]]],
    direction: str,
    key: str,
) -> SweepImportance:
    """Returns the shares of the parameters, or the reason why none is said.

    Args:
        settings: of each its values by parameter, and what its full runs measured: None for one that gave nothing,
            which counts as the worst; one far off counts as that far.
        key: what is drawn derives from it.
    """
    ran = [(values, seen) for values, seen in settings if seen]
    full = [one for one in ran if any(value is not None for value in one[1])]
    least = max(LEAST_SETTINGS, 2 * len(placed(parameters, {})))
    if len(full) < least:
        return _none(f"too few settings have run to say: {len(full)}, and {least} are needed", len(ran))
    used = ran
    if len(ran) > _MOST_SETTINGS:
        used = [ran[i] for i in sorted(Random(f"{key}\nfit").sample(range(len(ran)), _MOST_SETTINGS))]
    known = {value for _, seen in used for value in seen if value is not None}
    if len(known) < 2:
        return _none("every run measured the same", len(used))
    fit = _fitted(parameters, used, direction, key)
    draws = fit.draws(Random(f"{key}\nimportance"))
    spread = math.fsum(math.sqrt(_variance(draw)) for draw in draws) / DRAWS
    return {
        "settings": len(used),
        "reason": None,
        "caution": CAUTION if spread <= fit.noise else None,
        "spread": spread,
        "noise": fit.noise,
        "parameters": [_share(one, fit.points, draws, [values for values, _ in used]) for one in parameters],
    }


def true_shares(
    parameters: Sequence[Parameter], response: Callable[[Mapping[str, Value]], float], key: str, points: int = 4096
) -> dict[str, float]:
    """Returns the shares of a response that is known, by its values at `points` settings of the space."""
    drawn = _points(parameters, key, points)
    values = [response(point) for point in drawn]
    found = {}
    for one in parameters:
        there = [i for i, point in enumerate(drawn) if one.name in point]
        found[one.name] = _explained(_columns(one, [drawn[i][one.name] for i in there]), [values[i] for i in there])
    return found


def _none(reason: str, settings: int) -> SweepImportance:
    return {"settings": settings, "reason": reason, "caution": None, "spread": None, "noise": None, "parameters": []}


def _fitted(
    parameters: Sequence[Parameter],
    used: Sequence[tuple[Mapping[str, Value], Sequence[float | None]]],
    direction: str,
    key: str,
) -> _Fit:
    """Returns what the values of settings let one believe of the smooth part at `POINTS` settings of the space."""
    points = _points(parameters, key)
    places: dict[str, int] = {}
    for values in points:
        places.setdefault(repr(values), len(places))
    different = [*{repr(values): placed(parameters, values) for values in points}.values()]
    x = [placed(parameters, values) for values, _ in used]
    rows = [{"id": i, "x": x[i], "seen": [*seen]} for i, (_, seen) in enumerate(used)]
    seen = Sweep({"sweep": {"settings": rows, "direction": direction}}).values()
    twin = different[-1]  # two settings at one place have the smooth part in common, and each its own part
    beliefs = fitted(distances([*x, *different, twin]), [*seen, *([] for _ in different), []])
    return _Fit(points, [places[repr(values)] for values in points], [_smooth(one, len(x)) for one in beliefs])


def _smooth(belief: Belief, first: int) -> Belief:
    """Returns the belief of the smooth part alone, of the settings from `first` on; the last one is a twin."""
    covariance = [row[first:-1] for row in belief.covariance[first:-1]]
    own = max(covariance[-1][-1] - belief.covariance[-1][-2], 0.0)
    for i, row in enumerate(covariance):
        row[i] -= _SMOOTHED * own
    return belief._replace(mean=belief.mean[first:-1], covariance=covariance)


def _points(parameters: Sequence[Parameter], key: str, count: int = POINTS) -> list[dict[str, Value]]:
    """Returns settings that are drawn from the space evenly; the same one may be drawn again."""
    found = []
    for place in islice(halton(len(parameters), Random(f"{key}\npoints")), count):
        values: dict[str, Value] = {}
        for one, share in zip(parameters, place, strict=True):
            if one.is_there(values):
                values[one.name] = one.at(share)
        found.append(values)
    return found


def _share(
    one: Parameter, points: Sequence[Mapping[str, Value]], draws: Sequence[Row], ran: Sequence[Mapping[str, Value]]
) -> ParameterImportance:
    """Returns the share of a parameter, among the points where it is there."""
    there = [i for i, values in enumerate(points) if one.name in values]
    different = len({values[one.name] for values in ran if one.name in values})
    columns = _columns(one, [points[i][one.name] for i in there])
    reason = None
    if different < 2:
        reason = "no two of its values have run"
    elif len(there) < max(_LEAST_POINTS, 4 * len(columns)):
        reason = "it has too many choices, or is there too seldom, to say"
    shares = sorted(_explained(columns, [draw[i] for i in there]) for draw in draws) if reason is None else []
    return {
        "name": one.name,
        "when": None if one.when is None else {one.when: [*one.values]},
        "values": different,
        "share": math.fsum(shares) / len(shares) if shares else None,
        "low": shares[int(_EDGE * DRAWS)] if shares else None,
        "high": shares[-1 - int(_EDGE * DRAWS)] if shares else None,
        "reason": reason,
    }


def _columns(one: Parameter, values: Sequence[Value]) -> list[Row]:
    """Returns what a parameter can do by itself at points, as orthonormal columns: a polynomial, or a step per word."""
    numbers = [one.numbers(value) for value in values]
    if numbers and len(numbers[0]) > 1:
        given = [[row[i] for row in numbers] for i in range(len(numbers[0]))]
    else:
        given = [[row[0] ** power for row in numbers] for power in range(1, _DEGREE + 1)]
    found = [[1 / math.sqrt(len(values))] * len(values)] if values else []
    for column in given:
        for _ in range(2):  # once more takes off what rounding left
            for other in found:
                along = sum(map(mul, column, other))
                column = [value - along * unit for value, unit in zip(column, other, strict=True)]
        length = sum(map(mul, column, column))
        if length > _NOTHING * len(values):
            found.append([value / math.sqrt(length) for value in column])
    return found[1:]


def _explained(columns: Sequence[Row], values: Row) -> float:
    """Returns the share of the variance of `values` that the columns explain, less what they would by chance."""
    total = _variance(values) * len(values)
    if total <= 0:
        return 0.0
    alongs = [math.fsum(map(mul, column, values)) for column in columns]
    explained = min(math.fsum(map(mul, alongs, alongs)), total)
    rest = (total - explained) / (len(values) - len(columns) - 1)
    return max(explained - len(columns) * rest, 0.0) / total


def _variance(values: Row) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) * (value - mean) for value in values) / len(values)
