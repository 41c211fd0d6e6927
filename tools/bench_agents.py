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
from perpetual_agents.checkpoints import Checkpoints
from perpetual_agents.handlers.history import window
from perpetual_agents.journal import Journal
from perpetual_agents.memory import AgentMemory
from perpetual_agents.memory_index import index_of
from perpetual_agents.memory_text import match_of
from perpetual_agents.messages import assistant, user
from perpetual_agents.names import MEMORY, STEP

SEARCH_GOAL = 2.0  # times the bare query
CHECKPOINT_GOAL = 2.0  # times a durable append
RESUME_GOAL = 3.0  # times that of an agent with a hundredth of the messages
CREATE_GOAL, EARLIER = 20.0, 27  # times what the earlier daemon took over HTTP, agents a second
_PAIRS = 200
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


def interleaved_ms(calls: dict[str, Callable[[], object]], inner: int = _INNER) -> dict[str, float]:
    """Returns the CPU time of one call of each, the best of the rounds."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            began = process_time()
            for _ in range(inner):
                call()
            best[name] = min(best[name], 1000 * (process_time() - began) / inner)
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


def history(lab: Lab, messages: int) -> str:
    """Makes an agent with so many messages, as turns of a question and an answer; returns its id."""
    made = Agents(lab).create(f"agent-{messages}", model="test:echo", purpose="bench", limits={"calls": 1e6})
    journal = Journal(lab, made.id, made.branch)
    for start in range(0, messages, 1000):
        with lab.transaction():
            for number in range(start, min(start + 1000, messages), 2):
                turn = f"t{number}"
                journal.done(turn, "message", f"{turn}/0", {"message": user(f"question {number} " * 8, "user:bench")})
                journal.begin(turn, "model", f"{turn}/1", {"model": "test:echo"})
                said = assistant(f"answer {number} " * 8, (), model="test:echo")
                journal.done(turn, "model", f"{turn}/1", {"message": said, "tokens_in": 9, "tokens_out": 9})
    return made.id


def p50(values: list[float]) -> float:
    """Returns the middle value."""
    return sorted(values)[len(values) // 2]


def checkpoints(lab: Lab, id: str, messages: int) -> str:
    """Returns the line of checkpoints: wall time, each beside a durable append of a small row."""
    steps, taken = lab.records(STEP), Checkpoints(lab)
    appends, checks = [], []
    for number in range(_PAIRS):
        began = perf_counter()
        steps.append(agent=id, branch="bench", turn="", step="state", phase="done", key=str(number), body={})
        appends.append(perf_counter() - began)
        began = perf_counter()
        taken.take(id, reason="auto")
        checks.append(perf_counter() - began)
    ratio = p50(checks) / p50(appends)
    return (f"checkpoint at {messages:,} messages: p50 {1000 * p50(checks):.2f} ms, a durable append "
            f"{1000 * p50(appends):.2f} ms ({ratio:.2f}x, goal {CHECKPOINT_GOAL:g}x)")  # fmt: skip


def resumed(lab: Lab, name: str) -> None:
    """Does what a process does before the first step of an agent: reads it, and the window of its history."""
    one = Agents(lab).get(name)
    assert window(Journal(lab, one.id, one.branch), int(one.setting("window")))


def opened(root: Path, name: str) -> None:
    """Opens the project, and resumes the agent."""
    with Lab.open(root) as lab:
        resumed(lab, name)


def resumes(roots: dict[int, Path], store: str) -> None:
    """Prints the lines of resuming, in a project that is open, and with opening it."""
    few, many = roots
    with Lab.open(roots[few]) as small, Lab.open(roots[many]) as large:
        calls: dict[str, Callable[[], object]] = {
            "few": lambda: resumed(small, f"agent-{few}"), "many": lambda: resumed(large, f"agent-{many}"),
            "open few": lambda: opened(roots[few], f"agent-{few}"),
            "open many": lambda: opened(roots[many], f"agent-{many}"),
        }  # fmt: skip
        found = interleaved_ms(calls, inner=3)
    for what, start in (("", ""), (" with opening the project", "open ")):
        less, more = found[f"{start}few"], found[f"{start}many"]
        print(f"resume{what}, {store}: {less:.1f} ms at {few:,} messages, {more:.1f} ms at {many:,} "
              f"({more / less:.2f}x, goal {RESUME_GOAL:g}x)", flush=True)  # fmt: skip


def life() -> None:
    """Prints what checkpoints, resuming and creating cost."""
    with tempfile.TemporaryDirectory() as place:
        for store in ("tinydb", "sqlite"):
            roots = {messages: Path(place) / f"{store}-{messages}" for messages in (1, 100, 10_000)}
            for messages, root in roots.items():
                with Lab.init(root, name="bench", store=store) as lab:
                    id = history(lab, messages)
                    print(f"{store}: {checkpoints(lab, id, messages)}", flush=True)
            resumes({messages: roots[messages] for messages in (100, 10_000)}, store)
        with Lab.init(Path(place) / "many", name="bench") as lab:
            agents, fastest = Agents(lab), 0.0
            for number in range(_ROUNDS):
                began = perf_counter()
                for each in range(50):
                    agents.create(f"n{number}-{each}", model="test:echo", purpose="bench")
                fastest = max(fastest, 50 / (perf_counter() - began))
        print(f"create: {fastest:.0f} agents a second, each durable ({fastest / EARLIER:.0f}x the {EARLIER} of the "
              f"earlier daemon, goal {CREATE_GOAL:g}x; best of {_ROUNDS})")  # fmt: skip


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
            print(f"after one more entry: {1000 * (perf_counter() - began):.2f} ms", flush=True)
        life()


if __name__ == "__main__":
    main()
