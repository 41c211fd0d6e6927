"""Runs that were stopped early: the estimate by regression, what `judge` makes of it, and that errors stay bounded."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from perpetual.science import judge
from perpetual.science.stopped import filled

CONFIG = {"support": 0.8, "refute": 0.2}
CLAIM = {"metric": "acc", "direction": "max", "mde": 1.0, "noise": 1.0, "tau": 0.0}


def test_stopped_runs_follow_the_line_through_the_complete_ones() -> None:
    """By hand: slope 2 within both arms, the own arm's mean (1, 5), so that 3 becomes 5 + 2 * 2."""
    found = filled([(0.0, 3.0), (2.0, 7.0)], [3.0, -1.0], [(10.0, 0.0), (11.0, 2.0), (12.0, 4.0)])
    assert found is not None
    assert found.values == pytest.approx([9.0, 1.0])
    assert found.v == pytest.approx(0.0)
    assert found.spread == pytest.approx(0.0)


def test_the_variance_is_that_of_double_sampling() -> None:
    """Its part beyond what n measured values have: s2 (1/k - k/n2) + s2 shift2 / sxx, where all rungs are known."""
    complete = [(0.0, 0.1), (1.0, 0.8), (2.0, 2.2), (3.0, 2.9)]
    stopped = [4.0, 5.0]
    found = filled(complete, stopped)
    assert found is not None
    slope = math.fsum((x - 1.5) * (y - 1.5) for x, y in complete) / 5.0
    own2 = math.fsum((y - 1.5 - slope * (x - 1.5)) ** 2 for x, y in complete) / 3
    pooled = own2 * 3 / 2
    shift = (4.0 + 5.0 - 3.0) / 6
    assert found.v == pytest.approx(pooled * (1 / 4 - 4 / 36 + shift**2 / 5.0))
    assert found.nu == pytest.approx(2.0)


def test_an_arm_that_is_less_regular_is_taken_at_its_own_spread() -> None:
    regular = [(float(n), float(n)) for n in range(9)]
    found = filled([(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)], [1.0], regular)
    assert found is not None
    assert found.nu == pytest.approx(2.0), "its own degrees of freedom, and none of the baseline's"
    assert found.spread > 1.0


@pytest.mark.parametrize("complete", [[], [(0.0, 1.0)], [(1.0, 2.0), (1.0, 2.0)]])
def test_too_little_says_nothing(complete: list[tuple[float, float]]) -> None:
    assert filled(complete, [1.0]) is None


def test_a_run_that_showed_no_rung_counts_as_complete_all_the_same() -> None:
    known, all_of = ([(0.0, 0.1), (1.0, 0.8), (2.0, 2.2)], 8)
    more, fewer = filled(known, [1.0, 1.0], n=all_of), filled(known, [1.0, 1.0])
    assert more is not None
    assert fewer is not None
    assert more.values == fewer.values
    assert more.v < fewer.v


def world(rng: Random, n: int, *, mean: float, correlation: float, sd: float = 1.0, later: float = 0.0) -> list[Any]:
    """Runs with a value at the rung and a last one."""
    found = []
    for seed in range(n):
        z, u = rng.gauss(0, 1), rng.gauss(0, 1)
        rung = mean - 3 - later + sd * (correlation * z + math.sqrt(1 - correlation**2) * u)
        found.append({"seed": seed, "value": mean + sd * z, "rung": rung})
    return found


def stopped(run: dict[str, Any]) -> dict[str, Any]:
    return {**run, "value": None, "status": "killed", "stopped": True}


def test_what_is_stopped_counts_and_is_not_lost() -> None:
    rng = Random(3)
    base = world(rng, 8, mean=0.0, correlation=0.99)
    own = world(rng, 9, mean=2.0, correlation=0.99)
    some = [*own[:3], *map(stopped, own[3:])]
    full, part, few = (judge(CLAIM, base, runs, CONFIG) for runs in (own, some, own[:3]))
    assert part["status"] == "supported"
    assert few["e_support"] < part["e_support"] < full["e_support"]
    assert "lost_runs" not in part["cautions"]
    assert part["n_measured"] == 3, "what was not measured does not count as measured"
    killed = [*own[:3], *({**run, "value": None, "status": "killed", "by": "user:a"} for run in own[3:])]
    lost = judge(CLAIM, base, killed, CONFIG)
    assert lost["status"] == "open"
    assert "lost_runs" in lost["cautions"]


