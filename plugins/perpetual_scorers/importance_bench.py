"""How often the range of an importance holds the true share: `python -m perpetual_scorers.importance_bench`.

In simulated sweeps, one run of each setting. Worlds are sums of what each parameter does alone, straight or a bowl, and
in the `mixed` ones of a product of two. The noise is 0.3 sd of the response in `mixed` worlds, 0.2 in `bowls`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping
from random import Random

from perpetual_scorers.space import Parameter, Value, parameters_of, settings_of
from perpetual_scorers.sweep_importance import importance_of, true_shares

__all__ = ["CELLS", "cell", "main"]

Response = Callable[[Mapping[str, Value]], float]
_NEAR = 0.02  # of the range's ends still counts as inside: the true shares are known to about that
CELLS = (("mixed", 2, 8), ("mixed", 2, 16), ("mixed", 4, 16), ("mixed", 8, 16), ("mixed", 8, 32),
          ("bowls", 2, 16), ("bowls", 4, 16), ("bowls", 4, 32))  # fmt: skip


def _world(sort: str, count: int, rng: Random) -> Response:
    centres = [0.3 + 0.4 * rng.random() for _ in range(count)]
    sizes = [rng.random() ** 2 for _ in range(count)]
    straight = [sort == "mixed" and rng.random() < 0.5 for _ in range(count)]
    left, right = rng.sample(range(count), 2)
    together = rng.gauss(0, 1) if sort == "mixed" else 0.0

    def response(values: Mapping[str, Value]) -> float:
        x = [float(values[f"p{i}"]) for i in range(count)]
        alone = (
            size * (place if is_straight else 4 * (place - centre) ** 2)
            for size, is_straight, place, centre in zip(sizes, straight, x, centres, strict=True)
        )
        return sum(alone) + together * x[left] * x[right]

    return response


def cell(sort: str, count: int, settings: int, worlds: int) -> tuple[float, float, float]:
    """Returns the share of ranges that hold the truth, the mean error of a share, and the mean length of a range."""
    parameters: list[Parameter] = parameters_of([f"p{i}=0.0..1.0" for i in range(count)])
    held, errors, lengths = [], [], []
    for world in range(worlds):
        rng = Random(f"{sort} {count} {settings} {world}")
        response = _world(sort, count, rng)
        points = [one.values for one in settings_of(parameters, "quasi", settings, f"{world}")]
        noise = (0.3 if sort == "mixed" else 0.2) * statistics.pstdev(map(response, points))
        runs = [(values, [response(values) + rng.gauss(0, noise)]) for values in points]
        truth = true_shares(parameters, response, "truth")
        for one in importance_of(parameters, runs, "min", f"{world}")["parameters"]:
            share, low, high = one["share"] or 0.0, one["low"] or 0.0, one["high"] or 0.0
            held.append(low - _NEAR <= truth[one["name"]] <= high + _NEAR)
            errors.append(abs(share - truth[one["name"]]))
            lengths.append(high - low)
    return statistics.fmean(held), statistics.fmean(errors), statistics.fmean(lengths)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=25, help="of each row")
    worlds = parser.parse_args().worlds
    lines = ["| effects | parameters | settings | range holds the truth | error of a share | length of a range |"]
    lines.append("|---|---|---|---|---|---|")
    for sort, count, settings in CELLS:
        held, error, length = cell(sort, count, settings, worlds)
        lines.append(f"| {sort} | {count} | {settings} | {100 * held:.0f} % | {error:.2f} | {length:.2f} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
