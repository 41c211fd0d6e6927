"""`python tools/bench_recall.py`: search and writing of notes among 10,000 of them.

A search is compared to a bare query of SQLite's FTS5 on the same index in one process; wall time, the best of the
rounds. A write is compared to one without the gate `duplicates`, interleaved; CPU time, medians. Nothing here is a
test.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from unittest.mock import patch

from perpetual import Lab
from perpetual.api import GateVerdict
from perpetual_recall import index, recall
from perpetual_recall.gate import DuplicatesGate

GOAL = 2.0  # times the bare query
_ROUNDS = 300
_WORDS = [f"{a}{b}{c}" for a in ("lo", "ma", "ter", "vi", "sor") for b in "aeiou" for c in ("n", "rat", "mel", "dus")]


def filled(folder: str, notes: int) -> Lab:
    """Returns a lab with so many notes of about 1 KB."""
    draw = random.Random(7)
    lab = Lab.init(folder, name="bench", store="sqlite")
    with lab.transaction():
        for number in range(notes):
            words = " ".join(draw.choices(_WORDS, k=140))
            rare = "warmup beta" if number % 100 == 0 else ""
            lab.memory.write(f"notes/{number % 256:02x}/{number}.md", f"# Note {number} {rare}\n\n{words}\n")
    return lab


def best_ms(call: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Returns the shortest of the calls."""
    times = []
    for _ in range(rounds):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return 1000 * min(times)


def compared(retriever: recall.Recall, lab: Lab, connection: sqlite3.Connection, query: str) -> str:
    """Returns the line of one query."""
    words = query.split()
    match = " OR ".join(f'"{word}" *' for word in words)
    bare = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 20"
    bare_ms = best_ms(lambda: connection.execute(bare, (match,)).fetchall())
    phase_ms = best_ms(lambda: index.matches(connection, words, for_agents=False, most=20))
    whole_ms = best_ms(lambda: retriever.search(lab, query))
    return (
        f"{query!r}: bare FTS5 {bare_ms:.2f} ms, phase A {phase_ms:.2f} ms ({phase_ms / bare_ms:.2f}x), "
        f"search {whole_ms:.2f} ms ({whole_ms / bare_ms:.2f}x, goal {GOAL:g}x)"
    )


def written(lab: Lab, notes: int, rounds: int = 100) -> str:
    """Returns the line of writes with and without the search for duplicates."""
    draw, times = random.Random(8), {name: list[float]() for name in ("with", "without")}
    passes = patch.object(DuplicatesGate, "in_record", lambda *_: GateVerdict("pass"))
    for number in range(4 * rounds):
        name, note = ("with", "without")[number // 2 % 2], draw.randrange(notes)
        text = f"# Note {note} again\n\n{' '.join(draw.choices(_WORDS, k=140))}\n"
        with passes if name == "without" else nullcontext():
            began = process_time()
            lab.memory.write(f"notes/{note % 256:02x}/{note}.md", text)
            if number % 2:  # the second of its kind, so that one note waits to be indexed
                times[name].append(process_time() - began)
    ours, bare = (1000 * median(times[name]) for name in ("with", "without"))
    return f"a write: {ours:.2f} ms, {bare:.2f} ms without the search for duplicates ({ours / bare:.2f}x)"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=10_000)
    notes = parser.parse_args().notes
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERPETUAL_CACHE_DIR"] = str(Path(folder) / "cache")
        os.environ["PERPETUAL_STATE_DIR"] = str(Path(folder) / "state")
        lab = filled(str(Path(folder) / "project"), notes)
        retriever = recall.build({})
        began = perf_counter()
        retriever.search(lab, "warmup")
        print(f"{notes:,} notes; the index is built in {perf_counter() - began:.2f} s")
        for query in ("warmup beta", "loan"):
            with retriever.index.of(lab) as connection:
                print(compared(retriever, lab, connection, query))
        lab.memory.write("notes/one.md", "# One more\nwarmup\n")
        began = perf_counter()
        retriever.search(lab, "warmup")
        print(f"after one more note: {1000 * (perf_counter() - began):.2f} ms")
        print(written(lab, notes))
        lab.close()


if __name__ == "__main__":
    main()
