"""`python tools/bench_agents.py`: what agents cost. Nothing here is a test.

A search of memory is compared to a bare query of SQLite's FTS5 on the same index, interleaved in one process: CPU time,
the best of the rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

from perpetual import Lab
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual_agents.agents import Agents
from perpetual_agents.memory import AgentMemory
from perpetual_agents.memory_index import index_of
from perpetual_agents.memory_text import match_of
from perpetual_agents.names import MEMORY

SEARCH_GOAL = 2.0  # times the bare query
_ROUNDS = 15
_INNER = 20  # calls of a round
_WORDS = [f"{a}{b}{c}" for a in ("lo", "ma", "ter", "vi", "sor") for b in "aeiou" for c in ("n", "rat", "mel", "dus")]


def filled(lab: Lab, entries: int) -> None:
    """Writes so many entries of about 300 bytes for one agent, past the gates: a benchmark of searches."""
    draw, rows = random.Random(7), lab.records(MEMORY)
    agent = Agents(lab).create("bench").id
    for start in range(0, entries, 1000):
        with lab.transaction():
            for number in range(start, min(start + 1000, entries)):
                words = " ".join(draw.choices(_WORDS, k=45))
                rare = "warmup beta " if number % 100 == 0 else ""
                place = f"{agent}\nkey {number}"
                rows.add(scope=agent, key=f"key {number}", place=place, value=f"{rare}{words}", status="active",
                         version=1, author="agent:bench", sources=[], current=place, shown=place, listed=agent,
                         exposed=agent)  # fmt: skip


def interleaved_ms(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Returns the CPU time of one call of each, the best of the rounds."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            began = process_time()
            for _ in range(_INNER):
                call()
            best[name] = min(best[name], 1000 * (process_time() - began) / _INNER)
    return best


def searches(lab: Lab, query: str) -> str:
    """Returns the line of one query."""
    memory, match = AgentMemory(lab), match_of(query)
    with index_of(lab).of(lab) as connection:
        pass
    bare = "SELECT rowid, key, text FROM words WHERE words MATCH ? ORDER BY rank LIMIT 10"
    with Lab.open(lab.root, actor="agent:bench", registry=lab.registry) as acts:
        agents = AgentMemory(acts)
        found = interleaved_ms({
            "bare": lambda: connection.execute(bare, (match,)).fetchall(),
            "ours": lambda: memory.search(query, ["bench"], k=10),
            "gated": lambda: agents.search(query, ["bench"], k=10),
        })  # fmt: skip
    return (
        f"search {query!r}: bare FTS5 {found['bare']:.3f} ms, memory {found['ours']:.3f} ms "
        f"({found['ours'] / found['bare']:.2f}x, goal {SEARCH_GOAL:g}x); by an agent {found['gated']:.3f} ms, "
        "with the gates asked about the hits together"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=10_000)
    entries = parser.parse_args().entries
    for name in AGENT_VARIABLES:
        os.environ.pop(name, None)  # a person searches
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERPETUAL_CACHE_DIR"] = str(Path(folder) / "cache")
        os.environ["PERPETUAL_STATE_DIR"] = str(Path(folder) / "state")
        with Lab.init(Path(folder) / "project", name="bench") as lab:
            filled(lab, entries)
            began = perf_counter()
            AgentMemory(lab).search("warmup", ["bench"])
            print(f"{entries:,} entries; the index is built in {perf_counter() - began:.2f} s")
            for query in ("warmup beta", "loan", "key 17 terat"):
                print(searches(lab, query))
            AgentMemory(lab).set("bench", "one more", "warmup, once more")
            began = perf_counter()
            AgentMemory(lab).search("warmup", ["bench"])
            print(f"after one more entry: {1000 * (perf_counter() - began):.2f} ms")


if __name__ == "__main__":
    main()
