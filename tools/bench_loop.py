"""`make bench`, the loop: what a cycle costs after a long history, as a ratio of CPU time to one after a short one.

The history is a baseline and a decided claim with real runs, copied with other ids: hypotheses, experiments, runs,
evidence, debits and events as the product writes them. Each lab stays open, as in a daemon; between two cycles one run
ends, so a cycle records, analyses, weighs and launches. The rounds go over the sizes in turn, and the best counts.
Nothing here is a test: a figure over its goal is said, not failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from perpetual import Lab
from perpetual.lab.ledger.experiments import spec_hash
from perpetual.loop import cycle
from perpetual.toolkit.agents import AGENT_VARIABLES

ROUNDS, WARM = 15, 4
SIZES = (100, 10_000)
GOAL = 1.5
OPEN = 14  # claims that are decided by a few runs each: one is always there to be launched
AT_ONCE = 100  # blocks that are copied in one transaction
RENEWED = 10  # claims that share a baseline
KINDS = ("hypothesis", "experiment", "run", "evidence", "debit", "event")
_ID = re.compile(r"\b[ehrv][0-9]+\b")
_PROGRAM = "sh -c 'echo acc={}$((PERPETUAL_SEED % 1000))'"


def _run(lab: Lab, hypothesis_id: str | None, command: str, **design: Any) -> str:
    """Runs a new experiment to its end and returns its id."""
    made = lab.experiments.propose(
        hypothesis_id, command=command, replicates=4, cost_run_hours=0.001, wall_s=60.0, **design
    )
    lab.experiments.approve(made.id)
    lab.runs.launch(made.id, every=True)
    lab.wait([made.id], timeout_s=60.0)
    return made.id


def _renamed(ids: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_ID.sub(lambda match: ids.get(match[0], match[0]), json.dumps(body)))
    return found


def fill(lab: Lab, count: int) -> None:
    """Copies the only baseline, claim and all that belongs to them until there are so many finished experiments."""
    store = lab.context.store
    rows = {kind: store.find(kind) for kind in KINDS}
    base, block = "e1", 0
    while (store.count("experiment")) < count:
        with store.transaction() as tx:
            for _ in range(AT_ONCE):
                block += 1
                made = {kind: tx.count(kind) for kind in KINDS}
                if made["experiment"] >= count:
                    break
                kept = [*rows["experiment"]] if block % RENEWED == 0 else [*rows["experiment"][1:]]
                own = {item.id for item in kept}
                runs = [run for run in rows["run"] if run.body["experiment_id"] in own]
                ids = {"h1": f"h{made['hypothesis'] + 1}", "e1": base}
                ids |= {item.id: f"e{made['experiment'] + place}" for place, item in enumerate(kept, 1)}
                ids |= {run.id: f"r{made['run'] + place}" for place, run in enumerate(runs, 1)}
                ids |= {f"v{row.id}": f"v{made['evidence'] + place}" for place, row in enumerate(rows["evidence"], 1)}
                base = ids["e1"]
                tx.create("hypothesis", _renamed(ids, rows["hypothesis"][0].body))
                for item in kept:
                    body = _renamed(ids, item.body)
                    body["command"] += f" --block {block}"
                    tx.create("experiment", {**body, "spec_hash": spec_hash(body)})
                for run in runs:
                    tx.create("run", _renamed(ids, run.body))
                for row in rows["evidence"]:
                    tx.append("evidence", _renamed(ids, row.body))
                new = {*own, "h1", *(run.id for run in runs), *(f"v{row.id}" for row in rows["evidence"])}
                for row in rows["debit"]:
                    if row.body["run_id"] in new:
                        tx.append("debit", _renamed(ids, row.body))
                for row in rows["event"]:
                    if row.body["subject"] in new:
                        tx.append("event", _renamed(ids, row.body))
    with store.transaction() as tx:
        tx.put("fold", "budget", lab.budget.fold_anew(store.count("debit")))
        place = lab.records("notes.place")  # the notes of the copies are not written
        for noted in place.list().items or [place.add(event=0)]:
            place.update(noted.id, event=tx.count("event"))
    lab.storage.compact()


def opened(lab: Lab) -> None:
    """Adds open claims with approved experiments, and warms up what a daemon has warmed up."""
    for number in range(OPEN):
        claim = lab.hypotheses.add(f"claim {number}", metric="acc", direction="max", mde=0.05, baseline="e1")
        command = f"{_PROGRAM.format('0.65')} --open {number}"
        made = lab.experiments.propose(claim.id, command=command, replicates=6, cost_run_hours=0.001, wall_s=60.0)
        lab.experiments.approve(made.id)
    lab.settings.set_methodology("max_concurrent_runs", "1")
    lab.memory.write("notes/warm.md", "Seeds differ.")
    lab.memory.search("seeds")  # its index takes up the copies
    for _ in range(WARM):
        turn(lab)


def turn(lab: Lab) -> float:
    """Returns the CPU seconds of one cycle, in which a run's end is recorded and the next run starts."""
    lab.loop.stopped("max_cycles", 1)  # the first run of a claim moves nothing, and many of them are no progress
    began = time.process_time()
    done = cycle(lab)
    took = time.process_time() - began
    if not done.launched:
        raise SystemExit(f"nothing was launched: {done}")
    lab.loop.wait_any(60.0)
    return took


