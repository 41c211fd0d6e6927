"""Row 1: programs that write to the record are killed at random instants; nothing acknowledged is lost or half done.

The record's part of it, through `Lab`: deeds that touch several kinds at once, with compactions in between. That runs
are adopted again is the matter of test_demo_survives.py.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perpetual import Lab

SEED = 20
STORES = ("tinydb", "sqlite")

# Forks a writer for each line it reads; a writer that is forked has nothing to import, so that kills hit its deeds.
_WRITERS = """
import os, sys
from perpetual import Lab
from perpetual_tinydb import journal

journal._LEAST_BYTES = 20_000  # so that compactions are hit too
with Lab.open() as lab:
    lab.status()
for line in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        print("dead", flush=True)
        continue
    print(os.getpid(), flush=True)
    lab = Lab.open()
    while True:
        hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
        print(hypothesis.id, flush=True)
        experiment = lab.experiments.propose(hypothesis.id, command="echo acc=1.5", noise=0.05, cost_run_hours=0.001)
        print(experiment.id, flush=True)
        lab.experiments.approve(experiment.id)
        print("approved", experiment.id, flush=True)
"""


@contextmanager
def _writers(project: Path) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(
        [sys.executable, "-c", _WRITERS], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield program
    finally:
        os.killpg(program.pid, signal.SIGKILL)  # a writer of a test that failed as well
        program.communicate()


def _kill(program: subprocess.Popen[str], delay_s: float) -> list[str]:
    """Lets a writer work for a while, kills it, and answers what it had acknowledged."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("go\n")
    program.stdin.flush()
    child = int(program.stdout.readline())
    told = [program.stdout.readline().strip()]
    time.sleep(delay_s)  # the instant is what is tried
    os.kill(child, signal.SIGKILL)
    for line in program.stdout:
        if line == "dead\n":
            return told
        told.append(line.strip())
    raise AssertionError(f"the program that starts the writers ended by itself: {program.wait()}")


def _survive(project: Path, store: str, kills: int) -> None:
    chance = random.Random(SEED)
    with Lab.open(project) as lab:
        lab.config.set("store", store)
    acknowledged: list[str] = []
    with _writers(project) as program:
        for number in range(kills):
            acknowledged += _kill(program, chance.uniform(0.0, 0.03))
            if number % 5 == 4 or number == kills - 1:
                _holds(project, acknowledged, number + 1)


def _holds(project: Path, acknowledged: list[str], kills: int) -> None:
    with Lab.open(project) as lab:
        assert lab.storage.verify() == []
        hypotheses = lab.hypotheses.list(limit=100_000).items
        experiments = lab.experiments.list(limit=100_000).items
        events = lab.events()
    made = [item.id for item in hypotheses] + [item.id for item in experiments]
    approved = [item.id for item in experiments if item.status == "approved"]
    done = [*made, *(f"approved {id}" for id in approved)]
    assert set(acknowledged) <= set(done)
    assert len(acknowledged) == len(set(acknowledged))
    assert len(done) - len(acknowledged) <= kills, "a writer did more than one deed that it did not tell of"
    assert [event.seq for event in events] == [*range(1, len(events) + 1)]
    for kind, ids in (("hypothesis_added", hypotheses), ("experiment_proposed", experiments)):
        assert sorted(event.subject for event in events if event.kind == kind) == sorted(item.id for item in ids)


@pytest.mark.parametrize("store", STORES)
def test_nothing_acknowledged_is_lost(project: Path, store: str) -> None:
    _survive(project, store, kills=10)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", STORES)
def test_nothing_acknowledged_is_lost_at_two_hundred_instants(project: Path, store: str) -> None:
    _survive(project, store, kills=200)
