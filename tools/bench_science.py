"""`make bench`: what the scientific core costs: scoring candidates, choosing a batch, refolding a ledger, judging.

CPU time of this process, the best of the rounds, which does not depend on what else the machine does. Nothing here is a
test: a figure over its goal is said, not failed.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from perpetual.science import STRATEGIES, confidence, judge_many, outlook, propose
from perpetual.science.prospects import prospect
from perpetual_scorers.proposing.information import expected_information_gain, score_candidates
from perpetual_scorers.simulate import Cell, StrategyPolicy, episode

ROUNDS = 15
ITEMS = 200  # judged a round


class Row(NamedTuple):
    """One line of the table; both in milliseconds."""

    what: str
    cpu_ms: float
    goal_ms: float | None


def cpu_ms(call: Callable[[], object], rounds: int, repeat: int = 1) -> float:
    """Returns the best of the rounds, divided by how often a round repeats the call."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(repeat):
            call()
        best = min(best, time.process_time() - start)
    return 1000 * best / repeat


def state_of(candidates: int, hypotheses: int) -> dict[str, Any]:
    """Candidates that all differ, spread over the hypotheses, some with replicates seen or pending."""
    return {
        "hypotheses": [{"id": f"h{n}", "confidence": 0.3 + 0.4 * n / hypotheses} for n in range(hypotheses)],
        "candidates": [
            {
                "id": f"e{n}",
                "hypothesis_id": f"h{n % hypotheses}",
                "mu1": 1.0,
                "mu0": 0.0,
                "sigma": 0.5 + n / 500,
                "tau": 0.2,
                "cost": 0.5 + (n % 13) / 4,
                "p_fail": 0.1,
                "n_seen": n % 3,
                "n_pending": int(n % 50 == 0),
            }
            for n in range(candidates)
        ],
        "seed": 1,
    }


def shared_state(candidates: int, hypotheses: int) -> dict[str, Any]:
    """Returns the same of unknown noise, on three baselines that are candidates too, the seeds shared."""
    state = state_of(candidates, hypotheses)
    for n, row in enumerate(state["candidates"]):
        row |= {"sigma": None, "s0": row["sigma"], "baseline_id": f"b{n % 3}", "rho": 0.5}
    state["candidates"] += [
        {"id": f"b{n}", "kind": "baseline", "baseline_id": f"b{n}", "cost": 1.0, "n_seen": 4} for n in range(3)
    ]
    return state


def proposed(state: dict[str, Any]) -> list[str]:
    """Returns the best three, nothing being remembered of an earlier call."""
    prospect.cache_clear()
    return propose(state, 3, {})


def ledger(rows: int, designs: int = 5) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns a hypothesis's designs of unknown noise, and its measured rows."""
    known = {f"d{n}": {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "s0": 0.8, "nu0": 2.0} for n in range(designs)}
    measured = [
        {"id": n, "run_id": n, "kind": "measured", "design_id": f"d{n % designs}", "metric": "m",
         "value": 0.5 + (n * 7919 % 101 - 50) / 60, "status": "done"}
        for n in range(rows)
    ]  # fmt: skip
    return known, measured


def items_of(kind: str) -> list[list[Any]]:
    """Returns small items for `judge_many`: four runs against six of a baseline, on shared seeds."""
    rng = Random(1)
    claim = {"metric": "m", "direction": "max", "kind": kind, "claim": "improves", "mde": 0.5, "paired": True}

    def runs(n: int, shift: float, first: int) -> list[dict[str, Any]]:
        drawn = [rng.gauss(shift, 1) for _ in range(n)]
        values = drawn if kind == "gaussian" else [float(value > 0) for value in drawn]
        return [{"seed": at, "value": x, "status": "done", "order": 2 * at + first} for at, x in enumerate(values)]

    return [[claim, runs(6, 0.0, 0), runs(4, 0.5, 1), {}] for _ in range(ITEMS)]


def _judging(kind: str, rounds: int) -> Row:
    """Returns the cost of one item; the goal is 2,000 a second."""
    items = items_of(kind)
    return Row(f"one of {ITEMS} items judged, {kind}", cpu_ms(lambda: judge_many(items), rounds) / ITEMS, 0.5)


def measure(rounds: int) -> list[Row]:
    """Returns every line of the table."""
    designs, rows = ledger(100)
    claim = {"id": "h", "prior": 0.5}
    one, many, alone = state_of(1, 1), state_of(1000, 12), state_of(1000, 1)
    shared, shared_alone = shared_state(1000, 12), shared_state(1000, 1)
    found = [
        Row("expected gain of one candidate", cpu_ms(lambda: expected_information_gain(0.37, 1.7), rounds, 200), 0.1),
        Row("score of one candidate, read and checked", cpu_ms(lambda: score_candidates(one, {}), rounds, 200), 0.1),
        Row("best 3 of 1,000 candidates", cpu_ms(lambda: propose(many, 3, {}), rounds), 150.0),
        Row("the same, all of one hypothesis", cpu_ms(lambda: propose(alone, 3, {}), rounds), 150.0),
        Row("best 3 of 1,000 on shared baselines, paired", cpu_ms(lambda: proposed(shared), rounds), 150.0),
        Row("the same, all of one hypothesis", cpu_ms(lambda: proposed(shared_alone), rounds), 150.0),
        Row("best 30 of 1,000 candidates", cpu_ms(lambda: propose(many, 30, {}), rounds), None),
        Row("refold of 100 rows", cpu_ms(lambda: confidence(claim, designs, rows, {}), rounds, 10), 1.0),
        _judging("gaussian", rounds),
        _judging("binary", rounds),
        Row("outlook of one pick", cpu_ms(lambda: outlook(claim, designs, rows, "d0", {}), rounds), None),
        Row("one campaign", cpu_ms(lambda: episode(StrategyPolicy("decisive"), Cell(0.8, 1), 0, 0), 3), None),
    ]
    for name in STRATEGIES:
        cost = cpu_ms(lambda name=name: propose(many, 3, {"strategy": name}), rounds)  # type: ignore[misc]
        found.append(Row(f"best 3 of 1,000, {name}", cost, 150.0))
    return found


def main() -> None:
    """Prints the table; `--json` prints one document instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    rows = measure(options.rounds)
    if options.json:
        document = {"python": platform.python_version(), "rounds": options.rounds, "rows": [r._asdict() for r in rows]}
        print(json.dumps(document))
        return
    print(f"Python {platform.python_version()}, CPU time, best of {options.rounds} rounds")
    for row in rows:
        met = "" if row.goal_ms is None else f"goal <= {row.goal_ms:g} ms: "
        met += "" if row.goal_ms is None else "met" if row.cpu_ms <= row.goal_ms else "MISSED"
        print(f"{row.what:44} {row.cpu_ms:9.4f} ms  {met}".rstrip())


if __name__ == "__main__":
    main()