def project(folder: Path, store: str, count: int) -> Lab:
    """Returns a lab with so many finished experiments, warm."""
    lab = Lab.init(folder, name="bench", store=store)
    base = _run(lab, None, _PROGRAM.format("0.50"), metric="acc", direction="max")
    claim = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.05, baseline=base)
    _run(lab, claim.id, _PROGRAM.format("0.65"))
    lab.scan()
    assert lab.hypotheses.get(claim.id).status == "supported"
    fill(lab, count)
    opened(lab)
    return lab


def opening(folder: Path) -> None:
    """Opens a project and reads one record."""
    with Lab.open(folder) as lab:
        lab.experiments.list(limit=1)


def best_of(times: int, deed: Any) -> float:
    """Returns the least CPU seconds of so many calls."""
    found = []
    for _ in range(times):
        began = time.process_time()
        deed()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    """Prints a row for each store; `--json` prints one document instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sizes", type=int, nargs=2, default=SIZES, metavar="COUNT")
    parser.add_argument("--stores", nargs="+", default=["tinydb", "sqlite"])
    options = parser.parse_args()
    for name in ("PYTHONDONTWRITEBYTECODE", "PERPETUAL_PROJECT", "PERPETUAL_OUTPUT", *AGENT_VARIABLES):
        os.environ.pop(name, None)
    small, large = options.sizes
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "PERPETUAL_STATE_DIR": os.path.join(scratch, "state"),
                       "PERPETUAL_QUEUE_MOVES": "false"}  # fmt: skip
        for store in options.stores:
            folders = {count: Path(scratch, f"{store}-{count}") for count in options.sizes}
            labs = {count: project(folder, store, count) for count, folder in folders.items()}
            found = dict.fromkeys(labs, float("inf"))
            for _ in range(options.rounds):
                for count, lab in labs.items():
                    found[count] = min(found[count], turn(lab))
            for lab in labs.values():
                lab.queue.set_state("paused")
                lab.close()
            opens = {count: best_of(3, partial(opening, folder)) for count, folder in folders.items()}
            rows.append({
                "store": store, "ratio": round(found[large] / found[small], 2), "goal": GOAL,
                "cycle_ms": {str(count): round(1e3 * seconds, 1) for count, seconds in found.items()},
                "open_ms": {str(count): round(1e3 * seconds, 1) for count, seconds in opens.items()},
            })  # fmt: skip
    if options.json:
        print(json.dumps({"rounds": options.rounds, "rows": rows}))
        return
    print(f"CPU of a cycle with {large:,} finished experiments to one with {small:,}, best of {options.rounds}")
    for row in rows:
        cycles, opens_ms, ratio = row["cycle_ms"], row["open_ms"], row["ratio"]
        verdict = "met" if ratio <= GOAL else "MISSED"
        shown = f"{row['store']:8} {cycles[str(large)]:8.1f} ms, {cycles[str(small)]:.1f} ms: {ratio:.2f}x"
        opened_in = f"{opens_ms[str(large)]:.1f} ms, {opens_ms[str(small)]:.1f} ms"
        print(f"{shown}  goal <= {GOAL}: {verdict}; opening {opened_in}")


if __name__ == "__main__":
    main()
