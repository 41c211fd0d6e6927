"""Sweeps whose truth is known: what the pick of each rule loses against the best setting, after so many runs.

Run as `python -m perpetual_scorers.sweep_bench`, and imported by tests. Standard library, no clock, no I/O but the
table: the same seed answers the same.

A sweep has 16 settings. All is in units of the smallest effect that is worth having (mde). A world says how the true
value depends on a setting; each setting deviates from that by a draw of its own (sd 0.3), and each run by noise (sd
0.5, at which round robin loses what was measured for it before this bench was written: 0.20 after 16 runs). A short
run, of the rungs 1/9 and 1/3, costs its share, and hints at the full one with an error of its setting's own.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, TypedDict

from perpetual.science import best, propose
from perpetual_scorers.proposing.surrogate import cholesky
from perpetual_scorers.simulate import interval

__all__ = ["POLICIES", "WORLDS", "Policy", "Regret", "bench", "play"]

ROUGHNESS = 0.3
NOISE = 0.5
RUNGS = (1, 3, 9)
HINT = 0.5  # sd of a short run's own error, times the share of the run that it leaves out
_LENGTH = 0.3  # of the smooth worlds, on a unit side
_CURVE = 1.5  # what a run gains after its first moments

Point = list[float]


class Policy(NamedTuple):
    """A rule of choice: a `strategy` of `propose`, whether it sees numbers of settings, and whether it uses rungs."""

    strategy: str
    is_smooth: bool = True
    has_rungs: bool = False


POLICIES: dict[str, Policy] = {
    "round robin": Policy("round_robin", is_smooth=False),
    "successive halving": Policy("round_robin", is_smooth=False, has_rungs=True),
    "top-two": Policy("top_two", is_smooth=False),
    "GP top-two": Policy("top_two"),
    "GP knowledge gradient": Policy("knowledge_gradient"),
    "halving, then GP": Policy("knowledge_gradient", has_rungs=True),
}


class Regret(NamedTuple):
    """What the pick loses in the mean, in mde, with its 95 % bootstrap interval."""

    world: str
    policy: str
    runs: int
    regret: float
    low: float
    high: float


def _line() -> list[Point]:
    return [[i / 15] for i in range(16)]


def _square() -> list[Point]:
    return [[i / 3, j / 3] for i in range(4) for j in range(4)]


def _wave(points: Sequence[Point], rng: Random) -> list[float]:
    """Draws a smooth function of sd 1."""
    near = [[math.exp(-((math.dist(one, other) / _LENGTH) ** 2) / 2) for other in points] for one in points]
    for i, row in enumerate(near):
        row[i] += 1e-9
    lots = [rng.gauss(0, 1) for _ in points]
    return [math.fsum(a * b for a, b in zip(row, lots, strict=False)) for row in cholesky(near)]


def _bowl(points: Sequence[Point], rng: Random) -> list[float]:
    """Draws a bowl in the first two numbers, upside down; further ones matter nothing."""
    centre = [rng.random() for _ in points[0][:2]]
    return [-4 * math.fsum((a - c) ** 2 for a, c in zip(point, centre, strict=False)) for point in points]


def _world(name: str, rng: Random) -> tuple[list[Point], list[float]]:
    """Returns a world's settings and their true values."""
    points = {"wave-1d": _line, "wave-2d": _square, "bowl-2d": _square}.get(
        name, lambda: [[rng.random() for _ in range(4)] for _ in range(16)]
    )()
    if name == "chaos":
        smooth = [rng.gauss(0, 1) for _ in points]
    else:
        smooth = (_bowl if name.startswith("bowl") else _wave)(points, rng)
    return points, [value + rng.gauss(0, ROUGHNESS) for value in smooth]


WORLDS = ("wave-1d", "wave-2d", "bowl-2d", "bowl-4d", "chaos")
"""Smooth draws on a line and on a 4 x 4 grid, bowls there and among four numbers of which two matter, and no order."""


class _Row(TypedDict):
    """A setting as `propose` reads it."""

    id: str
    x: Point
    cost: float
    seen: list[float]
    curve: list[float]