def test_a_baseline_s_stopped_runs_count_too() -> None:
    rng = Random(8)
    base, own = world(rng, 12, mean=0.0, correlation=0.99), world(rng, 6, mean=1.2, correlation=0.99)
    some = [*base[:4], *map(stopped, base[4:])]
    found = [judge(CLAIM, runs, own, CONFIG) for runs in (base, some, base[:4])]
    effects = [each["effect"] for each in found]
    full, part, few = ((one["value"], one["high"] - (one["low"] or 0.0)) for one in effects if one and one["high"])
    assert full[1] < part[1] < few[1], "the interval of the effect"
    assert part[0] == pytest.approx(full[0], abs=0.2)
    assert abs(part[0] - full[0]) < abs(few[0] - full[0])
    assert not any("lost_runs" in each["cautions"] for each in found)


def test_before_two_runs_are_complete_what_is_stopped_is_lost() -> None:
    rng = Random(4)
    base, own = world(rng, 8, mean=0.0, correlation=0.99), world(rng, 6, mean=3.0, correlation=0.99)
    alone = judge(CLAIM, base, [own[0], *map(stopped, own[1:])], CONFIG)
    assert alone["status"] == "open"
    assert alone["e_support"] <= 1


def test_a_smaller_metric_is_the_mirror_of_a_larger_one() -> None:
    rng = Random(5)
    base, own = world(rng, 6, mean=0.0, correlation=0.9), world(rng, 7, mean=1.5, correlation=0.9)
    own = [*own[:3], *map(stopped, own[3:])]

    def mirrored(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**run, "rung": -run["rung"], "value": run["value"] and -run["value"]} for run in runs]

    up = judge(CLAIM, base, own, CONFIG)
    down = judge(CLAIM | {"direction": "min"}, mirrored(base), mirrored(own), CONFIG)
    assert down["e_support"] == pytest.approx(up["e_support"])
    assert down["e_refute"] == pytest.approx(up["e_refute"])


def test_a_seed_that_was_run_again_is_neither_stopped_nor_lost() -> None:
    rng = Random(6)
    base, own = world(rng, 6, mean=0.0, correlation=0.9), world(rng, 5, mean=1.0, correlation=0.9)
    again = judge(CLAIM, base, [*own, stopped(own[4])], CONFIG)
    assert again["e_support"] == pytest.approx(judge(CLAIM, base, own, CONFIG)["e_support"])


@pytest.mark.parametrize("rung", ["high", float("nan"), None])
def test_a_rung_that_is_none_is_no_rung(rung: object) -> None:
    rng = Random(7)
    base, own = world(rng, 6, mean=0.0, correlation=0.9), world(rng, 5, mean=1.0, correlation=0.9)
    runs = [*own[:4], {**stopped(own[4]), "rung": rung}]
    if isinstance(rung, str):
        with pytest.raises(ValueError, match="rung of a run must be a number"):
            judge(CLAIM, base, runs, CONFIG)
    else:
        assert "lost_runs" in judge(CLAIM, base, runs, CONFIG)["cautions"]


def ever(side: str, rule: str, *, trials: int, correlation: float, sd: float = 1.0, later: float = 0.0) -> float:
    """The share of labs in which an e-value was ever 20 where what it speaks for is not so, looking at each run."""
    rng, hits = Random(f"{side}{rule}{correlation}{sd}"), 0
    for _ in range(trials):
        base = world(rng, 9, mean=0.0, correlation=correlation)
        base = [*base[:4], *(stopped(run) if run["seed"] % 3 else run for run in base[4:])]
        own = world(rng, 18, mean=0.0 if side == "e_support" else 1.0, correlation=correlation, sd=sd, later=later)
        level = math.fsum(run["rung"] for run in base) / len(base)
        runs: list[dict[str, Any]] = []
        for run in own:
            complete = [each for each in runs if not each.get("stopped")]
            may = len(complete) >= 2 and 3 * len(complete) > len(runs)
            asks = {"all": True, "low": run["rung"] < level, "high": run["rung"] > level}[rule]
            runs.append(stopped(run) if may and asks else run)
            if judge(CLAIM | {"noise": None}, base, runs, CONFIG)[side] >= 20:  # type: ignore[literal-required]
                hits += 1
                break
    return hits / trials


@pytest.mark.slow
@pytest.mark.parametrize("side", ["e_support", "e_refute"])
@pytest.mark.parametrize("rule", ["all", "low", "high"])
@pytest.mark.parametrize(
    "kind",
    [{"correlation": 0.9}, {"correlation": 0.5}, {"correlation": 0.9, "sd": 2.0}, {"correlation": 0.9, "later": 2.0}],
)
def test_an_e_value_is_ever_20_in_at_most_1_of_20_labs(side: str, rule: str, kind: dict[str, float]) -> None:
    """Whichever runs are stopped by where their curves stand: at 150 labs, 14 or more would be 1 in 30 by chance."""
    assert ever(side, rule, trials=150, **kind) * 150 < 14
