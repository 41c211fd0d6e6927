"""Two schedulers on one record: one of them starts a run, settles it and adds its evidence; the other finds it done."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.run_harness import LONG_S, approved, opened, single_books

RUNS = 6

# Each scheduler is a process of its own that scans without a pause, as long as anything is live.
_SCHEDULERS = """
import os, sys
from perpetual import Lab

count, deed = int(sys.argv[1]), sys.argv[2]
with Lab.open() as warm:
    warm.status()
    warm.part("scheduler")
gate = os.pipe()
children = []
for worker in range(count):
    if child := os.fork():
        children.append(child)
        continue
    os.close(gate[1])
    with Lab.open(actor=f"scheduler-{worker}") as lab:
        os.read(gate[0], 1)
        if deed == "wait":
            lab.wait(["e1"])
        while lab.runs.live():
            lab.scan()
    os._exit(0)
os.close(gate[1])
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""

_LOOPS = """
import os, sys
from perpetual import Lab
from perpetual.loop import cycle

with Lab.open() as warm:
    warm.status()
children = []
for worker in range(2):
    if child := os.fork():
        children.append(child)
        continue
    with Lab.open(actor=f"loop-{worker}") as lab:
        for number in range(1, 1000):
            done = cycle(lab, number=number)
            if done.reason:
                break
            lab.loop.wait_any(1.0)
    os._exit(0)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


def _ends(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", *arguments], cwd=project, capture_output=True, text=True, timeout=2 * LONG_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("store", "deed"),
    [
        ("tinydb", "scan"),
        pytest.param("sqlite", "scan", marks=pytest.mark.slow),
        pytest.param("tinydb", "wait", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_every_run_is_started_settled_and_counted_once(project: Path, store: str, deed: str) -> None:
    with opened(project, store, max_concurrent_runs="2", auto_retry="oom") as lab:
        # With so much between implementations the hypothesis stays open, in whatever order the runs end: else r2 is not
        # tried again.
        claim = {"metric": "acc", "direction": "max", "mde": 0.1, "baseline": 1.0, "tau": 50.0}
        hypothesis = lab.hypotheses.add("acc rises").id
        lab.queue.set_state("paused")
        script = "echo acc=1.$PERPETUAL_SEED; test $PERPETUAL_RUN != r2 || { echo MemoryError; exit 1; }"
        lab.runs.launch(approved(lab, script, **claim, replicates=RUNS, hypothesis_id=hypothesis), every=True)
        lab.queue.set_state("running")
        assert _ends(project, _SCHEDULERS, "2", deed) == "[0, 0]"
        runs = single_books(lab)
        assert Counter(run.status for run in runs) == {"done": RUNS, "failed": 1}  # r2, and its second attempt is done
        for run in runs:
            assert (lab.runs.log_dir(run.id) / "stdout.log").read_text().count("acc=") == 1
        told = [event for event in lab.events() if event.kind == "run_status"]
        moves = Counter((event.subject, event.payload["to"]) for event in told)
        assert set(moves.values()) == {1}
        # `running` may be passed over: the end of a short run may be seen before its start is noted
        assert {move for move in moves if move[1] != "running"} == {
            (run.id, status) for run in runs for status in ("launching", run.status)
        }
        live: set[str] = set()
        for event in told:
            if event.payload["to"] == "launching":
                live.add(event.subject)
            elif event.payload["to"] != "running":
                live.remove(event.subject)
            assert len(live) <= 2
        assert Counter(row.run_id for row in lab.evidence.list().items) == Counter(
            run.id for run in runs if run.status == "done"
        )
        assert lab.evidence.refold(check=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_two_loops_launch_each_run_once(project: Path, store: str) -> None:
    with opened(project, store, max_concurrent_runs="2", max_run_hours="100") as lab:
        lab.hypotheses.add("acc rises")
        for n in range(3):
            approved(lab, "echo acc=1.$PERPETUAL_SEED", hypothesis_id="h1", metric="acc", direction="max", mde=0.1,
                     baseline=1.0, noise=0.05, replicates=2, config={"n": n}, cost_run_hours=0.001)  # fmt: skip
        assert _ends(project, _LOOPS) == "[0, 0]"
        runs = single_books(lab)
        assert {run.status for run in runs} == {"done"}
        assert len({(run.experiment_id, run.replicate) for run in runs}) == len(runs) > 0
        assert Counter(row.run_id for row in lab.evidence.list().items) == Counter(run.id for run in runs)