class _Trial:
    """One setting: its true value, and the outcomes that it has in store; run n comes out the same for each policy."""

    def __init__(self, value: float, noise: float, key: str) -> None:
        rng = Random(key)
        self._value, self._noise, self._full = value, noise, Random(f"{key}:full")
        self._short = [value + _CURVE * (at / RUNGS[-1] - 1) + rng.gauss(0, HINT * (1 - at / RUNGS[-1]))
                       + rng.gauss(0, noise) for at in RUNGS[:-1]]  # fmt: skip

    def run(self, row: _Row, *, has_rungs: bool) -> float:
        """Runs the setting once more; returns the share of a full run that this takes."""
        rung = len(row["curve"])
        if has_rungs and rung < len(self._short):
            row["curve"].append(self._short[rung])
            return RUNGS[rung] / RUNGS[-1]
        row["seen"].append(self._full.gauss(self._value, self._noise))
        return 1.0


def play(
    world: str, policy: Policy, budgets: Sequence[int], seed: int, number: int, noise: float = NOISE
) -> list[float]:
    """Plays sweep `number` of `seed`; returns the regret of the pick at the end of each budget, in full runs."""
    key = f"{seed}:{world}:{number}"
    points, truth = _world(world, Random(key))
    trials = [_Trial(value, noise, f"{key}:{i}") for i, value in enumerate(truth)]
    rows: list[_Row] = [
        {"id": str(i), "x": point if policy.is_smooth else [], "cost": 1.0, "seen": [], "curve": []}
        for i, point in enumerate(points)
    ]
    sweep = {"settings": rows, "direction": "max", "rungs": [*RUNGS] if policy.has_rungs else None}
    state: dict[str, object] = {"sweep": sweep, "seed": number}
    regrets, spent = [], 0.0
    for budget in budgets:
        while True:
            picks = propose({**state, "budget_left": budget - spent}, 1, {"strategy": policy.strategy})
            if not picks:
                break
            spent += trials[int(picks[0])].run(rows[int(picks[0])], has_rungs=policy.has_rungs)
        regrets.append(max(truth) - truth[int(best(state))])
    return regrets


def bench(
    policies: Mapping[str, Policy] = POLICIES,
    *,
    worlds: Sequence[str] = WORLDS,
    budgets: Sequence[int] = (16, 32, 64),
    sweeps: int = 100,
    seed: int = 0,
    noise: float = NOISE,
) -> list[Regret]:
    """Returns the mean regret of each policy in each world and in all of them together, at each budget of full runs."""
    rows = []
    for name, policy in policies.items():
        played = {world: [play(world, policy, budgets, seed, n, noise) for n in range(sweeps)] for world in worlds}
        if len(worlds) > 1:
            played["all"] = [regrets for each in played.values() for regrets in each]
        for world, each in played.items():
            for budget, values in zip(budgets, zip(*each, strict=True), strict=True):
                low, high = interval(values, f"{seed}:{world}:{budget}")
                rows.append(Regret(world, name, budget, math.fsum(values) / len(values), low, high))
    return rows


def main() -> None:
    """Prints the table of regrets."""
    parser = ArgumentParser(description="Regret of the pick of a sweep, in units of the mde.")
    parser.add_argument("--sweeps", type=int, default=100, help="sweeps of each policy in each world")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", default="16,32,64", help="budgets, in full runs")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--policies", default=";".join(POLICIES), help="names with semicolons between them")
    parser.add_argument("--noise", type=float, default=NOISE, help="sd of a run, in mde")
    options = parser.parse_args()
    budgets = [int(text) for text in options.runs.split(",")]
    policies = {name: POLICIES[name] for name in options.policies.split(";")}
    rows = bench(policies, worlds=options.worlds.split(","), budgets=budgets, sweeps=options.sweeps,
                 seed=options.seed, noise=options.noise)  # fmt: skip
    print("| world | policy |", " | ".join(f"{budget} runs" for budget in budgets), "|")  # noqa: T201
    print("|---|---|" + "---|" * len(budgets))  # noqa: T201
    for world in dict.fromkeys(row.world for row in rows):
        for name in policies:
            cells = [
                f"{r.regret:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in rows if (r.world, r.policy) == (world, name)
            ]
            print("|", world, "|", name, "|", " | ".join(cells), "|")  # noqa: T201


if __name__ == "__main__":
    main()
