"""`make bench`: what a proposal costs in a project of 10 and of 10,000 experiments, as a ratio of CPU time.

The 10,000 are written directly. Nothing here is a test: a figure over its goal is said, not failed.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

from perpetual import Lab
from perpetual.lab.ledger.experiments import spec_hash

_GOAL = 2.0
_TIMES = 30
_LARGE = 10_000


def _cpu_ms(deed: Callable[[int], object], start: int) -> float:
    """Returns the best of so many times."""
    best = float("inf")
    for number in range(start, start + _TIMES):
        began = time.process_time()
        deed(number)
        best = min(best, time.process_time() - began)
    return 1000 * best


def _fill(lab: Lab) -> None:
    store = lab.context.store
    while store.count("experiment") < _LARGE:
        with store.transaction() as tx:
            like = tx.get("experiment", "e1")
            assert like is not None
            for number in range(tx.count("experiment") + 1, tx.count("experiment") + 501):
                body = {**like.body, "config": {"n": -number}}
                tx.create("experiment", {**body, "spec_hash": spec_hash(body)})


def main() -> None:
    """Prints a row for each store and deed."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "PERPETUAL_STATE_DIR": os.path.join(scratch, "state")}
        for store in ("tinydb", "sqlite"):
            with Lab.init(os.path.join(scratch, store), name="bench") as lab:
                if store != "tinydb":
                    lab.storage.migrate(store)
                id = lab.hypotheses.add("bench", metric="loss", direction="min", mde=0.1, baseline=1.0).id

                def propose(number: int, lab: Lab = lab, id: str = id) -> None:
                    lab.experiments.propose(id, command="python train.py", config={"n": number}, cost_run_hours=0.1)

                small = _cpu_ms(propose, 0)
                _fill(lab)
                propose(-1)  # which indexes what was written directly
                large = _cpu_ms(propose, 100_000)
                verdict = "met" if large / small <= _GOAL else "MISSED"
                row = f"propose, {store:8} {small:6.2f} ms at 10, {large:6.2f} ms at {_LARGE:,}: {large / small:5.2f}x"
                print(f"{row}  goal <= {_GOAL}: {verdict}")


if __name__ == "__main__":
    main()
